//! The daemon at work: the thread that drains the collector, hands the drains to the archive, keeps to the budget and answers.

use super::archive::{Archive, Counts, Done, Drained, Facts, Task};
use super::backlog::Backlog;
use super::control::{Answer, Asked, Request};
use super::cost::CostMeter;
use super::governor::Verdict;
use super::merges::{Merge, Merges};
use super::place::Place;
use super::run::{say, unix_ns};
use super::status::Status;
use crate::args::DaemonRun;
use crate::exit::FAILURE;
use anyhow::Context;
use sampler::{Continuous, Drain, DrainDue, LeftBehind};
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use store::{Database, OpenEpoch, PartId};

/// How often new periods are set and the tables looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often it is looked whether CPUs came or went.
const CPUS: Duration = Duration::from_secs(5);
/// How long a request waits for a file system that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a daemon ends.
pub enum Ended {
    With(ExitCode),
    /// By a new daemon in the same process, that takes over.
    ToStartAgain,
}

/// What a daemon starts with.
pub struct Start {
    pub database: Database,
    pub host: String,
    pub place: Place,
    pub requests: Receiver<Asked>,
    /// The number of our collector.
    pub collector: u64,
    pub not_pinned: Option<String>,
    /// Epochs that were not closed.
    pub open: Vec<OpenEpoch>,
    /// Collectors of daemons that were.
    pub left: Vec<(String, PathBuf)>,
}

/// A daemon that collects.
pub struct Daemon<'a> {
    args: &'a DaemonRun,
    collector: u64,
    archive: Archive,
    backlog: Backlog,
    facts: Facts,
    /// Whether the archive was asked for new facts.
    looking: bool,
    epoch_began: Instant,
    requests: Receiver<Asked>,
    /// Who waits for the merge of a ticket.
    waiting: Vec<(u64, Asked)>,
    tickets: u64,
    merges: Merges,
    stopped: Option<String>,
    counts: Counts,
    cost: CostMeter,
    /// The rate that is to be sampled at from the next epoch on.
    next_rate: Option<u64>,
    started: Instant,
    not_pinned: Option<String>,
}

impl<'a> Daemon<'a> {
    /// Begins to collect, and takes over what daemons before this one left behind.
    pub fn start(
        args: &'a DaemonRun,
        start: Start,
        collecting: &mut Continuous<'_>,
    ) -> anyhow::Result<Self> {
        let stopped = relieve(start.left, collecting)?;
        if let Some(why) = &start.not_pinned {
            say(&format!(
                "warning: if this daemon is killed, what it has not stored yet ({} s at most) is lost: {why}",
                args.interval.as_secs()
            ));
        }
        let mut merges = Merges::new(start.database.path(), &args.keep, args.merge);
        let (epoch, epoch_began) = continue_epoch(
            &start.database,
            &start.host,
            args.epoch,
            &start.open,
            &mut merges,
        )?;
        let facts = Facts {
            epoch: epoch.path().to_owned(),
            ..Facts::default()
        };
        let keep = args.keep.clone();
        let archive = Archive::start(start.database, start.host, start.place, epoch, keep)?;
        let mut daemon = Self {
            args,
            collector: start.collector,
            archive,
            backlog: Backlog::default(),
            facts,
            looking: false,
            epoch_began,
            requests: start.requests,
            waiting: Vec::new(),
            tickets: 0,
            merges,
            stopped: None,
            counts: Counts::default(),
            cost: CostMeter::new(args, collecting.frequency()),
            next_rate: None,
            started: Instant::now(),
            not_pinned: start.not_pinned,
        };
        for (name, directory, left) in stopped {
            let taken = match left {
                // One that did not begin, or was stored and not removed any more.
                Err(_) if !sampler::may_count(&directory) => {
                    sampler::unpin(&directory).map_err(anyhow::Error::from)
                }
                Err(error) => Err(error.into()),
                Ok(left) => daemon.take_over(collecting, &start.open, &name, left),
            };
            if let Err(error) = taken {
                say(&format!(
                    "what a daemon before this one counted and did not store is lost: {error:#}"
                ));
                sampler::unpin(&directory)?;
            }
        }
        // What was counted before is not a cost of this time.
        daemon.cost.begin();
        daemon.announce(collecting);
        Ok(daemon)
    }

