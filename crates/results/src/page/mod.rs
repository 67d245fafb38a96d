//! The page's data about a profile, as columns: `vitalfew.page/1`, documented in `docs/page.md`.

mod lines;
mod profile;
mod tree;

pub use lines::{PageLines, PageSource};
pub use profile::{PAGE_SCHEMA, PageFacts, PageMethods, PageProfile, PageValue};
pub use tree::{LeftOutNodes, PageTree};
