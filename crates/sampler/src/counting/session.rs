//! A count, from the start of the command to its end.

use super::cost::{HitCost, measure_hits};
use super::places::{CountedPlaces, ProbePlace};
use super::thread::{CountedThread, SampleBudget, is_alive};
use crate::events::cost::of_unread;
use crate::events::perf;
use crate::options::TargetSpec;
use crate::processes::launch::{Exit, Launched};
use crate::processes::threads::{process_file, thread_ids};
use crate::{Error, EventSpec};
use profile::{CountWindow, ExecutionCounts, Image, ImageOffset, MapsLine};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of a window, and time between two looks for new threads.
const WINDOW: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(50);

/// Most threads that are sampled. A uprobe in each takes a tenth of a second to take away, so that
/// places are counted only while there are few.
const MOST_THREADS: usize = 64;
const MOST_PROBED: usize = 8;

/// Least time between samples.
const LEAST_PERIOD_NS: u64 = 1_000_000;

/// What to count.
#[derive(Clone, Debug)]
pub struct CountRequest<'a> {
    /// A command, or a process with its children.
    pub target: TargetSpec,
    /// The image of the procedure.
    pub image: &'a Image,
    /// The procedure's start, and the offset after its end.
    pub procedure: Range<ImageOffset>,
    /// The places to count, the most important first.
    pub places: &'a [ProbePlace],
    /// The share of the CPU time that counting may take, in percent.
    pub overhead: f64,
    /// Stops after this time.
    pub duration: Option<Duration>,
}

/// A finished count.
pub struct CountOutcome {
    /// The counts.
    pub counts: ExecutionCounts,
    /// Why no place was counted; registers may have been sampled.
    pub refused: Option<std::io::Error>,
    /// End of the command; `None` without a command, or if it still runs.
    pub exit: Option<Exit>,
    /// Command, if it still runs.
    pub running: Option<Launched>,
}

/// Counts until the target ends, the time is up, or `stop` becomes true.
///
/// # Errors
/// If the command cannot be started, the process cannot be measured, or its threads' clocks
/// cannot be opened.
pub fn count_executions(
    request: &CountRequest<'_>,
    stop: &AtomicBool,
) -> Result<CountOutcome, Error> {
    let spec = EventSpec::cpu_clock();
    let attr = perf::event_attributes(&spec, spec.period_at(crate::events::cost::PROBE_HERTZ));
    let sample_ns = of_unread(&spec, &attr, 4, |_| Ok(()))? as f64;
    // Half of the budget is for samples: of it, half for those in quick succession.
    let half = request.overhead / 200.0;
    let budget = SampleBudget {
        period_ns: LEAST_PERIOD_NS.max((2.0 * sample_ns / half) as u64),
        sample_ns,
        dense_share: half / 2.0,
    };
    let (cost, mut refused) = match measure_hits() {
        Ok(cost) => (cost, None),
        Err(error) => (HitCost::default(), Some(error)),
    };
    let wanted = if refused.is_none() {
        request.places
    } else {
        &[]
    };
    let mut places = CountedPlaces::new(wanted, cost, half);
    let mut launched = match &request.target {
        TargetSpec::Command(command) => Some(Launched::fork_waiting(command)?),
        _ => None,
    };
    let pid = match (&launched, &request.target) {
        (Some(launched), _) => launched.pid(),
        (None, TargetSpec::Process(pid)) => *pid,
        (None, _) => {
            return Err(Error::Refused {
                what: "counting executions".to_owned(),
                reason: "it takes a command or a process".to_owned(),
            });
        }
    };
    if launched.is_none() && thread_ids(pid).is_empty() {
        return Err(Error::NoSuchProcess { pid });
    }
    let mut threads = Threads::default();
    // A process that is not the user's is refused before any wait.
    threads.find_new(pid, request, budget, &mut places)?;
    if let Some(launched) = &mut launched {
        launched.start()?;
    }
    let started = Instant::now();
    let mut looked = Instant::now();
    loop {
        std::thread::sleep(WINDOW);
        refused = threads.next_windows(budget, &mut places).or(refused);
        let is_over = match &mut launched {
            Some(launched) => launched.try_wait().is_some(),
            None => thread_ids(pid).is_empty(),
        };
        let is_late = request
            .duration
            .is_some_and(|limit| started.elapsed() >= limit);
        if is_over || is_late || stop.load(Ordering::Relaxed) {
            break;
        }
        if looked.elapsed() >= LOOK || threads.is_empty() {
            looked = Instant::now();
            threads.find_new(pid, request, budget, &mut places)?;
        }
    }
    let exit = launched.as_mut().and_then(Launched::try_wait);
    Ok(CountOutcome {
        counts: ExecutionCounts {
            threads: threads.finish(),
            hit_ns: places.places.iter().map(|one| one.hit_ns).collect(),
            sample_ns,
        },
        refused,
        running: launched.filter(|_| exit.is_none()),
        exit,
    })
}

