//! `vitalfew causal run`.

use super::args::{CausalBy, CausalRunArgs};
use super::given::asked_experiments;
use crate::commands::streams::RepeatedStreams;
use crate::output::{clean_name, group_digits};
use crate::screen::tell_user;
use crate::wrapped::{self, Line, Signals};
use experiment::{
    CallSequence, CausalListener, ExperimentOptions, LiveProgress, PointSpec, ProgressChoice,
    Repeats, SpeedupSet,
};
use profile::{CausalProfile, CausalRun, Granularity};
use sampler::Launched;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time for which short commands are repeated without `--for`.
const PATIENCE: Duration = Duration::from_secs(60);
/// Slopes with narrower intervals than this need no further run.
const NARROW: f64 = 0.03;
/// Saving may take one part in this many of the time: as a rule the measurements are saved after
/// each experiment.
const SAVING: u32 = 50;

/// Runs the command.
pub fn run(args: &CausalRunArgs) -> anyhow::Result<ExitCode> {
    let options = experiment_options(args)?;
    let signals = Signals::catch_signals()?;
    if args.suggest_progress {
        return super::suggest::run(args, &options, &signals.stop);
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
    let path = talk.path;
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

/// Results of experiments without progress output.
#[derive(Default)]
pub struct QuietExperiments {
    /// The runs.
    pub profile: CausalProfile,
    /// The measure of progress.
    pub choice: Option<ProgressChoice>,
    /// The number of times that the command was started.
    pub runs: u32,
}

/// Runs the command with experiments again and again for a time, without messages. `rewind` rewinds
/// the command's input between runs; the profile is kept where `causal report` finds it.
///
/// # Errors
/// Those of the command.
pub fn experiment_quietly(
    args: &CausalRunArgs,
    time: Duration,
    stop: &AtomicBool,
    rewind: &mut dyn FnMut() -> bool,
) -> anyhow::Result<QuietExperiments> {
    let mut options = experiment_options(args)?;
    options.duration = Some(time);
    let mut listener = QuietListener {
        talk: Talk::new(args, rewind),
        choice: None,
    };
    let repeats = match args.pid {
        Some(_) => Repeats::Times(1),
        None => Repeats::For(time),
    };
    let outcome = experiment::run_repeatedly(&options, repeats, stop, &mut listener)?;
    let (profile, choice) = (listener.talk.profile, listener.choice);
    outcome.running.map(Launched::wait_for_end);
    Ok(QuietExperiments {
        profile,
        choice,
        runs: outcome.runs,
    })
}

struct QuietListener<'a> {
    talk: Talk<'a>,
    choice: Option<ProgressChoice>,
}

impl CausalListener for QuietListener<'_> {
    fn progress_chosen(&mut self, choice: &ProgressChoice) {
        self.choice = Some(choice.clone());
    }

    fn hear_notice(&mut self, _: &str) {}

    fn report_progress(
        &mut self,
        number: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    ) {
        self.talk.report_progress(number, live, so_far);
    }

    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool> {
        self.talk.run_finished(run)
    }

    fn input_rewound(&mut self) -> bool {
        self.talk.input_rewound()
    }
}

fn experiment_options(args: &CausalRunArgs) -> anyhow::Result<ExperimentOptions> {
    let mut options = ExperimentOptions::new(
        args.command.words.clone(),
        experiment::find_runtime(args.runtime.as_deref())?,
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
    /// Rewinds the command's input, if possible.
    rewind: &'a mut dyn FnMut() -> bool,
    line: Line,
    /// The profile.
    path: Option<PathBuf>,
    /// Completed runs.
    profile: CausalProfile,
    /// Number of saved experiments of the current run, and the time of the next save.
    saved: usize,
    next_save: Instant,
    /// The running analysis.
    looking: Option<JoinHandle<Precision>>,
    /// The last precision shown, and the time of the next.
    precision: Option<Precision>,
    again: Instant,
}

/// The precision so far.
#[derive(Clone, Copy)]
struct Precision {
    /// Lines with enough data to be reported.
    lines: usize,
    /// Half the width of the widest interval of their slopes.
    widest: f64,
    took: Duration,
}

impl Precision {
    fn of(profile: &CausalProfile, fewest: u16) -> Self {
        let start = Instant::now();
        let options = analysis::causal::Options {
            minimum_speedups: fewest.into(),
            // More runs reduce only the width by chance.
            chance_only: true,
            ..Default::default()
        };
        let findings = analysis::causal::analyse_profile(profile, &options).fragments;
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
        // Finished experiments survive any end of this process.
        let is_file = self
            .path
            .as_ref()
            .is_none_or(|path| !path.exists() || path.is_file());
        if live.experiments > self.saved && Instant::now() >= self.next_save && is_file {
            self.saved = live.experiments;
            let begin = Instant::now();
            // A failure to write is reported at the end of the run.
            let _ = self.store_run(&so_far());
            self.next_save = Instant::now() + begin.elapsed() * SAVING;
        }
        if self.line.is_shown() {
            self.show_progress(number, live, so_far);
        }
    }

    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool> {
        self.line.clear();
        self.store_run(run).map_err(std::io::Error::other)?;
        self.saved = 0;
        self.looking = None;
        self.profile.runs.push(run.clone());
        let known = Precision::of(&self.profile, fewest_speedups(self.args));
        let narrow = known.lines > 0 && known.widest <= NARROW;
        self.precision = Some(known);
        Ok(!narrow)
    }

    fn input_rewound(&mut self) -> bool {
        (self.rewind)()
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
            rewind,
            line: Line::new(args.quiet),
            path: args.output.clone(),
            profile: CausalProfile::default(),
            saved: 0,
            next_save: Instant::now(),
            looking: None,
            precision: None,
            again: Instant::now(),
        }
    }

    /// Saves a run, in place of its earlier state.
    fn store_run(&mut self, run: &CausalRun) -> Result<(), store::StoreError> {
        let path = self.path.get_or_insert_with(|| {
            let database = self.args.db.clone().unwrap_or_else(store::default_database);
            store::causal_path(&database, run.start_unix_ns)
        });
        store::save_causal(run, path).map(|_| ())
    }

    /// Returns the precision of the results so far, from an occasional analysis in another thread.
    fn estimate_precision(&mut self, so_far: &mut dyn FnMut() -> CausalRun) -> Option<Precision> {
        if self.looking.as_ref().is_some_and(JoinHandle::is_finished) {
            self.precision = self.looking.take().and_then(|looking| looking.join().ok());
            let took = self.precision.map_or(Duration::ZERO, |known| known.took);
            self.again = Instant::now() + took * LOOKING;
        }
        if self.looking.is_none() && Instant::now() >= self.again {
            let (mut profile, fewest) = (self.profile.clone(), fewest_speedups(self.args));
            profile.runs.push(so_far());
            self.looking = Some(std::thread::spawn(move || Precision::of(&profile, fewest)));
        }
        self.precision
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
