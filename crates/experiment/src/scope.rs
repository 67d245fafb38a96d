//! Code that may be sped up (section 3.1, "attributing samples to source locations").

use languages::go::GoModule;

/// Sources that are not the program's own: the system's headers, and files of compilers and package
/// managers. Time spent in them belongs to the calling line.
const FOREIGN: [&str; 10] = [
    "/usr/include/",
    "/usr/lib/",
    "/usr/local/include/",
    "/rustc/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/.rustup/",
    "/usr/src/",
    "/usr/local/go/src/",
    "/go/pkg/mod/",
];

/// Images and sources in scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceScope {
    patterns: Vec<String>,
    executable: String,
    /// The module of a Go executable. Paths of sources do not tell: a tool installed by Go has its
    /// own below those of all modules, and `-trimpath` shortens them.
    module: Option<GoModule>,
}

impl SourceScope {
    /// Makes the scope of these patterns; without any: the executable, without foreign sources.
    pub fn new(patterns: &[String], executable: &str) -> Self {
        Self {
            patterns: patterns.to_vec(),
            executable: executable.to_owned(),
            module: None,
        }
    }

    /// Adds the module of a Go executable.
    pub fn with_module(self, module: Option<GoModule>) -> Self {
        Self { module, ..self }
    }

    /// Returns whether the image as a whole is in scope.
    pub fn has_image(&self, image: &str) -> bool {
        if self.patterns.is_empty() {
            return image == self.executable;
        }
        self.patterns
            .iter()
            .any(|pattern| matches_pattern(pattern, image))
    }

    /// Returns whether an image can have code in scope.
    pub fn may_have(&self, image: &str) -> bool {
        !self.patterns.is_empty() || self.has_image(image)
    }

    /// Returns whether code of an image is in scope, by its source file and its function; `None`:
    /// unknown.
    pub fn is_in_scope(&self, image: &str, source: Option<&str>, function: Option<&str>) -> bool {
        let named = |source: &str| {
            self.patterns
                .iter()
                .any(|pattern| matches_pattern(pattern, source))
        };
        if source.is_some_and(named) {
            return true;
        }
        let module = self.module.as_ref().filter(|_| image == self.executable);
        let of_module = module.zip(function);
        let own = of_module.and_then(|(module, function)| module.has_function(function));
        let is_foreign = |source: &str| FOREIGN.iter().any(|part| source.contains(part));
        self.has_image(image) && own.unwrap_or_else(|| !source.is_some_and(is_foreign))
    }
}

/// Returns whether a pattern matches a path: `*` stands for any characters; without one, the
/// pattern may be any part of the path.
pub(crate) fn matches_pattern(pattern: &str, path: &str) -> bool {
    if !pattern.contains('*') {
        return path.contains(pattern);
    }
    let mut rest = path;
    let mut parts = pattern.split('*').peekable();
    let Some(first) = parts.next().and_then(|first| rest.strip_prefix(first)) else {
        return false;
    };
    rest = first;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Returns whether a path ends with `end`, at the border of a component.
pub(crate) fn path_ends_with(path: &str, end: &str) -> bool {
    match path.strip_suffix(end) {
        Some(before) => before.is_empty() || before.ends_with('/') || end.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_parts_and_wholes() {
        for (pattern, path, fits) in [
            ("src/", "/home/a/src/b.c", true),
            ("*.c", "/home/a/src/b.c", true),
            ("*.c", "/home/a/src/b.cc", false),
            ("/home/*/b.*", "/home/a/src/b.c", true),
            ("/home/*/x*", "/home/a/src/b.c", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn the_executable_without_foreign_sources_is_the_default() {
        let scope = SourceScope::new(&[], "/a/app");
        let in_scope = |image, source| scope.is_in_scope(image, Some(source), None);
        assert!(in_scope("/a/app", "/src/app.cc"));
        assert!(!in_scope("/a/app", "/usr/include/c++/12/bits/stl_vector.h"));
        assert!(!in_scope("/lib/libc.so.6", "/src/app.cc"));
        assert!(!scope.may_have("/lib/libc.so.6"));
    }

    #[test]
    fn patterns_name_images_and_sources() {
        let scope = SourceScope::new(&["libfoo".into(), "/usr/include/bar".into()], "/a/app");
        let in_scope = |image, source| scope.is_in_scope(image, Some(source), None);
        assert!(in_scope("/lib/libfoo.so", "/src/foo.c"));
        assert!(!in_scope("/a/app", "/src/app.cc"));
        assert!(in_scope("/a/app", "/usr/include/bar.h"));
    }

    #[test]
    fn of_a_go_program_the_main_module_is_in_scope() {
        let module = GoModule::new("example.com/tool");
        let scope = SourceScope::new(&[], "/a/app").with_module(Some(module));
        let in_scope = |source, function| scope.is_in_scope("/a/app", source, Some(function));
        let installed = Some("/root/go/pkg/mod/example.com/tool@v1.0.0/main.go");
        assert!(in_scope(installed, "main.main"));
        assert!(in_scope(None, "example.com/tool/inner.Sum"));
        assert!(!in_scope(Some("runtime/malloc.go"), "runtime.mallocgc"));
        assert!(!in_scope(None, "example.com/other.New"));
        // C code of the program is recognised by its source.
        assert!(in_scope(Some("/src/fast.c"), "fast_sum"));
        assert!(!in_scope(Some("/usr/include/x.h"), "fast_sum"));
    }

    #[test]
    fn a_path_is_named_by_its_last_components() {
        for (path, end, fits) in [
            ("/src/app/main.c", "main.c", true),
            ("/src/app/main.c", "app/main.c", true),
            ("/src/app/main.c", "/src/app/main.c", true),
            ("main.c", "main.c", true),
            ("/src/app/domain.c", "main.c", false),
            ("/src/app/main.cc", "main.c", false),
        ] {
            assert_eq!(path_ends_with(path, end), fits, "{path} {end}");
        }
    }
}
