//! Writes recordings as files of other tools.
//!
//! Each module has a function that writes a [`profile::Recording`], with the symbols of its
//! locations, in its format. A new format is a new module beside the others, and a row of `EXPORTS`
//! in the command `export`; common parts (sums of samples by call path, checks) are in the private
//! modules here.
//!
//! | module | written for | events |
//! |---|---|---|
//! | [`folded`] | inferno, flamegraph.pl and everything that reads collapsed stacks | one |
//! | [`pprof`] | `go tool pprof`, Pyroscope, Parca | all |
//! | [`firefox`] | the Firefox Profiler | one |
//! | [`speedscope`] | speedscope | one |
//! | [`autofdo`] | clang's `-fprofile-sample-use`; from counts or estimates, not recordings | |
//!
//! The value of a stack is `count × multiplex_scale`, rounded, for an event that counts samples and
//! the measured nanoseconds for an event that measures time. A function is named by the debug
//! information if inlined calls are wanted, else by its procedure; without a symbol as
//! `image+0xoffset`; in an unknown image as `[unknown]`.

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
