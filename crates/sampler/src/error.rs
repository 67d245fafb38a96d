use std::io;

/// Reason that a recording failed: the action, its object, and the kernel's reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No event has this name.
    #[error("no event is called '{name}'{}", near_matches(.near))]
    UnknownEvent {
        /// The requested name.
        name: String,
        /// Names of similar spelling.
        near: Vec<String>,
    },
    /// The event's name does not parse.
    #[error("event '{text}': {reason}")]
    EventSyntax {
        /// The requested event.
        text: String,
        /// Description of the syntax error.
        reason: String,
    },
    /// The kernel or the processor lacks the event, or refuses access to it.
    #[error("event '{name}' cannot be recorded: {reason}")]
    EventRefused {
        /// The event.
        name: String,
        /// Reason, and the remedy where there is one.
        reason: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// More events than the collector has room for.
    #[error("{asked} events are more than the {limit} that one recording can hold")]
    TooManyEvents {
        /// Number of requested events.
        asked: usize,
        /// Maximum number of events.
        limit: usize,
    },
    /// The rate is above what the kernel allows.
    #[error(
        "{asked} samples a second are above the kernel's limit of {limit}; raise it with: sysctl kernel.perf_event_max_sample_rate={asked}"
    )]
    RateTooHigh {
        /// The requested rate, in samples a second per CPU.
        asked: u64,
        /// `kernel.perf_event_max_sample_rate`.
        limit: u64,
    },
    /// The command does not exist.
    #[error("{program}: no such program")]
    NoSuchProgram {
        /// The command's name.
        program: String,
    },
    /// The command is a script, and the interpreter in its first line does not exist.
    #[error("{program}: its first line asks for {interpreter}, and there is no such program")]
    NoInterpreter {
        /// The command's name.
        program: String,
        /// Interpreter that the script names.
        interpreter: String,
    },
    /// The command exists and cannot be executed.
    #[error("{program}: cannot be executed: {source}")]
    NotExecutable {
        /// The command's name.
        program: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// Its id.
        pid: u32,
    },
    /// The kernel does not let this user measure the process.
    #[error("process {pid} is not yours to measure: {source}; record as its owner or as root")]
    ProcessRefused {
        /// Its id.
        pid: u32,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The machine refuses a request.
    #[error("{what}: {reason}")]
    Refused {
        /// Request that was refused.
        what: String,
        /// Reason, and the remedy where there is one.
        reason: String,
    },
    /// A system call failed unexpectedly.
    #[error("{what}: {source}")]
    System {
        /// Action that failed.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The BPF programs could not be loaded or attached.
    #[error("{what}: {source}")]
    Bpf {
        /// Action that failed.
        what: String,
        /// Error of the loader.
        source: libbpf_rs::Error,
    },
    /// The accounting of the kernel's tables does not balance: samples would be misreported.
    #[error("event '{event}': {taken} samples taken, but {stored} stored and {dropped} dropped")]
    Unbalanced {
        /// The event.
        event: String,
        /// Samples taken by the kernel.
        taken: u64,
        /// Samples found in its tables.
        stored: u64,
        /// Samples that the kernel reports as dropped.
        dropped: u64,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<String>) -> Self {
        let source = io::Error::last_os_error();
        Self::System {
            what: what.into(),
            source,
        }
    }

    pub(crate) fn bpf(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let what = what.into();
        move |source| Self::Bpf { what, source }
    }
}

fn near_matches(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean '{one}'?"),
        many => format!("; did you mean one of: {}?", many.join(", ")),
    }
}
