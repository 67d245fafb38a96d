//! Options of the analysis.

use profile::known_code::known_function;
use profile::{TRACED_ARGUMENTS, TracedBlock};
use regex::Regex;

/// Options of the analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// Overhead that one execution of a traced block adds to the duration of its caller, in ticks
    /// ([`profile::TraceHead::call_overhead`]). It is subtracted.
    pub call_overhead: u64,
    /// Overhead of a sample of each sampled event, in ticks ([`profile::TracedEvent::cost`]).
    pub event_costs: Vec<u64>,
    /// Kinds with fewer executions have no floor of their own (`n_0`).
    pub enough: u64,
    /// Executions of these functions are told apart by the values of these arguments, counted from 1,
    /// instead of by those that are known.
    pub arguments: Vec<(Pattern, Vec<u8>)>,
    /// These blocks are left out, as if they had not been traced.
    pub exclude: Vec<Pattern>,
    /// The numbers of system calls are those of aarch64, and not of x86-64.
    pub aarch64: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call_overhead: 0,
            event_costs: Vec::new(),
            enough: 100,
            arguments: Vec::new(),
            exclude: Vec::new(),
            aarch64: cfg!(target_arch = "aarch64"),
        }
    }
}

/// A pattern for names: `*` is any text, `?` any character.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Option<Regex>,
}

impl Pattern {
    /// The pattern in `text`, which matches whole names, with or without a version (`read@GLIBC_2.2.5`), and
    /// C++ and Rust names also without their parameters and hash.
    pub fn new(text: &str) -> Self {
        let escaped = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
        let tail = r"(@.*|\(.*|::h[0-9a-f]{16})?";
        Self {
            text: text.to_owned(),
            regex: Regex::new(&format!("^(?s:{escaped}){tail}$")).ok(),
        }
    }

    /// Returns whether it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        let regex = self.regex.as_ref();
        name == self.text || regex.is_some_and(|regex| regex.is_match(name))
    }

    /// Returns the text of the pattern, as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Options {
    /// The positions in [`TracedBlock::arguments`] that a block's executions are told apart by.
    pub(super) fn grouping(&self, block: &TracedBlock) -> Vec<usize> {
        let asked = self.arguments.iter().find(|(p, _)| p.matches(&block.name));
        let numbers = match asked {
            Some((_, numbers)) => numbers.as_slice(),
            None => known_function(&block.name).map_or(&[][..], |f| f.arguments),
        };
        let positions = numbers.iter().filter_map(|number| {
            let recorded = block.arguments.iter().take(TRACED_ARGUMENTS);
            recorded.into_iter().position(|a| a == number)
        });
        positions.collect()
    }

    /// Returns how long an execution took without what its traced calls added to it. They add less in very short blocks
    /// than was measured, because the processor overlaps more: never less than they took themselves.
    ///
    /// It took `duration`; inside it `count` others took `inside`.
    #[inline]
    pub(super) fn net(&self, duration: u64, count: u64, inside: u64) -> u64 {
        let added = count.saturating_mul(self.call_overhead);
        duration.saturating_sub(added).max(inside.min(duration))
    }

    /// Returns whether a block is left out.
    pub(super) fn excludes(&self, name: &str) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches("read", "read") && matches("read", "read@GLIBC_2.2.5"));
        assert!(!matches("read", "readv") && matches("read*", "readv"));
        assert!(matches("ns::f", "ns::f(int, char)") && matches("a::b", "a::b::h0123456789abcdef"));
        assert!(matches("operator new[]", "operator new[](unsigned long)"));
        assert!(matches("*::Write", "leveldb::DBImpl::Write(x)"));
        assert!(!matches("f(int", "f") && matches("f(int)", "f(int)"));
    }
}
