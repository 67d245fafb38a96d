//! Patterns for the names of functions, files and threads.

/// Returns whether a text matches a pattern, in which `*` stands for any text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    // Nearly all comparisons end here, because names are looked up in the whole catalogue.
    let [first, of_text] = [pattern, text].map(|name| name.as_bytes().first());
    if first != of_text && first != Some(&b'*') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(end) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        rest = behind;
    }
    rest.ends_with(end)
}

/// Returns whether a text matches one of these patterns.
pub(super) fn fits_any(patterns: &[&str], text: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern, text))
}

/// Returns whether a path's last part matches one of these patterns, with an optional version or
/// suffix: `python` matches `python3.12`, but neither `pythonista` nor `python-server`.
pub(super) fn fits_file(patterns: &[&str], path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let is_version = |rest: &str| {
        let number = rest.strip_prefix('-').unwrap_or(rest);
        number.starts_with(|c: char| c.is_ascii_digit()) || rest.starts_with(['.', ' '])
    };
    patterns.iter().any(|pattern| {
        let rest = file.strip_prefix(pattern);
        fits(pattern, file) || rest.is_some_and(is_version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text) in [
            ("read", "read"),
            ("read*", "read"),
            ("read*", "readv"),
            ("*::Write", "leveldb::DBImpl::Write"),
            ("v8::*Mark*Compact", "v8::MarkAndCompact"),
            ("*", ""),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("read", "readv"), ("a*b*c", "a-c-b"), ("ab*b", "ab")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn files_have_versions_behind_their_names() {
        let is_python = |path| fits_file(&["python", "libpython"], path);
        for path in [
            "/usr/bin/python",
            "/usr/bin/python3.12",
            "/usr/lib/libpython3.8.so.1.0",
            "python-3.11",
            "/usr/bin/python (deleted)",
        ] {
            assert!(is_python(path), "{path}");
        }
        for path in ["pythonista", "/srv/python-server", "/usr/lib/libc.so.6", ""] {
            assert!(!is_python(path), "{path}");
        }
    }
}