    fn announce(&self, collecting: &Continuous<'_>) {
        let events: Vec<&str> = collecting.events().collect();
        let now = collecting.frequency();
        say(&format!(
            "collecting {} at {now} Hz on each CPU into {}",
            events.join(", "),
            self.facts.epoch.display()
        ));
        if let Some(asked) = self.args.frequency.filter(|&asked| asked > now) {
            say(&format!(
                "warning: the kernel allows {now} samples a second (kernel.perf_event_max_sample_rate), not the {asked} of -F"
            ));
        }
        let _ = sd_notify::notify(&[NotifyState::Ready]);
    }

    /// Stores what a collector had counted that was stopped.
    fn take_over(
        &mut self,
        collecting: &mut Continuous<'_>,
        open: &[OpenEpoch],
        name: &str,
        left: LeftBehind,
    ) -> anyhow::Result<()> {
        if left.taken()? == 0 {
            return Ok(left.remove()?);
        }
        let collector: u64 = name.parse().context("not a collector of ours")?;
        let part = |drain: u32| PartId { collector, drain };
        let stored = |number| {
            open.iter()
                .any(|epoch| epoch.holds(part(number)).unwrap_or(false))
        };
        for Drain { number, recording } in collecting.take_over(&left, collector, stored)? {
            self.backlog.add(part(number), &recording);
            self.archive.ask(Task::Store(Box::new(Drained {
                id: part(number),
                recording,
                taken_over: true,
            })));
        }
        self.settle(collecting, Duration::MAX)?;
        if self.stopped.is_none() {
            left.remove()?;
        }
        // Else it stays where it is: if we are killed now, the next daemon finds it.
        Ok(())
    }

    /// Collects until it is told to stop or to leave.
    pub fn serve(
        mut self,
        collecting: &mut Continuous<'_>,
        stop: &AtomicBool,
        leave: &AtomicBool,
    ) -> anyhow::Result<Ended> {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        let mut alive = Instant::now();
        let mut looked = Instant::now();
        loop {
            collecting.wait(TICK);
            let end = stop.load(Ordering::Relaxed);
            if end || leave.load(Ordering::Relaxed) {
                let _ = sd_notify::notify(&[NotifyState::Stopping]);
                return self.finish(collecting, end).map(Ended::With);
            }
            // Before CPUs are looked at: a collector that stopped by itself begins again, and no CPU was away.
            let due = self.cost.of_processes(|| collecting.tick())?;
            if looked.elapsed() >= CPUS && self.stopped.is_none() {
                looked = Instant::now();
                if let Some(change) = collecting.changed_cpus() {
                    say(&format!("{change}: starting again"));
                    self.finish(collecting, false)?;
                    return Ok(Ended::ToStartAgain);
                }
            }
            while let Some(done) = self.archive.wait(Duration::ZERO) {
                self.take_note(done, collecting)?;
            }
            match due {
                DrainDue::NotYet => {}
                DrainDue::Interval => drop(self.drain(collecting, false)?),
                DrainDue::Room => drop(self.drain(collecting, true)?),
            }
            self.roll(collecting)?;
            self.merge()?;
            self.mind_cost(collecting);
            self.answer(collecting)?;
            if watchdog.is_some_and(|limit| alive.elapsed() >= limit) {
                alive = Instant::now();
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
        }
    }

    /// The last drain. If the collector is not to end, it goes on counting for the next daemon.
    fn finish(mut self, collecting: &mut Continuous<'_>, end: bool) -> anyhow::Result<ExitCode> {
        if end {
            collecting.disable()?;
        }
        self.settle(collecting, Duration::MAX)?;
        self.drain(collecting, false)?;
        self.settle(collecting, Duration::MAX)?;
        if end && self.stopped.is_none() && collecting.is_counting()? {
            self.drain(collecting, false)?;
            self.settle(collecting, Duration::MAX)?;
        }
        if let Some(why) = &self.stopped {
            let kept = match self.not_pinned {
                None => "it stays in the kernel for the next daemon",
                Some(_) => "it is lost",
            };
            say(&format!(
                "what was counted last could not be stored, {kept}: {why}"
            ));
            collecting.leave();
            return Ok(ExitCode::from(FAILURE));
        }
        if end {
            collecting.end()?;
        } else {
            say("left the collector sampling for the next daemon");
            collecting.leave();
        }
        self.merges.finish();
        self.archive.finish();
        Ok(ExitCode::SUCCESS)
    }

    /// Drains the collector into the archive, if it can be done: whether it was. The kernel keeps its copy until the archive has
    /// stored it. If the archive is late and the kernel needs the room, only our memory has the drain.
    fn drain(&mut self, collecting: &mut Continuous<'_>, for_room: bool) -> anyhow::Result<bool> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        if self.backlog.is_in_kernel() {
            if !for_room || self.backlog.is_full() {
                return Ok(false);
            }
            collecting.stored()?;
            self.backlog.leave_kernel();
        }
        let Drain { number, recording } = collecting.drain()?;
        // Names of deleted programs were searched by other processes.
        self.cost.lump(self.args.merge);
        self.cost.taken += recording.events.iter().map(|e| e.taken).sum::<u64>();
        let id = PartId {
            collector: self.collector,
            drain: number,
        };
        self.backlog.add(id, &recording);
        self.backlog.enter_kernel(id);
        self.archive.ask(Task::Store(Box::new(Drained {
            id,
            recording,
            taken_over: false,
        })));
        Ok(true)
    }

