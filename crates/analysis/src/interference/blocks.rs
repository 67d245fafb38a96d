//! State of a block besides its kinds: evidence for causes and doubts.

use super::events::EventTable;
use super::functions::waits_for;
use super::instants::Instants;
use super::nesting::Inside;
use super::options::Options;
use super::queue::Entry;
use super::sequences::{Sequence, mix};
use super::wait_sum::{Fates, WaitPart, WaitSum, add_parts};
use profile::known_code::KnownOperation;
use profile::{BlockId, CauseKind, TRACED_ARGUMENTS, ThreadIndex, TracedBlock};
use rustc_hash::FxHashMap;

/// Maximum number of wait reasons that are kept.
const REASONS: usize = 64;
/// Maximum number of stacks that are kept.
const STACKS: usize = 64;

/// State of a block.
#[derive(Debug)]
pub(super) struct BlockState {
    pub base: u64,
    pub excluded: bool,
    /// The longest period of a thread.
    pub period: u32,
    /// True if its executions need no special handling (no exclusion or yields), unless a thread does not
    /// record all of them.
    pub plain: bool,
    /// Positions of the arguments that executions are told apart by.
    grouping: Vec<usize>,
    /// The same as bits that are kept of each.
    pub kept: [u64; TRACED_ARGUMENTS],
    /// Positions of arguments that are looked at only.
    watched: Vec<usize>,
    /// The threads that executed it; a thread may be in it twice.
    pub threads: Vec<ThreadIndex>,
    pub stacks: Stacks,
    pub instants: Instants,
    pub warm_up: u64,
    pub unwound: u64,
    /// Executions that may count twice, because the recursion was too wide.
    pub twice: u64,
    pub waits: WaitSum,
    /// The same time by what it was to the executions.
    pub fates: Fates,
    pub events: EventTable,
    /// The least time of an execution in waits that are compared.
    pub least_compared: u64,
    /// The cause that its waits have, by its name.
    pub waits_for: Option<CauseKind>,
    /// True if it does nothing but let others run.
    pub yields: bool,
    /// Regression of the duration on each argument.
    pub follows: [Regression; TRACED_ARGUMENTS],
}

impl BlockState {
    pub fn new(number: BlockId, block: &TracedBlock, options: &Options) -> Self {
        let grouping = options.grouping(block);
        let excluded = options.excludes(&block.name);
        let yields = KnownOperation::Yield.has_function(&block.name);
        let recorded = block.arguments.len().min(TRACED_ARGUMENTS);
        Self {
            base: base(number),
            excluded,
            plain: !excluded && !yields,
            period: 1,
            watched: (0..recorded).filter(|at| !grouping.contains(at)).collect(),
            kept: std::array::from_fn(|at| if grouping.contains(&at) { u64::MAX } else { 0 }),
            grouping,
            threads: Vec::new(),
            stacks: Stacks::default(),
            instants: Instants::default(),
            warm_up: 0,
            unwound: 0,
            twice: 0,
            waits: WaitSum::default(),
            fates: Fates::default(),
            events: EventTable::default(),
            least_compared: u64::MAX,
            waits_for: waits_for(&block.name),
            yields,
            follows: Default::default(),
        }
    }

    /// The kinds, exact and collapsed, of an execution.
    #[inline]
    pub fn kinds_with(&self, inside: &Inside) -> (u64, u64) {
        if inside.ragged {
            let unknown = mix(self.base, 0xbad);
            return (unknown, unknown);
        }
        if inside.exact == Sequence::EMPTY {
            return (self.base, self.base);
        }
        self.kinds_of(inside.exact.word(), inside.collapsed.word())
    }

    /// The kinds, exact and collapsed, of an execution that contains sequences with these words.
    #[inline]
    pub fn kinds_of(&self, exact: u64, collapsed: u64) -> (u64, u64) {
        (mix(self.base, exact), mix(!self.base, collapsed))
    }

    /// Returns whether executions are told apart by arguments.
    #[inline]
    pub fn has_grouping(&self) -> bool {
        !self.grouping.is_empty()
    }

    /// Returns whether arguments are looked at, but for telling executions apart.
    #[inline]
    pub fn has_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// The arguments that count, 0 for the others.
    #[inline]
    pub fn grouped(&self, arguments: &[u64; TRACED_ARGUMENTS]) -> [u64; TRACED_ARGUMENTS] {
        grouped(arguments, &self.kept)
    }

    /// The positions that executions are told apart by.
    pub fn grouping(&self) -> &[usize] {
        &self.grouping
    }

    /// Looks whether the durations follow the arguments.
    pub fn follow(&mut self, entries: &[Entry], arguments: &[[u64; TRACED_ARGUMENTS]]) {
        for at in &self.watched {
            let Some(follows) = self.follows.get_mut(*at) else {
                continue;
            };
            for (entry, arguments) in entries.iter().zip(arguments) {
                let value = arguments.get(*at).copied().unwrap_or_default();
                follows.add(logarithm(value), logarithm(entry.net));
            }
        }
    }

