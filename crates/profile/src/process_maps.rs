//! Lines of `/proc/PID/maps`: the memory mappings of a process.

use crate::address::ImageOffset;
use crate::image::FileIdentity;
use std::ops::Range;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsLine<'a> {
    /// Addresses in the process.
    pub addresses: Range<u64>,
    /// True if the memory may be executed.
    pub executable: bool,
    /// True if the program may write to it.
    pub writable: bool,
    /// Position in the file of the first byte.
    pub file_offset: u64,
    /// The mapped file; `None` for memory without one.
    pub file: Option<FileIdentity>,
    /// Path as the kernel prints it, with ` (deleted)` after a file that is gone, or a name in
    /// brackets; empty for memory without either.
    pub path: &'a str,
}

impl<'a> MapsLine<'a> {
    /// Parses one line; `None` if it is malformed.
    pub fn parse(line: &'a str) -> Option<Self> {
        // The fields end at the first blank, because the path may contain more blanks.
        let mut rest = line;
        let mut field = || {
            let trimmed = rest.trim_start();
            let (first, tail) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
            rest = tail;
            first
        };
        let (range, permissions, offset) = (field(), field(), field());
        let (device, inode) = (field(), field());
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = device.split_once(':')?;
        let device = |text: &str| u32::from_str_radix(text, 16).ok();
        let (major, minor) = (device(major)?, device(minor)?);
        let inode: u64 = inode.parse().ok()?;
        Some(Self {
            addresses: hex(start)?..hex(end)?,
            executable: permissions.contains('x'),
            writable: permissions.contains('w'),
            file_offset: hex(offset)?,
            file: (inode != 0).then_some(FileIdentity {
                major,
                minor,
                inode,
                generation: 0,
            }),
            path: rest.trim(),
        })
    }

    /// Parses the text of a whole file, without malformed lines.
    pub fn parse_all(text: &'a str) -> impl Iterator<Item = Self> {
        text.lines().filter_map(Self::parse)
    }

    /// Returns the position in the file of an address in the mapping.
    pub fn file_offset_of(&self, address: u64) -> Option<ImageOffset> {
        let inside = self.addresses.contains(&address);
        inside.then(|| {
            ImageOffset(
                self.file_offset
                    .wrapping_add(address - self.addresses.start),
            )
        })
    }

    /// Returns the path that the file had when it was mapped.
    pub fn original_path(&self) -> &'a str {
        self.path.strip_suffix(" (deleted)").unwrap_or(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_are_read() {
        let line = "7f00-8f00 r-xp 00001000 fe:01 42   /opt/a b/lib.so (deleted)";
        let mapping = MapsLine::parse(line).unwrap();
        assert_eq!(mapping.addresses, 0x7f00..0x8f00);
        assert_eq!(mapping.file_offset, 0x1000);
        let file = mapping.file.unwrap();
        assert_eq!((file.major, file.minor, file.inode), (0xfe, 1, 42));
        assert_eq!(mapping.path, "/opt/a b/lib.so (deleted)");
        assert_eq!(mapping.original_path(), "/opt/a b/lib.so");
        assert_eq!(mapping.file_offset_of(0x7f10), Some(ImageOffset(0x1010)));
        assert_eq!(mapping.file_offset_of(0x8f00), None);
    }

    #[test]
    fn memory_without_a_file_has_no_identity() {
        let text = "7000-8000 rwxp 00000000 00:00 0 \n\
                    broken\n\
                    9000-a000 r--p 00000000 00:00 0                          [vdso]\n";
        let mappings: Vec<MapsLine<'_>> = MapsLine::parse_all(text).collect();
        let names: Vec<(bool, &str)> = mappings.iter().map(|m| (m.executable, m.path)).collect();
        assert_eq!(names, [(true, ""), (false, "[vdso]")]);
        assert!(mappings.iter().all(|mapping| mapping.file.is_none()));
    }

    #[test]
    fn other_lines_are_none() {
        for bad in [
            "",
            "x",
            "1-2 r-xp",
            "1 rw-p 0 0:0 0",
            "g-h r-xp 0 0:0 0",
            "1-2 r-xp 0 0 0",
        ] {
            assert_eq!(MapsLine::parse(bad), None, "{bad:?}");
        }
    }
}
