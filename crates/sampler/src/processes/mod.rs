//! Processes: launching and holding them, what is mapped in them, and the images that this names.

pub(crate) mod images;
pub(crate) mod launch;
pub(crate) mod maps;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tracee;
pub(crate) mod unreadable;
pub(crate) mod vdso;

pub use launch::{Exit, Launched};
pub use unreadable::{FindNames, Named, Names, Unreadable, find_names};
pub use vdso::bytes as vdso_bytes;
