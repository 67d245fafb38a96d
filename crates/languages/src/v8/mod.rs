//! V8, the engine of Node.js: where its frames say which function they execute, and what functions are called.

mod engine;
mod function;
mod heap;
#[cfg(test)]
mod tests;

pub use engine::{V8Engine, V8Layout};
pub use function::{FunctionReader, JsFunction, SharedFunction};
