//! `vitalfew causal run`.

use super::args::{CausalBy, CausalRunArgs};
use super::given::asked_experiments;
use crate::output::{clean_name, group_digits};
use crate::screen::tell_user;
use crate::wrapped::{self, Line, Signals};
use experiment::{
    CallSequence, CausalListener, ExperimentOptions, LiveProgress, PointSpec, ProgressChoice,
    Repeats, SpeedupSet, find_runtime,
};
use orchestration::{Precision, ProfileKeeper, RepeatedStreams};
use profile::{CausalRun, Granularity};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time for which short commands are repeated without `--for`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(args: &CausalRunArgs) -> anyhow::Result<ExitCode> {
    let options = experiment_options(args)?;
    let signals = Signals::catch_signals()?;
    if args.suggest_progress {
        return super::suggest::run(args, &options, &signals.stop);
    }
    if args.output.is_none() {
        results::create_database()?;
    }
    let repeats = match args.runs {
        Some(runs) => Repeats::Times(runs),
        None if args.pid.is_some() => Repeats::Times(1),
        None if args.end_to_end => Repeats::Times(1),
        None => Repeats::For(args.duration.unwrap_or(PATIENCE)),
    };
    let mut streams = RepeatedStreams::begin_without_pipes()?;
    let unasked = matches!(repeats, Repeats::For(_));
    // A short command is run hundreds of times: its output is shown once, unless the number of runs
    // was requested.
    let mut rewind =
        || streams.rewind_input().is_ok() && (!unasked || streams.silence_stdout().is_ok());
    let mut talk = Talk::new(args, &mut rewind);
    let outcome = experiment::run_repeatedly(&options, repeats, &signals.stop, &mut talk)?;
    let path = talk.keeper.path;
    streams.restore_output();
    signals.pass_on(outcome.running.as_ref());
    if !args.quiet
        && let Some(path) = path
    {
        report_findings(path, args)?;
    }
    let exit = outcome
        .exit
        .or_else(|| wrapped::wait_for_saved_command(outcome.running, &signals, args.quiet));
    Ok(match args.pid {
        Some(_) => ExitCode::SUCCESS,
        None => wrapped::exit_code(exit),
    })
}

fn experiment_options(args: &CausalRunArgs) -> anyhow::Result<ExperimentOptions> {
    let mut options = ExperimentOptions::new(
        args.command.words.clone(),
        find_runtime(args.runtime.as_deref())?,
    );
    options.by = match args.by {
        Some(CausalBy::Function) => Granularity::Function,
        Some(CausalBy::Line) | None => Granularity::Line,
    };
    options.or_functions = args.by.is_none() && args.fixed_line.is_none();
    options.scope.clone_from(&args.scope);
    options.fixed_fragment.clone_from(&args.fixed_line);
    options.set = match (&args.sequence, &args.lock) {
        (Some(text), _) => Some(SpeedupSet::Sequence(CallSequence::parse_sequence(text)?)),
        (None, Some(name)) => Some(SpeedupSet::Lock(name.clone())),
        (None, None) => None,
    };
    if options.set.is_some() {
        options.by = Granularity::Function;
    }
    options.fixed_speedup = args.fixed_speedup.map(|percent| percent / 100.0);
    options.points = args
        .progress
        .iter()
        .map(|text| PointSpec::parse_spec(text))
        .collect::<Result<_, _>>()?;
    for pair in args.latency.chunks_exact(2) {
        if let [begin, end] = pair {
            options.points.push(PointSpec::parse_latency(begin, end)?);
        }
    }
    options.asked = asked_experiments(args);
    options.attach = args.pid;
    options.duration = match args.pid {
        Some(_) => Some(args.duration.unwrap_or(PATIENCE)),
        None => args.duration,
    };
    options.end_to_end = args.end_to_end.then(Vec::new);
    options.shortest = args.experiment;
    options.most_delay = args.max_delay.map(|percent| percent / 100.0);
    options.real_clocks = args.real_clocks;
    options.waits = !args.no_waits;
    options.hooks = !args.no_hooks;
    options.seed = args.seed;
    options.choose_point = true;
    Ok(options)
}

/// Returns the number of different speedups that a line needs to be reported.
fn fewest_speedups(args: &CausalRunArgs) -> u16 {
    if args.fixed_speedup.is_some() { 2 } else { 5 }
}

