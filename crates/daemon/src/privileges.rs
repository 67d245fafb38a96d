//! Privileges that the daemon still needs once it runs.

use caps::{CapSet, Capability, CapsHashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Drops all privileges except those for collecting: to read the collector's tables, and the
/// mappings and programs of all users. Returns messages about privileges that it could not drop.
pub(crate) fn drop_privileges(database: &Path) -> Vec<String> {
    let mut needed: CapsHashSet = [
        Capability::CAP_BPF,
        Capability::CAP_PERFMON,
        Capability::CAP_SYS_PTRACE,
        Capability::CAP_DAC_READ_SEARCH,
        Capability::CAP_SYSLOG,
        Capability::CAP_CHECKPOINT_RESTORE,
    ]
    .into();
    let own = rustix::process::geteuid().as_raw();
    if std::fs::metadata(database).is_ok_and(|meta| meta.uid() != own) {
        // In another user's directory, root wrote by this right.
        needed.insert(Capability::CAP_DAC_OVERRIDE);
        needed.insert(Capability::CAP_FOWNER);
    }
    let supported = caps::runtime::thread_all_supported();
    if !supported.contains(&Capability::CAP_BPF) {
        // Before Linux 5.8 one right covers everything.
        needed.insert(Capability::CAP_SYS_ADMIN);
    }
    let mut failed = Vec::new();
    let mut note = |what: &str, error: &dyn std::fmt::Display| {
        failed.push(format!("{what} could not be given up: {error}"));
    };
    for capability in supported {
        if !needed.contains(&capability)
            && caps::has_cap(None, CapSet::Bounding, capability).unwrap_or(false)
            && let Err(error) = caps::drop(None, CapSet::Bounding, capability)
        {
            note(&capability.to_string(), &error);
            break;
        }
    }
    let held = caps::read(None, CapSet::Permitted).unwrap_or_default();
    let kept: CapsHashSet = held.intersection(&needed).copied().collect();
    for set in [CapSet::Effective, CapSet::Permitted] {
        if let Err(error) = caps::set(None, set, &kept) {
            note("privileges", &error);
        }
    }
    let _ = caps::clear(None, CapSet::Inheritable);
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        note("the gaining of privileges", &error);
    }
    failed
}
