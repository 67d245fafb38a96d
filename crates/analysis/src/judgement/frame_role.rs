//! The role of a frame on a stack: the program's, a runtime's, or a library's that works for its
//! caller.

use super::libraries::{is_language_library, is_script_body};
use profile::known_code::{RuntimeWork, is_glue};

/// The role of a function, by its name and module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRole {
    /// The work of a runtime, including all of its callees that are not functions of the program.
    work: Option<&'static RuntimeWork>,
    /// The work of a runtime, if no function of the program is on the stack.
    lone_work: Option<&'static RuntimeWork>,
    /// True for functions of the program: neither a library's, nor the statements of a script,
    /// which run while it is imported.
    is_program: bool,
    /// True for the statements of a script.
    is_script: bool,
}

impl FrameRole {
    /// Returns the role of a function.
    pub fn of_function(name: &str, module: &str) -> Self {
        let function = (name.to_owned(), module.to_owned());
        let (name, module) = (function.0.as_str(), function.1.as_str());
        Self {
            work: RuntimeWork::of_function(name, module),
            lone_work: RuntimeWork::of_lone_function(name, module),
            is_program: !is_language_library(&function) && !is_glue(name) && !is_script_body(name),
            is_script: is_script_body(name),
        }
    }
}

/// Returns the work of a runtime on a stack, with the number of outermost frames on whose behalf it
/// runs. `roles` are those of the stack's frames, outermost first, `thread` is its thread's name.
pub fn find_runtime_work(
    roles: &[FrameRole],
    thread: &str,
) -> Option<(&'static RuntimeWork, usize)> {
    let program = roles.iter().rposition(|role| role.is_program);
    let begin = program.map_or(0, |program| program + 1);
    let inside = roles.get(begin..)?.iter().enumerate();
    let mut works = inside.filter_map(|(at, role)| Some((role.work?, begin + at)));
    let is_script = roles.iter().any(|role| role.is_script);
    let alone = || match program {
        Some(_) => None,
        None if is_script => None,
        None => {
            let by_function = roles.iter().find_map(|role| role.lone_work);
            Some((RuntimeWork::of_thread(thread).or(by_function)?, 0))
        }
    };
    match works.next() {
        // No function of the program called it, so the start of the thread is no caller.
        Some((work, _)) if program.is_none() => Some((work, 0)),
        found => found.or_else(alone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(stack: &str, thread: &str) -> Option<(&'static str, usize)> {
        let role = |name: &str| {
            let module = match name {
                _ if name.starts_with("Builtins_") || name.starts_with("node::") => "/usr/bin/node",
                _ if name.starts_with('[') => "/usr/lib/jvm/lib/server/libjvm.so",
                _ if name.starts_with("_dl_") => "/lib64/ld-linux-x86-64.so.2",
                "Py_Main" | "compile_file" | "str_join" => "/usr/bin/python3.11",
                _ if name.starts_with("importlib") => "<frozen importlib._bootstrap>",
                _ if name.contains("start") || name.contains("clone") => "/lib/libc.so.6",
                _ => "app",
            };
            FrameRole::of_function(name, module)
        };
        let roles: Vec<FrameRole> = stack.split(';').map(role).collect();
        find_runtime_work(&roles, thread).map(|(work, at)| (work.name, at))
    }

    #[test]
    fn work_stands_below_the_function_that_it_is_done_for() {
        let collects = "v8::internal::Heap::CollectGarbage()";
        let called = format!("load (a.js:1);Builtins_Call;{collects};v8::internal::Scavenge");
        let collected = Some(("garbage collection (V8)", 2));
        assert_eq!(find(&called, "node"), collected);
        // The program's own function, called by a collector.
        assert_eq!(find(&format!("{called};close (a.js:9)"), "node"), None);
        let worker = "clone3;start_thread;node::Work;v8::internal::ScavengerCollector::Run()";
        let alone = Some(("garbage collection (V8)", 0));
        assert_eq!(find(worker, "node"), alone);
        let compiled = find("clone3;start_thread;[function at 0x1]", "C2 CompilerThre");
        assert_eq!(compiled, Some(("compiling (JVM)", 0)));
        assert_eq!(find("clone3;start_thread;[function at 0x1]", "java"), None);
        assert_eq!(
            find("main.run;runtime.mallocgc;runtime.gcAssistAlloc", "app"),
            Some(("garbage collection (Go)", 2))
        );
        assert_eq!(
            find("_dl_start;_dl_relocate_object", "app"),
            Some(("loading shared libraries", 0))
        );
    }

    #[test]
    fn a_scheduler_has_only_what_no_function_of_the_program_asked_for() {
        let scheduled = Some(("scheduling goroutines (Go)", 0));
        assert_eq!(
            find("runtime.mcall;runtime.park_m;runtime.schedule", "app"),
            scheduled
        );
        assert_eq!(
            find("main.send;runtime.chansend;runtime.goready", "app"),
            None
        );
    }

    #[test]
    fn statements_of_a_module_are_a_part_of_importing_it() {
        let imported = "app.<module> (app.py:1);importlib._bootstrap._find_and_load (…:1);lib.<module> (lib.py:1)";
        let work = Some(("importing modules (Python)", 0));
        assert_eq!(find(imported, "python3"), work);
        assert_eq!(
            find("Py_Main;app.<module> (app.py:1);str_join", "python3"),
            None
        );
        let begun = Some(("the interpreter's own work (Python)", 0));
        assert_eq!(find("Py_Main;compile_file", "python3"), begun);
        assert_eq!(
            find(&format!("{imported};lib.make_table (lib.py:9)"), "python3"),
            None
        );
    }
}
