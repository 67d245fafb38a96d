//! Sides of one cost (ours): a value costs time when it is made and when it is dropped, memory when
//! it is first touched and when it is given back, and a thread when it is started and awaited. What
//! is written inside of a function, such as a comprehension, is a part of it. One change avoids
//! all.

use super::asker::{STARTS, find_starter};
use super::libraries::{label_of, says_little};
use super::sequences::{Sequences, UnitedPlace};
use super::timed_tree::{KERNEL, MethodName};
use profile::known_code::qualified_name;
use profile::{KERNEL_CALL, PAGE_FAULT};
use std::collections::BTreeMap;

/// System calls that ask for memory and give it back.
const MEMORY_CALLS: [&str; 5] = ["mmap", "munmap", "mremap", "madvise", "brk"];

/// System calls that replace the program of a process, and that wait for the end of one.
const PROCESS_CALLS: [&str; 3] = ["execve", "wait4", "waitid"];
/// The call that waits for the end of a thread, and for much else.
const FUTEX: &str = "futex";

/// Finds the sequences that are sides of one cost; the dearest one is the place. A sequence is a
/// side of one cost only.
pub(super) fn find_pairs(sequences: &Sequences<'_>) -> Vec<UnitedPlace> {
    let mut places: Vec<UnitedPlace> = Vec::new();
    let starts = find_starts(sequences).into_iter();
    let found = starts
        .chain(find_lifetimes(sequences))
        .chain(find_memory(sequences))
        .chain(find_repeated_calls(sequences))
        .chain(find_written_inside(sequences));
    for place in found {
        let known = |at: &usize| places.iter().any(|known| known.inside.contains(at));
        if !place.inside.iter().any(known) {
            places.push(place);
        }
    }
    places
}

/// Starting and ending threads or processes, with the calls by which that is done.
fn find_starts(sequences: &Sequences<'_>) -> Option<UnitedPlace> {
    let all = || sequences.sequences.iter().enumerate();
    let (start, place) = all().find(|(_, sequence)| sequence.is_process_start())?;
    let starter = find_starter(sequences);
    let calls = all().filter(|(_, sequence)| {
        let call = system_call_of(&sequence.path);
        let asker = sequences.tree.asking_function(&sequence.path);
        let is_of_starter = || {
            let starter = starter.as_ref().map(|(starter, _)| starter).zip(asker);
            starter.is_some_and(|(starter, asker)| calls_function(sequences, starter, asker))
        };
        call.is_some_and(|call| {
            STARTS.contains(&call)
                || PROCESS_CALLS.contains(&call)
                || call == FUTEX && is_of_starter()
        })
    });
    let calls = calls.map(|(at, _)| at);
    let inside: Vec<usize> = std::iter::once(start).chain(calls).collect();
    let path = place.path.clone();
    (inside.len() > 1).then_some(UnitedPlace { path, inside })
}

/// Functions with those that are written inside of them.
fn find_written_inside(sequences: &Sequences<'_>) -> Vec<UnitedPlace> {
    let mut functions: BTreeMap<(&str, &str), (bool, Vec<usize>)> = BTreeMap::new();
    for (at, sequence) in sequences.sequences.iter().enumerate() {
        let Some((name, module)) = sequence.path.last() else {
            continue;
        };
        let around = function_around(name);
        let function = around.unwrap_or_else(|| label_of(name));
        if module != KERNEL && !says_little(function) {
            let (is_around, inside) = functions.entry((function, module)).or_default();
            *is_around |= around.is_some();
            inside.push(at);
        }
    }
    let around = functions.into_values().filter(|(is_around, _)| *is_around);
    around
        .filter_map(|(_, inside)| unite_with_dearest(sequences, inside))
        .collect()
}

