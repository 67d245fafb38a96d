use profile::EventId;

/// Selection of the data to write, for every format; each uses the parts that it has a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// The event to write, for the formats that hold one ([`crate::write::folded`], [`crate::write::firefox`],
    /// [`crate::write::speedscope`]); the event that is shown first, for the one that holds all
    /// ([`crate::write::pprof`]).
    pub event: EventId,
    /// True to write the functions inlined at a place as frames of their own.
    pub inline: bool,
    /// [`crate::write::folded`]: whether to continue the stack of a wait with `--` and who ended it.
    pub wakers: bool,
    /// [`crate::write::folded`]: whether to mark kernel frames with `_[k]`, by which flame graphs colour
    /// them.
    pub mark_kernel: bool,
    /// [`crate::write::firefox`]: whether to compress with gzip. ([`crate::write::pprof`] always is, the text
    /// formats never are.)
    pub gzip: bool,
}

impl Default for WriteOptions {
    /// The first event, with inlined functions, and nothing that a reader may not expect.
    fn default() -> Self {
        Self {
            event: EventId(0),
            inline: true,
            wakers: false,
            mark_kernel: false,
            gzip: false,
        }
    }
}
