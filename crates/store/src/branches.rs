//! The tables of branches: where they were seen to go, and what was executed between them.

use crate::error::Error;
use crate::image_columns::{SharedTexts, image_columns};
use crate::row_check::{Check, Read};
use crate::table::{BRANCHES, ROW_GROUP, STRETCHES};
use crate::table_reader::Table;
use crate::table_writer::TableWriter;
use profile::{BranchCount, ImageOffset, Recording, Seen, Stretch, StretchCount};

/// Encodes where branches were seen to go.
pub(crate) fn encode_branches(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, Error> {
    let mut all: Vec<BranchCount> = recording.branches.clone();
    all.sort_unstable();
    let mut table = TableWriter::new(BRANCHES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        out.ints("branch", rows.iter().map(|row| row.branch.0.cast_signed()))?;
        out.ints("target", rows.iter().map(|row| row.target.0.cast_signed()))?;
        out.ints(
            "observed",
            rows.iter().map(|row| row.observed.cast_signed()),
        )?;
        out.ints("walked", rows.iter().map(|row| row.walked.cast_signed()))?;
        out.finish()?;
    }
    table.finish()
}

/// Reads them.
pub(crate) fn decode_branches(table: &Table<'_>, recording: &mut Recording) -> Read {
    recording.branches.reserve(table.rows());
    for rows in table.groups() {
        let images = rows.ints("image_id")?;
        let (from, to) = (rows.ints("branch")?, rows.ints("target")?);
        let (observed, walked) = (rows.ints("observed")?, rows.ints("walked")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            recording.branches.push(BranchCount {
                image: check.image(images[i], recording)?,
                branch: ImageOffset(from[i].cast_unsigned()),
                target: ImageOffset(to[i].cast_unsigned()),
                observed: check.count(observed[i])?,
                walked: check.count(walked[i])?,
            });
        }
    }
    Ok(())
}

/// Encodes what was executed between branches.
pub(crate) fn encode_stretches(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, Error> {
    let mut all: Vec<StretchCount> = recording.stretches.clone();
    all.sort_unstable();
    let mut table = TableWriter::new(STRETCHES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        let offset = |of: ImageOffset| of.0.cast_signed();
        let stretches = || rows.iter().map(|row| row.stretch);
        out.ints("start", stretches().map(|one| offset(one.start)))?;
        out.ints("branch", stretches().map(|one| offset(one.branch)))?;
        out.optional_ints("target", stretches().map(|one| one.target.map(offset)))?;
        let seen = || rows.iter().map(|row| row.seen);
        out.ints("times", seen().map(|seen| seen.times.cast_signed()))?;
        out.ints("judged", seen().map(|seen| seen.judged.cast_signed()))?;
        out.ints(
            "mispredicted",
            seen().map(|seen| seen.mispredicted.cast_signed()),
        )?;
        out.finish()?;
    }
    table.finish()
}

/// Reads it.
pub(crate) fn decode_stretches(table: &Table<'_>, recording: &mut Recording) -> Read {
    recording.stretches.reserve(table.rows());
    for rows in table.groups() {
        let images = rows.ints("image_id")?;
        let (starts, branches) = (rows.ints("start")?, rows.ints("branch")?);
        let targets = rows.optional_ints("target")?;
        let (times, judged) = (rows.ints("times")?, rows.ints("judged")?);
        let mispredicted = rows.ints("mispredicted")?;
        let offset = |of: i64| ImageOffset(of.cast_unsigned());
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            recording.stretches.push(StretchCount {
                image: check.image(images[i], recording)?,
                stretch: Stretch {
                    start: offset(starts[i]),
                    branch: offset(branches[i]),
                    target: targets[i].map(offset),
                },
                seen: Seen {
                    times: check.count(times[i])?,
                    judged: check.count(judged[i])?,
                    mispredicted: check.count(mispredicted[i])?,
                },
            });
        }
    }
    Ok(())
}
