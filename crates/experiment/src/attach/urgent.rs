//! A program's threads stand for as long as this process needs; so it needs a processor at once.

use libc::c_int;

/// Nice value of the highest priority.
const FIRST: c_int = -20;

/// While it lives, this thread runs before those of usual programs, where it may. (A real-time thread would take the processor
/// on which it was last, though another one is idle, and the thread that stands is woken behind who ran there.)
pub(super) struct Urgent {
    /// Its nice value before.
    before: Option<c_int>,
}

impl Urgent {
    /// Begins.
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
            // SAFETY: a plain call; who may take precedence may give it up.
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