    /// Returns the roles of the waits in an execution. `waits_for` has, for each block, the cause that its waits have
    /// by its name.
    #[cold]
    pub fn fates(&self, waits: &WaitSum, waits_for: &[Option<CauseKind>], aarch64: bool) -> Fates {
        let mut fates = waits.fates(|reason| {
            let within = reason.within.and_then(|at| *waits_for.get(at as usize)?);
            reason.fate(within.or(self.waits_for), aarch64)
        });
        if self.waits_for == Some(CauseKind::Sleep) {
            // A thread that asked for a time got at least that.
            fates.asked = fates.asked.saturating_add(std::mem::take(&mut fates.ready));
        }
        fates
    }

    /// Adds what an execution waited for.
    #[cold]
    pub fn add_waits(&mut self, waits: &WaitSum, fates: &Fates, weight: u64) {
        self.least_compared = self.least_compared.min(fates.compared);
        let add = |to: &mut u64, ticks: u64| *to = to.saturating_add(ticks.saturating_mul(weight));
        add(&mut self.waits.blocked, waits.blocked);
        add(&mut self.waits.queued, waits.queued);
        add(&mut self.waits.preempted, waits.preempted);
        add(&mut self.waits.preemptions, waits.preemptions);
        add(&mut self.waits.taken, waits.taken);
        add(&mut self.fates.lost, fates.lost);
        add(&mut self.fates.ready, fates.ready);
        add(&mut self.fates.asked, fates.asked);
        add(&mut self.fates.compared, fates.compared);
        let parts = waits.parts.iter().map(|part| WaitPart {
            blocked: part.blocked.saturating_mul(weight),
            queued: part.queued.saturating_mul(weight),
            taken: part.taken.saturating_mul(weight),
            held: part.held.saturating_mul(weight),
            n: part.n.saturating_mul(weight),
            ..*part
        });
        let parts: Vec<WaitPart> = parts.collect();
        add_parts(&mut self.waits.parts, &parts, REASONS);
    }
}

/// The bits of arguments that are kept.
#[inline]
pub(super) fn grouped(
    arguments: &[u64; TRACED_ARGUMENTS],
    kept: &[u64; TRACED_ARGUMENTS],
) -> [u64; TRACED_ARGUMENTS] {
    let ([a, b, c], [x, y, z]) = (*arguments, *kept);
    [a & x, b & y, c & z]
}

/// A linear regression on logarithms, in whole numbers: the order of adding makes no difference.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Regression {
    pub n: u64,
    x: u64,
    y: u64,
    xx: u64,
    xy: u64,
    yy: u64,
}

/// 16 times the logarithm to base 2, roughly.
#[inline]
fn logarithm(value: u64) -> u64 {
    let value = value.saturating_add(1);
    let octave = 63 - value.leading_zeros();
    let part = (value << (63 - octave) << 1) >> 60;
    u64::from(octave) * 16 + part
}

impl Regression {
    #[inline]
    fn add(&mut self, x: u64, y: u64) {
        self.n += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// R² and the slope of the duration's logarithm over the argument's; `None` where one does not vary.
    pub fn r_squared(&self) -> Option<(f64, f64)> {
        let n = self.n as f64;
        let about = |square: u64, a: u64, b: u64| square as f64 - a as f64 * b as f64 / n;
        let (xx, yy) = (
            about(self.xx, self.x, self.x),
            about(self.yy, self.y, self.y),
        );
        let xy = about(self.xy, self.x, self.y);
        let varies = |square: f64| square > n;
        (self.n >= 30 && varies(xx) && varies(yy)).then(|| (xy * xy / (xx * yy), xy / xx))
    }
}

/// The call stacks of a block.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub all: Vec<Stack>,
    by_places: FxHashMap<Vec<u32>, u32>,
}

/// A call stack.
#[derive(Debug)]
pub(super) struct Stack {
    pub places: Vec<u32>,
    /// Number of times that it was met.
    pub count: u64,
    /// Total duration of the measured calls with this stack.
    pub sum: u64,
    pub measured: u64,
}

/// A longer stack is cut.
const FRAMES: usize = 64;

impl Stacks {
    pub fn add(&mut self, places: &[u32]) -> Option<u32> {
        let places = places.get(..FRAMES.min(places.len())).unwrap_or_default();
        if let Some(number) = self.by_places.get(places) {
            if let Some(stack) = self.all.get_mut(*number as usize) {
                stack.count += 1;
            }
            return Some(*number);
        }
        if self.all.len() >= STACKS {
            return None;
        }
        let number = self.all.len() as u32;
        self.by_places.insert(places.to_vec(), number);
        self.all.push(Stack {
            places: places.to_vec(),
            count: 1,
            sum: 0,
            measured: 0,
        });
        Some(number)
    }

    /// The execution that a stack was taken for took so long.
    pub fn measured(&mut self, number: u32, duration: u64) {
        if let Some(stack) = self.all.get_mut(number as usize) {
            stack.sum = stack.sum.saturating_add(duration);
            stack.measured += 1;
        }
    }
}

/// The hash that the kinds of a block begin with.
fn base(number: BlockId) -> u64 {
    mix(u64::from(number) + 1, 0x0b10_c0de)
}
