//! Folded (collapsed) stacks: one line a stack, `process;outermost;…;innermost value`.
//!
//! The form of Brendan Gregg's FlameGraph scripts. The root frame is the name of the process. It
//! has no escapes, so special characters are replaced: `;` by `:`, control characters and line
//! separators by `_`, and the space before a number that ends a name by `_` (readers would take the
//! number for the value of a differential profile); a frame `--` becomes `__`.
//!
//! With [`WriteOptions::wakers`] a wait with a waker continues as in bcc's `offwaketime`: the frame
//! `--`, the waker's stack innermost first, and the waker's name.

use crate::frame::{Namer, is_kernel, process_name};
use crate::write::error::check_with_event;
use crate::write::paths::StackPaths;
use crate::write::rows::{SampleRow, add_up, samples_of};
use crate::write::{WriteError, WriteOptions};
use indexmap::IndexSet;
use profile::{NameId, Recording, SymbolTable};
use rustc_hash::FxBuildHasher;
use std::io::{self, BufWriter, Write};

/// The frame between a wait's stack and its waker's.
const WAKER: &str = "--";

/// The frame of a process and the innermost node of a stack in it.
type End = (usize, Option<usize>);

/// Writes one event of a recording as folded stacks, each distinct line once.
///
/// # Errors
/// If the output fails, the event does not exist, or the recording contradicts itself.
pub fn write_folded(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    check_with_event(recording, options.event)?;
    let Some(event) = recording.events.get(usize::from(options.event.0)) else {
        return Ok(());
    };
    let namer = Namer::new(recording, symbols, options);
    let mut names: IndexSet<String, FxBuildHasher> = IndexSet::default();
    let wanted = samples_of(recording, options.event).flat_map(|sample| {
        let waker = sample.waker.filter(|_| options.wakers);
        [Some(sample.stack), waker.and_then(|w| w.stack)]
    });
    let paths = StackPaths::new(&recording.stacks, wanted.flatten(), |location, numbers| {
        let kernel = options.mark_kernel && is_kernel(recording.image(location.image));
        let suffix = if kernel { "_[k]" } else { "" };
        numbers.extend(namer.functions_at(location).map(|function| {
            let name = escape_frame(&function.name) + suffix;
            names.insert_full(name).0
        }));
    });
    // Processes by their safe names too: two names could otherwise make the same line.
    let processes: Vec<usize> = recording
        .names
        .iter()
        .map(|name| names.insert_full(escape_frame(name)).0)
        .collect();
    let process = |id: NameId| processes[id.0 as usize];
    let rows = add_up(
        samples_of(recording, options.event)
            .map(|sample| {
                let waker = sample.waker.filter(|_| options.wakers).map(|waker| {
                    let node = waker.stack.and_then(|stack| paths.node_of_stack(stack));
                    (process(waker.process), node)
                });
                let end = (process(sample.process), paths.node_of_stack(sample.stack));
                SampleRow::new((end, waker), sample)
            })
            .collect(),
    );
    let lines = FoldedWriter { names, paths };
    let mut out = BufWriter::new(out);
    rows.iter()
        .map(|row| (row.key, row.event_value(event)))
        .filter(|(_, value)| *value > 0)
        .try_for_each(|((end, waker), value)| lines.write_line(end, waker, value, &mut out))
        .and_then(|()| out.flush())
        .map_err(WriteError::wrap_io("folded"))
}

/// The texts of the lines.
struct FoldedWriter {
    names: IndexSet<String, FxBuildHasher>,
    paths: StackPaths,
}

impl FoldedWriter {
    fn write_line(
        &self,
        (process, node): End,
        waker: Option<End>,
        value: u64,
        out: &mut impl Write,
    ) -> io::Result<()> {
        out.write_all(self.names[process].as_bytes())?;
        let mut frames: Vec<usize> = self.paths.innermost_first(node).collect();
        frames.reverse();
        self.write_frames(frames, out)?;
        if let Some((process, node)) = waker {
            write!(out, ";{WAKER}")?;
            self.write_frames(self.paths.innermost_first(node), out)?;
            self.write_frames([process], out)?;
        }
        writeln!(out, " {value}")
    }

    fn write_frames(
        &self,
        frames: impl IntoIterator<Item = usize>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        for frame in frames {
            out.write_all(b";")?;
            out.write_all(self.names[frame].as_bytes())?;
        }
        Ok(())
    }
}

/// Returns the name without characters that readers of folded stacks interpret.
fn escape_frame(name: &str) -> String {
    let mut safe: String = process_name(name)
        .chars()
        .map(|c| match c {
            ';' => ':',
            '\u{2028}' | '\u{2029}' => '_',
            c if c.is_control() => '_',
            c => c,
        })
        .collect();
    let number_at = safe.trim_end().rfind(' ').filter(|space| {
        let last = safe[space + 1..].trim_end();
        last.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    if let Some(space) = number_at {
        safe.replace_range(space..=space, "_");
    }
    if safe == WAKER { "__".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::escape_frame;

    #[test]
    fn names_lose_what_readers_would_misread() {
        for (name, expected) in [
            ("main", "main"),
            ("std::map<int, int>::at", "std::map<int, int>::at"),
            ("a;b\nc\r\0d\u{85}e\u{2028}", "a:b_c__d_e_"),
            ("Web Content 3", "Web Content_3"),
            ("x 1 2", "x 1_2"),
            ("x 1.5", "x_1.5"),
            ("f(int) 12 ", "f(int)_12 "),
            ("", "[unknown]"),
            ("--", "__"),
            ("a--", "a--"),
            ("operator int 3d", "operator int 3d"),
        ] {
            assert_eq!(escape_frame(name), expected, "{name:?}");
        }
    }
}
