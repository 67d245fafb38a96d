//! Images that work for others, and functions that only lead to work.

use crate::bottleneck::glue::is_glue;

/// Images of these names work for who calls them, beside the C library.
const LANGUAGE_LIBRARIES: [&str; 7] = [
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libm.so",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];

/// Returns whether an image is the C library, or a part of it.
pub fn is_c_library(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    let libraries = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"];
    libraries.iter().any(|library| file.starts_with(library))
}

/// Returns whether an image is of those that only work for who calls them: the C library, an allocator, the runtime of C++.
pub(super) fn is_language_library(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    is_c_library(module)
        || LANGUAGE_LIBRARIES
            .iter()
            .any(|library| file.starts_with(library))
}

/// Returns whether a function's name tells nobody what to change: the program itself, or code without a name.
pub(super) fn says_little(name: &str) -> bool {
    name == "main" || name.starts_with('[')
}

/// Returns whether a function, given with its module, only leads to work.
pub(super) fn leads_to_work((name, module): &(String, String)) -> bool {
    says_little(name) || is_glue(name) || is_language_library(module)
}
