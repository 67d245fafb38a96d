//! Explains why BPF programs fail to load, with a remedy: the loader's error number alone is mostly
//! "Invalid argument".

use crate::Error;
use crate::capabilities::{Gap, probe_machine};
use libbpf_rs::{Error as LoaderError, ErrorKind, PrintLevel};
use std::cell::RefCell;
use std::error::Error as _;

/// Number of descriptors needed to load the largest program, the collector, and to open its events
/// on a small machine.
const LOADER_FILES: u64 = 160;
/// Maximum number of loader messages kept, and maximum bytes of the end of each: the verifier's log
/// can have 16 MB.
const MOST_MESSAGES: usize = 64;
const MOST_BYTES: usize = 4096;

thread_local! {
    /// Warnings of the loader in this thread since the last load.
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Captures the loader's messages from now on. The loader would write them to standard error, which
/// is the command's, too.
pub(crate) fn listen_to_loader() {
    SAID.take();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_message)));
}

fn keep_message(_: PrintLevel, message: String) {
    SAID.with_borrow_mut(|said| {
        if said.len() < MOST_MESSAGES {
            let start = message.len().saturating_sub(MOST_BYTES);
            let start = (start..=message.len()).find(|at| message.is_char_boundary(*at));
            said.push(message[start.unwrap_or(0)..].to_owned());
        }
    });
}

/// Returns a function that converts a load failure to an error; `what` is the activity. The error
/// names the right, the memory or the kernel check that failed, and the remedy.
pub(crate) fn explain_load(what: &str) -> impl FnOnce(LoaderError) -> Error {
    let what = what.to_owned();
    move |error| {
        let said = SAID.take();
        let capabilities = probe_machine();
        let kernel = &capabilities.machine.kernel;
        Error::Refused {
            what,
            reason: reason_of(
                &Failure::new(&error),
                &said,
                capabilities.bpf().err(),
                (kernel, open_files()),
            ),
        }
    }
}

/// Returns this process's limit on open descriptors.
fn open_files() -> u64 {
    // SAFETY: a limit of zeros is valid; the kernel writes it through the pointer.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        match libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) {
            0 => limit.rlim_cur,
            _ => u64::MAX,
        }
    }
}

/// The system's error that the loader ended with.
struct Failure {
    kind: ErrorKind,
    text: String,
}

impl Failure {
    fn new(error: &LoaderError) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(one) = cause {
            text = one.to_string();
            cause = one.source();
        }
        let kind = error.kind();
        Self { kind, text }
    }
}

/// Returns the reason of a failure, with its remedy.
fn reason_of(
    failure: &Failure,
    said: &[String],
    gap: Option<Gap>,
    (kernel, open_files): (&str, u64),
) -> String {
    if let Some(gap) = gap {
        return format!("it needs {}", gap.need());
    }
    // Without free descriptors the loader assumes that kernel features are missing, and the
    // verifier complains.
    if open_files < LOADER_FILES {
        return format!(
            "only {open_files} open files are allowed, and the collector needs about {LOADER_FILES}: raise the limit with ulimit -n 4096 (ulimit -Hn is its bound)"
        );
    }
    if let Some((program, complaint)) = said.iter().find_map(|message| complaint_in(message)) {
        return format!(
            "the verifier of kernel {kernel} refuses the program {program} ({complaint}): that is a fault of vitalfew with this kernel; please report this line"
        );
    }
    let text = &failure.text;
    let table = said
        .iter()
        .find_map(|message| quoted_behind(message, "map '"));
    match (failure.kind, table) {
        (ErrorKind::OutOfMemory | ErrorKind::PermissionDenied | ErrorKind::TooBig, Some(table)) => {
            format!(
                "there is no memory for its table {table} ({text}): free some, or raise the limit of its control group (memory.max) or of locked memory (ulimit -l unlimited)"
            )
        }
        (ErrorKind::OutOfMemory, None) => format!(
            "{text}: free some memory, or raise the limit of its control group (memory.max)"
        ),
        _ => {
            let program = said
                .iter()
                .find_map(|message| quoted_behind(message, "prog '"));
            let of = program.map_or(String::new(), |program| format!(" the program {program}"));
            format!(
                "kernel {kernel} refuses{of}: {text}; vitalfew doctor shows what is missing here"
            )
        }
    }
}

