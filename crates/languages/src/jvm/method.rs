//! Methods of Java: their names, and the lines of their code.

use super::method_layout::{MethodLayout, SourceIndex};
use super::packed::PackedNumbers;
use super::tables::JvmMemory;

/// Length of the longest text that is read.
const MOST_TEXT: usize = 1024;
/// Size of the longest table of lines that is read, in bytes.
const MOST_LINES: usize = 1 << 16;
/// The flag of a method that has a table of lines.
const HAS_LINES: u16 = 1;
/// First byte of an entry that does not fit into a byte, in a table of lines.
const LONG_ENTRY: u8 = 0xff;

/// A method of Java.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaMethod {
    /// Its name with class and packages: `java.util.HashMap.put`.
    pub name: String,
    /// The file of its class, relative to the source directory: `java/util/HashMap.java`.
    pub file: String,
    /// Instructions (bytes of its code) with their lines, by instruction.
    lines: Vec<(u16, u32)>,
    first_line: u32,
    /// Offset of its code in its constant part.
    code: u32,
}

impl JavaMethod {
    /// Returns its first line with code; 0 if no line is known.
    pub fn first_line(&self) -> u32 {
        self.first_line
    }

    /// Returns its approximate size in bytes.
    pub fn memory(&self) -> usize {
        let lines = size_of_val(self.lines.as_slice());
        size_of::<Self>() + self.name.len() + self.file.len() + lines
    }

    /// Returns the line of an instruction; the first line if unknown.
    pub fn line(&self, instruction: Option<u16>) -> u32 {
        let Some(instruction) = instruction else {
            return self.first_line();
        };
        let behind = self.lines.partition_point(|(at, _)| *at <= instruction);
        let before = behind
            .checked_sub(1)
            .and_then(|index| self.lines.get(index));
        before.map_or_else(|| self.first_line(), |(_, line)| *line)
    }

    /// Returns the line at a place in the constant part of an interpreted method.
    pub fn line_at(&self, place: u32) -> u32 {
        let instruction = place.checked_sub(self.code);
        self.line(instruction.and_then(|at| u16::try_from(at).ok()))
    }

    /// Returns its name in reports: `java.util.HashMap.put (HashMap.java:610)`.
    pub fn display_name(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        match (file, self.first_line()) {
            ("", _) => self.name.clone(),
            (_, 0) => format!("{} ({file})", self.name),
            (_, line) => format!("{} ({file}:{line})", self.name),
        }
    }

    /// Reads a method at an address; `None` if there is none.
    pub(super) fn read(layout: &MethodLayout, method: u64, memory: &JvmMemory<'_>) -> Option<Self> {
        let field = |structure: u64, offset: u64| memory.word(structure.checked_add(offset)?);
        let constant = field(method, layout.method_constant)?;
        let constants = field(constant, layout.constants)?;
        let class = field(constants, layout.holder)?;
        let small = |structure: u64, offset: u64| memory.small(structure.checked_add(offset)?);
        let length = memory.half(constants.checked_add(layout.constants_length)?)?;
        let symbol_of = |index: u16| {
            (index > 0 && u32::from(index) < length).then_some(())?;
            let symbol = field(constants, layout.first_constant + 8 * u64::from(index))?;
            read_symbol(layout, symbol, memory)
        };
        let class_name = read_symbol(layout, field(class, layout.class_name)?, memory)?;
        let name = symbol_of(small(constant, layout.name)?)?;
        let source = match layout.source {
            SourceIndex::OfConstants(offset) => small(constants, offset),
            SourceIndex::OfClass(offset) => small(class, offset),
        };
        let source = source.and_then(symbol_of).unwrap_or_default();
        let has_lines = small(constant, layout.flags)? & HAS_LINES != 0;
        let lines = if has_lines {
            read_lines(layout, constant, small(constant, layout.code_size)?, memory)
        } else {
            Vec::new()
        };
        let class_name = without_address(&class_name);
        Some(Self {
            name: format!("{}.{name}", class_name.replace('/', ".")),
            file: source_path(class_name, &source),
            first_line: lines.iter().map(|(_, line)| *line).min().unwrap_or(0),
            lines,
            code: u32::try_from(layout.code).ok()?,
        })
    }
}

