//! Reader of code blobs of a JVM, from the memory of its process.

use super::compiled::CompiledCode;
use super::known_methods::KnownMethods;
use super::method::JavaMethod;
use super::method_layout::MethodLayout;
use super::tables::JvmMemory;
use crate::read_budget::ReadBudget;
use std::rc::Rc;

/// Least cost of a read, in bytes, because it is a system call.
const READ_COST: usize = 256;
/// Names of the code blobs for compiled methods.
const COMPILED: [&str; 2] = ["nmethod", "native nmethod"];
/// The file of code blobs that are no methods, and that of methods without one.
const STUB_FILE: &str = "[jvm]";
const NO_FILE: &str = "[java]";

/// Executed code of a JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JavaCode {
    /// An interpreted method.
    Interpreted(Rc<JavaMethod>),
    /// A compiled method, with the methods inlined into it.
    Compiled(CompiledCode),
    /// Another code blob of the JVM, by its name.
    Stub(String),
}

/// A function at a place: the file, the name, the first line, and the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaFrame<'a> {
    /// The file of its source.
    pub file: &'a str,
    /// Its name with its class.
    pub name: &'a str,
    /// Its first line; 0 if unknown.
    pub first_line: u32,
    /// The executed line; 0 if unknown.
    pub line: u32,
    /// Its name in reports.
    pub display_name: String,
}

impl JavaCode {
    /// Returns its approximate size in bytes.
    pub fn memory(&self) -> usize {
        match self {
            Self::Interpreted(method) => method.memory(),
            Self::Compiled(code) => code.memory(),
            Self::Stub(name) => name.len(),
        }
    }

    /// Returns the functions at a place, the innermost first. The place is an offset in the code;
    /// for an interpreted method, in its constant part.
    pub fn frames_at(&self, place: u32) -> Vec<JavaFrame<'_>> {
        match self {
            Self::Interpreted(method) => vec![JavaFrame::of_method(method, method.line_at(place))],
            Self::Compiled(code) => {
                let methods = code.methods_at(place).into_iter();
                methods
                    .map(|(method, line)| JavaFrame::of_method(method, line))
                    .collect()
            }
            Self::Stub(name) => vec![JavaFrame {
                file: STUB_FILE,
                name,
                first_line: 0,
                line: 0,
                display_name: name.clone(),
            }],
        }
    }
}

impl<'a> JavaFrame<'a> {
    fn of_method(method: &'a JavaMethod, line: u32) -> Self {
        let file = match method.file.as_str() {
            "" => NO_FILE,
            file => file,
        };
        Self {
            file,
            name: &method.name,
            first_line: method.first_line(),
            line,
            display_name: method.display_name(),
        }
    }
}

/// Addresses seen at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenCode {
    /// An interpreted method, and its constant part.
    Interpreted {
        /// Its address.
        method: u64,
        /// The address of its constant part.
        constant: u64,
    },
    /// A code blob: its block, and the word at the place of a compiled method's method.
    Piece {
        /// Its address.
        block: u64,
        /// The word.
        method: u64,
    },
}

/// Reads the code of one JVM.
pub struct JavaCodeReader {
    layout: MethodLayout,
    known: KnownMethods,
}

/// Limit on the data read from all JVMs: reading one with damaged tables could take minutes.
#[derive(Default)]
pub struct JavaReadBudget {
    budget: ReadBudget,
    unread: u64,
}

impl JavaReadBudget {
    /// Returns the number of code blobs that were not read in full, because the budget was spent.
    pub fn unread(&self) -> u64 {
        self.unread
    }
}

impl JavaCodeReader {
    /// Creates a reader for a JVM with this layout.
    pub fn new(layout: MethodLayout) -> Self {
        Self {
            layout,
            known: KnownMethods::default(),
        }
    }

    /// Returns the seen code; `None` if it is gone, or the budget is spent.
    pub fn read_code(
        &mut self,
        seen: SeenCode,
        memory: &JvmMemory<'_>,
        allowed: &mut JavaReadBudget,
    ) -> Option<JavaCode> {
        let budget = &allowed.budget;
        let read = |address: u64, bytes: &mut [u8]| {
            budget.spend(bytes.len().max(READ_COST) as u64);
            budget.has_left() && (memory.read)(address, bytes)
        };
        let memory = JvmMemory { read: &read };
        let code = match seen {
            SeenCode::Interpreted { method, constant } => {
                self.read_interpreted(method, constant, &memory)
            }
            SeenCode::Piece { block, method } => self.read_piece(block, method, &memory),
        };
        allowed.unread += u64::from(!budget.has_left());
        code
    }

    fn read_interpreted(
        &self,
        method: u64,
        constant: u64,
        memory: &JvmMemory<'_>,
    ) -> Option<JavaCode> {
        let at = method.checked_add(self.layout.method_constant)?;
        (memory.word(at)? == constant).then_some(())?;
        let method = JavaMethod::read(&self.layout, method, memory)?;
        Some(JavaCode::Interpreted(Rc::new(method)))
    }

    fn read_piece(&mut self, block: u64, method: u64, memory: &JvmMemory<'_>) -> Option<JavaCode> {
        let piece = block.checked_add(self.layout.piece.structure)?;
        let name = memory.word(piece.checked_add(self.layout.piece.name)?)?;
        let name = memory.text(name)?;
        if !COMPILED.contains(&name.as_str()) {
            let is_text = !name.is_empty() && !name.contains(char::is_control);
            return is_text.then_some(JavaCode::Stub(name));
        }
        let at = piece.checked_add(self.layout.piece.method)?;
        (memory.word(at)? == method).then_some(())?;
        let code = CompiledCode::read(&self.layout, piece, memory, &mut self.known)?;
        Some(JavaCode::Compiled(code))
    }
}
