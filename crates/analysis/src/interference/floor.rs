//! The floor `d_min`: the executions that are compared, the duration of the fastest of them, and its certainty.

use super::kinds::Kind;
use super::sketch::{Histogram, Smallest, WINDOWS, Window};
use profile::{CauseKind, Floor, Level, Quality};
use rustc_hash::FxHashMap;

/// Number of executions from which on a window or a thread has a floor of its own.
pub(super) const ENOUGH_FOR_A_PART: u64 = 50;

/// Executions that are compared with each other.
#[derive(Debug)]
pub(super) struct Group {
    pub level: Level,
    /// Positions among the kinds of the block.
    pub members: Vec<usize>,
    /// The smallest durations without waiting for others.
    pub smallest: Smallest,
    /// Histogram of the whole durations.
    pub histogram: Histogram,
    /// Histogram of the durations without waiting for others.
    pub unhindered: Histogram,
    pub windows: [Window; WINDOWS],
    pub recorded: u64,
    /// Threads take turns in all of its kinds.
    pub turn: Option<CauseKind>,
    /// True if it does nothing but let others run: its floor is 0.
    yields: bool,
}

/// Puts the kinds of a block together, as finely as each group still has `enough` executions: exact kinds,
/// then those that differ in how often loops ran, then those with arguments of the same magnitude, then
/// all that are left.
pub(super) fn groups(kinds: &[&Kind], enough: u64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut rest: Vec<usize> = (0..kinds.len()).collect();
    type Key = fn(&Kind, usize) -> (u64, u64);
    let levels: [(Level, Key); 4] = [
        (Level::Exact, |_, at| (at as u64, 0)),
        (Level::Collapsed, |kind, _| {
            (kind.collapsed, kind.argument_hash)
        }),
        (Level::Arguments, |kind, _| (kind.bucket, 0)),
        (Level::Block, |_, _| (0, 0)),
    ];
    for (level, key) in levels {
        let mut together: FxHashMap<(u64, u64), Vec<usize>> = FxHashMap::default();
        let (mut fine, coarse): (Vec<usize>, Vec<usize>) = rest
            .iter()
            .partition(|at| kinds.get(**at).is_some_and(|kind| kind.level <= level));
        for at in fine.drain(..) {
            if let Some(kind) = kinds.get(at) {
                together.entry(key(kind, at)).or_default().push(at);
            }
        }
        rest = coarse;
        let mut together: Vec<Vec<usize>> = together.into_values().collect();
        together.sort_unstable();
        for members in together {
            let recorded = |at: &usize| kinds.get(*at).map_or(0, |kind| kind.recorded);
            let n: u64 = members.iter().map(recorded).sum();
            if n >= enough || level == Level::Block {
                groups.push(Group::of(kinds, members));
            } else {
                rest.extend(members);
            }
        }
    }
    groups.retain(|group| group.recorded > 0);
    groups.sort_by_key(|group| std::cmp::Reverse(group.total().sum));
    groups
}

impl Group {
    /// One kind by itself.
    pub fn one(kind: &Kind) -> Self {
        Self::of(&[kind], vec![0])
    }

    fn of(kinds: &[&Kind], members: Vec<usize>) -> Self {
        let mut group = Self {
            level: Level::Exact,
            members: Vec::new(),
            smallest: Smallest::default(),
            histogram: Histogram::default(),
            unhindered: Histogram::default(),
            windows: [Window::default(); WINDOWS],
            recorded: 0,
            turn: None,
            yields: false,
        };
        let all = members.iter().filter_map(|at| kinds.get(*at));
        let all: Vec<&Kind> = all.copied().filter(|kind| kind.recorded > 0).collect();
        for kind in &all {
            group.smallest.merge(&kind.smallest);
            group.histogram.merge(&kind.histogram);
            group.histogram.merge(&kind.waited);
            group.unhindered.merge(&kind.histogram);
            group.unhindered.merge(&kind.unhindered);
            for (to, from) in group.windows.iter_mut().zip(kind.windows.iter()) {
                to.merge(from);
            }
            group.recorded += kind.recorded;
        }
        let turns = !all.is_empty() && all.iter().all(|kind| kind.turn.is_some());
        group.turn = all.first().filter(|_| turns).and_then(|kind| kind.turn);
        group.yields = !all.is_empty() && all.iter().all(|kind| kind.yields);
        group.level = common_level(&all);
        group.members = members;
        group
    }

    /// All executions.
    pub fn total(&self) -> Window {
        let mut total = Window::default();
        self.windows.iter().for_each(|window| total.merge(window));
        total
    }