/// The counted threads of the processes that have the image.
#[derive(Default)]
struct Threads {
    counted: BTreeMap<u32, CountedThread>,
    /// Threads that have ended or cannot be counted.
    done: BTreeSet<u32>,
    finished: Vec<Vec<CountWindow>>,
}

impl Threads {
    fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// Opens the counters of new threads.
    fn find_new(
        &mut self,
        pid: u32,
        request: &CountRequest<'_>,
        budget: SampleBudget,
        places: &mut CountedPlaces,
    ) -> Result<(), Error> {
        for process in with_descendants(pid) {
            let threads = thread_ids(process);
            let is_new = |one: &u32| !self.counted.contains_key(one) && !self.done.contains(one);
            let new: Vec<u32> = threads.into_iter().filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            // Before it executes the command, a child has the image of this program.
            let Some(base) = base_of_image(process, request)? else {
                continue;
            };
            let procedure = base.wrapping_add(request.procedure.start.0)
                ..base.wrapping_add(request.procedure.end.0);
            let path = format!("/proc/{process}/root{}", request.image.path);
            let path = CString::new(path).unwrap_or_default();
            for thread in new {
                if self.counted.len() >= MOST_THREADS {
                    return Ok(());
                }
                let opened = CountedThread::open(thread, path.clone(), procedure.clone(), budget)
                    .and_then(|mut one| one.count_places(places).map(|_| one));
                match opened {
                    Ok(counted) => {
                        self.counted.insert(thread, counted);
                    }
                    Err(_) if !is_alive(thread) => {
                        self.done.insert(thread);
                    }
                    Err(source) if perf::is_refused(&source) => {
                        return Err(Error::ProcessRefused {
                            pid: process,
                            source,
                        });
                    }
                    Err(source) => {
                        return Err(Error::System {
                            what: "counting executions".to_owned(),
                            source,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins the next window of each thread, in which the places with credit are counted. Returns
    /// why one cannot be.
    fn next_windows(
        &mut self,
        budget: SampleBudget,
        places: &mut CountedPlaces,
    ) -> Option<std::io::Error> {
        let mut hits = vec![0; places.places.len()];
        let (mut cpu_ns, mut ended) = (0, Vec::new());
        for (number, thread) in &mut self.counted {
            match thread.next_window(budget, &mut hits) {
                Ok(spent) if is_alive(*number) => cpu_ns += spent,
                _ => ended.push(*number),
            }
        }
        self.end_threads(&ended);
        let is_possible = self.counted.len() <= MOST_PROBED;
        if !places.settle_window(cpu_ns as f64, &hits, is_possible) {
            return None;
        }
        let (mut refused, mut ended) = (None, Vec::new());
        for (number, thread) in &mut self.counted {
            match thread.count_places(places) {
                Ok(reason) => refused = reason.or(refused),
                Err(_) => ended.push(*number),
            }
        }
        self.end_threads(&ended);
        refused
    }

    fn end_threads(&mut self, ended: &[u32]) {
        for number in ended {
            self.done.insert(*number);
            self.finished
                .extend(self.counted.remove(number).map(|one| one.windows));
        }
    }

    fn finish(self) -> Vec<Vec<CountWindow>> {
        let counted = self.counted.into_values().map(|one| one.windows);
        self.finished.into_iter().chain(counted).collect()
    }
}

/// Returns a process with its children and theirs.
fn with_descendants(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        next += 1;
        for thread in thread_ids(process) {
            let path = format!("/proc/{process}/task/{thread}/children");
            let children = std::fs::read_to_string(path).unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .filter_map(|one| one.parse::<u32>().ok()),
            );
        }
    }
    all
}

/// Returns the address of the image's first byte in a process, as the mapping of the procedure has
/// it. `None` if the process does not map it.
fn base_of_image(pid: u32, request: &CountRequest<'_>) -> Result<Option<u64>, Error> {
    let maps = match std::fs::read(process_file(pid, "maps")) {
        Ok(maps) => String::from_utf8_lossy(&maps).into_owned(),
        Err(source) if perf::is_refused(&source) => {
            return Err(Error::ProcessRefused { pid, source });
        }
        Err(_) => return Ok(None),
    };
    let image = request.image;
    let start = request.procedure.start.0;
    let is_image = |line: &MapsLine<'_>| {
        let same = |one: profile::FileIdentity| {
            let file = line.file;
            file.is_some_and(|file| {
                (file.major, file.minor, file.inode) == (one.major, one.minor, one.inode)
            })
        };
        line.path == image.path || image.file.is_some_and(same)
    };
    let has_start = |line: &MapsLine<'_>| {
        let length = line.addresses.end.saturating_sub(line.addresses.start);
        start.wrapping_sub(line.file_offset) < length
    };
    let mut lines = MapsLine::parse_all(&maps);
    let line = lines.find(|line| line.executable && is_image(line) && has_start(line));
    Ok(line.map(|line| line.addresses.start.wrapping_sub(line.file_offset)))
}
