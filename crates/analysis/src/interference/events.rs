//! Events of the processor or the kernel in executions, and whether slow executions have more of them.
//!
//! A sample interrupts, and what it interrupts takes longer by what it costs: among short executions the slow
//! ones would be those that were sampled. So executions are compared in groups of one thread that ran for
//! at least [`LONG`] times that, and what the samples cost is taken off. What a group ran for over what its executions would take at the
//! floors of their kinds (as far as these are known by then) is how slow it was.

use super::sketch::step;
use profile::{EventContrast, EventSample, EventScore, TRACED_EVENTS, TracedEvent};
use statrs::distribution::{Beta, ContinuousCDF};

/// Minimum ratio of a group's running time to the cost of a sample: its samples change how slow it
/// seems by a twentieth.
const LONG: u64 = 20;
/// Number of recorded executions of a kind from which on its floor is known.
const KNOWN: u64 = 20;
/// Slowness of a group that ran at the floor.
const AT_FLOOR: u64 = 64;
/// Number of steps of slowness, of 4.4 % each. The last step has all groups slower than 4096 times the floor.
const STEPS: usize = 12 * 16 + 1;
/// Minimum ratio of slow to fast executions' duration: below it they are not compared.
const SLOWER: f64 = 1.25;
/// Minimum number of samples in slow executions: below it they are not compared.
const ENOUGH_SAMPLES: u64 = 10;

/// Number of an event's samples, and the amount that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub samples: u64,
    pub amount: u64,
}

/// Amount of each event, by its index. Events after the last one that happened may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(Vec<Amount>);

impl Amounts {
    pub fn of(sample: &EventSample) -> Self {
        let mut amounts = Self::default();
        let one = Amount {
            samples: 1,
            amount: sample.amount,
        };
        amounts.add_one(sample.event.into(), one, 1);
        amounts
    }

    fn add_one(&mut self, event: usize, amount: Amount, weight: u64) {
        if event >= self.0.len() && event < TRACED_EVENTS {
            self.0.resize(event + 1, Amount::default());
        }
        if let Some(to) = self.0.get_mut(event) {
            to.samples = to.samples.saturating_add(amount.samples);
            let more = amount.amount.saturating_mul(weight);
            to.amount = to.amount.saturating_add(more);
        }
    }

    /// Adds those of executions that stand for `weight` each.
    pub fn add(&mut self, other: &Self, weight: u64) {
        for (event, amount) in other.0.iter().enumerate() {
            self.add_one(event, *amount, weight);
        }
    }

    pub fn at(&self, event: usize) -> Amount {
        self.0.get(event).copied().unwrap_or_default()
    }

    /// Returns what the samples cost.
    fn cost(&self, costs: &[u64]) -> u64 {
        let each = self.0.iter().zip(costs);
        let each = each.map(|(amount, cost)| amount.samples.saturating_mul(*cost));
        each.fold(0, u64::saturating_add)
    }
}

/// Executions that are compared together, in ticks.
#[derive(Clone, Debug, Default)]
pub(super) struct Lap {
    /// Running time of the executions without the cost of samples.
    ran: u64,
    /// Duration of the executions at the floors of their kinds.
    floor: u64,
    weight: u64,
    events: Amounts,
}

/// Executions of a kind, as far as events need them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// Number of them.
    pub n: u64,
    /// Running time of the executions, in ticks.
    pub ran: u64,
    /// The floor of their kind.
    pub floor: u64,
    /// Executions of their kind so far.
    pub known: u64,
    /// Number of executions that each of these stands for.
    pub weight: u64,
}

/// Returns how long a group runs at least; `None`: there are no events.
pub(super) fn length(costs: &[u64]) -> Option<u64> {
    let dearest = costs.iter().max()?;
    Some(dearest.saturating_mul(LONG))
}

impl Lap {
    /// Adds executions without events, if they and the group are not long enough then.
    #[inline]
    pub fn takes(&mut self, runs: &Runs, length: Option<u64>) -> bool {
        let ran = self.ran.saturating_add(runs.ran);
        if length.is_some_and(|length| ran >= length) {
            return false;
        }
        if runs.known >= KNOWN {
            self.ran = ran;
            let floor = runs.floor.max(1).saturating_mul(runs.n);
            self.floor = self.floor.saturating_add(floor);
            self.weight = self.weight.max(runs.weight);
        }
        true
    }

    fn add(&mut self, other: &Self) {
        self.ran = self.ran.saturating_add(other.ran);
        self.floor = self.floor.saturating_add(other.floor);
        self.weight = self.weight.max(other.weight);
        self.events.add(&other.events, 1);
    }
}

