//! Work that runtimes of languages and the loader do by themselves: collecting garbage, compiling, loading, scheduling (ours).
//!
//! Nobody who makes a program faster changes a function of these. In a tree of time one frame stands for all of them, as the kernel's frames do for its
//! part: below the function whose call they serve, as an allocation that finds the heap full, or by itself on the runtime's own threads. What that
//! frame costs belongs to who calls it if one function has four fifths; else it is a finding in the runtime's own terms, with who allocates.

use super::qualified_name::qualified_name;

/// The module of the frames that stand for such work.
pub const RUNTIME: &str = "[runtime]";

/// One kind of work of one runtime.
#[derive(Debug, PartialEq, Eq)]
pub struct RuntimeWork {
    /// The frame that stands for it.
    pub name: &'static str,
    /// True for a garbage collector.
    pub is_collection: bool,
    /// A function whose callers are to be asked why there is so much of it, as `report --callers` finds it; empty where none is known.
    pub callers: &'static str,
    /// A change that spares it.
    pub spared_by: &'static str,
    /// Functions that do it, with all that they call.
    functions: &'static [FunctionNames],
    /// Prefixes of the names of allocating functions, which cause it.
    allocators: &'static [&'static str],
    /// Prefixes of the names of threads that do nothing else.
    threads: &'static [&'static str],
    /// True if these functions may also be called by the program's own: it is such work where no function of the program is on the stack.
    only_alone: bool,
    /// True if what it asks the kernel for says more than it does.
    pub keeps_calls: bool,
}

/// Functions, by parts of their names.
#[derive(Debug, PartialEq, Eq)]
struct FunctionNames {
    /// Prefix of the file's name; empty: any file.
    image: &'static str,
    /// Prefix of the name.
    begin: &'static str,
    /// Parts of the name, one of which it contains; none: any name.
    parts: &'static [&'static str],
}

impl FunctionNames {
    /// Returns all functions of the files whose names begin so.
    const fn of_image(image: &'static str) -> Self {
        Self {
            image,
            begin: "",
            parts: &[],
        }
    }
}

const V8: &str = "v8::internal::";
const JVM: &str = "libjvm.so";

