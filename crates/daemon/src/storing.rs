//! Tracks drains on their way to the database: pending drains, stored counts, and the next tasks.

use crate::backlog::Backlog;
use crate::control::Asked;
use crate::epoch_writer::{
    DatabaseFacts, EpochWriter, PendingDrain, SampleCounts, WriterReport, WriterTask,
};
use crate::merge_queue::MergeQueue;
use crate::program::HostProgram;
use sampler::Continuous;
use sd_notify::NotifyState;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time between two ticks of the collector while waiting for the writer.
const TICK: Duration = Duration::from_millis(100);

/// The writer, and the accounts of the drains sent to it.
pub(crate) struct Storing {
    program: HostProgram,
    writer: EpochWriter,
    backlog: Backlog,
    merges: MergeQueue,
    facts: DatabaseFacts,
    /// True if new facts were requested from the writer.
    looking: bool,
    stopped: Option<String>,
    counts: SampleCounts,
    relocated: Option<Receiver<Asked>>,
}

impl Storing {
    /// Begins with an idle writer and the due merges; the facts have the current epoch.
    pub(crate) fn new(
        program: HostProgram,
        writer: EpochWriter,
        merges: MergeQueue,
        facts: DatabaseFacts,
    ) -> Self {
        Self {
            program,
            writer,
            backlog: Backlog::default(),
            merges,
            facts,
            looking: false,
            stopped: None,
            counts: SampleCounts::default(),
            relocated: None,
        }
    }

    /// Keeps a child process at work on the due merges. If one has ended, returns whether it closed
    /// an epoch.
    pub(crate) fn keep_merging(&mut self) -> std::io::Result<Option<bool>> {
        let merged = self.merges.keep_working(&self.facts.epoch)?;
        Ok(merged.map(|merged| merged.closed))
    }

    /// Returns the latest request that has nothing left to wait for.
    pub(crate) fn reached_ticket(&self) -> u64 {
        match self.stopped {
            None => self.merges.reached,
            Some(_) => u64::MAX,
        }
    }

    /// Returns the facts last read from the database.
    pub(crate) fn database_facts(&self) -> &DatabaseFacts {
        &self.facts
    }

    /// Returns the counts of samples.
    pub(crate) fn sample_counts(&self) -> SampleCounts {
        self.counts
    }

    /// Returns the pending drains.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns why nothing can be stored; `None` if it can.
    pub(crate) fn why_stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Returns whether nothing can be stored.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Returns the new receiver of requests, if the socket was created again.
    pub(crate) fn take_relocated(&mut self) -> Option<Receiver<Asked>> {
        self.relocated.take()
    }

    /// Sends the writer a task.
    pub(crate) fn send_task(&self, task: WriterTask) {
        self.writer.send_task(task);
    }

    /// Requests the facts about the database.
    pub(crate) fn ask_for_facts(&mut self) {
        if !std::mem::replace(&mut self.looking, true) {
            self.writer.send_task(WriterTask::Look);
        }
    }

    /// Sends the writer a drain that the kernel has cleared, or that another collector keeps.
    pub(crate) fn store_drain(&mut self, drain: PendingDrain) {
        self.backlog.add_drain(drain.id, &drain.recording);
        self.writer.send_task(WriterTask::Store(Box::new(drain)));
    }

    /// Sends the writer a drain that the kernel keeps until it is stored.
    pub(crate) fn store_kept(&mut self, drain: PendingDrain) {
        let id = drain.id;
        self.backlog.add_drain(id, &drain.recording);
        self.backlog.enter_kernel(id);
        self.writer.send_task(WriterTask::Store(Box::new(drain)));
    }

    /// Returns whether the next drain can be taken. If the writer is late and the kernel needs the
    /// room, the kernel clears the drain that it keeps, and only this process's memory has it.
    pub(crate) fn make_way(
        &mut self,
        collecting: &mut Continuous<'_>,
        for_room: bool,
    ) -> anyhow::Result<bool> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        if self.backlog.is_in_kernel() {
            if !for_room || self.backlog.is_full() {
                return Ok(false);
            }
            collecting.forget_stored()?;
            self.backlog.leave_kernel();
        }
        Ok(true)
    }

    /// Processes all of the writer's reports.
    pub(crate) fn catch_up(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        while let Some(report) = self.writer.wait_for_report(Duration::ZERO) {
            self.take_note(report, collecting)?;
        }
        Ok(())
    }

    /// Waits until all drains are stored, or cannot be.
    pub(crate) fn wait_until_stored(
        &mut self,
        collecting: &mut Continuous<'_>,
        most: Duration,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !self.backlog.is_empty() && self.stopped.is_none() && begin.elapsed() < most {
            match self.writer.wait_for_report(TICK) {
                Some(report) => self.take_note(report, collecting)?,
                None => drop(collecting.tick()?),
            }
        }
        Ok(())
    }

    /// Waits until the facts are current.
    pub(crate) fn await_facts(
        &mut self,
        collecting: &mut Continuous<'_>,
        most: Duration,
    ) -> anyhow::Result<()> {
        self.ask_for_facts();
        let begin = Instant::now();
        while self.looking && self.stopped.is_none() && begin.elapsed() < most {
            match self.writer.wait_for_report(TICK) {
                Some(report) => self.take_note(report, collecting)?,
                // The rings of process records overflow if they are not read for a second.
                None => drop(collecting.tick()?),
            }
        }
        Ok(())
    }

    /// Processes the writer's report. If it cannot store, collecting stops until it can: counts in
    /// the kernel stay there.
    fn take_note(
        &mut self,
        report: WriterReport,
        collecting: &mut Continuous<'_>,
    ) -> anyhow::Result<()> {
        match report {
            WriterReport::Stored(id, counts) => {
                if self.backlog.remove_stored(id) {
                    collecting.forget_stored()?;
                }
                self.counts.add_counts(counts);
            }
            WriterReport::Failed(why) => {
                if self.stopped.is_none() {
                    self.program.print_line(&format!(
                        "collecting stops until there is a place to store: {why}"
                    ));
                    collecting.disable()?;
                }
                let status = format!("stopped: {why}");
                let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
                self.stopped = Some(why);
            }
            WriterReport::Recovered => {
                self.stopped = None;
                self.program.print_line("collecting goes on");
                let _ = sd_notify::notify(&[NotifyState::Status("collecting")]);
                collecting.enable()?;
            }
            WriterReport::Rolled(merge, epoch) => {
                self.facts.epoch = epoch;
                self.merges.push_task(merge);
            }
            WriterReport::Flushed(merge) => self.merges.push_task(merge),
            WriterReport::Listening(requests) => self.relocated = Some(requests),
            WriterReport::Looked(facts) => {
                self.looking = false;
                self.facts = facts;
            }
        }
        Ok(())
    }

    /// Waits until the writer and the merging process have ended.
    pub(crate) fn finish_storing(mut self) {
        self.merges.wait_for_merge();
        self.writer.finish_tasks();
    }
}
