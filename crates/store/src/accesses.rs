//! The tables of data addresses: the observed accesses of each instruction, and a sample of the
//! accessed places.

use crate::error::StoreError;
use crate::image_columns::{SharedTexts, image_columns};
use crate::row_check::{Check, Read};
use crate::table::{ACCESSES, PLACES, ROW_GROUP};
use crate::table_reader::ParquetTable;
use crate::table_writer::TableWriter;
use profile::{AccessCount, Accesses, ImageId, ImageOffset, Recording, Visits};
use std::collections::BTreeMap;

/// Accesses by instruction, while they are read.
pub(crate) type Found = BTreeMap<(ImageId, ImageOffset), Accesses>;

/// Returns whether all counts can be stored.
pub(crate) fn are_storable(one: &AccessCount, storable: impl Fn(u64) -> bool) -> bool {
    let accesses = &one.accesses;
    let mut visits = accesses.pages.iter().chain(accesses.lines.iter());
    visits.all(|(_, visits)| storable(visits.seen) && storable(visits.waited))
        && accesses.counts().into_iter().all(&storable)
        && storable(accesses.votes)
}

/// Encodes the observed accesses of each instruction.
pub(crate) fn encode_accesses(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, StoreError> {
    let mut all: Vec<&AccessCount> = recording.accesses.iter().collect();
    all.sort_unstable();
    let mut table = TableWriter::new(ACCESSES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        let instructions = rows.iter().map(|row| row.instruction.0.cast_signed());
        out.write_ints("instruction", instructions)?;
        out.write_ints("stride", rows.iter().map(|row| row.accesses.stride))?;
        let votes = rows.iter().map(|row| row.accesses.votes.cast_signed());
        out.write_ints("votes", votes)?;
        for (at, name) in Accesses::COUNTS.into_iter().enumerate() {
            let counts = rows.iter().map(|row| row.accesses.counts()[at]);
            out.write_ints(name, counts.map(u64::cast_signed))?;
        }
        out.finish_rows()?;
    }
    table.finish_table()
}

/// Encodes the places.
pub(crate) fn encode_places(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, StoreError> {
    let mut all: Vec<(ImageId, ImageOffset, bool, u64, Visits)> = Vec::new();
    for one in &recording.accesses {
        let (image, instruction) = (one.image, one.instruction);
        for (is_line, places) in [(false, &one.accesses.pages), (true, &one.accesses.lines)] {
            let row = |(hash, visits)| (image, instruction, is_line, hash, visits);
            all.extend(places.iter().map(row));
        }
    }
    all.sort_unstable();
    let mut table = TableWriter::new(PLACES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.0))?;
        out.write_ints("instruction", rows.iter().map(|row| row.1.0.cast_signed()))?;
        out.write_ints("line", rows.iter().map(|row| i64::from(row.2)))?;
        out.write_ints("hash", rows.iter().map(|row| row.3.cast_signed()))?;
        out.write_ints("seen", rows.iter().map(|row| row.4.seen.cast_signed()))?;
        out.write_ints("waited", rows.iter().map(|row| row.4.waited.cast_signed()))?;
        out.finish_rows()?;
    }
    table.finish_table()
}

/// Reads the observed accesses of each instruction.
pub(crate) fn decode_accesses(
    table: &ParquetTable<'_>,
    recording: &Recording,
    found: &mut Found,
) -> Read {
    for rows in table.row_groups() {
        let images = rows.read_ints("image_id")?;
        let (instructions, strides) = (rows.read_ints("instruction")?, rows.read_ints("stride")?);
        let votes = rows.read_ints("votes")?;
        let mut counts = Vec::new();
        for name in Accesses::COUNTS {
            counts.push(rows.read_ints(name)?);
        }
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let mut one = Accesses {
                stride: strides[i],
                votes: check.check_count(votes[i])?,
                ..Accesses::default()
            };
            for (count, values) in one.counts_mut().into_iter().zip(&counts) {
                *count = check.check_count(values[i])?;
            }
            let instruction = ImageOffset(instructions[i].cast_unsigned());
            let key = (check.check_image(images[i], recording)?, instruction);
            found.entry(key).or_default().join(&one);
        }
    }
    Ok(())
}

/// Reads the places.
pub(crate) fn decode_places(
    table: &ParquetTable<'_>,
    recording: &Recording,
    found: &mut Found,
) -> Read {
    for rows in table.row_groups() {
        let images = rows.read_ints("image_id")?;
        let (instructions, lines) = (rows.read_ints("instruction")?, rows.read_ints("line")?);
        let hashes = rows.read_ints("hash")?;
        let (seen, waited) = (rows.read_ints("seen")?, rows.read_ints("waited")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let visits = Visits {
                seen: check.check_count(seen[i])?,
                waited: check.check_count(waited[i])?,
            };
            let instruction = ImageOffset(instructions[i].cast_unsigned());
            let key = (check.check_image(images[i], recording)?, instruction);
            let one = found.entry(key).or_default();
            let places = if check.check_flag(lines[i])? {
                &mut one.lines
            } else {
                &mut one.pages
            };
            places.add(hashes[i].cast_unsigned(), visits);
        }
    }
    Ok(())
}

/// Puts the decoded accesses into the recording.
pub(crate) fn attach_accesses(found: Found, recording: &mut Recording) {
    let one = |((image, instruction), accesses)| AccessCount {
        image,
        instruction,
        accesses,
    };
    recording.accesses = found.into_iter().map(one).collect();
}
