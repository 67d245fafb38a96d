//! The daemon's main loop: drains the collector, sends the drains to be stored and merged, keeps to
//! the budget and answers requests.

use crate::control::{Asked, Request};
use crate::cost_meter::CostMeter;
use crate::epoch_writer::{DatabaseFacts, EpochWriter, PendingDrain, WriterTask};
use crate::governor::RateVerdict;
use crate::inbox::Inbox;
use crate::lease::DatabaseLease;
use crate::merge_queue::MergeQueue;
use crate::options::{DaemonOptions, Retention};
use crate::program::HostProgram;
use crate::sending::SendQueue;
use crate::status::{Status, resident_bytes};
use crate::storing::Storing;
use crate::take_over::{continue_epoch, relieve_collectors};
use anyhow::Context;
use sampler::{Continuous, Drain, DrainDue, LeftBehind};
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use store::{Database, OpenEpoch, PartId};

/// Time between two checks of the tables, at which new periods are set too.
const TICK: Duration = Duration::from_millis(100);
/// The time between two checks whether CPUs came or went.
const CPUS: Duration = Duration::from_secs(5);
/// Time for which a request waits for an unresponsive file system.
const PATIENCE: Duration = Duration::from_secs(1);

/// Limit on the time for sending at the end. Service managers wait for 90 s.
const LAST_SENDING: Duration = Duration::from_secs(30);
/// Limit on the time for closing the epoch at the end.
const LAST_MERGE: Duration = Duration::from_secs(30);

/// The end of the loop.
pub(crate) enum LoopEnd {
    /// All counts are stored, or wait in the kernel for the next daemon.
    Stored,
    /// The last counts could not be stored.
    Unstored,
    /// A new daemon in the same process takes over.
    ToStartAgain,
}

/// The initial state of a daemon.
pub(crate) struct Start {
    pub database: Database,
    pub host: String,
    pub lease: DatabaseLease,
    pub requests: Receiver<Asked>,
    /// The number of this daemon's collector.
    pub collector: u64,
    pub not_pinned: Option<String>,
    /// Epochs that were not closed.
    pub open: Vec<OpenEpoch>,
    /// Collectors of earlier daemons.
    pub left: Vec<(String, PathBuf)>,
}

/// A collecting daemon.
pub(crate) struct Daemon<'a> {
    options: &'a DaemonOptions,
    program: HostProgram,
    collector: u64,
    storing: Storing,
    sending: Option<SendQueue>,
    epoch_began: Instant,
    inbox: Inbox,
    cost: CostMeter,
    /// The rate from the next epoch on.
    next_rate: Option<u64>,
    started: Instant,
    not_pinned: Option<String>,
}

impl<'a> Daemon<'a> {
    /// Begins to collect, and takes over the counts of earlier daemons.
    pub(crate) fn start_collecting(
        options: &'a DaemonOptions,
        program: HostProgram,
        start: Start,
        collecting: &mut Continuous<'_>,
    ) -> anyhow::Result<Self> {
        let stopped = relieve_collectors(start.left, collecting)?;
        if let Some(why) = &start.not_pinned {
            program.print_line(&format!(
                "warning: if this daemon is killed, what it has not stored yet ({} s at most) is lost: {why}",
                options.interval.as_secs()
            ));
        }
        let (database, retention) = (start.database, &options.retention);
        let every = options.merge_every;
        // What waits to be sent is removed by the sender and the writer, which tell of it.
        let merged = match &options.bucket {
            None => retention.clone(),
            Some(_) => Retention::default(),
        };
        let mut merges = MergeQueue::new(database.path(), &merged, every, program);
        let (epoch, epoch_began) = continue_epoch(
            &database,
            &start.host,
            options.epoch_length,
            &start.open,
            &mut merges,
        )?;
        let facts = DatabaseFacts {
            epoch: epoch.path().to_owned(),
            ..DatabaseFacts::default()
        };
        let sending = options.bucket.as_ref();
        let sending = sending.map(|bucket| SendQueue::new(database.path(), bucket, program));
        let (host, retention) = (start.host, retention.clone());
        let writer =
            EpochWriter::start_thread(database, host, start.lease, epoch, retention, program)?;
        let mut daemon = Self {
            options,
            program,
            collector: start.collector,
            storing: Storing::new(program, writer, merges, facts),
            sending,
            epoch_began,
            inbox: Inbox::new(start.requests),
            cost: CostMeter::new(options, collecting.frequency()),
            next_rate: None,
            started: Instant::now(),
            not_pinned: start.not_pinned,
        };
        for (name, directory, left) in stopped {
            let taken = match left {
                // A collector that never began, or was stored but not removed.
                Err(_) if !sampler::may_count(&directory) => {
                    sampler::remove_pins(&directory).map_err(anyhow::Error::from)
                }
                Err(error) => Err(error.into()),
                Ok(left) => daemon.take_over(collecting, &start.open, &name, left),
            };
            if let Err(error) = taken {
                program.print_line(&format!(
                    "what a daemon before this one counted and did not store is lost: {error:#}"
                ));
                sampler::remove_pins(&directory)?;
            }
        }
        // Counts from before are not a cost of this window.
        daemon.cost.begin_window();
        daemon.print_start(collecting);
        Ok(daemon)
    }

