//! Decodes the records that the kernel writes to ring buffers.

use crate::Error;
use linux_perf_event_reader::{
    CpuMode, Endianness, EventRecord, Mmap2FileId, PerfEventAttr, RawData, RawEventRecord,
    RecordParseInfo, RecordType, SampleRecord,
};
use perf_event_open_sys::bindings::{self as pe, perf_event_attr};
use profile::{BuildId, FileIdentity, TakenBranch};
use rustc_hash::FxHashSet;
use unwind::{UnwindMachine, UnwindRegisters};

/// Sample fields of every event, in front of others.
pub(crate) const SAMPLE_TYPE: u64 =
    (pe::PERF_SAMPLE_IDENTIFIER | pe::PERF_SAMPLE_IP | pe::PERF_SAMPLE_TID | pe::PERF_SAMPLE_TIME)
        as u64;

/// Returns `sample_regs_user` for [`UnwindRegisters`]: all of them, because the tables of some
/// functions need more than the stack's registers.
pub(crate) fn unwind_register_mask() -> u64 {
    UnwindMachine::native().map_or(0, UnwindMachine::perf_mask)
}

/// `sample_regs_user` for [`machine::Registers`] on x86-64: the integer registers,
/// the program counter and the flags. (perf's order of the registers is not the encoding's.)
pub(crate) const ALL_REGISTERS: u64 = 0xff_03ff;

/// perf's numbers of the integer registers in the order of their encoding, and of the flags.
const INTEGER: [u64; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];
#[cfg(target_arch = "x86_64")]
const FLAGS: u64 = 9;
/// perf's number of the program counter.
#[cfg(target_arch = "x86_64")]
const COUNTER: u64 = 8;

#[cfg(target_arch = "x86_64")]
fn all_registers(sample: &SampleRecord<'_>) -> Option<machine::Registers> {
    let registers = sample.user_regs.as_ref()?;
    let mut all = machine::Registers {
        flags: registers.get(FLAGS)?,
        counter: registers.get(COUNTER)?,
        ..machine::Registers::default()
    };
    for (value, number) in all.integer.iter_mut().zip(INTEGER) {
        *value = registers.get(number)?;
    }
    Some(all)
}

#[cfg(not(target_arch = "x86_64"))]
fn all_registers(_: &SampleRecord<'_>) -> Option<machine::Registers> {
    None
}

/// Returns the integer registers, in the order of their encoding, of those that
/// [`ALL_REGISTERS`] samples.
pub(crate) fn integer_registers(sampled: &[u64]) -> Option<[u64; 16]> {
    let mut all = [0; 16];
    for (value, number) in all.iter_mut().zip(INTEGER) {
        let before = (ALL_REGISTERS & ((1 << number) - 1)).count_ones();
        *value = *sampled.get(before as usize)?;
    }
    Some(all)
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Executable memory was mapped.
    Mmap {
        start: u64,
        length: u64,
        file_offset: u64,
        file: Option<FileIdentity>,
        build_id: Option<BuildId>,
        path: String,
    },
    /// A thread was renamed; with `exec`, the process runs another program from here on.
    Comm { name: String, exec: bool },
    /// A process or thread was created.
    Fork { parent: u32 },
    /// A thread ended.
    Exit,
    /// The ring was full.
    Lost { count: u64 },
    /// A sample.
    Sample {
        ip: u64,
        in_kernel: bool,
        /// Innermost first, with perf's context markers.
        callchain: Vec<u64>,
        /// A copy of the user stack, with the registers of its innermost frame.
        stack: Option<Box<(UnwindRegisters, Vec<u8>)>>,
        /// All registers of the user code, if requested.
        registers: Option<Box<machine::Registers>>,
        /// The last branches taken before the sample, newest first, if requested.
        branches: Option<Vec<TakenBranch>>,
    },
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Time, on the monotonic clock, in nanoseconds.
    pub time: u64,
    pub pid: u32,
    pub tid: u32,
    /// The event of the record ([`crate::events::perf::event_id`]).
    pub id: u64,
    pub body: Body,
}

/// Decodes the records of events whose samples all have the same fields, or branch stacks.
pub(crate) struct Decoder {
    info: RecordParseInfo,
    /// Events with build-ids in their records of mappings.
    with_build_ids: FxHashSet<u64>,
    /// Events whose samples are [`BRANCH_SAMPLE`]s.
    with_branches: FxHashSet<u64>,
}

