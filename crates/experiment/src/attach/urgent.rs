//! A program's threads stand for as long as this process needs; so it needs the processor first.

use libc::{c_int, sched_param};

/// While it lives, this thread runs before those of usual programs, where it may.
pub(super) struct Urgent {
    /// What it was before.
    before: Option<(c_int, sched_param)>,
}

impl Urgent {
    /// Begins.
    pub fn begin() -> Self {
        let first = sched_param { sched_priority: 1 };
        let mut parameters = sched_param { sched_priority: 0 };
        // SAFETY: the parameters live during the calls; 0 is this thread.
        let before = unsafe {
            let policy = libc::sched_getscheduler(0);
            let known = policy >= 0 && libc::sched_getparam(0, &raw mut parameters) == 0;
            let usual = known && policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER;
            let set = usual && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0;
            set.then_some((policy, parameters))
        };
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = self.before {
            // SAFETY: the parameters live during the call.
            unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_usual_afterwards() {
        // SAFETY: asks about this thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let usual = policy();
        let urgent = Urgent::begin();
        let expected = match urgent.before {
            Some(_) => libc::SCHED_FIFO,
            None => usual,
        };
        assert_eq!(policy(), expected);
        drop(urgent);
        assert_eq!(policy(), usual);
    }
}
