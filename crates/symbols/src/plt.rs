//! Stubs of the procedure linkage table, recognised by what they do: jump through a slot of the
//! global offset table. Their layout differs by linker, by `-z now` and by branch protection; the
//! jump does not.

use rustc_hash::FxHashMap;

/// Name of the function by the address of its slot in the global offset table.
pub(crate) type Slots = FxHashMap<u64, Vec<u8>>;

/// One stub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub start: u64,
    pub size: u64,
    /// The slot that it jumps through.
    pub slot: u64,
}

/// The stubs in the code of a PLT section.
pub(crate) fn stubs(aarch64: bool, address: u64, code: &[u8]) -> Vec<Stub> {
    if aarch64 {
        aarch64_stubs(address, code)
    } else {
        x86_64_stubs(address, code)
    }
}

/// `[endbr64] [bnd] jmp *disp32(%rip)`, at multiples of 8.
fn x86_64_stubs(address: u64, code: &[u8]) -> Vec<Stub> {
    let mut stubs: Vec<Stub> = Vec::new();
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
        stubs.push(Stub {
            start: address.wrapping_add(start as u64),
            size: if code.len().is_multiple_of(16) { 16 } else { 8 },
            slot: next.wrapping_add_signed(displacement.into()),
        });
    }
    stubs
}

/// `[bti c] adrp x16, page; ldr x17, [x16, #offset]`.
fn aarch64_stubs(address: u64, code: &[u8]) -> Vec<Stub> {
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
        stubs.push(Stub {
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
            stubs(true, 0x5d0, &code),
            [Stub {
                start: 0x5d0,
                size: 16,
                slot: 0x1_ff98
            }]
        );
    }
}