/// `sample_type` of events with branch stacks, whose samples have no other fields.
pub(crate) const BRANCH_SAMPLE: u64 = SAMPLE_TYPE | pe::PERF_SAMPLE_BRANCH_STACK as u64;

/// Branch types to record: all, in user code.
pub(crate) const BRANCHES: u64 = (pe::PERF_SAMPLE_BRANCH_USER | pe::PERF_SAMPLE_BRANCH_ANY) as u64;

/// `PERF_RECORD_MISC_MMAP_BUILD_ID`.
const MISC_BUILD_ID: u16 = 1 << 14;

impl Decoder {
    pub fn new(attr: &perf_event_attr) -> Result<Self, Error> {
        // SAFETY: perf_event_attr is plain data made from zeroed memory, so no padding is
        // uninitialised.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                (attr as *const perf_event_attr).cast::<u8>(),
                size_of::<perf_event_attr>(),
            )
        };
        let parsed = match ENDIANNESS {
            Endianness::LittleEndian => PerfEventAttr::parse::<_, byteorder::LittleEndian>(bytes),
            Endianness::BigEndian => PerfEventAttr::parse::<_, byteorder::BigEndian>(bytes),
        };
        let (parsed, _) = parsed.map_err(|source| Error::System {
            what: "reading back the attributes of an event".into(),
            source,
        })?;
        Ok(Self {
            info: RecordParseInfo::new(&parsed, ENDIANNESS),
            with_build_ids: FxHashSet::default(),
            with_branches: FxHashSet::default(),
        })
    }

    /// Registers the event with this number and its attributes. Events may differ in whether
    /// records of mappings have build-ids, and samples branch stacks.
    pub fn expect_event(&mut self, attr: &perf_event_attr, id: u64) {
        if attr.build_id() != 0 {
            self.with_build_ids.insert(id);
        }
        if attr.sample_type == BRANCH_SAMPLE {
            self.with_branches.insert(id);
        }
    }

    /// Returns whether a record of a mapping holds a build-id. The kernel's flag alone does not
    /// tell: it sets the flag for an event with build-ids and forgets to clear it for the next
    /// event.
    fn has_build_id(&self, raw: &RawEventRecord<'_>, body: &[u8]) -> bool {
        const LENGTH: usize = 32; // behind ids, address, length and file offset
        raw.id().is_some_and(|id| self.with_build_ids.contains(&id))
            && raw.misc & MISC_BUILD_ID != 0
            && body
                .get(LENGTH)
                .is_some_and(|len| usize::from(*len) <= BuildId::MAX_LEN)
    }

    /// Decodes a record; `None` for uninteresting or damaged ones.
    pub fn decode_record(&self, kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
        let mut raw = RawEventRecord::new(RecordType(kind), misc, RawData::from(body), self.info);
        if RecordType(kind) == RecordType::MMAP2 && !self.has_build_id(&raw, body) {
            raw.misc &= !MISC_BUILD_ID;
        }
        if RecordType(kind) == RecordType::SAMPLE
            && let Some(id) = raw.id()
            && self.with_branches.contains(&id)
        {
            return branch_sample(misc, body);
        }
        let common = raw.common_data().ok()?;
        let mut record = Record {
            time: common.timestamp.unwrap_or(0),
            pid: common.pid.unwrap_or(0) as u32,
            tid: common.tid.unwrap_or(0) as u32,
            id: common.id.unwrap_or(0),
            body: Body::Exit,
        };
        record.body = match raw.parse().ok()? {
            EventRecord::Mmap2(map) => {
                record.pid = map.pid as u32;
                record.tid = map.tid as u32;
                if map.protection & libc::PROT_EXEC as u32 == 0 {
                    return None;
                }
                let (file, build_id) = match map.file_id {
                    Mmap2FileId::InodeAndVersion(id) => (file_identity(id), None),
                    Mmap2FileId::BuildId(bytes) => (None, BuildId::new(&bytes)),
                };
                Body::Mmap {
                    start: map.address,
                    length: map.length,
                    file_offset: map.page_offset,
                    file,
                    build_id,
                    path: String::from_utf8_lossy(&map.path.as_slice()).into_owned(),
                }
            }
            EventRecord::Comm(comm) => {
                record.pid = comm.pid as u32;
                record.tid = comm.tid as u32;
                Body::Comm {
                    name: String::from_utf8_lossy(&comm.name.as_slice()).into_owned(),
                    exec: comm.is_execve,
                }
            }
            EventRecord::Fork(fork) => {
                record.pid = fork.pid as u32;
                record.tid = fork.tid as u32;
                Body::Fork {
                    parent: fork.ppid as u32,
                }
            }
            EventRecord::Exit(exit) => {
                record.pid = exit.pid as u32;
                record.tid = exit.tid as u32;
                Body::Exit
            }
            EventRecord::Lost(lost) => Body::Lost { count: lost.count },
            EventRecord::Sample(sample) => sample_body(&sample),
            _ => return None,
        };
        Some(record)
    }
}

