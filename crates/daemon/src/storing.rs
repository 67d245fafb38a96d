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

/// The time between two looks at the collector while waiting for the writer.
const TICK: Duration = Duration::from_millis(100);

/// The writer, and the accounts of the drains that it was given.
pub(crate) struct Storing {
    program: HostProgram,
    writer: EpochWriter,
    backlog: Backlog,
    merges: MergeQueue,
    facts: DatabaseFacts,
    /// True if the writer was asked for new facts.
    looking: bool,
    stopped: Option<String>,
    counts: SampleCounts,
    relocated: Option<Receiver<Asked>>,
}

impl Storing {
    /// Begins with a writer that was given nothing, and merges that are due; the epoch that is added to is in the facts.
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

    /// Keeps a process at work on the merges that are due; whether an epoch was closed, if one has ended.
    pub(crate) fn keep_merging(&mut self) -> std::io::Result<Option<bool>> {
        let merged = self.merges.keep_working(&self.facts.epoch)?;
        Ok(merged.map(|merged| merged.closed))
    }

    /// Returns the latest request that has nothing more to wait for.
    pub(crate) fn reached_ticket(&self) -> u64 {
        match self.stopped {
            None => self.merges.reached,
            Some(_) => u64::MAX,
        }
    }

    /// Returns the facts that were last read from the database.
    pub(crate) fn database_facts(&self) -> &DatabaseFacts {
        &self.facts
    }

    /// Returns how many samples there were.
    pub(crate) fn sample_counts(&self) -> SampleCounts {
        self.counts
    }

    /// Returns the drains that are under way.
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

    /// Returns where requests come from now, if the socket was made anew.
    pub(crate) fn take_relocated(&mut self) -> Option<Receiver<Asked>> {
        self.relocated.take()
    }

    /// Asks the writer for something.
    pub(crate) fn send_task(&self, task: WriterTask) {
        self.writer.send_task(task);
    }

    /// Asks for the facts about the database.
    pub(crate) fn ask_for_facts(&mut self) {
        if !std::mem::replace(&mut self.looking, true) {
            self.writer.send_task(WriterTask::Look);
        }
    }

    /// Gives the writer a drain that the kernel has forgotten, or that another collector keeps.
    pub(crate) fn store_drain(&mut self, drain: PendingDrain) {
        self.backlog.add_drain(drain.id, &drain.recording);
        self.writer.send_task(WriterTask::Store(Box::new(drain)));
    }

    /// Gives the writer a drain that the kernel keeps until it is stored.
    pub(crate) fn store_kept(&mut self, drain: PendingDrain) {
        let id = drain.id;
        self.backlog.add_drain(id, &drain.recording);
        self.backlog.enter_kernel(id);
        self.writer.send_task(WriterTask::Store(Box::new(drain)));
    }

    /// Returns whether the next drain can be taken. If the writer is late and the kernel needs the room, it forgets the drain that it keeps,
    /// and only our memory has it.
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

    /// Notes all that the writer has done.
    pub(crate) fn catch_up(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        while let Some(report) = self.writer.wait_for_report(Duration::ZERO) {
            self.take_note(report, collecting)?;
        }
        Ok(())
    }

    /// Waits until all drains are stored, or it is known that they cannot be.
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

    /// Waits until the facts are of now.
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
                // The records of processes find no room if nobody reads them for a second.
                None => drop(collecting.tick()?),
            }
        }
        Ok(())
    }

    /// Takes note of the writer's report. If it cannot store, collecting stops until it can: counts in the kernel stay
    /// there.
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

    /// Waits until the writer and the process that merges have ended.
    pub(crate) fn finish_storing(mut self) {
        self.merges.wait_for_merge();
        self.writer.finish_tasks();
    }
}
