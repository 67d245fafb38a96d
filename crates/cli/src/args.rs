//! The command line: one definition for the parser, the help, the man pages and the completions.

use crate::option_values::{DatabaseArg, parse_duration, parse_percent, parse_size, place_parser};
use crate::screen::{ColorChoice, ScreenSettings};

use clap::error::ErrorKind;
use clap::{ArgGroup, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use results::{CompareBy, CompareOptions, MeasurePer, RecordingSource, ReportBy, SampleFilter};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use store::TimeRange;

/// Heading of the options that all commands have.
const EVERYWHERE: &str = "Options everywhere";

/// Of all the time a program takes, the few causes that matter.
#[derive(Debug, Parser)]
#[command(
    name = "vitalfew",
    version = crate::version::VERSION,
    long_version = crate::version::LONG_VERSION.as_str(),
    about = "Of all the time a program takes, the few causes that matter",
    arg_required_else_help = true,
    propagate_version = true,
    help_template = "\
{about}

{usage-heading} vitalfew <COMMAND>, and vitalfew help <COMMAND or TOPIC>

  run       Run a command and say what is worth changing: the few causes, with evidence
  record    Record where a command, a process or the whole machine spends its time
  report    Say where the time of a recording went
  top       Show what runs now, live in the terminal
  causal    Say what speeding code up would be worth
  serve     Show everything on a page in the browser

More of recordings:  annotate bottlenecks stats diff export html
All the time:        daemon epochs query
Threads, CI, agents: interference check mcp
This machine:        doctor (what can be measured here, and what mends the rest)
Topics of help:      tutorial questions permissions troubleshooting languages formats comparison
Options everywhere:  --color WHEN, --no-pager, -h or --help, -V or --version{after-help}",
    after_help = "\
Examples:
  vitalfew run -- ./app                what is worth changing?
  vitalfew run -p 1234                 and in a process that runs already?
  vitalfew record -- make -j8          where does a build spend its time?
  vitalfew record -a --for 30s         where does the whole machine?"
)]
pub struct Args {
    /// Colour what matters: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = EVERYWHERE,
          hide_default_value = true, hide_possible_values = true)]
    pub color: ColorChoice,
    /// Never show a result through a pager ($VITALFEW_PAGER, $PAGER, less)
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub no_pager: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Parses the command line. A database that it names becomes the default one.
    pub fn parse_line() -> Self {
        let mut matches = Self::command().get_matches();
        let mut innermost = &matches;
        while let Some((_, inner)) = innermost.subcommand() {
            innermost = inner;
        }
        if let Ok(Some(database)) = innermost.try_get_one::<PathBuf>("db") {
            store::name_database(database);
        } else if let Err(why) = store::check_default_database() {
            let error = Self::command().error(ErrorKind::ValueValidation, why);
            error.exit()
        }
        Self::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
    }

    /// Returns the output settings.
    pub fn screen_settings(&self) -> ScreenSettings {
        let wide = match &self.command {
            Command::Report(report) => report.shown.wide,
            Command::Stats(stats) => stats.compare.shown.wide,
            Command::Diff(diff) => diff.compare.shown.wide,
            Command::Bottlenecks(bottlenecks) => bottlenecks.wide,
            _ => false,
        };
        ScreenSettings {
            color: self.color,
            no_pager: self.no_pager,
            wide,
        }
    }
}