/// Returns the path of a source file, from the directories of packages.
fn source_path(class: &str, source: &str) -> String {
    match class.rsplit_once('/') {
        Some((package, _)) if !source.is_empty() => format!("{package}/{source}"),
        _ => source.to_owned(),
    }
}

/// Returns the name of a class without its address: classes made at run time (lambdas) have one,
/// which differs from run to run.
fn without_address(class: &str) -> &str {
    let cut = class.rfind(['/', '+', '.']).filter(|at| {
        let last = class.get(at + 1..).unwrap_or_default();
        let digits = last.strip_prefix("0x").unwrap_or_default();
        digits.len() >= 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    cut.and_then(|at| class.get(..at)).unwrap_or(class)
}

fn read_symbol(layout: &MethodLayout, symbol: u64, memory: &JvmMemory<'_>) -> Option<String> {
    let length = memory.small(symbol.checked_add(layout.symbol_length)?)?;
    let mut bytes = vec![0; usize::from(length).min(MOST_TEXT)];
    (memory.read)(symbol.checked_add(layout.symbol_body)?, &mut bytes).then_some(())?;
    let text = String::from_utf8_lossy(&bytes);
    let is_text = !text.is_empty() && !text.contains(char::is_control);
    is_text.then(|| text.into_owned())
}

/// Reads the packed table of lines after a method's code: differences of instructions and lines.
fn read_lines(
    layout: &MethodLayout,
    constant: u64,
    code_size: u16,
    memory: &JvmMemory<'_>,
) -> Vec<(u16, u32)> {
    let Some(start) = constant.checked_add(layout.code + u64::from(code_size)) else {
        return Vec::new();
    };
    let bytes = memory.bytes_up_to(start, MOST_LINES, |piece| piece.contains(&0));
    let mut packed = PackedNumbers::new(&bytes, layout.packed_excess);
    let (mut instruction, mut line) = (0_i32, 0_i32);
    let mut lines = Vec::new();
    while let Some(first) = packed.byte().filter(|first| *first != 0) {
        let (instructions, more) = match first {
            LONG_ENTRY => match (packed.signed(), packed.signed()) {
                (Some(instructions), Some(lines)) => (instructions, lines),
                _ => break,
            },
            first => (i32::from(first >> 3), i32::from(first & 7)),
        };
        instruction = instruction.saturating_add(instructions);
        line = line.saturating_add(more);
        let (Ok(at), Ok(line)) = (u16::try_from(instruction), u32::try_from(line)) else {
            break;
        };
        lines.push((at, line));
    }
    lines.sort_by_key(|(at, _)| *at);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_have_addresses() {
        let cut = |class| without_address(class);
        assert_eq!(
            cut("a/Main$$Lambda$14/0x00007f0a5c001400"),
            "a/Main$$Lambda$14"
        );
        assert_eq!(cut("a/Main$$Lambda+0x00007f0a5c001400"), "a/Main$$Lambda");
        assert_eq!(cut("a/Main$$Lambda.0x00007f0a5c001400"), "a/Main$$Lambda");
        assert_eq!(
            cut("a/b/0xCafe"),
            "a/b/0xCafe",
            "a name that somebody chose"
        );
        assert_eq!(cut("Main"), "Main");
    }

    #[test]
    fn an_instruction_has_the_line_of_the_one_before() {
        let method = JavaMethod {
            name: "a.Main.run".to_owned(),
            file: "a/Main.java".to_owned(),
            lines: vec![(0, 12), (5, 11), (9, 14)],
            first_line: 11,
            code: 56,
        };
        let line = |at| method.line(Some(at));
        assert_eq!([line(0), line(4), line(5), line(100)], [12, 12, 11, 14]);
        assert_eq!(method.line(None), 11);
        assert_eq!([method.line_at(0), method.line_at(61)], [11, 11]);
        assert_eq!(method.display_name(), "a.Main.run (Main.java:11)");
        let bare = JavaMethod::default();
        assert_eq!(
            (bare.line(Some(3)), bare.display_name()),
            (0, String::new())
        );
    }
}