/// All of them. Of functions that are of several, the first one counts.
static KNOWN: [RuntimeWork; 15] = [
    RuntimeWork {
        name: "garbage collection (Go)",
        is_collection: true,
        callers: "runtime.mallocgc",
        spared_by: "fewer or smaller allocations, or a larger heap (GOGC=200 lets it grow twice as far as the default, 100)",
        functions: &[FunctionNames {
            image: "",
            begin: "runtime.",
            parts: &[
                "runtime.gc",
                "runtime.bgsweep",
                "runtime.bgscavenge",
                "runtime.(*gc",
                "runtime.(*sweep",
                "runtime.scan",
                "runtime.markroot",
                "runtime.wbBufFlush",
            ],
        }],
        allocators: &["runtime.mallocgc"],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "garbage collection (V8)",
        is_collection: true,
        callers: "v8::internal::Heap::CollectGarbage",
        spared_by: "fewer or smaller allocations, or a larger young generation (node --max-semi-space-size=64, in MB)",
        functions: &[
            FunctionNames {
                image: "",
                begin: V8,
                parts: &[
                    "CollectGarbage",
                    "GarbageCollect",
                    "CollectAllAvailable",
                    "Scaveng",
                    "Marking",
                    "MarkCompact",
                    "MinorGC",
                    "MinorMarkSweep",
                    "Sweeper",
                    "Evacuat",
                    "UpdatingJob",
                    "UpdatingItem",
                ],
            },
            FunctionNames {
                image: "",
                begin: "cppgc::internal::",
                parts: &["Mark", "Sweep", "CollectGarbage"],
            },
        ],
        allocators: &[
            "v8::internal::Heap::Allocate",
            "v8::internal::Factory::",
            "v8::internal::Runtime_Allocate",
        ],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "garbage collection (JVM)",
        is_collection: true,
        callers: "",
        spared_by: "fewer or smaller allocations, or a larger heap (java -Xmx; -Xlog:gc says how often it collects)",
        functions: &[FunctionNames {
            image: JVM,
            begin: "",
            parts: &[
                "VM_GenCollect",
                "VM_G1Collect",
                "VM_ParallelGC",
                "VM_ParallelCollect",
                "VM_CollectForAllocation",
                "CollectedHeap::collect",
                "CollectedHeap::do_collection",
                "GenCollectedHeap::do_collection",
                "G1CollectedHeap::do_collection",
                "satisfy_failed_allocation",
                "ConcurrentGCThread::run",
                "WorkerThread::run",
                "GangWorker::run",
            ],
        }],
        allocators: &[],
        threads: &[
            "GC Thread#",
            "G1 ",
            "VM Thread",
            "ZWorker",
            "ZDriver",
            "XWorker",
            "XDriver",
            "Shenandoah",
        ],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "compiling (JVM)",
        is_collection: false,
        callers: "",
        spared_by: "a longer run, which compiles no more, or a lower tier (java -XX:TieredStopAtLevel=1 compiles faster, to slower code)",
        functions: &[FunctionNames {
            image: JVM,
            begin: "Comp",
            parts: &["CompileBroker::", "CompilationPolicy::"],
        }],
        allocators: &[],
        threads: &["C1 CompilerThre", "C2 CompilerThre"],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "loading classes (JVM)",
        is_collection: false,
        callers: "",
        spared_by: "fewer classes, or an archive of them (java -XX:ArchiveClassesAtExit, then -XX:SharedArchiveFile)",
        functions: &[
            FunctionNames {
                image: JVM,
                begin: "",
                parts: &[
                    "SystemDictionary::",
                    "ClassFileParser::",
                    "InstanceKlass::link_class",
                ],
            },
            FunctionNames {
                image: "",
                begin: "java.lang.ClassLoader.",
                parts: &[],
            },
            FunctionNames {
                image: "",
                begin: "jdk.internal.loader.",
                parts: &[],
            },
        ],
        allocators: &[],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "compiling (V8)",
        is_collection: false,
        callers: "",
        spared_by: "less code that is loaded and run for the first time, or a cache of compiled code (NODE_COMPILE_CACHE)",
        functions: &[FunctionNames {
            image: "",
            begin: V8,
            parts: &[
                "internal::Compiler::",
                "internal::compiler::",
                "internal::maglev::",
                "internal::baseline::",
                "internal::parsing::",
                "internal::Parser",
                "internal::PreParser",
                "CompilationJob",
                "OptimizingCompile",
                "BytecodeGenerator",
            ],
        }],
        allocators: &[],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "importing modules (Python)",
        is_collection: false,
        callers: "importlib._bootstrap._find_and_load",
        spared_by: "fewer or later imports (python3 -X importtime lists them)",
        functions: &[FunctionNames::of_image("<frozen importlib")],
        allocators: &[],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "compiling scripts (PHP)",
        is_collection: false,
        callers: "",
        spared_by: "OPcache with a directory for what it compiled (opcache.enable_cli=1, opcache.file_cache)",
        functions: &[
            FunctionNames {
                image: "php",
                begin: "compile_file",
                parts: &[],
            },
            FunctionNames {
                image: "libphp",
                begin: "compile_file",
                parts: &[],
            },
        ],
        allocators: &[],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "loading shared libraries",
        is_collection: false,
        callers: "",
        spared_by: "fewer or smaller libraries, static linking, or fewer starts of the program (LD_DEBUG=statistics counts relocations)",
        functions: &[
            FunctionNames::of_image("ld-linux"),
            FunctionNames {
                image: "ld-musl",
                begin: "__dls",
                parts: &[],
            },
        ],
        allocators: &[],
        threads: &[],
        only_alone: false,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "scheduling goroutines (Go)",
        is_collection: false,
        callers: "",
        spared_by: "fewer switches between goroutines: larger pieces of work, fewer channel operations, or fewer CPUs (GOMAXPROCS)",
        functions: &[FunctionNames {
            image: "",
            begin: "runtime.",
            parts: &[],
        }],
        allocators: &[],
        threads: &[],
        only_alone: true,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "V8's own threads",
        is_collection: false,
        callers: "",
        spared_by: "less code that is compiled, and fewer allocations",
        functions: &[
            FunctionNames {
                image: "",
                begin: "v8::platform::",
                parts: &[],
            },
            FunctionNames {
                image: "",
                begin: "node::(anonymous namespace)::PlatformWorkerThread",
                parts: &[],
            },
        ],
        allocators: &[],
        threads: &["V8Worker"],
        only_alone: true,
        keeps_calls: false,
    },
    RuntimeWork {
        name: "the interpreter's own work (Python)",
        is_collection: false,
        callers: "",
        spared_by: "less code that is compiled when it starts, fewer objects that are freed when it ends, and fewer starts",
        functions: &[
            FunctionNames::of_image("python"),
            FunctionNames::of_image("libpython"),
        ],
        allocators: &[],
        threads: &[],
        only_alone: true,
        keeps_calls: true,
    },
    RuntimeWork {
        name: "the interpreter's own work (Ruby)",
        is_collection: false,
        callers: "",
        spared_by: "less code that is compiled when it starts, fewer objects that are collected, and fewer starts",
        functions: &[
            FunctionNames::of_image("ruby"),
            FunctionNames::of_image("libruby"),
        ],
        allocators: &[],
        threads: &[],
        only_alone: true,
        keeps_calls: true,
    },
    RuntimeWork {
        name: "executing scripts (PHP)",
        is_collection: false,
        callers: "",
        spared_by: "changes that a profiler of PHP finds (Excimer, Xdebug): its functions are not on stacks",
        functions: &[
            FunctionNames::of_image("php"),
            FunctionNames::of_image("libphp"),
        ],
        allocators: &[],
        threads: &[],
        only_alone: true,
        keeps_calls: true,
    },
    RuntimeWork {
        name: "executing scripts (Perl)",
        is_collection: false,
        callers: "",
        spared_by: "changes that a profiler of Perl finds (Devel::NYTProf): its functions are not on stacks",
        functions: &[
            FunctionNames::of_image("perl"),
            FunctionNames::of_image("libperl"),
        ],
        allocators: &[],
        threads: &[],
        only_alone: true,
        keeps_calls: true,
    },
];

