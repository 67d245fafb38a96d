//! Profiles of every format that is read, as call trees.

mod folded;
mod support;
