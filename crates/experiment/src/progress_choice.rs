//! Chooses a progress point for a program that has none: a function with steady calls. For a
//! process that ran before, whose end measures nothing, it can be a system call, too.

use crate::code::TargetCode;
use crate::options::{PointKind, PointSpec};
use crate::points::Points;
use profile::ANSWERING_CALLS;
use runtime_abi::Page;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time for which a program is sampled before functions are counted. A progress point in its source
/// ends the search.
const WATCHED: Duration = Duration::from_secs(1);
/// Time for which calls are counted, and length of its intervals.
const COUNTED: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(50);
/// Number of functions counted at a time.
const CANDIDATES: usize = 4;
/// Least and greatest number of calls per second of a progress point: ten in a usual experiment,
/// and few enough that counting costs little.
const RARE: f64 = 20.0;
const FREQUENT: f64 = 5000.0;
/// Calls per second at which counting stops at once, because each call stops the program for some
/// microseconds.
const EXPENSIVE: f64 = 20_000.0;

/// The measure of progress of a program without a given progress point.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressChoice {
    /// The points in its source.
    Source(Vec<String>),
    /// The calls of a function.
    Function {
        /// The progress point: `function:` and its name, or `syscall:`.
        name: String,
        /// Calls per second.
        calls_per_second: f64,
    },
    /// The end of each run: no function is called steadily, or the program ends too early to tell.
    EndToEnd,
}

/// Searches for a progress point while the program runs undelayed.
pub(crate) struct ProgressSearch {
    counting: Option<Counting>,
    /// Functions that were rejected.
    refused: Vec<String>,
    /// True if system calls may be counted and were not tried yet.
    system_calls: bool,
}

/// Counted calls of the candidates, which are the last points of the list.
struct Counting {
    /// Time of the first look. Opening the points of a large program takes a while before it.
    since: Option<Duration>,
    next: Duration,
    names: Vec<String>,
    /// Calls by interval and candidate.
    calls: Vec<Vec<u64>>,
    /// True if counting does not stop the program at each call.
    cheap: bool,
}

impl ProgressSearch {
    /// Begins the search; `attached`: the program ran before.
    pub fn new(attached: bool) -> Self {
        Self {
            counting: None,
            refused: Vec::new(),
            system_calls: attached,
        }
    }

    /// Advances the search. Returns the choice once it is made.
    pub fn advance_search(
        &mut self,
        page: &Page,
        code: &mut TargetCode,
        points: &mut Points,
        now: Duration,
    ) -> Option<ProgressChoice> {
        let counts = points.read_counts(page, code);
        let visited = points.list.iter().zip(&counts);
        let visited = visited.filter(|(point, count)| point.in_source() && count.visit_count() > 0);
        let source: Vec<String> = visited.map(|(point, _)| point.name.clone()).collect();
        if !source.is_empty() {
            points.keep_functions(|_| false);
            return Some(ProgressChoice::Source(source));
        }
        let Some(counting) = &mut self.counting else {
            return if now < WATCHED {
                None
            } else {
                self.count_next(page, code, points, now)
            };
        };
        if now < counting.next {
            return None;
        }
        counting.next = now + INTERVAL;
        let calls = points.list.iter().zip(&counts);
        let calls = counting.names.iter().map(|name| {
            let named = calls.clone().find(|(point, _)| point.name == *name);
            named.map_or(0, |(_, count)| count.visit_count())
        });
        counting.calls.push(calls.collect());
        let passed = now.saturating_sub(*counting.since.get_or_insert(now));
        let expensive = counting.too_frequent(passed);
        points.keep_functions(|name| !expensive.iter().any(|it| it == name));
        if passed < COUNTED {
            return None;
        }
        if let Some((name, calls_per_second)) = counting.steadiest_candidate(passed, &expensive) {
            points.keep_functions(|other| other == name);
            return Some(ProgressChoice::Function {
                name,
                calls_per_second,
            });
        }
        points.keep_functions(|_| false);
        self.count_next(page, code, points, now)
    }

    /// Starts counting the next functions by samples; if there are none, chooses the end of a run.
    fn count_next(
        &mut self,
        page: &Page,
        code: &mut TargetCode,
        points: &mut Points,
        now: Duration,
    ) -> Option<ProgressChoice> {
        let mut samples: BTreeMap<String, u64> = BTreeMap::new();
        for (fragment, count) in code.fragments().all().iter().zip(&page.fragments) {
            let name = fragment.function_name();
            if !name.is_empty() && !self.refused.iter().any(|other| other == name) {
                *samples.entry(name.to_owned()).or_default() += count.load(Relaxed);
            }
        }
        let mut names: Vec<(String, u64)> = samples.into_iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (mut opened, mut cheap) = (Vec::new(), false);
        for (name, _) in names.into_iter().filter(|(_, count)| *count > 0) {
            if opened.len() == CANDIDATES {
                break;
            }
            let spec = PointSpec {
                name: format!("function:{name}"),
                what: PointKind::Function(name.clone()),
            };
            // A function that was inlined everywhere has no calls.
            if points.add_point(&spec, code).is_ok() {
                opened.push(spec.name);
            }
            self.refused.push(name);
        }
        if opened.is_empty() && std::mem::take(&mut self.system_calls) {
            cheap = true;
            opened = open_system_calls(code, points);
        }
        if opened.is_empty() {
            return Some(ProgressChoice::EndToEnd);
        }
        self.counting = Some(Counting {
            since: None,
            next: now + INTERVAL,
            names: opened,
            calls: Vec::new(),
            cheap,
        });
        None
    }
}

