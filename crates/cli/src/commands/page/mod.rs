//! `vitalfew html` and `vitalfew serve`: everything on one page.

pub mod args;
mod html;
mod serve;
mod stub;

pub use html::run as html;
pub use serve::run as serve;