/// Returns the named function that a nameless one is written in: `parse` for Python's
/// `parse.<locals>.<dictcomp>`, Rust's `parse::{closure#0}` and Go's `parse.func1`.
fn function_around(name: &str) -> Option<&str> {
    let label = label_of(name);
    let python = label.find(".<locals>.<");
    let rust = label.find("::{closure");
    let go = label.find(".func").filter(|at| {
        let number = label[at + 5..].split('.').next();
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let end = [python, rust, go].into_iter().flatten().min()?;
    label.get(..end).filter(|function| !function.is_empty())
}

/// Constructors and destructors of one type.
fn find_lifetimes(sequences: &Sequences<'_>) -> Vec<UnitedPlace> {
    let mut types: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, sequence) in sequences.sequences.iter().enumerate() {
        // A function of a standard library is the place itself if `main` or a nameless function
        // calls it.
        let called = sequence.path.iter().rfind(|(_, module)| module != KERNEL);
        let functions = [sequences.tree.asking_function(&sequence.path), called];
        let of_type = functions.into_iter().flatten().find_map(|(name, module)| {
            let of_type = type_of_lifetime(name)?;
            Some((of_type, module.as_str()))
        });
        if let Some(of_type) = of_type {
            types.entry(of_type).or_default().push(at);
        }
    }
    let united = types.into_values();
    united
        .filter_map(|inside| unite_with_dearest(sequences, inside))
        .collect()
}

/// Returns page faults with the calls that ask for memory and give it back, by the same function or
/// a caller of it.
fn find_memory(sequences: &Sequences<'_>) -> Option<UnitedPlace> {
    let ends_in = |at: usize, is_call: &dyn Fn(&str) -> bool| {
        let last = sequences.sequences[at].path.last();
        last.is_some_and(|(name, module)| module == KERNEL && is_call(name))
    };
    let all = 0..sequences.sequences.len();
    let time = |at: &usize| sequences.sequences[*at].time();
    let faults = all.clone().filter(|at| ends_in(*at, &|n| n == PAGE_FAULT));
    let faults = faults.max_by(|a, b| time(a).total_cmp(&time(b)))?;
    let toucher = sequences
        .tree
        .asking_function(&sequences.sequences[faults].path)?;
    let calls = all.filter(|at| ends_in(*at, &is_memory_call));
    let related = calls.filter(|at| {
        let asker = sequences
            .tree
            .asking_function(&sequences.sequences[*at].path);
        asker.is_some_and(|asker| calls_function(sequences, asker, toucher))
    });
    let inside = std::iter::once(faults).chain(related).collect();
    unite_with_dearest(sequences, inside)
}

/// The same system call by the same function, on several ways through libraries.
fn find_repeated_calls(sequences: &Sequences<'_>) -> Vec<UnitedPlace> {
    let mut calls: BTreeMap<(&MethodName, &str), Vec<usize>> = BTreeMap::new();
    for (at, sequence) in sequences.sequences.iter().enumerate() {
        let call = system_call_of(&sequence.path);
        if let Some((asker, call)) = sequences.tree.asking_function(&sequence.path).zip(call) {
            calls.entry((asker, call)).or_default().push(at);
        }
    }
    let united = calls.into_values();
    united
        .filter_map(|inside| unite_with_dearest(sequences, inside))
        .collect()
}

fn is_memory_call(name: &str) -> bool {
    let call = name.strip_suffix(KERNEL_CALL);
    call.is_some_and(|call| MEMORY_CALLS.contains(&call))
}

/// Returns the system call with which a path ends.
fn system_call_of(path: &[MethodName]) -> Option<&str> {
    let last = path.last().filter(|(_, module)| module == KERNEL);
    last.and_then(|(name, _)| name.strip_suffix(KERNEL_CALL))
}

/// Returns whether `caller` is `callee`, or has most of its time below it.
fn calls_function(sequences: &Sequences<'_>, caller: &MethodName, callee: &MethodName) -> bool {
    let outer = sequences.tree.nodes_of_function(caller);
    let inner = sequences.tree.nodes_of_function(callee);
    let all: f64 = inner.iter().map(|nodes| sequences.time_of(nodes)).sum();
    let is_inside = |nodes: &&std::ops::Range<usize>| {
        let mut outer = outer.iter();
        outer.any(|outer| outer.start <= nodes.start && nodes.end <= outer.end)
    };
    let below = inner.iter().filter(is_inside);
    let below: f64 = below.map(|nodes| sequences.time_of(nodes)).sum();
    caller == callee || below > 0.0 && below >= all / 2.0
}

fn unite_with_dearest(sequences: &Sequences<'_>, inside: Vec<usize>) -> Option<UnitedPlace> {
    let time = |at: &&usize| sequences.sequences[**at].time();
    let dearest = *inside.iter().max_by(|a, b| time(a).total_cmp(&time(b)))?;
    let path = sequences.sequences[dearest].path.clone();
    (inside.len() > 1).then_some(UnitedPlace { path, inside })
}

/// Returns the type that a C++ function constructs or destructs: `State` for `State::State(int)`
/// and `State::~State()`.
fn type_of_lifetime(name: &str) -> Option<&str> {
    let name = qualified_name(name);
    let name = &name[..outside_of_arguments(name)
        .find(|(_, rest)| rest.starts_with('('))?
        .0];
    let (of_type, function) = split_last_scope(name)?;
    let own = split_last_scope(of_type).map_or(of_type, |(_, own)| own);
    let own = own.split('<').next().unwrap_or(own);
    let function = function.strip_prefix('~').unwrap_or(function);
    (function == own).then_some(of_type)
}

/// Splits a name at its last `::` outside of template arguments.
fn split_last_scope(name: &str) -> Option<(&str, &str)> {
    let scopes = outside_of_arguments(name).filter(|(_, rest)| rest.starts_with("::"));
    let (at, _) = scopes.last()?;
    Some((&name[..at], &name[at + 2..]))
}

/// Returns the positions outside of template arguments, each with the rest of the name from there.
fn outside_of_arguments(name: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut depth = 0_u32;
    name.char_indices().filter_map(move |(at, letter)| {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then(|| (at, &name[at..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_and_destructors_are_known_by_their_type() {
        for (name, of_type) in [
            ("State::State(State const&)", "State"),
            ("State::~State()", "State"),
            ("game::State::State(int)", "game::State"),
            ("Grid<float>::Grid(int)", "Grid<float>"),
            (
                "std::vector<std::string, std::allocator<std::string> >::vector(std::vector<std::string> const&)",
                "std::vector<std::string, std::allocator<std::string> >",
            ),
            (
                "std::vector<std::string, std::allocator<std::string> >::~vector()",
                "std::vector<std::string, std::allocator<std::string> >",
            ),
        ] {
            assert_eq!(type_of_lifetime(name), Some(of_type), "{name}");
        }
        for name in [
            "score_state(State const&)",
            "State::score()",
            "main",
            "a::b::c",
        ] {
            assert_eq!(type_of_lifetime(name), None, "{name}");
        }
    }

    #[test]
    fn calls_about_memory_are_known_by_their_names() {
        assert!(is_memory_call("munmap (system call)"));
        assert!(!is_memory_call("write (system call)"));
        assert!(!is_memory_call("munmap"));
    }
}
