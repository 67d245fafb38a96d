use std::io;
use std::path::PathBuf;

/// Reason for which a program cannot be experimented with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be launched, or not be measured.
    #[error(transparent)]
    Sampler(#[from] sampler::Error),
    /// The library to preload is missing.
    #[error("the runtime {name} is missing: looked in {}", list_paths(.looked))]
    NoRuntime {
        /// Its file name.
        name: &'static str,
        /// The directories that were searched.
        looked: Vec<PathBuf>,
    },
    /// The library to preload was built with another vitalfew.
    #[error(
        "{path}: this runtime belongs to another build of vitalfew; install both from one build"
    )]
    OtherRuntime {
        /// The library.
        path: PathBuf,
    },
    /// Nothing can be preloaded into the program.
    #[error("{program}: {reason}")]
    NotPreloadable {
        /// The program.
        program: PathBuf,
        /// The reason, with what would help.
        reason: String,
    },
    /// The program has started, but the runtime in it has not reported.
    #[error("{program}: the runtime was not loaded: {reason}")]
    NotLoaded {
        /// The program.
        program: String,
        /// The reason, as far as it is known.
        reason: String,
    },
    /// A running process cannot be measured; it is unchanged, or its changes were undone.
    #[error("process {pid} cannot be attached to: {reason}")]
    NotAttachable {
        /// The process.
        pid: u32,
        /// The reason, with what would help.
        reason: String,
    },
    /// The program's lines are not known, because it has no debug information.
    #[error(
        "{program} has no debug information{}, so that its lines are not known: compile it with -g, install its debug file, \
         or use --by function", stripped_words(.stripped)
    )]
    NoDebugInfo {
        /// The program.
        program: PathBuf,
        /// True if its symbols are gone too.
        stripped: bool,
    },
    /// The program's functions are not known, because nothing says where they begin.
    #[error(
        "{program} has no symbols, no debug information and no unwind tables, so that its functions are not known: link it \
         without -s and -static, compile it with -g, or name libraries with --scope"
    )]
    NoSymbols {
        /// The program.
        program: PathBuf,
    },
    /// The command is a script: its interpreter would be measured.
    #[error(
        "{script} is a script that {interpreter} runs, which has no debug information: lines of scripts are not measured"
    )]
    IsScript {
        /// The script.
        script: String,
        /// The program that runs it.
        interpreter: PathBuf,
    },
    /// A line or function that was asked for is not in the program.
    #[error("{what} is not in {program}{}", near_or_later(.near))]
    NoSuchPlace {
        /// The requested name.
        what: String,
        /// The program in which it was looked for.
        program: PathBuf,
        /// Similar names.
        near: Vec<String>,
    },
    /// None of the requested functions can be traced.
    #[error("{program}: none of the functions can be traced: {reason}")]
    NothingTraceable {
        /// The program.
        program: PathBuf,
        /// The reason for the first one.
        reason: String,
    },
    /// A progress point does not parse.
    #[error("progress point '{text}': {reason}")]
    PointSyntax {
        /// The requested text.
        text: String,
        /// The error in it.
        reason: String,
    },
    /// A call sequence does not parse.
    #[error("call sequence '{text}': {reason}")]
    SequenceSyntax {
        /// The requested text.
        text: String,
        /// The error in it.
        reason: String,
    },
    /// The listener of a session returned an error.
    #[error(transparent)]
    Listener(io::Error),
    /// The machine refuses to count a progress point.
    #[error("progress point '{name}' cannot be counted: {reason}")]
    PointRefused {
        /// The point.
        name: String,
        /// The reason, with what would help.
        reason: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Threads cannot be sampled.
    #[error(
        "threads of the target cannot be sampled: {source}; as root: sysctl kernel.perf_event_paranoid=2"
    )]
    SamplingRefused {
        /// The kernel's error.
        source: io::Error,
    },
    /// An image cannot be read.
    #[error(transparent)]
    Symbols(#[from] symbols::Error),
    /// A system call failed unexpectedly.
    #[error("{what}: {source}")]
    System {
        /// The action that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system_error(what: impl Into<String>) -> Self {
        Self::wrap_io(what)(io::Error::last_os_error())
    }

    /// Returns what makes an error of a failed action.
    pub(crate) fn wrap_io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

fn stripped_words(stripped: &bool) -> &'static str {
    if *stripped { " (it is stripped)" } else { "" }
}

/// Returns near matches, or a hint about libraries that are loaded later if there are none.
fn near_or_later(near: &[String]) -> String {
    match near {
        [] => {
            " or its libraries; one that it loads later is found if it is preloaded (LD_PRELOAD=LIBRARY vitalfew …)".into()
        }
        _ => near_matches(near),
    }
}

pub(crate) fn near_matches(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        many => format!("; did you mean one of: {}?", many.join(", ")),
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}
