//! Exact instruction counts, as callgrind writes them with `--dump-instr=yes` (and, for branches,
//! `--collect-jumps=yes`).

use profile::ImageAddress;
use rustc_hash::FxHashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum length of a line, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reason that counts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CallgrindError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line does not match the format.
    #[error("{}: line {line} (offset {offset:#x}): {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Start of the line, in bytes.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// The file has no counts of single instructions.
    #[error("{}: no counts of instructions; run valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes", path.display())]
    NoInstructions {
        /// The file.
        path: PathBuf,
    },
}

/// The counts of a file.
#[derive(Clone, Debug, Default)]
pub struct CallgrindCounts {
    /// Executions by object and address.
    executed: FxHashMap<(u32, u64), u64>,
    /// Jumps by object, source and target.
    jumped: FxHashMap<(u32, u64), Vec<(u64, u64)>>,
    /// Calls within an object, by source and target.
    called: FxHashMap<(u32, u64), Vec<(u64, u64)>>,
    /// Procedures of each name: object and first executed address.
    procedures: FxHashMap<String, FxHashMap<u32, u64>>,
}

/// The counts of one procedure.
#[derive(Clone, Copy, Debug)]
pub struct ProcedureCounts<'a> {
    counts: &'a CallgrindCounts,
    object: u32,
    /// Difference between callgrind's addresses and the image's.
    bias: u64,
}

impl ProcedureCounts<'_> {
    /// Returns how often an instruction was executed.
    pub fn times_executed(&self, at: ImageAddress) -> u64 {
        let key = (self.object, at.0.wrapping_add(self.bias));
        self.counts.executed.get(&key).copied().unwrap_or(0)
    }

    /// Returns how often a branch was taken: to one target, or in total.
    pub fn times_jumped(&self, at: ImageAddress, to: Option<ImageAddress>) -> u64 {
        let key = (self.object, at.0.wrapping_add(self.bias));
        let jumps = self.counts.jumped.get(&key).map(Vec::as_slice);
        let wanted = to.map(|to| to.0.wrapping_add(self.bias));
        let found = jumps.unwrap_or_default().iter();
        let found = found.filter(|(target, _)| wanted.is_none_or(|wanted| wanted == *target));
        found.fold(0, |sum, (_, times)| sum.saturating_add(*times))
    }

    /// Returns the targets of an instruction's calls within its own image, and the number of calls
    /// to each.
    pub fn calls_from(&self, at: ImageAddress) -> impl Iterator<Item = (ImageAddress, f64)> + '_ {
        let key = (self.object, at.0.wrapping_add(self.bias));
        let calls = self.counts.called.get(&key).into_iter().flatten();
        let bias = self.bias;
        calls.map(move |(to, times)| (ImageAddress(to.wrapping_sub(bias)), *times as f64))
    }
}

impl CallgrindCounts {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not what callgrind writes.
    pub fn read_file(path: &Path) -> Result<Self, CallgrindError> {
        let io = |source| CallgrindError::Io {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(io)?;
        Self::parse_callgrind(path, &mut BufReader::new(file))
    }

    /// Parses the contents of a file of this name.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn parse_callgrind(path: &Path, input: &mut impl BufRead) -> Result<Self, CallgrindError> {
        let mut parser = Parser::default();
        let (mut line, mut number, mut offset) = (Vec::new(), 0, 0);
        loop {
            line.clear();
            let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut line);
            let read = read.map_err(|source| CallgrindError::Io {
                path: path.to_owned(),
                source,
            })?;
            if read == 0 {
                break;
            }
            number += 1;
            let text = String::from_utf8_lossy(&line);
            parser
                .parse_line(text.trim_end())
                .map_err(|what| CallgrindError::Line {
                    path: path.to_owned(),
                    line: number,
                    offset,
                    what,
                })?;
            offset += read as u64;
        }
        if parser.counts.executed.is_empty() {
            return Err(CallgrindError::NoInstructions {
                path: path.to_owned(),
            });
        }
        Ok(parser.counts)
    }

    /// Returns the counts of a procedure that starts at an address of its image: of this name, or
    /// of this name without parameters. `None` if the file has none, or several of this name.
    pub fn counts_of_procedure(
        &self,
        name: &str,
        start: ImageAddress,
    ) -> Option<ProcedureCounts<'_>> {
        let short = name.split('(').next().unwrap_or(name);
        let found = self
            .procedures
            .get(name)
            .or_else(|| self.procedures.get(short))?;
        let mut all = found.iter();
        let (object, first) = all.next()?;
        all.next().is_none().then(|| ProcedureCounts {
            counts: self,
            object: *object,
            // The first executed instruction is at the procedure's start.
            bias: first.wrapping_sub(start.0),
        })
    }
}

