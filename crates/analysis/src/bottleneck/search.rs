//! The analyst's side (§2.3): suggesters, numbered summaries, navigation, labels.
//!
//! A [`Search`] keeps the state of an analysis. It works on any [`Profile`] and prints nothing.

use super::interface::{Metric, Metrics, Profile, Step};
use super::suggesters::{HIGH_CUM, MethodRanking};
use super::zoom::{self, End};
use crate::statistics::{self, Interval};
use std::collections::{BTreeMap, VecDeque};

/// The relation of a listed summary to the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A suggested or found summary.
    Start,
    /// An extension at the top, or several, by zooming.
    Above,
    /// An extension at the bottom.
    Below,
    /// A trimming at the top.
    TrimTop,
    /// A trimming at the bottom.
    TrimBottom,
    /// A summary with this label.
    Label(String),
}

/// A numbered summary.
#[derive(Clone, Debug)]
pub struct Row<S> {
    /// The summary. Its number is the row's position.
    pub summary: S,
    /// Its relation to the current summary.
    pub relation: Relation,
    /// Its metrics.
    pub metrics: Metrics,
    /// Part of its cum that no labelled summary has; `None` without labels.
    pub new: Option<f64>,
    /// Confidence interval of the metric that rows are ranked by, if the profile knows it.
    pub interval: Option<Interval>,
}

/// A list of numbered summaries.
#[derive(Clone, Debug)]
pub struct Listing<S> {
    /// The rows.
    pub rows: Vec<Row<S>>,
    /// Number of summaries beyond the limit, by relation.
    pub more: Vec<(Relation, usize)>,
    /// Number of summaries with a metric that may be chance (see [`Search::suggest`]).
    pub noise: usize,
}

/// Details of the current summary.
#[derive(Clone, Debug)]
pub struct Details<S> {
    /// The summary.
    pub summary: S,
    /// Its labels.
    pub labels: Vec<String>,
    /// Its metrics.
    pub metrics: Metrics,
    /// Confidence intervals of its metrics.
    pub intervals: (Option<Interval>, Option<Interval>),
    /// For each label, the part shared with the summaries of that label.
    pub overlaps: Vec<(String, Metrics)>,
    /// The part shared with all labelled summaries; `None` without labels.
    pub labelled: Option<Metrics>,
    /// Nearby summaries.
    pub nearby: Listing<S>,
}

/// Reason that a command cannot be followed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SearchError {
    /// No such number was listed.
    #[error("there is no summary number {0}: {1}")]
    NoSuchNumber(usize, String),
    /// No summary is selected.
    #[error("no summary is selected: suggest, then select one by its number")]
    NoCurrent,
    /// `back` at the first summary.
    #[error("there is nothing before this summary")]
    NoHistory,
    /// The cutoff must be a positive number.
    #[error("the cutoff must be a positive number, such as 0.95")]
    BadCutoff,
    /// No summary has the label.
    #[error("no summary is labelled {0:?}")]
    NoSuchLabel(String),
}

/// A search in progress.
#[derive(Debug)]
pub struct Search<'p, P: Profile> {
    profile: &'p P,
    /// The ranking of suggested starting points.
    pub ranking: MethodRanking,
    /// True if nearby summaries are found by zooming.
    pub zooming: bool,
    /// Maximum number of rows of one kind.
    pub limit: usize,
    cutoff: f64,
    history: Vec<P::Summary>,
    listed: Vec<P::Summary>,
    labels: BTreeMap<String, Label<P>>,
    labelled: Option<P::Cover>,
}

#[derive(Debug)]
struct Label<P: Profile> {
    summaries: Vec<P::Summary>,
    cover: P::Cover,
}

/// The share of differences claimed with intervals that may be chance.
const FALSE_DISCOVERIES: f64 = 0.05;
/// Maximum number of summaries, by largest metric, considered with intervals or negative costs.
const CANDIDATES: usize = 1000;

impl<'p, P: Profile> Search<'p, P> {
    /// Starts a search: HighCum, zooming with the cutoff 0.95.
    pub fn new(profile: &'p P) -> Self {
        Self {
            profile,
            ranking: HIGH_CUM,
            zooming: true,
            limit: 20,
            cutoff: 0.95,
            history: Vec::new(),
            listed: Vec::new(),
            labels: BTreeMap::new(),
            labelled: None,
        }
    }

