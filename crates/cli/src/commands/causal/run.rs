//! `vitalfew causal run`.

use super::args::{CausalBy, Run};
use crate::commands::wrapped::{self, Line, Signals};
use crate::output::grouped;
use experiment::{Hint, Live, Options, PointSpec};
use profile::{CausalRun, Granularity};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Runs the command.
pub fn run(args: &Run) -> anyhow::Result<ExitCode> {
    let mut options = options(args)?;
    let signals = Signals::catch()?;
    if args.suggest_progress {
        return super::suggest::run(args, &options, &signals.stop);
    }
    let mut path = args.output.clone();
    let mut talk = Talk::new(args);
    let mut exit = None;
    for number in 1..=args.runs {
        talk.run = number;
        let outcome = experiment::run(&options, &signals.stop, &mut |live| talk.hear(live))?;
        talk.line.clear();
        if let Some(hints) = &mut options.end_to_end {
            learn(hints, &outcome.run);
        }
        store(&outcome.run, &mut path, args)?;
        signals.pass_on(outcome.running.as_ref());
        exit = outcome
            .exit
            .or_else(|| wrapped::wait(outcome.running, args.quiet));
        if signals.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if !args.quiet
        && let Some(path) = path
    {
        report(path, args)?;
    }
    Ok(wrapped::exit_code(exit))
}

fn options(args: &Run) -> anyhow::Result<Options> {
    let mut options = Options::new(
        args.command.clone(),
        wrapped::runtime(args.runtime.as_ref())?,
    );
    options.by = match args.by {
        CausalBy::Line => Granularity::Line,
        CausalBy::Function => Granularity::Function,
    };
    options.scope.clone_from(&args.scope);
    options.fixed_fragment.clone_from(&args.fixed_line);
    options.fixed_speedup = args.fixed_speedup.map(|percent| percent / 100.0);
    options.points = args
        .progress
        .iter()
        .map(|text| PointSpec::parse(text))
        .collect::<Result<_, _>>()?;
    options.duration = args.duration;
    options.end_to_end = args.end_to_end.then(Vec::new);
    options.shortest = args.experiment;
    options.seed = args.seed;
    Ok(options)
}

/// Says what was found out; whether it tells anything is no exit code of a command that passes the
/// program's on.
fn report(path: PathBuf, args: &Run) -> anyhow::Result<()> {
    eprintln!("vitalfew: the experiments are in {}", path.display());
    super::report::run(&super::args::CausalReport {
        source: super::args::CausalSource { files: vec![path] },
        point: None,
        min_speedups: if args.fixed_speedup.is_some() { 2 } else { 5 },
        all: false,
        json: args.json,
        svg: None,
    })?;
    Ok(())
}

/// What later runs choose from.
fn learn(hints: &mut Vec<Hint>, run: &CausalRun) {
    for fragment in &run.fragments {
        match hints.iter_mut().find(|hint| hint.name == fragment.name) {
            Some(hint) => hint.samples += fragment.samples,
            None => hints.push(Hint {
                name: fragment.name.clone(),
                samples: fragment.samples,
            }),
        }
    }
}

fn store(run: &CausalRun, path: &mut Option<PathBuf>, args: &Run) -> anyhow::Result<()> {
    let path = path.get_or_insert_with(|| {
        let database = args.db.clone().unwrap_or_else(store::default_database);
        store::causal_path(&database, run.start_unix_ns)
    });
    store::append_causal(std::slice::from_ref(run), path)?;
    Ok(())
}

/// What is said meanwhile, on standard error.
struct Talk {
    line: Line,
    run: u32,
    runs: u32,
}

impl Talk {
    fn new(args: &Run) -> Self {
        Self {
            line: Line::new(args.quiet),
            run: 1,
            runs: args.runs,
        }
    }

    fn hear(&mut self, live: &Live) {
        if !self.line.is_shown() {
            return;
        }
        let run = if self.runs > 1 {
            format!("run {} of {}, ", self.run, self.runs)
        } else {
            String::new()
        };
        let seconds = live.elapsed.as_secs_f64();
        let points = live
            .points
            .iter()
            .map(|(name, visits)| format!(", {name} {:.1}/s", *visits as f64 / seconds.max(0.1)));
        self.line.show(&format!(
            "{run}{seconds:.0} s, {} experiments, {} samples, {} lines{}",
            live.experiments,
            grouped(live.samples),
            live.fragments,
            points.take(3).collect::<String>(),
        ));
    }
}
