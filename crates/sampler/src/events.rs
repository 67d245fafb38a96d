//! Events that BPF programs hand over one by one: a ring buffer, and a count of those that found no room.

use crate::Error;
use libbpf_rs::{MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};

/// A ring buffer whose records go to `each`; `what` is done with them.
pub fn ring(
    object: &Object,
    name: &str,
    what: &str,
    mut each: impl FnMut(&[u8]) + 'static,
) -> Result<RingBuffer<'static>, Error> {
    let maps: Vec<_> = object.maps().filter(|map| map.name() == name).collect();
    let mut builder = RingBufferBuilder::new();
    if let Some(map) = maps.first() {
        let keep = move |bytes: &[u8]| {
            each(bytes);
            0
        };
        (builder.add(map, keep)).map_err(Error::bpf(what))?;
    }
    (builder.build()).map_err(Error::bpf(what))
}

/// Events that found no room.
pub fn lost(object: &Object) -> u64 {
    let map = object.maps().find(|map| map.name() == "lost");
    let value = map.and_then(|map| {
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        value.try_into().ok().map(u64::from_ne_bytes)
    });
    value.unwrap_or(0)
}

/// Eight bytes of a record; 0 behind its end.
pub fn long(record: &[u8], at: usize) -> u64 {
    let word = record.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Four bytes of a record; 0 behind its end.
pub fn short(record: &[u8], at: usize) -> u32 {
    let word = record.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}
