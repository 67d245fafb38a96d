//! Runs a command as often as needed: experiments within a long run, or whole short runs as
//! experiments.

use crate::Error;
use crate::causal_session::EarlierRuns;
use crate::controller::run_remembering;
use crate::options::{ExperimentOptions, Hint};
use crate::outcome::{CausalOutcome, LiveProgress};
use crate::progress_choice::ProgressChoice;
use profile::{CausalRun, Fragment};
use sampler::{Exit, Launched};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A run with fewer finished experiments says nothing.
const FEW_EXPERIMENTS: usize = 4;
/// Runs shorter than this become whole experiments, if they have no room for experiments within.
const SHORT: Duration = Duration::from_secs(5);

/// Whole runs become experiments once less than this fraction of the samples is at unknown places:
/// a line that is sped up at only some of its samples seems worth too little.
const UNKNOWN: f64 = 0.1;
/// Largest fraction of the session that is spent learning places.
const LEARNING: f64 = 0.25;

/// The number of runs of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// A fixed number of runs.
    Times(u32),
    /// Repeats while another run fits into this time and the listener wants more.
    For(Duration),
}

/// Receives the events of a session.
pub trait CausalListener {
    /// Reports the measure of progress, if one had to be chosen.
    fn progress_chosen(&mut self, choice: &ProgressChoice);
    /// Reports a sentence for the user about how the command is measured, each one once.
    fn hear_notice(&mut self, notice: &str);
    /// Reports the progress of run number `run` (from 1), some times a second; `so_far` assembles
    /// the measurements so far.
    fn report_progress(
        &mut self,
        run: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    );
    /// Reports a run that is over, or no longer measured. Returns whether more are wanted.
    ///
    /// # Errors
    /// Any error that is to end the session.
    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool>;
    /// Rewinds the input for the next run. Returns whether that is possible.
    fn input_rewound(&mut self) -> bool;
}

/// The result of a session.
pub struct Repeated {
    /// The number of times that the command was started.
    pub runs: u32,
    /// The end of the last run; `None`: it still runs.
    pub exit: Option<Exit>,
    /// The command, to wait for.
    pub running: Option<Launched>,
}

/// Runs a command with experiments, again and again.
///
/// With [`ExperimentOptions::choose_point`] and no points given, the first run looks for a progress
/// point: those in the source, a function that is called steadily, or the end of a run. Later runs
/// keep to it. A command whose runs are too short for experiments within is measured end to end,
/// whatever its points.
///
/// # Errors
/// See [`run_experiments`](crate::run_experiments); [`Error::Listener`] if the listener fails.
pub fn run_repeatedly(
    options: &ExperimentOptions,
    repeats: Repeats,
    stop: &AtomicBool,
    listener: &mut dyn CausalListener,
) -> Result<Repeated, Error> {
    let (mut options, start) = (options.clone(), Instant::now());
    options.choose_point &= options.points.is_empty() && options.end_to_end.is_none();
    let (seed, duration) = (options.seed, options.duration);
    let mut learned = Learned::default();
    let mut remembered = EarlierRuns::default();
    let mut noticed: Vec<String> = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        // Each run draws different numbers.
        options.seed = seed.map(|seed| seed.wrapping_add(u64::from(number) - 1));
        options.duration = duration.map(|all| match repeats {
            Repeats::For(_) => all.saturating_sub(start.elapsed()),
            Repeats::Times(_) => all,
        });
        let is_last = matches!(repeats, Repeats::Times(times) if number >= times);
        options.is_last_run = is_last;
        let began = Instant::now();
        let mut said = false;
        let mut talk = |live: &LiveProgress, so_far: &mut dyn FnMut() -> CausalRun| {
            pass_notices_on(&live.notices, &mut noticed, listener);
            if let Some(choice) = live.choice.as_ref().filter(|_| !said) {
                said = true;
                listener.progress_chosen(choice);
            }
            listener.report_progress(number, live, so_far);
        };
        let outcome = run_remembering(&options, stop, &mut talk, &mut remembered)?;
        let took = began.elapsed();
        let ended_well = matches!(outcome.exit, Some(Exit::Code(0)));
        if options.choose_point && ended_well {
            let choice = outcome.choice.clone().unwrap_or(ProgressChoice::EndToEnd);
            if !said {
                listener.progress_chosen(&choice);
            }
            keep_choice(&mut options, &choice);
        }
        if options.end_to_end.is_none() && !is_last && is_too_short(&outcome, took) {
            listener.hear_notice(&format!(
                "a run takes {:.1} s, too short for experiments in it: each of the next ones is one experiment, measured to its end",
                took.as_secs_f64()
            ));
            options.end_to_end = Some(Vec::new());
        }
        let part = match repeats {
            Repeats::For(all) => start.elapsed().as_secs_f64() / all.as_secs_f64().max(1e-9),
            Repeats::Times(times) => f64::from(number) / f64::from(times),
        };
        learned.learn_run(&outcome, part);
        if let Some(hints) = options.end_to_end.as_mut().filter(|_| learned.knows_code) {
            hints.clone_from(&learned.hints);
        }
        let wanted = listener
            .run_finished(&outcome.run)
            .map_err(Error::Listener)?;
        // What could not be measured once is not run for nothing again.
        let is_measured = outcome.run.duration_ns > 0;
        let again = match repeats {
            _ if !is_measured => false,
            Repeats::Times(times) => number < times,
            Repeats::For(all) if wanted && start.elapsed() + took <= all => {
                if let Some(failure) = failure_of(outcome.exit).filter(|_| !stop.load(Relaxed)) {
                    listener.hear_notice(&format!(
                        "the command {failure} and is not run again; --runs N runs it N times, however it ends"
                    ));
                }
                ended_well && listener.input_rewound()
            }
            Repeats::For(_) => false,
        };
        let goes_on = outcome.exit.is_none() || outcome.in_background;
        if !again || goes_on || stop.load(Relaxed) {
            return Ok(Repeated {
                runs: number,
                exit: outcome.exit,
                running: outcome.running,
            });
        }
    }
}

