//! The profile interface (§2.1, Figure 3).
//!
//! The whole search works on any kind of profile that implements [`Profile`]. A kind of profile
//! must give costs to execution paths, and a path must be a sequence of steps: method calls here,
//! but basic blocks or the spans of a trace would do.
//!
//! | Figure 3 | here |
//! |---|---|
//! | `t`, `profile_t` | [`Profile::Summary`], the implementer itself |
//! | `path_of` | [`Profile::path_of`], as numbers that [`Profile::step_name`] names |
//! | `initial_summaries` | the same |
//! | `top_extensions`, `bottom_extensions`, `extend_top`, `extend_bottom` | the same |
//! | `trim_top`, `trim_bottom` | the same |
//! | `base_of`, `cum_of`, `total_base_of`, `total_cum_of` | the same, as `f64`: a difference of normalised profiles is not a whole number |
//!
//! The other functions have defaults that follow from these; a kind of profile overrides those that
//! it can compute faster.

use crate::statistics::Interval;

/// One step of an execution path. The number has a meaning within one profile only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(pub u32);

/// The two metrics of a summary, or of the overlap of two, in the unit of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The cost along the paths themselves.
    pub base: f64,
    /// The cost along the paths and below them.
    pub cum: f64,
}

/// One of the two metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// See [`Metrics::base`].
    Base,
    /// See [`Metrics::cum`].
    Cum,
}

impl Metrics {
    /// Returns one of the two metrics.
    pub fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Base => self.base,
            Metric::Cum => self.cum,
        }
    }
}

/// A profile that associates costs with execution paths.
///
/// The search assumes nothing of the metrics but that they are numbers: in a comparison both may be
/// negative, and the cum smaller than the base (§2.2). Implementers must follow one rule: the total
/// of a list of summaries counts each measurement once, however many of the summaries it belongs
/// to, and the metrics of one summary are the totals of a list of that one.
pub trait Profile {
    /// A set of execution paths with one sequence of steps. Cheap to clone.
    type Summary: Clone;
    /// The measurements of a list of summaries, prepared for [`overlap`](Self::overlap). An
    /// implementation that can prepare nothing uses the list and [`overlap_by_totals`].
    type Cover;

    /// Returns the name of a step.
    fn step_name(&self, step: Step) -> &str;

