//! Patterns that select functions.

use super::functions::TracedFunction;
use crate::scope::matches_pattern;
use profile::ImageOffset;

/// A pattern for functions: `NAME` or `IMAGE!NAME`, where `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern {
    image: Option<String>,
    name: String,
    /// Offset of the function. If there is one, the name is only for display.
    offset: Option<ImageOffset>,
}

impl FunctionPattern {
    /// Parses a pattern as a user writes it.
    pub fn parse(text: &str) -> Self {
        match text.split_once('!') {
            Some((image, name)) => Self {
                image: Some(image.to_owned()),
                name: name.to_owned(),
                offset: None,
            },
            None => Self {
                image: None,
                name: text.to_owned(),
                offset: None,
            },
        }
    }

    /// Returns a pattern for the function at an offset of an image.
    pub fn at(image: &str, offset: ImageOffset, name: &str) -> Self {
        Self {
            image: Some(image.to_owned()),
            name: name.to_owned(),
            offset: Some(offset),
        }
    }

    /// Returns the pattern as it was written.
    pub fn text(&self) -> String {
        match &self.image {
            Some(image) => format!("{image}!{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns whether the pattern applies to the image at a path. The image is matched by its
    /// path, its file name, or its file name up to `.so`. A pattern without an image applies to the
    /// executable.
    pub(super) fn is_for(&self, path: &str, executable: bool) -> bool {
        let Some(image) = &self.image else {
            return executable;
        };
        if self.offset.is_some() {
            return image == path;
        }
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.split(".so").next().unwrap_or(file);
        [file, stem, path]
            .iter()
            .any(|name| glob_matches(image, name))
    }

    /// Returns whether the pattern names no image.
    pub(super) fn is_anywhere(&self) -> bool {
        self.image.is_none()
    }

    /// Returns whether the pattern selects a function, by its offset or by one of its names.
    pub(super) fn means_function(&self, function: &TracedFunction) -> bool {
        if let Some(offset) = self.offset {
            return function.offset == offset;
        }
        function.names.iter().any(|name| self.fits(name))
    }

    /// Returns whether the pattern matches a name: the symbol, the demangled name, or the demangled
    /// name without parameters or brackets.
    pub fn fits(&self, name: &str) -> bool {
        if glob_matches(&self.name, name) {
            return true;
        }
        // Demangling most names of a C++ library for each pattern would take seconds. So names
        // without the pattern's last identifier are skipped.
        if last_identifier(&self.name).is_some_and(|last| !name.contains(last)) {
            return false;
        }
        let source = symbols::demangle_name(name);
        glob_matches(&self.name, &source)
            || glob_matches(&self.name, without_parameters(&source))
            || without_brackets(&source).is_some_and(|plain| glob_matches(&self.name, &plain))
    }
}

/// Returns the last identifier of a qualified name. Mangled names contain it as text. Returns
/// `None` for patterns, operators and templates, and for names of `std`, which mangling
/// abbreviates.
fn last_identifier(name: &str) -> Option<&str> {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    let is_qualified = !name.starts_with("std::") && name.chars().all(is_plain);
    let last = name.rsplit(':').next();
    last.filter(|last| is_qualified && last.is_ascii() && !last.is_empty())
}

/// Returns a Rust function's name as the older mangling had it: `a::B::c` for `<a::B>::c`.
fn without_brackets(name: &str) -> Option<String> {
    let (implemented, rest) = name.strip_prefix('<')?.split_once(">::")?;
    (!implemented.contains(" as ")).then(|| format!("{implemented}::{rest}"))
}

/// Returns a C++ function's name without its parameters.
pub(super) fn without_parameters(name: &str) -> &str {
    let mut depth = 0;
    let text = name.strip_suffix(" const").unwrap_or(name);
    if !text.ends_with(')') {
        return name;
    }
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    name
}

/// Returns whether a pattern with `*` matches a whole text.
fn glob_matches(pattern: &str, text: &str) -> bool {
    if pattern.contains('*') {
        matches_pattern(pattern, text)
    } else {
        pattern == text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_of_symbols_and_of_sources() {
        let pattern = FunctionPattern::parse;
        assert!(pattern("main").fits("main"));
        assert!(!pattern("main").fits("domain"));
        assert!(pattern("a*c*e").fits("abcde"));
        assert!(!pattern("a*c*ee").fits("abcde"));
        assert!(
            pattern("leveldb::DBImpl::Write")
                .fits("_ZN7leveldb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE")
        );
        assert!(!pattern("leveldb::DBImpl::Read").fits("_ZN7leveldb6DBImpl5WriteEv"));
        assert!(pattern("std::string::~string").fits("_ZNSsD1Ev"));
        assert!(pattern("operator new").fits("_Znwm"));
        assert!(
            pattern("leveldb::*")
                .fits("_ZN7leveldb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE")
        );
        assert_eq!(without_parameters("f(int, void (*)(int)) const"), "f");
        assert_eq!(without_parameters("operator()(int)"), "operator()");
        assert_eq!(
            without_brackets("<std::a::Mutex>::wake").as_deref(),
            Some("std::a::Mutex::wake")
        );
        assert_eq!(without_brackets("<a::B as c::D>::e"), None);
        assert!(pattern("libc!read").is_for("/usr/lib/libc.so.6", false));
        assert!(!pattern("libc!read").is_for("/usr/lib/libcrypt.so.1", false));
    }
}
