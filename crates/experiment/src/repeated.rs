//! Runs a command as often as it takes: experiments within a long run, or whole short runs as experiments.

use crate::Error;
use crate::controller::{LiveProgress, run_experiments};
use crate::options::{ExperimentOptions, Hint};
use crate::progress_choice::ProgressChoice;
use profile::CausalRun;
use sampler::{Exit, Launched};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A run with fewer finished experiments says nothing.
const FEW_EXPERIMENTS: usize = 4;
/// Runs shorter than this become experiments as a whole, if they have no room for experiments within.
const SHORT: Duration = Duration::from_secs(5);

/// The number of runs of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// A fixed number of runs.
    Times(u32),
    /// Again and again, as long as another run fits into this time and the listener is not content.
    For(Duration),
}

/// Hears of a session.
pub trait CausalListener {
    /// Reports the measure of progress, where it was to be chosen.
    fn progress_chosen(&mut self, choice: &ProgressChoice);
    /// Reports the progress of run number `run` (from 1), some times a second; `so_far` assembles
    /// the measurements so far.
    fn report_progress(
        &mut self,
        run: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    );
    /// A run is over, or is measured no longer. Returns whether more are wanted.
    ///
    /// # Errors
    /// Whatever ends the session.
    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool>;
    /// Lets the next run read the same input. Returns whether it can.
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
/// With [`ExperimentOptions::choose_point`] and no points given, the first run looks for a progress point: those in the source, a function
/// that is called steadily, or the end of a run. Later runs keep to it. A command whose runs are too short for experiments
/// within is measured end to end, whatever its points.
///
/// # Errors
/// See [`run`]; [`Error::Listener`] if the listener fails.
pub fn run_repeatedly(
    options: &ExperimentOptions,
    repeats: Repeats,
    stop: &AtomicBool,
    listener: &mut dyn CausalListener,
) -> Result<Repeated, Error> {
    let (mut options, start) = (options.clone(), Instant::now());
    options.choose_point &= options.points.is_empty() && options.end_to_end.is_none();
    let (seed, duration) = (options.seed, options.duration);
    let mut number = 0;
    loop {
        number += 1;
        // Each run draws anew.
        options.seed = seed.map(|seed| seed.wrapping_add(u64::from(number) - 1));
        options.duration = duration.map(|all| match repeats {
            Repeats::For(_) => all.saturating_sub(start.elapsed()),
            Repeats::Times(_) => all,
        });
        let began = Instant::now();
        let mut said = false;
        let outcome = run_experiments(&options, stop, &mut |live, so_far| {
            if let Some(choice) = live.choice.as_ref().filter(|_| !said) {
                said = true;
                listener.progress_chosen(choice);
            }
            listener.report_progress(number, live, so_far);
        })?;
        let took = began.elapsed();
        let ended_well = matches!(outcome.exit, Some(Exit::Code(0)));
        if options.choose_point && ended_well {
            let choice = outcome.choice.unwrap_or(ProgressChoice::EndToEnd);
            if !said {
                listener.progress_chosen(&choice);
            }
            keep_choice(&mut options, &choice);
        }
        let is_whole = options.end_to_end.is_some();
        let repeated = matches!(repeats, Repeats::For(_));
        if repeated && !is_whole && took < SHORT && outcome.run.experiments.len() < FEW_EXPERIMENTS
        {
            options.end_to_end = Some(Vec::new());
        }
        if let Some(hints) = &mut options.end_to_end {
            learn_hints(hints, &outcome.run);
        }
        let wanted = listener
            .run_finished(&outcome.run)
            .map_err(Error::Listener)?;
        let again = match repeats {
            Repeats::Times(times) => number < times,
            Repeats::For(all) => {
                wanted && ended_well && start.elapsed() + took <= all && listener.input_rewound()
            }
        };
        if !again || outcome.exit.is_none() || stop.load(Relaxed) {
            return Ok(Repeated {
                runs: number,
                exit: outcome.exit,
                running: outcome.running,
            });
        }
    }
}

/// Later runs measure progress as the first one.
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

/// Adds what a run has sampled to what later runs choose from.
fn learn_hints(hints: &mut Vec<Hint>, run: &CausalRun) {
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
