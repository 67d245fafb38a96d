//! Executions of source lines, by gcov (`--json-format`) or in lcov's form (`llvm-cov export
//! -format=lcov`, geninfo, cargo-llvm-cov).

use crate::read::ReadLimits;
use crate::read::error::{FilePosition, ReadFault};
use crate::read::input::ProfileInput;
use crate::read::lines::LineReader;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::io::Read;

/// Upper bound of the memory of a line, and of a file beside its path, while their tables grow.
const LINE: u64 = 64;
const FILE: u64 = 768;
/// Upper bound of the memory for each byte of gcov's text during parsing: files without lines are
/// the worst.
const TEXT: u64 = 16;

/// The counts of a file's lines.
type File = FxHashMap<u32, u64>;

/// Execution counts of source lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Files by the last component of their path, then by the one before it.
    files: FxHashMap<String, FxHashMap<String, File>>,
    /// Number of lines with a count.
    lines: u64,
    /// Approximate memory of the counts.
    memory: u64,
}

/// The fields of gcov's JSON that are read.
#[derive(Deserialize)]
struct Gcov {
    #[serde(default)]
    current_working_directory: String,
    files: Option<Vec<GcovFile>>,
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct GcovFile {
    file: String,
    #[serde(default)]
    lines: Vec<GcovLine>,
}

#[derive(Deserialize)]
struct GcovLine {
    line_number: u32,
    count: u64,
}

impl LineCounts {
    /// Returns the number of lines with a count.
    pub fn len(&self) -> u64 {
        self.lines
    }

    /// Returns whether no line has a count.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Returns the counts of the counted file whose path shares the longest end with this one;
    /// `None` if there are several. Programs are counted and measured in different builds, which
    /// may be in different directories.
    pub fn lines_of_file(&self, path: &str) -> Option<&FxHashMap<u32, u64>> {
        let (name, directories) = split_path(path);
        let files = self.files.get(&name)?;
        let alike = |other: &str| {
            let pairs = directories.rsplit('/').zip(other.rsplit('/'));
            pairs.take_while(|(one, other)| one == other).count()
        };
        let most = files.keys().map(|other| alike(other)).max()?;
        let mut best = files.iter().filter(|(other, _)| alike(other) == most);
        let (_, lines) = best.next()?;
        best.next().is_none().then_some(lines)
    }

    /// Adds the counts of another run or of other files.
    pub fn merge_counts(&mut self, other: Self) {
        for (name, files) in other.files {
            for (directories, lines) in files {
                for (line, count) in lines {
                    self.add_line(&name, &directories, line, count);
                }
            }
        }
    }

    fn add_line(&mut self, name: &str, directories: &str, line: u32, count: u64) {
        let known = self.files.get_mut(name);
        match known.and_then(|files| files.get_mut(directories)) {
            Some(lines) => {
                let before = lines.len();
                let sum = lines.entry(line).or_default();
                *sum = sum.saturating_add(count);
                let new = (lines.len() - before) as u64;
                self.lines += new;
                self.memory += new * LINE;
            }
            None => {
                let files = self.files.entry(name.to_owned()).or_default();
                files.insert(
                    directories.to_owned(),
                    FxHashMap::from_iter([(line, count)]),
                );
                self.lines += 1;
                self.memory += LINE + FILE + (name.len() + directories.len()) as u64;
            }
        }
    }

    fn check_limits(&self, limits: &ReadLimits, at: FilePosition) -> Result<(), ReadFault> {
        if self.memory > limits.memory {
            let what = "its lines need more memory than the limit allows";
            Err(ReadFault::too_large(what, at))
        } else {
            Ok(())
        }
    }

    /// Reads the output of gcov for one file or several, one after the other.
    pub(super) fn read_gcov(
        input: &mut ProfileInput,
        limits: &ReadLimits,
    ) -> Result<Self, ReadFault> {
        let mut found = Self::default();
        let most = limits.memory / TEXT;
        let mut text = input.take(most);
        let all = serde_json::Deserializer::from_reader(&mut text).into_iter::<Gcov>();
        let mut failed = None;
        for one in all {
            match one {
                Ok(one) => {
                    found.gcov_program(one)?;
                    found.check_limits(limits, FilePosition::Offset(most))?;
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if text.limit() == 0 {
            let what = "it needs more memory than the limit allows";
            return Err(ReadFault::too_large(what, FilePosition::Offset(most)));
        }
        match failed {
            None => found.reject_empty("gcov"),
            Some(error) if error.is_io() => Err(std::io::Error::from(error).into()),
            Some(error) => {
                let at = FilePosition::Column {
                    line: error.line() as u64,
                    column: error.column() as u64,
                };
                let text = error.to_string();
                let what = text.split(" at line ").next().unwrap_or_default();
                Err(ReadFault::damaged(what, at))
            }
        }
    }

    fn gcov_program(&mut self, one: Gcov) -> Result<(), ReadFault> {
        let Some(files) = one.files else {
            let what = if one.kind.starts_with("llvm.coverage") {
                "llvm-cov's JSON; export it with -format=lcov"
            } else {
                "JSON, but not what gcov --json-format writes: it has no files"
            };
            return Err(ReadFault::Lacks(what.to_owned()));
        };
        for file in files {
            let path = if file.file.starts_with('/') {
                file.file
            } else {
                format!("{}/{}", one.current_working_directory, file.file)
            };
            let (name, directories) = split_path(&path);
            for line in file.lines {
                self.add_line(&name, &directories, line.line_number, line.count);
            }
        }
        Ok(())
    }

    /// Reads counts in lcov's form.
    pub(super) fn read_lcov(
        input: &mut ProfileInput,
        limits: &ReadLimits,
    ) -> Result<Self, ReadFault> {
        let mut found = Self::default();
        let mut lines = LineReader::new(input);
        let mut file = None;
        while let Some((at, line)) = lines.next_line()? {
            if let Some(path) = line.strip_prefix("SF:") {
                file = Some(split_path(path));
            } else if line == "end_of_record" {
                file = None;
            } else if let Some(counted) = line.strip_prefix("DA:") {
                let mut fields = counted.split(',');
                let mut number = || fields.next()?.parse::<u64>().ok();
                let line = number().and_then(|line| u32::try_from(line).ok());
                let (Some(line), Some(count)) = (line, number()) else {
                    return Err(ReadFault::damaged("not DA:LINE,COUNT", at));
                };
                let Some((name, directories)) = &file else {
                    return Err(ReadFault::damaged("DA: before the file, SF:", at));
                };
                found.add_line(name, directories, line, count);
            }
            found.check_limits(limits, at)?;
        }
        found.reject_empty("lcov")
    }

    fn reject_empty(self, format: &str) -> Result<Self, ReadFault> {
        match self.lines {
            0 => Err(ReadFault::Lacks(format!(
                "no counts of lines in what is {format}'s form"
            ))),
            _ => Ok(self),
        }
    }
}

/// Splits a path into its last component and the one before it.
fn split_path(path: &str) -> (String, String) {
    let mut clean = String::with_capacity(path.len());
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => clean.truncate(clean.rfind('/').unwrap_or(0)),
            part => {
                if !clean.is_empty() {
                    clean.push('/');
                }
                clean.push_str(part);
            }
        }
    }
    match clean.rsplit_once('/') {
        Some((directories, name)) => (name.to_owned(), directories.to_owned()),
        None => (clean, String::new()),
    }
}
