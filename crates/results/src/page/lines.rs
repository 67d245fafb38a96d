//! Source lines with their cost, and the text around the dearest ones.

use super::code::PageProcedure;
use crate::report::sample_amount;
use ::profile::{EventId, Recording, SymbolTable};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::io::Read;
use std::path::Path;

/// The lines with most of the cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageLines {
    /// Paths of files, as the debug information spells them.
    pub files: Vec<String>,
    /// The position in `files` of each line's file.
    pub file: Vec<u32>,
    /// Its number, from 1.
    pub line: Vec<u32>,
    /// Its function.
    pub function: Vec<String>,
    /// The last parts of paths of images.
    pub images: Vec<String>,
    /// Position in `images` of the image with each line's code.
    pub image: Vec<u32>,
    /// Cost of the first event at the line itself.
    pub own: Vec<f64>,
    /// Cost of the line with its callees; recursion counted once.
    pub total: Vec<f64>,
    /// The text around lines, if it could be read.
    pub sources: Vec<PageSource>,
}

/// A part of a source file.
#[derive(Clone, Debug, Serialize)]
pub struct PageSource {
    /// Position of its path in [`PageLines::files`].
    pub file: u32,
    /// Number of the first line.
    pub first: u32,
    /// The lines.
    pub text: Vec<String>,
}

/// Maximum number of lines in the data: those with most cost.
const LINES: usize = 1000;
/// Number of lines shown before and after one of the [`SHOWN`].
const AROUND: u32 = 12;
/// Number of lines shown with their surroundings.
const SHOWN: usize = 60;
/// Number of lines shown because of their callees' cost: findings lead to the lines that ask for
/// work, which may have no own cost.
const CALLING: usize = 120;
/// Size above which files are not read. All of SQLite is one file of 9 MB.
const LONGEST_FILE: u64 = 16 << 20;
/// Length at which lines are cut.
const LONGEST_LINE: usize = 400;

/// Endings of source files' names. A foreign recording can name any file. Without this list, a page
/// made from it and sent away could contain a secret of this machine.
const SOURCE_ENDINGS: &[&str] = &[
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inl", "ipp", "rs", "go", "py", "pyx", "js",
    "mjs", "ts", "tsx", "java", "kt", "scala", "swift", "zig", "nim", "d", "f", "f90", "s", "S",
    "asm", "rb", "php", "cs", "m", "mm", "cu", "tcc",
];

#[derive(Default)]
struct Cost {
    own: f64,
    total: f64,
}

impl PageLines {
    /// Adds up the first event's samples by line, and reads the text around the lines with most
    /// samples.
    pub fn of_recording(
        recording: &Recording,
        table: &SymbolTable,
        procedures: &[PageProcedure],
    ) -> Self {
        let mut costs: FxHashMap<(&str, u32, &str), (Cost, &str)> = FxHashMap::default();
        let mut seen = FxHashSet::default();
        for sample in recording.samples.iter().filter(|s| s.event == EventId(0)) {
            let amount = sample_amount(recording, sample);
            seen.clear();
            let mut innermost = true;
            for location in recording.stacks.locations(sample.stack) {
                let frames = table.get(location).map_or(&[][..], |r| &r.inlined);
                let image = formats::base_name(recording.image(location.image));
                for frame in frames {
                    let at_leaf = std::mem::take(&mut innermost);
                    let (Some(file), Some(line)) = (&frame.file, frame.line) else {
                        continue;
                    };
                    let key = (&**file, line, image);
                    let (cost, _) = costs
                        .entry(key)
                        .or_insert_with(|| (Cost::default(), &frame.function));
                    cost.own += if at_leaf { amount } else { 0.0 };
                    cost.total += if seen.insert(key) { amount } else { 0.0 };
                }
                innermost = false;
            }
        }
        let mut rows: Vec<_> = costs.into_iter().collect();
        rows.sort_by(|(a, (x, _)), (b, (y, _))| {
            let weight = |cost: &Cost| (cost.own, cost.total);
            let (x, y) = (weight(x), weight(y));
            let by_own = y.0.total_cmp(&x.0);
            by_own.then(y.1.total_cmp(&x.1)).then_with(|| a.cmp(b))
        });
        let totals = rows.iter().map(|(_, (cost, _))| cost.total);
        let calling = positions_of_largest(totals, CALLING);
        let mut positions = 0..;
        rows.retain(|_| {
            let position = positions.next().unwrap_or(usize::MAX);
            position < LINES || calling.contains(&position)
        });
        let mut lines = Self::default();
        let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
        let mut images: FxHashMap<&str, u32> = FxHashMap::default();
        for ((file, line, image), (cost, function)) in rows {
            lines
                .file
                .push(number_of(file, &mut numbers, &mut lines.files));
            lines
                .image
                .push(number_of(image, &mut images, &mut lines.images));
            lines.line.push(line);
            lines.function.push(function.to_owned());
            lines.own.push(cost.own);
            lines.total.push(cost.total);
        }
        let mut shown = Vec::new();
        for (file, line) in procedures.iter().flat_map(PageProcedure::sampled_lines) {
            shown.push((number_of(file, &mut numbers, &mut lines.files), line));
        }
        lines.read_sources(&shown);
        lines
    }

