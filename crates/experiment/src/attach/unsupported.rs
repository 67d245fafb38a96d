//! Processors other than x86-64, on which no code can be loaded into a running program: each
//! function refuses.

use super::RunningProcess;
use super::refuse::{WayIn, check_process, refusal};
use crate::Error;
use crate::memory::CausalMemory;
use sampler::{KernelCredits, Launched, program_text};
use std::convert::Infallible;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Reason for which programs without hooks are refused.
const WITHOUT_HOOKS: &str = "programs that the runtime cannot be loaded into (static ones, Go's, --no-hooks) can be measured on x86-64 only; link it dynamically";

/// A process with the runtime in it, which cannot exist here.
pub(crate) struct Attached<M> {
    never: Infallible,
    memory: PhantomData<M>,
}

/// A command held before its first instruction, which cannot exist here.
pub(crate) struct HeldCommand(Infallible);

/// A program with the signal handler, which cannot exist here.
pub(crate) struct HooklessProgram {
    never: Infallible,
    pub go: bool,
    pub credits: KernelCredits,
}

impl<M> Attached<M> {
    pub fn has_ended(&self) -> bool {
        match self.never {}
    }

    pub fn leave(self) -> bool {
        match self.never {}
    }
}

impl HeldCommand {
    pub fn release(self) -> bool {
        match self.0 {}
    }
}

impl HooklessProgram {
    pub fn unblock_signal(&mut self) {
        match self.never {}
    }

    pub fn leave(self) -> bool {
        match self.never {}
    }
}

/// Refuses to attach to a process.
pub(crate) fn attach_process(
    pid: u32,
    _: &Path,
    _: &AtomicBool,
) -> Result<(Attached<CausalMemory>, CausalMemory), Error> {
    RunningProcess::open(pid)?;
    check_process(pid, WayIn::Library)?;
    Err(refusal(pid, WITHOUT_HOOKS))
}

/// Refuses to attach to a process without hooks.
pub(crate) fn attach_without_hooks(
    pid: u32,
    _: &AtomicBool,
) -> Result<(HooklessProgram, CausalMemory), Error> {
    RunningProcess::open(pid)?;
    check_process(pid, WayIn::Handler)?;
    Err(refusal(pid, WITHOUT_HOOKS))
}

/// Refuses to start a command without hooks.
pub(crate) fn launch_command(
    command: &[OsString],
    _: &CausalMemory,
) -> Result<(Launched, HeldCommand, HooklessProgram), Error> {
    Err(Error::NotLoaded {
        program: program_text(command),
        reason: WITHOUT_HOOKS.to_owned(),
    })
}
