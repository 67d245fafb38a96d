//! The Firefox Profiler's processed profile format, version 61; newer front ends upgrade it.
//!
//! Written by hand rather than by the crate `fxprof-processed-profile` 0.8, which has no place for
//! source lines, inlined functions, fractional or large weights, or notes on the profile, and
//! writes a stack table for every thread.
//!
//! **There is no time axis.** A recording counts samples without their times, but the format wants
//! a time for each. All samples have the time 0, and the profile is one interval long, so that it
//! shows no order or phase that was not recorded. The profile's name and its information panel say
//! so. Weights are true: samples, or milliseconds for measured time. Wakers are not written.
//!
//! A frame's address is the offset in the file, where the format wants the address less that of the
//! first loaded segment; the two are equal for most but not all linkers. It matters only to a
//! symbol server for disassembly; the profile contains its symbols and states that it needs none.

mod meta;
mod tables;
mod threads;

use crate::frame::Namer;
use crate::write::error::check_with_event;
use crate::write::paths::StackPaths;
use crate::write::rows::samples_of;
use crate::write::{WriteError, WriteOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use meta::FirefoxMeta;
use profile::{Recording, SymbolTable};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use tables::{FirefoxLib, FirefoxShared, FirefoxTables};
use threads::{FirefoxThread, threads_with_samples};

#[derive(Serialize)]
struct FirefoxProfile<'t, 'a> {
    meta: FirefoxMeta<'a>,
    libs: Vec<FirefoxLib<'a>>,
    pages: [(); 0],
    shared: FirefoxShared<'t, 'a>,
    threads: Vec<FirefoxThread>,
}

/// Writes one event of a recording as a processed profile, compressed if the options say so.
///
/// # Errors
/// If the output fails, the event does not exist, or the recording contradicts itself.
pub fn write_firefox(
    recording: &Recording,
    symbols: &SymbolTable,
    options: &WriteOptions,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    check_with_event(recording, options.event)?;
    let event = recording.events.get(usize::from(options.event.0));
    let mut tables = FirefoxTables::new(recording, Namer::new(recording, symbols, options));
    let wanted = samples_of(recording, options.event).map(|sample| sample.stack);
    let paths = StackPaths::new(&recording.stacks, wanted, |location, numbers| {
        tables.frame_indices(location, numbers);
    });
    let profile = FirefoxProfile {
        meta: FirefoxMeta::new(recording, event),
        libs: tables.iter_libs().collect(),
        pages: [],
        shared: tables.shared_tables(&paths),
        threads: event.map_or_else(Vec::new, |event| {
            threads_with_samples(recording, options.event, event, &paths)
        }),
    };
    let out = BufWriter::new(out);
    let written = if options.gzip {
        let mut out = GzEncoder::new(out, Compression::fast());
        write_json(&mut out, &profile).and_then(|()| out.finish()?.flush())
    } else {
        let mut out = out;
        write_json(&mut out, &profile).and_then(|()| out.flush())
    };
    written.map_err(WriteError::wrap_io("Firefox Profiler"))
}

fn write_json(out: &mut impl Write, profile: &FirefoxProfile) -> io::Result<()> {
    Ok(serde_json::to_writer(out, profile)?)
}
