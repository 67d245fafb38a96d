//! Targets of measurements: a launched command, or a process that ran before.

use crate::attach::{Attached, HeldCommand, RunningProcess};
use crate::memory::CausalMemory;
use sampler::{Exit, Launched};

/// End of a target.
pub(crate) enum TargetEnd {
    /// A launched command.
    Exit(Exit),
    /// A process that is not a child.
    Gone,
}

/// A target of a measurement.
pub(crate) trait Target {
    /// Releases the target, if it has been held until now. Returns a remark on its start, if there
    /// is one.
    fn release(&mut self) -> Option<&'static str> {
        None
    }
    /// Returns whether the target has ended, at least in part: it may not have been waited for.
    fn has_ended(&self) -> bool;
    /// Returns the target's end, if it has ended.
    fn try_wait(&mut self) -> Option<TargetEnd>;
}

impl Target for Launched {
    fn has_ended(&self) -> bool {
        Launched::has_ended(self)
    }

    fn try_wait(&mut self) -> Option<TargetEnd> {
        Launched::try_wait(self).map(TargetEnd::Exit)
    }
}

impl Target for &Attached<CausalMemory> {
    fn has_ended(&self) -> bool {
        Attached::has_ended(self)
    }

    fn try_wait(&mut self) -> Option<TargetEnd> {
        Attached::has_ended(self).then_some(TargetEnd::Gone)
    }
}

impl Target for &RunningProcess {
    fn has_ended(&self) -> bool {
        RunningProcess::has_ended(self)
    }

    fn try_wait(&mut self) -> Option<TargetEnd> {
        RunningProcess::has_ended(self).then_some(TargetEnd::Gone)
    }
}

/// A command held before its first instruction.
pub(crate) struct HeldTarget {
    pub launched: Launched,
    pub held: Option<HeldCommand>,
}

/// Message about a Go program that does not install its handlers as others do.
const GO_IS_STRANGE: &str = "the program is Go's, but does not start as such programs do: it may handle the sampling signal itself, and nothing is sampled then";

impl Target for HeldTarget {
    fn release(&mut self) -> Option<&'static str> {
        let expected = self.held.take().is_none_or(HeldCommand::release);
        // A program that has ended had no time to install them.
        (!expected && !self.has_ended()).then_some(GO_IS_STRANGE)
    }

    fn has_ended(&self) -> bool {
        self.launched.has_ended()
    }

    fn try_wait(&mut self) -> Option<TargetEnd> {
        self.launched.try_wait().map(TargetEnd::Exit)
    }
}
