//! V8, the engine of Node.js: the functions of its frames, and their names.

mod engine;
mod function;
mod heap;
#[cfg(test)]
mod tests;

pub use engine::{V8Engine, V8Layout};
pub use function::{FunctionReader, JsFunction, SharedFunction};
