//! State of a process that decides whether its JVM may get commands.

use super::error::AttachError;
use std::path::PathBuf;

/// Bit of SIGQUIT in the sets of signals in `/proc/PID/status`.
const QUIT_BIT: u64 = 1 << 2;
/// Option of a JVM that answers SIGQUIT only with a dump of its threads.
const REFUSAL: &str = "+DisableAttachMechanism";

/// Returns whether a file is HotSpot's library.
pub fn is_jvm_image(path: &str) -> bool {
    path.ends_with("/libjvm.so")
}

/// A process in which a JVM runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmProcess {
    /// Its number in our namespace.
    pub pid: u32,
    /// Its number in its own namespace, which is in the names of its files.
    pub own_pid: u32,
    /// Its effective user, who must own the files of the protocol.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
    /// True if it handles SIGQUIT, which would otherwise end it.
    catches_quit: bool,
    refuses: bool,
}

impl JvmProcess {
    /// Reads the state of a process from `/proc`.
    ///
    /// # Errors
    /// If it has ended, or may not be inspected.
    pub fn read(pid: u32) -> Result<Self, AttachError> {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}"));
        let status = read("status").map_err(|_| AttachError::Ended)?;
        let mut process = Self::parse(pid, &String::from_utf8_lossy(&status));
        let texts = [read("cmdline"), read("environ")];
        process.refuses = texts.iter().flatten().any(|text| {
            let words = text.split(|byte| *byte == 0 || *byte == b' ');
            words
                .into_iter()
                .any(|word| word.ends_with(REFUSAL.as_bytes()))
        });
        Ok(process)
    }

    fn parse(pid: u32, status: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().split_whitespace()
        };
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
        let caught = field("SigCgt:").next();
        let caught = caught.and_then(|word| u64::from_str_radix(word, 16).ok());
        Self {
            pid,
            own_pid: number(field("NSpid:").last()).unwrap_or(pid),
            user: number(field("Uid:").nth(1)).unwrap_or(u32::MAX),
            group: number(field("Gid:").nth(1)).unwrap_or(u32::MAX),
            catches_quit: caught.unwrap_or(0) & QUIT_BIT != 0,
            refuses: false,
        }
    }

    /// Returns the reason why a signal must not be sent to it, if there is one.
    pub(super) fn objection(&self) -> Option<AttachError> {
        match (self.refuses, self.catches_quit) {
            (true, _) => Some(AttachError::Refused),
            (_, false) => Some(AttachError::NotReady),
            _ => None,
        }
    }

    /// Returns a path in `/tmp` as the process sees it.
    pub(super) fn temporary(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/tmp/{name}", self.pid))
    }

    /// Returns the path of its perf map.
    pub fn perf_map(&self) -> PathBuf {
        self.temporary(&format!("perf-{}.map", self.own_pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_numbers_and_signals() {
        let status = "Name:\tjava\nUid:\t1\t1000\t1\t1\nGid:\t2\t1001\t2\t2\nNSpid:\t77\t5\nSigCgt:\t0000000181005ccf\n";
        let process = JvmProcess::parse(77, status);
        assert_eq!(
            (process.own_pid, process.user, process.group),
            (5, 1000, 1001)
        );
        assert_eq!(process.objection(), None);
        assert!(process.perf_map().ends_with("root/tmp/perf-5.map"));
        let deaf = JvmProcess::parse(77, "SigCgt:\t0000000180000000\n");
        assert_eq!(deaf.objection(), Some(AttachError::NotReady));
        assert_eq!(deaf.own_pid, 77);
    }

    #[test]
    fn a_jvm_is_known_by_its_library() {
        assert!(is_jvm_image("/usr/lib/jvm/java-17/lib/server/libjvm.so"));
        assert!(!is_jvm_image("/usr/lib/libjvm.so.debug"));
        assert!(!is_jvm_image("/tmp/notlibjvm.so"));
    }
}
