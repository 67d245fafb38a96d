//! User half of python.h: passes the layout of an interpreter's structures to the kernel, and reads
//! the records of code objects.

use super::hotspot::JavaReaders;
use super::ruby::ruby_method;
use super::v8::seen_function;
use crate::Error;
use crate::processes::jvm::NamedJvms;
use crate::processes::threads::process_file;
use languages::ScriptFunction;
use languages::jvm::JavaCode;
use languages::python::{CodeObject, CodeText, Interpreter, Version};
use languages::v8::FunctionReader;
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// `EVAL_RANGES`, `NO_FIELD`, `CODE_TEXT` and `INSTRUCTION_BITS` of python.h.
const EVAL_RANGES: usize = 4;
const NO_FIELD: u16 = 0xffff;
const CODE_TEXT: usize = 256;
const INSTRUCTION_BITS: u32 = 20;
/// Bytes of `struct interpreter`.
const INTERPRETER: usize = 136;
/// `LANGUAGE_RUBY`, `LANGUAGE_V8` and `LANGUAGE_JAVA`.
const LANGUAGE_RUBY: u32 = 1;
const LANGUAGE_V8: u32 = 2;
const LANGUAGE_JAVA: u32 = 3;
/// Offsets of the fields of `struct code_record`.
const FILE_AT: usize = 40;
const NAME_AT: usize = FILE_AT + 8 + CODE_TEXT;
const LINES_AT: usize = NAME_AT + 8 + CODE_TEXT;
/// Size limit of a line table that is read.
const MOST_LINES: u32 = 1 << 20;

/// The ring buffer through which code objects come.
pub(crate) const CODE_RECORDS: &str = "code_records";

/// A frame of Python in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptFrame {
    /// Number of its code object; 0: none.
    pub code: u64,
    /// Index of its instruction.
    pub index: u32,
}

impl ScriptFrame {
    /// Decodes a word of a user stack; `None` if it is an address.
    pub fn of_word(word: u64) -> Option<Self> {
        let index = (word & ((1 << INSTRUCTION_BITS) - 1)) as u32;
        (word >> 63 == 1).then_some(Self {
            code: (word & !(1 << 63)) >> INSTRUCTION_BITS,
            index,
        })
    }
}

