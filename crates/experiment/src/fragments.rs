//! The fragments of samples, by number; lines of inlined code have one more for each of their
//! copies.

use crate::scope::path_ends_with;
use runtime_abi::FRAGMENTS;
use rustc_hash::FxHashMap;

/// Name of the copy of a line in the line's own function.
const NOT_INLINED: &str = "not inlined";
/// Number of fragments from which on lines get no more copies: the rest is reserved for lines.
const MOST_WITH_COPIES: usize = FRAGMENTS / 2;

/// Prefix of a copy's call sites.
const INLINED_AT: &str = "inlined at ";

/// Returns the name of the copy of a line that is inlined at these call sites, innermost first;
/// without any, the copy is in its own function.
pub(crate) fn name_copy(sites: &[String]) -> String {
    if sites.is_empty() {
        NOT_INLINED.to_owned()
    } else {
        format!("{INLINED_AT}{}", sites.join(", "))
    }
}

/// Splits a name like `inner.h:5 (inlined at outer.c:10)` into the line and the copy.
pub(crate) fn split_copy(text: &str) -> Option<(&str, &str)> {
    let (line, copy) = text.strip_suffix(')')?.rsplit_once(" (")?;
    (copy == NOT_INLINED || copy.starts_with(INLINED_AT)).then_some((line, copy))
}

/// Returns whether `wanted` matches a fragment's name: by the end of its path, for a copy by the
/// end of each path.
pub(crate) fn is_meant(name: &str, wanted: &str) -> bool {
    match (split_copy(name), split_copy(wanted)) {
        (Some((line, copy)), Some((wanted, wanted_copy))) => {
            path_ends_with(line, wanted) && is_copy_meant(copy, wanted_copy)
        }
        (None, None) => path_ends_with(name, wanted),
        _ => false,
    }
}

fn is_copy_meant(copy: &str, wanted: &str) -> bool {
    let [its, those] = [copy, wanted].map(|copy| copy.strip_prefix(INLINED_AT));
    let (Some(its), Some(those)) = (its, those) else {
        return copy == wanted;
    };
    its.split(", ").count() == those.split(", ").count()
        && (its.split(", ").zip(those.split(", "))).all(|(it, that)| path_ends_with(it, that))
}

/// A fragment, while it is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownFragment {
    pub name: String,
    pub detail: String,
    pub image: String,
    /// Name of the copy of a line. Empty for a function, or a line as a whole.
    pub copy: String,
}

impl KnownFragment {
    /// Returns the function that the fragment is or lies in; empty if unknown.
    pub fn function_name(&self) -> &str {
        if crate::options::split_line(&self.name).is_some() {
            &self.detail
        } else {
            &self.name
        }
    }
}

/// All fragments so far, indexed by number.
///
/// A line has one number while all its samples are in one copy. With the second copy, that number
/// becomes the first copy's, and the line as a whole gets a new one, which the samples of its
/// copies count for too.
#[derive(Default)]
pub(crate) struct FragmentTable {
    known: Vec<KnownFragment>,
    /// The whole line of each copy; `None`: the fragment is a whole itself.
    whole_of: Vec<Option<u32>>,
    index: FxHashMap<String, u32>,
    /// The copies of lines that have several, by the line as a whole.
    copies: FxHashMap<u32, Vec<u32>>,
    /// Copies whose whole line the runtime does not know yet.
    unsaid: Vec<(u32, u32)>,
}

impl FragmentTable {
    /// Returns the fragments by number.
    pub fn all(&self) -> &[KnownFragment] {
        &self.known
    }

    /// Returns the name of a fragment in profiles.
    pub fn shown_name(&self, number: u32) -> String {
        let known = self.known.get(number as usize);
        known.map_or_else(String::new, |known| match self.whole_of(number) {
            Some(_) => format!("{} ({})", known.name, known.copy),
            None => known.name.clone(),
        })
    }

    /// Returns the whole line of a fragment that is one of several copies.
    pub fn whole_of(&self, number: u32) -> Option<u32> {
        self.whole_of.get(number as usize).copied().flatten()
    }

    /// Returns the numbers whose samples belong to a fragment: its own, and those of its copies.
    pub fn numbers_of(&self, number: u32) -> impl Iterator<Item = u32> {
        let copies = self.copies.get(&number).into_iter().flatten();
        std::iter::once(number).chain(copies.copied())
    }

