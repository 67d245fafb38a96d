//! Code that works for its callers, and functions that only lead to work.

use profile::known_code::{
    FunctionRole, KnownCode, RUNTIME, has_role, is_glue, is_library_script, is_package,
    is_standard_name, qualified_name,
};

/// Returns whether a function, given with its module, only works for its callers: functions of the
/// C library, of an allocator, of the standard library of C++, Rust, Go or Java, of an interpreter,
/// and the work of a runtime.
pub(super) fn is_language_library((name, module): &(String, String)) -> bool {
    let is_script = is_script_function(name);
    // Perf maps name Node.js's own scripts with their file.
    let is_of_node = || name.starts_with("JS:") && name.contains(" node:");
    module == RUNTIME
        || KnownCode::of_file(module).is_some_and(|code| code.works_for_others() && !is_script)
        || is_of_standard_library(name)
        || is_library_script(module)
        || is_script && has_role(name, FunctionRole::ScriptLibrary)
        || is_of_node()
}

/// Returns whether a function is a script's: such names include the file and line.
pub(super) fn is_script_function(name: &str) -> bool {
    let place = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once(':'));
    place.is_some_and(|(name, line)| {
        name.contains(" (") && !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit())
    })
}

/// Returns whether two functions were written together: in one image, or in scripts of one package
/// or of the program itself.
pub(super) fn belong_together(one: &(String, String), other: &(String, String)) -> bool {
    let are_scripts = is_script_function(&one.0) && is_script_function(&other.0);
    one.1 == other.1
        || are_scripts && KnownCode::package_of(&one.1) == KnownCode::package_of(&other.1)
}

/// Returns whether a function was not written for this program: it is in a shared library or an
/// installed package's script.
pub(super) fn is_of_others((_, module): &(String, String)) -> bool {
    is_shared_library(module) || KnownCode::package_of(module).is_some()
}

/// Returns whether an image is a shared library, by its name.
pub(super) fn is_shared_library(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or_default();
    file.ends_with(".so") || file.contains(".so.")
}

/// Returns whether a function belongs, by its name, to a standard library that is compiled into
/// programs.
fn is_of_standard_library(name: &str) -> bool {
    if let Some(implemented) = name.strip_prefix('<') {
        return is_of_standard_implementation(implemented);
    }
    let name = qualified_name(name);
    is_standard_name(name) || is_of_go_library(name)
}

/// Returns whether the implementing side of Rust's `<Type as Trait>::function` is the standard
/// library: its type, or its trait for any type.
fn is_of_standard_implementation(implemented: &str) -> bool {
    let of_type = implemented.trim_start_matches(['&', '<', '*', '(', '[']);
    let of_type = of_type.strip_prefix("mut ").unwrap_or(of_type);
    let of_type = of_type.strip_prefix("dyn ").unwrap_or(of_type);
    let (of_type, of_trait) = of_type.split_once(" as ").unwrap_or((of_type, ""));
    let first = of_type.split(['<', '>']).next().unwrap_or(of_type);
    let of_any_type =
        of_trait.is_empty() || of_trait.starts_with('<') || is_standard_name(of_trait);
    is_standard_name(of_type) || !first.contains("::") && of_any_type
}

/// Returns whether a function's name begins with a package of Go's standard library. Names of
/// script functions have their file behind them.
pub(super) fn is_of_go_library(name: &str) -> bool {
    let package = name.split_once('.').map_or("", |(package, _)| package);
    let first = package.split('/').next().unwrap_or_default();
    !name.contains(' ') && is_package(first)
}

/// Returns whether a function's name gives no hint what to change: the program itself, or code
/// without a name.
pub(super) fn says_little(name: &str) -> bool {
    let label = label_of(name);
    let is_main = label == "main" || label.ends_with(".main") || label.ends_with("::main");
    is_main || is_nameless(name) || is_script_body(name)
}