/// Starts counting the system calls by which programs deliver results. Returns the points' names.
fn open_system_calls(code: &mut TargetCode, points: &mut Points) -> Vec<String> {
    let specs = ANSWERING_CALLS.iter().map(|name| PointSpec {
        name: format!("syscall:{name}"),
        what: PointKind::Syscall((*name).to_owned()),
    });
    let opened = specs.filter(|spec| points.add_point(spec, code).is_ok());
    opened.map(|spec| spec.name).collect()
}

impl Counting {
    /// Returns the counts of a candidate at each look, and the calls since the first one.
    fn calls_of(&self, candidate: usize) -> (Vec<u64>, u64) {
        let counts = self.calls.iter().filter_map(|it| it.get(candidate));
        let counts: Vec<u64> = counts.copied().collect();
        let ends = counts.first().zip(counts.last());
        let all = ends.map_or(0, |(first, last)| last.saturating_sub(*first));
        (counts, all)
    }

    /// Returns the candidates whose calls are so frequent that counting slows the program down.
    fn too_frequent(&self, passed: Duration) -> Vec<String> {
        if self.cheap {
            return Vec::new();
        }
        let most = EXPENSIVE * passed.as_secs_f64().max(INTERVAL.as_secs_f64());
        let numbered = self.names.iter().enumerate();
        numbered
            .filter(|(at, _)| self.calls_of(*at).1 as f64 > most)
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// Returns the candidate with the steadiest calls, among those called neither too rarely nor
    /// too often.
    fn steadiest_candidate(&self, passed: Duration, expensive: &[String]) -> Option<(String, f64)> {
        let seconds = passed.as_secs_f64().max(1e-3);
        let most = if self.cheap { f64::INFINITY } else { FREQUENT };
        let fits = self.names.iter().enumerate().filter_map(|(at, name)| {
            let (calls, all) = self.calls_of(at);
            let rate = all as f64 / seconds;
            let fits = (RARE..=most).contains(&rate) && !expensive.contains(name);
            fits.then(|| (name.clone(), rate, coefficient_of_variation(&calls)))
        });
        fits.min_by(|a, b| a.2.total_cmp(&b.2))
            .map(|(name, rate, _)| (name, rate))
    }
}

/// Returns the coefficient of variation of the increments of a count.
fn coefficient_of_variation(counts: &[u64]) -> f64 {
    let steps: Vec<f64> = counts
        .windows(2)
        .filter_map(|two| Some(two.last()?.saturating_sub(*two.first()?) as f64))
        .collect();
    let n = steps.len().max(1) as f64;
    let mean = steps.iter().sum::<f64>() / n;
    let square = steps.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    if mean > 0.0 {
        square.sqrt() / mean
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(calls: &[[u64; 3]]) -> Counting {
        Counting {
            since: None,
            next: Duration::ZERO,
            names: ["a", "b", "c"].map(str::to_owned).to_vec(),
            calls: calls.iter().map(|it| it.to_vec()).collect(),
            cheap: false,
        }
    }

    #[test]
    fn the_steadiest_function_in_range_is_chosen() {
        let second = Duration::from_secs(1);
        // a comes in bursts, b steadily, c all the time.
        let it = counting(&[
            [0, 20, 9_000],
            [90, 40, 18_000],
            [90, 60, 27_000],
            [100, 80, 36_000],
        ]);
        let expensive = it.too_frequent(second);
        assert_eq!(expensive, ["c"]);
        assert_eq!(
            it.steadiest_candidate(second, &expensive),
            Some(("b".into(), 60.0))
        );
        let rare = counting(&[[0, 1, 0], [1, 2, 0]]);
        assert_eq!(rare.steadiest_candidate(second, &[]), None);
        // Events that are free to count may come at any rate.
        let cheap = Counting { cheap: true, ..it };
        assert_eq!(cheap.too_frequent(second), [""; 0]);
        let chosen = cheap.steadiest_candidate(second, &[]);
        assert!(chosen.is_some_and(|(name, rate)| name == "b" && rate == 60.0 || name == "c"));
    }
}