    /// Waits until all drains are stored, or it is known that they cannot be.
    fn settle(&mut self, collecting: &mut Continuous<'_>, most: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !self.backlog.is_empty() && self.stopped.is_none() && begin.elapsed() < most {
            match self.archive.wait(TICK) {
                Some(done) => self.take_note(done, collecting)?,
                None => drop(collecting.tick()?),
            }
        }
        Ok(())
    }

    /// Notes what the archive has done. If it cannot store, collecting stops until it can: what is in the kernel stays there.
    fn take_note(&mut self, done: Done, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        match done {
            Done::Stored(id, counts) => {
                if self.backlog.remove(id) {
                    collecting.stored()?;
                }
                self.counts.add(counts);
            }
            Done::Failed(why) => {
                if self.stopped.is_none() {
                    say(&format!(
                        "collecting stops until there is a place to store: {why}"
                    ));
                    collecting.disable()?;
                }
                let status = format!("stopped: {why}");
                let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
                self.stopped = Some(why);
            }
            Done::Recovered => {
                self.stopped = None;
                say("collecting goes on");
                let _ = sd_notify::notify(&[NotifyState::Status("collecting")]);
                collecting.enable()?;
            }
            Done::Rolled(merge, epoch) => {
                self.facts.epoch = epoch;
                self.merges.push(merge);
            }
            Done::Flushed(merge) => self.merges.push(merge),
            Done::Listening(requests) => self.requests = requests,
            Done::Looked(facts) => {
                self.looking = false;
                self.facts = facts;
            }
        }
        Ok(())
    }

    /// Asks what is in the database.
    fn look(&mut self) {
        if !std::mem::replace(&mut self.looking, true) {
            self.archive.ask(Task::Look);
        }
    }

    /// Begins a new epoch when it is time, or the rate changes: an epoch has one rate, so that its samples weigh the same.
    fn roll(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        let due = self.epoch_began.elapsed() >= self.args.epoch;
        if (due || self.next_rate.is_some()) && self.drain(collecting, false)? {
            if let Some(rate) = self.next_rate.take() {
                collecting.set_frequency(rate)?;
            }
            self.new_epoch(0);
        }
        Ok(())
    }

    fn new_epoch(&mut self, ticket: u64) {
        self.epoch_began = Instant::now();
        self.archive.ask(Task::Roll { ticket });
    }

    fn merge(&mut self) -> anyhow::Result<()> {
        if let Some(merged) = self.merges.work(&self.facts.epoch)? {
            self.cost.lump(match merged.closed {
                true => self.args.epoch,
                false => self.args.merge,
            });
            self.look();
        }
        Ok(())
    }

    /// Measures what collecting costs, and lowers the rate rather than exceed the budget.
    fn mind_cost(&mut self, collecting: &Continuous<'_>) {
        let Some(verdict) = self.cost.judge(collecting.sample_cost_ns()) else {
            return;
        };
        self.look();
        let costs = || {
            format!(
                "{:.2} % of the machine, with a budget of {:.2} %",
                100.0 * self.cost.share(),
                self.args.budget()
            )
        };
        let now = collecting.frequency();
        match verdict {
            Verdict::Keep => {}
            Verdict::Change(to) => {
                say(&format!(
                    "{}: from {now} to {to} Hz, and a new epoch",
                    costs()
                ));
                self.next_rate = Some(to);
            }
            Verdict::Exceeded => say(&format!(
                "{}; the rate stays at {now} Hz, as -F asks (with --budget it would be lowered)",
                costs()
            )),
        }
    }

    fn answer(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        while let Ok((request, reply)) = self.requests.try_recv() {
            let mut ticket = 0;
            if request != Request::Status {
                self.tickets += 1;
                ticket = self.tickets;
                self.settle(collecting, PATIENCE)?;
                self.drain(collecting, false)?;
                match request {
                    Request::Epoch => self.new_epoch(ticket),
                    _ => self.archive.ask(Task::Flush { ticket }),
                }
            }
            self.waiting.push((ticket, (request, reply)));
        }
        let reached = self.merges.reached;
        let stopped = self.stopped.is_some();
        let ready = |(ticket, _): &(u64, Asked)| *ticket <= reached || stopped;
        if !self.waiting.iter().any(ready) {
            return Ok(());
        }
        self.look();
        let begin = Instant::now();
        while self.looking && self.stopped.is_none() && begin.elapsed() < PATIENCE {
            if let Some(done) = self.archive.wait(TICK) {
                self.take_note(done, collecting)?;
            }
        }
        let (answered, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(ready);
        self.waiting = waiting;
        for (_, (_, reply)) in answered {
            // Who asked may have gone.
            let _ = reply.send(Answer::Status(Box::new(self.status(collecting))));
        }
        Ok(())
    }

    fn status(&self, collecting: &Continuous<'_>) -> Status {
        let now = collecting.frequency();
        Status {
            schema: "vitalfew.status/1".into(),
            pid: std::process::id(),
            uptime_ns: self.started.elapsed().as_nanos() as u64,
            events: collecting.events().map(str::to_owned).collect(),
            frequency: now,
            asked_frequency: self.args.frequency,
            taken: self.counts.taken,
            stored: self.counts.stored,
            dropped: self.counts.dropped,
            taken_over: self.counts.taken_over,
            unknown: self.counts.unknown as f64 / self.counts.stored.max(1) as f64,
            sampling_share: self.cost.sampling,
            own_share: self.cost.own,
            budget: self.args.budget() / 100.0,
            resident_bytes: resident_bytes(),
            remembered: collecting.remembered(),
            epoch: self.facts.epoch.clone(),
            parts: self.facts.parts,
            epochs: self.facts.epochs,
            disk_bytes: self.facts.bytes,
            sacrificed_epochs: self.facts.sacrificed,
            late_ns: self.backlog.late_ns(),
            backlog_bytes: self.backlog.bytes(),
            not_pinned: self.not_pinned.clone(),
            outlive_ns: self.args.outlive.as_nanos() as u64,
            interrupts_end: collecting.can_cease(),
            unsampled_ns: collecting.unsampled_ns(),
            stopped: self.stopped.clone(),
        }
    }
}

