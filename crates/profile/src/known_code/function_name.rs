//! Names of functions without the parts that compilers add.

use std::borrow::Cow;

/// Returns a function's name as in the catalogue: without its version, the C library's prefix of
/// its own uses (`__GI_`), its hash, its return type, its arguments if it is qualified, the calling
/// convention of Go's assembly, and the brackets of Rust's newer names (`<a::B>::c`).
pub(super) fn plain_function(name: &str) -> Cow<'_, str> {
    let plain = name.split('@').next().unwrap_or(name);
    let plain = plain.strip_prefix("__GI_").unwrap_or(plain);
    let plain = plain.strip_suffix(".abi0").unwrap_or(plain);
    let plain = match plain.rsplit_once("::h") {
        Some((start, hash)) if hash.len() == 16 => start,
        _ => plain,
    };
    // Profilers' names for nameless code have words and brackets of their own.
    let is_placeholder = plain.starts_with(['[', '(']);
    let plain = if is_placeholder {
        plain
    } else {
        without_arguments(qualified_name(plain))
    };
    let inherent = plain.strip_prefix('<').and_then(|rest| {
        let (implemented, rest) = rest.split_once(">::")?;
        (!implemented.contains(" as ")).then(|| format!("{implemented}::{rest}"))
    });
    inherent.map_or(Cow::Borrowed(plain), Cow::Owned)
}

/// Returns the name of a qualified C++ function without its arguments. Others keep them, because
/// many programs have a `start(int)` of their own.
fn without_arguments(name: &str) -> &str {
    let Some(inside) = name.strip_suffix(')').filter(|_| name.contains("::")) else {
        return name;
    };
    let mut depth = 1_u32;
    let opening = inside.char_indices().rev().find(|(_, letter)| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    opening.map_or(name, |(at, _)| &name[..at])
}

/// Returns a C++ function's name without its return type, which names of template instances begin
/// with.
pub fn qualified_name(name: &str) -> &str {
    let (mut depth, mut begin) = (0_u32, 0);
    for (at, letter) in name.char_indices() {
        match letter {
            '(' if depth == 0 && !is_anonymous(&name[at..]) && !is_type(&name[..at]) => break,
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0
                && !name[..at].ends_with("operator")
                && !is_place(&name[at + 1..]) =>
            {
                begin = at + 1;
            }
            _ => {}
        }
    }
    &name[begin..]
}

/// Returns whether a part of a name is an anonymous namespace, and not a list of arguments.
fn is_anonymous(part: &str) -> bool {
    part.starts_with("(anonymous ")
}

/// Returns whether the text before a parenthesis makes the parenthesis a part of the return type.
fn is_type(before: &str) -> bool {
    before.trim_end().ends_with("decltype")
}

/// Returns whether a part of a name is the file and line at the end of names of scripts' functions.
fn is_place(part: &str) -> bool {
    part.starts_with('(') && !is_anonymous(part)
}

#[cfg(test)]
mod tests {
    use super::qualified_name;

    #[test]
    fn types_that_are_returned_are_left_out() {
        for (name, qualified) in [
            (
                "void std::sort<int*>(int*, int*)",
                "std::sort<int*>(int*, int*)",
            ),
            ("app::less(int, app::A)", "app::less(int, app::A)"),
            (
                "void v8::internal::(anonymous namespace)::Scavenge<int>(v8::A b)",
                "v8::internal::(anonymous namespace)::Scavenge<int>(v8::A b)",
            ),
            ("main", "main"),
            (
                "decltype (::new((void*)(0)) int((declval<int>)())) std::construct_at<int>(int*)",
                "std::construct_at<int>(int*)",
            ),
            (
                "java.util.List.of (List.java:9)",
                "java.util.List.of (List.java:9)",
            ),
        ] {
            assert_eq!(qualified_name(name), qualified);
        }
    }
}