/// Sums of groups that were about as slow.
#[derive(Clone, Debug, Default)]
struct Step {
    ran: u64,
    floor: u64,
    events: Amounts,
}

impl Step {
    fn add(&mut self, lap: &Lap) {
        let weighted = |ticks: u64| ticks.saturating_mul(lap.weight);
        self.ran = self.ran.saturating_add(weighted(lap.ran));
        self.floor = self.floor.saturating_add(weighted(lap.floor));
        self.events.add(&lap.events, lap.weight);
    }

    fn merge(&mut self, other: &Self) {
        self.ran = self.ran.saturating_add(other.ran);
        self.floor = self.floor.saturating_add(other.floor);
        self.events.add(&other.events, 1);
    }

    fn excess(&self) -> u64 {
        self.ran.saturating_sub(self.floor)
    }

    fn slowness(&self) -> f64 {
        self.ran as f64 / self.floor.max(1) as f64
    }
}

/// The events in a block.
#[derive(Debug, Default)]
pub(super) struct EventTable {
    /// In all its executions that count.
    pub all: Amounts,
    steps: Vec<Step>,
}

impl EventTable {
    /// Adds an execution with its events; `open` is the thread's group, `costs` what a sample of each event costs.
    pub fn add(&mut self, run: &Runs, events: Option<&Amounts>, open: &mut Lap, costs: &[u64]) {
        if let Some(events) = events {
            self.all.add(events, run.weight);
        }
        if run.known < KNOWN {
            return;
        }
        let events = events.cloned().unwrap_or_default();
        let lap = Lap {
            ran: run.ran.saturating_sub(events.cost(costs)),
            floor: run.floor.max(1),
            weight: run.weight,
            events,
        };
        let length = length(costs).unwrap_or(0);
        if lap.ran >= length {
            return self.close(&lap);
        }
        open.add(&lap);
        if open.ran >= length {
            self.close(&std::mem::take(open));
        }
    }

    fn close(&mut self, lap: &Lap) {
        let slowness = lap.ran.saturating_mul(AT_FLOOR) / lap.floor.max(1);
        let at = step(slowness).saturating_sub(step(AT_FLOOR)).min(STEPS - 1);
        if at >= self.steps.len() {
            self.steps.resize_with(at + 1, Step::default);
        }
        if let Some(step) = self.steps.get_mut(at) {
            step.add(lap);
        }
    }

    /// Returns the slow and the fast groups. A group is slow if its slowness is nearer, in proportion, to that of the
    /// slowest groups with half of the loss than to the fastest. (The border lies between two clusters of groups. So an
    /// error in the cost of samples moves no group to the other side.)
    fn sides(&self) -> Option<(Step, Step)> {
        let used = self.steps.iter().filter(|step| step.floor > 0);
        let fastest = used.clone().next()?.slowness();
        let lost = used.clone().map(Step::excess);
        let half = lost.fold(0, u64::saturating_add).div_ceil(2);
        let mut slowest = Step::default();
        for step in used.clone().rev() {
            if slowest.excess() >= half {
                break;
            }
            slowest.merge(step);
        }
        let between = fastest * slowest.slowness();
        let (mut slow, mut fast) = (Step::default(), Step::default());
        for step in used {
            match step.slowness().powi(2) > between {
                true => slow.merge(step),
                false => fast.merge(step),
            }
        }
        let both = fast.floor > 0 && slow.floor > 0;
        (both && slow.slowness() >= SLOWER * fast.slowness()).then_some((slow, fast))
    }

    /// Returns what is said of the events in a block that was executed `executions` times.
    pub fn scores(&self, events: &[TracedEvent], executions: u64, ns: f64) -> Vec<EventScore> {
        let scores = events.iter().take(TRACED_EVENTS).enumerate();
        let scores = scores.map(|(number, event)| {
            let amount = self.all.at(number);
            EventScore {
                name: event.name.clone(),
                samples: amount.samples,
                per_execution: amount.amount as f64 * event.scale / executions.max(1) as f64,
                slow: self.contrast(number, event.scale, ns),
            }
        });
        scores.collect()
    }

