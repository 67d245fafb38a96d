//! BPF programs beside the collector: loading, and ring buffers through which they hand over events
//! one by one, with a count of events that found no room.

use crate::Error;
use crate::bpf::load_failure::{explain_load, listen_to_loader};
use crate::host::own_pid_namespace;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PerfEventOpts,
    ProgramMut, RingBuffer, RingBufferBuilder,
};
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// Loads compiled programs. Their constants (`const volatile`, in their order) begin with
/// `constants`; `what` names the activity in errors.
pub fn load_programs(code: &[u8], constants: &[u8], what: &str) -> Result<Object, Error> {
    load_with_map(code, constants, what, None)
}

/// Loads programs as [`load_programs`] does, with the map `shared` of other programs in place of
/// their own of that name.
pub fn load_with_map(
    code: &[u8],
    constants: &[u8],
    what: &str,
    shared: Option<&MapHandle>,
) -> Result<Object, Error> {
    listen_to_loader();
    let mut open = (ObjectBuilder::default().open_memory(code)).map_err(Error::bpf(what))?;
    set_pid_namespace(&mut open);
    for mut map in open.maps_mut() {
        if let Some(shared) = shared.filter(|shared| map.name() == shared.name()) {
            (map.reuse_fd(shared.as_fd())).map_err(Error::bpf(what))?;
        }
        if map.name().to_string_lossy().ends_with(".rodata")
            && let Some(data) = map.initial_value_mut()
            && let Some(data) = data.get_mut(..constants.len())
        {
            data.copy_from_slice(constants);
        }
    }
    open.load().map_err(explain_load(what))
}

/// Tells programs, before they are loaded, in which PID namespace this process knows ids
/// (task_ids.h).
pub fn set_pid_namespace(open: &mut OpenObject) {
    let mut maps = open.maps_mut();
    let namespace = own_pid_namespace().unwrap_or(0).to_ne_bytes();
    if let Some(mut map) = maps.find(|map| map.name() == ".rodata.namespace")
        && let Some(data) = map.initial_value_mut()
        && let Some(data) = data.get_mut(..namespace.len())
    {
        data.copy_from_slice(&namespace);
    }
}

/// Attaches a program to an open event; `what` names the activity in errors.
pub fn attach_program(
    program: &ProgramMut<'_>,
    event: &OwnedFd,
    options: PerfEventOpts,
    what: &str,
) -> Result<Link, Error> {
    // The link closes the descriptor that it is given, but not if attaching fails.
    let copy = event.try_clone().map_err(|source| Error::System {
        what: "copying a descriptor".into(),
        source,
    })?;
    let link = program
        .attach_perf_event_with_opts(copy.as_raw_fd(), options)
        .map_err(Error::bpf(what))?;
    let _ = copy.into_raw_fd();
    Ok(link)
}

/// The events of a ring buffer.
pub struct Events<T> {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<T>>>,
    what: &'static str,
}

impl<T: 'static> Events<T> {
    /// Opens the ring buffer `name`, whose records `parse` converts; `what` names the activity in
    /// errors.
    pub fn new(
        object: &Object,
        name: &str,
        what: &'static str,
        parse: impl Fn(&[u8]) -> Option<T> + 'static,
    ) -> Result<Self, Error> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&read);
        let keep = move |bytes: &[u8]| {
            to.borrow_mut().extend(parse(bytes));
            0
        };
        let map = object.maps().find(|map| map.name() == name);
        let mut builder = RingBufferBuilder::new();
        if let Some(map) = &map {
            (builder.add(map, keep)).map_err(Error::bpf(what))?;
        }
        let ring = builder.build().map_err(Error::bpf(what))?;
        Ok(Self { ring, read, what })
    }

    /// Returns the events that have arrived since the last call.
    pub fn read(&self) -> Result<Vec<T>, Error> {
        self.ring.consume().map_err(Error::bpf(self.what))?;
        Ok(self.read.take())
    }

    /// Returns the descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.ring.epoll_fd()
    }
}

/// Returns the number of events that found no room.
pub fn lost_records(object: &Object) -> u64 {
    let map = object.maps().find(|map| map.name() == "lost");
    let value = map.and_then(|map| {
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        value.try_into().ok().map(u64::from_ne_bytes)
    });
    value.unwrap_or(0)
}

/// Reads eight bytes of a record; 0 behind its end.
pub fn read_u64(record: &[u8], at: usize) -> u64 {
    let word = record.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Reads four bytes of a record; 0 behind its end.
pub fn read_u32(record: &[u8], at: usize) -> u32 {
    let word = record.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}
