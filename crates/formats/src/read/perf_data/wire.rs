//! Numbers, attributes of events, and records, as `perf_event_open(2)` defines them.
//!
//! Written by hand, because the crate `linux-perf-event-reader` 0.10 panics on a build-id that is
//! too long and mistakes groups of counters for single ones.

use profile::TakenBranch;

/// Bytes in the file's byte order. Reading beyond their end yields `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordBytes<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> RecordBytes<'a> {
    pub fn new(bytes: &'a [u8], big: bool) -> Self {
        Self { bytes, big }
    }

    pub fn is_big(&self) -> bool {
        self.big
    }

    pub fn rest_of_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn take_bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(count).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Returns the bytes from `offset` on.
    pub fn starting_at(&self, offset: u64) -> Option<Self> {
        let bytes = self.bytes.get(usize::try_from(offset).ok()?..)?;
        Some(Self { bytes, ..*self })
    }

    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.take_bytes(2)?.try_into().ok()?;
        Some(if self.big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.take_bytes(4)?.try_into().ok()?;
        Some(if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    pub fn u64(&mut self) -> Option<u64> {
        let bytes = self.take_bytes(8)?.try_into().ok()?;
        Some(if self.big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }

    /// Returns a list of numbers with a length prefix.
    fn counted_numbers(&mut self, size: u64) -> Option<Self> {
        let count = self.u64()?;
        let bytes = self.take_bytes(count.checked_mul(size)?)?;
        Some(Self { bytes, ..*self })
    }

    /// Reads a text up to its NUL.
    pub fn read_text(&self) -> String {
        let end = self.bytes.iter().position(|b| *b == 0);
        let text = self.bytes.get(..end.unwrap_or(self.bytes.len()));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
}

mod format {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const BRANCH_HW_INDEX: u64 = 1 << 17;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const BUILD_ID: u64 = 1 << 34;
    pub const FREQ: u64 = 1 << 10;
    pub const BRANCH_ANY: u64 = 1 << 3;
    pub const BRANCH_CALL_STACK: u64 = 1 << 11;
    pub const BRANCH_COUNTERS: u64 = 1 << 19;
    pub const READ_ENABLED: u64 = 1 << 0;
    pub const READ_RUNNING: u64 = 1 << 1;
    pub const READ_ID: u64 = 1 << 2;
    pub const READ_GROUP: u64 = 1 << 3;
    pub const READ_LOST: u64 = 1 << 4;
}

/// Settings of an event (`perf_event_attr`) that its records depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub kind: u32,
    pub config: u64,
    period: u64,
    format: u64,
    read_format: u64,
    flags: u64,
    branch_format: u64,
    pub user_registers: u64,
}

impl Attr {
    pub fn read_attr(mut bytes: RecordBytes<'_>) -> Option<Self> {
        let all = bytes;
        let kind = bytes.u32()?;
        let late = |offset| {
            all.starting_at(offset)
                .and_then(|mut b| b.u64())
                .unwrap_or(0)
        };
        Some(Self {
            kind,
            config: all.starting_at(8)?.u64()?,
            period: all.starting_at(16)?.u64()?,
            format: all.starting_at(24)?.u64()?,
            read_format: all.starting_at(32)?.u64()?,
            flags: all.starting_at(40)?.u64()?,
            // Older kernels' attributes end before these.
            branch_format: late(72),
            user_registers: late(80),
        })
    }

    fn has_format(&self, format: u64) -> bool {
        self.format & format != 0
    }

    /// Returns whether its records of mappings have build-ids.
    pub fn build_ids(&self) -> bool {
        self.flags & format::BUILD_ID != 0
    }

    /// Returns whether its samples have branch stacks; if so, whether these have all branches.
    pub fn branch_stacks(&self) -> Option<bool> {
        let kinds = self.branch_format & (format::BRANCH_ANY | format::BRANCH_CALL_STACK);
        self.has_format(format::BRANCH_STACK)
            .then_some(kinds == format::BRANCH_ANY)
    }

    /// Returns the fixed period, if the event had one.
    pub fn fixed_period(&self) -> Option<u64> {
        (self.flags & format::FREQ == 0).then_some(self.period)
    }

    /// Returns the id of a sample's event; `None` if the sample has none.
    pub fn sample_id(&self, body: RecordBytes<'_>) -> Option<u64> {
        let fields = [format::IP, format::TID, format::TIME, format::ADDR];
        let offset = match self.has_format(format::IDENTIFIER) {
            true => 0,
            false if !self.has_format(format::ID) => return None,
            false => {
                8 * fields
                    .iter()
                    .filter(|field| self.has_format(**field))
                    .count() as u64
            }
        };
        body.starting_at(offset)?.u64()
    }

    /// Returns the time at the end of a record that is not a sample.
    pub fn trailing_time(&self, body: RecordBytes<'_>) -> Option<u64> {
        if self.flags & format::SAMPLE_ID_ALL == 0 || !self.has_format(format::TIME) {
            return None;
        }
        let behind = [
            format::TIME,
            format::ID,
            format::STREAM_ID,
            format::CPU,
            format::IDENTIFIER,
        ];
        let from_end = 8 * behind
            .iter()
            .filter(|field| self.has_format(**field))
            .count();
        body.starting_at(body.rest_of_bytes().len().checked_sub(from_end)? as u64)?
            .u64()
    }

    /// Returns the time of a sample, without reading the rest.
    pub fn sample_time(&self, body: RecordBytes<'_>) -> Option<u64> {
        if !self.has_format(format::TIME) {
            return None;
        }
        let before = [format::IDENTIFIER, format::IP, format::TID];
        let fields = before.iter().filter(|field| self.has_format(**field));
        body.starting_at(8 * fields.count() as u64)?.u64()
    }

    /// Reads a sample; `None` if it ends too early.
    pub fn read_sample<'a>(&self, mut body: RecordBytes<'a>) -> Option<PerfSample<'a>> {
        let mut sample = PerfSample::default();
        let optional = |body: &mut RecordBytes<'a>, field| {
            if self.has_format(field) {
                body.u64().map(Some)
            } else {
                Some(None)
            }
        };
        optional(&mut body, format::IDENTIFIER)?;
        sample.ip = optional(&mut body, format::IP)?;
        if self.has_format(format::TID) {
            sample.pid = body.u32()?;
            sample.tid = body.u32()?;
        }
        sample.time = optional(&mut body, format::TIME)?.unwrap_or(0);
        for field in [format::ADDR, format::ID, format::STREAM_ID, format::CPU] {
            optional(&mut body, field)?;
        }
        sample.period = optional(&mut body, format::PERIOD)?;
        if self.has_format(format::READ) {
            self.skip_read(&mut body)?;
        }
        if self.has_format(format::CALLCHAIN) {
            let mut chain = body.counted_numbers(8)?;
            while let Some(address) = chain.u64() {
                sample.callchain.push(address);
            }
        }
        if self.has_format(format::RAW) {
            let size = body.u32()?;
            body.take_bytes(size.into())?;
        }
        if self.has_format(format::BRANCH_STACK) {
            let count = body.u64()?;
            if self.branch_format & format::BRANCH_HW_INDEX != 0 {
                body.u64()?;
            }
            let stack = body.take_bytes(count.checked_mul(TakenBranch::ENTRY as u64)?)?;
            sample.branches = Some(RecordBytes::new(stack, body.big));
            if self.branch_format & format::BRANCH_COUNTERS != 0 {
                body.take_bytes(count.checked_mul(8)?)?;
            }
        }
        // An ABI of 0: a kernel thread without user registers.
        if self.has_format(format::REGS_USER) {
            let abi = body.u64()?;
            let registers = if abi == 0 {
                0
            } else {
                u64::from(self.user_registers.count_ones())
            };
            let mut registers = RecordBytes::new(body.take_bytes(8 * registers)?, body.big);
            while abi == ABI_64
                && let Some(value) = registers.u64()
            {
                sample.registers.push(value);
            }
        }
        if self.has_format(format::STACK_USER) {
            let size = body.u64()?;
            let stack = body.take_bytes(size)?;
            let used = if size > 0 { body.u64()?.min(size) } else { 0 };
            sample.stack = stack.get(..used as usize)?;
        }
        Some(sample)
    }

    fn skip_read(&self, body: &mut RecordBytes<'_>) -> Option<()> {
        let asked = |bits: &[u64]| bits.iter().filter(|b| self.read_format & **b != 0).count();
        let times = asked(&[format::READ_ENABLED, format::READ_RUNNING]) as u64;
        let each = 1 + asked(&[format::READ_ID, format::READ_LOST]) as u64;
        let values = match self.read_format & format::READ_GROUP {
            0 => 1,
            _ => body.u64()?,
        };
        let numbers = values.checked_mul(each)?.checked_add(times)?;
        body.take_bytes(numbers.checked_mul(8)?)?;
        Some(())
    }
}

