//! Search for code that the user names: lines, functions and probes of the mapped images.

use crate::Error;
use crate::code::{CodeImage, TargetCode};
use crate::fragments::{is_meant, split_copy};
use crate::options::split_line;
use crate::scope::{matches_pattern, path_ends_with};
use profile::{Granularity, ImageAddress, ImageOffset};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

/// Maximum number of suggestions.
const NEAR: usize = 5;

/// A place in a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The file.
    pub path: String,
    /// Position in the file.
    pub offset: ImageOffset,
    /// Address in the process.
    pub address: u64,
}

/// Finds the start of a line in each procedure that it is compiled into.
pub(crate) fn find_line(code: &mut TargetCode, file: &str, line: u32) -> Result<Vec<Spot>, Error> {
    let (mut near, mut files) = (BTreeSet::new(), BTreeSet::new());
    for image in mapped_images(code) {
        let Some((debug, symbols)) = image.debug.as_ref().zip(image.symbols.as_ref()) else {
            continue;
        };
        // The first address in each procedure, keyed by the procedure's start.
        let mut first: BTreeMap<u64, ImageAddress> = BTreeMap::new();
        let mut others: FxHashSet<String> = FxHashSet::default();
        let _ = debug.for_each_line(|range, path, number| {
            if !path_ends_with(path, file) {
                if !others.contains(path) {
                    others.insert(path.to_owned());
                }
                return;
            }
            if number != line {
                near.insert((number.abs_diff(line), format!("{file}:{number}")));
                return;
            }
            let offset = symbols.offset_of(range.start);
            let procedure = offset.and_then(|offset| symbols.procedure_at(offset));
            let key = procedure.map_or(range.start.0, |procedure| procedure.start.0);
            let known = first.entry(key).or_insert(range.start);
            *known = (*known).min(range.start);
        });
        let offsets = first
            .values()
            .filter_map(|address| symbols.offset_of(*address));
        let spots: Vec<Spot> = offsets
            .filter_map(|offset| spot_at(code, &image, offset))
            .collect();
        if !spots.is_empty() {
            return Ok(spots);
        }
        files.extend(others);
    }
    let near: Vec<String> = if near.is_empty() {
        similar_paths(files.iter().map(String::as_str), file)
    } else {
        near.into_iter().take(NEAR).map(|(_, name)| name).collect()
    };
    Err(not_found_error(code, format!("{file}:{line}"), near))
}

/// Returns the paths whose last component is spelled like that of `wanted`, the most alike first.
fn similar_paths<'a>(paths: impl Iterator<Item = &'a str>, wanted: &str) -> Vec<String> {
    let last = |path: &'a str| path.rsplit('/').next().unwrap_or(path);
    let wanted = wanted.rsplit('/').next().unwrap_or(wanted);
    let mut near = BTreeSet::new();
    for path in paths {
        let name = last(path);
        let stem = name.split('.').next().unwrap_or(name);
        let distance = [name, stem, stem.trim_start_matches("lib")]
            .into_iter()
            .map(|spelling| strsim::damerau_levenshtein(spelling, wanted))
            .min();
        if let Some(distance) = distance.filter(|distance| *distance <= wanted.len() / 3 + 1) {
            near.insert((distance, name.to_owned()));
        }
    }
    near.into_iter().take(NEAR).map(|(_, name)| name).collect()
}

/// Returns the first of these patterns that matches no mapped file and no source, with names of
/// similar spelling.
pub(crate) fn unmatched_pattern(
    code: &mut TargetCode,
    patterns: &[String],
) -> Option<(String, Vec<String>)> {
    let mut paths = BTreeSet::new();
    for image in mapped_images(code) {
        paths.insert(image.path.clone());
        if let Some(debug) = &image.debug {
            let _ = debug.for_each_line(|_, path, _| {
                if !paths.contains(path) {
                    paths.insert(path.to_owned());
                }
            });
        }
    }
    let fits = |pattern: &&String| paths.iter().any(|path| matches_pattern(pattern, path));
    let pattern = patterns.iter().find(|pattern| !fits(pattern))?;
    let plain = pattern.replace('*', "");
    let near = similar_paths(paths.iter().map(String::as_str), &plain);
    Some((pattern.clone(), near))
}

/// Finds the start of a function that only the unwind table knows, by a name that begins with
/// [`profile::UNNAMED_PROCEDURE`].
fn find_unnamed(code: &TargetCode, image: &CodeImage, name: &str) -> Option<Spot> {
    let symbols = image.symbols.as_ref()?;
    let address = name.strip_prefix(profile::UNNAMED_PROCEDURE)?;
    let digits = address.split([' ', ']']).next()?.strip_prefix("0x")?;
    let start = ImageAddress(u64::from_str_radix(digits, 16).ok()?);
    let offset = symbols.offset_of(start)?;
    let procedure = symbols.unwind_procedure(offset)?;
    (&*procedure.name == name).then(|| spot_at(code, image, offset))?
}

