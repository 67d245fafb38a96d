//! The Firefox Profiler's processed profile format, version 61; newer front ends upgrade it.
//!
//! Written by hand rather than by the crate `fxprof-processed-profile` 0.8, which has no place for
//! source lines, inlined functions, fractional or large weights, or notes on the profile, and
//! writes a stack table for every thread.
//!
//! **There is no time axis.** A recording counts samples and does not keep when each was taken; the
//! format wants a time for each. All have the time 0, and the profile is one interval long, so that
//! no order and no phase is shown that nobody saw. The profile's name and its information panel say
//! so. Weights are true: samples, or milliseconds for measured time. Who ended a wait is not written.
//!
//! A frame's address is the offset in the file, where the format wants the address less that of the
//! first loaded segment; the two are equal for most but not all linkers. It matters only to a
//! symbol server asked for disassembly; the profile itself brings its symbols and says that it
//! needs none.

mod meta;
mod tables;
mod threads;

use crate::frame::Namer;
use crate::write::error::check_with_event;
use crate::write::paths::Paths;
use crate::write::rows::samples_of;
use crate::write::{Options, WriteError};
use flate2::Compression;
use flate2::write::GzEncoder;
use meta::Meta;
use profile::{Recording, SymbolTable};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use tables::{Lib, Shared, Tables};
use threads::{Thread, threads};

#[derive(Serialize)]
struct Profile<'t, 'a> {
    meta: Meta<'a>,
    libs: Vec<Lib<'a>>,
    pages: [(); 0],
    shared: Shared<'t, 'a>,
    threads: Vec<Thread>,
}

/// Writes one event of a recording as a processed profile, compressed if the options say so.
///
/// # Errors
/// If the output fails, the event does not exist, or the recording contradicts itself.
pub fn write(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    check_with_event(recording, options.event)?;
    let event = recording.events.get(usize::from(options.event.0));
    let mut tables = Tables::new(recording, Namer::new(recording, symbols, options));
    let wanted = samples_of(recording, options.event).map(|sample| sample.stack);
    let paths = Paths::new(&recording.stacks, wanted, |location, numbers| {
        tables.frames(location, numbers);
    });
    let profile = Profile {
        meta: Meta::new(recording, event),
        libs: tables.libs().collect(),
        pages: [],
        shared: tables.shared(&paths),
        threads: event.map_or_else(Vec::new, |event| {
            threads(recording, options.event, event, &paths)
        }),
    };
    let out = BufWriter::new(out);
    let written = if options.gzip {
        let mut out = GzEncoder::new(out, Compression::fast());
        json(&mut out, &profile).and_then(|()| out.finish()?.flush())
    } else {
        let mut out = out;
        json(&mut out, &profile).and_then(|()| out.flush())
    };
    written.map_err(WriteError::io("Firefox Profiler"))
}

fn json(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    Ok(serde_json::to_writer(out, profile)?)
}
