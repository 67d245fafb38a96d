//! The page: as one file with its data, or served to the browsers of this machine.
//!
//! The page itself is built by Vite from `web/` and embedded here; see `build.rs`. What it shows is one JSON document
//! (`vitalfew.page/1`, `docs/page.md`), which this crate does not look into.
#![forbid(unsafe_code)]

mod guard;
mod http;
mod page;

pub use http::{DataSource, PageData, PageServer, ServerError};
pub use page::{IS_STUB, compress_data, page_with_data};