/// Returns the program and the last line of the verifier in its log.
fn complaint_in(message: &str) -> Option<(&str, &str)> {
    const END: &str = "-- END PROG LOAD LOG --";
    let log = message.trim_end().strip_suffix(END)?;
    let is_complaint = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
    let complaint = log.lines().map(str::trim).rfind(is_complaint)?;
    // A long log loses its beginning, which has the name.
    let program = quoted_behind(message, "prog '").unwrap_or("of the collector");
    Some((program, complaint))
}

fn quoted_behind<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    let (_, behind) = message.split_once(before)?;
    Some(behind.split_once('\'')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Fix;
    use libbpf_rs::ErrorExt;

    const LOG: &str = "libbpf: prog 'on_sample': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n; int on_sample(ctx) @ collect.bpf.c:7\n3: (79) r1 = *(u64 *)(r2 +0)\nR2 invalid mem access 'scalar'\nprocessed 4 insns (limit 1000000) max_states_per_insn 0 total_states 0\n-- END PROG LOAD LOG --\n";

    fn explain(kind: ErrorKind, text: &str, said: &[&str]) -> String {
        let said: Vec<String> = said.iter().map(|text| (*text).to_owned()).collect();
        reason_of(&failure(kind, text), &said, None, ("6.1.0", 1024))
    }

    fn failure(kind: ErrorKind, text: &str) -> Failure {
        let text = text.to_owned();
        Failure { kind, text }
    }

    #[test]
    fn the_error_of_the_system_is_found_below_what_the_loader_says() {
        let system = std::io::Error::from_raw_os_error(libc::ENOMEM);
        let error = LoaderError::from(system).context("failed to load object");
        let failure = Failure::new(&error);
        assert_eq!(failure.kind, ErrorKind::OutOfMemory);
        assert!(failure.text.starts_with("Cannot allocate memory"));
    }

    #[test]
    fn what_the_verifier_says_is_said() {
        let refused = |log| {
            explain(
                ErrorKind::InvalidInput,
                "Invalid argument",
                &["other\n", log],
            )
        };
        let begin = "the verifier of kernel 6.1.0 refuses the program on_sample (R2 invalid mem access 'scalar')";
        assert!(refused(LOG).starts_with(begin), "{}", refused(LOG));
        let end = &LOG[LOG.len() - 150..];
        assert!(refused(end).contains("of the collector (R2 invalid mem access"));
    }

    #[test]
    fn a_missing_right_is_named_before_the_error() {
        let gap = Gap {
            missing: "user 7 has not both cap_bpf and cap_perfmon".into(),
            lose: String::new(),
            fix: Fix::Command("sudo setcap cap_bpf".into()),
            errno: Some(libc::EPERM),
        };
        let failure = failure(ErrorKind::InvalidInput, "Invalid argument");
        assert_eq!(
            reason_of(&failure, &[LOG.to_owned()], Some(gap), ("6.1.0", 64)),
            "it needs CAP_BPF and CAP_PERFMON: sudo setcap cap_bpf (every user of this copy may then record any process), or sudo vitalfew ..."
        );
    }

    #[test]
    fn few_descriptors_are_named_and_not_the_verifier() {
        let failure = failure(ErrorKind::InvalidInput, "Invalid argument");
        let reason = reason_of(&failure, &[LOG.to_owned()], None, ("6.1.0", 64));
        assert!(
            reason.starts_with("only 64 open files are allowed"),
            "{reason}"
        );
        assert!(!reason.contains("verifier"), "{reason}");
    }

    #[test]
    fn memory_and_other_refusals_have_remedies() {
        let map = "libbpf: map 'stacks0': failed to create: -ENOMEM\n";
        let (kind, text) = (ErrorKind::OutOfMemory, "Cannot allocate memory");
        let reason = explain(kind, text, &[map]);
        assert!(reason.contains("its table stacks0 (Cannot"), "{reason}");
        assert!(reason.contains("memory.max"), "{reason}");
        assert!(explain(kind, text, &[]).contains("memory.max"));
        let program = "libbpf: prog 'on_map': failed to find kernel BTF type ID\n";
        let reason = explain(ErrorKind::Other, "No such process", &[program]);
        assert!(
            reason.contains("refuses the program on_map: No such process"),
            "{reason}"
        );
    }

    #[test]
    fn of_long_messages_the_end_is_kept() {
        SAID.take();
        keep_message(PrintLevel::Warn, "é".repeat(MOST_BYTES));
        for _ in 0..2 * MOST_MESSAGES {
            keep_message(PrintLevel::Warn, LOG.to_owned());
        }
        let said = SAID.take();
        assert_eq!((said.len(), said[0].len()), (MOST_MESSAGES, MOST_BYTES));
        assert_eq!(said[1], LOG);
    }
}