/// A collector that was stopped, or why it could not be: its name, its pins.
type Stopped = (String, PathBuf, Result<LeftBehind, sampler::Error>);

/// Stops the collectors of daemons before us and lets ours count, within less than a period: no sample counts twice, whenever we
/// are killed.
fn relieve(
    left: Vec<(String, PathBuf)>,
    collecting: &mut Continuous<'_>,
) -> anyhow::Result<Vec<Stopped>> {
    let opened = left.into_iter().map(|(name, directory)| {
        let left = LeftBehind::open(&directory);
        (name, directory, left)
    });
    let opened: Vec<Stopped> = opened.collect();
    let halted = opened.iter().filter_map(|(_, _, left)| left.as_ref().ok());
    let halted: Vec<_> = halted.map(LeftBehind::halt).collect();
    collecting.enable()?;
    halted.into_iter().collect::<Result<(), _>>()?;
    let stopped = opened.into_iter().map(|(name, directory, left)| {
        let left = left.and_then(|left| left.stop().map(|()| left));
        (name, directory, left)
    });
    Ok(stopped.collect())
}

/// Goes on with the last epoch, if it is young enough; others are closed. The epoch, and when it began.
fn continue_epoch(
    database: &Database,
    host: &str,
    longest: Duration,
    open: &[OpenEpoch],
    merges: &mut Merges,
) -> anyhow::Result<(OpenEpoch, Instant)> {
    let mut last = None;
    for epoch in open {
        epoch.clean()?;
        if let Some(before) = last.replace(epoch) {
            merges.push(Merge::closing(before, 0));
        }
    }
    let age = |epoch: &OpenEpoch| {
        let epochs = database.epochs().unwrap_or_default();
        let same = epochs.into_iter().find(|e| e.path == epoch.path());
        let start = same.and_then(|e| Some(e.summary.ok()?.start_unix_ns));
        start.map_or(0, |start| unix_ns().saturating_sub(start))
    };
    let now = Instant::now();
    if let Some(epoch) = last {
        let age = Duration::from_nanos(age(epoch));
        if age < longest {
            return Ok((epoch.clone(), now.checked_sub(age).unwrap_or(now)));
        }
        merges.push(Merge::closing(epoch, 0));
    }
    Ok((database.begin_epoch(host, unix_ns())?, now))
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
