//! Uprobes that the kernel only counts.
//!
//! A uprobe replaces the first byte of an instruction in the process that it counts in. Unlike a
//! breakpoint in a debug register, it slows nothing that does not execute it: a breakpoint in the
//! cache line of a loop of five cycles made it take fifteen (Zen 3).

use crate::Error;
use crate::events::perf::{self, Ring, Scope};
use crate::events::records::{ALL_REGISTERS, integer_registers};
use perf_event_open_sys::bindings as pe;
use profile::ImageOffset;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

/// The number of the kernel's source of uprobes.
const TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Pages of a ring buffer: registers at some thousand executions.
const PAGES: usize = 128;

/// One execution in this many is sampled, where they are frequent: the kernel does not count those
/// that exceed the limit of samples in a tick.
const SAMPLED: u64 = 7;
/// Executions in a window from which they are frequent.
const FREQUENT: u64 = 200;

/// A uprobe that counts in one thread, until it is dropped.
pub(super) struct CountingUprobe {
    event: OwnedFd,
    count: File,
    ring: Ring,
    /// Executions until the last window's end.
    before: u64,
    period: u64,
}

impl CountingUprobe {
    /// Counts a thread's executions of the instruction at an offset in a file.
    pub fn open(thread: u32, path: &CStr, offset: ImageOffset) -> io::Result<Self> {
        let number = std::fs::read_to_string(TYPE)?;
        let mut attr = pe::perf_event_attr {
            size: size_of::<pe::perf_event_attr>() as u32,
            type_: number.trim().parse().map_err(io::Error::other)?,
            sample_type: pe::PERF_SAMPLE_REGS_USER.into(),
            sample_regs_user: ALL_REGISTERS,
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_period = SAMPLED;
        attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
        attr.__bindgen_anon_4.probe_offset = offset.0;
        let scope = Scope {
            pid: thread as i32,
            cpu: -1,
        };
        let event: OwnedFd = perf::open_event(&attr, scope)?;
        let ring = Ring::map(&event, PAGES)?;
        Ok(Self {
            count: event.try_clone()?.into(),
            event,
            ring,
            before: 0,
            period: SAMPLED,
        })
    }

    /// Returns the number of executions since the last call.
    pub fn take_count(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        self.count.read_exact(&mut count)?;
        let count = u64::from_ne_bytes(count);
        Ok(count.saturating_sub(std::mem::replace(&mut self.before, count)))
    }

    /// Returns the registers at the executions since the last call that were sampled.
    pub fn take_registers(&mut self) -> Vec<[u64; 16]> {
        let mut registers = Vec::new();
        self.ring.read(|kind, _, body| {
            if kind == pe::PERF_RECORD_SAMPLE {
                registers.extend(parse_registers(body));
            }
        });
        registers
    }

    /// Sets how many executions are sampled, by their number in a window.
    pub fn choose_period(&mut self, count: u64) -> Result<(), Error> {
        let period = if count < FREQUENT { 1 } else { SAMPLED };
        if period != self.period {
            perf::set_period(&self.event, period)?;
            self.period = period;
        }
        Ok(())
    }
}

/// Parses the registers that a sample ends with. `None` if there were none in user mode.
pub(super) fn parse_registers(body: &[u8]) -> Option<[u64; 16]> {
    let words: Vec<u64> = (body.chunks_exact(8))
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    let (abi, registers) = words.split_first()?;
    (*abi != 0).then(|| integer_registers(registers))?
}
