//! The command line of `vitalfew bottlenecks`.

use crate::option_values::{DatabaseArg, place_parser};
use analysis::bottleneck::suggesters::Suggester;
use clap::ValueEnum;
use regex::Regex;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `vitalfew bottlenecks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew bottlenecks                           search the last recording (made with -g)
  vitalfew bottlenecks cpu.pb.gz --auto          the few call sequences that cover most of a profile
  vitalfew bottlenecks slow.pb.gz --against fast.pb.gz --auto
  vitalfew bottlenecks a1 a2 a3 --against b1 --against b2 --against b3   differences beyond chance
  vitalfew bottlenecks cpu.pb.gz --script search.txt > found.txt
  echo 'suggest' | vitalfew bottlenecks stacks.folded

In the search, 'help' names its commands. Method and limits: docs/bottlenecks.md

Exit codes: 0, 1 failure, 2 usage, 4 the profile has no cost, or no difference was found.")]
pub struct Bottlenecks {
    /// A profile: a recording of ours, pprof, perf, folded stacks, Firefox Profiler, speedscope, …
    /// (default: the last recording); several are runs of the same thing
    #[arg(value_name = "PROFILE", conflicts_with = "db", value_parser = place_parser())]
    pub profiles: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Compare with this profile: costs are those of PROFILE less those of this one; can be
    /// repeated for several runs
    #[arg(long, value_name = "PROFILE2")]
    pub against: Vec<PathBuf>,
    /// Search without asking
    #[arg(long, conflicts_with = "script")]
    pub auto: bool,
    /// Run the commands in this file (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Add a suggester: COMMAND gets the methods as JSON lines and prints "NUMBER SCORE" for those
    /// it suggests; it is run by sh when "set suggester NAME" and "suggest" are typed
    /// (docs/bottlenecks.md)
    #[arg(long, value_name = "NAME=COMMAND", value_parser = own_suggester)]
    pub suggester: Vec<OwnSuggester>,
    /// JSON, one object for each result (schema: docs/json.md); without --script, of --auto
    #[arg(long)]
    pub json: bool,
    /// Which of the profile's values is the cost (default: the profile's own choice)
    #[arg(long, value_name = "NAME")]
    pub value: Option<String>,
    /// How the profiles are made comparable
    #[arg(long, value_enum, default_value_t = Normalize::None, value_name = "HOW")]
    pub normalize: Normalize,
    /// The amount of work that a profile's execution did (requests, bytes, …), once for each
    /// profile, those of --against last; for --normalize work
    #[arg(long, value_name = "N")]
    pub work: Vec<f64>,
    /// --auto: the maximum number of call sequences
    #[arg(long, value_name = "N", default_value = "14")]
    pub count: NonZeroUsize,
    /// --auto: the percentage that they should cover; less makes them more specific
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0, value_parser = crate::option_values::parse_percent)]
    pub coverage: f64,
    /// Zooming: the cutoff ratio
    #[arg(long, value_name = "RATIO", default_value_t = 0.95)]
    pub cutoff: f64,
    /// Put frames for these on top of the stacks, if the profile has them
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub by: Vec<GroupArg>,
    /// Tell methods apart by source line
    #[arg(long)]
    pub lines: bool,
    /// Count inlined functions as part of the functions they were inlined in
    #[arg(long)]
    pub no_inline: bool,
    /// How the tree is changed before the search.
    #[command(flatten)]
    pub change: Change,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// Read the profile itself, and keep nothing of it for the next time
    #[arg(long)]
    pub no_cache: bool,
    /// Names in full, however long
    #[arg(long)]
    pub wide: bool,
}

/// Changes of the tree; done in this order.
#[derive(Debug, Default, clap::Args)]
pub struct Change {
    /// Keep only calls of functions with such a name, with what they call
    #[arg(long, value_name = "REGEX")]
    pub focus: Option<Regex>,
    /// Take out calls of functions with such a name: what they cost and call is their callers'
    #[arg(long, value_name = "REGEX")]
    pub hide: Vec<Regex>,
    /// The same by library, executable or package
    #[arg(long, value_name = "REGEX")]
    pub hide_library: Vec<Regex>,
    /// Make all functions with such a name one
    #[arg(long, value_name = "REGEX=NAME", value_parser = parse_merge)]
    pub merge: Vec<(Regex, String)>,
    /// Make all functions of a library with such a name one, with the library's name
    #[arg(long, value_name = "REGEX")]
    pub merge_library: Vec<Regex>,
    /// Take a call of a function that is already on the stack back to the outer call
    #[arg(long)]
    pub collapse_recursion: bool,
}

/// `--normalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Normalize {
    /// As measured
    None,
    /// To equal totals: shares are compared
    Total,
    /// To equal amounts of --work
    Work,
}

/// `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupArg {
    /// The machine
    Host,
    /// The process
    Process,
    /// The thread
    Thread,
}

/// Value of `--suggester`: a suggester of the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSuggester {
    /// Name of the suggester for `set suggester`.
    pub name: String,
    /// A command for `sh -c`.
    pub command: String,
}

fn own_suggester(text: &str) -> Result<OwnSuggester, String> {
    let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err("the name must be one word".to_owned());
    }
    if Suggester::named(name).is_some() {
        return Err(format!("there is a suggester {name} already"));
    }
    if command.trim().is_empty() {
        return Err("the command is empty".to_owned());
    }
    Ok(OwnSuggester {
        name: name.to_owned(),
        command: command.to_owned(),
    })
}

fn parse_merge(text: &str) -> Result<(Regex, String), String> {
    let (regex, name) = text.rsplit_once('=').ok_or("expected REGEX=NAME")?;
    let regex = Regex::new(regex).map_err(|error| error.to_string())?;
    Ok((regex, name.to_owned()))
}
