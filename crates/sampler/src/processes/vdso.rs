//! The code page that the kernel maps into every process, the same in all 64-bit ones.

use profile::MapsLine;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Returns the bytes of this process's vDSO, an ELF image.
pub fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let Range { start, end } = MapsLine::parse_all(&maps)
        .find(|line| line.path == "[vdso]")?
        .addresses;
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?.min(1 << 20)];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_own_is_an_elf_image() {
        let bytes = super::own_vdso().expect("this kernel maps a vDSO");
        assert!(bytes.starts_with(b"\x7fELF"));
    }
}
