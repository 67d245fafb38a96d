//! Places as in compilers' sample profiles: a function, lines below its first one, a discriminator.

use crate::debug_info::{DebugInfo, LineRow, UnitKey};
use crate::error::Error;
use crate::load;
use crate::section::SectionReader;
use gimli::{AttributeValue, DwAt, UnitOffset, UnitRef};
use profile::ImageAddress;
use std::sync::Arc;

/// Limit on the depth of inlined calls.
const DEPTH: usize = 64;

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The function's linkage name.
    pub function: Arc<str>,
    /// Lines below the function's declaration line, modulo 2¹⁶.
    pub offset: u16,
    /// The number that distinguishes places of one line, as the compiler encodes it; 0 if there is
    /// one place.
    pub discriminator: u64,
}

impl DebugInfo {
    /// Returns the sites of an address, the outermost function first: each contains the inlined
    /// call, the last one the place itself. Empty if the debug information is incomplete.
    ///
    /// # Errors
    /// If the debug information of that place is damaged.
    pub fn sites(&self, address: ImageAddress) -> Result<Vec<Site>, Error> {
        self.meter.start();
        let found = self.find_sites(address);
        found
            .map(Option::unwrap_or_default)
            .map_err(|error| load::debug_error(&self.path, &self.meter, error))
    }

    fn find_sites(&self, address: ImageAddress) -> gimli::Result<Option<Vec<Site>>> {
        let Some((key, unit)) = self.unit_of(address) else {
            return Ok(None);
        };
        let rows = self.line_rows(key, &unit)?;
        let at = rows.partition_point(|row| row.start <= address.0);
        let row = at.checked_sub(1).and_then(|at| rows.get(at));
        let Some(row) = row.filter(|row| row.line > 0) else {
            return Ok(None);
        };
        let mut place = (row.line, row.discriminator);
        let mut found = Vec::new();
        let mut frames = self.complete_lookup(self.context.find_frames(address.0))?;
        while let Some(frame) = frames.next()? {
            let (Some(function), Some(die)) = (&frame.function, frame.dw_die_offset) else {
                return Ok(None);
            };
            let Some(declared) = number_of(&unit, die, gimli::DW_AT_decl_line)? else {
                return Ok(None);
            };
            let (line, discriminator) = place;
            found.push(Site {
                function: self.shared_text(&function.raw_name()?),
                offset: line.wrapping_sub(declared) as u16,
                discriminator,
            });
            if found.len() > DEPTH {
                return Ok(None);
            }
            let entry = unit.entry(die)?;
            let own = |name: DwAt| entry.attr_value(name).and_then(|value| value.udata_value());
            place = (
                own(gimli::DW_AT_call_line).unwrap_or(0),
                own(gimli::DW_AT_GNU_discriminator).unwrap_or(0),
            );
        }
        found.reverse();
        Ok(Some(found))
    }

    /// Returns the line table of a unit, by address.
    fn line_rows(
        &self,
        key: UnitKey,
        unit: &UnitRef<'_, SectionReader>,
    ) -> gimli::Result<Arc<[LineRow]>> {
        if let Some(known) = self.rows.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut rows = Vec::new();
        if let Some(program) = unit.line_program.clone() {
            let mut program = program.rows();
            while let Some((_, row)) = program.next_row()? {
                let line = row.line().filter(|_| !row.end_sequence());
                rows.push(LineRow {
                    start: row.address(),
                    line: line.map_or(0, |line| line.get()),
                    discriminator: row.discriminator(),
                });
            }
        }
        // A stable sort: of several rows at an address, the last one counts.
        rows.sort_by_key(|row| row.start);
        let rows: Arc<[LineRow]> = rows.into();
        self.rows.borrow_mut().insert(key, Arc::clone(&rows));
        Ok(rows)
    }
}

/// Returns a number of an entry; if it has none, that of the entry that it copies or defines.
fn number_of(
    unit: &UnitRef<'_, SectionReader>,
    die: UnitOffset,
    name: DwAt,
) -> gimli::Result<Option<u64>> {
    let mut at = die;
    // An inlined call, its function, and the declaration of that.
    for _ in 0..4 {
        let entry = unit.entry(at)?;
        if let Some(value) = entry.attr_value(name).and_then(|v| v.udata_value()) {
            return Ok(Some(value));
        }
        let origin = entry
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(gimli::DW_AT_specification));
        at = match origin {
            Some(AttributeValue::UnitRef(offset)) => offset,
            // In another unit, after whole-program optimisation; usually it is the same one.
            Some(AttributeValue::DebugInfoRef(offset)) => {
                match offset.to_unit_offset(&unit.header) {
                    Some(offset) => offset,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
    }
    Ok(None)
}
