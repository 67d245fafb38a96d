//! The BPF programs, and the user half of each, which loads it and reads its counts and records.
//! The C files beside this one are the kernel half.

pub(crate) mod credits;
pub(crate) mod external_waits;
pub(crate) mod followed;
pub(crate) mod frame_words;
pub(crate) mod go;
pub(crate) mod hotspot;
pub(crate) mod interrupt;
pub(crate) mod kernel;
pub(crate) mod labels;
pub(crate) mod layout;
pub(crate) mod load_failure;
pub(crate) mod pins;
pub(crate) mod programs;
pub(crate) mod python;
pub(crate) mod ruby;
pub(crate) mod snapshots;
pub(crate) mod tables;
pub(crate) mod task_accounts;
pub(crate) mod thread_waits;
pub(crate) mod ticks;
pub(crate) mod v8;

pub use credits::KernelCredits;
pub use external_waits::{ExternalWaits, PendingCall};
pub use interrupt::Interrupts;
pub use pins::{LeftBehind, bpf_file_system, may_count, mounted_bpf_file_system, remove_pins};
pub use thread_waits::{CpuUser, FrameLayout, ThreadWait, Waits};
pub use ticks::{Ticks, WithheldTicks};
