//! Recordings of ours, written as files of other tools.
//!
//! Each module has a `write` that turns a [`profile::Recording`] and what is known of its locations into
//! a file of its format. A new format is a new module beside the others, and a row of `EXPORTS` in the
//! command `export`; what all of them need (samples added up by call path, the checks before) lies in
//! the private modules here.
//!
//! | module | written for | events |
//! |---|---|---|
//! | [`folded`] | inferno, flamegraph.pl and everything that reads collapsed stacks | one |
//! | [`pprof`] | `go tool pprof`, Pyroscope, Parca | all |
//! | [`firefox`] | the Firefox Profiler | one |
//! | [`speedscope`] | speedscope | one |
//! | [`autofdo`] | clang's `-fprofile-sample-use`; from counts or estimates, not from a recording | |
//!
//! The value of a stack is `count × multiplex_scale`, rounded, for an event that counts samples and
//! the measured nanoseconds for an event that measures time. A function is named by the debug
//! information where inlined calls are wanted, else by its procedure; without a symbol as
//! `image+0xoffset`; in an image of which nothing is known as `[unknown]`.

pub mod autofdo;
pub mod firefox;
pub mod folded;
pub mod pprof;
pub mod speedscope;

pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod rows;

pub use error::WriteError;
pub use options::WriteOptions;
