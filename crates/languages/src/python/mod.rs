//! CPython 3.8 to 3.14.

mod code;
mod interpreter;
mod lines;
mod offsets;

pub use code::{CodeObject, CodeText};
pub use interpreter::Interpreter;
pub use offsets::{FrameCalls, Offsets, Version};