/// Returns `struct interpreter`.
pub(crate) fn interpreter_bytes(interpreter: &Interpreter) -> Vec<u8> {
    let offsets = &interpreter.offsets;
    let mut bytes = Vec::with_capacity(INTERPRETER);
    let range = |index: usize| interpreter.evaluation.get(index);
    for end in [false, true] {
        for index in 0..EVAL_RANGES {
            let value = range(index).map_or(0, |r| if end { r.end } else { r.start });
            bytes.extend(value.to_ne_bytes());
        }
    }
    bytes.extend(interpreter.runtime.to_ne_bytes());
    bytes.extend(interpreter.code_type.to_ne_bytes());
    for far in [
        offsets.interpreters_head,
        offsets.interpreter_next,
        offsets.interpreter_threads,
    ] {
        bytes.extend(far.to_ne_bytes());
    }
    for near in [
        offsets.thread_next,
        offsets.thread_id,
        offsets.thread_frame,
        offsets.holder_frame.unwrap_or(NO_FIELD),
        offsets.frame_size,
        offsets.frame_code,
        offsets.frame_previous,
        offsets.frame_instruction,
        offsets.frame_mark,
        offsets.code_first_line,
        offsets.code_file,
        offsets.code_name,
        offsets.code_lines,
        offsets.code_instructions.unwrap_or(NO_FIELD),
        offsets.ascii_data,
        offsets.text_data,
        offsets.bytes_data,
    ] {
        bytes.extend(near.to_ne_bytes());
    }
    bytes.extend([offsets.calls as u8, offsets.mark]);
    bytes.extend(u16::from(interpreter.version.minor).to_ne_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Meaning of a frame that is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameCode {
    Function(ScriptFunction),
    /// One or more functions, depending on the place in the code.
    Java(JavaCode),
}

impl FrameCode {
    /// Returns its approximate size in bytes.
    pub fn memory(&self) -> usize {
        match self {
            Self::Function(function) => function.memory(),
            Self::Java(code) => code.memory(),
        }
    }
}

/// Reads descriptions of code from the memory of processes.
#[derive(Default)]
struct MemoryReaders {
    functions: FunctionReader,
    jvms: JavaReaders,
}

/// Reads the records of code objects that the kernel half sends.
pub(crate) struct CodeRecords {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<(u64, FrameCode)>>>,
    /// Number of Java code blobs that were not read in full.
    unread: Rc<Cell<u64>>,
}

impl CodeRecords {
    /// Reads the records of this ring buffer; `named` has the JVMs whose code they may describe.
    pub fn new(map: &dyn MapCore, named: NamedJvms) -> Result<Self, Error> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let unread = Rc::new(Cell::new(0));
        let (to, unread_to) = (Rc::clone(&read), Rc::clone(&unread));
        let mut readers = MemoryReaders {
            functions: FunctionReader::default(),
            jvms: JavaReaders::new(named),
        };
        let keep = move |bytes: &[u8]| {
            to.borrow_mut().extend(parse_object(bytes, &mut readers));
            unread_to.set(readers.jvms.unread());
            0
        };
        let what = "reading names of functions";
        let mut builder = RingBufferBuilder::new();
        builder.add(map, keep).map_err(Error::bpf(what))?;
        let ring = builder.build().map_err(Error::bpf(what))?;
        Ok(Self { ring, read, unread })
    }

    /// Returns the code objects that have arrived since the last call, by number.
    pub fn take(&self) -> Vec<(u64, FrameCode)> {
        // Unreadable records stay for the next call.
        let _ = self.ring.consume();
        self.read.take()
    }

    /// Returns the warning that names are missing because the limit on reading was reached, if it
    /// was.
    pub fn warn_of_unread(&self) -> Option<String> {
        let unread = self.unread.get();
        (unread > 0).then(|| {
            format!(
                "{unread} pieces of code of Java have no names, or not those of inlined calls: to read what their JVM says of them took more than a second in a minute, as in a JVM whose memory is damaged"
            )
        })
    }
}

fn parse_object(bytes: &[u8], readers: &mut MemoryReaders) -> Option<(u64, FrameCode)> {
    let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk::<8>()?));
    let half = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?));
    let number = word(0)?;
    let (language, pid) = (half(36)?, half(16)?);
    if language == LANGUAGE_JAVA {
        let code = readers
            .jvms
            .seen_code(pid, word(8)?, bytes.get(LINES_AT..)?)?;
        return Some((number, FrameCode::Java(code)));
    }
    let function = match language {
        LANGUAGE_V8 => {
            let seen = bytes.get(LINES_AT..)?;
            let function = seen_function(pid, word(8)?, seen, &mut readers.functions)?;
            ScriptFunction::JavaScript(function)
        }
        _ => copied_function(bytes, language)?,
    };
    Some((number, FrameCode::Function(function)))
}

/// Returns the function of a record that describes it completely.
fn copied_function(bytes: &[u8], language: u32) -> Option<ScriptFunction> {
    let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk::<8>()?));
    let half = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?));
    let file = lossy_text(bytes.get(FILE_AT..NAME_AT)?);
    let name = lossy_text(bytes.get(NAME_AT..LINES_AT)?);
    let copied = bytes.get(LINES_AT..)?;
    if language == LANGUAGE_RUBY {
        let method = ruby_method(file, name, half(20)?, half(24)?, copied);
        return Some(ScriptFunction::Ruby(method));
    }
    let copied = copied.get(..half(28)? as usize).unwrap_or(copied);
    let code = CodeObject {
        version: Version {
            major: 3,
            minor: half(32)? as u8,
        },
        file,
        name,
        first_line: half(20)?,
        lines: all_lines(half(16)?, word(8)?, half(24)?, copied),
    };
    Some(ScriptFunction::Python(code))
}

fn lossy_text(bytes: &[u8]) -> String {
    let length = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let (kind, is_cut) = (bytes[2], bytes[3] != 0);
    if kind == 0 {
        return "[unreadable]".to_owned();
    }
    let bytes = &bytes[8..];
    let bytes = bytes.get(..usize::from(length)).unwrap_or(bytes);
    let text = CodeText { kind, bytes }.to_text();
    if is_cut { format!("…{text}") } else { text }
}

/// Returns the line table: all of it if the process still has it, otherwise the part that the
/// kernel half copied.
fn all_lines(pid: u32, address: u64, length: u32, copied: &[u8]) -> Vec<u8> {
    if length as usize <= copied.len() || length > MOST_LINES {
        return copied.to_vec();
    }
    let mut all = vec![0; length as usize];
    let read = File::open(process_file(pid, "mem"))
        .and_then(|memory| memory.read_exact_at(&mut all, address));
    match read {
        Ok(()) if all.starts_with(copied) => all,
        _ => copied.to_vec(),
    }
}

