//! The page's data about a profile, as columns: `vitalfew.page/1`, documented in `docs/page.md`.

mod code;
mod lines;
mod profile;
mod timeline;
mod tree;

pub use code::{PageBlocks, PageCode, PageCulprit, PageEdges, PageInstructions, PageProcedure};
pub use lines::{PageLines, PageSource};
pub use profile::{PAGE_SCHEMA, PageFacts, PageMethods, PageProfile, PageValue};
pub use timeline::{PageEpoch, PageTimeline, PageWakes, join_slices};
pub use tree::{LeftOutNodes, PageTree};
