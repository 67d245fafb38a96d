//! Methods that lead to work without being any: entries of the kernel, interrupts, the start of processes and
//! threads, and the names that profilers give to what they could not name.
//!
//! Most of a program is below such methods, or what is below them has nothing in common. So the search by
//! itself does not offer them as causes; they remain steps of longer paths.

/// Names in full.
const NAMES: &[&str] = &[
    // What profilers write where they have no name.
    "[unknown]",
    "(unknown)",
    "unknown",
    "<unknown>",
    "??",
    "[no symbol]",
    "[other]",
    "(other)",
    "(root)",
    "(program)",
    "(idle)",
    "[kernel]",
    "[unnamed]",
    // Many functions of a program that ended before they could be read.
    "[function without a name]",
    // Entries of system calls.
    "do_syscall_64",
    "entry_SYSCALL_64",
    "entry_SYSCALL_64_after_hwframe",
    "entry_SYSCALL_64_safe_stack",
    "x64_sys_call",
    "do_fast_syscall_32",
    "entry_SYSENTER_compat_after_hwframe",
    "el0_svc",
    "el0t_64_sync",
    "el0t_64_sync_handler",
    "el0_svc_common",
    "do_el0_svc",
    "invoke_syscall",
    "ret_from_fork",
    "ret_from_fork_asm",
    "syscall_exit_to_user_mode",
    "exit_to_user_mode_loop",
    "irqentry_exit_to_user_mode",
    "ret_to_user",
    // Interrupts.
    "common_interrupt",
    "irq_exit",
    "irq_exit_rcu",
    "__irq_exit_rcu",
    "do_softirq",
    "__do_softirq",
    "handle_softirqs",
    "do_IRQ",
    "__common_interrupt",
    "handle_irq_event",
    "el1h_64_irq",
    "el1h_64_irq_handler",
    "el1_interrupt",
    "do_interrupt_handler",
    // The start of processes and threads.
    "_start",
    "start",
    "__libc_start_main",
    "__libc_start_call_main",
    "__libc_start_main_impl",
    "generic_start_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "_pthread_start",
    "thread_start",
    "execute_native_thread_routine",
    "_dl_start",
    "_dl_start_user",
    "_dl_sysdep_start",
    "dl_main",
    "_dl_init",
    "call_init",
    "_dl_runtime_resolve_xsavec",
    "_dl_runtime_resolve_xsave",
    "_dl_runtime_resolve_fxsave",
    "_dl_runtime_resolve",
    "kthread",
    // The same of runtimes.
    "runtime.main",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mstart1",
    "runtime.mcall",
    "runtime.systemstack",
    "runtime.rt0_go",
    "JavaMain",
    "java.lang.Thread.run",
    "java/lang/Thread.run",
    "thread_native_entry",
    "call_stub",
    "StubRoutines (1)",
    "Interpreter",
    "_bootstrap",
    "_bootstrap_inner",
    "Thread._bootstrap",
    "Thread._bootstrap_inner",
    "Thread.run",
    "_run_module_as_main",
    "_run_code",
    "run_module",
    "Py_BytesMain",
    "Py_RunMain",
    "pymain_run_python",
    "node::Start",
    "node::NodeMainInstance::Run",
    "node::LoadEnvironment",
    "node::StartExecution",
    "node::(anonymous namespace)::PlatformWorkerThread",
    "node::InternalMakeCallback",
    "node::MakeCallback",
    "node::InternalCallbackScope::Close",
    "v8::platform::DefaultJobWorker::Run",
    "v8::platform::DefaultJobState::Join",
    "v8::platform::tracing::TracingController",
    // Event loops.
    "node::SpinEventLoop",
    "node::SpinEventLoopInternal",
    "uv_run",
    "uv__io_poll",
    "uv__work_done",
    "uv__stream_io",
    "uv__async_io",
    "event_base_loop",
    "event_base_dispatch",
    "ev_run",
    "g_main_loop_run",
    "g_main_context_iteration",
    "g_main_context_dispatch",
    "aeMain",
    "aeProcessEvents",
    "ngx_worker_process_cycle",
    "ngx_process_events_and_timers",
    "ngx_epoll_process_events",
    // Loops of interpreters, and their way into the next function.
    "_PyEval_EvalFrameDefault",
    "_PyEval_EvalFrame",
    "_PyEval_Vector",
    "PyEval_EvalCode",
    "_PyFunction_Vectorcall",
    "_PyObject_VectorcallTstate",
    "rb_vm_exec",
    "vm_exec_core",
    "luaV_execute",
    "execute_ex",
    "lang_start_internal",
];

/// Beginnings of names.
const BEGINNINGS: &[&str] = &[
    "asm_sysvec_",
    "sysvec_",
    "__sysvec_",
    "instr_sysvec_",
    "asm_common_interrupt",
    "std::rt::lang_start",
    "std::panicking::try",
    "std::panic::catch_unwind",
    "__rust_begin_short_backtrace",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::sys_common::backtrace::__rust_begin_short_backtrace",
    "core::ops::function::FnOnce::call_once",
    "std::thread::Thread::new::thread_start",
    "std::sys::pal::unix::thread::Thread::new::thread_start",
    "<frozen runpy>",
    "processTicksAndRejections (node:",
    "asyncio.base_events.BaseEventLoop.run_forever (",
    "asyncio.base_events.BaseEventLoop.run_until_complete (",
    "asyncio.base_events.BaseEventLoop._run_once (",
    "asyncio.events.Handle._run (",
    "asyncio.runners.",
];

/// Tells whether a method of this name only leads to work.
pub(crate) fn is_glue(name: &str) -> bool {
    // Versions of symbols: `__libc_start_main@@GLIBC_2.34`.
    let plain = name.split_once('@').map_or(name, |(plain, _)| plain);
    let plain = without_arguments(plain);
    NAMES.contains(&plain)
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

/// Returns the name of a qualified C++ function without its arguments. Others keep them: many programs have a `start(int)` of their own.
fn without_arguments(name: &str) -> &str {
    let Some(inside) = name.strip_suffix(')').filter(|_| name.contains("::")) else {
        return name;
    };
    let mut depth = 1_u32;
    let opening = inside.char_indices().rev().find(|(_, letter)| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    opening.map_or(name, |(at, _)| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::is_glue;

    #[test]
    fn entries_are_glue_and_work_is_not() {
        for name in [
            "do_syscall_64",
            "__libc_start_main@@GLIBC_2.34",
            "asm_sysvec_apic_timer_interrupt",
            "(unknown)",
            "_PyEval_EvalFrameDefault",
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
}
