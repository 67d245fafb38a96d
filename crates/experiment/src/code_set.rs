//! Sets of code that are sped up together: a call sequence, or the critical sections of a lock.

use crate::Error;
use crate::attach::mapped_file;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, read::elf::ElfFile64};
use profile::MapsLine;
use runtime_abi::selection::{LONGEST_SEQUENCE, Steps};
use sampler::process_file;
use std::collections::BTreeSet;
use std::path::Path;

/// A set of code that experiments speed up instead of single lines or functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpeedupSet {
    /// Samples whose stack contains these calls in order.
    Sequence(CallSequence),
    /// Code that threads execute while they hold the lock in this variable of the program.
    Lock(String),
}

impl SpeedupSet {
    /// Returns the set's name in profiles.
    pub fn set_name(&self) -> String {
        match self {
            Self::Sequence(sequence) => sequence.to_string(),
            Self::Lock(name) => name.clone(),
        }
    }

    /// Returns the kind of set, in words.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Sequence(_) => "call sequence",
            Self::Lock(_) => "critical sections of this lock",
        }
    }
}

/// Name of all samples outside of the set.
pub(crate) const EVERYTHING_ELSE: &str = "[everything else]";

/// Functions that call each other in this order, as `vitalfew bottlenecks` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSequence {
    /// Runs of functions that call each other directly, outermost first. Other functions may lie
    /// between two runs.
    runs: Vec<Vec<String>>,
}

impl CallSequence {
    /// Parses `a > b > c`; `›` and `;` separate names too, and `…` stands for any functions
    /// between.
    ///
    /// # Errors
    /// [`Error::SequenceSyntax`].
    pub fn parse_sequence(text: &str) -> Result<Self, Error> {
        let refuse = |reason: String| Error::SequenceSyntax {
            text: text.to_owned(),
            reason,
        };
        let separators = [" > ", " › ", " ; "];
        let separated = separators
            .iter()
            .fold(text.to_owned(), |text, it| text.replace(it, "\n"));
        let mut runs = vec![Vec::new()];
        for name in separated.lines().map(str::trim) {
            match name {
                "" => return Err(refuse("a function's name is missing".into())),
                "…" | "..." => runs.push(Vec::new()),
                _ => runs
                    .last_mut()
                    .into_iter()
                    .for_each(|run| run.push(name.to_owned())),
            }
        }
        runs.retain(|run| !run.is_empty());
        let sequence = Self { runs };
        match sequence.len() {
            0 => Err(refuse("it names no function".into())),
            1..=LONGEST_SEQUENCE => Ok(sequence),
            more => Err(refuse(format!(
                "{more} functions are more than {LONGEST_SEQUENCE}; … can stand for those in the middle"
            ))),
        }
    }

    /// Returns the number of functions.
    pub(crate) fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns the function names, outermost first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flatten().map(String::as_str)
    }

    /// Returns the transition table of a place with these functions, innermost first, for the
    /// automaton of the sequence. A state is the number of functions found so far, from the
    /// innermost on.
    pub(crate) fn steps_of(&self, functions: &[String]) -> Steps {
        let wanted: Vec<&str> = self.names().collect();
        let wanted: Vec<&str> = wanted.into_iter().rev().collect();
        let mut begin = 0;
        let begins: Vec<usize> = (self.runs.iter().rev())
            .flat_map(|run| {
                let first = begin;
                begin += run.len();
                std::iter::repeat_n(first, run.len())
            })
            .collect();
        let next = |state: usize, function: &str| {
            // A run once found stays found: the next one may be anywhere above.
            let Some(begin) = begins.get(state).copied() else {
                return state;
            };
            let found = (begin + 1..=state + 1).rev().find(|length| {
                let run = &wanted[begin..*length];
                let Some((last, before)) = run.split_last() else {
                    return false;
                };
                is_named(function, last) && wanted[begin..state].ends_with(before)
            });
            found.unwrap_or(begin)
        };
        Steps::of_states(|state| {
            let state = functions
                .iter()
                .fold(usize::from(state), |state, function| next(state, function));
            state as u8
        })
    }
}

impl std::fmt::Display for CallSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs: Vec<String> = self.runs.iter().map(|run| run.join(" > ")).collect();
        f.write_str(&runs.join(" > … > "))
    }
}

/// Returns whether a function has this name, with or without its argument types.
fn is_named(function: &str, wanted: &str) -> bool {
    function == wanted || function.split('(').next() == Some(wanted)
}