/// Finds the starts of the functions with this name.
pub(crate) fn find_function(code: &mut TargetCode, name: &str) -> Result<Vec<Spot>, Error> {
    let mut near = BTreeSet::new();
    for image in mapped_images(code) {
        let Some(symbols) = &image.symbols else {
            continue;
        };
        let mut spots: Vec<Spot> = find_unnamed(code, &image, name).into_iter().collect();
        for raw in symbols.all_procedures() {
            let demangled = raw.demangle_procedure().name;
            let plain = demangled.split('(').next().unwrap_or_default();
            if raw.name == name.as_bytes() || &*demangled == name || plain == name {
                spots.extend(spot_at(code, &image, raw.start));
            } else if near.len() < 10_000 {
                let distance = strsim::damerau_levenshtein(plain, name);
                if distance <= name.len() / 3 + 1 {
                    near.insert((distance, plain.to_owned()));
                }
            }
        }
        if !spots.is_empty() {
            return Ok(spots);
        }
    }
    let near = near.into_iter().take(NEAR).map(|(_, name)| name).collect();
    Err(not_found_error(code, format!("function {name}"), near))
}

/// Checks that the only fragment to speed up exists, and finds its full name.
pub(crate) fn check_fragment(
    code: &mut TargetCode,
    by: Granularity,
    wanted: &str,
) -> Result<(), Error> {
    if by == Granularity::Line
        && let Some((line, copy)) = split_copy(wanted)
    {
        return check_copy(code, line, copy);
    }
    match (by, split_line(wanted)) {
        (Granularity::Line, Some((file, number))) => find_line(code, &file, number).map(|_| ()),
        (Granularity::Line, None) => Err(not_found_error(code, wanted.to_owned(), Vec::new())),
        (Granularity::Function, _) => match find_function(code, wanted) {
            Err(_) if is_inlined(code, wanted) => Ok(()),
            found => found.map(|_| ()),
        },
    }
}

/// Checks that a line has this copy.
fn check_copy(code: &mut TargetCode, line: &str, copy: &str) -> Result<(), Error> {
    let wanted = format!("{line} ({copy})");
    let Some((file, number)) = split_line(line) else {
        return Err(not_found_error(code, wanted, Vec::new()));
    };
    let mut near = BTreeSet::new();
    for image in mapped_images(code) {
        let Some((debug, symbols)) = image.debug.as_ref().zip(image.symbols.as_ref()) else {
            continue;
        };
        let _ = debug.for_each_line(|range, path, of_range| {
            if of_range != number || !path_ends_with(path, &file) {
                return;
            }
            let offset = symbols.offset_of(range.start);
            let fragment = offset.and_then(|offset| code.fragment_at(&image, offset));
            near.extend(fragment.map(|it| format!("{} ({})", it.name, it.copy)));
        });
        if near.iter().any(|name| is_meant(name, &wanted)) {
            return Ok(());
        }
    }
    let near = near.into_iter().take(NEAR).collect();
    Err(not_found_error(code, wanted, near))
}

/// Returns whether any function of this name is inlined.
fn is_inlined(code: &mut TargetCode, name: &str) -> bool {
    let mut found = false;
    for image in mapped_images(code) {
        let Some(debug) = &image.debug else {
            continue;
        };
        let _ = debug.for_each_line(|range, _, _| {
            if !found {
                let frames = debug.source_frames(range.start, None).unwrap_or_default();
                found = frames.iter().any(|frame| &*frame.function == name);
            }
        });
    }
    found
}

/// Returns the executable first, then the libraries in the order of their addresses.
fn mapped_images(code: &mut TargetCode) -> Vec<Rc<CodeImage>> {
    let executable = code.executable().to_owned();
    let mut paths = vec![executable.clone()];
    let others = code.mappings().iter().map(|mapping| &mapping.path);
    paths.extend(
        others
            .filter(|path| **path != executable && path.starts_with('/'))
            .cloned(),
    );
    paths.dedup();
    paths.iter().map(|path| code.image_of(path)).collect()
}

fn spot_at(code: &TargetCode, image: &CodeImage, offset: ImageOffset) -> Option<Spot> {
    let mapping = code.mappings().iter().find(|mapping| {
        let length = mapping.range.end - mapping.range.start;
        let inside = offset.0.checked_sub(mapping.offset);
        mapping.path == image.path && inside.is_some_and(|at| at < length)
    })?;
    Some(Spot {
        path: image.path.clone(),
        offset,
        address: mapping.range.start + (offset.0 - mapping.offset),
    })
}

fn not_found_error(code: &TargetCode, what: String, near: Vec<String>) -> Error {
    Error::NoSuchPlace {
        what,
        program: PathBuf::from(code.executable()),
        near,
    }
}
