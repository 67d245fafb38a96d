//! From the symbols of an image to its procedures, which name addresses.

use profile::ImageAddress;

/// Returns the name at an offset in a table of zero-terminated names, without its zero.
pub(crate) fn name_at(names: &[u8], offset: u64) -> &[u8] {
    let rest = usize::try_from(offset)
        .ok()
        .and_then(|offset| names.get(offset..));
    let rest = rest.unwrap_or_default();
    &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
}

/// The source of a symbol's end, from the least to the most reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolExtent {
    /// A label without type and size, anywhere in hand-written assembly.
    Label,
    /// A function without a size: hand-written assembly.
    Open,
    /// A symbol that states its size.
    Known,
}

impl SymbolExtent {
    pub fn of(typed: bool, size: u64) -> Self {
        match (typed, size) {
            (_, 1..) => Self::Known,
            (true, 0) => Self::Open,
            (false, 0) => Self::Label,
        }
    }
}

/// The visibility of a symbol. Weak counts as global: `write` is as good a name as `__write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Local,
    Global,
}

/// A symbol that may name a procedure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolCandidate {
    pub start: u64,
    pub size: u64,
    /// End of its section.
    pub limit: u64,
    /// Position of the name in the table of names.
    pub name: u64,
    pub extent: SymbolExtent,
    pub binding: Binding,
}

/// A procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymbolEntry {
    pub start: u64,
    pub end: u64,
    name: u64,
}

/// The procedures of an image, for lookup by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    names: Vec<u8>,
    /// Procedures by start, each start once.
    entries: Vec<SymbolEntry>,
    /// Disjoint ranges by start; a range ends where the next begins, and has no procedure if the
    /// index is `NOBODY`.
    pieces: Vec<(u64, u32)>,
}

const NOBODY: u32 = u32::MAX;

impl Symbols {
    pub fn new(mut candidates: Vec<SymbolCandidate>, names: Vec<u8>) -> Self {
        candidates.retain(|candidate| {
            candidate.start < candidate.limit && is_procedure_name(name_at(&names, candidate.name))
        });
        let mut candidates = one_at_each_start(&candidates, &names);

        let known = candidates
            .iter()
            .filter(|c| c.extent == SymbolExtent::Known);
        let known: Vec<SymbolEntry> = known.map(SymbolCandidate::sized_entry).collect();
        let sized = cut_overlaps(&known);
        let covered = |address| piece_at(&sized, address).is_some();
        // If no symbol states its size, a procedure extends to the next symbol. Local labels come
        // last: most are places inside a procedure.
        candidates.retain(|c| c.extent == SymbolExtent::Known || !covered(c.start));
        let is_start =
            |c: &SymbolCandidate| c.extent != SymbolExtent::Label || c.binding == Binding::Global;
        let mut entries = Vec::with_capacity(candidates.len());
        let mut open_end = 0;
        for (index, candidate) in candidates.iter().enumerate() {
            if candidate.extent == SymbolExtent::Known {
                entries.push(candidate.sized_entry());
                continue;
            }
            let label = !is_start(candidate);
            if label && candidate.start < open_end {
                continue;
            }
            let next = candidates[index + 1..]
                .iter()
                .find(|next| label || is_start(next));
            let end = next.map_or(candidate.limit, |next| next.start.min(candidate.limit));
            open_end = end;
            entries.push(candidate.entry_until(end));
        }
        let pieces = cut_overlaps(&entries);
        Self {
            names,
            entries,
            pieces,
        }
    }

    /// Returns the procedure at an address: of several that contain it, the one that starts last.
    pub fn find(&self, address: ImageAddress) -> Option<SymbolEntry> {
        let index = piece_at(&self.pieces, address.0)?;
        self.entries.get(index as usize).copied()
    }

    /// Returns all procedures by start.
    pub fn entries(&self) -> &[SymbolEntry] {
        &self.entries
    }

    pub fn name(&self, entry: SymbolEntry) -> &[u8] {
        name_at(&self.names, entry.name)
    }
}

impl SymbolCandidate {
    fn sized_entry(&self) -> SymbolEntry {
        self.entry_until(self.start.saturating_add(self.size).min(self.limit))
    }

    fn entry_until(&self, end: u64) -> SymbolEntry {
        SymbolEntry {
            start: self.start,
            end,
            name: self.name,
        }
    }
}

/// Returns the symbols by start; of several at one address, the preferred one.
fn one_at_each_start(candidates: &[SymbolCandidate], names: &[u8]) -> Vec<SymbolCandidate> {
    // The position keeps the file's order among equals, and makes the moved elements small.
    let mut order: Vec<(u64, u32)> = candidates.iter().map(|c| c.start).zip(0..).collect();
    order.sort_unstable();
    let preference = |candidate: &SymbolCandidate| {
        let name = name_at(names, candidate.name);
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        let size = (candidate.extent, candidate.binding, candidate.size);
        (std::cmp::Reverse(size), underscores)
    };
    let same_start = order.chunk_by(|a, b| a.0 == b.0);
    let preferred = same_start.filter_map(|same| {
        let mut same = same.iter().filter_map(|at| candidates.get(at.1 as usize));
        let first = same.next()?;
        Some(match same.clone().next() {
            None => first,
            Some(_) => std::iter::once(first)
                .chain(same)
                .min_by_key(|c| preference(c))?,
        })
    });
    preferred.copied().collect()
}

