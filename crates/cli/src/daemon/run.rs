//! `vitalfew daemon run`: drains the collector, stores the drains, keeps to its budget.

use super::control::{Answer, Asked, Request, listen, private_directory};
use super::privileges;
use super::status::Status;
use crate::args::DaemonRun;
use crate::exit::{Coded, FAILURE};
use crate::output::printable;
use anyhow::Context;
use profile::{Event, ImageKind, Recording};
use sampler::{Continuous, ContinuousOptions, Drain, EventSpec, LeftBehind, Rate};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Database, Error as StoreError, OpenEpoch, PartId};

/// How often new periods are set and the tables looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often storing is tried again when it failed.
const RETRY: Duration = Duration::from_secs(5);
/// How often it is looked whether CPUs came or went.
const CPUS: Duration = Duration::from_secs(5);
/// How long cost is averaged before the rate is judged by it.
const COST_WINDOW: Duration = Duration::from_secs(30);
/// The rate is raised again only after so many windows well below the budget.
const PATIENT_WINDOWS: u32 = 60;
/// A cost that is so many times the budget is not averaged.
const BURST: f64 = 5.0;
/// The lowest rate that the budget leads to, in samples a second on each CPU.
const LEAST_RATE: u64 = 10;
/// The part of the budget that samples may take at the start; the daemon needs some.
const SAMPLES_PART: f64 = 0.8;

/// Runs the command.
pub fn run(args: &DaemonRun) -> anyhow::Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    signal_hook::flag::register(SIGHUP, leave.clone())?;

    let came_from = std::env::current_dir();
    let path = args.db.clone().unwrap_or_else(store::default_database);
    Database::create(&path).context("no place for the database (--db DIR)")?;
    let path = fs::canonicalize(&path)?;
    let database = Database::create(&path)?;
    let host = sampler::host().name;
    refuse_newer(&database, &host)?;
    let socket = args
        .socket
        .as_deref()
        .map(std::path::absolute)
        .transpose()?;
    let place = Place::take(&database, &host, socket.as_deref())?;
    let pins = match args.no_pin {
        true => Err("--no-pin".to_owned()),
        false => super::pins::of(&path),
    };
    let left = match &pins {
        Ok(pins) => sampler::left_behind(pins)?,
        Err(_) => Vec::new(),
    };
    let open = database.open_epochs(&host)?;
    let collector = next_collector(&open, &left);
    let options = ContinuousOptions {
        events: args
            .events
            .iter()
            .map(|e| EventSpec::parse(e))
            .collect::<Result<_, _>>()?,
        rate: args
            .frequency
            .map_or(Rate::Overhead(args.budget * SAMPLES_PART), Rate::Frequency),
        interval: args.interval,
        pins: pins
            .as_ref()
            .ok()
            .map(|pins| pins.join(format!("{collector:020}"))),
        find_names: super::names::find_elsewhere,
    };
    // No file system is kept from being unmounted.
    std::env::set_current_dir("/").context("changing to /")?;
    let ended = sampler::sample_continuously(options, |collecting| {
        for problem in privileges::reduce(&path) {
            say(&problem);
        }
        let requests = listen(&place.socket).with_context(|| {
            format!(
                "the socket {} (--socket PATH names another)",
                place.socket.display()
            )
        })?;
        let mut daemon = Daemon::new(args, database, host, place, collector, requests);
        daemon.not_pinned = match (collecting.pinned(), &pins) {
            (Ok(()), _) => None,
            (Err(_), Err(why)) => Some(why.clone()),
            (Err(why), _) => Some(why.to_owned()),
        };
        daemon.start(collecting, open, left)?;
        daemon.serve(collecting, &stop, &leave)
    })??;
    match ended {
        Ended::With(code) => {
            if let Ok(pins) = &pins {
                super::pins::tidy(pins);
            }
            Ok(code)
        }
        Ended::ToStartAgain => {
            std::env::set_current_dir(came_from?).context("starting again")?;
            let mut args = std::env::args_os();
            let mut again = Command::new("/proc/self/exe");
            again.arg0(args.next().unwrap_or_default()).args(args);
            Err(anyhow::Error::from(again.exec()).context("starting again"))
        }
    }
}

/// How a daemon ends.
enum Ended {
    With(ExitCode),
    /// By a new daemon in the same process, that takes over.
    ToStartAgain,
}

