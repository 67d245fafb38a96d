//! Executable mappings of a process.

use profile::{ImageOffset, MapsLine};
use sampler::process_file;
use std::ops::Range;

/// A mapping with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutableMapping {
    /// Addresses of the mapping.
    pub range: Range<u64>,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Path of the file, or a name in brackets; empty for anonymous memory.
    pub path: String,
    /// True if the program may write to the code.
    pub writable: bool,
}

impl ExecutableMapping {
    /// Returns the file offset of an address of the mapping.
    pub fn file_offset(&self, address: u64) -> ImageOffset {
        ImageOffset(
            self.offset
                .wrapping_add(address.wrapping_sub(self.range.start)),
        )
    }
}

/// Returns the executable mappings of a process, by address.
pub(crate) fn read_mappings(pid: u32) -> Vec<ExecutableMapping> {
    parse_maps(&text_of_maps(pid))
}

/// Returns the addresses of all mappings of a process, in order.
pub(crate) fn mapped_ranges(pid: u32) -> Vec<Range<u64>> {
    let text = text_of_maps(pid);
    MapsLine::parse_all(&text)
        .map(|line| line.addresses)
        .collect()
}

/// Returns the text of a process's `/proc/PID/maps`; empty if the process has ended.
fn text_of_maps(pid: u32) -> String {
    let bytes = std::fs::read(process_file(pid, "maps")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_maps(text: &str) -> Vec<ExecutableMapping> {
    let code = MapsLine::parse_all(text).filter(|line| line.executable);
    code.map(|line| ExecutableMapping {
        path: line.original_path().to_owned(),
        writable: line.writable,
        range: line.addresses,
        offset: line.file_offset,
    })
    .collect()
}

/// Returns the mapping of an address.
pub(crate) fn mapping_at(
    mappings: &[ExecutableMapping],
    address: u64,
) -> Option<&ExecutableMapping> {
    let at = mappings.partition_point(|m| m.range.end <= address);
    mappings.get(at).filter(|m| m.range.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_with_its_file() {
        let maps = parse_maps(
            "555555554000-555555555000 r--p 00000000 fe:00 12 /usr/bin/a b\n\
             555555555000-555555557000 r-xp 00001000 fe:00 12 /usr/bin/a b\n\
             7ffff7f00000-7ffff7f01000 rwxp 00000000 00:00 0 \n\
             7ffff7fc9000-7ffff7fcb000 r-xp 00000000 00:00 0                          [vdso]\n\
             7ffff8000000-7ffff8001000 r-xp 00000000 fe:00 13 /gone.so (deleted)\n\
             broken\n",
        );
        let paths: Vec<&str> = maps.iter().map(|m| m.path.as_str()).collect();
        assert_eq!(paths, ["/usr/bin/a b", "", "[vdso]", "/gone.so"]);
        let found = mapping_at(&maps, 0x5555_5555_6010).unwrap();
        assert_eq!(found.file_offset(0x5555_5555_6010), ImageOffset(0x2010));
        assert_eq!(mapping_at(&maps, 0x5555_5555_4010), None);
    }
}