/// Finds the addresses of a variable in a process: its first byte, and the first byte behind it.
pub(crate) fn find_variable(pid: u32, executable: &Path, name: &str) -> Result<(u64, u64), Error> {
    let mut near = BTreeSet::new();
    let text = std::fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
    let files = MapsLine::parse_all(&text)
        .filter(|line| line.file_offset == 0 && line.original_path().starts_with('/'));
    for file in files {
        let range = &file.addresses;
        let path = mapped_file(pid, range.start, range.end, file.original_path());
        let Ok(bytes) = std::fs::read(path) else {
            continue;
        };
        let Ok(elf) = ElfFile64::<Endianness>::parse(&*bytes) else {
            continue;
        };
        // Load address of the file's first byte.
        let mut segments = elf.segments();
        let first = segments.find(|segment| segment.file_range().0 == 0);
        let first = first.map_or(0, |segment| segment.address());
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            let is_data = symbol.kind() == object::SymbolKind::Data && symbol.is_definition();
            let Ok(raw) = symbol.name() else {
                continue;
            };
            if !is_data || symbol.size() == 0 {
                continue;
            }
            let demangled = symbols::demangle_name(raw);
            if raw == name || demangled == name {
                let start = symbol
                    .address()
                    .wrapping_sub(first)
                    .wrapping_add(range.start);
                return Ok((start, start.wrapping_add(symbol.size())));
            }
            let distance = strsim::damerau_levenshtein(&demangled, name);
            if distance <= name.len() / 3 + 1 && near.len() < 10_000 {
                near.insert((distance, demangled.into_owned()));
            }
        }
    }
    Err(Error::NoSuchPlace {
        what: format!("variable {name}"),
        program: executable.to_owned(),
        near: near.into_iter().take(5).map(|(_, name)| name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> CallSequence {
        CallSequence::parse_sequence(text).expect("a sequence")
    }

    /// Returns whether a stack, innermost first, takes the automaton to its end.
    fn is_found(sequence: &CallSequence, stack: &[Vec<String>]) -> bool {
        let walk = |state, place: &Vec<String>| sequence.steps_of(place).next_state(state);
        usize::from(stack.iter().fold(0, walk)) == sequence.len()
    }

    #[test]
    fn sequences_are_read_as_they_are_shown() {
        for text in [
            "a > b::c(int) > d",
            "a › b::c(int) › d",
            "a ; b::c(int) ; d",
        ] {
            assert_eq!(parsed(text).to_string(), "a > b::c(int) > d");
        }
        assert_eq!(parsed("… > a > ... > b").to_string(), "a > … > b");
        assert_eq!(parsed("a").len(), 1);
        let long = vec!["f"; 16].join(" > ");
        for bad in ["", " ", "a >  > b", "…", long.as_str()] {
            assert!(CallSequence::parse_sequence(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_stands_for_all_its_types() {
        assert!(is_named("ns::f(int, char)", "ns::f"));
        assert!(is_named("ns::f(int)", "ns::f(int)"));
        assert!(!is_named("ns::f(int)", "f") && !is_named("ff", "f"));
    }

    #[test]
    fn inlined_functions_are_calls_as_others() {
        let place = |functions: &[&str]| functions.iter().map(|it| (*it).to_owned()).collect();
        let stack: Vec<Vec<String>> = vec![place(&["d", "c", "b"]), place(&["a"])];
        for found in ["b > c", "a > b", "a > b > c > d", "b", "a > … > d"] {
            assert!(is_found(&parsed(found), &stack), "{found}");
        }
        for missed in ["a > c", "d > c", "a > b > d", "c > … > c"] {
            assert!(!is_found(&parsed(missed), &stack), "{missed}");
        }
    }

    proptest! {
        #[test]
        fn the_automaton_finds_what_a_search_of_the_stack_finds(
            runs in prop::collection::vec(prop::collection::vec("[ab]", 1..4), 1..3),
            stack in prop::collection::vec(prop::collection::vec("[ab]", 0..3), 0..12),
        ) {
            let sequence = CallSequence { runs: runs.clone() };
            let mut functions: Vec<String> = stack.iter().flatten().cloned().collect();
            functions.reverse();
            // Each run is matched as near to the outermost function as possible.
            let mut rest = functions.as_slice();
            let found = runs.iter().all(|run| {
                let at = rest.windows(run.len()).position(|window| window == run);
                rest = at.map_or(&[], |at| &rest[at + run.len()..]);
                at.is_some()
            });
            prop_assert_eq!(is_found(&sequence, &stack), found);
        }
    }
}