/// Returns how a command failed; `None` if it succeeded or still runs.
fn failure_of(exit: Option<Exit>) -> Option<String> {
    match exit? {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("ended with exit code {code}")),
        Exit::Signal(signal) => Some(format!("was ended by signal {signal}")),
    }
}

/// Makes later runs measure progress as the first one did.
fn keep_choice(options: &mut ExperimentOptions, choice: &ProgressChoice) {
    options.choose_point = false;
    match choice {
        ProgressChoice::Source(_) => {}
        ProgressChoice::Function { name, .. } => {
            options
                .points
                .extend(crate::PointSpec::parse_spec(name).ok());
        }
        ProgressChoice::EndToEnd => options.end_to_end = Some(Vec::new()),
    }
}

/// Passes on notices that the user has not seen yet.
fn pass_notices_on(
    notices: &[String],
    noticed: &mut Vec<String>,
    listener: &mut dyn CausalListener,
) {
    for notice in notices {
        if !noticed.contains(notice) {
            listener.hear_notice(notice);
            noticed.push(notice.clone());
        }
    }
}

/// Returns whether a run has no room for experiments within, and could be one as a whole.
fn is_too_short(outcome: &CausalOutcome, took: Duration) -> bool {
    let few = took < SHORT && outcome.run.experiments.len() < FEW_EXPERIMENTS;
    let ended = outcome.exit.is_some() && !outcome.in_background;
    ended && few && !outcome.run.fragments.is_empty()
}

/// Knowledge of a command from its runs so far.
#[derive(Default)]
struct Learned {
    hints: Vec<Hint>,
    /// Nearly all samples are at known places, or learning has taken too long.
    knows_code: bool,
}

impl Learned {
    /// Adds a run's samples to the choices of later runs; the run ended after this fraction of the
    /// session.
    fn learn_run(&mut self, outcome: &CausalOutcome, part: f64) {
        self.knows_code |= outcome.unknown_part < UNKNOWN || part >= LEARNING;
        let can_be_worth = |it: &&Fragment| it.waiting.as_ref().is_none_or(|it| !it.for_work);
        for fragment in outcome.run.fragments.iter().filter(can_be_worth) {
            let waiting = fragment.waiting.is_some();
            let same = |hint: &&mut Hint| hint.name == fragment.name && hint.waiting == waiting;
            match self.hints.iter_mut().find(same) {
                Some(hint) => hint.samples += fragment.samples,
                None => self.hints.push(Hint {
                    name: fragment.name.clone(),
                    waiting,
                    samples: fragment.samples,
                }),
            }
        }
    }
}
