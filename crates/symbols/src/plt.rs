//! Stubs of the procedure linkage table, recognised by their jump through a slot of the global
//! offset table. Their layout depends on the linker, on `-z now` and on branch protection; the jump
//! does not.

use crate::error::Error;
use crate::symtab::{Binding, SymbolCandidate, SymbolExtent, name_at};
use crate::tables::RawSymbols;
use crate::tables::Sections;
use object::Endianness;
use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym, SymbolTable};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// Maximum number of PLT sections; linkers make at most four, and each is read whole.
const MAX_PLT_SECTIONS: usize = 8;

/// Names of functions by the address of their slot in the global offset table.
pub(crate) type Slots = FxHashMap<u64, Vec<u8>>;

/// One stub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PltStub {
    pub start: u64,
    pub size: u64,
    /// The slot that it jumps through.
    pub slot: u64,
}

impl<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Sections<'_, 'd, H, R> {
    /// Names the stubs through which the image calls other images.
    pub fn plt_stubs(&mut self) -> Result<(), Error> {
        let machine = self.header.e_machine(self.endian);
        if !matches!(machine, elf::EM_X86_64 | elf::EM_AARCH64) {
            return Ok(());
        }
        let slots = self.got_slots();
        let is_plt = |name: &str| matches!(name, ".plt" | ".plt.sec" | ".plt.got" | ".iplt");
        let named = self
            .sections
            .iter()
            .map(|section| (section, self.name(section)));
        let plts: Vec<_> = named.filter(|(_, name)| is_plt(name)).collect();
        for (section, name) in plts.into_iter().take(MAX_PLT_SECTIONS) {
            let Some((offset, size)) = section.file_range(self.endian) else {
                continue;
            };
            let code = self
                .input
                .read_range(offset, size)
                .map_err(|error| self.error(&name, section, error))?;
            let address = section.sh_addr(self.endian).into();
            for stub in find_stubs(machine == elf::EM_AARCH64, address, &code) {
                let Some(target) = slots.get(&stub.slot) else {
                    continue;
                };
                let name = self.symbols.names.len() as u64;
                self.symbols.names.extend_from_slice(target);
                self.symbols.names.extend_from_slice(b"@plt\0");
                self.symbols.candidates.push(SymbolCandidate {
                    start: stub.start,
                    size: stub.size,
                    limit: stub.start + stub.size,
                    name,
                    extent: SymbolExtent::Known,
                    binding: Binding::Local,
                });
            }
        }
        Ok(())
    }

    /// Returns the functions whose addresses the dynamic linker writes into slots of the global
    /// offset table.
    fn got_slots(&self) -> Slots {
        let mut slots = Slots::default();
        // Only relocations that are applied at run time, which refer to `.dynsym`, or (in a static
        // executable) to no symbol.
        let dynamic = self.sections.iter().filter(|section| {
            section.sh_type(self.endian) == elf::SHT_RELA
                && section.sh_flags(self.endian).contains(elf::SHF_ALLOC)
        });
        for section in dynamic.take(MAX_PLT_SECTIONS) {
            let Ok(Some((relocations, link))) = section.rela(self.endian, self.data) else {
                continue;
            };
            let table = self
                .sections
                .symbol_table_by_index(self.endian, self.data, link)
                .unwrap_or_default();
            self.add_slots(relocations, &table, &mut slots);
        }
        slots
    }

    fn add_slots(&self, relocations: &[H::Rela], table: &SymbolTable<'d, H, R>, slots: &mut Slots) {
        let strings = self
            .sections
            .section(table.string_section())
            .ok()
            .and_then(|section| section.file_range(self.endian))
            .and_then(|(offset, size)| self.input.read_range(offset, size).ok())
            .unwrap_or_default();
        let ifuncs = OnceCell::new();
        for relocation in relocations {
            let slot = relocation.r_offset(self.endian).into();
            let kind = relocation.r_type(self.endian, false);
            if !is_slot(kind) && !is_irelative(kind) {
                continue;
            }
            let symbol = relocation
                .symbol(self.endian, false)
                .and_then(|index| table.symbol(index).ok());
            let name = match symbol {
                Some(symbol) => {
                    let name = strings.get(symbol.st_name(self.endian) as usize..);
                    let name = name.and_then(|rest| rest.split(|byte| *byte == 0).next());
                    name.unwrap_or_default().to_vec()
                }
                // The addend is the resolver function, which has the name.
                None if is_irelative(kind) => {
                    let address = relocation.r_addend(self.endian).into() as u64;
                    let names = &self.symbols.names;
                    let by_address = ifuncs.get_or_init(|| self.symbols.by_address());
                    let name = by_address.get(&address).map(|name| name_at(names, *name));
                    name.unwrap_or_default().to_vec()
                }
                None => continue,
            };
            if !name.is_empty() {
                slots.insert(slot, name);
            }
        }
    }
}