#[derive(Default)]
struct Parser {
    counts: CallgrindCounts,
    /// Numbered names, of objects and of functions.
    objects: FxHashMap<String, String>,
    functions: FxHashMap<String, String>,
    numbers: FxHashMap<String, u32>,
    object: u32,
    function: String,
    address: u64,
    /// `positions: instr …`
    has_instructions: bool,
    /// The next line is of a call, whose costs are the callee's: its number of calls, and its
    /// target if that is given.
    of_call: Option<(u64, Option<u64>)>,
    /// The object of the next callee, if it differs.
    callee: Option<u32>,
    /// The next line is of a jump: its count and target.
    of_jump: Option<(u64, u64)>,
}

impl Parser {
    fn parse_line(&mut self, line: &str) -> Result<(), &'static str> {
        let first = line.bytes().next().unwrap_or(b'#');
        if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'*') {
            return self.parse_cost(line);
        }
        if let Some(positions) = line.strip_prefix("positions:") {
            self.has_instructions = positions.split_whitespace().next() == Some("instr");
        } else if let Some(name) = line.strip_prefix("ob=") {
            self.object = self.number_of(name)?;
        } else if let Some(name) = line.strip_prefix("fn=") {
            let name = expand_name(&mut self.functions, name)?;
            // Recursion levels are counted separately: name'2.
            self.function = name.split('\'').next().unwrap_or_default().to_owned();
        } else if let Some(name) = line.strip_prefix("cfn=") {
            expand_name(&mut self.functions, name)?;
        } else if let Some(name) = line.strip_prefix("cob=") {
            self.callee = Some(self.number_of(name)?);
        } else if let Some(call) = line.strip_prefix("calls=") {
            let mut words = call.split_whitespace();
            let times =
                parse_number(words.next().unwrap_or_default()).ok_or("not a number of calls")?;
            let inside = self
                .callee
                .take()
                .is_none_or(|object| object == self.object);
            let target = words.next().filter(|_| inside && self.has_instructions);
            self.of_call = Some((times, target.and_then(|word| self.parse_position(word))));
        } else if let Some(jump) = line.strip_prefix("jump=") {
            let mut words = jump.split_whitespace();
            let times =
                parse_number(words.next().unwrap_or_default()).ok_or("not a number of jumps")?;
            self.parse_jump(times, words.next())?;
        } else if let Some(jump) = line.strip_prefix("jcnd=") {
            let mut words = jump.split_whitespace();
            let taken = words.next().and_then(|word| word.split_once('/'));
            let taken = taken
                .and_then(|(taken, _)| parse_number(taken))
                .ok_or("not TAKEN/EXECUTED")?;
            self.parse_jump(taken, words.next())?;
        }
        Ok(())
    }

    /// Returns the number of an object.
    fn number_of(&mut self, name: &str) -> Result<u32, &'static str> {
        let name = expand_name(&mut self.objects, name)?;
        let next = self.numbers.len() as u32;
        Ok(*self.numbers.entry(name).or_insert(next))
    }

    fn parse_jump(&mut self, times: u64, target: Option<&str>) -> Result<(), &'static str> {
        let target = target.and_then(|word| self.parse_position(word));
        self.of_jump = Some((times, target.ok_or("no target of a jump")?));
        Ok(())
    }

    /// Parses an address, which may be relative to the previous one.
    fn parse_position(&self, word: &str) -> Option<u64> {
        match word.split_at_checked(1)? {
            ("+", more) => self.address.checked_add(parse_number(more)?),
            ("-", less) => self.address.checked_sub(parse_number(less)?),
            ("*", _) => Some(self.address),
            _ => parse_number(word),
        }
    }

    fn parse_cost(&mut self, line: &str) -> Result<(), &'static str> {
        if !self.has_instructions {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let address = self.parse_position(words.next().unwrap_or_default());
        self.address = address.ok_or("not an address")?;
        let key = (self.object, self.address);
        if let Some((times, target)) = self.of_jump.take() {
            self.counts
                .jumped
                .entry(key)
                .or_default()
                .push((target, times));
            return Ok(());
        }
        if let Some((times, target)) = self.of_call.take() {
            let calls = target.map(|target| (target, times));
            self.counts.called.entry(key).or_default().extend(calls);
            return Ok(());
        }
        // The source line, then the costs.
        let cost = words
            .nth(1)
            .map_or(Some(0), parse_number)
            .ok_or("not a cost")?;
        let sum = self.counts.executed.entry(key).or_default();
        *sum = sum.saturating_add(cost);
        let procedure = self
            .counts
            .procedures
            .entry(self.function.clone())
            .or_default();
        let first = procedure.entry(self.object).or_insert(self.address);
        *first = (*first).min(self.address);
        Ok(())
    }
}

