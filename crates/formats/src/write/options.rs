use profile::EventId;

/// Selection of the data to write; each format uses the options that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// The event to write, for formats with a single one ([`crate::write::folded`],
    /// [`crate::write::firefox`], [`crate::write::speedscope`]); the event shown first, for the one
    /// with all ([`crate::write::pprof`]).
    pub event: EventId,
    /// Whether functions inlined at a place are separate frames.
    pub inline: bool,
    /// [`crate::write::folded`]: whether to continue the stack of a wait with `--` and its waker.
    pub wakers: bool,
    /// [`crate::write::folded`]: whether to mark kernel frames with `_[k]`, which flame graphs
    /// colour.
    pub mark_kernel: bool,
    /// [`crate::write::firefox`]: whether to compress with gzip. ([`crate::write::pprof`] always
    /// is, the text formats never are.)
    pub gzip: bool,
}

impl Default for WriteOptions {
    /// Returns the first event, with inlined functions, without unusual extensions.
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
