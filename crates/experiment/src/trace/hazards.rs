//! Images that would fail with trampolines, whichever functions are traced.

use crate::Error;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use profile::known_code::is_c_library;
use std::path::PathBuf;

/// A property of a program that makes tracing it unsafe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hazard {
    /// The program throws exceptions with an unwinder that does not know our trampolines.
    OwnUnwinder,
    /// A garbage collector searches stacks and registers for references, but not our frames.
    Collector(&'static str),
    /// The runtime looks up return addresses in a table of its own.
    ReturnAddresses(&'static str),
    /// Coroutines are copied to and from the stack of one thread.
    CopiedStacks(&'static str),
}

/// Functions that identify a runtime, with the runtime's hazard.
const RUNTIMES: [(&str, Hazard); 10] = [
    ("GC_gcollect", Hazard::Collector("libgc")),
    ("rb_gc_start", Hazard::Collector("Ruby")),
    ("mono_gc_collect", Hazard::Collector("Mono")),
    ("_d_run_main", Hazard::Collector("D")),
    ("caml_startup", Hazard::ReturnAddresses("OCaml")),
    ("caml_main", Hazard::ReturnAddresses("OCaml")),
    ("runtime.morestack", Hazard::ReturnAddresses("Go")),
    ("runtime.morestack.abi0", Hazard::ReturnAddresses("Go")),
    (
        "_ZN2v87Isolate8AllocateEv",
        Hazard::ReturnAddresses("V8 (Node.js)"),
    ),
    ("PyInit__greenlet", Hazard::CopiedStacks("greenlet")),
];

impl Hazard {
    /// Returns the hazard of an image, if it has one. `defines` tells whether the image defines a
    /// function of a name. The C library is exempt: it has a personality routine but loads libgcc's
    /// unwinder.
    pub fn hazard_of_image(
        path: &str,
        elf: &ElfFile64<'_, Endianness>,
        defines: &dyn Fn(&str) -> bool,
    ) -> Option<Self> {
        let file = path.rsplit('/').next().unwrap_or(path);
        if file.starts_with("libgcc_s.") || is_c_library(path) {
            return None;
        }
        let known = RUNTIMES.iter().find(|(name, _)| defines(name));
        if let Some((_, hazard)) = known {
            return Some(*hazard);
        }
        has_own_unwinder(elf, defines("_Unwind_RaiseException")).then_some(Self::OwnUnwinder)
    }

    /// Returns the error that refuses a program with this image.
    pub fn refuse_image(self, image: PathBuf) -> Error {
        Error::NotPreloadable {
            program: image,
            reason: self.describe_hazard(),
        }
    }

    /// Describes the hazard and a remedy.
    pub fn describe_hazard(self) -> String {
        match self {
            Self::OwnUnwinder => "throws exceptions with an unwinder of its own (-static-libgcc, -static-libstdc++ or libunwind), which would \
                end the program at traced functions; link it with the shared libgcc_s"
                .to_owned(),
            Self::Collector(of) => format!(
                "uses the garbage collector of {of}, which looks for references in registers: while traced functions run, one of these is kept \
                 elsewhere; record and causal run do not touch functions"
            ),
            Self::CopiedStacks(of) => format!(
                "is {of}, whose coroutines take turns on one stack, so that functions do not end where they began; record and causal run do not \
                 touch functions"
            ),
            Self::ReturnAddresses(of) => format!(
                "is {of}, whose runtime looks up return addresses, which are others in traced functions; record and causal run do not touch functions"
            ),
        }
    }
}

/// Returns whether an image brings its own unwinder instead of a library's. A stripped image does
/// so if it has exception tables but imports no unwinder functions.
fn has_own_unwinder(elf: &ElfFile64<'_, Endianness>, defines: bool) -> bool {
    let dynamic = |defined: bool| {
        move |symbol: &object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
            symbol.is_undefined() != defined
                && symbol.name().is_ok_and(|name| {
                    name.starts_with("_Unwind_")
                        || name.starts_with("__cxa_throw")
                        || name.starts_with("__cxa_begin_catch")
                        || name.ends_with("_personality_v0")
                })
        }
    };
    // If the image exports an unwinder, the order of libraries decides which one is used.
    if elf.dynamic_symbols().any(|s| dynamic(true)(&s)) {
        return false;
    }
    let imports = elf.dynamic_symbols().any(|s| dynamic(false)(&s));
    defines || !imports && elf.section_by_name(".gcc_except_table").is_some()
}
