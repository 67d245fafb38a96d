//! Functions that interpreters execute.

use crate::python::CodeObject;
use crate::ruby::RubyMethod;
use crate::v8::JsFunction;

/// A function of an interpreted language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptFunction {
    /// A function of Python.
    Python(CodeObject),
    /// A function of Ruby.
    Ruby(RubyMethod),
    /// A function of JavaScript.
    JavaScript(JsFunction),
}

impl ScriptFunction {
    /// Returns its approximate size in bytes.
    pub fn memory(&self) -> usize {
        let more = match self {
            Self::Python(code) => code.lines.len(),
            Self::Ruby(method) => {
                size_of_val(method.part_lines.as_slice()) + size_of_val(method.ranks.as_slice())
            }
            Self::JavaScript(_) => 0,
        };
        size_of::<Self>() + self.file().len() + self.name_and_line().0.len() + more
    }

    /// Returns its file.
    pub fn file(&self) -> &str {
        match self {
            Self::Python(code) => &code.file,
            Self::Ruby(method) => &method.file,
            Self::JavaScript(function) => &function.file,
        }
    }

    /// Returns its name in its file, and its first line.
    pub fn name_and_line(&self) -> (&str, u32) {
        match self {
            Self::Python(code) => (&code.name, code.first_line),
            Self::Ruby(method) => (&method.label, method.first_line),
            Self::JavaScript(function) => (&function.name, function.first_line),
        }
    }

    /// Returns its name in reports.
    pub fn display_name(&self) -> String {
        match self {
            Self::Python(code) => code.display_name(),
            Self::Ruby(method) => method.display_name(),
            Self::JavaScript(function) => function.display_name(),
        }
    }

    /// Returns the line of an instruction.
    pub fn line(&self, index: u32) -> u32 {
        match self {
            Self::Python(code) => code.line(index),
            Self::Ruby(method) => method.line(index),
            Self::JavaScript(function) => function.first_line,
        }
    }
}
