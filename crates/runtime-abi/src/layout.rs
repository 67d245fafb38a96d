//! Version of the memory layout: a hash of its source, by which a runtime and a controller see
//! whether they agree.

/// The files that define the layout and the meaning of the shared memory.
const SOURCES: [&[u8]; 9] = [
    include_bytes!("clock.rs"),
    include_bytes!("kernel.rs"),
    include_bytes!("layout.rs"),
    include_bytes!("lib.rs"),
    include_bytes!("line_pace.rs"),
    include_bytes!("place.rs"),
    include_bytes!("selection.rs"),
    include_bytes!("trace.rs"),
    include_bytes!("wait.rs"),
];

/// Hash (FNV-1a) of this crate's sources.
pub const LAYOUT: u64 = hash_sources();

/// Bytes that mark the file of a runtime with this layout.
pub const MARK: [u8; 24] = mark();

const fn hash_sources() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut file = 0;
    while file < SOURCES.len() {
        let source = SOURCES[file];
        let mut at = 0;
        while at < source.len() {
            hash = (hash ^ source[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
}

const fn mark() -> [u8; 24] {
    let mut mark = *b"vitalfew runtime\0\0\0\0\0\0\0\0";
    let layout = LAYOUT.to_le_bytes();
    let mut at = 0;
    while at < layout.len() {
        mark[16 + at] = layout[at];
        at += 1;
    }
    mark
}
