//! The command line: one definition for the parser, the help, the man pages and the completions.

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Of all the time a program takes, the few causes that matter.
#[derive(Debug, Parser)]
#[command(
    name = "vitalfew",
    version,
    about = "Of all the time a program takes, the few causes that matter",
    arg_required_else_help = true,
    propagate_version = true,
    after_help = "\
Examples:
  vitalfew record -- make -j8          where does a build spend its time?
  vitalfew record -a --for 30s         where does the whole machine?
  vitalfew report                      the last recording, by procedure
  vitalfew doctor                      what can be measured here?"
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record where a command, a process or the whole machine spends its time
    Record(Record),
    /// Say where the time went
    Report(Report),
    /// Search a profile, or the difference of two, for the few call sequences that matter
    Bottlenecks(Box<crate::commands::bottlenecks::args::Bottlenecks>),
    /// Write a recording in another tool's format
    Export(Export),
    /// Say what can be measured on this machine, and what mends the rest
    Doctor(Doctor),
    /// Write the man pages or a shell's completions
    #[command(hide = true)]
    Generate(Generate),
}

/// `vitalfew record`.
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("target").required(true).args(["all", "pid", "command"])),
    after_help = "\
Examples:
  vitalfew record -- ./app --its-option       a command, its threads and its children
  vitalfew record -g -p 1234                  a running process, with call stacks; Ctrl-C ends
  vitalfew record -a --for 60s                the whole machine
  vitalfew record -e cpu-clock -e page-faults -- ./app
  vitalfew record --off-cpu -- ./app          the time that its threads are blocked, too

Exit codes: those of COMMAND; 125 if vitalfew itself fails, 126 and 127 if COMMAND
cannot be executed or does not exist, 128+n if signal n ended it. Without COMMAND:
0, 1 failure, 2 usage, 3 this machine refuses."
)]
pub struct Record {
    /// Event to sample: NAME[:u|k|p][:PERIOD], CATEGORY:NAME of a tracepoint, rHEX of a raw event
    /// (default: cycles, or cpu-clock where there are none); can be repeated
    #[arg(short, long = "event", value_name = "EVENT")]
    pub events: Vec<String>,
    /// Samples a second on each CPU
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with = "overhead",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub frequency: Option<u64>,
    /// The highest rate, between 1 and 5 kHz, that costs at most this many percent of each CPU
    /// (measured before the start)
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub overhead: f64,
    /// Record call stacks by frame pointers
    #[arg(short = 'g')]
    pub stacks: bool,
    /// Record call stacks by frame pointers (fp), or by unwind tables for code that has none
    /// (dwarf[,BYTES of stack copied, default 16384])
    #[arg(long, value_name = "fp|dwarf", value_parser = call_graph)]
    pub call_graph: Option<CallGraphArg>,
    /// Record the time that threads are blocked or wait for a CPU, by stack and by who woke them
    #[arg(long)]
    pub off_cpu: bool,
    /// The whole machine, until Ctrl-C or --for
    #[arg(short, long)]
    pub all: bool,
    /// A running process, with the threads and processes that it will start
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Stop after this time (30s, 5m, 500ms); a command runs on
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Write to this file instead of the database
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The database directory (default: $VITALFEW_DB, else ~/.local/share/vitalfew)
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub db: Option<PathBuf>,
    /// Keep samples of different processes apart, not only of different process names
    #[arg(long)]
    pub per_process: bool,
    /// Keep samples of different threads apart
    #[arg(long)]
    pub per_thread: bool,
    /// How samples are collected
    #[arg(long, value_enum, default_value_t = CollectorArg::Auto)]
    pub collector: CollectorArg,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// The command with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `--call-graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphArg {
    /// Frame pointers.
    FramePointer,
    /// Unwind tables, with so many bytes of stack.
    Dwarf(u32),
}

/// `--collector`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CollectorArg {
    /// The best way that works here
    Auto,
    /// Counted in the kernel by a BPF program
    Bpf,
    /// One by one through perf ring buffers
    Ring,
}

/// `vitalfew report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew report                         the last recording, by procedure
  vitalfew report --by line app.vf        a file, by source line
  vitalfew report --by image --event page-faults
  vitalfew report --tree                  the call tree of a recording with stacks
  vitalfew report --process cc1 --image libc

Exit codes: 0, 1 failure, 2 usage, 4 the recording has no sample that is asked for.")]
pub struct Report {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// What to count samples by
    #[arg(long, value_enum, default_value_t = By::Procedure)]
    pub by: By,
    /// The call tree from the outermost frame down, instead of a table
    #[arg(long, conflicts_with_all = ["by", "json"])]
    pub tree: bool,
    /// Which samples.
    #[command(flatten)]
    pub filter: Filter,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub limit: usize,
    /// All rows
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Names in full, however long
    #[arg(long)]
    pub wide: bool,
    /// JSON instead of a table (schema: docs/report-json.md)
    #[arg(long)]
    pub json: bool,
}

