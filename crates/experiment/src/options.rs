use crate::{Error, SpeedupSet};
use profile::{AskedExperiments, Granularity};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Conditions that end measuring.
#[derive(Clone, Copy)]
pub(crate) struct MeasuringEnd<'a> {
    /// True once the user asked to end it.
    pub stop: &'a AtomicBool,
    /// Time limit.
    pub at: Option<Instant>,
}

impl MeasuringEnd<'_> {
    /// Returns whether measuring has to end.
    pub fn is_reached(self) -> bool {
        self.stop.load(Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct ExperimentOptions {
    /// The command; unused for a running process.
    pub command: Vec<OsString>,
    /// The user's options, which the profile keeps.
    pub asked: AskedExperiments,
    /// The process to attach to, instead of a command.
    pub attach: Option<u32>,
    /// The library to preload: [`crate::find_runtime`] finds it.
    pub runtime: PathBuf,
    /// The unit of code that an experiment speeds up.
    pub by: Granularity,
    /// Speeds functions up instead of lines where the program has no debug information.
    pub or_functions: bool,
    /// Patterns of the images and sources in scope; none: the executable.
    pub scope: Vec<String>,
    /// The only fragment to speed up: `file:line` (the end of its path), or a function's name.
    pub fixed_fragment: Option<String>,
    /// A set of code that is sped up together, instead of fragments.
    pub set: Option<SpeedupSet>,
    /// The only speedup besides 0, as a fraction.
    pub fixed_speedup: Option<f64>,
    /// Progress points besides those in the program's source.
    pub points: Vec<PointSpec>,
    /// Chooses a progress point where the program's source has none; experiments begin once that is
    /// settled.
    pub choose_point: bool,
    /// The longest time of a run, including its preparation; `None`: until the command ends.
    pub duration: Option<Duration>,
    /// No later run uses the knowledge about the code that this one gathers, so it need not wait
    /// for that.
    pub is_last_run: bool,
    /// The whole run is one experiment, on one of these fragments of earlier runs.
    pub end_to_end: Option<Vec<Hint>>,
    /// Shortest experiment.
    pub shortest: Duration,
    /// The fraction of the run's time that delays may take; beyond that, experiments are baselines.
    /// `None`: half of the experiments have delays, however long.
    pub most_delay: Option<f64>,
    /// The program reads the unadjusted clocks; `false`: clocks that stand still while it is
    /// delayed.
    pub real_clocks: bool,
    /// Hooks the program's functions where that is possible; `false`: the kernel reports how its
    /// threads synchronise.
    pub hooks: bool,
    /// Speeds up waits for outside events too, where the kernel can report them.
    pub waits: bool,
    /// Seed of the random choices; `None`: a different one each time.
    pub seed: Option<u64>,
}

impl ExperimentOptions {
    /// Returns the defaults for a command, with the paper's times.
    pub fn new(command: Vec<OsString>, runtime: PathBuf) -> Self {
        Self {
            command,
            asked: AskedExperiments::default(),
            attach: None,
            runtime,
            by: Granularity::Line,
            or_functions: false,
            scope: Vec::new(),
            fixed_fragment: None,
            set: None,
            fixed_speedup: None,
            points: Vec::new(),
            choose_point: false,
            duration: None,
            is_last_run: false,
            end_to_end: None,
            shortest: Duration::from_millis(500),
            most_delay: None,
            real_clocks: false,
            hooks: true,
            waits: true,
            seed: None,
        }
    }
}

/// A fragment from an earlier run, for the choice before the first sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Its name, as [`profile::Fragment::name`].
    pub name: String,
    /// True if the fragment's waits for outside events are meant, not its running time.
    pub waiting: bool,
    /// Samples in it.
    pub samples: u64,
}

/// A progress point that needs no change to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointSpec {
    /// Name in the profile: as the user wrote it.
    pub name: String,
    /// The kind of event that is counted.
    pub what: PointKind,
}