    fn print_start(&self, collecting: &Continuous<'_>) {
        let events: Vec<&str> = collecting.event_names().collect();
        let now = collecting.frequency();
        self.program.print_line(&format!(
            "collecting {} at {now} Hz on each CPU into {}",
            events.join(", "),
            self.storing.database_facts().epoch.display()
        ));
        if let Some(asked) = self.options.frequency.filter(|&asked| asked > now) {
            self.program.print_line(&format!(
                "warning: the kernel allows {now} samples a second (kernel.perf_event_max_sample_rate), not the {asked} of -F"
            ));
        }
        let _ = sd_notify::notify(&[NotifyState::Ready]);
    }

    /// Stores the counts of a stopped collector.
    fn take_over(
        &mut self,
        collecting: &mut Continuous<'_>,
        open: &[OpenEpoch],
        name: &str,
        left: LeftBehind,
    ) -> anyhow::Result<()> {
        if left.samples_held()? == 0 {
            return Ok(left.remove()?);
        }
        let collector: u64 = name.parse().context("not a collector of ours")?;
        let part = |drain: u32| PartId { collector, drain };
        let stored = |number| {
            open.iter()
                .any(|epoch| epoch.holds_part(part(number)).unwrap_or(false))
        };
        for Drain { number, recording } in collecting.take_over(&left, collector, stored)? {
            self.storing.store_drain(PendingDrain {
                id: part(number),
                recording,
                taken_over: true,
            });
        }
        self.storing.wait_until_stored(collecting, Duration::MAX)?;
        if !self.storing.is_stopped() {
            left.remove()?;
        }
        // Otherwise it stays: if this daemon is killed now, the next one finds it.
        Ok(())
    }

