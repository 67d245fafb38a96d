//! Executions of functions, one by one, by the kernel's probes (uprobe and uretprobe).

use crate::Error;
use crate::bpf::programs::{self, Events};
use libbpf_rs::{Link, Object, UprobeOpts};
use std::path::Path;

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o"));
/// Bytes of a record.
const RECORD: usize = 80;
/// Arguments of a call that are kept.
const ARGUMENTS: usize = 6;

/// An execution of a probed function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedCall {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Number that the caller gave to [`Calls::probe`].
    pub block: u32,
    /// Time of entry, on the monotonic clock, in nanoseconds.
    pub enter_ns: u64,
    /// Time of return, on the same clock.
    pub leave_ns: u64,
    /// First integer arguments. Those that the function does not take are meaningless.
    pub arguments: [u64; ARGUMENTS],
}

/// Probes in a process.
pub struct Calls {
    object: Object,
    links: Vec<Link>,
    calls: Events<ProbedCall>,
}

impl Calls {
    /// Loads the programs; there are no probes yet.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel refuses that.
    pub fn new() -> Result<Self, Error> {
        const WHAT: &str = "loading the programs of probes";
        let object = programs::load_programs(CODE, &[], WHAT)?;
        let calls = Events::new(&object, "calls", "reading the events of probes", parse)?;
        Ok(Self {
            object,
            links: Vec::new(),
            calls,
        })
    }

    /// Probes the function at a position of a file, in one process: all its threads, but none of its forks.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel refuses a probe there.
    pub fn probe(&mut self, pid: u32, file: &Path, offset: u64, block: u32) -> Result<(), Error> {
        let failed = || Error::bpf(format!("probing {} at {offset:#x}", file.display()));
        let mut links = Vec::new();
        for (name, retprobe) in [("on_enter", false), ("on_leave", true)] {
            let program = self
                .object
                .progs_mut()
                .find(|program| program.name() == name);
            let options = UprobeOpts {
                cookie: block.into(),
                retprobe,
                ..UprobeOpts::default()
            };
            if let Some(program) = program {
                let link = program.attach_uprobe_with_opts(
                    pid.cast_signed(),
                    file,
                    offset as usize,
                    options,
                );
                links.push(link.map_err(failed())?);
            }
        }
        self.links.append(&mut links);
        Ok(())
    }

    /// Removes all probes.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// The executions that have ended since the last time: those of a thread in the order of their ends.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn read(&self) -> Result<Vec<ProbedCall>, Error> {
        self.calls.read()
    }

    /// Returns the number of executions that found no room.
    pub fn lost(&self) -> u64 {
        programs::lost_records(&self.object)
    }
}

fn parse(bytes: &[u8]) -> Option<ProbedCall> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let (long, short) = (
        |at| programs::read_u64(bytes, at),
        |at| programs::read_u32(bytes, at),
    );
    Some(ProbedCall {
        enter_ns: long(0),
        leave_ns: long(8),
        arguments: std::array::from_fn(|at| long(16 + 8 * at)),
        pid: short(64),
        tid: short(68),
        block: short(72),
    })
}
