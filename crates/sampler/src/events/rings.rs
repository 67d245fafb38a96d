//! Ring buffers, two for each CPU, and their records in order of time. Samples have a ring of their
//! own: when it is full, only samples are lost, and the kernel counts them. Many short processes do
//! not take the room of samples.

use crate::events::perf::{self, Ring, Scope};
use crate::events::records::{BRANCH_SAMPLE, BRANCHES, Decoder, Record, SAMPLE_TYPE};
use crate::{Error, EventSpec};
use perf_event_open_sys::bindings::{self as pe, perf_event_attr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Warning if records about processes found no room.
pub(crate) const RECORDS_LOST: &str =
    "records about processes were lost: some code may be shown as unknown";

/// The rings of a recording.
pub(crate) struct Rings {
    rings: Vec<CpuRing>,
    events: Vec<OwnedFd>,
    /// Decoder, made with the attributes of the first event.
    decoder: Option<Decoder>,
    /// Size of rings in pages of 4 KiB: for samples, and for records about processes.
    pages: [usize; 2],
    pending: Vec<Record>,
}

/// A ring of a CPU.
struct CpuRing {
    cpu: i32,
    has_samples: bool,
    /// Descriptor of the first event opened for the ring, which owns it.
    owner: RawFd,
    ring: Ring,
}

impl Rings {
    /// Makes a set without rings. `pages` are the sizes, powers of two, of each ring of samples and
    /// of each ring of records about processes.
    pub fn new(pages: [usize; 2]) -> Self {
        Self {
            rings: Vec::new(),
            events: Vec::new(),
            decoder: None,
            pages,
            pending: Vec::new(),
        }
    }

    /// Opens an event whose records go to the ring of its CPU.
    ///
    /// # Errors
    /// The error of perf_event_open(2), for the caller to judge; [`std::io::ErrorKind::Other`] for
    /// later failures.
    pub fn open(&mut self, attr: &perf_event_attr, scope: Scope) -> std::io::Result<&OwnedFd> {
        let has_samples = attr.mmap() == 0;
        let mut attr = *attr;
        if attr.watermark() != 0 {
            let bytes = self.pages[usize::from(!has_samples)] * perf::RING_PAGE;
            attr.__bindgen_anon_2.wakeup_watermark = (bytes / 4) as u32;
        }
        let attr = &attr;
        let fd = if has_samples {
            perf::open_counting_lost(attr, scope)?
        } else {
            perf::open_event(attr, scope)?
        };
        if self.decoder.is_none() {
            self.decoder = Some(Decoder::new(attr).map_err(std::io::Error::other)?);
        }
        let same = |ring: &&CpuRing| (ring.cpu, ring.has_samples) == (scope.cpu, has_samples);
        match self.rings.iter().find(same) {
            Some(ring) => perf::set_output(&fd, ring.owner).map_err(std::io::Error::other)?,
            None => {
                let ring = self.map(&fd, usize::from(!has_samples))?;
                self.rings.push(CpuRing {
                    cpu: scope.cpu,
                    has_samples,
                    owner: fd.as_raw_fd(),
                    ring,
                });
            }
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.expect_event(attr, perf::event_id(&fd).map_err(std::io::Error::other)?);
        }
        self.events.push(fd);
        let last = self.events.len() - 1;
        Ok(&self.events[last])
    }

    /// Prepares for records of an event that is not open.
    pub fn pretend(&mut self, attr: &perf_event_attr, id: u64) -> Result<(), Error> {
        let decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => Decoder::new(attr)?,
        };
        self.decoder.insert(decoder).expect_event(attr, id);
        Ok(())
    }

    /// Decodes a record as if it had been in a ring.
    pub fn decode(&self, kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
        let decoder = self.decoder.as_ref()?;
        decoder.decode_record(kind, misc, body)
    }

    /// Maps a ring, a smaller one if the user may not lock that much memory.
    fn map(&mut self, fd: &OwnedFd, kind: usize) -> std::io::Result<Ring> {
        let pages = &mut self.pages[kind];
        loop {
            match Ring::map(fd, *pages) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && *pages > 8 => {
                    *pages /= 2;
                }
                result => return result,
            }
        }
    }

    /// Returns the descriptors to poll.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.rings.iter().map(|ring| ring.owner)
    }

    /// Returns time enabled over time running of the events whose id `own` accepts.
    pub fn multiplex_scale(&self, own: impl Fn(&u64) -> bool) -> f64 {
        let of_event = |fd: &&OwnedFd| perf::event_id(fd).is_ok_and(|id| own(&id));
        perf::multiplex_scale(self.events.iter().filter(of_event))
    }

    /// Returns how many samples of the events whose id `own` accepts found no room; `None` if the
    /// kernel does not count them.
    pub fn lost_samples(&self, own: impl Fn(&u64) -> bool) -> Option<u64> {
        let of_event = |fd: &&OwnedFd| perf::event_id(fd).is_ok_and(|id| own(&id));
        self.events
            .iter()
            .filter(of_event)
            .map(perf::lost_samples)
            .sum()
    }

    /// Enables all events.
    pub fn enable(&self) -> Result<(), Error> {
        self.events.iter().try_for_each(perf::enable_event)
    }

    /// Stops all events.
    pub fn disable(&self) -> Result<(), Error> {
        self.events.iter().try_for_each(perf::disable_event)
    }

    /// Drains the rings and passes on their records, in no order; the rings of samples only with
    /// `with_samples`. A record is in its ring before any clock reading that follows it. Returns
    /// how full the fullest ring of samples was, from 0 to 1.
    pub fn drain(&mut self, with_samples: bool, mut each: impl FnMut(Record)) -> f64 {
        let mut fullest = 0.0f64;
        let Some(decoder) = &self.decoder else {
            return fullest;
        };
        let wanted = |one: &&mut CpuRing| with_samples || !one.has_samples;
        for one in self.rings.iter_mut().filter(wanted) {
            let fullness = one.ring.read(|kind, misc, body| {
                if let Some(record) = decoder.decode_record(kind, misc, body) {
                    each(record);
                }
            });
            if one.has_samples {
                fullest = fullest.max(fullness);
            }
        }
        fullest
    }

    /// Drains the rings and passes on the records up to `until`, in order of time; later ones wait
    /// for the next call.
    pub fn read(&mut self, until: u64, mut each: impl FnMut(Record)) {
        let mut pending = std::mem::take(&mut self.pending);
        self.drain(true, |record| pending.push(record));
        pending.sort_by_key(|record| record.time);
        let later = pending.partition_point(|record| record.time <= until);
        pending.drain(..later).for_each(&mut each);
        self.pending = pending;
    }
}

/// Returns attributes for [`Rings::open`] of an event that yields samples.
pub(crate) fn sampling(spec: &EventSpec, period: u64) -> perf_event_attr {
    let mut attr = perf::event_attributes(spec, period);
    attr.sample_type = SAMPLE_TYPE;
    attr.set_sample_id_all(1);
    if spec.branches {
        attr.sample_type = BRANCH_SAMPLE;
        attr.branch_sample_type = BRANCHES;
    }
    attr
}

/// Kind of an event's records of mappings: with either the inode or the build-id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mappings {
    ByInode,
    ByBuildId,
}

/// Returns attributes of an event that never samples, but reports mappings; the one by inode also
/// reports the creation, renaming and end of processes.
pub(crate) fn bookkeeping(like: &perf_event_attr, mappings: Mappings) -> perf_event_attr {
    let mut attr = *like;
    attr.type_ = pe::PERF_TYPE_SOFTWARE;
    attr.config = pe::PERF_COUNT_SW_DUMMY.into();
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_user(0);
    attr.set_precise_ip(0);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    match mappings {
        Mappings::ByInode => {
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.set_task(1);
        }
        Mappings::ByBuildId => attr.set_build_id(1),
    }
    attr
}
