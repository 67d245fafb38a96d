//! Searches of the catalogue.

use super::function_name::{plain_function, qualified_name};
use super::pattern::{fits, fits_any, fits_file};
use super::row::{CodeKind, FunctionRole, KnownCode, KnownFunctions, KnownOperation, RuntimeWork};
use super::table::{KNOWN_CODE, RUNTIME};

impl KnownCode {
    /// Returns the code that a file belongs to, by its path.
    pub fn of_file(path: &str) -> Option<&'static Self> {
        KNOWN_CODE.iter().find(|code| code.has_file(path))
    }

    /// Returns whether a file belongs to it.
    pub fn has_file(&self, path: &str) -> bool {
        fits_file(self.files, path)
    }

    /// Returns whether a program of this path starts the code of this name.
    pub fn is_started_by(name: &str, path: &str) -> bool {
        let code = KNOWN_CODE.iter().find(|code| code.name == name);
        code.is_some_and(|code| code.has_file(path) || fits_file(code.starters, path))
    }

    /// Returns the directory of the installed package of a script; `None` for other scripts.
    pub fn package_of(script: &str) -> Option<&str> {
        let packages = KNOWN_CODE.iter().flat_map(|code| code.packages);
        let ends = packages.filter_map(|part| Some(script.rfind(part)? + part.len()));
        let begin = ends.max()?;
        let name = script[begin..].split('/').next().unwrap_or_default();
        Some(&script[..begin + name.len()])
    }

    /// Returns whether it works for its callers or scripts, and not for itself.
    pub fn works_for_others(&self) -> bool {
        !matches!(self.kind, CodeKind::Team | CodeKind::Other)
    }

    /// Returns whether a function of this name in its files executes scripts.
    pub fn executes_in(&self, name: &str) -> bool {
        use FunctionRole::{Executes, Loop};
        self.names_of([Loop, Executes])
            .any(|pattern| fits(pattern, name))
    }

    /// Returns whether it executes scripts in functions of its own; others only generate code.
    pub fn is_interpreted(&self) -> bool {
        use FunctionRole::{Executes, Loop};
        self.names_of([Loop, Executes]).next().is_some()
    }

    /// Returns the patterns of functions of these roles.
    pub(super) fn names_of<const N: usize>(
        &self,
        roles: [FunctionRole; N],
    ) -> impl Iterator<Item = &'static str> {
        let groups = self.functions.iter();
        let named = groups.filter(move |(role, _)| roles.contains(role));
        named.flat_map(|(_, names)| names.iter().copied())
    }
}

/// Returns whether a file is the C library, or a part of it.
pub fn is_c_library(path: &str) -> bool {
    let code = KnownCode::of_file(path);
    code.is_some_and(|code| matches!(code.kind, CodeKind::CLibrary | CodeKind::Loader))
}

/// Returns whether a script came with its interpreter.
pub fn is_library_script(path: &str) -> bool {
    let is_own = KNOWN_CODE.iter().any(|code| fits_any(code.scripts, path));
    is_own && KnownCode::package_of(path).is_none()
}

/// Returns whether a function of any code has this role.
pub fn has_role(name: &str, role: FunctionRole) -> bool {
    is_named(&plain_function(name), [role])
}

fn is_named<const N: usize>(name: &str, roles: [FunctionRole; N]) -> bool {
    let mut patterns = KNOWN_CODE.iter().flat_map(|code| code.names_of(roles));
    patterns.any(|pattern| fits(pattern, name))
}

/// Returns whether a function only leads to work: entries of the kernel, interrupts, the start of
/// processes and threads, and the names that profilers give to nameless code.
///
/// Below such functions is most of a program, or unrelated code.
pub fn is_glue(name: &str) -> bool {
    use FunctionRole::{Glue, KernelEntry, Loop, Start};
    is_named(&plain_function(name), [Glue, Start, KernelEntry, Loop])
}

/// Returns whether a name, or a part of it, without its return type begins as one of a standard
/// library that is compiled into programs.
pub fn is_standard_name(name: &str) -> bool {
    is_named(name, [FunctionRole::Library, FunctionRole::Generated])
}

/// Returns whether a standard library has packages whose names begin with this part.
pub fn is_package(part: &str) -> bool {
    is_named(part, [FunctionRole::Package])
}

/// Returns whether a function of the C library locks or unlocks.
pub fn is_lock_operation(name: &str) -> bool {
    is_named(name, [FunctionRole::Locking])
}

/// Returns all functions with a known operation.
pub fn known_functions() -> impl Iterator<Item = &'static KnownFunctions> {
    KNOWN_CODE.iter().flat_map(|code| code.operations)
}

impl KnownOperation {
    /// Returns the operation of a function, ignoring a version (`read@GLIBC_2.2.5`).
    pub fn of_function(name: &str) -> Option<Self> {
        let name = plain_function(name);
        let mut known = known_functions().filter(|(_, names)| fits_any(names, &name));
        known.next().map(|(operation, _)| *operation)
    }

    /// Returns whether a function has this operation.
    pub fn has_function(self, name: &str) -> bool {
        let name = plain_function(name);
        let mut known = known_functions().filter(|(operation, _)| *operation == self);
        known.any(|(_, names)| fits_any(names, &name))
    }
}

impl RuntimeWork {
    fn all() -> impl Iterator<Item = &'static Self> {
        KNOWN_CODE.iter().flat_map(|code| code.works)
    }

    /// Returns the work of a function and its callees, for any caller.
    pub fn of_function(name: &str, module: &str) -> Option<&'static Self> {
        Self::find_function(name, module, false)
    }

    /// Returns the work of a function if no function of the program is on the stack.
    pub fn of_lone_function(name: &str, module: &str) -> Option<&'static Self> {
        Self::find_function(name, module, true)
    }

    fn find_function(name: &str, module: &str, alone: bool) -> Option<&'static Self> {
        let name = qualified_name(name);
        let does = |(files, names): &(&[&str], &[&str])| {
            fits_any(names, name) && (files.is_empty() || fits_file(files, module))
        };
        let mut known = Self::all().filter(|work| work.only_alone == alone);
        known.find(|work| work.functions.iter().any(does))
    }

    /// Returns the work of a thread, by its name.
    pub fn of_thread(thread: &str) -> Option<&'static Self> {
        Self::all().find(|work| fits_any(work.threads, thread))
    }

    /// Returns the work that a frame of a tree stands for.
    pub fn of_frame(name: &str, module: &str) -> Option<&'static Self> {
        let mut all = Self::all().filter(|_| module == RUNTIME);
        all.find(|work| work.name == name)
    }

    /// Returns whether a function's calls cause it.
    pub fn is_allocator(&self, name: &str) -> bool {
        fits_any(self.allocators, qualified_name(name))
    }
}

#[cfg(test)]
mod tests;
