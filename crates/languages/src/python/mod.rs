//! CPython 3.8 to 3.14.

mod code;
mod interpreter;
mod lines;
mod offsets;
mod thread_names;

pub use code::{CodeObject, CodeText};
pub use interpreter::Interpreter;
pub use offsets::{FrameCalls, Offsets, Version};
pub use thread_names::{ReadMemory, ThreadNames};
