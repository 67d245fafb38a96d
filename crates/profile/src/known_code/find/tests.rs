//! Tests of the catalogue's consistency and contents.

use super::*;
use crate::known_code::{NODE, PYTHON};

/// A file for each row that has files.
const FILES: [(&str, &str); 29] = [
    ("loader", "/lib64/ld-linux-x86-64.so.2"),
    ("loader", "/lib/ld-2.31.so"),
    ("C library", "/lib/x86_64-linux-gnu/libc.so.6"),
    ("C library", "/lib/libc-2.31.so"),
    ("C library", "/lib/ld-musl-x86_64.so.1"),
    ("C library's mathematics", "/lib/libm-2.31.so"),
    ("jemalloc", "/usr/lib/libjemalloc.so.2"),
    ("TCMalloc", "/usr/lib/libtcmalloc_minimal.so.4"),
    ("mimalloc", "/usr/lib/libmimalloc-secure.so.2"),
    ("C++", "/usr/lib/libstdc++.so.6.0.30"),
    ("C++", "/usr/lib/libc++.so.1"),
    ("OpenMP", "/usr/lib/libgomp.so.1"),
    ("Java", "/usr/lib/jvm/lib/server/libjvm.so"),
    (NODE, "/usr/bin/node"),
    (NODE, "/usr/lib/libnode.so.115"),
    ("Deno", "/opt/deno"),
    ("Bun", "/opt/bun"),
    ("PyPy", "/usr/lib/libpypy3.9-c.so"),
    (".NET", "/usr/share/dotnet/shared/libcoreclr.so"),
    ("Erlang", "/usr/lib/erlang/erts-13/bin/beam.smp"),
    ("LuaJIT", "/usr/bin/luajit-2.1.0-beta3"),
    (PYTHON, "/usr/bin/python3.12"),
    (PYTHON, "/usr/lib/libpython3.8.so.1.0"),
    ("Ruby", "/usr/lib/libruby-3.1.so.3.1.7"),
    ("PHP", "/usr/bin/php8.2"),
    ("PHP", "/usr/sbin/php-fpm8.2"),
    ("Perl", "/usr/bin/perl5.36.0"),
    ("Lua", "/usr/bin/lua5.4"),
    ("", "/srv/node-server"),
];

/// Returns a name that matches a pattern.
fn example_of(pattern: &str) -> String {
    pattern.replace('*', "x")
}

#[test]
fn each_file_is_of_one_row() {
    for (name, file) in FILES {
        let mut rows = KNOWN_CODE.iter().filter(|code| code.has_file(file));
        assert_eq!(rows.next().map_or("", |code| code.name), name, "{file}");
        assert!(rows.next().is_none(), "{file}");
    }
    for code in KNOWN_CODE {
        let of_row = |(name, _): &(&str, &str)| *name == code.name;
        assert_eq!(
            code.files.is_empty(),
            !FILES.iter().any(of_row),
            "{}",
            code.name
        );
        for file in code.files {
            let example = example_of(file);
            let first = KnownCode::of_file(&example).map(|code| code.name);
            assert_eq!(first, Some(code.name), "{example}");
        }
    }
}

#[test]
fn names_and_works_stand_once() {
    let rows = KNOWN_CODE.iter().map(|code| code.name);
    let works = RuntimeWork::all().map(|work| work.name);
    for names in [rows.collect::<Vec<_>>(), works.collect()] {
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }
}

/// Each pattern of functions matches itself and belongs to one row; roles that are glue match as
/// glue.
#[test]
fn each_function_is_of_one_row() {
    let is_glue_role = |role| {
        use FunctionRole::{Glue, KernelEntry, Loop, Start};
        [Glue, Start, KernelEntry, Loop].contains(&role)
    };
    let known = KNOWN_CODE.iter().flat_map(|code| {
        let groups = code.functions.iter();
        groups
            .flat_map(move |(role, names)| names.iter().map(move |name| (code.name, *role, *name)))
    });
    let known: Vec<_> = known.collect();
    for (row, role, name) in &known {
        // Functions of an interpreter are only looked for in its files.
        if *role == FunctionRole::Executes {
            continue;
        }
        let example = example_of(name);
        assert_eq!(is_glue(&example), is_glue_role(*role), "{example}");
        let found = known.iter().filter(|(_, other, pattern)| {
            let same = other == role || is_glue_role(*other) && is_glue_role(*role);
            same && fits(pattern, &example)
        });
        let found: Vec<_> = found.map(|(row, ..)| *row).collect();
        assert_eq!(found, [*row], "{example}");
    }
}

#[test]
fn each_operation_is_of_one_group() {
    for group in known_functions() {
        for name in group.1 {
            let example = example_of(name);
            let found = known_functions().filter(|(_, names)| fits_any(names, &example));
            let found: Vec<_> = found.collect();
            assert_eq!(found, [group], "{example}");
        }
    }
}

