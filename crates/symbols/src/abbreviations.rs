use crate::section::{Meter, SectionReader};
use gimli::{Dwarf, Reader as _, Section as _};
use std::collections::BTreeSet;

/// Maximum number of attributes of an entry; real compilers need a few dozen.
const MAX_ATTRIBUTES: usize = 256;

/// Refuses kinds of entries with thousands of attributes. An attribute can take no bytes at all, so
/// that a file of a megabyte could ask for 10¹¹ of them without a single counted read.
pub(crate) fn check_abbreviations(
    dwarf: &Dwarf<SectionReader>,
    meter: &Meter,
) -> gimli::Result<()> {
    let mut tables = BTreeSet::new();
    let mut units = dwarf.units();
    while let Ok(Some(unit)) = units.next() {
        if !tables.insert(unit.debug_abbrev_offset().0) {
            continue;
        }
        let mut table = dwarf.debug_abbrev.reader().clone();
        // A truncated or missing table only harms its own units.
        if table.skip(unit.debug_abbrev_offset().0).is_ok()
            && let Ok(longest) = longest_entry(&mut table)
            && longest > MAX_ATTRIBUTES
        {
            return Err(meter.refuse());
        }
    }
    Ok(())
}

/// Returns the number of attributes of a table's longest declaration; stops at the first that is
/// too long.
fn longest_entry(table: &mut SectionReader) -> gimli::Result<usize> {
    let mut longest = 0;
    while longest <= MAX_ATTRIBUTES && !table.is_empty() && table.read_uleb128()? != 0 {
        let _tag = table.read_uleb128()?;
        let _children = table.read_u8()?;
        let mut count = 0;
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128_u16()?);
            if (name, form) == (0, 0) {
                break;
            }
            if gimli::DwForm(form) == gimli::DW_FORM_implicit_const {
                table.read_sleb128()?;
            }
            count += 1;
            longest = longest.max(count);
            if longest > MAX_ATTRIBUTES {
                break;
            }
        }
    }
    Ok(longest)
}
