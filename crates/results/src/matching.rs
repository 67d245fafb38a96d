//! Matching of rows for the same code in several sets: from another build directory, from another
//! version of a library, under a new name by the compiler.

use profile::strip_clones;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Part of both images' samples that procedures of the same names must have for the images to be
/// the same.
const LEAST_OVERLAP: f64 = 0.5;

/// `--map A=B`: code with `from` in its path or name in earlier sets is `to` in the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameMap {
    /// Text in the earlier sets.
    pub from: String,
    /// The name in its place in the last set.
    pub to: String,
}

impl std::str::FromStr for NameMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((from, to)) if !from.is_empty() => Ok(Self {
                from: from.to_owned(),
                to: to.to_owned(),
            }),
            _ => Err("expected A=B: a text in paths and names of A, and what it is in B".into()),
        }
    }
}

/// The key of a row in a comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Procedure, image, line or path.
    pub name: String,
    /// The image, if the row is in a single one.
    pub image: Option<String>,
    /// By line: the function.
    pub detail: Option<String>,
}

/// Samples by row, of one set.
pub type SetRows = HashMap<RowKey, u64>;

/// Gives rows of all sets for the same code the same key: that of the last set, which is the
/// newest.
pub fn align_rows(sets: &mut [SetRows], maps: &[NameMap]) {
    let Some((last, earlier)) = sets.split_last_mut() else {
        return;
    };
    let mut known = last.clone();
    for set in earlier.iter_mut() {
        rename_rows(set, |key| mapped_key(key, maps));
        let renamed = match_images(set, &known);
        rename_rows(set, |key| {
            match key.image.as_ref().and_then(|i| renamed.get(i)) {
                Some(image) => RowKey {
                    image: Some(image.clone()),
                    ..key
                },
                None if key.image.is_none() => match renamed.get(&key.name) {
                    Some(name) => RowKey {
                        name: name.clone(),
                        ..key
                    },
                    None => key,
                },
                None => key,
            }
        });
        for (key, count) in set.iter() {
            known.entry(key.clone()).or_insert(*count);
        }
    }
    let renamed = match_names(sets);
    for set in sets {
        rename_rows(set, |key| renamed.get(&key).cloned().unwrap_or(key));
    }
}

fn rename_rows(set: &mut SetRows, rename: impl Fn(RowKey) -> RowKey) {
    let mut renamed = SetRows::with_capacity(set.len());
    for (key, count) in set.drain() {
        let sum = renamed.entry(rename(key)).or_insert(0u64);
        *sum = sum.saturating_add(count);
    }
    *set = renamed;
}

fn mapped_key(key: RowKey, maps: &[NameMap]) -> RowKey {
    let apply = |text: String| {
        let replace = |text: String, map: &NameMap| text.replace(&map.from, &map.to);
        maps.iter().fold(text, replace)
    };
    RowKey {
        name: apply(key.name),
        image: key.image.map(apply),
        detail: key.detail.map(apply),
    }
}

/// Samples of each procedure, by image; empty if rows are images themselves.
type ByImage<'a> = BTreeMap<&'a str, BTreeMap<&'a str, f64>>;

/// Returns the images that are files.
fn files_of(set: &SetRows) -> ByImage<'_> {
    let mut images = ByImage::new();
    for (key, count) in set {
        let image = key.image.as_deref().unwrap_or(&key.name);
        // A call path is no image.
        if !image.starts_with('/') || image.contains(';') {
            continue;
        }
        let procedures = images.entry(image).or_default();
        if key.image.is_some() {
            *procedures.entry(key.name.as_str()).or_default() += *count as f64;
        }
    }
    images
}

/// Returns new names for images that have another path in the `known` set.
fn match_images(set: &SetRows, known: &SetRows) -> HashMap<String, String> {
    let (mut old, mut new) = (files_of(set), files_of(known));
    let both: Vec<&str> = old
        .keys()
        .filter(|p| new.contains_key(*p))
        .copied()
        .collect();
    for path in both {
        old.remove(path);
        new.remove(path);
    }
    let mut found = HashMap::new();
    let base = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let plain = |path: &str| without_version(&base(path));
    take_pairs(&mut old, &mut new, &mut found, |(a, _), (b, _)| {
        (base(a) == base(b)).then(|| common_suffix(a, b) as f64)
    });
    take_pairs(&mut old, &mut new, &mut found, |(a, _), (b, _)| {
        (plain(a) == plain(b)).then(|| common_suffix(a, b) as f64)
    });
    take_pairs(&mut old, &mut new, &mut found, |(_, a), (_, b)| {
        Some(common_share(a, b)).filter(|part| *part >= LEAST_OVERLAP)
    });
    found
}

