//! Sample profiles for optimising compilers, in the text form that LLVM reads (`clang
//! -fprofile-sample-use=FILE`, `llvm-profdata merge --sample`): how often each place of each
//! function ran, inlined calls separately.
//!
//! ```text
//! function:total:head
//!  offset[.discriminator]: count [callee:calls ...]
//!  offset[.discriminator]: inlined function:total
//!   offset[.discriminator]: count
//! ```

use std::collections::BTreeMap;
use std::io::Write;

/// A place in a function: lines below its declaration, and the discriminator of several places on
/// one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AutofdoPlace {
    /// Lines below the function's first one, modulo 2¹⁶.
    pub offset: u16,
    /// The base discriminator; 0: none.
    pub discriminator: u32,
}

/// The execution count of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutofdoCount {
    /// Executions.
    pub count: u64,
    /// Functions called from the place, with the number of calls.
    pub callees: BTreeMap<String, u64>,
}

/// The counts of a function, or of one inlined call of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutofdoFunction {
    /// The number of entries; 0 for inlined calls.
    pub head: u64,
    /// Its places.
    pub body: BTreeMap<AutofdoPlace, AutofdoCount>,
    /// Calls that were inlined into it, by place and linkage name.
    pub inlined: BTreeMap<AutofdoPlace, BTreeMap<String, Self>>,
}

impl AutofdoFunction {
    /// Returns the function at the end of a chain of inlined calls.
    pub fn inlined_function(&mut self, calls: &[(AutofdoPlace, String)]) -> &mut Self {
        calls.iter().fold(self, |function, (place, callee)| {
            let inlined = function.inlined.entry(*place).or_default();
            inlined.entry(callee.clone()).or_default()
        })
    }

    /// Records the execution count of a place. Several instructions may have one place: the highest
    /// count applies.
    pub fn record_execution(&mut self, place: AutofdoPlace, count: u64) {
        let known = &mut self.body.entry(place).or_default().count;
        *known = count.max(*known);
    }

    /// Returns the sum of all counts, including inlined calls.
    pub fn total_count(&self) -> u64 {
        let own = self.body.values().map(|count| count.count);
        let inlined = self.inlined.values().flat_map(BTreeMap::values);
        own.chain(inlined.map(Self::total_count))
            .fold(0, u64::saturating_add)
    }

    fn write_function(&self, depth: usize, out: &mut dyn Write) -> std::io::Result<()> {
        for (place, count) in &self.body {
            write!(out, "{:depth$}{place}: {}", "", count.count)?;
            for (callee, calls) in &count.callees {
                write!(out, " {callee}:{calls}")?;
            }
            writeln!(out)?;
        }
        for (place, inlined) in &self.inlined {
            for (name, function) in inlined {
                writeln!(
                    out,
                    "{:depth$}{place}: {name}:{}",
                    "",
                    function.total_count()
                )?;
                function.write_function(depth + 1, out)?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for AutofdoPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.discriminator {
            0 => write!(f, "{}", self.offset),
            discriminator => write!(f, "{}.{discriminator}", self.offset),
        }
    }
}

/// Returns whether a name is valid in this form.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Writes the functions by linkage name, the one with the largest total first.
///
/// # Errors
/// Those of the writer.
pub fn write_autofdo(
    functions: &BTreeMap<String, AutofdoFunction>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut all: Vec<_> = functions
        .iter()
        .map(|(n, f)| (f.total_count(), n, f))
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    for (total, name, function) in all {
        writeln!(out, "{name}:{total}:{}", function.head)?;
        function.write_function(1, out)?;
    }
    Ok(())
}

/// Returns the number in the lowest part of LLVM's encoding: a zero is one bit, other numbers take
/// 7 or 14.
fn lowest_part(bits: u64) -> u32 {
    if bits & 1 == 1 {
        return 0;
    }
    let bits = (bits >> 1) as u32;
    match bits & 0x20 {
        0 => bits & 0x1f,
        _ => (bits >> 1 & 0xfe0) | (bits & 0x1f),
    }
}

/// Decodes a discriminator of LLVM: the base discriminator, and the number of copies of the code
/// (by unrolling) for which each execution counts.
pub fn decode_discriminator(bits: u64) -> (u32, u32) {
    let rest = match (bits & 1, bits & 0x40) {
        (1, _) => bits >> 1,
        (_, 0) => bits >> 7,
        _ => bits >> 14,
    };
    (lowest_part(bits), lowest_part(rest).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_have_parts() {
        // One bit for a zero, then the duplication factor.
        assert_eq!(decode_discriminator(0), (0, 1));
        assert_eq!(decode_discriminator(2), (1, 1));
        assert_eq!(decode_discriminator(1 | 4 << 2), (0, 4));
        assert_eq!(decode_discriminator(3 << 1 | 8 << 8), (3, 8));
        // Above 31 the lower five bits, a mark, and seven more.
        let large = (0x20 | 5 | 2 << 6) << 1;
        assert_eq!(decode_discriminator(large), (2 << 5 | 5, 1));
    }

    #[test]
    fn inlined_calls_are_indented_and_count() {
        let at = |offset, discriminator| AutofdoPlace {
            offset,
            discriminator,
        };
        let mut main = AutofdoFunction {
            head: 1,
            ..AutofdoFunction::default()
        };
        main.record_execution(at(1, 0), 7);
        main.record_execution(at(1, 0), 5);
        main.record_execution(at(2, 3), 100);
        let count = main.body.get_mut(&at(2, 3)).unwrap();
        count.callees.insert("work".into(), 100);
        main.inlined_function(&[(at(4, 0), "f".into()), (at(1, 0), "g".into())])
            .record_execution(at(2, 0), 9);
        let functions = BTreeMap::from([("main".to_owned(), main)]);
        let mut out = Vec::new();
        write_autofdo(&functions, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "main:116:1\n 1: 7\n 2.3: 100 work:100\n 4: f:9\n  1: g:9\n   2: 9\n"
        );
    }
}