impl Command {
    /// Returns the process to attach to, from `-p`.
    pub fn process_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Run(run) => run.pid.as_mut(),
            Self::Record(record) => record.pid.as_mut(),
            Self::Top(top) => top.pid.as_mut(),
            Self::Causal(causal) => causal.process_mut(),
            Self::Interference(interference) => interference.process_mut(),
            _ => None,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command and say what is worth changing: all methods, at most five findings
    Run(Box<crate::commands::run::args::RunAll>),
    /// Record where a command, a process or the whole machine spends its time
    Record(Record),
    /// Show what runs now, live in the terminal: procedures, call paths, threads, waits
    Top(crate::commands::top::args::Top),
    /// Record the whole machine all the time
    Daemon(Daemon),
    /// Say where the time went
    Report(ReportArgs),
    /// Say how long each instruction of a procedure took, and what it may have waited for
    Annotate(Annotate),
    /// List the epochs of a database
    Epochs(Epochs),
    /// Ask a database in SQL
    Query(Query),
    /// Say what varies between runs, and which of it is more than chance
    Stats(Stats),
    /// Say what changed from one recording to another
    Diff(Diff),
    /// Say whether a command got slower than allowed since a measurement that was kept
    Check(Box<crate::commands::check::args::CheckRun>),
    /// Search a profile, or the difference of two, for the few call sequences that matter
    Bottlenecks(Box<crate::commands::bottlenecks::args::Bottlenecks>),
    /// Say what speeding code up would be worth
    Causal(crate::commands::causal::args::Causal),
    /// Say which functions lose time to what other threads do
    Interference(Box<crate::commands::interference::args::Interference>),
    /// Show everything on a page in the browser
    Serve(crate::commands::page::args::Serve),
    /// Write the page with its data into one file
    Html(crate::commands::page::args::Html),
    /// Answer the questions of an agent's program, by the Model Context Protocol
    Mcp(crate::commands::mcp::args::Mcp),
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
  vitalfew record -p 1234                     a running process; Ctrl-C ends
  vitalfew record -a --for 60s                the whole machine
  vitalfew record -e cpu-clock -e page-faults -- ./app
  vitalfew record --off-cpu -- ./app          the time that its threads are blocked, too

Exit codes: those of COMMAND; 125 if vitalfew itself fails, 126 and 127 if COMMAND
cannot be executed or does not exist, 128+n if signal n ended it. Without COMMAND:
0, 1 failure, 2 usage, 3 this machine refuses."
)]
pub struct Record {
    /// Event to sample: NAME[:u|k|p|b][:PERIOD], CATEGORY:NAME of a tracepoint, rHEX of a raw event
    /// (default: cycles, or cpu-clock where there are none); can be repeated
    #[arg(short, long = "event", value_name = "EVENT")]
    pub events: Vec<String>,
    /// Samples a second on each CPU
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with = "overhead",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub frequency: Option<u64>,
    /// The highest rate, between 1 and 5 kHz, that costs at most this many percent of each CPU
    /// (measured before the start)
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = parse_percent)]
    pub overhead: f64,
    /// Record call stacks: the default, except with --registers and branch records
    #[arg(short = 'g', conflicts_with = "no_stacks")]
    pub stacks: bool,
    /// Record where samples fall, without call stacks
    #[arg(long, conflicts_with = "call_graph")]
    pub no_stacks: bool,
    /// How to record call stacks: in the kernel by unwind tables, and by frame pointers in code
    /// that has none (auto, as -g); by frame pointers alone (fp); from copies of the stack
    /// (dwarf[,BYTES of it, default 16384])
    #[arg(long, value_name = "auto|fp|dwarf", value_parser = call_graph)]
    pub call_graph: Option<CallGraphArg>,
    /// Memory for unwind tables in the kernel, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub unwind_memory: u64,
    /// Do not have the JVMs that are recorded (JDK 17 or later), nor Node.js and .NET when the
    /// command starts them, write the names of their functions to /tmp/perf-PID.map
    #[arg(long)]
    pub no_attach: bool,
    /// Take the processor's records of the last branches (LBR, BRBE) with samples of taken branches
    /// in user mode: how often code runs, for annotate
    #[arg(long)]
    pub branches: bool,
    /// See from the registers at each sample, and what the code after it reads of memory, where the
    /// next branches go and which data are accessed: what annotate needs to estimate how often code
    /// runs, and to tell DTLB misses from others (x86-64; samples come through ring buffers)
    #[arg(long)]
    pub registers: bool,
    /// Follow the execution of COMMAND's first thread, instruction by instruction, for stretches at
    /// random times that may take PERCENT of its time: sharpens what --registers sees
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "3",
          require_equals = true, value_parser = parse_percent, requires = "command")]
    pub path_bursts: Option<f64>,
    /// Record the time that threads are blocked or wait for a CPU, by stack and by who woke them
    #[arg(long)]
    pub off_cpu: bool,
    /// The whole machine, until Ctrl-C or --for
    #[arg(short, long)]
    pub all: bool,
    /// A running process, with the threads and processes that it will start
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Of the whole machine, keep samples in control groups with this in their path or container
    /// (docker 3f2a1b4c5d6e)
    #[arg(long, value_name = "TEXT", requires = "all")]
    pub cgroup: Option<String>,
    /// Stop after this time (30s, 5m, 500ms); a command runs on
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Write to this file instead of the database
    #[arg(short, long, value_name = "FILE", conflicts_with = "db")]
    pub output: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Keep copies of the programs and libraries that had samples, for annotate and report --by
    /// line after a rebuild: in FILE.images, or in images/ of the database
    #[arg(long)]
    pub keep_images: bool,
    /// With --all: let other users read the recording, as the umask says (default: its owner only)
    #[arg(long, requires = "all")]
    pub shared: bool,
    /// Keep samples of different processes apart, not only of different process names
    #[arg(long)]
    pub per_process: bool,
    /// Keep samples of different threads apart
    #[arg(long)]
    pub per_thread: bool,
    /// Keep when samples were taken, to a tenth of a second, and threads apart: for the timeline of
    /// vitalfew html
    #[arg(long)]
    pub timeline: bool,
    /// How samples are collected
    #[arg(long, value_enum, default_value_t = CollectorArg::Auto)]
    pub collector: CollectorArg,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// The command with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Value of `--call-graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphArg {
    /// By unwind tables in the kernel, and frame pointers where there are none.
    Auto,
    /// Frame pointers.
    FramePointer,
    /// Unwind tables, from copies of the stack; their size in bytes.
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

