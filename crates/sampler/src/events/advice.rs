//! Explanations of the kernel's error numbers for events.

use crate::capabilities::Question;
use crate::{Error, EventKind, EventSpec};
use std::io;

/// Returns why an event could not be opened, by the error number of perf_event_open(2).
pub(crate) fn event_refused(spec: &EventSpec, source: io::Error) -> Error {
    if spec.branches {
        let reason = match crate::capabilities::probe_machine().get(Question::Branches) {
            Err(gap) => format!("{}; {}", gap.missing, gap.fix),
            Ok(()) => "the processor gives no branch records with this event".to_owned(),
        };
        return Error::EventRefused {
            name: spec.name.clone(),
            reason,
            source,
        };
    }
    let hardware = matches!(spec.kind, EventKind::Cycles | EventKind::Hardware);
    let reason = match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) if hardware => {
            "this machine shows no performance-monitoring unit that counts it (usual in virtual machines); use -e cpu-clock instead"
        }
        Some(libc::ENOENT) => "the kernel does not have it",
        Some(libc::EOPNOTSUPP) if spec.precise > 0 => {
            "the processor cannot take it that precisely; leave out the modifier p"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "not permitted; as root: sysctl kernel.perf_event_paranoid=1 (own processes) or -1 (all), or run as root; 'vitalfew doctor' says more"
        }
        Some(libc::EINVAL) => "the kernel does not accept this combination",
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many open files; raise the limit with: ulimit -n 65536"
        }
        Some(libc::EBUSY) => "another user of the counters has taken them",
        _ => "perf_event_open failed",
    };
    Error::EventRefused {
        name: spec.name.clone(),
        reason: reason.to_owned(),
        source,
    }
}
