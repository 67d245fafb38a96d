//! The rows of the catalogue. If a file matches several rows, the first row counts.

use super::row::FunctionRole as Role;
use super::row::KnownOperation as Operation;
use super::row::{CodeKind, KnownCode, NamingAdvice, RuntimeWork};

/// The module of the frames for a runtime's own work.
///
/// Nobody changes these functions to make a program faster. So one frame stands for all of them in
/// a tree of time, as for the kernel's part: below the function whose call they serve, such as an
/// allocation that finds the heap full, or by itself on the runtime's own threads. The cost of that
/// frame belongs to the caller that has four fifths of it; otherwise it is a finding in the
/// runtime's own terms, with the allocating functions.
pub const RUNTIME: &str = "[runtime]";
/// The name of the row of CPython.
pub const PYTHON: &str = "Python";
/// The name of the row of Node.js with V8.
pub const NODE: &str = "Node.js";

const CODE: KnownCode = KnownCode {
    name: "",
    kind: CodeKind::Other,
    files: &[],
    scripts: &[],
    packages: &[],
    starters: &[],
    functions: &[],
    operations: &[],
    works: &[],
    naming: None,
};

const WORK: RuntimeWork = RuntimeWork {
    name: "",
    is_collection: false,
    callers: "",
    spared_by: "",
    functions: &[],
    allocators: &[],
    threads: &[],
    only_alone: false,
    keeps_calls: false,
};

const fn advice(advice: &'static str) -> NamingAdvice {
    NamingAdvice {
        advice,
        with_stacks: None,
        compiles: true,
    }
}

const LOADER_FILES: &[&str] = &["ld-linux*", "ld-2*", "ld.so*", "ld64.so*"];
const JVM_FILES: &[&str] = &["libjvm"];
const PYTHON_FILES: &[&str] = &["python", "libpython"];
const RUBY_FILES: &[&str] = &["ruby", "libruby", "ruby-mri"];
const PHP_FILES: &[&str] = &["php", "libphp", "php-fpm", "php-cgi"];
const PERL_FILES: &[&str] = &["perl", "libperl"];

