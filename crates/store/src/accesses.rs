//! The tables of data addresses: what was seen of each instruction, and the places that were chosen of
//! those that it accessed.

use crate::error::Error;
use crate::image_columns::{SharedTexts, image_columns};
use crate::row_check::{Check, Read};
use crate::table::{ACCESSES, PLACES, ROW_GROUP};
use crate::table_reader::Table;
use crate::table_writer::TableWriter;
use profile::{AccessCount, Accesses, ImageId, ImageOffset, Recording, Visits};
use std::collections::BTreeMap;

/// What was seen of instructions, while it is read.
pub(crate) type Found = BTreeMap<(ImageId, ImageOffset), Accesses>;

/// Returns whether all counts can be stored.
pub(crate) fn are_storable(one: &AccessCount, storable: impl Fn(u64) -> bool) -> bool {
    let accesses = &one.accesses;
    let mut visits = accesses.pages.iter().chain(accesses.lines.iter());
    visits.all(|(_, visits)| storable(visits.seen) && storable(visits.waited))
        && accesses.counts().into_iter().all(&storable)
        && storable(accesses.votes)
}

/// Encodes what was seen of each instruction.
pub(crate) fn encode_accesses(
    recording: &Recording,
    texts: &SharedTexts,
) -> Result<Vec<u8>, Error> {
    let mut all: Vec<&AccessCount> = recording.accesses.iter().collect();
    all.sort_unstable();
    let mut table = TableWriter::new(ACCESSES)?;
    for rows in all.chunks(ROW_GROUP) {
        let mut out = table.rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.image))?;
        let instructions = rows.iter().map(|row| row.instruction.0.cast_signed());
        out.ints("instruction", instructions)?;
        out.ints("stride", rows.iter().map(|row| row.accesses.stride))?;
        let votes = rows.iter().map(|row| row.accesses.votes.cast_signed());
        out.ints("votes", votes)?;
        for (at, name) in Accesses::COUNTS.into_iter().enumerate() {
            let counts = rows.iter().map(|row| row.accesses.counts()[at]);
            out.ints(name, counts.map(u64::cast_signed))?;
        }
        out.finish()?;
    }
    table.finish()
}

/// Encodes the places.
pub(crate) fn encode_places(recording: &Recording, texts: &SharedTexts) -> Result<Vec<u8>, Error> {
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
        let mut out = table.rows()?;
        image_columns(&mut out, texts, || rows.iter().map(|row| row.0))?;
        out.ints("instruction", rows.iter().map(|row| row.1.0.cast_signed()))?;
        out.ints("line", rows.iter().map(|row| i64::from(row.2)))?;
        out.ints("hash", rows.iter().map(|row| row.3.cast_signed()))?;
        out.ints("seen", rows.iter().map(|row| row.4.seen.cast_signed()))?;
        out.ints("waited", rows.iter().map(|row| row.4.waited.cast_signed()))?;
        out.finish()?;
    }
    table.finish()
}

/// Reads what was seen of each instruction.
pub(crate) fn decode_accesses(table: &Table<'_>, recording: &Recording, found: &mut Found) -> Read {
    for rows in table.groups() {
        let images = rows.ints("image_id")?;
        let (instructions, strides) = (rows.ints("instruction")?, rows.ints("stride")?);
        let votes = rows.ints("votes")?;
        let mut counts = Vec::new();
        for name in Accesses::COUNTS {
            counts.push(rows.ints(name)?);
        }
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let mut one = Accesses {
                stride: strides[i],
                votes: check.count(votes[i])?,
                ..Accesses::default()
            };
            for (count, values) in one.counts_mut().into_iter().zip(&counts) {
                *count = check.count(values[i])?;
            }
            let instruction = ImageOffset(instructions[i].cast_unsigned());
            let key = (check.image(images[i], recording)?, instruction);
            found.entry(key).or_default().join(&one);
        }
    }
    Ok(())
}

/// Reads the places.
pub(crate) fn decode_places(table: &Table<'_>, recording: &Recording, found: &mut Found) -> Read {
    for rows in table.groups() {
        let images = rows.ints("image_id")?;
        let (instructions, lines) = (rows.ints("instruction")?, rows.ints("line")?);
        let hashes = rows.ints("hash")?;
        let (seen, waited) = (rows.ints("seen")?, rows.ints("waited")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let visits = Visits {
                seen: check.count(seen[i])?,
                waited: check.count(waited[i])?,
            };
            let instruction = ImageOffset(instructions[i].cast_unsigned());
            let key = (check.image(images[i], recording)?, instruction);
            let one = found.entry(key).or_default();
            let places = match check.flag(lines[i])? {
                true => &mut one.lines,
                false => &mut one.pages,
            };
            places.add(hashes[i].cast_unsigned(), visits);
        }
    }
    Ok(())
}

/// Puts all that was read into the recording.
pub(crate) fn finish(found: Found, recording: &mut Recording) {
    let one = |((image, instruction), accesses)| AccessCount {
        image,
        instruction,
        accesses,
    };
    recording.accesses = found.into_iter().map(one).collect();
}