/// Expands a name: `(1) name` defines a number, `(1)` uses it; a name may stand alone.
fn expand_name(names: &mut FxHashMap<String, String>, text: &str) -> Result<String, &'static str> {
    let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
        return Ok(text.to_owned());
    };
    let name = name.trim();
    if name.is_empty() {
        return names
            .get(number)
            .cloned()
            .ok_or("a name that was not defined");
    }
    names.insert(number.to_owned(), name.to_owned());
    Ok(name.to_owned())
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "\
version: 1
positions: instr line
events: Ir

ob=(1) /bin/app
fl=(1) a.c
fn=(1) work
0x401000 3 10
+4 3 10
cfn=(2) other
calls=2 0x402000 9
+4 4 500
cob=(2) /lib/c
cfn=(3) write
calls=1 0x409000 9
* 4 50
0x401008 4 10
jcnd=7/10 0x401000 3
0x40100c 5
0x40100c 5 10
fn=(2)
0x402000 9 2
";

    fn read(text: &str) -> Result<CallgrindCounts, CallgrindError> {
        CallgrindCounts::parse_callgrind(Path::new("f"), &mut text.as_bytes())
    }

    #[test]
    fn executions_and_jumps_by_the_images_addresses() {
        let counts = read(FILE).expect("valid");
        let work = counts
            .counts_of_procedure("work", ImageAddress(0x1000))
            .expect("there");
        for at in [0x1000, 0x1004, 0x1008, 0x100c] {
            assert_eq!(work.times_executed(ImageAddress(at)), 10, "{at:x}");
        }
        assert_eq!(
            work.times_jumped(ImageAddress(0x100c), Some(ImageAddress(0x1000))),
            7
        );
        assert_eq!(work.times_jumped(ImageAddress(0x100c), None), 7);
        assert_eq!(work.times_jumped(ImageAddress(0x1000), None), 0);
        // Without calls into another object.
        let called: Vec<_> = work.calls_from(ImageAddress(0x1008)).collect();
        assert_eq!(called, [(ImageAddress(0x2000), 2.0)]);
        let other = counts
            .counts_of_procedure("other(int)", ImageAddress(0x2000))
            .expect("there");
        assert_eq!(other.times_executed(ImageAddress(0x2000)), 2);
        assert!(
            counts
                .counts_of_procedure("none", ImageAddress(0))
                .is_none()
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let bad = FILE.replace("0x402000 9 2", "0x402000 9 x");
        let error = read(&bad).expect_err("bad").to_string();
        assert_eq!(error, "f: line 22 (offset 0x10e): not a cost");
        let lines = FILE.replace("positions: instr line", "positions: line");
        assert!(matches!(
            read(&lines),
            Err(CallgrindError::NoInstructions { .. })
        ));
        assert!(read(&FILE.replace("fn=(2)\n", "fn=(9)\n")).is_err());
    }

    proptest! {
        #[test]
        fn damage_is_no_panic(at in 0..FILE.len(), byte: u8, end in 0..FILE.len()) {
            let mut bytes = FILE.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = CallgrindCounts::parse_callgrind(Path::new("f"), &mut bytes.as_slice());
            let _ = CallgrindCounts::parse_callgrind(Path::new("f"), &mut &bytes[..end]);
        }
    }
}