/// `vitalfew daemon`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew daemon run --db /var/lib/vitalfew --keep 30d --keep-size 1G
  vitalfew daemon status --db /var/lib/vitalfew
  vitalfew report /var/lib/vitalfew                the last epoch, up to the last drain
  systemctl enable --now vitalfew                  packaging/vitalfew.service")]
pub struct Daemon {
    /// What to do
    #[command(subcommand)]
    pub action: DaemonAction,
}

/// Actions of `daemon`.
#[derive(Debug, Subcommand)]
pub enum DaemonAction {
    /// Record, in the foreground, until SIGTERM or SIGINT. SIGHUP: leave the collector counting
    /// for the next daemon (an upgrade without a gap)
    Run(DaemonRun),
    /// What the daemon is doing, and what it costs
    Status(DaemonAsk),
    /// Store what is counted, and merge it
    Flush(DaemonAsk),
    /// Flush, and begin a new epoch
    Epoch(DaemonAsk),
    /// Store all samples, and end the daemon
    Stop(DaemonAsk),
    /// Merge the parts of an epoch (the daemon runs this beside itself)
    #[command(hide = true)]
    Merge(DaemonMerge),
    /// Send closed epochs to a bucket (the daemon runs this beside itself)
    #[command(hide = true)]
    Send(DaemonSend),
    /// Name code that cannot be read later (the daemon runs this beside itself)
    #[command(hide = true)]
    Names,
}