/// Returns the next branch of a stack, if it was executed; `None` at the end.
pub(super) fn next_branch(stack: &mut RecordBytes<'_>) -> Option<Option<TakenBranch>> {
    let entry = [stack.u64()?, stack.u64()?, stack.u64()?];
    Some(TakenBranch::of_entry(entry, stack.big))
}

/// A sample.
#[derive(Debug, Default)]
pub(super) struct PerfSample<'a> {
    pub ip: Option<u64>,
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub period: Option<u64>,
    /// Innermost first, with perf's context markers.
    pub callchain: Vec<u64>,
    /// The last branches taken, newest first, in the kernel's form: see [`next_branch`].
    pub branches: Option<RecordBytes<'a>>,
    /// Values by the bits of [`Attr::user_registers`].
    pub registers: Vec<u64>,
    pub stack: &'a [u8],
}

/// A record about the code that a process runs.
#[derive(Debug)]
pub(super) enum ProcessChange {
    Map {
        pid: u32,
        start: u64,
        length: u64,
        file_offset: u64,
        build_id: Option<Vec<u8>>,
        path: String,
    },
    Comm {
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    Fork {
        pid: u32,
        parent: u32,
        tid: u32,
        parent_tid: u32,
        time: u64,
    },
    Lost(u64),
}

pub(super) const MMAP: u32 = 1;
pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const FORK: u32 = 7;
pub(super) const SAMPLE: u32 = 9;
pub(super) const MMAP2: u32 = 10;
pub(super) const LOST_SAMPLES: u32 = 13;
/// ABI of a 64-bit process; others cannot be unwound.
const ABI_64: u64 = 2;
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;
const MAX_BUILD_ID: usize = 20;

impl ProcessChange {
    /// Returns the change that a record describes; `None` for one of another kind, or one that ends
    /// too early. Only the event tells whether mappings may have build-ids: the kernel sets a
    /// record's mark for an event with build-ids, and forgets to clear it for the next event.
    pub fn read_change(
        kind: u32,
        misc: u16,
        build_ids: bool,
        mut body: RecordBytes<'_>,
    ) -> Option<Self> {
        match kind {
            MMAP | MMAP2 => Self::read_mapping(kind, misc, build_ids, body),
            COMM => Some(Self::Comm {
                pid: body.u32()?,
                tid: body.u32()?,
                name: body.read_text(),
                exec: misc & MISC_COMM_EXEC != 0,
            }),
            FORK => Some(Self::Fork {
                pid: body.u32()?,
                parent: body.u32()?,
                tid: body.u32()?,
                parent_tid: body.u32()?,
                time: body.u64()?,
            }),
            LOST => {
                body.u64()?;
                Some(Self::Lost(body.u64()?))
            }
            LOST_SAMPLES => Some(Self::Lost(body.u64()?)),
            _ => None,
        }
    }

