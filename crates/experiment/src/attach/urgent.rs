//! Raised priority: threads of a program are stopped for as long as this process works, so it needs
//! a processor at once.

use libc::c_int;

/// Nice value of the highest priority.
const FIRST: c_int = -20;

/// Runs the current thread ahead of usual programs while it lives, if that is allowed. (A real-time
/// priority is worse: such a thread takes the processor that it ran on last, even if another one is
/// idle, and the stopped thread is woken after whichever ran there.)
pub(super) struct Urgent {
    /// The nice value before.
    before: Option<c_int>,
}

impl Urgent {
    /// Raises the priority.
    pub fn begin() -> Self {
        // SAFETY: plain calls; 0 is this thread.
        let before = unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            let set = before > FIRST && libc::setpriority(libc::PRIO_PROCESS, 0, FIRST) == 0;
            set.then_some(before)
        };
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: a plain call; a process that may raise its priority may lower it.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_usual_afterwards() {
        // SAFETY: asks about this thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let usual = nice();
        let urgent = Urgent::begin();
        let expected = urgent.before.map_or(usual, |_| FIRST);
        assert_eq!(nice(), expected);
        drop(urgent);
        assert_eq!(nice(), usual);
    }
}
