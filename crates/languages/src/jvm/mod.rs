//! HotSpot from JDK 17 on: it writes the names of its compiled code to a perf map when it is asked to, and publishes how large its frames are.

mod attach;
mod code_cache;
mod error;
mod process;

pub use attach::write_perf_map;
pub use code_cache::{CodeCache, CodeHeap, JvmMemory, MOST_HEAPS};
pub use error::AttachError;
pub use process::{JvmProcess, is_jvm_image};
