//! The command line of `vitalfew interference`.

use analysis::interference::Pattern;
use std::path::PathBuf;

/// `vitalfew interference`.
#[derive(Debug, clap::Args)]
pub struct Interference {
    /// What to do
    #[command(subcommand)]
    pub action: InterferenceAction,
}

impl Interference {
    /// Whether it runs a command and passes its exit code on.
    pub fn wraps(&self) -> bool {
        match self.action {
            InterferenceAction::Report(_) => false,
        }
    }
}

/// What `interference` does.
#[derive(Debug, clap::Subcommand)]
pub enum InterferenceAction {
    /// Say which functions lose time to what other threads do
    Report(InterferenceReport),
}

/// `vitalfew interference report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew interference report                          the last run
  vitalfew interference report app.trace --args fill=2  executions of fill with another size are
                                                        not compared
  vitalfew interference report app.trace --exclude 'sort*'
  vitalfew interference report --curves curves.svg      all durations, sorted

What the numbers mean: docs/interference.md

Exit codes: 0, 1 failure, 2 usage, 4 no traced function was executed.")]
pub struct InterferenceReport {
    /// A trace, or the result of a run (default: the last one in the database)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What is compared.
    #[command(flatten)]
    pub regroup: Regroup,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// What executions are compared with each other.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Regroup {
    /// Tell executions of FUNCTION apart by the values of these arguments, counted from 1, instead of
    /// those known by default; without numbers: by none. Can be repeated
    #[arg(long = "args", value_name = "FUNCTION=N,N", value_parser = arguments)]
    pub arguments: Vec<(String, Vec<u8>)>,
    /// Leave these functions out; * and ? are wildcards; can be repeated
    #[arg(long, value_name = "FUNCTION")]
    pub exclude: Vec<String>,
}

impl Regroup {
    /// Whether anything is asked for.
    pub fn is_asked_for(&self) -> bool {
        !(self.arguments.is_empty() && self.exclude.is_empty())
    }

    /// As the analysis wants it, for executions that add `call_overhead` ticks to their callers.
    pub fn options(&self, call_overhead: u64) -> analysis::interference::Options {
        let arguments = self.arguments.iter();
        analysis::interference::Options {
            call_overhead,
            // The last one wins.
            arguments: arguments
                .rev()
                .map(|(f, n)| (Pattern::new(f), n.clone()))
                .collect(),
            exclude: self.exclude.iter().map(|f| Pattern::new(f)).collect(),
            ..Default::default()
        }
    }
}

/// How results are shown.
#[derive(Clone, Debug, clap::Args)]
pub struct Shown {
    /// At most so many functions
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub limit: usize,
    /// All functions, with all that is known, and why others are left out
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// The score in each thread
    #[arg(long)]
    pub thread: bool,
    /// Draw the durations of the same functions: into this file (.svg), or each into a file in this directory
    #[arg(long, value_name = "OUT.svg|DIR")]
    pub curves: Option<PathBuf>,
    /// JSON (schema: docs/interference.md)
    #[arg(long)]
    pub json: bool,
}

/// `FUNCTION=1,3`.
fn arguments(text: &str) -> Result<(String, Vec<u8>), String> {
    let what = "FUNCTION=N,N is meant, with N from 1 to 6";
    let (function, numbers) = text.rsplit_once('=').ok_or(what)?;
    if function.is_empty() {
        return Err(what.to_owned());
    }
    let number = |n: &str| n.parse().ok().filter(|n| (1..=6).contains(n)).ok_or(what);
    let numbers = numbers.split(',').filter(|n| !n.is_empty()).map(number);
    Ok((function.to_owned(), numbers.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn functions_with_arguments() {
        assert_eq!(arguments("f=1,3"), Ok(("f".into(), vec![1, 3])));
        assert_eq!(arguments("operator==="), Ok(("operator==".into(), vec![])));
        for bad in ["f", "=1", "f=0", "f=x", "f=7"] {
            assert!(arguments(bad).is_err(), "{bad}");
        }
    }
}