/// Location of a daemon.
#[derive(Debug, clap::Args)]
pub struct DaemonAsk {
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// The daemon's socket (default: in the database)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// JSON (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `vitalfew daemon run`.
#[derive(Debug, clap::Args)]
pub struct DaemonRun {
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// The socket to be asked by, which only its owner can use (default: in the database)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Event to sample, as in record; can be repeated
    #[arg(short, long = "event", value_name = "EVENT", value_delimiter = ',')]
    pub events: Vec<String>,
    /// Samples a second on each CPU (default: what the budget allows, at most 5 kHz)
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    pub frequency: Option<u64>,
    /// Samples and daemon together may take this many percent of the machine; the rate is lowered
    /// rather than more, unless only -F is given (default: 1)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub budget: Option<f64>,
    /// Record call stacks, in the kernel, by unwind tables: the default (Linux 6.1)
    #[arg(short = 'g', long, conflicts_with = "no_stacks")]
    pub stacks: bool,
    /// Record where samples fall, without call stacks: a sample costs less than half
    #[arg(long)]
    pub no_stacks: bool,
    /// Memory for unwind tables in the kernel, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub unwind_memory: u64,
    /// Store what is counted at least this often
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Merge what is stored this often
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub merge: Duration,
    /// How long an epoch is (default: 1d; 1h if the database is in a bucket)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub epoch: Option<Duration>,
    /// What is kept.
    #[command(flatten)]
    pub keep: Keep,
    /// Of a database in a bucket: where epochs wait to be sent (default: below
    /// ~/.local/share/vitalfew-spool)
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// … the most that waits, when the bucket cannot be reached; then the oldest is lost
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub spool_size: u64,
    /// … send closed epochs at most this often
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_duration)]
    pub send: Duration,
    /// How long the collector goes on sampling when no daemon is there; then it stops by itself
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub outlive: Duration,
    /// Let other users read what is stored, as the umask says (default: its owner only)
    #[arg(long)]
    pub shared: bool,
    /// Do not pin the collector: if the daemon is killed, what it had not stored is lost
    #[arg(long)]
    pub no_pin: bool,
}

/// Limits on the closed epochs of this host that are kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Keep {
    /// Remove closed epochs of this host that ended longer ago (default: none)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub keep: Option<Duration>,
    /// Remove the oldest epochs of this host until the rest takes at most this (500M, 2G)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub keep_size: Option<u64>,
}

/// `vitalfew daemon merge`.
#[derive(Debug, clap::Args)]
pub struct DaemonMerge {
    /// The database directory
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// The directory of the open epoch
    #[arg(long, value_name = "DIR")]
    pub epoch: PathBuf,
    /// Merge all parts, not only the small ones
    #[arg(long)]
    pub all: bool,
    /// Close it
    #[arg(long)]
    pub close: bool,
    /// What is kept.
    #[command(flatten)]
    pub keep: Keep,
}

/// `vitalfew daemon send`.
#[derive(Debug, clap::Args)]
pub struct DaemonSend {
    /// The database in a bucket
    #[arg(long, value_name = "ADDRESS", value_parser = place_parser())]
    pub db: PathBuf,
    /// The local database whose closed epochs are sent
    #[arg(long, value_name = "DIR")]
    pub spool: PathBuf,
    /// The most that waits
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub spool_size: u64,
    /// What is kept in the bucket.
    #[command(flatten)]
    pub keep: Keep,
}

/// `vitalfew report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew report                         the last recording, by procedure
  vitalfew report --by line app.vf        a file, by source line
  vitalfew report --by image --event page-faults
  vitalfew report --sort total            with what it calls: who is behind the time?
  vitalfew report --tree                  the call tree
  vitalfew report --callers malloc        who calls a procedure, and for how much of the time
  vitalfew report --process cc1 --image libc

Exit codes: 0, 1 failure, 2 usage, 4 the recording has no sample that is asked for,
5 damaged data were left out.")]
pub struct ReportArgs {
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// What to count samples by
    #[arg(long, value_enum, default_value_t = ReportBy::Procedure)]
    pub by: ReportBy,
    /// Order of the rows
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = ReportOrder::Own)]
    pub sort: ReportOrder,
    /// The call tree from the outermost frame down, instead of a table
    #[arg(long, conflicts_with_all = ["by", "sort", "json"])]
    pub tree: bool,
    /// The tree of the callers of a procedure, instead of a table: its name, or a part of it
    #[arg(long, value_name = "PROCEDURE", conflicts_with_all = ["by", "sort", "json", "tree"])]
    pub callers: Option<String>,
    /// In trees, count inlined calls to the procedure that they are compiled into
    #[arg(long)]
    pub no_inline: bool,
    /// Which samples.
    #[command(flatten)]
    pub filter: Filter,
    /// Also the interpreter's own frames in stacks that have functions of Python
    #[arg(long)]
    pub runtime_frames: bool,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// `--sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportOrder {
    /// By the time of the code itself
    #[value(name = "self")]
    Own,
    /// By its time with all that it called
    Total,
}