/// Returns whether a relocation fills a slot. Others, of which there may be hundreds of thousands,
/// fill data tables.
fn is_slot(kind: elf::RelocationType) -> bool {
    matches!(
        kind,
        elf::R_X86_64_JUMP_SLOT
            | elf::R_X86_64_GLOB_DAT
            | elf::R_AARCH64_JUMP_SLOT
            | elf::R_AARCH64_GLOB_DAT
    )
}

fn is_irelative(kind: elf::RelocationType) -> bool {
    matches!(kind, elf::R_X86_64_IRELATIVE | elf::R_AARCH64_IRELATIVE)
}

impl RawSymbols {
    /// Returns positions of the names of functions by address; of several the exported one.
    fn by_address(&self) -> FxHashMap<u64, u64> {
        let mut known: Vec<&SymbolCandidate> = self
            .candidates
            .iter()
            .filter(|candidate| candidate.extent == SymbolExtent::Known)
            .collect();
        known.sort_by_key(|candidate| candidate.binding);
        known
            .iter()
            .map(|candidate| (candidate.start, candidate.name))
            .collect()
    }
}

/// Returns the stubs in the code of a PLT section.
pub(crate) fn find_stubs(aarch64: bool, address: u64, code: &[u8]) -> Vec<PltStub> {
    if aarch64 {
        aarch64_stubs(address, code)
    } else {
        x86_64_stubs(address, code)
    }
}

/// Finds `[endbr64] [bnd] jmp *disp32(%rip)`, at multiples of 8.
fn x86_64_stubs(address: u64, code: &[u8]) -> Vec<PltStub> {
    let mut stubs: Vec<PltStub> = Vec::new();
    for start in (0..code.len()).step_by(8) {
        let mut at = start;
        for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]] {
            if code[at..].starts_with(prefix) {
                at += prefix.len();
            }
        }
        let Some([0xff, 0x25, a, b, c, d]) = code.get(at..at + 6) else {
            continue;
        };
        let displacement = i32::from_le_bytes([*a, *b, *c, *d]);
        let next = address.wrapping_add(at as u64 + 6);
        stubs.push(PltStub {
            start: address.wrapping_add(start as u64),
            size: if code.len().is_multiple_of(16) { 16 } else { 8 },
            slot: next.wrapping_add_signed(displacement.into()),
        });
    }
    stubs
}

/// Finds `[bti c] adrp x16, page; ldr x17, [x16, #offset]`.
fn aarch64_stubs(address: u64, code: &[u8]) -> Vec<PltStub> {
    const BTI_C: u32 = 0xd503_245f;
    let (words, _) = code.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut stubs = Vec::new();
    for (index, pair) in words.windows(2).enumerate() {
        let (adrp, ldr) = (pair[0], pair[1]);
        if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
            continue;
        }
        let pages = ((adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3) as i32;
        // 21 bits, signed.
        let pages = i64::from(pages << 11 >> 11);
        let here = address.wrapping_add(index as u64 * 4);
        let page = (here & !0xfff).wrapping_add_signed(pages << 12);
        let has_bti = index > 0 && words[index - 1] == BTI_C;
        stubs.push(PltStub {
            start: here - if has_bti { 4 } else { 0 },
            size: if has_bti { 24 } else { 16 },
            slot: page.wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8),
        });
    }
    stubs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aarch64_stub_is_read() {
        // adrp x16, +0x1f000; ldr x17, [x16, #0xf98]; add x16, x16, #0xf98; br x17
        let code: Vec<u8> = [0xf000_00f0_u32, 0xf947_ce11, 0x913e_6210, 0xd61f_0220]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(
            find_stubs(true, 0x5d0, &code),
            [PltStub {
                start: 0x5d0,
                size: 16,
                slot: 0x1_ff98
            }]
        );
    }
}