    /// Returns the profile.
    pub fn profile(&self) -> &'p P {
        self.profile
    }

    /// Returns the cutoff ratio c of zooming.
    pub fn cutoff(&self) -> f64 {
        self.cutoff
    }

    /// Sets the cutoff ratio.
    ///
    /// # Errors
    /// If it is not a positive number.
    pub fn set_cutoff(&mut self, cutoff: f64) -> Result<(), SearchError> {
        if !(cutoff > 0.0 && cutoff.is_finite()) {
            return Err(SearchError::BadCutoff);
        }
        self.cutoff = cutoff;
        Ok(())
    }

    /// Returns the current summary.
    pub fn current(&self) -> Option<&P::Summary> {
        self.history.last()
    }

    /// Returns the suggester's starting summaries. If metrics have intervals, summaries are ranked
    /// by the end of the interval nearer to 0. Summaries that may be chance are left out, by
    /// Benjamini and Hochberg's procedure: at most 5 % of the rest are expected to be chance.
    pub fn suggest(&mut self) -> Listing<P::Summary> {
        let MethodRanking {
            metric,
            only_new,
            folds_prefixes,
        } = self.ranking;
        let profile = self.profile;
        let value = |s: &P::Summary| match metric {
            Metric::Cum => profile.cum_of(s),
            Metric::Base => profile.base_of(s),
        };
        let all = profile.initial_summaries().into_iter();
        let mut ranked: Vec<(f64, P::Summary)> = all.map(|s| (value(&s), s)).collect();
        // In a comparison, the largest increase comes first: a decrease is no bottleneck.
        let order = |a: &(f64, P::Summary), b: &(f64, P::Summary)| {
            let name = |s: &P::Summary| profile.path_of(s).first().copied();
            let names = |s| name(s).map(|step| profile.step_name(step));
            b.0.total_cmp(&a.0)
                .then_with(|| names(&a.1).cmp(&names(&b.1)))
        };
        ranked.sort_by(order);
        let noise = self.keep_believable(&mut ranked, metric);
        let ranked = if only_new && self.labelled.is_some() {
            self.by_what_is_new(ranked, metric)
        } else {
            ranked.into_iter().map(|(_, s)| s).collect()
        };
        let ranked = if folds_prefixes {
            self.without_prefixes(ranked)
        } else {
            ranked
        };
        let mut listing = self.list(ranked.into_iter().map(|s| (Relation::Start, s)), metric);
        listing.noise = noise;
        listing
    }

    /// Joins each method that only calls one other method, which nobody else calls, with that
    /// method. Otherwise a list by cum would begin with the whole path from `main`.
    fn without_prefixes(&self, ranked: Vec<P::Summary>) -> Vec<P::Summary> {
        let mut rest = VecDeque::from(ranked);
        let mut kept: Vec<P::Summary> = Vec::new();
        while kept.len() <= self.limit {
            let Some(mut summary) = rest.pop_front() else {
                break;
            };
            while let Some(callee) = self.only_callee(&summary) {
                let same = |other: &P::Summary| *self.profile.path_of(other) == [callee];
                let Some(at) = rest.iter().position(same) else {
                    break;
                };
                let Some(longer) = self.profile.extend_bottom(&summary, callee) else {
                    break;
                };
                rest.remove(at);
                summary = longer;
            }
            kept.push(summary);
        }
        kept.extend(rest);
        kept
    }

    /// Returns the single callee that has all of the summary's cum and no other cost.
    fn only_callee(&self, summary: &P::Summary) -> Option<Step> {
        let profile = self.profile;
        let path = profile.path_of(summary);
        let [callee] = profile.bottom_extensions(summary)[..] else {
            return None;
        };
        let cum = profile.cum_of(summary);
        let has_all =
            |path: &[Step]| profile.summary_of(path).map(|s| profile.cum_of(&s)) == Some(cum);
        let is_new = !path.contains(&callee);
        (is_new && profile.base_of(summary) == 0.0 && has_all(&[callee])).then_some(callee)
    }

    fn keep_believable(&self, ranked: &mut Vec<(f64, P::Summary)>, metric: Metric) -> usize {
        let first = ranked.first();
        if first.is_none_or(|(_, s)| self.profile.interval_of(s, metric).is_none()) {
            return 0;
        }
        let least = 1e-4 * self.profile.whole();
        ranked.retain(|(value, _)| *value > least);
        ranked.truncate(CANDIDATES);
        let intervals: Vec<Option<Interval>> = ranked
            .iter()
            .map(|(_, s)| self.profile.interval_of(s, metric))
            .collect();
        let p = |interval: &Option<Interval>| Some(interval.map_or(1.0, |i| i.p));
        let q = statistics::benjamini_hochberg(&intervals.iter().map(p).collect::<Vec<_>>());
        let believed: Vec<bool> = q
            .iter()
            .map(|q| q.is_some_and(|q| q <= FALSE_DISCOVERIES))
            .collect();
        let before = ranked.len();
        let mut at = 0;
        ranked.retain_mut(|(value, _)| {
            *value = intervals[at].map_or(0.0, |i| i.conservative());
            at += 1;
            believed[at - 1] && *value > 0.0
        });
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        before - ranked.len()
    }

    /// Ranks summaries by the part of the metric that labelled summaries do not have. Except in
    /// comparisons, that part is no more than the metric, so the ranking can stop early.
    fn by_what_is_new(&self, ranked: Vec<(f64, P::Summary)>, metric: Metric) -> Vec<P::Summary> {
        let mut found: Vec<(f64, P::Summary)> = Vec::new();
        for (value, summary) in ranked.into_iter().take(CANDIDATES) {
            if found.len() > self.limit && value < found[self.limit].0 {
                break;
            }
            let new = match (metric, self.labelled.as_ref()) {
                (_, None) => value,
                (Metric::Cum, Some(labelled)) => self.profile.new_cum_of(&summary, labelled),
                (Metric::Base, Some(labelled)) => {
                    value - self.profile.overlap(&summary, labelled).base
                }
            };
            let at = found.partition_point(|(other, _)| *other >= new);
            found.insert(at, (new, summary));
        }
        let least = 1e-9 * self.profile.whole();
        let some = found.into_iter().filter(|(new, _)| *new > least);
        some.map(|(_, summary)| summary).collect()
    }

    /// Lists these summaries under new numbers; of each relation, as many as the limit allows.
    pub fn list(
        &mut self,
        summaries: impl IntoIterator<Item = (Relation, P::Summary)>,
        metric: Metric,
    ) -> Listing<P::Summary> {
        let mut listing = Listing {
            rows: Vec::new(),
            more: Vec::new(),
            noise: 0,
        };
        let mut counts: Vec<(Relation, usize)> = Vec::new();
        for (relation, summary) in summaries {
            if counts.last().is_none_or(|(last, _)| *last != relation) {
                counts.push((relation.clone(), 0));
            }
            if let Some((_, count)) = counts.last_mut() {
                *count += 1;
                if *count <= self.limit {
                    listing.rows.push(self.row(relation, summary, metric));
                }
            }
        }
        let beyond = |(relation, count): (Relation, usize)| {
            (count > self.limit).then(|| (relation, count - self.limit))
        };
        listing.more = counts.into_iter().filter_map(beyond).collect();
        self.listed = listing.rows.iter().map(|row| row.summary.clone()).collect();
        listing
    }

    /// Returns the part of a summary's cum that no labelled summary has; `None` without labels.
    pub fn new_cum(&self, summary: &P::Summary) -> Option<f64> {
        let labelled = self.labelled.as_ref()?;
        Some(self.profile.new_cum_of(summary, labelled))
    }

    fn row(&self, relation: Relation, summary: P::Summary, metric: Metric) -> Row<P::Summary> {
        let metrics = self.profile.metrics_of(&summary);
        let new = self.new_cum(&summary);
        Row {
            interval: self.profile.interval_of(&summary, metric),
            summary,
            relation,
            metrics,
            new,
        }
    }

    /// Makes the summary of this number in the last list the current one.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn select(&mut self, number: usize) -> Result<Details<P::Summary>, SearchError> {
        let Some(summary) = self.listed.get(number).cloned() else {
            let what = match self.listed.len() {
                0 => "nothing has been listed; try suggest".to_owned(),
                count => format!("the last list goes from 0 to {}", count - 1),
            };
            return Err(SearchError::NoSuchNumber(number, what));
        };
        Ok(self.go_to(summary))
    }

    /// Makes a summary the current one.
    pub fn go_to(&mut self, summary: P::Summary) -> Details<P::Summary> {
        self.history.push(summary.clone());
        self.make_current(summary)
    }

    /// Goes back to the previous summary.
    ///
    /// # Errors
    /// If there is none.
    pub fn back(&mut self) -> Result<Details<P::Summary>, SearchError> {
        if self.history.len() < 2 {
            return Err(SearchError::NoHistory);
        }
        self.history.pop();
        self.details()
    }

    /// Returns details of the current summary and its nearby summaries, under new numbers.
    ///
    /// # Errors
    /// If there is none.
    pub fn details(&mut self) -> Result<Details<P::Summary>, SearchError> {
        let summary = self.current().cloned().ok_or(SearchError::NoCurrent)?;
        Ok(self.make_current(summary))
    }

    fn make_current(&mut self, summary: P::Summary) -> Details<P::Summary> {
        let profile = self.profile;
        let mut near = Vec::new();
        for (end, extended, trimmed) in [
            (End::Top, Relation::Above, Relation::TrimTop),
            (End::Bottom, Relation::Below, Relation::TrimBottom),
        ] {
            let (extensions, trimming) = if self.zooming {
                let zoomed = zoom::zoom(profile, &summary, end, self.cutoff);
                let all = zoomed.through.into_iter().chain(zoomed.extensions);
                let trimming = zoom::zoom_trim(profile, &summary, end, self.cutoff);
                (all.collect::<Vec<_>>(), trimming)
            } else {
                let trimming = zoom::trim(profile, &summary, end);
                (zoom::extensions(profile, &summary, end), trimming)
            };
            near.extend(extensions.into_iter().map(|s| (extended.clone(), s)));
            near.extend(trimming.map(|s| (trimmed, s)));
        }
        let nearby = self.list(near, Metric::Cum);
        let covers = self.labels.values().map(|label| &label.cover);
        let covers: Vec<&P::Cover> = covers.chain(&self.labelled).collect();
        let mut shared = profile.overlaps(&summary, &covers);
        let labelled = self.labelled.as_ref().and_then(|_| shared.pop());
        let overlaps = self.labels.keys().cloned().zip(shared).collect();
        Details {
            labels: self.labels_of(&summary),
            metrics: profile.metrics_of(&summary),
            intervals: (
                profile.interval_of(&summary, Metric::Base),
                profile.interval_of(&summary, Metric::Cum),
            ),
            overlaps,
            labelled,
            nearby,
            summary,
        }
    }

    fn labels_of(&self, summary: &P::Summary) -> Vec<String> {
        let path = self.profile.path_of(summary);
        let has = |label: &Label<P>| {
            let mut paths = label.summaries.iter().map(|s| self.profile.path_of(s));
            paths.any(|p| p == path)
        };
        let labels = self.labels.iter().filter(|(_, label)| has(label));
        labels.map(|(name, _)| name.clone()).collect()
    }

    /// Gives the current summary a label. A label may have several summaries.
    ///
    /// # Errors
    /// If there is no current summary.
    pub fn label(&mut self, name: &str) -> Result<(), SearchError> {
        let summary = self.current().cloned().ok_or(SearchError::NoCurrent)?;
        let mut summaries = self
            .labels
            .remove(name)
            .map_or_else(Vec::new, |l| l.summaries);
        let path = self.profile.path_of(&summary);
        if !summaries.iter().any(|s| self.profile.path_of(s) == path) {
            summaries.push(summary);
        }
        let cover = self.profile.cover(&summaries.iter().collect::<Vec<_>>());
        self.labels
            .insert(name.to_owned(), Label { summaries, cover });
        self.update_labelled();
        Ok(())
    }

    /// Takes a label away.
    ///
    /// # Errors
    /// If there is no such label.
    pub fn unlabel(&mut self, name: &str) -> Result<(), SearchError> {
        let removed = self.labels.remove(name);
        self.update_labelled();
        removed
            .map(|_| ())
            .ok_or_else(|| SearchError::NoSuchLabel(name.to_owned()))
    }

    fn update_labelled(&mut self) {
        let all: Vec<&P::Summary> = self.labels.values().flat_map(|l| &l.summaries).collect();
        self.labelled = (!all.is_empty()).then(|| self.profile.cover(&all));
    }

    /// Returns the labelled summaries, in the order of their labels.
    pub fn labelled_summaries(&self) -> Vec<(&str, &P::Summary)> {
        let mut all = Vec::new();
        for (name, label) in &self.labels {
            all.extend(label.summaries.iter().map(|s| (name.as_str(), s)));
        }
        all
    }

    /// Returns the labelled summaries under new numbers, and their totals, overlap counted once.
    pub fn list_labels(&mut self) -> (Listing<P::Summary>, Metrics) {
        let labelled = self.labelled_summaries();
        let all: Vec<&P::Summary> = labelled.iter().map(|(_, s)| *s).collect();
        let totals = Metrics {
            base: self.profile.total_base_of(&all),
            cum: self.profile.total_cum_of(&all),
        };
        let named =
            |(name, s): &(&str, &P::Summary)| (Relation::Label((*name).into()), (*s).clone());
        let rows: Vec<(Relation, P::Summary)> = labelled.iter().map(named).collect();
        (self.list(rows, Metric::Cum), totals)
    }

    /// Lists starting summaries whose only step `matches`, under new numbers, by descending |cum|.
    pub fn find(&mut self, matches: impl Fn(Step) -> bool) -> Listing<P::Summary> {
        let profile = self.profile;
        let mut found = profile.initial_summaries();
        found.retain(|s| profile.path_of(s).iter().all(|step| matches(*step)));
        found.sort_by(|a, b| profile.cum_of(b).abs().total_cmp(&profile.cum_of(a).abs()));
        self.list(found.into_iter().map(|s| (Relation::Start, s)), Metric::Cum)
    }
}
