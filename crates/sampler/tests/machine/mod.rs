//! The machine for live tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: they count CPU time of the whole machine, and tables come sooner on an idle
/// one.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns a guard while which no other test measures; `None` where this machine cannot be
/// measured, unless REQUIRE_LIVE is set.
pub fn live() -> Option<MutexGuard<'static, ()>> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let probed = sampler::capabilities::probe_machine();
    let Err(gap) = probed.system_wide().and(probed.bpf()) else {
        return Some(alone);
    };
    assert!(
        std::env::var_os("REQUIRE_LIVE").is_none(),
        "REQUIRE_LIVE is set and this machine cannot be measured: {}",
        gap.missing
    );
    eprintln!("skipped: {}", gap.missing);
    None
}