/// Returns a function's name without the file that scripts and Java have behind it.
pub(super) fn label_of(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// Returns whether code has no name, as in a file without symbols.
pub(super) fn is_nameless(name: &str) -> bool {
    name.starts_with('[')
}

/// Returns whether a function, given with its module, only leads to work.
pub(super) fn leads_to_work(function: &(String, String)) -> bool {
    let (name, _) = function;
    says_little(name) || is_glue(name) || is_language_library(function)
}

/// Returns whether a function stands for the top-level statements of a script, which Python, Ruby
/// and PHP name.
pub(super) fn is_script_body(name: &str) -> bool {
    let label = label_of(name);
    ["<module>", "<main>", "{main}"].contains(&label)
        || label.ends_with(".<module>")
        || name.starts_with("<top (required)>")
}

#[cfg(test)]
mod tests {
    use super::{belong_together, is_language_library, is_of_standard_library, is_script_body};

    #[test]
    fn scripts_of_one_package_belong_together() {
        let function = |name: &str, module: &str| (name.to_owned(), module.to_owned());
        let packages = "/usr/lib/python3.11/site-packages";
        let entry = function(
            "tool.launch (sort.py:9)",
            &format!("{packages}/tool/commands/sort.py"),
        );
        let run = function("tool.run (cli.py:3)", &format!("{packages}/tool/cli.py"));
        let other = function(
            "table.sort (table.py:3)",
            &format!("{packages}/table/table.py"),
        );
        let own = ["main (app.py:1)", "work (lib/work.py:4)"];
        let [main, work] = own.map(|name| function(name, &format!("/home/me/{name}")));
        assert!(belong_together(&entry, &run) && belong_together(&main, &work));
        assert!(!belong_together(&run, &other) && !belong_together(&main, &entry));
        let [one, two] = ["/usr/bin/app", "/usr/lib/libz.so"].map(|image| function("work", image));
        assert!(belong_together(&one, &one) && !belong_together(&one, &two));
    }

    #[test]
    fn bodies_of_scripts_are_known_by_their_names() {
        for name in [
            "app.<module> (app.py:1)",
            "<module>",
            "<main> (app.rb:1)",
            "<top (required)> (lib.rb:1)",
            "{main}",
        ] {
            assert!(is_script_body(name), "{name}");
        }
        for name in [
            "main",
            "module",
            "app.main (app.py:1)",
            "Cache<main>::get()",
            "app.<lambda> (app.py:1)",
        ] {
            assert!(!is_script_body(name), "{name}");
        }
    }

    #[test]
    fn functions_of_standard_libraries_are_known_by_their_names() {
        for name in [
            "core::hint::black_box",
            "<alloc::vec::Vec<T,A> as core::clone::Clone>::clone",
            "<A as core::slice::cmp::SlicePartialEq<B>>::equal_same_length",
            "<u64>::unchecked_add",
            "<&dyn core::ops::function::Fn<(u64,), Output = u64> as core::ops::function::FnOnce<(u64,)>>::call_once",
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "core::ptr::drop_in_place<app::Shape>",
            "std::_Rb_tree<unsigned int, app::Price>::_M_lower_bound(unsigned int)",
            "void std::__introsort_loop<app::Row*, long>(app::Row*, long)",
            "runtime.memmove",
            "internal/runtime/syscall/linux.Syscall6",
            "os.(*File).Sync",
            "net/http.(*conn).serve",
            "v8::internal::RegExpImpl::Compile(v8::internal::Isolate*)",
            "Builtins_JSEntryTrampoline",
        ] {
            assert!(is_of_standard_library(name), "{name}");
        }
        for name in [
            "app::find",
            "<app::Shape as core::fmt::Display>::fmt",
            "<&app::Shape as core::fmt::Display>::fmt",
            "<app::Shape>::area",
            "<u8 as app::Area>::area",
            "bool app::less<std::string>(std::string const&)",
            "Polygon<5>::area() const",
            "app::operator<(app::A, app::B)",
            "main.renderTable",
            "example.org/os.Open",
            "os.walk (os.py:345)",
            "stdlib",
        ] {
            assert!(!is_of_standard_library(name), "{name}");
        }
    }

    /// Packages installed beside a standard library were written by others, and a program may have
    /// a namespace named like an interpreter.
    #[test]
    fn functions_of_interpreters_are_their_images_and_scripts() {
        let is_library =
            |name: &str, image: &str| is_language_library(&(name.into(), image.into()));
        let read = "void node::fs::Read(v8::FunctionCallbackInfo<v8::Value> const&)";
        assert!(is_library(read, "/usr/bin/node"));
        assert!(is_library(read, "/usr/lib/libnode.so.115"));
        assert!(!is_library("node::insert(int)", "/home/me/tree"));
        assert!(is_library("readFileSync (node:fs:441)", "node:fs"));
        assert!(is_library(
            "require (node:internal/modules/helpers:1)",
            "node:internal/modules/helpers"
        ));
        assert!(!is_library("read (fs.js:4)", "/home/me/node:fs.js"));
        assert!(is_library("JS:*readFileSync node:fs:441:22", "[jit 12]"));
        assert!(is_library(
            "JS:~ node:internal/main/run_main_module:1:1",
            "[jit 12]"
        ));
        assert!(!is_library("JS:*read /home/me/node:fs.js:4:2", "[jit 12]"));
        assert!(is_library("encoder_listencode_dict", "/usr/bin/python3.11"));
        assert!(is_library("rb_str_plus", "/usr/lib/libruby-3.1.so.3.1"));
        let encode = "json.encoder.JSONEncoder.encode (encoder.py:183)";
        assert!(is_library(encode, "/usr/lib/python3.11/json/encoder.py"));
        let installed = "/usr/lib/python3.11/site-packages/yaml/__init__.py";
        assert!(!is_library("yaml.load (__init__.py:74)", installed));
        let frozen = "<frozen importlib._bootstrap>";
        assert!(is_library(
            "importlib._bootstrap._find_and_load (…:7)",
            frozen
        ));
        let gem = "/var/lib/ruby/gems/3.1.0/gems/rake-13/lib/rake.rb";
        assert!(!is_library("run (rake.rb:4)", gem));
        assert!(!is_library("walk", "/home/me/pythonlike"));
        assert!(!is_library("walk", "/home/me/node-server"));
        assert!(!is_library("walk (node.js:7)", "/home/me/node.js"));
    }
}