/// Where a recording is.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// A recording's file, an epoch's directory or a database (default: the last recording)
    #[arg(value_name = "RECORDING")]
    pub path: Option<PathBuf>,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}

/// Which samples of a recording.
#[derive(Debug, Default, clap::Args)]
pub struct Filter {
    /// Only this event, and the table sorted by it
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Only processes with this in their name
    #[arg(long, value_name = "TEXT")]
    pub process: Option<String>,
    /// Only this process id (needs record --per-process, but for --by process and thread)
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Only samples in images with this in their path
    #[arg(long, value_name = "TEXT")]
    pub image: Option<String>,
    /// Only samples in procedures with this in their name
    #[arg(long, value_name = "TEXT")]
    pub procedure: Option<String>,
}

/// `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Executable, shared library, kernel
    Image,
    /// Procedure
    Procedure,
    /// Source line
    Line,
    /// Instruction
    Instruction,
    /// Process
    Process,
    /// Thread
    Thread,
    /// Off-CPU time: who ended the wait
    Waker,
}

/// `vitalfew export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew export --format folded | inferno-flamegraph > flame.svg
  vitalfew export --format pprof -o app.pb.gz && go tool pprof -top app.pb.gz
  vitalfew export --format firefox -o app.json     open it in profiler.firefox.com")]
pub struct Export {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// The format
    #[arg(long, value_enum)]
    pub format: Format,
    /// The event, for formats that hold one (default: the first)
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// One frame for each procedure, without the calls inlined in it
    #[arg(long)]
    pub no_inline: bool,
    /// folded: append who ended each wait
    #[arg(long)]
    pub wakers: bool,
    /// folded: mark kernel frames with _[k]
    #[arg(long)]
    pub mark_kernel: bool,
    /// Write to this file (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Collapsed stacks, for flame graphs
    Folded,
    /// Protocol buffer of go tool pprof, compressed
    Pprof,
    /// JSON of the Firefox Profiler
    Firefox,
    /// JSON of speedscope
    Speedscope,
}

/// `vitalfew doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew doctor               what can be measured here, for you
  vitalfew doctor ./app         and what can be seen of this program")]
pub struct Doctor {
    /// A program to look at
    #[arg(value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// `vitalfew generate`.
#[derive(Debug, clap::Args)]
pub struct Generate {
    /// What to write
    #[command(subcommand)]
    pub what: Generated,
}

/// What `generate` writes.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Man pages, into a directory
    Man {
        /// The directory
        directory: PathBuf,
    },
    /// A shell's completions, to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// A percentage above 0.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value),
        _ => Err("expected a percentage above 0 and up to 100".into()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a time such as 500ms, 30s, 5m or 1h".into()),
    };
    match digits.parse::<f64>() {
        Ok(value) if value > 0.0 && value * seconds < 1e9 => {
            Ok(Duration::from_secs_f64(value * seconds))
        }
        _ => Err("expected a time such as 500ms, 30s, 5m or 1h".into()),
    }
}

fn call_graph(text: &str) -> Result<CallGraphArg, String> {
    let (mode, bytes) = text
        .split_once(',')
        .map_or((text, None), |(mode, bytes)| (mode, Some(bytes)));
    match (mode, bytes) {
        ("fp", None) => Ok(CallGraphArg::FramePointer),
        ("dwarf", None) => Ok(CallGraphArg::Dwarf(16 * 1024)),
        ("dwarf", Some(bytes)) => match bytes.parse() {
            Ok(bytes @ 1024..=64_512) => Ok(CallGraphArg::Dwarf(bytes)),
            _ => Err("the bytes of stack must be from 1024 to 64512".into()),
        },
        _ => Err("expected fp, dwarf or dwarf,BYTES".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_command_needs_no_dashes_before_it() {
        for line in ["record -F99 make -j8 -a", "record -F 99 -- make -j8 -a"] {
            let words = std::iter::once("vitalfew").chain(line.split(' '));
            let Command::Record(record) = Args::try_parse_from(words).unwrap().command else {
                panic!()
            };
            assert_eq!(record.command, ["make", "-j8", "-a"]);
            assert!(!record.all);
        }
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "x", "-1s", "0", "3 s", "1e99h", "5y"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
        assert_eq!(call_graph("dwarf,4096"), Ok(CallGraphArg::Dwarf(4096)));
        for bad in ["", "dwarf,", "dwarf,0", "dwarf,99999999", "fp,1", "lbr"] {
            assert!(call_graph(bad).is_err(), "{bad:?}");
        }
        assert_eq!(percent("2.5%"), Ok(2.5));
        for bad in ["0", "-1", "101", "nan", ""] {
            assert!(percent(bad).is_err(), "{bad:?}");
        }
    }
}
