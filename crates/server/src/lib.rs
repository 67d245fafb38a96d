//! The page: as one file with its data, or served to the browsers of this machine.
//!
//! The page itself is built by Vite from `web/` and embedded here; see `build.rs`. It shows one
//! JSON document (`vitalfew.page/1`, `docs/page.md`), which this crate does not parse.
//!
//! # From a profile to the page
//!
//! For `html` and `serve`, `orchestration/src/page_content.rs` gathers profiles as columns
//! (`results::page`), and the `--json` of other commands, in one document. This crate puts it into
//! the built page, or answers browsers that know the token (`guard.rs`). In the browser
//! `web/src/model` reads the document and computes, without a DOM; `web/src/charts` and
//! `web/src/views` draw.
#![forbid(unsafe_code)]

mod guard;
mod http;
mod page;

pub use http::{DataSource, PageData, PageServer, ServerError};
pub use page::{IS_STUB, compress_data, page_with_data};
