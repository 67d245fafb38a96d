//! Processes: launching and stopping them, their mappings, and the mapped images.

pub(crate) mod cgroups;
pub(crate) mod command_files;
pub(crate) mod cpus;
mod end_requests;
pub(crate) mod images;
mod inheritance;
pub(crate) mod jvm;
pub(crate) mod launch;
pub(crate) mod maps;
pub(crate) mod perf_map;
pub(crate) mod runtime_environment;
pub(crate) mod sockets;
pub(crate) mod startup_files;
pub(crate) mod stat;
pub(crate) mod threads;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tracee;
pub(crate) mod unreadable;
pub(crate) mod vdso;

pub use command_files::{command_text, find_program, program_text};
pub use cpus::{parse_cpu_list, usable_cpus};
pub use inheritance::{pass_inheritance_on, was_ignored};
pub use launch::{Exit, Launched};
pub use stat::ProcessStat;
pub use threads::{
    has_running_threads, process_file, process_of_thread, thread_ids, threads_or_process,
};
pub use unreadable::{FindNames, Named, Names, Unreadable, find_names};
pub use vdso::own_vdso as vdso_bytes;
