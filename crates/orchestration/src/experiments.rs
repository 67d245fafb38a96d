//! Storage of a causal profile while its experiments run.

use analysis::causal::{Options, analyse_profile};
use experiment::{CausalListener, LiveProgress, ProgressChoice};
use profile::{CausalProfile, CausalRun};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Slopes with narrower intervals than this need no further run.
const NARROW: f64 = 0.03;
/// Saving may take one part in this many of the time. Usually that allows a save after each
/// experiment.
const SAVING: u32 = 50;

/// Precision of a causal profile.
#[derive(Clone, Copy)]
pub struct Precision {
    /// Number of lines with enough data to be reported.
    pub lines: usize,
    /// Half the width of the widest confidence interval of their slopes.
    pub widest: f64,
    /// Duration of the analysis.
    pub took: Duration,
}

impl Precision {
    /// Analyses a profile. A line needs data for at least `fewest` different speedups.
    pub fn of_profile(profile: &CausalProfile, fewest: usize) -> Self {
        let start = Instant::now();
        let options = Options {
            minimum_speedups: fewest,
            // More runs reduce only the width that comes from chance.
            chance_only: true,
            ..Default::default()
        };
        let findings = analyse_profile(profile, &options).fragments;
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

/// Keeper of a causal profile. It saves experiments while they run, so that finished ones survive
/// the end of this process. It prints no messages.
pub struct ProfileKeeper<'a> {
    /// The file. `None` until the first save, if the file is a new one in the database.
    pub path: Option<PathBuf>,
    /// Completed runs.
    pub profile: CausalProfile,
    /// Precision of `profile`.
    pub precision: Option<Precision>,
    /// The measure of progress.
    pub choice: Option<ProgressChoice>,
    fewest_speedups: usize,
    /// Rewinds the command's input, if possible.
    rewind: &'a mut dyn FnMut() -> bool,
    /// Number of saved experiments of the current run, and the time of the next save.
    saved: usize,
    next_save: Instant,
}

impl<'a> ProfileKeeper<'a> {
    /// Creates a keeper for a profile in a file, or in the default database. A line needs data for
    /// `fewest_speedups` different speedups to be reported. `rewind` rewinds the command's input,
    /// if possible.
    pub fn new(
        file: Option<PathBuf>,
        fewest_speedups: usize,
        rewind: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        Self {
            path: file,
            profile: CausalProfile::default(),
            precision: None,
            choice: None,
            fewest_speedups,
            rewind,
            saved: 0,
            next_save: Instant::now(),
        }
    }

    /// Saves a run, replacing its earlier state.
    fn store_run(&mut self, run: &CausalRun) -> Result<(), store::StoreError> {
        let path = self.path.get_or_insert_with(|| {
            let database = store::written_database(&store::default_database());
            store::causal_path(&database, run.start_unix_ns)
        });
        store::save_causal(run, path).map(|_| ())
    }
}

impl CausalListener for ProfileKeeper<'_> {
    fn progress_chosen(&mut self, choice: &ProgressChoice) {
        self.choice = Some(choice.clone());
    }

    fn hear_notice(&mut self, _: &str) {}

    /// Saves the experiments of the current run from time to time.
    fn report_progress(
        &mut self,
        _: u32,
        live: &LiveProgress,
        so_far: &mut dyn FnMut() -> CausalRun,
    ) {
        let path = self.path.as_ref();
        let is_file = path.is_none_or(|path| !path.exists() || path.is_file());
        if live.experiments > self.saved && Instant::now() >= self.next_save && is_file {
            self.saved = live.experiments;
            let begin = Instant::now();
            // A failure to write is reported at the end of the run.
            let _ = self.store_run(&so_far());
            self.next_save = Instant::now() + begin.elapsed() * SAVING;
        }
    }

    fn run_finished(&mut self, run: &CausalRun) -> std::io::Result<bool> {
        self.store_run(run).map_err(std::io::Error::other)?;
        self.saved = 0;
        self.profile.runs.push(run.clone());
        let known = Precision::of_profile(&self.profile, self.fewest_speedups);
        self.precision = Some(known);
        Ok(known.lines == 0 || known.widest > NARROW)
    }

    fn input_rewound(&mut self) -> bool {
        (self.rewind)()
    }
}