    /// Collects until it is told to stop or to start again.
    pub(crate) fn serve_until_told(
        mut self,
        collecting: &mut Continuous<'_>,
        stop: &AtomicBool,
        leave: &AtomicBool,
    ) -> anyhow::Result<LoopEnd> {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        let mut alive = Instant::now();
        let mut looked = Instant::now();
        loop {
            collecting.wait_for_records(TICK);
            let end = stop.load(Ordering::Relaxed);
            if end || leave.load(Ordering::Relaxed) {
                let _ = sd_notify::notify(&[NotifyState::Stopping]);
                return self.finish_collecting(collecting, end);
            }
            // Before the check of CPUs: a collector that stopped by itself starts again, although
            // no CPU was offline.
            let due = self.cost.of_processes(|| collecting.tick())?;
            if looked.elapsed() >= CPUS && !self.storing.is_stopped() {
                looked = Instant::now();
                if let Some(change) = collecting.reason_to_restart() {
                    self.program
                        .print_line(&format!("{change}: starting again"));
                    self.finish_collecting(collecting, false)?;
                    return Ok(LoopEnd::ToStartAgain);
                }
            }
            self.storing.catch_up(collecting)?;
            match due {
                DrainDue::NotYet => {}
                DrainDue::Interval => drop(self.drain_collector(collecting, false)?),
                DrainDue::Room => drop(self.drain_collector(collecting, true)?),
            }
            self.roll_epoch(collecting)?;
            self.merge_if_due()?;
            if let Some(sending) = &mut self.sending {
                sending.keep_sending()?;
            }
            self.mind_cost(collecting);
            if self.answer_requests(collecting)? {
                stop.store(true, Ordering::Relaxed);
            }
            if watchdog.is_some_and(|limit| alive.elapsed() >= limit) {
                alive = Instant::now();
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
        }
    }

    /// Drains for the last time. A collector that is not to end counts on for the next daemon.
    fn finish_collecting(
        mut self,
        collecting: &mut Continuous<'_>,
        end: bool,
    ) -> anyhow::Result<LoopEnd> {
        if end {
            collecting.disable()?;
        }
        self.storing.wait_until_stored(collecting, Duration::MAX)?;
        self.drain_collector(collecting, false)?;
        self.storing.wait_until_stored(collecting, Duration::MAX)?;
        if end && !self.storing.is_stopped() && collecting.is_counting()? {
            self.drain_collector(collecting, false)?;
            self.storing.wait_until_stored(collecting, Duration::MAX)?;
        }
        if let Some(why) = self.storing.why_stopped() {
            let kept = match self.not_pinned {
                None => "it stays in the kernel for the next daemon",
                Some(_) => "it is lost",
            };
            self.program.print_line(&format!(
                "what was counted last could not be stored, {kept}: {why}"
            ));
            collecting.leave_running();
            return Ok(LoopEnd::Unstored);
        }
        if end {
            collecting.end_collector()?;
        } else {
            self.program
                .print_line("left the collector sampling for the next daemon");
            collecting.leave_running();
        }
        // A machine that is switched off for good has no other time to send what it has.
        if end && self.sending.is_some() {
            self.close_last_epoch(collecting)?;
        }
        // Before the socket goes: who has asked for the end waits until what can be sent is sent.
        if let Some(sending) = self.sending.take().filter(|_| end) {
            sending.finish_sending(LAST_SENDING);
        }
        self.storing.finish_storing();
        Ok(LoopEnd::Stored)
    }

    /// Closes the current epoch, so that it can be sent.
    fn close_last_epoch(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        const LAST: u64 = u64::MAX;
        self.new_epoch(LAST);
        let began = Instant::now();
        while self.storing.reached_ticket() < LAST && began.elapsed() < LAST_MERGE {
            self.storing.catch_up(collecting)?;
            self.storing.keep_merging()?;
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// Drains the collector and sends the drain to be stored, if possible; returns whether it did.
    /// The kernel keeps its copy until it is stored.
    fn drain_collector(
        &mut self,
        collecting: &mut Continuous<'_>,
        for_room: bool,
    ) -> anyhow::Result<bool> {
        if !self.storing.make_way(collecting, for_room)? {
            return Ok(false);
        }
        let Drain { number, recording } = collecting.drain()?;
        // Child processes searched the names of deleted programs.
        self.cost.add_lump(self.options.merge_every);
        self.cost.taken += recording.events.iter().map(|e| e.taken).sum::<u64>();
        let id = PartId {
            collector: self.collector,
            drain: number,
        };
        self.storing.store_kept(PendingDrain {
            id,
            recording,
            taken_over: false,
        });
        Ok(true)
    }

    /// Begins a new epoch when it is time, or when the rate changes: an epoch has one rate, so that
    /// its samples weigh the same.
    fn roll_epoch(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        let due = self.epoch_began.elapsed() >= self.options.epoch_length;
        if (due || self.next_rate.is_some()) && self.drain_collector(collecting, false)? {
            if let Some(rate) = self.next_rate.take() {
                collecting.set_frequency(rate)?;
            }
            self.new_epoch(0);
        }
        Ok(())
    }

    fn new_epoch(&mut self, ticket: u64) {
        self.epoch_began = Instant::now();
        self.storing.send_task(WriterTask::Roll { ticket });
    }

    fn merge_if_due(&mut self) -> anyhow::Result<()> {
        if let Some(closed) = self.storing.keep_merging()? {
            self.cost.add_lump(if closed {
                self.options.epoch_length
            } else {
                self.options.merge_every
            });
            self.storing.ask_for_facts();
        }
        Ok(())
    }

    /// Measures the cost of collecting, and lowers the rate rather than exceed the budget.
    fn mind_cost(&mut self, collecting: &Continuous<'_>) {
        let tables_ns = collecting.tables_cpu_ns();
        self.cost.add_tables(tables_ns, self.options.epoch_length);
        let Some(verdict) = self.cost.judge_rate(collecting.sample_cost_ns()) else {
            return;
        };
        self.storing.ask_for_facts();
        let costs = || {
            format!(
                "{:.2} % of the machine, with a budget of {:.2} %",
                100.0 * self.cost.judged_share(),
                self.options.budget_percent()
            )
        };
        let now = collecting.frequency();
        match verdict {
            RateVerdict::Keep => {}
            RateVerdict::Change(to) => {
                self.program.print_line(&format!(
                    "{}: from {now} to {to} Hz, and a new epoch",
                    costs()
                ));
                self.next_rate = Some(to);
            }
            RateVerdict::Exceeded => self.program.print_line(&format!(
                "{}; the rate stays at {now} Hz, as -F asks (with --budget it would be lowered)",
                costs()
            )),
        }
    }

    /// Answers requests. Returns whether one was to stop.
    fn answer_requests(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<bool> {
        if let Some(requests) = self.storing.take_relocated() {
            self.inbox.move_to(requests);
        }
        while let Some(new) = self.inbox.next_request() {
            if !new.request.stores_samples() {
                continue;
            }
            self.storing.wait_until_stored(collecting, PATIENCE)?;
            self.drain_collector(collecting, false)?;
            match new.request {
                Request::Epoch => self.new_epoch(new.ticket),
                _ => self
                    .storing
                    .send_task(WriterTask::Flush { ticket: new.ticket }),
            }
        }
        let reached = self.storing.reached_ticket();
        if self.inbox.is_ready(reached) {
            self.storing.await_facts(collecting, PATIENCE)?;
            let status = self.status_now(collecting);
            return Ok(self.inbox.answer_ready(reached, &status));
        }
        Ok(false)
    }

    fn status_now(&self, collecting: &Continuous<'_>) -> Status {
        let (counts, facts) = (self.storing.sample_counts(), self.storing.database_facts());
        Status {
            schema: "vitalfew.status/1".into(),
            pid: std::process::id(),
            uptime_ns: self.started.elapsed().as_nanos() as u64,
            events: collecting.event_names().map(str::to_owned).collect(),
            frequency: collecting.frequency(),
            asked_frequency: self.options.frequency,
            taken: counts.taken,
            stored: counts.stored,
            dropped: counts.dropped,
            taken_over: counts.taken_over,
            unknown: counts.unknown as f64 / counts.stored.max(1) as f64,
            sampling_share: self.cost.sampling,
            own_share: self.cost.own,
            budget: self.options.budget_percent() / 100.0,
            resident_bytes: resident_bytes(),
            remembered: collecting.remembered_counts(),
            epoch: facts.epoch.clone(),
            parts: facts.parts,
            epochs: facts.epochs,
            disk_bytes: facts.bytes,
            sacrificed_epochs: facts.sacrificed,
            late_ns: self.storing.backlog().late_ns(),
            backlog_bytes: self.storing.backlog().memory_bytes(),
            not_pinned: self.not_pinned.clone(),
            outlive_ns: self.options.outlive.as_nanos() as u64,
            interrupts_end: collecting.can_cease(),
            unsampled_ns: collecting.unsampled_ns(),
            sample_cost_ns: collecting.sample_cost_ns(),
            stacks: collecting.stack_walks(),
            bucket: self.sending.as_ref().map(SendQueue::bucket_address),
            unsent_epochs: self.sending.as_ref().map_or(0, |_| facts.closed),
            sending_fails_ns: self.sending.as_ref().map_or(0, SendQueue::failing_ns),
            stopped: self.storing.why_stopped().map(str::to_owned),
        }
    }
}
