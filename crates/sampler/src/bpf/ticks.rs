//! Signals to the threads of a program, at intervals of the processors' time.
//!
//! A timer for each thread (a perf event) is programmed whenever the thread gets or loses a
//! processor. Where that is an access to a hypervisor's timer, it takes several times as long as
//! the switch. A processor's timer runs on.

use crate::bpf::programs;
use crate::events::perf;
use crate::host::online_cpus;
use crate::{Error, EventSpec, ExternalWaits};
use libbpf_rs::{Link, MapCore, MapFlags, Object, PerfEventOpts};

/// The compiled program.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ticks.bpf.o"));
const WHAT: &str = "sampling by processor";
/// Range of the processors' periods, as a fraction of the requested period. The periods differ, so
/// that the timers stay in step neither with one another nor with regular work of the program.
const SPREAD: f64 = 0.06;

/// Interrupts all processors, until it is dropped.
pub struct Ticks {
    periods: Vec<(u32, u64)>,
    links: Vec<Link>,
    object: Object,
}

/// Number of times that a thread of the program ran and got no signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTicks {
    /// Times that the thread blocked the signal.
    pub blocked: u64,
    /// Times that the thread's stack had no room for the handler.
    pub without_room: u64,
}

impl Ticks {
    /// Sends SIGSTKFLT about every `period` nanoseconds to the thread that each processor runs. The
    /// thread gets it if its process's handler of the signal is at address `handler` and it does
    /// not block the signal; with `spares_restricted`, only if it has not restricted its system
    /// calls. In system calls `waits` sends the signal when the call is complete; without `waits`,
    /// only threads in user mode get it.
    ///
    /// # Errors
    /// [`Error::Bpf`], [`Error::System`] where the kernel does not allow it.
    pub fn start(
        handler: u64,
        period: u64,
        spares_restricted: bool,
        waits: Option<&ExternalWaits>,
    ) -> Result<Self, Error> {
        let constants = [handler, u64::from(spares_restricted)].map(u64::to_ne_bytes);
        let map = waits.and_then(ExternalWaits::waiting_map);
        let object = programs::load_with_map(CODE, &constants.concat(), WHAT, map.as_ref())?;
        let mut spec = EventSpec::cpu_clock();
        spec.exclude_kernel = map.is_none();
        let mut this = Self {
            periods: Vec::new(),
            links: Vec::new(),
            object,
        };
        for cpu in online_cpus() {
            this.add_event(&spec, cpu, period_of(cpu as u32, period))?;
        }
        Ok(this)
    }

    fn add_event(&mut self, spec: &EventSpec, cpu: i32, period: u64) -> Result<(), Error> {
        let scope = perf::Scope { pid: -1, cpu };
        let opened = perf::open_event(&perf::event_attributes(spec, period), scope);
        let event = opened.map_err(|source| Error::System {
            what: WHAT.into(),
            source,
        })?;
        for program in self.object.progs_mut() {
            let link = programs::attach_program(&program, &event, PerfEventOpts::default(), WHAT)?;
            self.links.push(link);
        }
        perf::enable_event(&event)?;
        self.periods.push((cpu as u32, period));
        Ok(())
    }

    /// Returns how often a running thread got no signal.
    pub fn withheld(&self) -> WithheldTicks {
        let mut maps = self.object.maps();
        let data = maps.find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let value = data.and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?);
        let value = value.unwrap_or_default();
        WithheldTicks {
            blocked: programs::read_u64(&value, 0),
            without_room: programs::read_u64(&value, 8),
        }
    }

    /// Returns each processor's period, in nanoseconds.
    pub fn periods(&self) -> &[(u32, u64)] {
        &self.periods
    }
}

/// Returns the period of a processor. The periods of any few processors are far apart, and their
/// mean is `period`.
fn period_of(cpu: u32, period: u64) -> u64 {
    let golden = (f64::from(cpu) * 0.618_033_988_749_895 + 0.25).fract();
    (period as f64 * (1.0 + SPREAD * (golden - 0.5))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_differ_and_average_to_what_was_asked_for() {
        let all: Vec<u64> = (0..64).map(|cpu| period_of(cpu, 1_000_000)).collect();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        assert!((mean - 1e6).abs() < 3e3, "{mean}");
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|two| two[1] - two[0] > 300));
        assert!(all[0].abs_diff(all[1]) > 20_000, "{all:?}");
        assert!(sorted[0] >= 970_000 && sorted[63] <= 1_030_000);
    }
}