type Image<'i, 'a> = (&'i &'a str, &'i BTreeMap<&'a str, f64>);

/// Takes out pairs of similar images, the most similar first. An image that is equally similar to
/// two others stays.
fn take_pairs<'a>(
    old: &mut ByImage<'a>,
    new: &mut ByImage<'a>,
    found: &mut HashMap<String, String>,
    likeness: impl Fn(Image<'_, 'a>, Image<'_, 'a>) -> Option<f64>,
) {
    let mut pairs: Vec<(f64, &str, &str)> = Vec::new();
    for a in old.iter() {
        let alike = new
            .iter()
            .filter_map(|b| Some((likeness(a, b)?, *a.0, *b.0)));
        pairs.extend(alike);
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(b.2)));
    for (score, a, b) in &pairs {
        let rival = |(other, x, y): &&(f64, &str, &str)| {
            other == score && (x == a) != (y == b) && old.contains_key(x) && new.contains_key(y)
        };
        if old.contains_key(a) && new.contains_key(b) && !pairs.iter().any(|p| rival(&p)) {
            found.insert((*a).to_owned(), (*b).to_owned());
            old.remove(a);
            new.remove(b);
        }
    }
}

/// Returns the number of equal parts at the ends of two paths.
fn common_suffix(a: &str, b: &str) -> usize {
    let parts = a.rsplit('/').zip(b.rsplit('/'));
    parts.take_while(|(a, b)| a == b).count()
}

/// Returns the share of the samples that procedures of the same names have in both.
fn common_share(a: &BTreeMap<&str, f64>, b: &BTreeMap<&str, f64>) -> f64 {
    let sum = |all: &BTreeMap<&str, f64>| all.values().sum::<f64>().max(1.0);
    let (sum_a, sum_b) = (sum(a), sum(b));
    let named = a.iter().filter(|(name, _)| !name.starts_with('['));
    let shared = named.filter_map(|(name, in_a)| {
        let in_b = b.get(name)?;
        Some((in_a / sum_a).min(in_b / sum_b))
    });
    shared.sum()
}

/// Returns a name without its version: `python3.12` and `python3.11`, `libz.so.1.3` and
/// `libz.so.1.2`, `app-0123456789abcdef` of cargo.
fn without_version(name: &str) -> String {
    let name = match name.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && is_hexadecimal(hash) => stem,
        _ => name,
    };
    name.chars()
        .filter(|c| !matches!(c, '0'..='9' | '.' | '-' | '_'))
        .collect()
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns new keys for rows that some sets lack, if they differ only in compilers' suffixes or in
/// the directory of a source file. The clones of a function form one row.
fn match_names(sets: &[SetRows]) -> HashMap<RowKey, RowKey> {
    let all: BTreeSet<&RowKey> = sets.iter().flat_map(HashMap::keys).collect();
    let mut groups: BTreeMap<RowKey, Vec<&RowKey>> = BTreeMap::new();
    for key in all {
        groups.entry(base_key(key)).or_default().push(key);
    }
    let everywhere = |key: &RowKey| sets.iter().all(|set| set.contains_key(key));
    let mut renamed = HashMap::new();
    for (base, members) in groups.into_iter().filter(|group| group.1.len() > 1) {
        let partial: Vec<&RowKey> = members.iter().copied().filter(|k| !everywhere(k)).collect();
        // The original name, from the last set that has one of them.
        let shown = match sets
            .iter()
            .rev()
            .flat_map(HashMap::keys)
            .find(|k| **k == base)
        {
            Some(_) => base,
            None => {
                let newest = sets
                    .iter()
                    .rev()
                    .find_map(|set| partial.iter().copied().find(|key| set.contains_key(*key)));
                RowKey {
                    name: newest
                        .map_or(base.name.clone(), |key| strip_clones(&key.name).to_owned()),
                    ..newest.cloned().unwrap_or(base)
                }
            }
        };
        renamed.extend(partial.into_iter().map(|key| (key.clone(), shown.clone())));
    }
    renamed
}

fn base_key(key: &RowKey) -> RowKey {
    RowKey {
        name: base_name(&key.name),
        image: key.image.clone(),
        detail: key.detail.as_deref().map(base_name),
    }
}

/// Returns the name without the parts that change from build to build; for a call path, those of
/// each frame.
fn base_name(name: &str) -> String {
    let frames = name
        .split(';')
        .map(|frame| without_directory(strip_clones(frame)));
    frames.collect::<Vec<String>>().join(";")
}