/// Presentation of a table.
#[derive(Clone, Debug, clap::Args)]
pub struct Shown {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub limit: usize,
    /// All rows
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Names in full, however long
    #[arg(long)]
    pub wide: bool,
    /// JSON instead of a table (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `vitalfew annotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew annotate parse                     a procedure of the last recording
  vitalfew annotate parse app.vf --source     of a file, with source lines beside
  vitalfew annotate --summary                 where all cycles went, in ranges
  vitalfew annotate parse --summary           where those of a procedure went
  vitalfew annotate parse --cfg parse.dot     its control-flow graph
  vitalfew annotate parse --counts callgrind.out.1   with exact counts of a run of the same
  vitalfew annotate --image app --autofdo app.prof   how often what ran, for clang to optimise by

docs/annotate.md says what the numbers mean, and when they are wrong.

Exit codes: 0, 1 failure, 2 usage, 4 there are no samples, or nothing can be said,
5 damaged data were left out.")]
pub struct Annotate {
    /// The procedure: its name, a part of it, or START..END (positions in the file of --image, in
    /// hexadecimal) where there are no names; without one, --summary is of all. A name that is
    /// a file is the recording
    #[arg(value_name = "PROCEDURE", required_unless_present_any = ["summary", "autofdo"])]
    pub procedure: Option<String>,
    /// What to read.
    #[command(flatten)]
    pub source: Source,
    /// Only images with this in their path
    #[arg(long, value_name = "TEXT")]
    pub image: Option<String>,
    /// The time event (default: the first)
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Source lines beside the instructions
    #[arg(long = "source")]
    pub lines: bool,
    /// Where the cycles went, in ranges, instead of the listing
    #[arg(long)]
    pub summary: bool,
    /// Write the control-flow graph, for Graphviz: dot -Tsvg FILE
    #[arg(long, value_name = "FILE", conflicts_with = "summary")]
    pub cfg: Option<PathBuf>,
    /// Write how often the code of an image (default: that with most samples) ran, for clang
    /// -fprofile-sample-use=FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["summary", "cfg", "json"])]
    pub autofdo: Option<PathBuf>,
    /// Counts of the same work by another tool: valgrind --tool=callgrind --dump-instr=yes
    /// --collect-jumps=yes, gcov --json-format, llvm-cov export -format=lcov, or perf record -b;
    /// can be repeated
    #[arg(long, value_name = "FILE")]
    pub counts: Vec<PathBuf>,
    /// Also count executions, for cycles: in short bursts by uprobes and by the registers of loops,
    /// in a running process (-p) or in one more run of COMMAND; without RECORDING, record it first
    #[arg(long, requires = "target", requires = "procedure", conflicts_with_all = ["summary", "autofdo"])]
    pub count: bool,
    /// The process in which --count counts
    #[arg(short, long, value_name = "PID", group = "target", requires = "count",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// How long --count measures a process (default: 5s)
    #[arg(long = "for", value_name = "TIME", requires = "pid", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Percent of the CPU time that --count may take
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = parse_percent)]
    pub overhead: f64,
    #[arg(long, value_name = "NAME", help = processor_help())]
    pub cpu: Option<String>,
    /// Its clock, if the recording does not say it or it did not run at that
    #[arg(long, value_name = "GHZ", value_parser = parse_gigahertz)]
    pub clock: Option<f64>,
    /// All blocks, also those with few samples
    #[arg(long)]
    pub all: bool,
    /// JSON instead of text (schema: docs/json.md)
    #[arg(long, conflicts_with = "cfg")]
    pub json: bool,
    /// The command that --count runs, with its arguments
    #[arg(
        last = true,
        value_name = "COMMAND",
        group = "target",
        requires = "count"
    )]
    pub command: Vec<OsString>,
}

