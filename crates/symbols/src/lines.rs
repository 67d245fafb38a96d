//! The line table as a stream: every row once, without a cache.

use crate::section::SectionReader;
use gimli::{Dwarf, Reader as _, UnitRef};
use profile::ImageAddress;
use std::ops::Range;

/// Calls `visit` with each range of addresses, its file and its line.
pub(crate) fn visit_lines(
    dwarf: &Dwarf<SectionReader>,
    visit: &mut impl FnMut(Range<ImageAddress>, &str, u32),
) -> gimli::Result<()> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        unit_lines(UnitRef::new(dwarf, &unit), visit)?;
    }
    Ok(())
}

fn unit_lines(
    unit: UnitRef<'_, SectionReader>,
    visit: &mut impl FnMut(Range<ImageAddress>, &str, u32),
) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(());
    };
    // Type units only share the line table of the unit they came with for names of files.
    if matches!(unit.header.type_(), gimli::UnitType::Type { .. }) {
        return Ok(());
    }
    let mut files: Vec<Option<String>> = Vec::new();
    let mut rows = program.rows();
    let mut last: Option<(u64, u64, u32)> = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some((start, file, line)) = last
            && start < row.address()
        {
            let index = usize::try_from(file).unwrap_or(usize::MAX);
            if index >= files.len() && header.file(file).is_some() {
                files.resize(index + 1, None);
            }
            if let Some(slot) = files.get_mut(index) {
                if slot.is_none() {
                    *slot = Some(file_name(&unit, header, file)?);
                }
                if let Some(name) = slot {
                    visit(ImageAddress(start)..ImageAddress(row.address()), name, line);
                }
            }
        }
        // Line 0: code without a line.
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
        last = match line {
            Some(line) if !row.end_sequence() => Some((row.address(), row.file_index(), line)),
            _ => None,
        };
    }
    Ok(())
}

/// Returns the name of a file: its directory, with the directory of the compilation in front.
fn file_name(
    unit: &UnitRef<'_, SectionReader>,
    header: &gimli::LineProgramHeader<SectionReader>,
    index: u64,
) -> gimli::Result<String> {
    let mut path = match &unit.comp_dir {
        Some(dir) => dir.to_string_lossy()?.into_owned(),
        None => String::new(),
    };
    let Some(file) = header.file(index) else {
        return Ok(path);
    };
    if file.directory_index() != 0
        && let Some(dir) = file.directory(header)
    {
        join_path(&mut path, &unit.attr_string(dir)?.to_string_lossy()?);
    }
    join_path(
        &mut path,
        &unit.attr_string(file.path_name())?.to_string_lossy()?,
    );
    Ok(path)
}

fn join_path(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