/// The kind of event that is counted at a progress point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// Executions of the first instruction of a source line.
    Line {
        /// The end of the file's path.
        file: String,
        /// The line, from 1.
        line: u32,
    },
    /// Calls of a function.
    Function(String),
    /// A probe for tracers (USDT).
    Probe {
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
    },
    /// System calls of this name.
    Syscall(String),
    /// Samples in a fragment, by the end of its name.
    Samples(String),
    /// Begins and ends of something whose latency counts; neither is itself a pair.
    Latency(Box<PointSpec>, Box<PointSpec>),
}

impl PointSpec {
    /// Parses `FILE:LINE`, `function:NAME`, `usdt:PROVIDER:NAME`, `syscall:NAME` or
    /// `samples:FILE:LINE`.
    ///
    /// # Errors
    /// [`Error::PointSyntax`].
    pub fn parse_spec(text: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::PointSyntax {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| {
            refuse("expected FILE:LINE, function:NAME, usdt:PROVIDER:NAME, syscall:NAME or samples:FILE:LINE")
        })?;
        if kind.is_empty() || rest.is_empty() {
            return Err(refuse("something is missing before or behind the colon"));
        }
        let what = match kind {
            "function" => PointKind::Function(rest.to_owned()),
            "syscall" if rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
                PointKind::Syscall(rest.to_owned())
            }
            "syscall" => return Err(refuse("that is no system call's name")),
            "samples" => PointKind::Samples(rest.to_owned()),
            "usdt" => {
                let (provider, name) = rest
                    .split_once(':')
                    .ok_or_else(|| refuse("expected usdt:PROVIDER:NAME"))?;
                PointKind::Probe {
                    provider: provider.to_owned(),
                    name: name.to_owned(),
                }
            }
            _ => {
                let (file, line) = split_line(text)
                    .ok_or_else(|| refuse("expected a line's number behind the last colon"))?;
                PointKind::Line { file, line }
            }
        };
        Ok(Self {
            name: text.to_owned(),
            what,
        })
    }

    /// Parses the begin and the end of a latency pair, each as [`Self::parse_spec`] does.
    ///
    /// # Errors
    /// [`Error::PointSyntax`]; samples cannot be counted as begins or ends.
    pub fn parse_latency(begin: &str, end: &str) -> Result<Self, Error> {
        let one = |text: &str| match Self::parse_spec(text)? {
            Self {
                what: PointKind::Samples(_),
                ..
            } => Err(Error::PointSyntax {
                text: text.to_owned(),
                reason: "samples say how long something took, not when it began or ended".into(),
            }),
            point => Ok(Box::new(point)),
        };
        Ok(Self {
            name: format!("{begin} to {end}"),
            what: PointKind::Latency(one(begin)?, one(end)?),
        })
    }
}

/// Splits `file:line`.
pub(crate) fn split_line(text: &str) -> Option<(String, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    (!file.is_empty()).then(|| (file.to_owned(), line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_parse() {
        let line = |file: &str, line| PointKind::Line {
            file: file.into(),
            line,
        };
        for (text, what) in [
            ("src/a.c:12", line("src/a.c", 12)),
            ("function:a::b", PointKind::Function("a::b".into())),
            ("syscall:write", PointKind::Syscall("write".into())),
            ("samples:a.c:3", PointKind::Samples("a.c:3".into())),
        ] {
            assert_eq!(PointSpec::parse_spec(text).unwrap().what, what);
        }
        let PointKind::Latency(begin, end) = PointSpec::parse_latency("a.c:1", "syscall:write")
            .unwrap()
            .what
        else {
            panic!("no pair");
        };
        assert_eq!(begin.what, line("a.c", 1));
        assert_eq!(end.what, PointKind::Syscall("write".into()));
        assert!(PointSpec::parse_latency("samples:a.c:1", "a.c:2").is_err());
        assert!(PointSpec::parse_latency("a.c:1", "a.c").is_err());
        for bad in [
            "",
            ":",
            "a.c",
            "a.c:",
            "a.c:0",
            "a.c:x",
            ":3",
            "usdt:a",
            "syscall:../x",
        ] {
            assert!(PointSpec::parse_spec(bad).is_err(), "{bad:?}");
        }
    }
}