/// A lookup of a work's pattern finds that work first.
#[test]
fn each_pattern_of_a_work_finds_it() {
    for work in RuntimeWork::all() {
        for (files, names) in work.functions {
            let files = if files.is_empty() {
                &["app"][..]
            } else {
                files
            };
            for (file, name) in files.iter().flat_map(|f| names.iter().map(move |n| (f, n))) {
                let (file, name) = (example_of(file), example_of(name));
                let found = RuntimeWork::find_function(&name, &file, work.only_alone);
                assert_eq!(found, Some(work), "{name} {file}");
            }
        }
        for thread in work.threads {
            assert_eq!(RuntimeWork::of_thread(&example_of(thread)), Some(work));
        }
        assert_eq!(RuntimeWork::of_frame(work.name, RUNTIME), Some(work));
        assert_eq!(RuntimeWork::of_frame(work.name, "app"), None);
    }
}

#[test]
fn entries_are_glue_and_work_is_not() {
    for name in [
        "do_syscall_64",
        "__libc_start_main@@GLIBC_2.34",
        "asm_sysvec_apic_timer_interrupt",
        "(unknown)",
        "[function without a name]",
        "_PyEval_EvalFrameDefault",
        "runtime.systemstack.abi0",
        "node::Start(int, char**)",
        "node::(anonymous namespace)::PlatformWorkerThread(void*)",
        "uv_run",
        "processTicksAndRejections (node:internal/process/task_queues:67)",
    ] {
        assert!(is_glue(name), "{name}");
    }
    for name in [
        "main",
        "do_anonymous_page",
        "malloc",
        "main_loop",
        "clone_tree",
        "startup",
        "start (app.js:7)",
        "start(int)",
        "app::start(int)",
        "uv_run_twice",
        "call(void (*)(int))",
        "@",
        "",
    ] {
        assert!(!is_glue(name), "{name}");
    }
}

#[test]
fn operations_are_known_with_versions_and_variants() {
    use KnownOperation::{Condition, Lock};
    let waiting = KnownOperation::of_function("pthread_cond_wait@@GLIBC_2.3.2");
    assert_eq!(waiting, Some(Condition));
    assert!(Condition.takes_address() && !KnownOperation::Join.takes_address());
    assert_eq!(KnownOperation::of_function("readdir"), None);
    for name in [
        "pthread_mutex_lock",
        "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
        "std::sys::sync::mutex::futex::Mutex::lock_contended::h0123456789abcdef",
        "absl::Mutex::Lock()",
    ] {
        assert_eq!(KnownOperation::of_function(name), Some(Lock), "{name}");
    }
    assert!(Condition.has_function("pthread_cond_wait") && !Lock.has_function("sem_wait"));
}

#[test]
fn runtimes_are_known_by_their_functions_and_threads() {
    let (go, v8, jvm) = ("/usr/bin/app", "/usr/bin/node", "/usr/lib/jvm/libjvm.so");
    let name_of = |work: Option<&'static RuntimeWork>| work.map_or("", |work| work.name);
    for (function, module, work) in [
        ("runtime.gcBgMarkWorker", go, "garbage collection (Go)"),
        (
            "runtime.(*sweepLocked).sweep",
            go,
            "garbage collection (Go)",
        ),
        (
            "v8::internal::Heap::CollectGarbage(v8::internal::AllocationSpace)",
            v8,
            "garbage collection (V8)",
        ),
        (
            "void v8::internal::(anonymous namespace)::ScavengeObject<int>(int)",
            v8,
            "garbage collection (V8)",
        ),
        (
            "v8::internal::OptimizingCompileDispatcher::CompileNext()",
            v8,
            "compiling (V8)",
        ),
        (
            "_find_and_load (<frozen importlib._bootstrap>:1)",
            "<frozen importlib._bootstrap>",
            "importing modules (Python)",
        ),
        (
            "_dl_relocate_object",
            "/lib64/ld-linux-x86-64.so.2",
            "loading shared libraries",
        ),
        (
            "VM_G1CollectForAllocation::doit()",
            jvm,
            "garbage collection (JVM)",
        ),
        (
            "CompileBroker::compile_method(methodHandle const&)",
            jvm,
            "compiling (JVM)",
        ),
        (
            "java.lang.ClassLoader.loadClass (ClassLoader.java:525)",
            "[java]",
            "loading classes (JVM)",
        ),
        ("runtime.mallocgc", go, ""),
        ("runtime.findRunnable", go, ""),
        ("main.gcDrain", go, ""),
        (
            "v8::internal::Runtime_StringAdd(int, unsigned long*, v8::internal::Isolate*)",
            v8,
            "",
        ),
        (
            "app::Sweeper::run(v8::internal::Heap::CollectGarbage)",
            "app",
            "",
        ),
        ("malloc", "/lib/ld-musl-x86_64.so.1", ""),
        ("compile_file", "/usr/bin/php8.2", "compiling scripts (PHP)"),
        ("compile_file", "/usr/bin/app", ""),
    ] {
        let found = RuntimeWork::of_function(function, module);
        assert_eq!(name_of(found), work, "{function}");
    }
    let scheduled = RuntimeWork::of_lone_function("runtime.findRunnable", go);
    assert_eq!(name_of(scheduled), "scheduling goroutines (Go)");
    let executed = RuntimeWork::of_lone_function("zend_hash_find", "/usr/bin/php8.2");
    assert_eq!(name_of(executed), "executing scripts (PHP)");
    let collected = RuntimeWork::of_thread("GC Thread#1");
    assert_eq!(name_of(collected), "garbage collection (JVM)");
    assert_eq!(RuntimeWork::of_thread("worker"), None);
}
