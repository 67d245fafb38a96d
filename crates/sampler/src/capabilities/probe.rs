//! Probes on this machine.

use super::answers::Capabilities;
use super::diagnose;
use super::system;

/// Tries everything on this machine, as this process.
pub fn probe_machine() -> Capabilities {
    diagnose::capabilities(&system::Live)
}
