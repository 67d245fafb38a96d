//! Other people's profiles.
//!
//! Written: one module a format, all alike. Read, as call trees: [`tree`]. Causal profiles, both: [`coz`].
//!
//! Each of the writing modules has a `write` that turns a [`profile::Recording`] and what
//! is known of its locations into a file of that format. A new format is a new module beside the
//! others; what all of them need (how a location is named, how samples are added up) lies in the
//! private modules here.
//!
//! | module | written for | events |
//! |---|---|---|
//! | [`folded`] | inferno, flamegraph.pl and everything that reads collapsed stacks | one |
//! | [`pprof`] | `go tool pprof`, Pyroscope, Parca | all |
//! | [`firefox`] | the Firefox Profiler | one |
//! | [`speedscope`] | speedscope | one |
//!
//! [`counts`] of other tools are read: of instructions ([`callgrind`]), source lines and branches; [`autofdo`] is written from such counts or from
//! estimates of them, for compilers.
//!
//! The value of a stack is `count × multiplex_scale`, rounded, for an event that counts samples and
//! the measured nanoseconds for an event that measures time. A function is named by the debug
//! information where inlined calls are wanted, else by its procedure; without a symbol as
//! `image+0xoffset`; in an image of which nothing is known as `[unknown]`.
#![forbid(unsafe_code)]

pub mod autofdo;
pub mod callgrind;
pub mod counts;
pub mod coz;
pub mod firefox;
pub mod folded;
pub mod pprof;
pub mod speedscope;
pub mod tree;

mod error;
mod frame;
mod options;
mod paths;
mod rows;

pub use error::WriteError;
pub use options::Options;