/// Prints the findings. They do not change the exit code, which is the program's.
fn report_findings(path: PathBuf, args: &CausalRunArgs) -> anyhow::Result<()> {
    tell_user(&format!("the experiments are in {}", path.display()));
    let report = super::args::CausalReport {
        files: vec![path],
        database: args.database.clone(),
        point: None,
        min_speedups: fewest_speedups(args),
        all: false,
        json: args.json,
        svg: None,
    };
    super::report::run(&report)?;
    Ok(())
}

/// Reciprocal of the share of the time that analyses during the measurement may take.
const LOOKING: u32 = 100;

/// Saves the experiments, and shows the progress on standard error.
struct Talk<'a> {
    args: &'a CausalRunArgs,
    line: Line,
    keeper: ProfileKeeper<'a>,
    /// The running analysis, and the time of the next.
    looking: Option<JoinHandle<Precision>>,
    again: Instant,
}

impl CausalListener for Talk<'_> {
    fn progress_chosen(&mut self, choice: &ProgressChoice) {
        self.line.clear();
        if let Some(text) =
            choice_in_words(choice, self.args.pid.is_some()).filter(|_| !self.args.quiet)
        {
            tell_user(&text);
        }
    }

    fn hear_notice(&mut self, notice: &str) {
        self.line.clear();
        if !self.args.quiet {
            tell_user(&clean_name(notice));
        }
    }

    fn report_progress(
        &mut self,
        number: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    ) {
        self.keeper.report_progress(number, live, so_far);
        if self.line.is_shown() {
            self.show_progress(number, live, so_far);
        }
    }

    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool> {
        self.line.clear();
        self.looking = None;
        self.keeper.run_finished(run)
    }

    fn input_rewound(&mut self) -> bool {
        self.keeper.input_rewound()
    }
}

/// Describes the measure of progress before the first experiment.
fn choice_in_words(choice: &ProgressChoice, attached: bool) -> Option<String> {
    match choice {
        ProgressChoice::Source(_) => None,
        ProgressChoice::Function { name, calls_per_second } => Some(format!(
            "no progress point was given: {} ({calls_per_second:.0} calls a second) stands for a unit of work; name another with --progress",
            clean_name(name)
        )),
        ProgressChoice::EndToEnd if attached => Some(
            "no progress point was given, and the process neither calls a function steadily nor hands anything over: name what it does with --progress"
                .into(),
        ),
        ProgressChoice::EndToEnd => Some(
            "no progress point was given, and no function is called steadily: each run of the command is one experiment, measured to its end"
                .into(),
        ),
    }
}

impl<'a> Talk<'a> {
    fn new(args: &'a CausalRunArgs, rewind: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            args,
            line: Line::new(args.quiet),
            keeper: ProfileKeeper::new(args.output.clone(), fewest_speedups(args).into(), rewind),
            looking: None,
            again: Instant::now(),
        }
    }

    /// Returns the precision of the results so far, from an occasional analysis in another thread.
    fn estimate_precision(&mut self, so_far: &mut dyn FnMut() -> CausalRun) -> Option<Precision> {
        if self.looking.as_ref().is_some_and(JoinHandle::is_finished) {
            let looked = self.looking.take().and_then(|looking| looking.join().ok());
            self.keeper.precision = looked;
            let took = looked.map_or(Duration::ZERO, |known| known.took);
            self.again = Instant::now() + took * LOOKING;
        }
        if self.looking.is_none() && Instant::now() >= self.again {
            let (mut profile, fewest) = (self.keeper.profile.clone(), fewest_speedups(self.args));
            profile.runs.push(so_far());
            let look = move || Precision::of_profile(&profile, fewest.into());
            self.looking = Some(std::thread::spawn(look));
        }
        self.keeper.precision
    }

    fn show_progress(
        &mut self,
        number: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    ) {
        let known = match self.estimate_precision(so_far) {
            Some(Precision { lines, widest, .. }) if lines > 0 => {
                format!(", {lines} with enough data (slopes within ±{widest:.2})")
            }
            _ => String::new(),
        };
        let run = match self.args.runs {
            Some(runs) if runs > 1 => format!("run {number} of {runs}, "),
            None if number > 1 => format!("run {number}, "),
            _ => String::new(),
        };
        let seconds = live.elapsed.as_secs_f64();
        let points = live
            .points
            .iter()
            .map(|(name, visits)| format!(", {name} {:.1}/s", *visits as f64 / seconds.max(0.1)));
        self.line.show(&format!(
            "{run}{seconds:.0} s, {} experiments, {} samples, {} lines{known}{}",
            live.experiments,
            group_digits(live.samples),
            live.fragments,
            points.take(3).collect::<String>(),
        ));
    }
}