    /// The floor, in ticks: the fourth smallest duration, an earlier one of few. One wrong clock does not
    /// make a floor; and unlike a percentile it does not rise when nearly all executions are slowed down.
    pub fn floor(&self) -> u64 {
        if self.yields {
            return 0;
        }
        self.smallest.at(rank(self.recorded))
    }

    /// Returns the median of the floors of the parts of the run, or the floor if that is larger.
    pub fn high(&self) -> u64 {
        if self.yields {
            return 0;
        }
        let windows = self.windows.iter().filter(|w| w.n >= ENOUGH_FOR_A_PART);
        let mut floors: Vec<u64> = windows.map(|window| window.min).collect();
        floors.sort_unstable();
        let median = floors.get(floors.len() / 2).copied().unwrap_or(0);
        median.max(self.floor())
    }

    /// Returns what was lost above a floor, in ticks.
    pub fn excess(&self, floor: u64) -> f64 {
        self.lost_in(&self.total(), floor)
    }

    /// Returns what was lost above a floor in a part of the run. Where threads take turns, a wait that ended at a time that was asked for
    /// was a wait for the others all the same.
    pub fn lost_in(&self, window: &Window, floor: u64) -> f64 {
        let asked = if self.turn.is_some() { window.asked } else { 0 };
        window.sum as f64 + asked as f64 - window.n as f64 * floor as f64
    }

    /// The time that its executions were asked to wait for and that is not lost.
    pub fn asked(&self) -> f64 {
        match self.turn {
            Some(_) => 0.0,
            None => self.total().asked as f64,
        }
    }
}

/// Returns the rank of the floor of `n` executions among their smallest durations; 1: the smallest.
fn rank(n: u64) -> usize {
    1 + (n / 50).min(3) as usize
}

/// Returns the finest level that holds for all kinds.
fn common_level(kinds: &[&Kind]) -> Level {
    let Some(first) = kinds.first() else {
        return Level::Block;
    };
    let coarsest = kinds.iter().map(|kind| kind.level).max();
    let coarsest = coarsest.unwrap_or(Level::Block);
    let all = |same: fn(&Kind, &Kind) -> bool| kinds.iter().all(|kind| same(kind, first));
    let alike = if kinds.len() == 1 {
        Level::Exact
    } else if all(|a, b| (a.collapsed, a.argument_hash) == (b.collapsed, b.argument_hash)) {
        Level::Collapsed
    } else if first.bucket != 0 && all(|a, b| a.bucket == b.bucket) {
        Level::Arguments
    } else {
        Level::Block
    };
    alike.max(coarsest)
}

/// Judges how far a group's floor can be trusted. `thread_minima` are those of threads that executed it often enough.
pub(super) fn judge(group: &Group, thread_minima: &[u64], enough: u64, ns: f64) -> Floor {
    let floor = group.floor();
    let near_floor = |least: u64| least as f64 <= 1.25 * floor as f64 + 2.0;
    let windows = group.windows.iter().filter(|w| w.n >= ENOUGH_FOR_A_PART);
    let (mut count, mut windows_near) = (0, 0);
    for window in windows {
        count += 1;
        windows_near += u32::from(near_floor(window.min));
    }
    let threads_near = thread_minima
        .iter()
        .filter(|least| near_floor(**least))
        .count();
    let near = group.unhindered.up_to((floor as f64 * 1.05) as u64);
    let n = group.total().n;
    let mut reasons = Vec::new();
    if group.recorded < enough {
        reasons.push(match group.recorded {
            1 => "1 execution only".to_owned(),
            few => format!("{few} executions only"),
        });
    }
    if group.recorded >= enough && (near < 5 || (near as f64) < 1e-4 * n as f64) {
        reasons.push(format!(
            "{near} of {n} executions come within a tenth of it"
        ));
    }
    if count >= 4 && 2 * windows_near < count {
        reasons.push(format!(
            "reached in {windows_near} of {count} parts of the run"
        ));
    }
    if thread_minima.len() >= 2 && 2 * threads_near < thread_minima.len() {
        let all = thread_minima.len();
        reasons.push(format!("reached by {threads_near} of {all} threads"));
    }
    if group.level == Level::Block && group.members.len() > 1 {
        let kinds = group.members.len();
        reasons.push(format!(
            "of {kinds} kinds of execution that had to be compared"
        ));
    }
    let quality = match reasons.len() {
        0 => Quality::Good,
        1 if group.recorded >= enough.min(20) => Quality::Fair,
        _ => Quality::Doubtful,
    };
    Floor {
        ns: floor as f64 * ns,
        low_ns: group.smallest.at(1) as f64 * ns,
        high_ns: group.high() as f64 * ns,
        n,
        near,
        windows: count,
        windows_near,
        threads: thread_minima.len() as u32,
        threads_near: threads_near as u32,
        quality,
        reasons,
    }
}
