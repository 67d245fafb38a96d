//! The tables of branches: their observed targets, and the stretches executed between them.

use crate::error::StoreError;
use crate::image_columns::{SharedTexts, image_columns};
use crate::row_check::{Check, Read};
use crate::table::{BRANCHES, ROW_GROUP, STRETCHES};
use crate::table_reader::ParquetTable;
use crate::table_writer::TableWriter;
use profile::{BranchCount, ImageOffset, Recording, Stretch, StretchCount, StretchSightings};

/// Encodes the observed targets of branches.
pub(crate) fn encode_branches(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, StoreError> {
    let mut all: Vec<BranchCount> = recording.branches.clone();
    all.sort_unstable();
    let mut table = TableWriter::new(BRANCHES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        out.write_ints("branch", rows.iter().map(|row| row.branch.0.cast_signed()))?;
        out.write_ints("target", rows.iter().map(|row| row.target.0.cast_signed()))?;
        out.write_ints(
            "observed",
            rows.iter().map(|row| row.observed.cast_signed()),
        )?;
        out.write_ints("walked", rows.iter().map(|row| row.walked.cast_signed()))?;
        out.finish_rows()?;
    }
    table.finish_table()
}

/// Reads the observed targets of branches.
pub(crate) fn decode_branches(table: &ParquetTable<'_>, recording: &mut Recording) -> Read {
    recording.branches.reserve(table.row_count());
    for rows in table.row_groups() {
        let images = rows.read_ints("image_id")?;
        let (from, to) = (rows.read_ints("branch")?, rows.read_ints("target")?);
        let (observed, walked) = (rows.read_ints("observed")?, rows.read_ints("walked")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            recording.branches.push(BranchCount {
                image: check.check_image(images[i], recording)?,
                branch: ImageOffset(from[i].cast_unsigned()),
                target: ImageOffset(to[i].cast_unsigned()),
                observed: check.check_count(observed[i])?,
                walked: check.check_count(walked[i])?,
            });
        }
    }
    Ok(())
}

/// Encodes the stretches executed between branches.
pub(crate) fn encode_stretches(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, StoreError> {
    let mut all: Vec<StretchCount> = recording.stretches.clone();
    all.sort_unstable();
    let mut table = TableWriter::new(STRETCHES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        let offset = |of: ImageOffset| of.0.cast_signed();
        let stretches = || rows.iter().map(|row| row.stretch);
        out.write_ints("start", stretches().map(|one| offset(one.start)))?;
        out.write_ints("branch", stretches().map(|one| offset(one.branch)))?;
        out.optional_ints("target", stretches().map(|one| one.target.map(offset)))?;
        let seen = || rows.iter().map(|row| row.seen);
        out.write_ints("times", seen().map(|seen| seen.times.cast_signed()))?;
        out.write_ints("judged", seen().map(|seen| seen.judged.cast_signed()))?;
        out.write_ints(
            "mispredicted",
            seen().map(|seen| seen.mispredicted.cast_signed()),
        )?;
        out.finish_rows()?;
    }
    table.finish_table()
}

/// Reads the stretches.
pub(crate) fn decode_stretches(table: &ParquetTable<'_>, recording: &mut Recording) -> Read {
    recording.stretches.reserve(table.row_count());
    for rows in table.row_groups() {
        let images = rows.read_ints("image_id")?;
        let (starts, branches) = (rows.read_ints("start")?, rows.read_ints("branch")?);
        let targets = rows.optional_ints("target")?;
        let (times, judged) = (rows.read_ints("times")?, rows.read_ints("judged")?);
        let mispredicted = rows.read_ints("mispredicted")?;
        let offset = |of: i64| ImageOffset(of.cast_unsigned());
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            recording.stretches.push(StretchCount {
                image: check.check_image(images[i], recording)?,
                stretch: Stretch {
                    start: offset(starts[i]),
                    branch: offset(branches[i]),
                    target: targets[i].map(offset),
                },
                seen: StretchSightings {
                    times: check.check_count(times[i])?,
                    judged: check.check_count(judged[i])?,
                    mispredicted: check.check_count(mispredicted[i])?,
                },
            });
        }
    }
    Ok(())
}