/// `struct python_counts`, summed over the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonCounts {
    /// Walks that met an interpreter.
    pub stacks: u64,
    /// Walks among them on threads that the interpreter does not know.
    pub threadless: u64,
    /// Frames that could not be read, or were invalid.
    pub broken: u64,
    /// Code objects that could not be described for lack of room.
    pub unsent: u64,
}

impl PythonCounts {
    /// Sums up the counts of a language of `enum script_language` over all CPUs.
    pub fn read_sums(map: &dyn MapCore, language: u32) -> Self {
        let mut sums = [0_u64; 5];
        let per_cpu = map.lookup_percpu(&language.to_ne_bytes(), MapFlags::ANY);
        for cpu in per_cpu.ok().flatten().unwrap_or_default() {
            for (sum, word) in sums.iter_mut().zip(cpu.chunks_exact(8)) {
                *sum += word.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        let [stacks, _, threadless, broken, unsent] = sums;
        Self {
            stacks,
            threadless,
            broken,
            unsent,
        }
    }

    /// Returns a warning if many functions are missing on stacks.
    pub fn warn_of_missing(&self, language: &str) -> Option<String> {
        let missing = self.threadless + self.broken;
        if missing * 100 < self.stacks {
            return None;
        }
        (missing > 0).then(|| {
            format!(
                "{missing} of {} stacks of {language} lack some of its functions: {} are of threads that the interpreter does not know, {} had frames that could not be read",
                self.stacks, self.threadless, self.broken
            )
        })
    }
}

/// Passes interpreters to the kernel, and which images have them.
pub(crate) struct InterpreterTable {
    interpreters: MapHandle,
    images: MapHandle,
    known: Vec<Vec<u8>>,
}

impl InterpreterTable {
    /// `MOST_INTERPRETERS` of python.h.
    const MOST: usize = 64;

    /// Makes an empty table.
    pub fn new(interpreters: MapHandle, images: MapHandle) -> Self {
        Self {
            interpreters,
            images,
            known: Vec::new(),
        }
    }

    /// Records the interpreter of an image, in the kernel half's form. Returns false if there is no
    /// room for another one.
    pub fn set_interpreter(
        &mut self,
        image: u32,
        interpreter: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        let mut index = 0_u32;
        if let Some(bytes) = interpreter {
            let known = self.known.iter().position(|known| *known == bytes);
            index = known.unwrap_or(self.known.len()) as u32 + 1;
            if index as usize >= Self::MOST {
                return Ok(false);
            }
            if known.is_none() {
                update_map(&self.interpreters, index, &bytes)?;
                self.known.push(bytes);
            }
        }
        update_map(&self.images, image, &index.to_ne_bytes())?;
        Ok(true)
    }
}

fn update_map(map: &MapHandle, index: u32, value: &[u8]) -> Result<(), Error> {
    let update = map.update(&index.to_ne_bytes(), value, MapFlags::ANY);
    update.map_err(Error::bpf("describing an interpreter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_the_highest_bit_are_frames() {
        assert_eq!(ScriptFrame::of_word(0x7fff_ffff_ffff), None);
        let word = 1 << 63 | 0x7ff_ffff_ffff << 20 | 7;
        let frame = ScriptFrame::of_word(word).unwrap();
        assert_eq!((frame.code, frame.index), (0x7ff_ffff_ffff, 7));
    }

    #[test]
    fn records_that_are_cut_off_say_nothing() {
        let parse = |bytes: &[u8]| match parse_object(bytes, &mut MemoryReaders::default())? {
            (number, FrameCode::Function(function)) => Some((number, function)),
            (_, FrameCode::Java(_)) => None,
        };
        assert_eq!(parse(&[0; LINES_AT - 1]), None);
        let mut bytes = vec![0; LINES_AT];
        bytes[28] = 200; // more lines than there are
        let (number, code) = parse(&bytes).unwrap();
        assert_eq!((number, code.name_and_line().0), (0, "[unreadable]"));
        bytes[NAME_AT..NAME_AT + 4].copy_from_slice(&[255, 255, 1, 0]);
        assert_eq!(
            parse(&bytes).unwrap().1.name_and_line().0.chars().count(),
            CODE_TEXT
        );
    }
}