    /// Returns the steps of the summary's paths, the outermost first; never empty.
    fn path_of<'a>(&self, summary: &'a Self::Summary) -> &'a [Step];

    /// Returns the summaries that every search starts from: one for each path of one step.
    fn initial_summaries(&self) -> Vec<Self::Summary>;

    /// Returns all `m` for which `m` followed by the summary's path occurs in the profile, each
    /// once.
    fn top_extensions(&self, summary: &Self::Summary) -> Vec<Step>;

    /// Returns all `m` for which the summary's path followed by `m` occurs in the profile, each
    /// once.
    fn bottom_extensions(&self, summary: &Self::Summary) -> Vec<Step>;

    /// Returns the summary of `step` followed by the summary's path; `None` if that does not occur.
    fn extend_top(&self, summary: &Self::Summary, step: Step) -> Option<Self::Summary>;

    /// Returns the summary of the summary's path followed by `step`; `None` if that does not occur.
    fn extend_bottom(&self, summary: &Self::Summary, step: Step) -> Option<Self::Summary>;

    /// Returns the summary without its first step; `None` if it has only one.
    fn trim_top(&self, summary: &Self::Summary) -> Option<Self::Summary>;

    /// Returns the summary without its last step; `None` if it has only one.
    fn trim_bottom(&self, summary: &Self::Summary) -> Option<Self::Summary>;

    /// Returns the base of a summary.
    fn base_of(&self, summary: &Self::Summary) -> f64;

    /// Returns the cum of a summary.
    fn cum_of(&self, summary: &Self::Summary) -> f64;

    /// Returns the base of all these summaries together, overlap counted once.
    fn total_base_of(&self, summaries: &[&Self::Summary]) -> f64;

    /// Returns the cum of all these summaries together, overlap counted once.
    fn total_cum_of(&self, summaries: &[&Self::Summary]) -> f64;

    /// Returns the cost that stands for 100 %. Never 0 and never negative.
    fn whole(&self) -> f64;

    /// Returns whether a measurement may be negative. If not, the search relies on a path having no
    /// more cum than its beginning.
    fn may_be_negative(&self) -> bool {
        true
    }

    /// Prepares the summaries' measurements for [`overlap`](Self::overlap).
    fn cover(&self, summaries: &[&Self::Summary]) -> Self::Cover;

    /// Returns the overlap of the summary with the summaries of `cover`, by [`overlap_by_totals`]
    /// or a faster equivalent.
    fn overlap(&self, summary: &Self::Summary, cover: &Self::Cover) -> Metrics;

    /// Returns the [`overlap`](Self::overlap) with each of `covers`.
    fn overlaps(&self, summary: &Self::Summary, covers: &[&Self::Cover]) -> Vec<Metrics> {
        let covers = covers.iter();
        covers.map(|cover| self.overlap(summary, cover)).collect()
    }

    /// Returns the cum of the summary that no summary of `cover` has.
    fn new_cum_of(&self, summary: &Self::Summary, cover: &Self::Cover) -> f64 {
        self.cum_of(summary) - self.overlap(summary, cover).cum
    }

    /// Returns both metrics.
    fn metrics_of(&self, summary: &Self::Summary) -> Metrics {
        Metrics {
            base: self.base_of(summary),
            cum: self.cum_of(summary),
        }
    }

    /// Returns the 95 % confidence interval of the metric, if the profile was measured more than
    /// once.
    fn interval_of(&self, _summary: &Self::Summary, _metric: Metric) -> Option<Interval> {
        None
    }

    /// Returns the summary of this path, if it occurs.
    fn summary_of(&self, path: &[Step]) -> Option<Self::Summary> {
        let (first, rest) = path.split_first()?;
        let mut initial = self.initial_summaries().into_iter();
        let start = initial.find(|s| self.path_of(s) == [*first])?;
        rest.iter()
            .try_fold(start, |s, m| self.extend_bottom(&s, *m))
    }

    /// Returns [`extend_top`](Self::extend_top) by each of
    /// [`top_extensions`](Self::top_extensions).
    fn extended_top(&self, summary: &Self::Summary) -> Vec<Self::Summary> {
        let extend = |step| self.extend_top(summary, step);
        let steps = self.top_extensions(summary).into_iter();
        steps.filter_map(extend).collect()
    }

    /// Returns [`extend_bottom`](Self::extend_bottom) by each of
    /// [`bottom_extensions`](Self::bottom_extensions).
    fn extended_bottom(&self, summary: &Self::Summary) -> Vec<Self::Summary> {
        let extend = |step| self.extend_bottom(summary, step);
        let steps = self.bottom_extensions(summary).into_iter();
        steps.filter_map(extend).collect()
    }

    /// Returns the smallest N > 0 for which |total_cum_of(the first N)| ≥ `goal`, as zooming needs
    /// it (§2.3). The `extensions` all extend one summary at one side, by descending |cum|.
    fn smallest_reaching(&self, extensions: &[Self::Summary], goal: f64) -> Option<usize> {
        let all: Vec<&Self::Summary> = extensions.iter().collect();
        (1..=all.len()).find(|n| self.total_cum_of(&all[..*n]).abs() >= goal)
    }
}

/// Computes the paper's `cum_ovl` (§2.1), and the same for the base: `metric(s) + total(S) -
/// total(s :: S)`.
pub fn overlap_by_totals<P: Profile>(
    profile: &P,
    summary: &P::Summary,
    others: &[&P::Summary],
) -> Metrics {
    let mut all = vec![summary];
    all.extend(others);
    let shared = |own: f64, total: fn(&P, &[&P::Summary]) -> f64| {
        own + total(profile, others) - total(profile, &all)
    };
    Metrics {
        base: shared(profile.base_of(summary), P::total_base_of),
        cum: shared(profile.cum_of(summary), P::total_cum_of),
    }
}
