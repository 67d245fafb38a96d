//! The signal handler for programs without hooks (crate `freestanding`), as bytes for any address.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol};
use sampler::process_file;
use std::ops::Range;

/// The program that the build script compiled.
const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/freestanding.elf"));
/// Page size.
pub(super) const PAGE: u64 = 4096;

/// `syscall; ret`, and the call that returns from a signal handler, in the form that debuggers
/// recognise.
const CALLS: [u8; 12] = *b"\x0f\x05\xc3\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";
/// Offset of the second call in [`CALLS`].
pub(super) const LEAVE: u64 = 3;
/// Offset in the first page of the program's own action of the signal: the kernel's `struct
/// sigaction`.
pub(super) const KEPT_ACTION: u64 = 64;

/// The handler. In a process its first page has [`CALLS`]; the image follows.
pub(super) struct HandlerImage {
    elf: ElfFile64<'static, Endianness>,
    /// Size in memory with the first page, in bytes: whole pages.
    pub size: u64,
    /// The writable part.
    pub data: Range<u64>,
    entry: u64,
    shared: u64,
}

impl HandlerImage {
    /// Reads the handler; `None`: there is none for this processor.
    pub fn read() -> Option<Self> {
        let elf = ElfFile64::<Endianness>::parse(BYTES).ok()?;
        let symbol = |name: &str| {
            let found = elf.symbols().find(|symbol| symbol.name() == Ok(name))?;
            Some(PAGE + found.address())
        };
        let end = elf.segments().map(|it| it.address() + it.size()).max()?;
        let data = elf.section_by_name(".data")?.address();
        let size = PAGE + end.next_multiple_of(PAGE);
        Some(Self {
            size,
            data: PAGE + data / PAGE * PAGE..size,
            entry: symbol("vitalfew_sample")?,
            shared: symbol("vitalfew_shared")?,
            elf,
        })
    }

    /// Returns the name of the handler, which differs between builds.
    pub fn name(&self) -> String {
        // FNV-1a suffices to tell builds apart.
        let hash = BYTES.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{PREFIX}{hash:016x}")
    }

    /// Returns the address of the handler's entry if the first page is at `base`.
    pub fn entry_at(&self, base: u64) -> u64 {
        base + self.entry
    }

    /// Returns the bytes for the address `base`, with the addresses of the shared memory filled in.
    /// `None`: the image is damaged.
    pub fn bytes_at(&self, base: u64, page: u64, clocks: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.size as usize];
        bytes.get_mut(..CALLS.len())?.copy_from_slice(&CALLS);
        for segment in self.elf.segments() {
            let data = segment.data().ok()?;
            let at = (PAGE + segment.address()) as usize;
            bytes
                .get_mut(at..)?
                .get_mut(..data.len())?
                .copy_from_slice(data);
        }
        let relocations = self.elf.dynamic_relocations().into_iter().flatten();
        let relative = relocations.map(|(at, it)| (PAGE + at, base + PAGE + it.addend() as u64));
        let shared = [(self.shared, page), (self.shared + 8, clocks)];
        for (at, word) in relative.chain(shared) {
            let place = bytes.get_mut(at as usize..)?.get_mut(..8)?;
            place.copy_from_slice(&word.to_le_bytes());
        }
        Some(bytes)
    }
}

/// Prefix of the names of all builds.
const PREFIX: &str = "vitalfew-handler-";

/// Finds the handlers of any build in a process: the address of each one's first page, and its
/// name.
pub(super) fn find_handlers(pid: u32) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
    let lines = profile::MapsLine::parse_all(&text).filter(|line| line.file_offset == 0);
    let named = lines.filter_map(|line| {
        let name = line.original_path().strip_prefix("/memfd:")?;
        let ours = name.starts_with(PREFIX);
        ours.then(|| (line.addresses.start, name.to_owned()))
    });
    named.collect()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use object::RelocationFlags;

    #[test]
    fn the_handler_needs_nothing_around_it_and_panics_nowhere() {
        let image = HandlerImage::read().unwrap();
        let relative = object::elf::R_X86_64_RELATIVE;
        for (_, relocation) in image.elf.dynamic_relocations().unwrap() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                panic!("{relocation:?}");
            };
            assert_eq!(r_type, relative);
        }
        let names: Vec<_> = image
            .elf
            .symbols()
            .filter_map(|it| it.name().ok())
            .collect();
        let panics = names.iter().find(|name| name.contains("panic"));
        assert_eq!(panics, None, "of {names:?}");
        assert!(
            image
                .elf
                .symbols()
                .all(|it| !it.is_undefined() || it.name() == Ok(""))
        );
        assert!(image.size <= 64 << 10, "{}", image.size);
    }

    #[test]
    fn its_bytes_know_where_they_are() {
        let image = HandlerImage::read().unwrap();
        let bytes = image
            .bytes_at(0x7000_0000_0000, 0x1234_5000, 0x2345_6000)
            .unwrap();
        let word = |at: u64| u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap());
        assert_eq!(bytes[..2], [0x0f, 0x05]);
        assert_eq!(bytes[LEAVE as usize..][..3], [0x48, 0xc7, 0xc0]);
        assert_eq!(word(image.shared), 0x1234_5000);
        assert_eq!(word(image.shared + 8), 0x2345_6000);
        assert!(image.data.contains(&image.shared));
        assert!(!image.data.contains(&image.entry));
        assert_ne!(word(image.entry), 0);
        for (at, _) in image.elf.dynamic_relocations().unwrap() {
            let place = word(PAGE + at) - 0x7000_0000_0000;
            assert!((PAGE..image.size).contains(&place), "{place:#x}");
        }
    }
}