#[cfg(target_endian = "little")]
const ENDIANNESS: Endianness = Endianness::LittleEndian;
#[cfg(target_endian = "big")]
const ENDIANNESS: Endianness = Endianness::BigEndian;

fn file_identity(id: linux_perf_event_reader::Mmap2InodeAndVersion) -> Option<FileIdentity> {
    (id.inode != 0).then_some(FileIdentity {
        major: id.major,
        minor: id.minor,
        inode: id.inode,
        generation: id.inode_generation,
    })
}

fn sample_body(sample: &SampleRecord<'_>) -> Body {
    let callchain = sample.callchain.as_ref();
    let stack = sample.user_regs.as_ref().and_then(|registers| {
        let (bytes, used) = sample.user_stack.as_ref()?;
        let bytes = bytes.as_slice();
        let used = usize::try_from(*used).map_or(bytes.len(), |used| used.min(bytes.len()));
        let mask = unwind_register_mask();
        let numbers = (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1);
        let values: Option<Vec<u64>> = numbers.map(|n| registers.get(n.into())).collect();
        let registers = UnwindRegisters::from_perf(UnwindMachine::native()?, mask, &values?)?;
        Some(Box::new((registers, bytes[..used].to_vec())))
    });
    Body::Sample {
        ip: sample.ip.unwrap_or(0),
        in_kernel: sample.cpu_mode == CpuMode::Kernel,
        callchain: callchain.map_or_else(Vec::new, |chain| {
            (0..chain.len()).filter_map(|i| chain.get(i)).collect()
        }),
        stack,
        registers: all_registers(sample).map(Box::new),
        branches: None,
    }
}

/// Decodes a [`BRANCH_SAMPLE`]; the crate that parses other samples skips branch stacks.
fn branch_sample(misc: u16, body: &[u8]) -> Option<Record> {
    let (words, _) = body.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let [id, ip, task, time, count, entries @ ..] = &words[..] else {
        return None;
    };
    let (entries, _) = entries.as_chunks::<3>();
    let stack = entries.get(..usize::try_from(*count).ok()?)?;
    let big = cfg!(target_endian = "big");
    let branches = stack
        .iter()
        .filter_map(|entry| TakenBranch::of_entry(*entry, big));
    // Two numbers of 32 bits, the process first.
    let (low, high) = (*task as u32, (*task >> 32) as u32);
    let (pid, tid) = if big { (high, low) } else { (low, high) };
    Some(Record {
        time: *time,
        pid,
        tid,
        id: *id,
        body: Body::Sample {
            ip: *ip,
            in_kernel: CpuMode::from_misc(misc) == CpuMode::Kernel,
            callchain: Vec::new(),
            stack: None,
            registers: None,
            branches: Some(branches.collect()),
        },
    })
}

/// Splits a call chain with perf's context markers into kernel and user addresses, innermost first.
pub(crate) fn split_callchain(chain: &[u64]) -> (Vec<u64>, Vec<u64>) {
    // The markers are small negative numbers.
    const MARKERS: u64 = (-4096i64) as u64;
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut in_user = true;
    for &address in chain {
        if address >= MARKERS {
            in_user = address == pe::PERF_CONTEXT_USER;
        } else if in_user {
            user.push(address);
        } else {
            kernel.push(address);
        }
    }
    (kernel, user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_chains_are_split_at_their_markers() {
        let kernel = pe::PERF_CONTEXT_KERNEL;
        let user = pe::PERF_CONTEXT_USER;
        let chain = [kernel, 0xffff_ffff_8100_0000, user, 0x1000, 0x2000];
        assert_eq!(
            split_callchain(&chain),
            (vec![0xffff_ffff_8100_0000], vec![0x1000, 0x2000])
        );
        assert_eq!(split_callchain(&[]), (vec![], vec![]));
    }
}