    /// Slow executions against fast ones, as far as an event goes whose amounts count `scale` times; a tick has `ns`.
    fn contrast(&self, event: usize, scale: f64, ns: f64) -> Option<EventContrast> {
        let (slow, fast) = self.sides()?;
        let (of_slow, of_fast) = (slow.events.at(event), fast.events.at(event));
        if of_slow.samples + of_fast.samples < ENOUGH_SAMPLES {
            return None;
        }
        // What the slow ones would have if they were as the fast ones.
        let size = slow.floor as f64 / fast.floor.max(1) as f64;
        let expected = of_fast.amount as f64 * size;
        let more = (of_slow.amount as f64 - expected) * scale;
        let longer = slow.ran as f64 - fast.ran as f64 * size;
        let (at_least, at_most) = ratio_within(of_slow.samples, of_fast.samples, size);
        Some(EventContrast {
            slower: slow.slowness() / fast.slowness(),
            times: (expected > 0.0).then(|| of_slow.amount as f64 / expected),
            at_least,
            at_most,
            slow_samples: of_slow.samples,
            fast_samples: of_fast.samples,
            ns_each: (more > 0.0).then(|| longer * ns / more),
        })
    }
}

/// Returns the 95 % interval of how many times as often something happens in the slow ones, which
/// are `size` times as many as the fast ones. The number of slow ones among all samples, `slow` and
/// `fast`, is binomial (Clopper and Pearson).
fn ratio_within(slow: u64, fast: u64, size: f64) -> (f64, Option<f64>) {
    let odds = |share: f64| share / (1.0 - share) / size.max(f64::MIN_POSITIVE);
    let quantile = |a: u64, b: u64, p: f64| {
        let beta = Beta::new(a as f64, b as f64).ok();
        beta.map_or(0.5, |beta| beta.inverse_cdf(p))
    };
    let low = match slow {
        0 => 0.0,
        _ => odds(quantile(slow, fast + 1, 0.025)),
    };
    let high = (fast > 0).then(|| odds(quantile(slow + 1, fast, 0.975)));
    (low, high.filter(|high| high.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_the_intervals_of_the_tables() {
        // 15 of 20: 0.5090 to 0.9134 (Clopper and Pearson).
        let (low, high) = ratio_within(15, 5, 1.0);
        assert!((low - 0.5090 / 0.4910).abs() < 1e-3, "{low}");
        assert!((high.unwrap() - 0.9134 / 0.0866).abs() < 2e-2, "{high:?}");
        let (low, high) = ratio_within(10, 0, 2.0);
        assert!((low - 0.6915 / 0.3085 / 2.0).abs() < 1e-3 && high.is_none());
        assert_eq!(ratio_within(0, 10, 1.0).0, 0.0);
    }

    /// Executions of 100 ticks, of which half take 300 with four misses each; a sample stands for ten and costs 50.
    #[test]
    fn samples_do_not_make_executions_slow() {
        const COST: u64 = 50;
        const COSTS: [u64; 2] = [COST, COST];
        let events = |event, amount| {
            Amounts::of(&EventSample {
                at: 0,
                event,
                amount,
            })
        };
        let table = |slow: u64, misses: u64| {
            let (mut table, mut open) = (EventTable::default(), Lap::default());
            for n in 0..40_000u64 {
                let is_slow = n / 100 % 2 == 1;
                let per_ten = if is_slow { 4 * misses } else { 1 };
                // One sample in ten misses: `per_ten` of ten executions are interrupted.
                let hit = n % 10 < per_ten && per_ten <= 10;
                let sample = events(0, 10);
                let work = events(1, 100);
                let mut all = Amounts::default();
                if hit {
                    all.add(&sample, 1);
                }
                if n % 10 == 9 {
                    all.add(&work, 1);
                }
                let ran = if is_slow { slow } else { 100 } + all.cost(&COSTS);
                let run = Runs {
                    n: 1,
                    ran,
                    floor: 100,
                    known: 1000,
                    weight: 1,
                };
                table.add(&run, Some(&all), &mut open, &COSTS);
            }
            table
        };
        let slow = table(300, 1).contrast(0, 1.0, 0.5).expect("a contrast");
        assert!((slow.slower - 3.0).abs() < 0.1, "{slow:?}");
        assert!((slow.times.unwrap() - 4.0).abs() < 0.3, "{slow:?}");
        assert!(slow.at_least < 4.0 && slow.at_most.unwrap() > 4.0 && slow.at_least > 3.5);
        // 200 ticks longer with three more events each.
        assert!(
            (slow.ns_each.unwrap() - 100.0 / 3.0).abs() < 3.0,
            "{slow:?}"
        );
        let work = table(300, 1).contrast(1, 1.0, 0.5).expect("a contrast");
        assert!((work.times.unwrap() - 1.0).abs() < 0.1, "{work:?}");
        // All take as long: those with samples in them are not slower.
        assert_eq!(table(100, 1).contrast(0, 1.0, 0.5), None);
    }
}
