//! Tracing of a process that already runs, from the arrival of the runtime until it leaves.

use super::memory::TraceMemory;
use super::patches::{PlacedCode, place_patches, take_patches_back};
use super::trace_session::{TraceLive, TraceOptions, TraceSession, Traced, TracedTarget};
use crate::attach::{self, Attached, refusal};
use crate::memory::wake_waiters;
use crate::{Error, maps};
use profile::{TraceBatch, TracedBlock};
use runtime_abi::state;
use runtime_abi::trace::remains;
use sampler::Exit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Time limit for the runtime to map our code into the process.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of further attempts. An attempt fails if the program maps memory at the addresses that we
/// chose for our code.
const ADDRESSES_TAKEN: u32 = 5;

/// Traces a process until it ends, `stop` is set or the time is over. The process continues to run.
pub(super) fn trace_process(
    options: &TraceOptions,
    pid: u32,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
    talk: &mut dyn FnMut(&TraceLive),
) -> Result<Traced, Error> {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    if namespace("self") != namespace(&pid.to_string()) {
        return Err(refusal(
            pid,
            "its threads have other numbers for itself than here (a container); run vitalfew inside",
        ));
    }
    let mut tries = 0..ADDRESSES_TAKEN;
    let (attached, mut session) = loop {
        let (attached, shared) = attach::bring_runtime::<TraceMemory>(pid, &options.runtime, stop)?;
        attach::check_reported(pid, &shared.state)?;
        shared.set_room(options.room);
        let prepared = TraceSession::prepare_target(options, shared, pid, true);
        let begun = prepared.and_then(|mut session| match session.begin_in_process(pid)? {
            Begun::Traced => Ok(Some(session)),
            Begun::AddressesTaken => Ok(None),
        });
        match begun {
            Ok(Some(session)) => break (attached, session),
            Ok(None) if tries.next().is_some() => attached.leave(),
            Ok(None) => {
                attached.leave();
                return Err(refusal(
                    pid,
                    "it maps memory all the time, and takes the addresses that our code needs; try again",
                ));
            }
            Err(error) => {
                attached.leave();
                return Err(error);
            }
        };
    };
    let mut process = AttachedProcess { pid, attached };
    session.run_target(&mut process, stop, sink, talk);
    if !process.attached.has_ended() {
        session.leave_process(pid);
    }
    let mut head = session.finish_trace(None, sink);
    let attached = process.attached;
    if attached.has_ended() {
        head.warnings
            .push("the process has ended; what was traced until then is kept".into());
    } else if !attached.leave() {
        head.warnings
            .push("the runtime has not left the process yet; it does nothing meanwhile".into());
    }
    Ok(Traced {
        head,
        exit: None,
        running: None,
    })
}

/// Result of the attempt to map our code and patch the functions.
enum Begun {
    /// Calls of the functions go through our code.
    Traced,
    /// The program has mapped memory at the addresses of our code.
    AddressesTaken,
}

struct AttachedProcess {
    pid: u32,
    attached: Attached<TraceMemory>,
}

impl TracedTarget for AttachedProcess {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn try_end(&mut self) -> Option<Option<Exit>> {
        self.attached.has_ended().then_some(None)
    }
}

impl TraceSession<'_> {
    /// Lets the runtime map our code into the process, and redirects calls to it.
    fn begin_in_process(&mut self, pid: u32) -> Result<Begun, Error> {
        // Before the first patch there is nothing to revert.
        self.shared.remains.store(remains::CODE, Release);
        let words = self.shared.wait_words();
        words.set_state(state::READY, state::RUNNING);
        let start = Instant::now();
        while self.shared.prepared.load(Acquire) == 0 {
            if start.elapsed() > PATIENCE {
                return Err(refusal(
                    pid,
                    "the runtime in it does not get on: this machine is too busy; try again",
                ));
            }
            let seen = self.shared.news.load(Acquire);
            if self.shared.prepared.load(Acquire) == 0 {
                words.wait_for_news(seen, Duration::from_millis(1));
            }
        }
        if self.shared.failed_step.load(Relaxed) != 0 {
            let number = self.shared.failed_errno.load(Relaxed);
            if number == libc::EEXIST {
                return Ok(Begun::AddressesTaken);
            }
            let error = std::io::Error::from_raw_os_error(number);
            let reason = format!("our code cannot be put beside its own: {error}");
            return Err(refusal(pid, &reason));
        }
        self.planner.keeps_jumps = false;
        self.planner.patches.sort_by_key(|patch| patch.at);
        self.shared.remains.store(remains::UNKNOWN, Release);
        let guard = self.shared.guard.load(Acquire);
        let left_out = place_patches(pid, guard, &self.planner.patches).inspect_err(|_| {
            self.shared.remains.store(remains::CODE, Release);
        })?;
        if !left_out.is_empty() {
            self.warnings.push(format!(
                "{} functions are not traced, because threads wait inside of their first instructions or their library was closed",
                left_out.len()
            ));
        }
        Ok(Begun::Traced)
    }

    /// Reverts the patches in the process, and tells the runtime what remains to be unmapped.
    fn leave_process(&mut self, pid: u32) {
        self.let_go();
        // A thread that loads a library waits for an answer.
        let asked = self.shared.asked.load(Acquire);
        self.shared.answered.store(asked, Release);
        wake_waiters(&self.shared.answered);
        let mappings = maps::read_mappings(pid);
        let runtime = mappings
            .iter()
            .filter(|mapping| mapping.path.starts_with("/memfd:vitalfew"));
        let runtime: Vec<_> = runtime.map(|mapping| mapping.range.clone()).collect();
        let placed = PlacedCode {
            patches: &self.planner.patches,
            code: &self.planner.code,
            runtime: &runtime,
            local: self.shared.local.load(Relaxed),
            guard: self.shared.guard.load(Acquire),
        };
        let Some(found) = take_patches_back(pid, &placed) else {
            self.warnings.push(
                "the process could not be stopped at the end: calls of traced functions still go through our code, which does nothing".into(),
            );
            return;
        };
        let mut kind = found.kind;
        let whole = self.shared.failed_step.load(Relaxed) == 0;
        if kind == remains::NOTHING
            && !(whole
                && self
                    .planner
                    .plan_unmapping(&self.shared, &found.locals)
                    .is_ok())
        {
            kind = remains::CODE;
        }
        self.shared.remains.store(kind, Release);
    }
}