/// The catalogue: one row for each library, runtime or program.
#[rustfmt::skip]
pub static KNOWN_CODE: &[KnownCode] = &[
    KnownCode {
        name: "profilers",
        functions: &[(Role::Glue, &[
            "[unknown]", "(unknown)", "unknown", "<unknown>", "??", "[no symbol]", "[other]", "(other)", "(root)", "(program)",
            "(idle)", "[kernel]", "[unnamed]",
            // All functions of a program that ended before they could be read.
            "[function without a name]",
        ])],
        ..CODE
    },
    KnownCode {
        name: "Linux",
        functions: &[
            (Role::KernelEntry, &[
                "do_syscall_64", "entry_SYSCALL_*", "x64_sys_call", "do_fast_syscall_32", "entry_SYSENTER_*", "entry_INT80_*", "el0_svc", "el0_svc_common",
                "do_el0_svc", "invoke_syscall",
            ]),
            (Role::Start, &["ret_from_fork", "ret_from_fork_asm", "secondary_startup_64_no_verify", "cpu_startup_entry"]),
            (Role::Glue, &[
                "el0t_64_sync", "el0t_64_sync_handler", "kthread", "syscall_exit_to_user_mode", "exit_to_user_mode_loop",
                "irqentry_exit_to_user_mode", "ret_to_user",
                // Interrupts.
                "common_interrupt", "irq_exit", "irq_exit_rcu", "__irq_exit_rcu", "do_softirq", "__do_softirq", "handle_softirqs",
                "do_IRQ", "__common_interrupt", "handle_irq_event", "el1h_64_irq", "el1h_64_irq_handler", "el1_interrupt",
                "do_interrupt_handler", "asm_sysvec_*", "sysvec_*", "__sysvec_*", "instr_sysvec_*", "asm_common_interrupt*",
            ]),
        ],
        ..CODE
    },
    KnownCode {
        name: "loader",
        kind: CodeKind::Loader,
        files: LOADER_FILES,
        functions: &[
            (Role::Start, &["_dl_start_user"]),
            (Role::Glue, &[
                "_dl_start", "_dl_sysdep_start", "dl_main", "_dl_init", "call_init", "_dl_runtime_resolve", "_dl_runtime_resolve_xsavec",
                "_dl_runtime_resolve_xsave", "_dl_runtime_resolve_fxsave",
            ]),
        ],
        works: &[RuntimeWork {
            name: "loading shared libraries",
            spared_by: "fewer or smaller libraries, static linking, or fewer starts of the program (LD_DEBUG=statistics counts relocations)",
            functions: &[(LOADER_FILES, &["*"]), (&["ld-musl*"], &["__dls*"])],
            ..WORK
        }],
        ..CODE
    },
    KnownCode {
        name: "C library",
        kind: CodeKind::CLibrary,
        files: &["libc", "libpthread", "libdl", "librt", "ld-musl*"],
        functions: &[
            (Role::Start, &[
                "_start", "__libc_start_*", "start_thread", "thread_start", "clone", "__clone", "clone3", "__clone3", "__clone_internal",
            ]),
            (Role::Glue, &["start", "generic_start_main", "_pthread_start"]),
            (Role::Locking, &["pthread_mutex_*", "pthread_rwlock_*", "pthread_spin_*", "lll_*"]),
        ],
        operations: &[
            (Operation::Lock, &[
                "pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "pthread_rwlock_rdlock",
                "pthread_rwlock_wrlock", "pthread_rwlock_timed*", "pthread_spin_lock", "mtx_lock", "mtx_timedlock", "flockfile", "flock",
                "lockf", "lockf64",
            ]),
            (Operation::FutexLock, &["__lll_lock_wait*", "lll_lock_wait*"]),
            (Operation::Unlock, &[
                "pthread_mutex_unlock", "__pthread_mutex_unlock_usercnt", "pthread_rwlock_unlock", "pthread_spin_unlock", "mtx_unlock", "__lll_unlock_wake",
                "__lll_lock_wake*", "lll_lock_wake*",
            ]),
            (Operation::Compute, &["pthread_mutex_trylock"]),
            (Operation::Signal, &["pthread_cond_signal", "cnd_signal", "sem_post"]),
            (Operation::Broadcast, &["pthread_cond_broadcast", "cnd_broadcast"]),
            (Operation::Barrier, &["pthread_barrier_wait"]),
            (Operation::Condition, &[
                "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait",
            ]),
            (Operation::Semaphore, &["sem_wait", "sem_timedwait", "sem_clockwait"]),
            (Operation::Join, &[
                "pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join", "wait", "waitpid", "wait4", "waitid",
            ]),
            (Operation::Compute, &[
                "read", "__read", "__read_nocancel", "pread", "pread64", "pwrite", "pwrite64", "readv", "preadv*", "pwritev*", "recv",
                "recvfrom",
            ]),
            (Operation::Write, &[
                "write", "__write", "__write_nocancel", "__GI___libc_write", "writev", "send", "sendto",
            ]),
            (Operation::Send, &["sendmsg", "sendmmsg"]),
            (Operation::Network, &["recvmsg", "recvmmsg", "connect", "accept", "accept4"]),
            (Operation::Flush, &["fsync", "fdatasync", "sync_file_range", "msync", "syncfs"]),
            (Operation::Await, &["poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait*"]),
            (Operation::Sleep, &["nanosleep", "clock_nanosleep", "usleep", "sleep", "thrd_sleep"]),
            (Operation::Yield, &["sched_yield", "thrd_yield", "__sched_yield"]),
            (Operation::MapMemory, &["mmap", "mmap64", "munmap", "mprotect", "mremap", "madvise"]),
            (Operation::Allocate, &["malloc", "_int_malloc", "calloc", "realloc", "free", "cfree", "_int_free"]),
        ],
        ..CODE
    },
    KnownCode { name: "C library's mathematics", kind: CodeKind::StandardLibrary, files: &["libm", "libmvec"], ..CODE },
    KnownCode { name: "jemalloc", kind: CodeKind::Allocator, files: &["libjemalloc*"], ..CODE },
    KnownCode { name: "TCMalloc", kind: CodeKind::Allocator, files: &["libtcmalloc*"], ..CODE },
    KnownCode { name: "mimalloc", kind: CodeKind::Allocator, files: &["libmimalloc*"], ..CODE },
    KnownCode {
        name: "C++",
        kind: CodeKind::StandardLibrary,
        files: &["libstdc++", "libc++", "libc++abi", "libgcc_s"],
        functions: &[
            (Role::Glue, &["execute_native_thread_routine"]),
            // The last ones are names reserved for the authors of standard libraries.
            (Role::Library, &["std::*", "__gnu_cxx::*", "_M_*", "_S_*", "__invoke*"]),
        ],
        operations: &[
            (Operation::Lock, &["__cxa_guard_acquire"]),
            (Operation::Allocate, &["operator new*", "operator delete*"]),
        ],
        ..CODE
    },
    KnownCode {
        name: "Rust",
        kind: CodeKind::StandardLibrary,
        functions: &[
            (Role::Glue, &[
                "lang_start_internal", "std::rt::lang_start*", "std::panicking::try*", "std::panic::catch_unwind*",
                "__rust_begin_short_backtrace*", "std::sys::backtrace::__rust_begin_short_backtrace*",
                "std::sys_common::backtrace::__rust_begin_short_backtrace*", "core::ops::function::FnOnce::call_once*",
                "std::thread::Thread::new::thread_start*", "std::sys::pal::unix::thread::Thread::new::thread_start*",
            ]),
            (Role::Library, &["core::*", "alloc::*", "hashbrown::*", "__rust_*", "__rdl_*"]),
        ],
        operations: &[
            (Operation::Lock, &[
                "std::sys::sync::mutex::futex::Mutex::lock_contended", "std::sys::sync::mutex::futex::Mutex::lock*",
                "std::sys::sync::rwlock::futex::RwLock::read_contended", "std::sys::sync::rwlock::futex::RwLock::write_contended",
                "std::sys::sync::once::futex::Once::call",
            ]),
            (Operation::Unlock, &[
                "std::sys::sync::mutex::futex::Mutex::wake", "std::sys::sync::rwlock::futex::RwLock::wake_writer_or_readers",
            ]),
            (Operation::Barrier, &["std::sync::barrier::Barrier::wait", "std::sync::Barrier::wait"]),
            (Operation::Await, &[
                "std::sys::sync::condvar::futex::Condvar::wait", "std::sys::sync::condvar::futex::Condvar::wait_timeout",
                "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", "std::thread::park", "std::thread::park_timeout",
                "std::thread::functions::park",
            ]),
        ],
        ..CODE
    },
    KnownCode {
        name: "parking_lot",
        operations: &[
            (Operation::Lock, &[
                "parking_lot::raw_mutex::RawMutex::lock_slow", "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow",
                "parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow",
            ]),
            (Operation::Unlock, &[
                "parking_lot::raw_mutex::RawMutex::unlock_slow", "parking_lot::raw_rwlock::RawRwLock::unlock_shared_slow",
                "parking_lot::raw_rwlock::RawRwLock::unlock_exclusive_slow",
            ]),
            (Operation::Await, &["parking_lot::condvar::Condvar::wait_until_internal"]),
        ],
        ..CODE
    },
    KnownCode {
        name: "tokio",
        operations: &[
            (Operation::Unlock, &["tokio::sync::batch_semaphore::Semaphore::add_permits_locked"]),
            (Operation::Await, &[
                "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
                "tokio::runtime::scheduler::multi_thread::park::Inner::park_driver", "tokio::runtime::park::Inner::park",
            ]),
        ],
        ..CODE
    },
    KnownCode {
        name: "Abseil",
        operations: &[(Operation::Lock, &["absl::Mutex::Lock", "absl::Mutex::ReaderLock"])],
        ..CODE
    },
    KnownCode { name: "PARSEC", operations: &[(Operation::Barrier, &["parsec_barrier_wait"])], ..CODE },
    KnownCode {
        name: "OpenMP",
        kind: CodeKind::Team,
        files: &["libgomp", "libomp", "libiomp5"],
        functions: &[(Role::HandsOut, &["GOMP_loop*", "GOMP_task*", "GOMP_ordered*", "__kmpc_dispatch*"])],
        operations: &[
            (Operation::Lock, &[
                "omp_set_lock", "omp_set_nest_lock", "GOMP_critical_start", "GOMP_critical_name_start", "__kmpc_critical",
            ]),
            (Operation::Unlock, &["omp_unset_lock"]),
            (Operation::Barrier, &[
                "GOMP_barrier", "GOMP_barrier_cancel", "GOMP_loop_end", "GOMP_sections_end", "GOMP_taskwait", "gomp_barrier_wait*",
                "gomp_team_barrier_wait*", "__kmpc_barrier",
            ]),
        ],
        ..CODE
    },
    KnownCode {
        name: "Go",
        kind: CodeKind::StandardLibrary,
        functions: &[
            (Role::Start, &[
                "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall", "runtime.morestack", "runtime.systemstack",
            ]),
            (Role::Glue, &["runtime.main", "runtime.mstart1"]),
            // `time.Sleep` parks a goroutine; only the runtime's threads that look for work sleep
            // like this.
            (Role::RuntimeWait, &["runtime.usleep*"]),
            (Role::Package, &[
                "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "encoding",
                "errors", "fmt", "go", "hash", "html", "image", "internal", "io", "iter", "log", "maps", "math", "mime", "net", "os",
                "path", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "text", "time",
                "unicode", "unsafe",
            ]),
        ],
        works: &[
            RuntimeWork {
                name: "garbage collection (Go)",
                is_collection: true,
                callers: "runtime.mallocgc",
                spared_by: "fewer or smaller allocations, or a larger heap (GOGC=200 lets it grow twice as far as the default, 100)",
                functions: &[(&[], &[
                    "runtime.gc*", "runtime.bgsweep*", "runtime.bgscavenge*", "runtime.(*gc*", "runtime.(*sweep*", "runtime.scan*",
                    "runtime.markroot*", "runtime.wbBufFlush*",
                ])],
                allocators: &["runtime.mallocgc*"],
                ..WORK
            },
            RuntimeWork {
                name: "scheduling goroutines (Go)",
                spared_by: "fewer switches between goroutines: larger pieces of work, fewer channel operations, or fewer CPUs (GOMAXPROCS)",
                functions: &[(&[], &["runtime.*"])],
                only_alone: true,
                ..WORK
            },
        ],
        ..CODE
    },
    KnownCode {
        name: "Java",
        kind: CodeKind::Engine,
        files: JVM_FILES,
        // The JVM's own generated code.
        scripts: &["[jvm]"],
        functions: &[
            (Role::Glue, &[
                "JavaMain", "java.lang.Thread.run", "java/lang/Thread.run", "thread_native_entry", "call_stub", "StubRoutines (1)",
                "Interpreter",
            ]),
            // Native functions of Java's own classes.
            (Role::Library, &["Java_java_*", "Java_jdk_*", "Java_sun_*"]),
            (Role::ScriptLibrary, &["java.*", "javax.*", "jdk.internal.*", "sun.*", "kotlin.*", "scala.*"]),
            // A JVM stops all threads, mostly for its collector, and the time counts as the
            // collector's work.
            (Role::RuntimeWait, &["SafepointSynchronize::*", "SafepointMechanism::*", "LinuxWaitBarrier::wait*"]),
        ],
        works: &[
            RuntimeWork {
                name: "garbage collection (JVM)",
                is_collection: true,
                spared_by: "fewer or smaller allocations, or a larger heap (java -Xmx; -Xlog:gc says how often it collects)",
                functions: &[(JVM_FILES, &[
                    "*VM_GenCollect*", "*VM_G1Collect*", "*VM_ParallelGC*", "*VM_ParallelCollect*", "*VM_CollectForAllocation*",
                    "*CollectedHeap::collect*", "*CollectedHeap::do_collection*", "*satisfy_failed_allocation*",
                    "*ConcurrentGCThread::run*", "*WorkerThread::run*", "*GangWorker::run*",
                ])],
                threads: &["GC Thread#*", "G1 *", "VM Thread*", "ZWorker*", "ZDriver*", "XWorker*", "XDriver*", "Shenandoah*"],
                ..WORK
            },
            RuntimeWork {
                name: "compiling (JVM)",
                spared_by: "a longer run, which compiles no more, or a lower tier (java -XX:TieredStopAtLevel=1 compiles faster, to slower code)",
                functions: &[(JVM_FILES, &["CompileBroker::*", "CompilationPolicy::*"])],
                threads: &["C1 CompilerThre*", "C2 CompilerThre*"],
                ..WORK
            },
            RuntimeWork {
                name: "loading classes (JVM)",
                spared_by: "fewer classes, or an archive of them (java -XX:ArchiveClassesAtExit, then -XX:SharedArchiveFile)",
                functions: &[
                    (JVM_FILES, &["*SystemDictionary::*", "*ClassFileParser::*", "*InstanceKlass::link_class*"]),
                    (&[], &["java.lang.ClassLoader.*", "jdk.internal.loader.*"]),
                ],
                ..WORK
            },
        ],
        naming: Some(advice("with stacks record reads them itself, of JDK 11 to 25; without, it asks JDK 17 and later when it has run for a second (not with --no-attach); java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit … writes all at its end")),
        ..CODE
    },
    KnownCode {
        name: NODE,
        kind: CodeKind::Engine,
        files: &["node", "nodejs", "libnode"],
        // Matches its frames; a perf map has these paths in names.
        scripts: &["node:*"],
        packages: &["/node_modules/"],
        starters: &["npm", "npx", "yarn", "pnpm"],
        functions: &[
            (Role::Glue, &[
                "node::Start", "node::NodeMainInstance::Run", "node::LoadEnvironment", "node::StartExecution",
                "node::(anonymous namespace)::PlatformWorkerThread", "node::InternalMakeCallback", "node::MakeCallback",
                "node::InternalCallbackScope::Close", "node::SpinEventLoop", "node::SpinEventLoopInternal",
                "v8::platform::DefaultJobWorker::Run", "v8::platform::DefaultJobState::Join", "v8::platform::tracing::TracingController",
                "processTicksAndRejections (node:*",
            ]),
            (Role::Library, &["v8::*"]),
            // V8's interpreter, entries, and helpers of compiled code.
            (Role::Generated, &["Builtins_*"]),
        ],
        works: &[
            RuntimeWork {
                name: "garbage collection (V8)",
                is_collection: true,
                callers: "v8::internal::Heap::CollectGarbage",
                spared_by: "fewer or smaller allocations, or a larger young generation (node --max-semi-space-size=64, in MB)",
                functions: &[(&[], &[
                    "v8::internal::*CollectGarbage*", "v8::internal::*GarbageCollect*", "v8::internal::*CollectAllAvailable*",
                    "v8::internal::*Scaveng*", "v8::internal::*Marking*", "v8::internal::*MarkCompact*", "v8::internal::*MinorGC*",
                    "v8::internal::*MinorMarkSweep*", "v8::internal::*Sweeper*", "v8::internal::*Evacuat*", "v8::internal::*UpdatingJob*",
                    "v8::internal::*UpdatingItem*", "cppgc::internal::*Mark*", "cppgc::internal::*Sweep*",
                    "cppgc::internal::*CollectGarbage*",
                ])],
                allocators: &["v8::internal::Heap::Allocate*", "v8::internal::Factory::*", "v8::internal::Runtime_Allocate*"],
                ..WORK
            },
            RuntimeWork {
                name: "compiling (V8)",
                spared_by: "less code that is loaded and run for the first time, or a cache of compiled code (NODE_COMPILE_CACHE)",
                functions: &[(&[], &[
                    "v8::*internal::Compiler::*", "v8::*internal::compiler::*", "v8::*internal::maglev::*", "v8::*internal::baseline::*",
                    "v8::*internal::parsing::*", "v8::*internal::Parser*", "v8::*internal::PreParser*", "v8::internal::*CompilationJob*",
                    "v8::internal::*OptimizingCompile*", "v8::internal::*BytecodeGenerator*",
                ])],
                ..WORK
            },
            RuntimeWork {
                name: "V8's own threads",
                spared_by: "less code that is compiled, and fewer allocations",
                functions: &[(&[], &["v8::platform::*", "node::(anonymous namespace)::PlatformWorkerThread*"])],
                threads: &["V8Worker*"],
                only_alone: true,
                ..WORK
            },
        ],
        naming: Some(NamingAdvice {
            with_stacks: Some("where record gave no reason, record it again, as the unwind table of node may be ready only now (Node.js 18, 20, 22 and 24); of other versions, run it with NODE_OPTIONS=--perf-basic-prof"),
            ..advice("record it with stacks (without --no-stacks), which name them (Node.js 18, 20, 22 and 24); of other versions, run it with NODE_OPTIONS=--perf-basic-prof")
        }),
        ..CODE
    },
    KnownCode { name: "Deno", files: &["deno"], naming: Some(advice("run deno with --v8-flags=--perf-basic-prof")), ..CODE },
    KnownCode {
        name: "Bun",
        files: &["bun"],
        naming: Some(advice("it publishes none; its own profiler (--cpu-prof, where it has that) names them")),
        ..CODE
    },
    KnownCode {
        name: "PyPy",
        files: &["pypy", "libpypy", "pypy-c"],
        naming: Some(advice("it publishes none; where the program runs with CPython, record names them")),
        ..CODE
    },
    KnownCode {
        name: ".NET",
        files: &["libcoreclr", "libclrjit"],
        starters: &["dotnet"],
        naming: Some(advice("record -- dotnet … names them itself (not with --no-attach); one that others start: DOTNET_PerfMapEnabled=1 (COMPlus_PerfMapEnabled=1 before .NET 6) in its environment")),
        ..CODE
    },
    KnownCode { name: "Erlang", files: &["beam.smp"], naming: Some(advice("run erl +JPperf true …")), ..CODE },
    KnownCode {
        name: "LuaJIT",
        files: &["luajit", "libluajit"],
        functions: &[(Role::Executes, &["[no symbol]"])],
        naming: Some(advice("run luajit -jp=G,out.folded …; vitalfew bottlenecks out.folded reads that")),
        ..CODE
    },
    KnownCode {
        name: PYTHON,
        kind: CodeKind::Interpreter,
        files: PYTHON_FILES,
        // The last ones are in the interpreter itself.
        scripts: &["*/lib/python3.*", "<frozen *"],
        packages: &["/site-packages/", "/dist-packages/"],
        functions: &[
            (Role::Loop, &["_PyEval_EvalFrameDefault"]),
            (Role::Glue, &[
                "_PyEval_EvalFrame", "_PyEval_Vector", "PyEval_EvalCode", "_PyFunction_Vectorcall", "_PyObject_VectorcallTstate",
                "Py_BytesMain", "Py_RunMain", "pymain_run_python", "_bootstrap", "_bootstrap_inner", "Thread._bootstrap",
                "Thread._bootstrap_inner", "Thread.run", "_run_module_as_main", "_run_code", "run_module", "<frozen runpy>*",
                "asyncio.base_events.BaseEventLoop.run_forever (*", "asyncio.base_events.BaseEventLoop.run_until_complete (*",
                "asyncio.base_events.BaseEventLoop._run_once (*", "asyncio.events.Handle._run (*", "asyncio.runners.*",
            ]),
        ],
        works: &[
            RuntimeWork {
                name: "importing modules (Python)",
                callers: "importlib._bootstrap._find_and_load",
                spared_by: "fewer or later imports (python3 -X importtime lists them)",
                functions: &[(&["<frozen importlib*"], &["*"])],
                ..WORK
            },
            RuntimeWork {
                name: "the interpreter's own work (Python)",
                spared_by: "less code that is compiled when it starts, fewer objects that are freed when it ends, and fewer starts",
                functions: &[(PYTHON_FILES, &["*"])],
                only_alone: true,
                keeps_calls: true,
                ..WORK
            },
        ],
        naming: Some(NamingAdvice {
            advice: "record it with stacks (without --no-stacks), which name them (CPython 3.8 to 3.14)",
            // The first recording of an interpreter may end before its unwind tables are ready.
            with_stacks: Some("record it again, as the unwind tables of its interpreter may be ready only now (CPython 3.8 to 3.14)"),
            compiles: false,
        }),
        ..CODE
    },
    KnownCode {
        name: "Ruby",
        kind: CodeKind::Interpreter,
        files: RUBY_FILES,
        scripts: &["*/lib/ruby/*"],
        packages: &["/gems/"],
        functions: &[(Role::Loop, &["rb_vm_exec", "vm_exec_core"]), (Role::Executes, &["[no symbol]"])],
        works: &[RuntimeWork {
            name: "the interpreter's own work (Ruby)",
            spared_by: "less code that is compiled when it starts, fewer objects that are collected, and fewer starts",
            functions: &[(RUBY_FILES, &["*"])],
            only_alone: true,
            keeps_calls: true,
            ..WORK
        }],
        naming: Some(NamingAdvice {
            with_stacks: Some("where record gave no reason, record it again, as the unwind tables of its interpreter may be ready only now (Ruby 3.1 and 3.3); of others, stackprof --stackcollapse writes the stacks for vitalfew bottlenecks"),
            ..advice("record it with stacks (without --no-stacks), which name them (Ruby 3.1 and 3.3)")
        }),
        ..CODE
    },
    KnownCode {
        name: "PHP",
        kind: CodeKind::Interpreter,
        files: PHP_FILES,
        functions: &[(Role::Loop, &["execute_ex"])],
        works: &[
            RuntimeWork {
                name: "compiling scripts (PHP)",
                spared_by: "OPcache with a directory for what it compiled (opcache.enable_cli=1, opcache.file_cache)",
                functions: &[(PHP_FILES, &["compile_file*"])],
                ..WORK
            },
            RuntimeWork {
                name: "executing scripts (PHP)",
                spared_by: "changes that a profiler of PHP finds (Excimer, Xdebug): its functions are not on stacks",
                functions: &[(PHP_FILES, &["*"])],
                only_alone: true,
                keeps_calls: true,
                ..WORK
            },
        ],
        naming: Some(advice("php -d opcache.jit_debug=16 … names what its JIT compiled, and the extension excimer (formatCollapsed) writes the stacks for vitalfew bottlenecks")),
        ..CODE
    },
    KnownCode {
        name: "Perl",
        kind: CodeKind::Interpreter,
        files: PERL_FILES,
        functions: &[(Role::Executes, &["Perl_*"])],
        works: &[RuntimeWork {
            name: "executing scripts (Perl)",
            spared_by: "changes that a profiler of Perl finds (Devel::NYTProf): its functions are not on stacks",
            functions: &[(PERL_FILES, &["*"])],
            only_alone: true,
            keeps_calls: true,
            ..WORK
        }],
        naming: Some(NamingAdvice {
            compiles: false,
            ..advice("run perl -d:NYTProf …, then nytprofcg --out out.callgrind; vitalfew bottlenecks out.callgrind reads that")
        }),
        ..CODE
    },
    KnownCode {
        name: "Lua",
        files: &["lua", "liblua"],
        functions: &[(Role::Loop, &["luaV_execute"]), (Role::Executes, &["[no symbol]"])],
        naming: Some(NamingAdvice {
            compiles: false,
            ..advice("it publishes nothing; where the program runs with LuaJIT, luajit -jp=G,out.folded …, and vitalfew bottlenecks out.folded reads that")
        }),
        ..CODE
    },
    KnownCode {
        name: "event loops",
        functions: &[(Role::Glue, &[
            "uv_run", "uv__io_poll", "uv__work_done", "uv__stream_io", "uv__async_io", "event_base_loop", "event_base_dispatch", "ev_run",
            "g_main_loop_run", "g_main_context_iteration", "g_main_context_dispatch", "aeMain", "aeProcessEvents",
            "ngx_worker_process_cycle", "ngx_process_events_and_timers", "ngx_epoll_process_events",
        ])],
        ..CODE
    },
];
