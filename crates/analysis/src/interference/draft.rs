//! Drafts of findings, and the losses that move from one to another.

use super::known::over;
use profile::{Between, BlockId, BlockScore, Cause, CauseKind, Standing, ThreadIndex};
use rustc_hash::FxHashMap;

/// A score is not worth a line below this.
pub(super) const SLIGHT: f64 = 0.005;
/// Part of the duration, lost to others, from which on a score is interference, whatever the rest of it is.
pub(super) const ENOUGH: f64 = 0.05;

/// A finding before it is compared with the others.
pub(super) struct Draft {
    pub number: BlockId,
    /// Lost by handing locks over, in ticks: see [`super::hand_over`].
    pub handed_over: f64,
    /// See [`super::hand_over::ended_by`].
    pub ended_by: FxHashMap<BlockId, f64>,
    pub block: BlockScore,
    /// In ticks, like all that follows.
    pub excess: Between,
    pub time: f64,
    /// Loss of each thread, and the time that it was asked to wait.
    pub by_thread: Vec<(ThreadIndex, f64, f64)>,
    /// Functions on the stacks it was called from, with the part of the stacks they are on.
    pub callers: FxHashMap<String, f64>,
    /// The parts of its waits that were in other traced functions, by name.
    pub waits_in: FxHashMap<String, f64>,
}

/// Lists what was lost by handing locks over with the functions that wait for these locks.
pub(super) fn list_with_waits(drafts: &mut [Draft]) {
    let given: Vec<(BlockId, f64)> = drafts
        .iter()
        .filter(|draft| draft.handed_over > 0.0)
        .map(|draft| (draft.number, draft.handed_over))
        .collect();
    for (block, ticks) in given {
        let ended = |draft: &Draft| draft.ended_by.get(&block).copied().unwrap_or(0.0);
        let waits = |draft: &&mut Draft| draft.number != block && ended(draft) > 0.0;
        let most = drafts.iter_mut().filter(waits);
        let most = most.max_by(|a, b| {
            let own = |draft: &Draft| draft.block.name.clone();
            ended(a)
                .total_cmp(&ended(b))
                .then_with(|| own(b).cmp(&own(a)))
        });
        let Some(waits) = most else {
            continue;
        };
        waits.add_loss(ticks);
        let name = waits.block.name.clone();
        if let Some(gives) = drafts.iter_mut().find(|draft| draft.number == block) {
            gives.take_loss(ticks, &name);
        }
    }
}

impl Draft {
    /// Adds the loss of other threads that handed over the lock that is waited for here.
    fn add_loss(&mut self, ticks: f64) {
        let before = self.excess.estimate;
        let ticks = ticks.min(self.time - before).max(0.0);
        for end in [
            &mut self.excess.estimate,
            &mut self.excess.low,
            &mut self.excess.high,
        ] {
            *end = (*end + ticks).min(self.time);
        }
        let after = self.excess.estimate.max(1.0);
        self.block.breakdown.scheduler += ticks / self.time;
        self.block.score.hindered += ticks / self.time;
        let locks = |kind: CauseKind| matches!(kind, CauseKind::Lock | CauseKind::Barrier);
        for cause in &mut self.block.causes {
            cause.share *= before / after;
        }
        if !self.block.causes.iter().any(|cause| locks(cause.kind)) {
            // Nobody was blocked for long but those whose holder was held up.
            self.block.causes.push(Cause {
                kind: CauseKind::Lock,
                share: 0.0,
                measured: true,
                evidence: Vec::new(),
                ended_by: Vec::new(),
            });
        }
        if let Some(cause) = self.block.causes.iter_mut().find(|c| locks(c.kind)) {
            cause.share = (cause.share + ticks / after).min(1.0);
            cause.evidence.push(format!(
                "{:.0} % of it is of those that gave it back, and lost their CPU to the thread that they woke",
                100.0 * ticks / after / cause.share.max(f64::MIN_POSITIVE)
            ));
        }
        let low = matches!(
            self.block.score.standing,
            Standing::Varies | Standing::Slight | Standing::Machine
        );
        self.block
            .causes
            .sort_by(|a, b| b.share.total_cmp(&a.share));
        if low && self.block.score.hindered >= ENOUGH {
            self.block.score.standing = Standing::Interference;
        }
        self.rescale();
    }

    /// Takes out what is listed with the function that waits.
    fn take_loss(&mut self, ticks: f64, listed: &str) {
        let left = 1.0 - (ticks / self.excess.estimate.max(1.0)).min(1.0);
        for end in [
            &mut self.excess.estimate,
            &mut self.excess.low,
            &mut self.excess.high,
        ] {
            *end *= left;
        }
        let lost = ticks / self.time;
        self.block.breakdown.scheduler = (self.block.breakdown.scheduler - lost).max(0.0);
        self.block.score.hindered = (self.block.score.hindered - lost).max(0.0);
        self.rescale();
        if self.block.score.sci.estimate < SLIGHT {
            self.block.score.standing = Standing::Slight;
        } else if self.block.score.standing == Standing::Interference
            && self.block.score.hindered < ENOUGH
        {
            self.block.score.standing = Standing::Same;
            self.block.score.same_as = Some(listed.to_owned());
        }
    }

    fn rescale(&mut self) {
        self.block.score.sci = over(self.excess, self.time);
    }
}
