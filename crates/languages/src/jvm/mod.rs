//! HotSpot publishes the places of its code and methods, so that these are read from the memory of
//! its process. From JDK 17 on it writes the names of its compiled code to a perf map on command.

mod attach;
mod code_cache;
mod code_reader;
mod compiled;
mod error;
mod known_methods;
#[cfg(test)]
mod made_up;
mod method;
mod method_layout;
mod packed;
mod process;
mod running;
mod tables;
#[cfg(test)]
mod tests;

pub use attach::write_perf_map;
pub use code_cache::{CodeCache, CodeHeap, MOST_HEAPS};
pub use code_reader::{JavaCode, JavaCodeReader, JavaFrame, JavaReadBudget, SeenCode};
pub use compiled::CompiledCode;
pub use error::AttachError;
pub use method::JavaMethod;
pub use method_layout::MethodLayout;
pub use process::{JvmProcess, is_jvm_image};
pub use running::JvmDescription;
pub use tables::JvmMemory;
