//! Names of places in sentences.

use profile::{
    Finding, FindingEvidence, FindingPlace, KERNEL_CALL, PAGE_FAULT, PlaceInCode, plain_name,
};

/// Number of last functions of a call path that a sentence names.
const PATH_END: usize = 3;
/// Length in characters above which names are shortened in sentences.
const LONG_NAME: usize = 80;

/// Returns a name that fits into a sentence: a long one loses the arguments of templates and
/// functions, then its middle.
pub fn short_name(name: &str) -> String {
    if name.chars().count() <= LONG_NAME {
        return name.to_owned();
    }
    let mut short = String::new();
    let (mut depth, mut last) = (0_u32, ' ');
    for letter in name.chars() {
        // `operator<`, `->`, and Rust's `<Type as Trait>::function` have other brackets.
        let opens = letter == '<' && (last.is_alphanumeric() || last == ':' || last == '_');
        match letter {
            '(' if !short.ends_with("operator") || depth > 0 => depth += 1,
            '<' if depth > 0 || opens => depth += 1,
            '>' | ')' if depth > 0 && last != '-' => {
                depth -= 1;
                if depth == 0 {
                    short.push('…');
                }
            }
            _ => {}
        }
        let is_bracket_of_depth = matches!(letter, '(' | '<') && depth == 1;
        if depth == 0 || is_bracket_of_depth && !short.ends_with(letter) {
            short.push(letter);
        }
        last = letter;
    }
    let letters: Vec<char> = short.chars().collect();
    if letters.len() <= LONG_NAME {
        return short;
    }
    let half = LONG_NAME / 2;
    let end = &letters[letters.len() - half + 1..];
    let begin = letters.iter().take(half);
    begin.chain(&['…']).chain(end).collect()
}

/// Part of a place's time above which one function asks for all of it.
pub(super) const ALL_OF_IT: f64 = 0.95;

/// Returns the place of a finding as sentences name it: the innermost function of a path; the
/// kernel's work with the function that asked for it; a line with its procedure.
pub fn place_name(finding: &Finding) -> String {
    match &finding.place.what {
        PlaceInCode::CallPath { path } => {
            caller_and_call(path, only_asker(finding).unwrap_or_default())
        }
        PlaceInCode::Line { line, procedure } if !procedure.is_empty() => {
            short_name(&format!("{} ({line})", plain_name(procedure)))
        }
        other => short_name(&other.name()),
    }
}

/// Returns the function that asks for all of a place's time.
pub(super) fn only_asker(finding: &Finding) -> Option<&str> {
    finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::OnBehalfOf { function, part } if *part >= ALL_OF_IT => {
            Some(function.as_str())
        }
        _ => None,
    })
}

/// Returns the last function of a path. For the kernel's work, adds the function of the program
/// that asked for it: `asker`, unless that is empty.
fn caller_and_call(path: &[String], asker: &str) -> String {
    let Some((last, callers)) = path.split_last() else {
        return String::new();
    };
    let call = match last.strip_suffix(KERNEL_CALL) {
        Some(call) => call,
        None if last == PAGE_FAULT => last,
        None => return short_name(last),
    };
    // Functions of C libraries that only pass a call on begin with an underscore.
    let is_wrapper = |name: &&String| {
        let go = ["syscall.", "internal/", "runtime."];
        name.starts_with('_') || go.iter().any(|package| name.starts_with(package))
    };
    let caller = callers.iter().rev().find(|name| !is_wrapper(name));
    match Some(asker)
        .filter(|asker| !asker.is_empty())
        .or(caller.or(callers.last()).map(String::as_str))
    {
        Some(caller) => format!("{} > {call}", short_name(plain_name(caller))),
        None => call.to_owned(),
    }
}

/// Returns the end of a call path; `None` if it has no callers.
pub(super) fn path_end(place: &FindingPlace) -> Option<String> {
    let PlaceInCode::CallPath { path } = &place.what else {
        return None;
    };
    if path.len() < 2 {
        return None;
    }
    let end = path.get(path.len().saturating_sub(PATH_END)..)?.join(" > ");
    let begin = if path.len() > PATH_END { "… > " } else { "" };
    Some(format!("the call path {begin}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_fit_into_a_sentence() {
        let arguments = "unsigned int, std::pair<unsigned int const, long>";
        let argument = "std::allocator<std::pair<unsigned int const, unsigned long> >";
        for (name, short) in [
            ("short<int>(char)".to_owned(), "short<int>(char)"),
            (
                format!("std::map<{arguments}, {argument} >::find({argument} const&) const"),
                "std::map<…>::find(…) const",
            ),
            (
                format!("<app::Table<{argument}> as core::ops::Index<{arguments}>>::index"),
                "<app::Table<…> as core::ops::Index<…>>::index",
            ),
        ] {
            assert_eq!(short_name(&name), short);
        }
        let endless = "x".repeat(600);
        assert_eq!(short_name(&endless).chars().count(), LONG_NAME);
    }

    #[test]
    fn the_kernels_work_is_named_with_who_asked() {
        for (path, named) in [
            (
                &["save", "__fsync", "fsync (system call)"][..],
                "save > fsync",
            ),
            (
                &["__GI___pthread_mutex_unlock", "futex (system call)"],
                "pthread_mutex_unlock > futex",
            ),
            (&["futex (system call)"], "futex"),
            (&["main", "work"], "work"),
        ] {
            let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(caller_and_call(&path, ""), named);
        }
    }
}