    /// Returns whether `wanted` matches a fragment: by the end of its path, also that of a copy.
    pub fn is_meant(&self, number: u32, wanted: &str) -> bool {
        match (split_copy(wanted), self.known.get(number as usize)) {
            // Also for the only copy so far.
            (Some(_), Some(known)) => is_meant(&format!("{} ({})", known.name, known.copy), wanted),
            _ => is_meant(&self.shown_name(number), wanted),
        }
    }

    /// Returns the number of a fragment by its name in an earlier run; adds it if need be.
    pub fn number_named(&mut self, name: &str) -> Option<u32> {
        let numbers = 0..u32::try_from(self.known.len()).ok()?;
        let mut numbers = numbers.filter(|number| self.shown_name(*number) == name);
        numbers.next().or_else(|| {
            self.number_of(&KnownFragment {
                name: name.to_owned(),
                ..KnownFragment::default()
            })
        })
    }

    /// Returns the copies since the last call, each with its whole line.
    pub fn take_unsaid(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.unsaid)
    }

    /// Removes all fragments.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of a fragment; adds it if need be; `None` if there are too many.
    pub fn number_of(&mut self, fragment: &KnownFragment) -> Option<u32> {
        let Some(number) = self.index.get(&fragment.name).copied() else {
            let number = self.add(fragment.clone(), None)?;
            self.index.insert(fragment.name.clone(), number);
            return Some(number);
        };
        let known = self.known.get_mut(number as usize)?;
        if known.image.is_empty() {
            *known = fragment.clone(); // from an earlier run, met for the first time
        }
        if known.copy == fragment.copy {
            return Some(number);
        }
        Some(self.copy_number(number, fragment))
    }

    /// Returns the number of a copy of the line with this number.
    fn copy_number(&mut self, line: u32, copy: &KnownFragment) -> u32 {
        let is_same = |part: &&u32| {
            let known = self.known.get(**part as usize);
            known.is_some_and(|known| known.copy == copy.copy)
        };
        let mut parts = self.copies.get(&line).into_iter().flatten();
        if let Some(part) = parts.find(is_same) {
            return *part;
        }
        // When there is no room, further copies count for the line as a whole.
        let (Some(whole), true) = (self.split(line), self.known.len() < MOST_WITH_COPIES) else {
            return line;
        };
        self.add_part(whole, copy).unwrap_or(whole)
    }

    /// Gives a line a number as a whole, if it has none yet besides its only copy's.
    fn split(&mut self, line: u32) -> Option<u32> {
        if self.copies.contains_key(&line) {
            return Some(line);
        }
        if self.known.len() >= MOST_WITH_COPIES {
            return None;
        }
        let only = self.known.get(line as usize)?.clone();
        let copy = String::new();
        let whole = self.add(
            KnownFragment {
                copy,
                ..only.clone()
            },
            None,
        )?;
        self.index.insert(only.name, whole);
        self.copies.insert(whole, vec![line]);
        *self.whole_of.get_mut(line as usize)? = Some(whole);
        self.unsaid.push((line, whole));
        Some(whole)
    }

    fn add_part(&mut self, whole: u32, copy: &KnownFragment) -> Option<u32> {
        let part = self.add(copy.clone(), Some(whole))?;
        self.copies.get_mut(&whole)?.push(part);
        self.unsaid.push((part, whole));
        Some(part)
    }

    fn add(&mut self, fragment: KnownFragment, whole: Option<u32>) -> Option<u32> {
        if self.known.len() >= FRAGMENTS {
            return None;
        }
        self.known.push(fragment);
        self.whole_of.push(whole);
        u32::try_from(self.known.len() - 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_of(line: &str, sites: &[&str]) -> KnownFragment {
        let sites: Vec<String> = sites.iter().map(|site| (*site).to_owned()).collect();
        KnownFragment {
            name: line.to_owned(),
            detail: "mix".to_owned(),
            image: "/app".to_owned(),
            copy: name_copy(&sites),
        }
    }

    #[test]
    fn a_line_is_split_when_its_second_copy_is_met() {
        let mut table = FragmentTable::default();
        let first = table.number_of(&copy_of("/in.h:5", &["/a.c:10"])).unwrap();
        assert_eq!(
            table.number_of(&copy_of("/in.h:5", &["/a.c:10"])),
            Some(first)
        );
        assert_eq!(table.shown_name(first), "/in.h:5");
        assert_eq!(table.take_unsaid(), []);

        let second = table
            .number_of(&copy_of("/in.h:5", &["/b.h:2", "/a.c:20"]))
            .unwrap();
        let own = table.number_of(&copy_of("/in.h:5", &[])).unwrap();
        let whole = table.whole_of(first).unwrap();
        assert_eq!(table.shown_name(whole), "/in.h:5");
        assert_eq!(table.shown_name(first), "/in.h:5 (inlined at /a.c:10)");
        assert_eq!(
            table.shown_name(second),
            "/in.h:5 (inlined at /b.h:2, /a.c:20)"
        );
        assert_eq!(table.shown_name(own), "/in.h:5 (not inlined)");
        assert_eq!(table.whole_of(whole), None);
        let numbers: Vec<u32> = table.numbers_of(whole).collect();
        assert_eq!(numbers, [whole, first, second, own]);
        assert_eq!(
            table.take_unsaid(),
            [first, second, own].map(|part| (part, whole))
        );
        // The copies are recognised, each with its own line.
        assert_eq!(
            table.number_of(&copy_of("/in.h:5", &["/a.c:10"])),
            Some(first)
        );
        let other = table.number_of(&copy_of("/in.h:6", &["/a.c:10"])).unwrap();
        assert_eq!(
            (table.whole_of(other), table.take_unsaid()),
            (None, Vec::new())
        );
    }

    #[test]
    fn functions_have_no_copies() {
        let mut table = FragmentTable::default();
        let function = KnownFragment {
            name: "mix".to_owned(),
            image: "/app".to_owned(),
            ..KnownFragment::default()
        };
        assert_eq!(table.number_of(&function), Some(0));
        assert_eq!(table.number_of(&function), Some(0));
        assert_eq!(table.all().len(), 1);
    }

    #[test]
    fn what_an_earlier_run_has_named_is_found_again() {
        let mut table = FragmentTable::default();
        let hint = table.number_named("/in.h:5").unwrap();
        assert_eq!(
            table.number_of(&copy_of("/in.h:5", &["/a.c:10"])),
            Some(hint)
        );
        assert_eq!(table.all()[hint as usize].image, "/app");
        let second = table.number_of(&copy_of("/in.h:5", &["/a.c:20"]));
        assert_eq!(table.number_named("/in.h:5 (inlined at /a.c:20)"), second);
        assert_eq!(table.number_named("/in.h:5"), table.whole_of(hint));
    }

    #[test]
    fn a_copy_is_meant_by_the_ends_of_its_paths() {
        let mut table = FragmentTable::default();
        let first = table
            .number_of(&copy_of("/src/in.h:5", &["/src/b.h:2", "/src/a.c:10"]))
            .unwrap();
        let wanted = "in.h:5 (inlined at b.h:2, a.c:10)";
        // Also while it is the only copy.
        assert!(table.is_meant(first, wanted) && table.is_meant(first, "in.h:5"));
        table.number_of(&copy_of("/src/in.h:5", &[])).unwrap();
        assert!(table.is_meant(first, wanted) && !table.is_meant(first, "in.h:5"));
        assert!(table.is_meant(table.whole_of(first).unwrap(), "in.h:5"));
        for other in [
            "in.h:5 (inlined at b.h:2)",
            "in.h:5 (not inlined)",
            "n.h:5 (inlined at b.h:2, a.c:10)",
        ] {
            assert!(!table.is_meant(first, other), "{other}");
        }
        assert!(!table.is_meant(77, wanted));
    }

    #[test]
    fn lines_have_no_copies_when_there_is_no_room() {
        let mut table = FragmentTable::default();
        for line in 0..MOST_WITH_COPIES {
            table
                .number_of(&copy_of(&format!("/in.h:{line}"), &["/a.c:1"]))
                .unwrap();
        }
        assert_eq!(table.number_of(&copy_of("/in.h:7", &["/a.c:2"])), Some(7));
        assert_eq!(table.whole_of(7), None);
        for line in MOST_WITH_COPIES..FRAGMENTS {
            table
                .number_of(&copy_of(&format!("/in.h:{line}"), &[]))
                .unwrap();
        }
        assert_eq!(table.number_of(&copy_of("/more.h:1", &[])), None);
    }
}