    fn read_mapping(
        kind: u32,
        misc: u16,
        build_ids: bool,
        mut body: RecordBytes<'_>,
    ) -> Option<Self> {
        let pid = body.u32()?;
        body.u32()?;
        let (start, length, file_offset) = (body.u64()?, body.u64()?, body.u64()?);
        let mut build_id = None;
        if kind == MMAP2 {
            let identity = body.take_bytes(24)?;
            if build_ids && misc & MISC_BUILD_ID != 0 {
                let length = usize::from(*identity.first()?).min(MAX_BUILD_ID);
                build_id = Some(identity.get(4..4 + length)?.to_vec());
            }
            let protection = body.u32()?;
            body.u32()?;
            if protection & PROT_EXEC == 0 {
                return None;
            }
        } else if misc & MISC_MMAP_DATA != 0 {
            return None;
        }
        Some(Self::Map {
            pid,
            start,
            length,
            file_offset,
            build_id,
            path: body.read_text(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn samples_are_read_past_groups_of_counters() {
        let attr = Attr {
            format: format::IP | format::READ | format::CALLCHAIN | format::RAW,
            read_format: format::READ_GROUP | format::READ_ID | format::READ_ENABLED,
            ..Attr::default()
        };
        // The address; two counters with ids and a time; a chain of two; four bytes of raw data.
        let mut bytes = words(&[0x10, 2, 99, 1, 2, 3, 4, 2, 0x10, 0x20]);
        bytes.extend([4, 0, 0, 0, 1, 2, 3, 4]);
        let sample = attr.read_sample(RecordBytes::new(&bytes, false)).unwrap();
        assert_eq!(
            (sample.ip, &sample.callchain[..]),
            (Some(0x10), &[0x10, 0x20][..])
        );
        for end in 0..bytes.len() {
            assert!(
                attr.read_sample(RecordBytes::new(&bytes[..end], false))
                    .is_none(),
                "{end}"
            );
        }
    }

    #[test]
    fn big_endian_files_are_turned() {
        let mut bytes = RecordBytes::new(&[0, 1, 0, 0, 0, 2], true);
        assert_eq!(
            (bytes.u16(), bytes.u32(), bytes.u32()),
            (Some(1), Some(2), None)
        );
    }
}
