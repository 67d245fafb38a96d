//! The code page that the kernel maps into every process: the same in all 64-bit ones.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The bytes of our own vDSO, an ELF image.
pub fn bytes() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?.min(1 << 20)];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_own_is_an_elf_image() {
        let bytes = super::bytes().expect("this kernel maps a vDSO");
        assert!(bytes.starts_with(b"\x7fELF"));
    }
}
