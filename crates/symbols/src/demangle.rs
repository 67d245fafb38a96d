use std::borrow::Cow;
use std::fmt;

/// Length above which names are left mangled: no compiler makes longer ones, and demangling can be
/// made to repeat parts of a name without end.
const MAX_MANGLED: usize = 1 << 16;
const MAX_DEMANGLED: usize = 1 << 16;

/// Returns the name as in the source, for Rust (without the hash) and C++ symbols; any other name
/// stays unchanged.
///
/// Suffixes of tools stay: `foo.cold` and `foo.part.0` from GCC (in C++ as `foo() [clone .cold]`),
/// `foo@plt`. Only symbol versions other than the default one stay (`foo@GLIBC_2.2.5`, but `foo`
/// for `foo@@GLIBC_2.14`).
pub fn demangle_name(name: &str) -> Cow<'_, str> {
    let (name, version) = match name.split_once('@') {
        Some(("", _)) | None => (name, ""),
        Some((base, version)) if version.starts_with('@') => (base, ""),
        Some((base, _)) => name.split_at(base.len()),
    };
    let demangled = if name.len() > MAX_MANGLED {
        None
    } else {
        demangle_rust(name).or_else(|| demangle_cpp(name))
    };
    match demangled {
        Some(demangled) => Cow::Owned(demangled + version),
        None if version.is_empty() => Cow::Borrowed(name),
        None => Cow::Owned(format!("{name}{version}")),
    }
}

fn demangle_rust(name: &str) -> Option<String> {
    if !name.starts_with("_R") && !name.starts_with("_ZN") {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded::default();
    fmt::write(&mut text, format_args!("{demangled:#}")).ok()?;
    Some(text.0)
}

fn demangle_cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("__Z") {
        return None;
    }
    let (symbol, rest) = cpp_demangle::BorrowedSymbol::with_tail(name.as_bytes()).ok()?;
    let mut text = Bounded::default();
    symbol
        .structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new())
        .ok()?;
    let rest = std::str::from_utf8(rest).ok()?;
    // `.cold`, `.part.0`, `.llvm.123`: clones of the function, distinguished by their suffixes.
    if rest.starts_with('.') {
        text.0 += rest;
    }
    // GCC encodes members of templates in result types outside of the grammar, with its own
    // numbering of later parts (`bool std::operator==<char>(…)`): then only the name is known.
    let is_known = rest.is_empty() || rest.starts_with('.') || rest.contains("XsrSt");
    is_known.then_some(text.0)
}

/// A string of limited length.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0 += text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_source_spells_them() {
        for (mangled, plain) in [
            ("main", "main"),
            ("foo.part.0", "foo.part.0"),
            ("foo.cold", "foo.cold"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@GLIBC_2.2.5", "memcpy@GLIBC_2.2.5"),
            ("puts@plt", "puts@plt"),
            ("main.(*server).run", "main.(*server).run"),
            ("go.shape.int", "go.shape.int"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_ZN3foo3barEi.cold", "foo::bar(int) [clone .cold]"),
            ("_ZN3foo3barEi@plt", "foo::bar(int)@plt"),
            (
                "_ZNKSt6vectorIiSaIiEE4sizeEv",
                "std::vector<int, std::allocator<int> >::size() const",
            ),
            (
                "_ZSteqIcEN9__gnu_cxx11__enable_ifIXsrSt9__is_charIT_E7__valueEbE6__typeERKNSt7__cxx1112basic_stringIS3_St11char_traitsIS3_ESaIS3_EEESE_",
                "std::operator==<char>",
            ),
            ("_ZSteqIcE_rubbish", "_ZSteqIcE_rubbish"),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_Znot_a_name", "_Znot_a_name"),
            ("_Rubbish", "_Rubbish"),
            ("@@", "@@"),
            ("", ""),
        ] {
            assert_eq!(demangle_name(mangled), plain, "{mangled}");
        }
    }

    #[test]
    fn a_name_that_explodes_is_left_alone() {
        // Each pair contains the one before it twice.
        let mut name = String::from("_Z1fSt4pairIiiE");
        let mut last = "S_".to_owned();
        for index in 0..60 {
            name += &format!("St4pairI{last}{last}E");
            last = format!(
                "S{}_",
                std::char::from_digit(index % 36, 36)
                    .unwrap_or('0')
                    .to_ascii_uppercase()
            );
        }
        assert!(demangle_name(&name).len() <= MAX_DEMANGLED);
        let long = format!("_ZN{}E", "1a".repeat(MAX_MANGLED));
        assert_eq!(demangle_name(&long), long);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_name(text in "\\PC*", tail in "[_ZNRSIECKvP0-9a-z$.]{0,60}") {
            let _ = demangle_name(&text);
            let _ = demangle_name(&format!("_Z{tail}"));
            let _ = demangle_name(&format!("_R{tail}"));
        }
    }
}