fn parse_gigahertz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.01 && value < 100.0 => Ok(value),
        _ => Err("a clock in GHz, as 2.4".to_owned()),
    }
}

/// Returns the help of `--cpu`, with the names of the known processors.
fn processor_help() -> String {
    let names = machine::PROCESSORS.iter().map(|one| one.name);
    let names: Vec<&str> = names.collect();
    format!(
        "The processor, if not that of the recording: {}",
        names.join(", ")
    )
}

/// Location of a recording.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Source {
    /// A recording's file, an epoch's directory or a database (default: the last recording)
    #[arg(value_name = "RECORDING", conflicts_with = "db", value_parser = place_parser())]
    pub path: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Of a database, the epochs that began then, together: a time as 20261121 or 2026-11-21T03:15
    /// (UTC), or A..B, A.., ..B, .. (default: the last)
    #[arg(long, value_name = "A..B", value_parser = parse_time_range)]
    pub epoch: Option<TimeRange>,
    /// Of a database, the epochs of this host
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}

impl Source {
    /// Converts the options to the library's.
    pub fn recording_source(&self) -> RecordingSource {
        RecordingSource {
            path: self.path.clone(),
            epoch: self.epoch.clone(),
            host: self.host.clone(),
            debug_dirs: self.debug_dir.clone(),
        }
    }
}

/// Selection of a recording's samples.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Filter {
    /// Only this event, and the table sorted by it
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Only processes with this in their name
    #[arg(long, value_name = "TEXT")]
    pub process: Option<String>,
    /// Only threads with this in their name
    #[arg(long, value_name = "TEXT")]
    pub thread: Option<String>,
    /// Only this process id (needs record --per-process, but for --by process and thread)
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Only control groups with this in their path or container (docker 3f2a1b4c5d6e)
    #[arg(long, value_name = "TEXT")]
    pub cgroup: Option<String>,
    /// Only samples in images with this in their path
    #[arg(long, value_name = "TEXT")]
    pub image: Option<String>,
    /// Only samples in procedures with this in their name
    #[arg(long, value_name = "TEXT")]
    pub procedure: Option<String>,
}

impl Filter {
    /// Converts the options to the library's.
    pub fn sample_filter(&self) -> SampleFilter {
        SampleFilter {
            event: self.event.clone(),
            process: self.process.clone(),
            thread: self.thread.clone(),
            pid: self.pid,
            cgroup: self.cgroup.clone(),
            image: self.image.clone(),
            procedure: self.procedure.clone(),
        }
    }
}

