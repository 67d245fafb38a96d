//! User half of ruby.h: passes the layout of Ruby's structures to the kernel, and reads the records
//! of methods.

use languages::ruby::{ContextPlace, RubyInterpreter, RubyMethod};

/// `EVAL_RANGES` of python.h, `RUBY_RANKS` and `RUBY_PART` of ruby.h.
const EVAL_RANGES: usize = 4;
const RANKS: usize = 448;
const PART: usize = 12;
/// Greater line numbers are negative numbers: evaluated code (such as templates) can begin before
/// its file.
const MOST_LINE: u32 = 1 << 24;

/// Returns `struct ruby_interpreter`.
pub(crate) fn ruby_bytes(interpreter: &RubyInterpreter) -> Vec<u8> {
    let mut bytes = Vec::new();
    let range = |index: usize| interpreter.evaluation.get(index);
    for end in [false, true] {
        for index in 0..EVAL_RANGES {
            let value = range(index).map_or(0, |r| if end { r.end } else { r.start });
            bytes.extend(value.to_ne_bytes());
        }
    }
    let (module, context) = match interpreter.context {
        ContextPlace::FromThread(offset) => (0, i64::from(offset)),
        ContextPlace::InModule { module, offset } => (module, i64::from(offset)),
    };
    bytes.extend(module.to_ne_bytes());
    bytes.extend(context.to_ne_bytes());
    let offsets = &interpreter.offsets;
    for near in [offsets.frame_size, offsets.location, offsets.lines] {
        bytes.extend(near.to_ne_bytes());
    }
    bytes.extend([offsets.text as u8, u8::from(offsets.tagged_line)]);
    bytes
}

/// Returns the method of a record. It has `parts` parts; `tables` are its ranks and the lines of
/// its parts.
pub(super) fn ruby_method(
    file: String,
    label: String,
    first_line: u32,
    parts: u32,
    tables: &[u8],
) -> RubyMethod {
    let (ranks, lines) = tables.split_at_checked(RANKS).unwrap_or((&[], &[]));
    let ranks = ranks.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
    let lines = lines.chunks_exact(PART).take(parts as usize);
    let in_file = |line: u32| if line > MOST_LINE { 0 } else { line };
    RubyMethod {
        file,
        label,
        first_line: in_file(first_line),
        part_lines: lines
            .filter_map(|part| Some(in_file(u32::from_ne_bytes(*part.first_chunk()?))))
            .collect(),
        ranks: ranks.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use languages::ruby::{RubyOffsets, TextLayout};

    #[test]
    fn the_kernel_half_reads_as_many_bytes() {
        let interpreter = RubyInterpreter {
            evaluation: std::iter::once(16..32).collect(),
            context: ContextPlace::FromThread(-8),
            offsets: RubyOffsets {
                frame_size: 64,
                location: 64,
                lines: 120,
                text: TextLayout::Length,
                tagged_line: false,
            },
        };
        let bytes = ruby_bytes(&interpreter);
        assert_eq!(bytes.len(), 64 + 16 + 8);
        assert_eq!(bytes[72..80], (-8_i64).to_ne_bytes());
    }

    #[test]
    fn methods_have_as_many_lines_as_parts() {
        let mut tables = vec![0; 2048];
        for (part, line) in [7_u32, 9, 11].into_iter().enumerate() {
            let at = RANKS + PART * part;
            tables[at..at + 4].copy_from_slice(&line.to_ne_bytes());
        }
        let lines = |parts, tables: &[u8]| {
            ruby_method(String::new(), String::new(), 5, parts, tables).part_lines
        };
        assert_eq!(lines(3, &tables), [7, 9, 11]);
        assert_eq!(lines(u32::MAX, &tables).len(), (2048 - RANKS) / PART);
        assert!(lines(3, &tables[..10]).is_empty(), "cut off");
    }

    #[test]
    fn lines_in_front_of_the_file_are_none() {
        let mut tables = vec![0; 2048];
        tables[RANKS..RANKS + 4].copy_from_slice(&(-6_i32).to_ne_bytes());
        // The kernel half removes the tag of a 32-bit number.
        let first_line = ((-7_i32 << 1 | 1) as u32) >> 1;
        let method = ruby_method("a.rb".into(), "__tilt_1".into(), first_line, 1, &tables);
        assert_eq!((method.first_line, method.line(0)), (0, 0));
    }
}
