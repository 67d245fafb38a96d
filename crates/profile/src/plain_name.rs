//! Names of functions without what compilers and libraries add.

/// Suffixes that compilers and linkers append to the name of a function that they cloned or split.
const CLONE_SUFFIXES: [&str; 10] = [
    "cold",
    "constprop",
    "isra",
    "part",
    "llvm",
    "lto_priv",
    "clone",
    "hot",
    "warm",
    "unlikely",
];

/// Strips what compilers append to clones of a function, and prefixes that C libraries put before
/// the same function: `work.isra.0`, `___pthread_mutex_lock`, `__GI_fsync`, `__libc_write`.
pub fn plain_name(name: &str) -> &str {
    let name = strip_clones(name);
    let plain = name.trim_start_matches('_');
    let plain = plain.strip_prefix("GI_").unwrap_or(plain);
    let plain = plain.trim_start_matches('_');
    if name.starts_with('_') {
        plain.strip_prefix("libc_").unwrap_or(plain)
    } else {
        plain
    }
}

/// Returns the name of the cloned function: `work` for `work.part.0.cold`, `f` for Rust's
/// `f::h0123456789abcdef`.
pub fn strip_clones(name: &str) -> &str {
    let mut rest = name;
    loop {
        let stripped = strip_one(rest);
        if stripped.len() == rest.len() || stripped.is_empty() {
            return rest;
        }
        rest = stripped;
    }
}

fn strip_one(name: &str) -> &str {
    if let Some((head, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return head;
    }
    if let Some(at) = name.rfind(" [clone ")
        && name.ends_with(']')
    {
        return &name[..at];
    }
    let (head, last) = match name.rsplit_once('.') {
        Some((head, number)) if is_decimal(number) => match head.rsplit_once('.') {
            Some((head, last)) => (head, last),
            None => return name,
        },
        Some(split) => split,
        None => return name,
    };
    if CLONE_SUFFIXES.contains(&last) {
        head
    } else {
        name
    }
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_append_is_known() {
        for (name, base) in [
            ("work.llvm.1234567890", "work"),
            ("a::b::h0123456789abcdef", "a::b"),
            ("ns::f(int) [clone .cold]", "ns::f(int)"),
            ("ns::f(int).cold", "ns::f(int)"),
            ("main.run.func1", "main.run.func1"),
            ("x.5", "x.5"),
            (".cold", ".cold"),
        ] {
            assert_eq!(strip_clones(name), base);
        }
    }

    #[test]
    fn names_of_the_c_library_are_those_of_its_manual() {
        for (name, plain) in [
            ("__GI___libc_write", "write"),
            ("___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__libc_pread64", "pread64"),
            ("libc_of_mine", "libc_of_mine"),
            ("write", "write"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }

    #[test]
    fn a_clone_is_its_function() {
        assert_eq!(plain_name("next_number.isra.0"), "next_number");
        // Go's functions have points, too.
        assert_eq!(plain_name("main.handle.func1"), "main.handle.func1");
    }
}
