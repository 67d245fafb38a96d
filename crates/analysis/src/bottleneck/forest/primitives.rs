//! The primitives of the profile interface: computed in each tree, and weighted.

use super::{ABSENT, CallCover, CallSequence, Forest, Left, Member};
use crate::bottleneck::interface::{Metric, Metrics, Profile, Step};
use crate::bottleneck::paths::Paths;
use crate::bottleneck::spans::{Measured, Spans};
use crate::bottleneck::zoom::End;
use crate::statistics::{self, Interval};
use std::cell::OnceCell;
use std::sync::Arc;

impl Profile for Forest {
    type Summary = CallSequence;
    type Cover = CallCover;

    fn step_name(&self, step: Step) -> &str {
        let plain = || self.methods[step.0 as usize].name.as_str();
        self.ambiguous
            .get(&step.0)
            .map_or_else(plain, String::as_str)
    }

    fn path_of<'a>(&self, summary: &'a CallSequence) -> &'a [Step] {
        &summary.path
    }

    fn initial_summaries(&self) -> Vec<CallSequence> {
        self.initial.clone()
    }

    fn top_extensions(&self, summary: &CallSequence) -> Vec<Step> {
        let extended = self.extended_top(summary);
        extended
            .iter()
            .filter_map(|e| e.path.first().copied())
            .collect()
    }

    fn bottom_extensions(&self, summary: &CallSequence) -> Vec<Step> {
        let extended = self.extended_bottom(summary);
        extended
            .iter()
            .filter_map(|e| e.path.last().copied())
            .collect()
    }

    fn extend_top(&self, summary: &CallSequence, step: Step) -> Option<CallSequence> {
        self.extended_by(summary, Some(step), End::Top).pop()
    }

    fn extend_bottom(&self, summary: &CallSequence, step: Step) -> Option<CallSequence> {
        self.extended_by(summary, Some(step), End::Bottom).pop()
    }

    fn trim_top(&self, summary: &CallSequence) -> Option<CallSequence> {
        self.summary_of(summary.path.get(1..)?)
    }

    fn trim_bottom(&self, summary: &CallSequence) -> Option<CallSequence> {
        self.summary_of(&summary.path[..summary.path.len() - 1])
    }

    fn base_of(&self, summary: &CallSequence) -> f64 {
        self.weighted_sum(self.tree_bases(summary))
    }

    fn cum_of(&self, summary: &CallSequence) -> f64 {
        self.weighted_sum(summary.parts.iter().map(|part| part.cum))
    }

    fn total_base_of(&self, summaries: &[&CallSequence]) -> f64 {
        let cover = self.cover(summaries);
        let members = self.members.iter().zip(&cover.along);
        self.weighted_sum(members.map(|(m, nodes)| m.index.view().cost_of(nodes)))
    }

    fn total_cum_of(&self, summaries: &[&CallSequence]) -> f64 {
        let cover = self.cover(summaries);
        let members = self.members.iter().zip(&cover.cover);
        self.weighted_sum(members.map(|(m, nodes)| m.index.view().cost_of(nodes)))
    }

    fn whole(&self) -> f64 {
        self.whole.1
    }

    fn may_be_negative(&self) -> bool {
        self.signed
    }

    fn cover(&self, summaries: &[&CallSequence]) -> CallCover {
        let mut cover = CallCover::default();
        for (at, member) in self.members.iter().enumerate() {
            let (mut along, mut all) = (Spans::default(), Spans::default());
            for summary in summaries {
                let (a, b) = member
                    .index
                    .view()
                    .along_and_below(&summary.parts[at], summary.path.len());
                // The first cover is as a rule the only one, and is not copied.
                along = if along.runs().is_empty() {
                    a
                } else {
                    along.joined(&a)
                };
                all = if all.runs().is_empty() {
                    b
                } else {
                    all.joined(&b)
                };
            }
            cover.along.push(along);
            cover.cover.push(all);
        }
        cover
    }

    fn overlap(&self, summary: &CallSequence, cover: &CallCover) -> Metrics {
        self.shared(&self.cover(&[summary]), cover)
    }

    fn overlaps(&self, summary: &CallSequence, covers: &[&CallCover]) -> Vec<Metrics> {
        if covers.is_empty() {
            return Vec::new();
        }
        let own = self.cover(&[summary]);
        covers
            .iter()
            .map(|cover| self.shared(&own, cover))
            .collect()
    }

    fn new_cum_of(&self, summary: &CallSequence, cover: &CallCover) -> f64 {
        let left = cover.left.get_or_init(|| {
            let pairs = self.members.iter().zip(&cover.cover);
            pairs
                .map(|(member, nodes)| Left::new(member, nodes))
                .collect()
        });
        let parts = self.members.iter().zip(summary.parts.iter().zip(left));
        let new = parts.map(|(member, (part, left))| match *summary.path {
            [Step(single)] => {
                let local = member.local[single as usize];
                left.methods.get(local as usize).map_or(0, |(_, cum)| *cum)
            }
            _ => {
                let view = member.index.view_with(&left.prefix);
                view.cum(part, summary.path.len())
            }
        });
        self.weighted_sum(new)
    }

    fn interval_of(&self, summary: &CallSequence, metric: Metric) -> Option<Interval> {
        if self.members.len() < 2 {
            return None;
        }
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (member, part) in self.members.iter().zip(summary.parts.iter()) {
            let value = match metric {
                Metric::Base => part.base(member.index.view(), summary.path.len()),
                Metric::Cum => part.cum,
            };
            let side = if member.first_side { &mut a } else { &mut b };
            side.push(member.factor * value as f64);
        }
        statistics::interval_of_runs(&a, &b)
    }

    fn summary_of(&self, path: &[Step]) -> Option<CallSequence> {
        if let [step] = path {
            let by = |s: &CallSequence| s.path[0].cmp(step);
            let at = self.initial.binary_search_by(by).ok()?;
            return self.initial.get(at).cloned();
        }
        let part = |member: &Member| {
            let local = path.iter().map(|step| member.local[step.0 as usize]);
            let local: Vec<u32> = local.collect();
            if local.contains(&ABSENT) {
                Paths::default()
            } else {
                member.index.locate_path(&local)
            }
        };
        let parts: Arc<[Paths]> = self.members.iter().map(part).collect();
        parts
            .iter()
            .any(|part| !part.is_empty())
            .then(|| CallSequence {
                path: path.into(),
                parts,
            })
    }

    fn extended_top(&self, summary: &CallSequence) -> Vec<CallSequence> {
        self.extended_by(summary, None, End::Top)
    }

    fn extended_bottom(&self, summary: &CallSequence) -> Vec<CallSequence> {
        self.extended_by(summary, None, End::Bottom)
    }

    fn smallest_reaching(&self, extensions: &[CallSequence], goal: f64) -> Option<usize> {
        if self.cum_of(extensions.first()?).abs() >= goal {
            return Some(1);
        }
        // Without negative costs, a total is no more than the sum. So the first extensions whose
        // sum misses the goal cannot reach it, and a few more often do.
        let mut enough = extensions.len();
        if !self.signed {
            let mut sum = 0.0;
            let reached = |e: &CallSequence| {
                sum += self.cum_of(e);
                sum >= goal
            };
            enough = 2 * (1 + extensions.iter().position(reached)?);
        }
        loop {
            enough = enough.min(extensions.len());
            let totals = self.total_of_each(&extensions[..enough]);
            let found = totals.iter().position(|total| total.abs() >= goal);
            if found.is_some() || enough == extensions.len() {
                return found.map(|at| at + 1);
            }
            enough = extensions.len();
        }
    }
}