/// Location of a database, and the selected part of it.
#[derive(Clone, Debug, clap::Args)]
pub struct Chosen {
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// The epochs that began then: a time as 20261121 or 2026-11-21T03:15 (UTC), or A..B, A.., ..B
    #[arg(long, value_name = "A..B", value_parser = parse_time_range, default_value = "..")]
    pub epoch: TimeRange,
    /// The epochs of this host
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

/// `vitalfew epochs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew epochs                              what was recorded, when and where
  vitalfew epochs --db /var/lib/vitalfew --epoch 20261121 --host build-1

Exit codes: 0, 1 failure, 2 usage, 4 there is none,
5 damaged data were left out.")]
pub struct Epochs {
    /// Which.
    #[command(flatten)]
    pub chosen: Chosen,
    /// JSON instead of a table (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `vitalfew query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tables, each with the columns epoch and host:
  samples  event process pid tid cgroup image build_id offset procedure stack count weight
  threads  event process pid tid cgroup count weight
  events   event unit period frequency multiplex_scale taken stored dropped lost
  images   path kind build_id gone
  epochs   start_unix_ns duration_ns collector call_graph samples open
weight is nanoseconds (of clocks and waits; else occurrences), whatever the rate: sum(weight).

Examples:
  vitalfew query \"SELECT image, sum(weight) FROM samples GROUP BY 1 ORDER BY 2 DESC LIMIT 10\"
  vitalfew query --epoch 20261121 \"SELECT procedure, sum(weight) n FROM samples
      WHERE process = 'nginx' GROUP BY procedure ORDER BY n DESC LIMIT 10\"

The SQL is SQLite's. Exit codes: 0, 1 failure, 2 usage or SQL, 4 there is no epoch,
5 damaged data were left out.")]
pub struct Query {
    /// The query
    pub sql: String,
    /// Of what.
    #[command(flatten)]
    pub chosen: Chosen,
    /// JSON: an array of objects
    #[arg(long)]
    pub json: bool,
    /// Comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}

/// `vitalfew stats`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew stats run1.vf run2.vf run3.vf      runs of one program: where do they differ?
  vitalfew stats --by line run*.vf
  vitalfew stats --per time DB/epoch=*/host=* what varied from epoch to epoch

Exit codes: 0, 1 failure, 2 usage, 4 the sets have no sample that is asked for,
5 damaged data were left out.")]
pub struct Stats {
    /// Sample sets: recordings' files, or directories of epochs
    #[arg(value_name = "SET", required = true, num_args = 2.., value_parser = place_parser())]
    pub sets: Vec<PathBuf>,
    /// What to compare.
    #[command(flatten)]
    pub compare: Compare,
}

/// `vitalfew diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew diff before.vf after.vf             runs of the same work: what takes more or less?
  vitalfew diff --map /v1/=/v2/ a.vf b.vf      what was built as /v1/... is /v2/... now
  vitalfew diff --work A=1200,B=1350 a.vf b.vf per request: A served 1200, B 1350
  vitalfew diff --fail-over 5% --markdown a.vf b.vf   a check of a pull request, and its comment
  vitalfew diff --folded a.vf b.vf             for a differential flame graph

Exit codes: 0, 1 failure, 2 usage, 4 the sets have no sample that is asked for,
5 damaged data were left out, 6 a row or all of B together takes more than --fail-over allows, beyond chance.")]
pub struct Diff {
    /// The first set: a recording's file, an epoch's directory or a database
    #[arg(value_parser = place_parser())]
    pub a: PathBuf,
    /// The second set
    #[arg(value_parser = place_parser())]
    pub b: PathBuf,
    /// What to compare.
    #[command(flatten)]
    pub compare: Compare,
    /// Exit with 6 if a row takes more in B by PERCENT of all of A, or all of B does: at the
    /// lower end of the interval, so that chance alone does not fail
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, conflicts_with = "folded")]
    pub fail_over: Option<f64>,
    /// A table in Markdown, for a comment on a pull request
    #[arg(long, conflicts_with_all = ["json", "folded"])]
    pub markdown: bool,
    /// Folded stacks with the samples of both, the second's as if it had been as long as the first
    #[arg(long, conflicts_with_all = ["by", "json"])]
    pub folded: bool,
}

/// Options that `stats` and `diff` have in common.
#[derive(Clone, Debug, clap::Args)]
pub struct Compare {
    /// What to count samples by
    #[arg(long, value_enum, default_value_t = CompareBy::Procedure)]
    pub by: CompareBy,
    /// The work that each set did, in any unit: 1200,1350 or A=1200,B=1350
    #[arg(long, value_name = "N,N…", value_delimiter = ',', value_parser = parse_work)]
    pub work: Vec<f64>,
    /// What a set is measured by (default: run where every set is a command's, else time)
    #[arg(long, value_enum, conflicts_with = "work")]
    pub per: Option<MeasurePer>,
    /// Text in paths and names of earlier sets, and what it is in the last one; can be repeated.
    /// Other build directories, versions and compilers' suffixes are matched without it
    #[arg(long, value_name = "A=B")]
    pub map: Vec<results::NameMap>,
    /// Which samples.
    #[command(flatten)]
    pub filter: Filter,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

impl Compare {
    /// Converts the options to the library's.
    pub fn compare_options(&self) -> CompareOptions {
        CompareOptions {
            by: self.by,
            work: self.work.clone(),
            per: self.per,
            maps: self.map.clone(),
            filter: self.filter.sample_filter(),
            debug_dirs: self.debug_dir.clone(),
        }
    }
}

/// `vitalfew export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew export --format folded | inferno-flamegraph > flame.svg
  vitalfew export --format pprof -o app.pb.gz && go tool pprof -top app.pb.gz
  vitalfew export --format firefox -o app.json     open it in profiler.firefox.com
  vitalfew export --format coz -o profile.coz      the last causal profile, for Coz's viewer")]
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
    /// Also the interpreter's own frames in stacks that have functions of Python
    #[arg(long)]
    pub runtime_frames: bool,
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
    /// Coz (of a causal profile)
    Coz,
    /// Coz's form since 2026, JSON on each line (of a causal profile)
    CozJsonl,
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

/// Outputs of `generate`.
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
    /// Unwind tables of programs and libraries, into the cache, so that a recording need not make
    /// them
    UnwindTables {
        /// The files
        files: Vec<PathBuf>,
    },
}

/// Parses a positive number, with or without the letter of its set.
fn parse_work(text: &str) -> Result<f64, String> {
    let number = text.split_once('=').map_or(text, |(_, number)| number);
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected positive numbers: 1200,1350 or A=1200,B=1350".into()),
    }
}

