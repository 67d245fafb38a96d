//! Random programs of x86-64 machine code: conditions and loops of what can stall.

use super::super::pipeline::Random;
use machine::{Architecture, Graph, NoImage};
use profile::ImageAddress;

/// Where programs start.
pub const START: u64 = 0x40_1000;

/// All general registers but the stack pointer. The last four are not written, so that what they
/// address is known early.
const REGISTERS: [u8; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const WRITTEN: usize = 11;

/// The procedure: decoded again from its bytes.
pub fn procedure(random: &mut Random) -> Graph {
    let mut code = Code::default();
    code.piece(random, 4);
    code.put(&[0xc3]);
    let start = ImageAddress(START);
    Graph::new(Architecture::X86_64, start, &code.bytes, &NoImage).expect("a procedure")
}

#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction on two registers: prefixes, opcode, and `mode` of the second operand.
    fn two(&mut self, prefixes: &[u8], wide: bool, opcode: &[u8], mode: u8, ends: (u8, u8)) {
        self.put(prefixes);
        let (register, other) = ends;
        let rex = 0x40 | u8::from(wide) << 3 | (register >> 3) << 2 | other >> 3;
        if rex != 0x40 {
            self.put(&[rex]);
        }
        self.put(opcode);
        self.put(&[mode << 6 | (register & 7) << 3 | other & 7]);
    }

    /// The same with memory, at a register and a distance.
    fn memory(&mut self, prefixes: &[u8], opcode: &[u8], register: u8, base: u8) {
        self.two(prefixes, true, opcode, 2, (register, base));
        if base & 7 == 4 {
            self.put(&[0x24]);
        }
        self.put(&[0x40, 0x01, 0, 0]);
    }

    /// A jump, its distance to be set; gives where.
    fn jump(&mut self, opcode: &[u8]) -> usize {
        self.put(opcode);
        self.put(&[0; 4]);
        self.bytes.len()
    }

    fn land(&mut self, jump: usize, target: usize) {
        let distance = i32::try_from(target as i64 - jump as i64).expect("near");
        self.bytes[jump - 4..jump].copy_from_slice(&distance.to_le_bytes());
    }

    /// A condition and a branch on it.
    fn branch(&mut self, random: &mut Random) -> usize {
        let one = REGISTERS[random.below(REGISTERS.len())];
        self.two(&[], true, &[0x85], 3, (one, one));
        self.jump(&[0x0f, 0x84])
    }

    fn straight(&mut self, random: &mut Random) {
        // What some blocks have more of.
        let flavour = random.below(12);
        for _ in 0..2 + random.below(14) {
            let extra = flavour < 6 && random.below(3) == 0;
            self.one(random, extra.then_some(flavour));
        }
    }

    /// An instruction of one sort or of any: about as many of each in a hundred as programs have.
    fn one(&mut self, random: &mut Random, sort: Option<usize>) {
        let read = REGISTERS[random.below(REGISTERS.len())];
        let written = REGISTERS[random.below(WRITTEN)];
        let base = REGISTERS[WRITTEN + random.below(REGISTERS.len() - WRITTEN)];
        let base = if random.below(3) == 0 { read } else { base };
        let vectors = (random.below(8) as u8, random.below(8) as u8);
        let sort = sort.unwrap_or_else(|| match random.below(100) {
            0..28 => 0,
            28..40 => 1,
            40..43 => 2,
            43..47 => 3,
            47 => 4,
            48 => 5,
            49 => 6 + random.below(3),
            50..75 => 9,
            _ => 10,
        });
        match sort {
            // Load, store.
            0 => self.memory(&[], &[0x8b], written, base),
            1 => self.memory(&[], &[0x89], read, base),
            // imul, mulsd, divsd; popcnt: one port has it.
            2 => self.two(&[], true, &[0x0f, 0xaf], 3, (written, read)),
            3 => self.two(&[0xf2], false, &[0x0f, 0x59], 3, vectors),
            4 => self.two(&[0xf2], false, &[0x0f, 0x5e], 3, vectors),
            5 => self.two(&[0xf3], true, &[0x0f, 0xb8], 3, (written, read)),
            // lock add, mfence, div.
            6 => self.memory(&[0xf0], &[0x01], read, base),
            7 => self.put(&[0x0f, 0xae, 0xf0]),
            8 => self.two(&[], true, &[0xf7], 3, (6, read)),
            9 => self.two(&[], true, &[0x01], 3, (read, written)),
            _ => self.two(&[], true, &[0x31], 3, (read, written)),
        }
    }

    fn piece(&mut self, random: &mut Random, depth: usize) {
        self.straight(random);
        for _ in 0..1 + random.below(3) {
            if depth == 0 {
                break;
            }
            match random.below(3) {
                0 => {
                    let over = self.branch(random);
                    self.piece(random, depth - 1);
                    self.land(over, self.bytes.len());
                }
                1 => {
                    let other = self.branch(random);
                    self.piece(random, depth - 1);
                    let over = self.jump(&[0xe9]);
                    self.land(other, self.bytes.len());
                    self.piece(random, depth - 1);
                    self.land(over, self.bytes.len());
                }
                _ => {
                    let top = self.bytes.len();
                    self.piece(random, depth - 1);
                    let again = self.branch(random);
                    self.land(again, top);
                }
            }
            self.straight(random);
        }
    }
}