impl Forest {
    /// Returns the total of the first extension, of the first two, and so on.
    fn total_of_each(&self, extensions: &[CallSequence]) -> Vec<f64> {
        let mut totals = vec![0.0; extensions.len()];
        let length = extensions.first().map_or(0, |e| e.path.len());
        for (at, member) in self.members.iter().enumerate() {
            let parts: Vec<&Paths> = extensions.iter().map(|e| &e.parts[at]).collect();
            let view = member.index.view();
            let costs = view.ranked_costs(&parts, length);
            for (total, cost) in totals.iter_mut().zip(costs) {
                *total += member.weight * cost as f64;
            }
        }
        let mut sum = 0.0;
        for total in &mut totals {
            sum += *total;
            *total = sum;
        }
        totals
    }
}

impl Left {
    fn new(member: &Member, nodes: &Spans) -> Self {
        let prefix = member.index.view().costs_left(nodes);
        let methods = member.index.view_with(&prefix).metrics_of_methods();
        Self { prefix, methods }
    }
}

impl CallCover {
    /// Returns the cover of both lists together.
    pub fn joined(&self, other: &Self) -> Self {
        let join = |a: &[Spans], b: &[Spans]| a.iter().zip(b).map(|(a, b)| a.joined(b)).collect();
        Self {
            along: join(&self.along, &other.along),
            cover: join(&self.cover, &other.cover),
            measured: OnceCell::new(),
            left: OnceCell::new(),
        }
    }
}

impl Forest {
    /// Returns the totals of the summaries of a cover.
    pub fn cost_of(&self, cover: &CallCover) -> Metrics {
        self.shared(cover, cover)
    }

    /// Returns the cost that two covers share.
    pub fn shared(&self, one: &CallCover, other: &CallCover) -> Metrics {
        let (one, other) = (self.measured_sets(one), self.measured_sets(other));
        let shared = |which: usize| {
            let pairs = one.iter().zip(other);
            self.weighted_sum(pairs.map(|(a, b)| a[which].shared_cost(&b[which])))
        };
        Metrics {
            base: shared(0),
            cum: shared(1),
        }
    }

    fn measured_sets<'c>(&self, cover: &'c CallCover) -> &'c [[Measured; 2]] {
        cover.measured.get_or_init(|| {
            let pairs = cover.along.iter().zip(&cover.cover);
            let measure = |(member, (along, cover)): (&Member, (&Spans, &Spans))| {
                [along, cover].map(|nodes| member.index.view().measured(nodes))
            };
            self.members.iter().zip(pairs).map(measure).collect()
        })
    }
}