pub(super) fn say(text: &str) {
    eprintln!("vitalfew: {}", printable(text));
}

fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() as u64
}

/// A database that a newer program wrote to is left alone.
fn refuse_newer(database: &Database, host: &str) -> anyhow::Result<()> {
    for epoch in database.select(&store::Range::default(), Some(host))? {
        let newer = |error: &StoreError| matches!(error, StoreError::Newer { .. });
        let mut unreadable = epoch.summary.err().into_iter().chain(epoch.damaged);
        if let Some(error) = unreadable.find(newer) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// A number for the collector, above all that were there before, whatever the clock says.
fn next_collector(open: &[OpenEpoch], left: &[(String, PathBuf)]) -> u64 {
    let stored = open.iter().filter_map(|epoch| epoch.last().ok().flatten());
    let stored = stored.map(|part| part.collector);
    let left = left.iter().filter_map(|(name, _)| name.parse::<u64>().ok());
    let last = stored.chain(left).max();
    last.map_or(0, |last| last.saturating_add(1)).max(unix_ns())
}

/// Whether a daemon of this host writes to a database.
pub fn is_running(database: &Path, host: &str) -> bool {
    let lock = Database::open(database)
        .ok()
        .and_then(|database| File::open(database.daemon_directory(host).join("lock")).ok());
    lock.is_some_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// What makes this daemon the only one: its directory, its lock, its socket.
struct Place {
    directory: PathBuf,
    socket: PathBuf,
    lock: File,
}

impl Place {
    fn take(database: &Database, host: &str, socket: Option<&Path>) -> anyhow::Result<Self> {
        let directory = database.daemon_directory(host);
        private_directory(&directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        let socket = socket.map_or_else(|| directory.join("socket"), Path::to_owned);
        let path = directory.join("lock");
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let lock = opened.with_context(|| format!("opening {}", path.display()))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Coded {
                code: FAILURE,
                message: format!(
                    "another daemon of {host} writes to {}; ask it: vitalfew daemon status --db {0}",
                    database.path().display()
                ),
            }
            .into()),
            Err(TryLockError::Error(error)) => {
                Err(anyhow::Error::from(error).context(format!("locking {}", path.display())))
            }
            Ok(()) => Ok(Self {
                directory,
                socket,
                lock,
            }),
        }
    }

    /// Whether somebody removed it.
    fn is_gone(&self) -> bool {
        let there = fs::metadata(self.directory.join("lock"));
        let ours = self.lock.metadata();
        match (there, ours) {
            (Ok(there), Ok(ours)) => there.ino() != ours.ino(),
            (Err(error), _) => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Where the events of a collector are described for whoever takes it over.
    fn described(&self, collector: u64) -> PathBuf {
        self.directory
            .join(format!("collector-{collector:020}.json"))
    }

    fn describe(&self, collector: u64, events: &[Event]) -> anyhow::Result<()> {
        let path = self.described(collector);
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(events)?)?;
        fs::rename(&new, &path)?;
        Ok(())
    }
}

/// A drain that is not stored yet.
struct Pending {
    id: PartId,
    recording: Recording,
    /// Of our own collector, which then forgets it.
    own: bool,
}

/// What a process beside us has to do.
struct Merge {
    epoch: PathBuf,
    all: bool,
    close: bool,
}

/// Samples so far.
#[derive(Default)]
struct Counts {
    taken: u64,
    stored: u64,
    dropped: u64,
    taken_over: u64,
    unknown: u64,
}

/// What collecting costs, over a window.
struct Cost {
    since: Instant,
    cpu_ns: u64,
    taken: u64,
    sampling: f64,
    own: f64,
    /// Of both, over the time between two merges, so that one does not lower the rate.
    average: Option<f64>,
    calm: u32,
}

struct Daemon<'a> {
    args: &'a DaemonRun,
    database: Database,
    host: String,
    place: Place,
    collector: u64,
    epoch: OpenEpoch,
    epoch_began: Instant,
    pending: VecDeque<Pending>,
    requests: Receiver<Asked>,
    /// Who waits for so many merges to be done.
    waiting: Vec<(u64, Asked)>,
    merges: VecDeque<Merge>,
    merges_done: u64,
    merging: Option<Child>,
    merged: Instant,
    stopped: Option<String>,
    tried: Instant,
    counts: Counts,
    cost: Cost,
    most_frequency: u64,
    started: Instant,
    not_pinned: Option<String>,
}

impl<'a> Daemon<'a> {
    fn new(
        args: &'a DaemonRun,
        database: Database,
        host: String,
        place: Place,
        collector: u64,
        requests: Receiver<Asked>,
    ) -> Self {
        let now = Instant::now();
        Self {
            args,
            database,
            host,
            place,
            collector,
            epoch: OpenEpoch::at(Path::new("")),
            epoch_began: now,
            pending: VecDeque::new(),
            requests,
            waiting: Vec::new(),
            merges: VecDeque::new(),
            merges_done: 0,
            merging: None,
            merged: now,
            stopped: None,
            tried: now,
            counts: Counts::default(),
            cost: Cost {
                since: now,
                cpu_ns: 0,
                taken: 0,
                sampling: 0.0,
                own: 0.0,
                average: None,
                calm: 0,
            },
            most_frequency: 0,
            started: now,
            not_pinned: None,
        }
    }

    /// Begins to collect, and takes over what daemons before this one left behind.
    fn start(
        &mut self,
        collecting: &mut Continuous<'_>,
        open: Vec<OpenEpoch>,
        left: Vec<(String, PathBuf)>,
    ) -> anyhow::Result<()> {
        self.most_frequency = collecting.frequency();
        self.place
            .describe(self.collector, &collecting.described_events())?;
        // From the old ones to the new one within less than a period: none counts twice, whenever we
        // are killed.
        let opened = left.into_iter().map(|(name, directory)| {
            let left = LeftBehind::open(&directory);
            (name, directory, left)
        });
        let opened: Vec<_> = opened.collect();
        let halted = opened.iter().filter_map(|(_, _, left)| left.as_ref().ok());
        let halted: Vec<_> = halted.map(LeftBehind::halt).collect();
        collecting.enable()?;
        halted.into_iter().collect::<Result<(), _>>()?;
        let stopped = opened.into_iter().map(|(name, directory, left)| {
            let left = left.and_then(|left| left.stop().map(|()| left));
            (name, directory, left)
        });
        let stopped: Vec<_> = stopped.collect();
        if let Some(why) = &self.not_pinned {
            say(&format!(
                "warning: if this daemon is killed, what it has not stored yet ({} s at most) is lost: {why}",
                self.args.interval.as_secs()
            ));
        }
        self.continue_epoch(&open)?;
        for (name, directory, left) in stopped {
            let taken = match left {
                // One that did not begin, or was stored and not removed any more.
                Err(_) if !sampler::may_count(&directory) => {
                    sampler::unpin(&directory).map_err(anyhow::Error::from)
                }
                Err(error) => Err(error.into()),
                Ok(left) => self.take_over(collecting, &open, &name, left),
            };
            if let Err(error) = taken {
                say(&format!(
                    "what a daemon before this one counted and did not store is lost: {error:#}"
                ));
                sampler::unpin(&directory)?;
            }
        }
        self.store(collecting)?;
        // What was counted before is not a cost of this time.
        (self.cost.cpu_ns, self.cost.taken) = (sampler::cpu_time_ns(), self.counts.taken);
        self.cost.since = Instant::now();
        let events: Vec<&str> = collecting.events().collect();
        say(&format!(
            "collecting {} at {} Hz on each CPU into {}",
            events.join(", "),
            collecting.frequency(),
            self.epoch.path().display()
        ));
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        Ok(())
    }

    /// Goes on with the last epoch, if it is young enough; others are closed.
    fn continue_epoch(&mut self, open: &[OpenEpoch]) -> anyhow::Result<()> {
        let mut last = None;
        for epoch in open {
            epoch.clean()?;
            self.merges.extend(last.replace(epoch).map(closing));
        }
        let age = |epoch: &OpenEpoch| {
            let epochs = self.database.epochs().unwrap_or_default();
            let same = epochs.into_iter().find(|e| e.path == epoch.path());
            let start = same.and_then(|e| Some(e.summary.ok()?.start_unix_ns));
            start.map_or(0, |start| unix_ns().saturating_sub(start))
        };
        self.epoch = match last {
            Some(epoch) if u128::from(age(epoch)) < self.args.epoch.as_nanos() => {
                self.epoch_began -=
                    Duration::from_nanos(age(epoch)).min(self.epoch_began.elapsed());
                epoch.clone()
            }
            last => {
                self.merges.extend(last.map(closing));
                self.database.begin_epoch(&self.host, unix_ns())?
            }
        };
        Ok(())
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
        let described = self.place.described(collector);
        let events = fs::read(&described)
            .with_context(|| format!("its events are not known: {}", described.display()))?;
        let events: Vec<Event> = serde_json::from_slice(&events)
            .with_context(|| format!("its events are not known: {}", described.display()))?;
        let part = |number: u32| PartId {
            collector,
            drain: number,
        };
        let stored = |number| {
            open.iter()
                .any(|epoch| epoch.holds(part(number)).unwrap_or(false))
        };
        let drains = collecting.take_over(&left, &events, collector, stored)?;
        for Drain { number, recording } in drains {
            self.pending.push_back(Pending {
                id: part(number),
                recording,
                own: false,
            });
        }
        self.store(collecting)?;
        if !self.pending.is_empty() {
            // It stays where it is: if we are killed now, the next daemon finds it.
            anyhow::ensure!(self.stopped.is_some(), "it could not be stored");
            return Ok(());
        }
        left.remove()?;
        let _ = fs::remove_file(described);
        Ok(())
    }

    fn serve(
        &mut self,
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
            if looked.elapsed() >= CPUS && self.stopped.is_none() {
                looked = Instant::now();
                if let Some(change) = collecting.changed_cpus() {
                    say(&format!("{change}: starting again"));
                    self.finish(collecting, false)?;
                    return Ok(Ended::ToStartAgain);
                }
            }
            let due = collecting.tick()?;
            if self.stopped.is_some() {
                if self.tried.elapsed() >= RETRY {
                    self.store(collecting)?;
                }
            } else if due {
                self.drain(collecting)?;
            }
            self.roll(collecting)?;
            self.merge()?;
            self.mind_cost(collecting)?;
            self.answer(collecting)?;
            if watchdog.is_some_and(|limit| alive.elapsed() >= limit) {
                alive = Instant::now();
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
        }
    }

    /// The last drain. If the collector is not to end, it goes on counting for the next daemon.
    fn finish(&mut self, collecting: &mut Continuous<'_>, end: bool) -> anyhow::Result<ExitCode> {
        if end {
            collecting.disable()?;
        }
        self.drain(collecting)?;
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
            if collecting.is_counting()? {
                self.drain(collecting)?;
            }
            collecting.end()?;
            let _ = fs::remove_file(self.place.described(self.collector));
        } else {
            say("left the collector counting for the next daemon");
            collecting.leave();
        }
        if let Some(child) = &mut self.merging {
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.place.socket);
        Ok(ExitCode::SUCCESS)
    }

    /// Drains the collector, and stores that.
    fn drain(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        if self.pending.iter().all(|pending| !pending.own) {
            let Drain { number, recording } = collecting.drain()?;
            self.pending.push_back(Pending {
                id: PartId {
                    collector: self.collector,
                    drain: number,
                },
                recording,
                own: true,
            });
        }
        self.store(collecting)
    }

    /// Stores what is pending. If that fails, collecting stops until it succeeds: what is in the
    /// kernel stays there.
    fn store(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        self.tried = Instant::now();
        if self.epoch.is_closed() {
            // By the process of a daemon that was killed; nothing may be added to it.
            self.epoch = self.database.begin_epoch(&self.host, unix_ns())?;
            self.epoch_began = Instant::now();
        }
        while let Some(pending) = self.pending.front() {
            // An idle machine's drain is empty: nothing to store, and nothing to forget.
            let taken: u64 = pending
                .recording
                .events
                .iter()
                .map(|event| event.taken)
                .sum();
            if taken > 0
                && let Err(error) = self.epoch.add(pending.id, &pending.recording)
            {
                if self.stopped.is_none() {
                    say(&format!(
                        "collecting stops until there is a place to store: {error}"
                    ));
                    collecting.disable()?;
                }
                let status = format!("stopped: {error}");
                let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
                self.stopped = Some(error.to_string());
                return Ok(());
            }
            if pending.own {
                collecting.stored()?;
            }
            if let Some(pending) = self.pending.pop_front() {
                self.counts.add(&pending);
            }
        }
        if self.stopped.take().is_some() {
            say("collecting goes on");
            let _ = sd_notify::notify(&[NotifyState::Status("collecting")]);
            collecting.enable()?;
        }
        Ok(())
    }

    /// Begins a new epoch when it is time.
    fn roll(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        if self.epoch_began.elapsed() >= self.args.epoch && self.stopped.is_none() {
            self.drain(collecting)?;
            self.new_epoch()?;
        }
        Ok(())
    }

    fn new_epoch(&mut self) -> anyhow::Result<()> {
        if self.stopped.is_some() {
            return Ok(());
        }
        let next = self.database.begin_epoch(&self.host, unix_ns())?;
        let old = std::mem::replace(&mut self.epoch, next);
        self.epoch_began = Instant::now();
        self.merges.push_back(closing(&old));
        Ok(())
    }

    /// Keeps one process at work on the merges that are due.
    fn merge(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.merging {
            match child.try_wait()? {
                None => return Ok(()),
                Some(status) => {
                    if !status.success() {
                        say(&format!(
                            "merging failed ({status}); it will be tried again"
                        ));
                    }
                    self.merging = None;
                    self.merges_done += 1;
                    self.merged = Instant::now();
                    self.place_again()?;
                }
            }
        }
        if self.merges.is_empty() && self.merged.elapsed() >= self.args.merge {
            self.merged = Instant::now();
            self.merges.push_back(Merge {
                epoch: self.epoch.path().to_owned(),
                all: false,
                close: false,
            });
        }
        let Some(merge) = self.merges.pop_front() else {
            return Ok(());
        };
        // This program, even if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["daemon", "merge", "--db"])
            .arg(self.database.path());
        command.arg("--epoch").arg(&merge.epoch);
        if merge.all {
            command.arg("--all");
        }
        if merge.close {
            command.arg("--close");
            if let Some(keep) = self.args.keep.keep {
                command
                    .arg("--keep")
                    .arg(format!("{}s", keep.as_secs_f64()));
            }
            if let Some(size) = self.args.keep.keep_size {
                command.arg("--keep-size").arg(size.to_string());
            }
        }
        command.stdin(Stdio::null());
        match command.spawn() {
            Ok(child) => self.merging = Some(child),
            Err(error) => {
                self.merges_done += 1;
                say(&format!("merging cannot be started: {error}"));
            }
        }
        Ok(())
    }

    /// Takes the lock and the socket anew if somebody removed the directory.
    fn place_again(&mut self) -> anyhow::Result<()> {
        if self.place.is_gone() {
            say("the database was removed while it was written to; it is made again");
            let socket = self.args.socket.as_ref().map(|_| self.place.socket.clone());
            self.place = Place::take(&self.database, &self.host, socket.as_deref())?;
            self.requests = listen(&self.place.socket)?;
        }
        Ok(())
    }

    /// The cost that the rate is judged by: the average over the time between two merges, unless it
    /// is far too high.
    fn judged(&mut self, share: f64, passed: Duration, budget: f64) -> f64 {
        if share > BURST * budget {
            return share;
        }
        let weight = passed.as_secs_f64() / self.args.merge.max(passed).as_secs_f64();
        // Half of the budget is as good a guess as any before there is an average.
        let average = self.cost.average.unwrap_or(budget / 2.0);
        *self
            .cost
            .average
            .insert(average + (share - average) * weight)
    }

    /// Measures what collecting costs, and lowers the rate rather than exceed the budget.
    fn mind_cost(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        let passed = self.cost.since.elapsed();
        if passed < COST_WINDOW.min(self.args.interval * 2) {
            return Ok(());
        }
        let machine_ns = passed.as_nanos() as f64 * f64::from(sampler::host().cpus.max(1));
        let cpu_ns = sampler::cpu_time_ns();
        let sampled = (self.counts.taken - self.cost.taken) * collecting.sample_cost_ns();
        self.cost.own = cpu_ns.saturating_sub(self.cost.cpu_ns) as f64 / machine_ns;
        self.cost.sampling = sampled as f64 / machine_ns;
        self.cost.since = Instant::now();
        (self.cost.cpu_ns, self.cost.taken) = (cpu_ns, self.counts.taken);
        self.place_again()?;
        let budget = self.args.budget / 100.0;
        let share = self.judged(self.cost.own + self.cost.sampling, passed, budget);
        let now = collecting.frequency();
        let least = LEAST_RATE.min(self.most_frequency);
        let wanted = if share > budget {
            self.cost.calm = 0;
            ((now as f64 * (budget / share).max(0.1) * 0.9) as u64).max(least)
        } else if share < budget * 0.6 && now < self.most_frequency {
            self.cost.calm += 1;
            match self.cost.calm {
                PATIENT_WINDOWS.. => (now * 5 / 4 + 1).min(self.most_frequency),
                _ => now,
            }
        } else {
            self.cost.calm = 0;
            now
        };
        if wanted != now && self.stopped.is_none() {
            self.cost.calm = 0;
            self.cost.average = None;
            say(&format!(
                "{:.2} % of the machine, with a budget of {:.2} %: from {now} to {wanted} Hz, and a new epoch",
                100.0 * share,
                self.args.budget
            ));
            // An epoch has one rate, so that its samples weigh the same.
            self.drain(collecting)?;
            collecting.set_frequency(wanted);
            self.place
                .describe(self.collector, &collecting.described_events())?;
            self.new_epoch()?;
        }
        Ok(())
    }

    fn answer(&mut self, collecting: &mut Continuous<'_>) -> anyhow::Result<()> {
        while let Ok((request, reply)) = self.requests.try_recv() {
            match request {
                Request::Status => {}
                Request::Flush => {
                    self.drain(collecting)?;
                    self.merges.push_back(Merge {
                        epoch: self.epoch.path().to_owned(),
                        all: true,
                        close: false,
                    });
                }
                Request::Epoch => {
                    self.drain(collecting)?;
                    self.new_epoch()?;
                }
            }
            let merges = self.merges.len() as u64 + u64::from(self.merging.is_some());
            let until = match request {
                Request::Status => 0,
                _ => self.merges_done + merges,
            };
            self.waiting.push((until, (request, reply)));
        }
        for (until, (request, reply)) in std::mem::take(&mut self.waiting) {
            if self.merges_done >= until {
                // Who asked may have gone.
                let _ = reply.send(Answer::Status(Box::new(self.status(collecting))));
            } else {
                self.waiting.push((until, (request, reply)));
            }
        }
        Ok(())
    }

    fn status(&self, collecting: &Continuous<'_>) -> Status {
        let range = store::Range::default();
        let epochs = self
            .database
            .select(&range, Some(&self.host))
            .unwrap_or_default();
        let sizes = epochs
            .iter()
            .filter_map(|epoch| epoch.summary.as_ref().ok());
        Status {
            schema: "vitalfew.status/1".into(),
            pid: std::process::id(),
            uptime_ns: self.started.elapsed().as_nanos() as u64,
            events: collecting.events().map(str::to_owned).collect(),
            frequency: collecting.frequency(),
            taken: self.counts.taken,
            stored: self.counts.stored,
            dropped: self.counts.dropped,
            taken_over: self.counts.taken_over,
            unknown: self.counts.unknown as f64 / self.counts.stored.max(1) as f64,
            sampling_share: self.cost.sampling,
            own_share: self.cost.own,
            budget: self.args.budget / 100.0,
            resident_bytes: resident_bytes(),
            remembered: collecting.remembered(),
            epoch: self.epoch.path().to_owned(),
            parts: self.epoch.len().unwrap_or(0),
            epochs: epochs.len(),
            disk_bytes: sizes.map(|summary| summary.bytes).sum(),
            not_pinned: self.not_pinned.clone(),
            stopped: self.stopped.clone(),
        }
    }
}

fn closing(epoch: &OpenEpoch) -> Merge {
    Merge {
        epoch: epoch.path().to_owned(),
        all: true,
        close: true,
    }
}

impl Counts {
    fn add(&mut self, pending: &Pending) {
        let recording = &pending.recording;
        let stored: u64 = recording.events.iter().map(|event| event.stored).sum();
        self.stored += stored;
        self.taken += recording
            .events
            .iter()
            .map(|event| event.taken)
            .sum::<u64>();
        self.dropped += recording
            .events
            .iter()
            .map(|event| event.dropped)
            .sum::<u64>();
        if !pending.own {
            self.taken_over += stored;
        }
        for sample in &recording.samples {
            let image = recording.stacks.frame(sample.stack).location.image;
            let kind = recording.image(image).kind;
            if matches!(kind, ImageKind::Unknown | ImageKind::Anonymous) {
                self.unknown += sample.count;
            }
        }
    }
}

fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
