//! What is mapped executable into a process.

use profile::ImageOffset;
use std::ops::Range;

/// A mapping with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// The position in the file of its first byte.
    pub offset: u64,
    /// The file, or a name in brackets; empty for memory without either.
    pub path: String,
}

impl Mapping {
    /// The position in the file of an address of the mapping.
    pub fn file_offset(&self, address: u64) -> ImageOffset {
        ImageOffset(
            self.offset
                .wrapping_add(address.wrapping_sub(self.range.start)),
        )
    }
}

/// The executable mappings of a process, by address.
pub(crate) fn read(pid: u32) -> Vec<Mapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    parse(&String::from_utf8_lossy(&text))
}

/// The addresses of all mappings of a process, in order.
pub(crate) fn ranges(pid: u32) -> Vec<Range<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines()
        .filter_map(|line| range(line.split_once(' ')?.0))
        .collect()
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mapping> {
    let (addresses, rest) = line.split_once(' ')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (_device, rest) = rest.split_once(' ')?;
    let path = rest
        .split_once(' ')
        .map_or("", |(_inode, path)| path.trim_start());
    permissions.contains('x').then_some(Mapping {
        range: range(addresses)?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
    })
}

/// The mapping that an address lies in.
pub(crate) fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let at = mappings.partition_point(|m| m.range.end <= address);
    mappings.get(at).filter(|m| m.range.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_with_its_file() {
        let maps = parse(
            "555555554000-555555555000 r--p 00000000 fe:00 12 /usr/bin/a b\n\
             555555555000-555555557000 r-xp 00001000 fe:00 12 /usr/bin/a b\n\
             7ffff7f00000-7ffff7f01000 rwxp 00000000 00:00 0 \n\
             7ffff7fc9000-7ffff7fcb000 r-xp 00000000 00:00 0                          [vdso]\n\
             7ffff8000000-7ffff8001000 r-xp 00000000 fe:00 13 /gone.so (deleted)\n\
             broken\n",
        );
        let paths: Vec<&str> = maps.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(paths, ["/usr/bin/a b", "", "[vdso]", "/gone.so"]);
        let found = find(&maps, 0x5555_5555_6010).unwrap();
        assert_eq!(found.file_offset(0x5555_5555_6010), ImageOffset(0x2010));
        assert_eq!(find(&maps, 0x5555_5555_4010), None);
    }
}
