//! Ruby 3.1 and 3.3 (CRuby).

mod interpreter;
mod method;

pub use interpreter::{ContextPlace, RubyInterpreter, RubyOffsets, TextLayout};
pub use method::RubyMethod;