fn parse_time_range(text: &str) -> Result<TimeRange, String> {
    text.parse()
}

fn call_graph(text: &str) -> Result<CallGraphArg, String> {
    let (mode, bytes) = text
        .split_once(',')
        .map_or((text, None), |(mode, bytes)| (mode, Some(bytes)));
    match (mode, bytes) {
        ("auto", None) => Ok(CallGraphArg::Auto),
        ("fp", None) => Ok(CallGraphArg::FramePointer),
        ("dwarf", None) => Ok(CallGraphArg::Dwarf(16 * 1024)),
        ("dwarf", Some(bytes)) => match bytes.parse() {
            Ok(bytes @ 1024..=64_512) => Ok(CallGraphArg::Dwarf(bytes)),
            _ => Err("the bytes of stack must be from 1024 to 64512".into()),
        },
        _ => Err("expected auto, fp, dwarf or dwarf,BYTES".into()),
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
    fn the_help_is_one_screen_that_names_every_command() {
        let help = Args::command().render_long_help().to_string();
        assert_eq!(help, Args::command().render_help().to_string());
        assert!(help.lines().count() <= 24, "{help}");
        for command in Args::command()
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
        {
            let mut words = help.split_whitespace();
            assert!(
                words.any(|word| word == command.get_name()),
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn every_command_with_a_database_takes_db() {
        const WITHOUT: [&str; 12] = [
            "stats",
            "diff",
            "check",
            "mcp",
            "doctor",
            "generate",
            "names",
            "man",
            "completions",
            "unwind-tables",
            "daemon",
            "help",
        ];
        let mut commands = vec![Args::command()];
        while let Some(command) = commands.pop() {
            let name = command.get_name().to_owned();
            commands.extend(command.get_subcommands().cloned());
            let takes = command
                .get_arguments()
                .any(|argument| argument.get_id() == "db");
            let is_group = command.has_subcommands();
            let expected = !is_group && !WITHOUT.contains(&name.as_str());
            assert_eq!(takes, expected, "{name}");
        }
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
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "x", "-1s", "0", "3 s", "1e99h", "5y"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
        assert_eq!(call_graph("dwarf,4096"), Ok(CallGraphArg::Dwarf(4096)));
        for bad in ["", "dwarf,", "dwarf,0", "dwarf,99999999", "fp,1", "lbr"] {
            assert!(call_graph(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_size("1.5k"), Ok(1500));
        for bad in ["", "0", "-1", "1T", "M", "1e99G"] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_work("B=12.5"), Ok(12.5));
        for bad in ["", "A=", "0", "-1", "inf", "x"] {
            assert!(parse_work(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_percent("2.5%"), Ok(2.5));
        for bad in ["0", "-1", "101", "nan", ""] {
            assert!(parse_percent(bad).is_err(), "{bad:?}");
        }
    }
}