impl RuntimeWork {
    /// Returns the work that a function does, with all that it calls, whoever calls it.
    pub(super) fn of_function(name: &str, module: &str) -> Option<&'static Self> {
        Self::find_function(name, module, false)
    }

    /// Returns the work that a function does if none of the program's is on the stack.
    pub(super) fn of_lone_function(name: &str, module: &str) -> Option<&'static Self> {
        Self::find_function(name, module, true)
    }

    fn find_function(name: &str, module: &str, alone: bool) -> Option<&'static Self> {
        let file = module.rsplit('/').next().unwrap_or_default();
        let name = qualified_name(name);
        let does = |names: &FunctionNames| names.has_function(name, file);
        let mut known = KNOWN.iter().filter(|work| work.only_alone == alone);
        known.find(|work| work.functions.iter().any(does))
    }

    /// Returns the work of a thread, by its name.
    pub(super) fn of_thread(thread: &str) -> Option<&'static Self> {
        let does = |begin: &&str| thread.starts_with(begin);
        KNOWN.iter().find(|work| work.threads.iter().any(does))
    }

    /// Returns the work that a frame of a tree stands for.
    pub(super) fn of_frame(name: &str, module: &str) -> Option<&'static Self> {
        let known = KNOWN.iter().find(|work| work.name == name);
        known.filter(|_| module == RUNTIME)
    }

    /// Returns whether a function's calls cause it.
    pub(super) fn is_allocator(&self, name: &str) -> bool {
        let name = qualified_name(name);
        self.allocators.iter().any(|begin| name.starts_with(begin))
    }
}

impl FunctionNames {
    fn has_function(&self, name: &str, file: &str) -> bool {
        let is_part = |part: &&str| name.contains(part);
        file.starts_with(self.image)
            && name.starts_with(self.begin)
            && (self.parts.is_empty() || self.parts.iter().any(is_part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(work: Option<&RuntimeWork>) -> &str {
        work.map_or("", |work| work.name)
    }

    #[test]
    fn runtimes_are_known_by_their_functions_and_threads() {
        let (go, v8) = ("/usr/bin/app", "/usr/bin/node");
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
                "/usr/lib/jvm/lib/server/libjvm.so",
                "garbage collection (JVM)",
            ),
            (
                "CompileBroker::compile_method(methodHandle const&)",
                "/usr/lib/jvm/lib/server/libjvm.so",
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
            assert_eq!(
                name_of(RuntimeWork::of_function(function, module)),
                work,
                "{function}"
            );
        }
        let scheduled = RuntimeWork::of_lone_function("runtime.findRunnable", go);
        assert_eq!(name_of(scheduled), "scheduling goroutines (Go)");
        let executed = RuntimeWork::of_lone_function("zend_hash_find", "/usr/bin/php8.2");
        assert_eq!(name_of(executed), "executing scripts (PHP)");
        let collected = RuntimeWork::of_thread("GC Thread#1");
        assert_eq!(name_of(collected), "garbage collection (JVM)");
        assert_eq!(RuntimeWork::of_thread("worker"), None);
    }

    #[test]
    fn a_frame_says_its_work() {
        for work in &KNOWN {
            assert_eq!(RuntimeWork::of_frame(work.name, RUNTIME), Some(work));
            assert_eq!(RuntimeWork::of_frame(work.name, "app"), None);
        }
    }
}
