//! The control-flow graph of a procedure (the paper's §6.1.1), from its bytes.

mod blocks;
mod build;
mod code;
mod constants;
mod gaps;
mod table;
mod values;

pub use blocks::{Block, Edge, EdgeKind, FlowGraph, JumpTable, LoadedImage, NoImage};

use crate::{Architecture, Error};
use profile::ImageAddress;

impl FlowGraph {
    /// Builds the graph of the procedure whose `code` starts at `start`.
    ///
    /// It follows the code from the start. Unreached bytes count as code entered from elsewhere if
    /// all of them decode, and as data otherwise. Unknown are jumps between the parts of a
    /// procedure that a compiler has split (they are [`TailCall`](EdgeKind::TailCall)s and
    /// [`UnknownEntry`](EdgeKind::UnknownEntry)s), and `longjmp`, as in the paper.
    ///
    /// # Errors
    /// If the procedure is empty or too large, or does not begin with an instruction.
    pub fn new(
        architecture: Architecture,
        start: ImageAddress,
        code: &[u8],
        image: &dyn LoadedImage,
    ) -> Result<Self, Error> {
        build::build_graph(architecture, start, code, image)
    }
}

/// Returns whether a function of this name (not demangled) is known never to return.
pub fn is_never_returning(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "abort",
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "longjmp",
        "_longjmp",
        "siglongjmp",
        "__longjmp_chk",
        "__stack_chk_fail",
        "__stack_chk_fail_local",
        "__chk_fail",
        "__fortify_fail",
        "__assert_fail",
        "__assert_perror_fail",
        "__assert",
        "__libc_fatal",
        "__libc_start_main",
        "__cxa_throw",
        "__cxa_rethrow",
        "__cxa_bad_cast",
        "__cxa_bad_typeid",
        "__cxa_throw_bad_array_new_length",
        "__cxa_pure_virtual",
        "__cxa_call_unexpected",
        "_Unwind_Resume",
        "__clang_call_terminate",
        "pthread_exit",
        "err",
        "errx",
        "verr",
        "verrx",
        "_ZSt9terminatev",
        "rust_begin_unwind",
        "rust_panic",
        "__rust_start_panic",
        "runtime.gopanic",
        "runtime.throw",
        "runtime.fatalpanic",
        "runtime.goexit0",
    ];
    let name = name.split('@').next().unwrap_or(name);
    NAMES.contains(&name)
        // std::__throw_bad_alloc() and its relatives
        || name.starts_with("_ZSt") && name.contains("__throw_")
        || name.starts_with("runtime.panic")
        // core::panicking, and its callers, out of line
        || (name.starts_with("_ZN") || name.starts_with("_R"))
            && ["9panicking", "13unwrap_failed", "13expect_failed", "18handle_alloc_error"]
                .iter()
                .any(|part| name.contains(part))
            && !name.contains("panicking8try")
            && !name.contains("panic_count")
}
