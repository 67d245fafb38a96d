//! `vitalfew causal run`.

use super::args::{CausalBy, Run};
use crate::commands::wrapped::{self, Line, Signals};
use crate::output::grouped;
use crate::screen::tell_user;
use experiment::{Hint, Live, Options, PointSpec};
use profile::{CausalProfile, CausalRun, Granularity};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
        let outcome = experiment::run(&options, &signals.stop, &mut |live, so_far| {
            talk.hear(live, so_far)
        })?;
        talk.line.clear();
        talk.forget();
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
    for pair in args.latency.chunks_exact(2) {
        if let [begin, end] = pair {
            options.points.push(PointSpec::parse_latency(begin, end)?);
        }
    }
    options.duration = args.duration;
    options.end_to_end = args.end_to_end.then(Vec::new);
    options.shortest = args.experiment;
    options.most_delay = args.max_delay.map(|percent| percent / 100.0);
    options.seed = args.seed;
    Ok(options)
}

/// Different speedups that a line needs to be reported.
fn fewest(args: &Run) -> u16 {
    if args.fixed_speedup.is_some() { 2 } else { 5 }
}

/// Says what was found out; whether it tells anything is no exit code of a command that passes the
/// program's on.
fn report(path: PathBuf, args: &Run) -> anyhow::Result<()> {
    tell_user(&format!("the experiments are in {}", path.display()));
    super::report::run(&super::args::CausalReport {
        source: super::args::CausalSource { files: vec![path] },
        point: None,
        min_speedups: fewest(args),
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

/// Looking at what was measured so far may take this part of the time.
const LOOKING: u32 = 100;

/// What is said meanwhile, on standard error.
struct Talk {
    line: Line,
    run: u32,
    runs: u32,
    fewest: u16,
    /// The analysis that is under way.
    looking: Option<JoinHandle<Precision>>,
    /// What the last one said, and when there may be a next.
    precision: Option<Precision>,
    again: Instant,
}

/// How much is known so far.
#[derive(Clone, Copy)]
struct Precision {
    /// Lines with enough data to be reported.
    lines: usize,
    /// Half the width of the widest interval of their slopes.
    widest: f64,
    took: Duration,
}

impl Precision {
    fn of(run: CausalRun, fewest: u16) -> Self {
        let start = Instant::now();
        let profile = CausalProfile { runs: vec![run] };
        let options = analysis::causal::Options {
            minimum_speedups: fewest.into(),
            ..Default::default()
        };
        let findings = analysis::causal::analyse(&profile, &options).fragments;
        let effects = findings
            .iter()
            .filter_map(|finding| finding.effects.first());
        let widths = effects.map(|effect| (effect.slope.high - effect.slope.low) / 2.0);
        Self {
            lines: findings.len(),
            widest: widths.fold(0.0, f64::max),
            took: start.elapsed(),
        }
    }
}

impl Talk {
    fn new(args: &Run) -> Self {
        Self {
            line: Line::new(args.quiet),
            run: 1,
            runs: args.runs,
            fewest: fewest(args),
            looking: None,
            precision: None,
            again: Instant::now(),
        }
    }

    /// Another run begins.
    fn forget(&mut self) {
        self.looking = None;
        self.precision = None;
    }

    /// Returns how precise the results are so far, by an analysis on the side, now and then.
    fn look(&mut self, so_far: &mut dyn FnMut() -> CausalRun) -> Option<Precision> {
        if self.looking.as_ref().is_some_and(JoinHandle::is_finished) {
            self.precision = self.looking.take().and_then(|looking| looking.join().ok());
            let took = self.precision.map_or(Duration::ZERO, |known| known.took);
            self.again = Instant::now() + took * LOOKING;
        }
        if self.looking.is_none() && Instant::now() >= self.again {
            let (run, fewest) = (so_far(), self.fewest);
            self.looking = Some(std::thread::spawn(move || Precision::of(run, fewest)));
        }
        self.precision
    }

    fn hear(&mut self, live: &Live, so_far: &mut dyn FnMut() -> CausalRun) {
        if !self.line.is_shown() {
            return;
        }
        let known = match self.look(so_far) {
            Some(Precision { lines, widest, .. }) if lines > 0 => {
                format!(", {lines} with enough data (slopes within ±{widest:.2})")
            }
            _ => String::new(),
        };
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
            "{run}{seconds:.0} s, {} experiments, {} samples, {} lines{known}{}",
            live.experiments,
            grouped(live.samples),
            live.fragments,
            points.take(3).collect::<String>(),
        ));
    }
}