    /// Reads the text around the dearest lines, and around `shown` ones.
    fn read_sources(&mut self, shown: &[(u32, u32)]) {
        let calling = positions_of_largest(self.total.iter().copied(), CALLING);
        let places = self.file.iter().copied().zip(self.line.iter().copied());
        let dear = places.enumerate();
        let dear = dear.filter(|(position, _)| *position < SHOWN || calling.contains(position));
        let mut wanted: Vec<(u32, u32)> = dear.map(|(_, place)| place).collect();
        wanted.extend(shown);
        wanted.sort_unstable();
        let mut parts: Vec<(u32, u32, u32)> = Vec::new();
        for (file, line) in wanted {
            let (first, last) = (
                line.saturating_sub(AROUND).max(1),
                line.saturating_add(AROUND),
            );
            match parts.last_mut() {
                Some(part) if part.0 == file && first <= part.2.saturating_add(1) => part.2 = last,
                _ => parts.push((file, first, last)),
            }
        }
        let mut text: Option<(u32, Option<String>)> = None;
        for (file, first, last) in parts {
            if text.as_ref().is_none_or(|(read, _)| *read != file) {
                text = Some((file, read_source(Path::new(&self.files[file as usize]))));
            }
            let Some((_, Some(text))) = &text else {
                continue;
            };
            let shown = text
                .lines()
                .skip(first as usize - 1)
                .take((last - first + 1) as usize);
            let cut = |line: &str| line.chars().take(LONGEST_LINE).collect::<String>();
            let text: Vec<String> = shown.map(cut).collect();
            if !text.is_empty() {
                self.sources.push(PageSource { file, first, text });
            }
        }
    }
}

/// Returns the position of a name in `names`; adds it if it is new.
fn number_of<'a>(
    name: &'a str,
    numbers: &mut FxHashMap<&'a str, u32>,
    names: &mut Vec<String>,
) -> u32 {
    *numbers.entry(name).or_insert_with(|| {
        names.push(name.to_owned());
        names.len() as u32 - 1
    })
}

/// Returns the positions of the `count` largest amounts, the first ones among equals.
fn positions_of_largest(amounts: impl Iterator<Item = f64>, count: usize) -> FxHashSet<usize> {
    let mut amounts: Vec<(usize, f64)> = amounts.enumerate().collect();
    amounts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let largest = amounts.into_iter().take(count);
    largest.map(|(position, _)| position).collect()
}

/// Returns the text of a source file, if it is one and can be read.
fn read_source(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    if !path.is_absolute() || !SOURCE_ENDINGS.contains(&ending) || !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_source_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "one\ntwo\nthree\n").expect("written");
            path.display().to_string()
        };
        let mut lines = PageLines {
            files: vec![
                write("x.c"),
                write("shadow"),
                write("key.pem"),
                "relative.c".to_owned(),
            ],
            file: vec![0, 1, 2, 3, 0],
            line: vec![2, 1, 1, 1, 4_000_000_000],
            ..PageLines::default()
        };
        lines.read_sources(&[]);
        assert_eq!(lines.sources.len(), 1);
        assert_eq!((lines.sources[0].file, lines.sources[0].first), (0, 1));
        assert_eq!(lines.sources[0].text, ["one", "two", "three"]);
    }

    #[test]
    fn where_work_is_asked_for_is_read_though_it_costs_nothing_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.c");
        let text: String = (1..=9000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, text).expect("written");
        // The caller ranks after all lines with own cost.
        let own = 200;
        let mut lines = PageLines {
            files: vec![path.display().to_string()],
            file: vec![0; own + 1],
            line: (0..own as u32)
                .map(|at| 1 + 40 * at)
                .chain([8990])
                .collect(),
            total: vec![1.0; own].into_iter().chain([200.0]).collect(),
            ..PageLines::default()
        };
        lines.read_sources(&[]);
        let shown = |line: u32| {
            let mut parts = lines.sources.iter();
            parts.any(|part| (part.first..part.first + part.text.len() as u32).contains(&line))
        };
        assert!(shown(8990) && shown(1) && !shown(1 + 40 * 199));
    }
}