/// Returns whether a name may be a procedure's, and is neither a marker of assemblers between code
/// and data (`$x`, `$d.1`) nor a local label.
fn is_procedure_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.starts_with(b"$") && !name.starts_with(b".L")
}

/// Cuts overlapping ranges into disjoint ones: the range that starts last has the address.
fn cut_overlaps(entries: &[SymbolEntry]) -> Vec<(u64, u32)> {
    let mut pieces: Vec<(u64, u32)> = Vec::with_capacity(entries.len() * 2);
    let mut open: Vec<u32> = Vec::new();
    // Closes ranges that end by `until`, and returns to the surrounding one.
    let close = |open: &mut Vec<u32>, pieces: &mut Vec<(u64, u32)>, until: u64| {
        while let Some(end) = open.last().map(|i| entries[*i as usize].end)
            && end <= until
        {
            while open.last().is_some_and(|i| entries[*i as usize].end <= end) {
                open.pop();
            }
            pieces.push((end, open.last().copied().unwrap_or(NOBODY)));
        }
    };
    for (index, entry) in (0u32..).zip(entries) {
        close(&mut open, &mut pieces, entry.start);
        if entry.start < entry.end {
            if pieces.last().is_some_and(|piece| piece.0 == entry.start) {
                pieces.pop();
            }
            pieces.push((entry.start, index));
            open.push(index);
        }
    }
    close(&mut open, &mut pieces, u64::MAX);
    pieces
}

fn piece_at(pieces: &[(u64, u32)], address: u64) -> Option<u32> {
    let index = pieces
        .partition_point(|piece| piece.0 <= address)
        .checked_sub(1)?;
    let owner = pieces.get(index)?.1;
    (owner != NOBODY).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: &[u8] = b"\0a\0b\0__b\0$x\0.Lc\0d\0";
    const A: u64 = 1;
    const B: u64 = 3;
    const B_WITH_UNDERSCORES: u64 = 5;
    const MAPPING: u64 = 9;
    const LABEL: u64 = 12;
    const D: u64 = 16;

    fn candidate(start: u64, size: u64, name: u64) -> SymbolCandidate {
        SymbolCandidate {
            start,
            size,
            limit: 1000,
            name,
            extent: SymbolExtent::of(true, size),
            binding: Binding::Global,
        }
    }

    fn names_at(symbols: &Symbols, addresses: &[u64]) -> String {
        let name = |address: &u64| match symbols.find(ImageAddress(*address)) {
            Some(entry) => String::from_utf8_lossy(symbols.name(entry)).into_owned(),
            None => "-".to_owned(),
        };
        addresses.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_inside_another() {
        let list = vec![
            candidate(100, 100, A),
            candidate(120, 10, B),
            candidate(190, 30, D),
        ];
        let symbols = Symbols::new(list, NAMES.to_vec());
        let names = names_at(&symbols, &[99, 100, 120, 129, 130, 189, 190, 199, 219, 220]);
        assert_eq!(names, "- a b b a a d d d -");
    }

    #[test]
    fn aliases() {
        let mut local = candidate(100, 50, A);
        local.binding = Binding::Local;
        let list = vec![
            local,
            candidate(100, 50, B_WITH_UNDERSCORES),
            candidate(100, 50, B),
            candidate(100, 0, D),
        ];
        let symbols = Symbols::new(list, NAMES.to_vec());
        assert_eq!(symbols.entries().len(), 1);
        assert_eq!(names_at(&symbols, &[100]), "b");
    }

    #[test]
    fn marks_and_labels_name_nothing() {
        let list = vec![
            candidate(100, 10, MAPPING),
            candidate(200, 10, LABEL),
            candidate(300, 10, 0),
        ];
        let symbols = Symbols::new(list, NAMES.to_vec());
        assert_eq!(symbols.entries(), []);
    }

    #[test]
    fn unknown_sizes_reach_to_the_next() {
        let mut inner = candidate(130, 0, B);
        inner.extent = SymbolExtent::Label;
        inner.binding = Binding::Local;
        let mut lonely = candidate(900, 0, D);
        lonely.extent = SymbolExtent::Label;
        lonely.binding = Binding::Local;
        let list = vec![candidate(100, 0, A), inner, candidate(150, 20, D), lonely];
        let symbols = Symbols::new(list, NAMES.to_vec());
        let names = names_at(
            &symbols,
            &[100, 130, 149, 150, 169, 170, 899, 900, 999, 1000],
        );
        assert_eq!(names, "a a a d d - - d d -");
    }

    proptest! {
        /// By definition: the range that starts last among all that contain an address; aliases
        /// aside.
        #[test]
        fn pieces_are_what_they_were_cut_from(
            ranges in prop::collection::btree_map(0_u64..200, 1_u64..120, 0..40),
        ) {
            let list = ranges.iter().map(|(start, size)| candidate(*start, *size, A)).collect();
            let symbols = Symbols::new(list, NAMES.to_vec());
            for address in 0..330 {
                let holding = ranges.iter().filter(|(s, n)| **s <= address && address < **s + **n);
                let expected = holding.map(|(start, _)| *start).next_back();
                let found = symbols.find(ImageAddress(address)).map(|entry| entry.start);
                prop_assert_eq!(found, expected, "{}", address);
            }
        }
    }
}
