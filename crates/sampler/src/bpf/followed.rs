//! Events of whole CPUs that write only the samples of one target: a process or a command, with its
//! descendants.

use crate::Error;
use crate::bpf::programs;
use libbpf_rs::{Link, MapCore, MapFlags, Object, PerfEventOpts, ProgramMut};
use std::os::fd::OwnedFd;

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/follow.bpf.o"));
const WHAT: &str = "following the target's processes";
/// The program that runs at each sample.
const ON_SAMPLE: &str = "on_sample";

/// The process whose samples are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowedTarget {
    /// Its id.
    pub pid: u32,
    /// True if the current program is a target too, not only the next one that the process
    /// executes.
    pub armed: bool,
}

/// Returns `struct target` of targets.h, for a process whose start is not known.
pub(crate) fn target_entry(armed: bool) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[8..12].copy_from_slice(&u32::from(armed).to_ne_bytes());
    entry
}

/// Loads programs that include `targets.h`; without a target, every process is one. They follow the
/// target while the links live.
pub(crate) fn load_following(
    code: &[u8],
    target: Option<FollowedTarget>,
    what: &str,
) -> Result<(Object, Vec<Link>), Error> {
    let object = programs::load_programs(code, &[target.is_some().into()], what)?;
    let mut links = Vec::new();
    if let Some(target) = target {
        let map = object.maps().find(|map| map.name() == "targets");
        let (key, entry) = (target.pid.to_ne_bytes(), target_entry(target.armed));
        map.map_or(Ok(()), |map| map.update(&key, &entry, MapFlags::ANY))
            .map_err(Error::bpf(what))?;
        let mut programs = object.progs_mut();
        let followers = programs.by_ref().filter(|program| !is_on_sample(program));
        for program in followers {
            links.push(program.attach().map_err(Error::bpf(what))?);
        }
    }
    Ok((object, links))
}

fn is_on_sample(program: &ProgramMut<'_>) -> bool {
    program.name() == ON_SAMPLE
}

/// Makes such programs filter the samples of an event.
pub(crate) fn attach_to_samples(
    object: &Object,
    event: &OwnedFd,
    what: &str,
) -> Result<Option<Link>, Error> {
    let mut programs = object.progs_mut();
    let program = programs.find(is_on_sample);
    program
        .map(|program| programs::attach_program(&program, event, PerfEventOpts::default(), what))
        .transpose()
}

/// Keeps the samples of other processes out of ring buffers.
pub(crate) struct SampleFilter {
    object: Object,
    links: Vec<Link>,
}

impl SampleFilter {
    /// Creates a filter that is not attached to any event.
    ///
    /// # Errors
    /// [`Error::Bpf`], where the kernel does not allow it.
    pub fn new(target: FollowedTarget) -> Result<Self, Error> {
        let (object, links) = load_following(CODE, Some(target), WHAT)?;
        Ok(Self { object, links })
    }

    /// Filters the samples of an event.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn attach(&mut self, event: &OwnedFd) -> Result<(), Error> {
        self.links
            .extend(attach_to_samples(&self.object, event, WHAT)?);
        Ok(())
    }
}
