//! Executions of source lines, by gcov (`--json-format`) or in lcov's form (`llvm-cov export
//! -format=lcov`, geninfo, cargo-llvm-cov).

use crate::tree::Limits;
use crate::tree::error::{Fault, Place};
use crate::tree::input::Input;
use crate::tree::lines::Lines;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::io::Read;

/// Memory that a line takes, about.
const LINE: u64 = 32;
/// Memory that the text of gcov takes when it is read, about, for each of its bytes.
const TEXT: u64 = 2;

/// The parts of a path before the last, the last of them first, and the counts of its lines.
type File = (Vec<String>, FxHashMap<u32, u64>);

/// How often source lines were executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// By the last part of the path.
    files: FxHashMap<String, Vec<File>>,
    /// Lines with a count.
    lines: u64,
}

/// What gcov says of a program's file.
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
    /// How many lines have a count.
    pub fn len(&self) -> u64 {
        self.lines
    }

    /// Whether no line has one.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The counts of a file's lines: of that file whose path ends like this one, as far as
    /// possible, if there is one such file. (Programs are counted and measured in other builds,
    /// which may lie elsewhere.)
    pub fn of(&self, path: &str) -> Option<&FxHashMap<u32, u64>> {
        let (name, directories) = parts(path);
        let files = self.files.get(&name)?;
        let alike = |other: &[String]| {
            let pairs = directories.iter().zip(other);
            pairs.take_while(|(one, other)| one == other).count()
        };
        let most = files.iter().map(|(other, _)| alike(other)).max()?;
        let mut best = files.iter().filter(|(other, _)| alike(other) == most);
        let (_, lines) = best.next()?;
        best.next().is_none().then_some(lines)
    }

    /// Adds the counts of another run or of other files.
    pub fn join(&mut self, other: Self) {
        for (name, files) in other.files {
            for (directories, lines) in files {
                for (line, count) in lines {
                    self.add(&name, &directories, line, count);
                }
            }
        }
    }

    fn add(&mut self, name: &str, directories: &[String], line: u32, count: u64) {
        if !self.files.contains_key(name) {
            self.files.insert(name.to_owned(), Vec::new());
        }
        let Some(files) = self.files.get_mut(name) else {
            return;
        };
        let place = files.iter().position(|(other, _)| other == directories);
        let place = place.unwrap_or_else(|| {
            files.push((directories.to_vec(), FxHashMap::default()));
            files.len() - 1
        });
        if let Some((_, lines)) = files.get_mut(place) {
            let sum = lines.entry(line).or_insert_with(|| {
                self.lines += 1;
                0
            });
            *sum = sum.saturating_add(count);
        }
    }

    /// What gcov wrote, of one file or of several, one after the other.
    pub(super) fn gcov(input: &mut Input, limits: &Limits) -> Result<Self, Fault> {
        let mut found = Self::default();
        let most = limits.memory / TEXT;
        let mut text = input.take(most);
        let all = serde_json::Deserializer::from_reader(&mut text).into_iter::<Gcov>();
        let mut failed = None;
        for one in all {
            match one {
                Ok(one) => found.gcov_program(one)?,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if text.limit() == 0 {
            let what = "it needs more memory than the limit allows";
            return Err(Fault::too_large(what, Place::Offset(most)));
        }
        match failed {
            None => found.checked("gcov"),
            Some(error) if error.is_io() => Err(std::io::Error::from(error).into()),
            Some(error) => {
                let at = Place::Column {
                    line: error.line() as u64,
                    column: error.column() as u64,
                };
                let text = error.to_string();
                let what = text.split(" at line ").next().unwrap_or_default();
                Err(Fault::damaged(what, at))
            }
        }
    }

    fn gcov_program(&mut self, one: Gcov) -> Result<(), Fault> {
        let Some(files) = one.files else {
            let what = match one.kind.starts_with("llvm.coverage") {
                true => "llvm-cov's JSON; export it with -format=lcov",
                false => "JSON, but not what gcov --json-format writes: it has no files",
            };
            return Err(Fault::Lacks(what.to_owned()));
        };
        for file in files {
            let path = match file.file.starts_with('/') {
                true => file.file,
                false => format!("{}/{}", one.current_working_directory, file.file),
            };
            let (name, directories) = parts(&path);
            for line in file.lines {
                self.add(&name, &directories, line.line_number, line.count);
            }
        }
        Ok(())
    }

    /// What is in lcov's form.
    pub(super) fn lcov(input: &mut Input, limits: &Limits) -> Result<Self, Fault> {
        let mut found = Self::default();
        let mut lines = Lines::new(input);
        let mut file = None;
        while let Some((at, line)) = lines.next()? {
            if let Some(path) = line.strip_prefix("SF:") {
                file = Some(parts(path));
            } else if line == "end_of_record" {
                file = None;
            } else if let Some(counted) = line.strip_prefix("DA:") {
                let mut fields = counted.split(',');
                let mut number = || fields.next()?.parse::<u64>().ok();
                let line = number().and_then(|line| u32::try_from(line).ok());
                let (Some(line), Some(count)) = (line, number()) else {
                    return Err(Fault::damaged("not DA:LINE,COUNT", at));
                };
                let Some((name, directories)) = &file else {
                    return Err(Fault::damaged("DA: before the file, SF:", at));
                };
                found.add(name, directories, line, count);
            }
            if found.lines > limits.memory / LINE {
                let what = "its lines need more memory than the limit allows";
                return Err(Fault::too_large(what, at));
            }
        }
        found.checked("lcov")
    }

    fn checked(self, format: &str) -> Result<Self, Fault> {
        match self.lines {
            0 => Err(Fault::Lacks(format!(
                "no counts of lines in what is {format}'s form"
            ))),
            _ => Ok(self),
        }
    }
}

/// The last part of a path, and those before it, from the last to the first.
fn parts(path: &str) -> (String, Vec<String>) {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part.to_owned()),
        }
    }
    let name = parts.pop().unwrap_or_default();
    parts.reverse();
    (name, parts)
}