/// Returns a source file without its directory: `/build/v1/app.c:12`, Python's
/// `py::run:/home/v1/app.py`.
fn without_directory(name: &str) -> String {
    let start = if name.starts_with('/') {
        0
    } else {
        match name.find(":/") {
            Some(at) => at + 1,
            None => return name.to_owned(),
        }
    };
    let (head, path) = name.split_at(start);
    format!("{head}{}", path.rsplit('/').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(image: &str, name: &str) -> RowKey {
        RowKey {
            name: name.to_owned(),
            image: Some(image.to_owned()),
            detail: None,
        }
    }

    fn set(rows: &[(&str, &str, u64)]) -> SetRows {
        let rows = rows
            .iter()
            .map(|(image, name, count)| (row(image, name), *count));
        rows.collect()
    }

    /// Returns the rows that both sets have, with the samples of both.
    fn shared(a: &[(&str, &str, u64)], b: &[(&str, &str, u64)]) -> Vec<(String, u64, u64)> {
        let mut sets = [set(a), set(b)];
        align_rows(&mut sets, &[]);
        let [a, b] = &sets;
        let both = a
            .iter()
            .filter_map(|(k, n)| Some((k.name.clone(), *n, *b.get(k)?)));
        let mut both: Vec<_> = both.collect();
        both.sort();
        both
    }

    #[test]
    fn builds_in_two_directories_are_the_same_program() {
        let a = [
            ("/v1/app", "work", 5),
            ("/v1/lib/x.so", "f", 7),
            ("/old/x.so", "f", 1),
        ];
        let b = [
            ("/v2/app", "work", 6),
            ("/v2/lib/x.so", "f", 8),
            ("/new/x.so", "f", 2),
        ];
        let rows = shared(&a, &b);
        let expected = [("f", 1, 2), ("f", 7, 8), ("work", 5, 6)];
        assert_eq!(rows, expected.map(|(n, a, b)| (n.to_owned(), a, b)));
    }

    #[test]
    fn versions_and_hashes_of_file_names_are_ignored() {
        for (a, b) in [
            ("/usr/bin/python3.11", "/opt/bin/python3.12"),
            ("/lib/libz.so.1.2.13", "/lib/libz.so.1.3"),
            ("/t/app-0123456789abcdef", "/t/app-fedcba9876543210"),
        ] {
            assert_eq!(shared(&[(a, "f", 1)], &[(b, "f", 2)]).len(), 1, "{a} {b}");
        }
    }

    #[test]
    fn an_image_of_another_name_is_known_by_its_procedures() {
        let a = [("/t/before", "parse", 50), ("/t/before", "print", 50)];
        let b = [
            ("/t/after", "parse", 50),
            ("/t/after", "print", 90),
            ("/t/new", "x", 9),
        ];
        assert_eq!(shared(&a, &b).len(), 2);
        assert_eq!(shared(&a, &[("/t/after", "other", 50)]), []);
    }

    #[test]
    fn one_that_may_be_either_of_two_is_neither() {
        let b = [("/b/app", "f", 1), ("/c/app", "f", 2)];
        assert_eq!(shared(&[("/a/app", "g", 1)], &b), []);
        let mut sets = [set(&[("/a/app", "f", 1)]), set(&b)];
        let map = "/a/=/c/".parse().unwrap();
        align_rows(&mut sets, &[map]);
        assert_eq!(sets[0][&row("/c/app", "f")], 1);
    }

    #[test]
    fn clones_are_the_function_where_the_other_build_has_not_the_same() {
        let image = "/app";
        let a = [
            (image, "f", 5),
            (image, "g.isra.0", 7),
            (image, "h", 1),
            (image, "h.cold", 2),
        ];
        let b = [
            (image, "f", 3),
            (image, "f.part.0", 2),
            (image, "f.part.0.cold", 1),
            (image, "g.constprop.0.isra.0", 9),
            (image, "h", 1),
            (image, "h.cold", 2),
        ];
        let rows = shared(&a, &b);
        let expected = [("f", 5, 6), ("g", 7, 9), ("h", 1, 1), ("h.cold", 2, 2)];
        assert_eq!(rows, expected.map(|(n, a, b)| (n.to_owned(), a, b)));
    }

    #[test]
    fn files_are_known_without_their_directory() {
        assert_eq!(base_name("/v1/src/app.c:12"), "app.c:12");
        assert_eq!(base_name("py::run:/home/v1/app.py"), "py::run:app.py");
        assert_eq!(base_name("app;main;f.part.0"), "app;main;f");
        assert_eq!(base_name("operator/(A, B)"), "operator/(A, B)");
    }
}
