//! Random programs of x86-64 machine code: a hot procedure of some hundred instructions, of the
//! kind that compilers emit. Addresses are computed, and conditions depend on counters and loaded
//! values.

use super::super::pipeline::Random;
use super::contents::{Contents, STACK, VARIABLES, Words};
use iced_x86::code_asm::*;
use iced_x86::{Decoder, DecoderOptions, IcedError, Instruction};
use machine::{Architecture, FlowGraph, NoImage};
use profile::ImageAddress;

/// Start address of programs.
pub const START: u64 = 0x40_1000;

/// Registers for intermediate results, and for values that live for the length of a loop.
const SCRATCH: [AsmRegister64; 5] = [rax, rcx, rdx, rsi, rdi];
const HOLDING: [AsmRegister64; 10] = [rbx, rbp, r8, r9, r10, r11, r12, r13, r14, r15];
const VECTORS: [AsmRegisterXmm; 8] = [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7];

/// Words of the stack frame, and of the global variables, that are computed with. Behind them are
/// parameters and values that live from call to call.
const WORDS: usize = 24;

/// Maximum number of rounds of nested loops in one call.
const TIMES: u64 = 1024;

/// A program, and the contents of its memory.
pub struct Program {
    pub graph: FlowGraph,
    /// Each instruction of the graph, decoded.
    pub code: Vec<Instruction>,
    pub contents: Contents,
}

/// Generates the procedure, decoded again from its bytes.
pub fn program(random: &mut Random) -> Program {
    let mut writer = Writer::new(random);
    let bytes = writer.write().expect("code");
    let contents = writer.contents;
    let start = ImageAddress(START);
    let graph = FlowGraph::new(Architecture::X86_64, start, &bytes, &NoImage).expect("a procedure");
    let decode = |one: &machine::Instruction| {
        let at = (one.address.0 - START) as usize;
        Decoder::with_ip(64, &bytes[at..], one.address.0, DecoderOptions::NONE).decode()
    };
    Program {
        code: graph.instructions.iter().map(decode).collect(),
        graph,
        contents,
    }
}

/// Operands of address computations.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// An object, by the register that has its address, and its size in bytes.
    Object(AsmRegister64, u64),
    /// An array of words: base and index.
    Words(AsmRegister64, AsmRegister64),
    /// An array of addresses of objects: base and index, and the size of an object in bytes.
    Pointers(AsmRegister64, AsmRegister64, u64),
    /// A table of `2^log` words, indexed by a hash.
    Table(AsmRegister64, u32),
}

pub(super) type Result<T = ()> = std::result::Result<T, IcedError>;

pub(super) struct Writer<'a> {
    pub asm: CodeAssembler,
    pub random: &'a mut Random,
    pub contents: Contents,
    pub free: Vec<AsmRegister64>,
    pub sources: Vec<Source>,
    /// Counters of the loops around, with their numbers of rounds.
    pub counters: Vec<(AsmRegister64, u64)>,
    parameters: u64,
    /// Register with the last loaded value.
    pub loaded: AsmRegister64,
}

impl<'a> Writer<'a> {
    fn new(random: &'a mut Random) -> Self {
        Self {
            asm: CodeAssembler::new(64).expect("64 bits"),
            random,
            contents: Contents::default(),
            free: HOLDING.to_vec(),
            sources: Vec::new(),
            counters: Vec::new(),
            parameters: 0,
            loaded: rax,
        }
    }

    fn write(&mut self) -> Result<Vec<u8>> {
        self.object()?;
        self.table()?;
        for _ in 0..4 + self.random.below(5) {
            self.straight()?;
            self.looped(2, TIMES)?;
        }
        self.straight()?;
        self.asm.ret()?;
        self.asm.assemble(START)
    }

    /// Draws a number between `2^low` and `2^high`; each power of two is equally likely.
    pub fn power(&mut self, low: f64, high: f64) -> u64 {
        2.0_f64.powf(low + (high - low) * self.random.unit()) as u64
    }

    pub fn scratch(&mut self) -> AsmRegister64 {
        SCRATCH[self.random.below(SCRATCH.len())]
    }

    /// Returns a word of the stack frame or a global variable with an initial value, which is not
    /// computed with.
    pub fn parameter(&mut self, value: u64) -> AsmMemoryOperand {
        let at = 8 * (WORDS as u64 + self.parameters);
        self.parameters += 1;
        if self.random.below(2) == 0 {
            self.contents.write(STACK + at, value);
            qword_ptr(rsp + at as i32)
        } else {
            self.contents.write(VARIABLES + at, value);
            qword_ptr(VARIABLES + at)
        }
    }

    /// Emits some straight-line instructions.
    pub fn straight(&mut self) -> Result {
        // Some blocks have more of one sort.
        let flavour = self.random.below(12);
        for _ in 0..2 + self.random.below(10) {
            let extra = flavour < 6 && self.random.below(3) == 0;
            self.statement(extra.then_some(flavour))?;
        }
        Ok(())
    }

    /// Emits a statement of one sort or of any: with about the frequencies of real programs.
    fn statement(&mut self, sort: Option<usize>) -> Result {
        let (to, from) = (self.scratch(), self.scratch());
        let vector = [0; 2].map(|_| VECTORS[self.random.below(VECTORS.len())]);
        let sort = sort.unwrap_or_else(|| match self.random.below(100) {
            0..26 => 0,
            26..38 => 1,
            38..42 => 2,
            42..45 => 3,
            45 => 4,
            46 => 5,
            47 => 6 + self.random.below(3),
            _ => 9,
        });
        match sort {
            0 => self.load(to),
            1 => self.store(from),
            2 => {
                let at = self.place()?;
                self.asm.movsd_2(vector[0], at)?;
                if self.random.below(2) == 0 {
                    self.asm.mulsd(vector[1], vector[0])
                } else {
                    self.asm.addsd(vector[1], vector[0])
                }
            }
            3 => self.asm.imul_2(to, from),
            4 => self.asm.divsd(vector[0], vector[1]),
            // Only one port executes it.
            5 => self.asm.popcnt(to, from),
            6 => {
                let at = self.place()?;
                self.asm.lock().add(at, from)
            }
            7 => {
                self.asm.xor(edx, edx)?;
                self.asm.div(if from == rdx { rcx } else { from })
            }
            8 => self.asm.mfence(),
            _ => match self.random.below(8) {
                0 => self.asm.lea(to, qword_ptr(to + from * 2 + 5)),
                1 => self.asm.shr(to, 3),
                2 => self.asm.xor(to, from),
                3 => self.asm.sub(to, from),
                4 => self.asm.mov(to, from),
                _ => self.asm.add(to, from),
            },
        }
    }

    fn load(&mut self, to: AsmRegister64) -> Result {
        let at = self.place()?;
        self.loaded = to;
        match self.random.below(4) {
            0 => self.asm.add(to, at),
            _ => self.asm.mov(to, at),
        }
    }

    fn store(&mut self, from: AsmRegister64) -> Result {
        let at = self.place()?;
        match self.random.below(4) {
            0 => self.asm.add(at, from),
            _ => self.asm.mov(at, from),
        }
    }

    /// Draws the place of an access. Of a hundred accesses, 35 are on the stack and 15 to global
    /// variables. 18 are to fields of an object, 18 to arrays, 7 by a hash and 7 by an address in
    /// an array. If there is nothing of the kind, the access is on the stack.
    fn place(&mut self) -> Result<AsmMemoryOperand> {
        let word = 8 * self.random.below(WORDS) as u64;
        let kind = self.random.below(100);
        let fits = |one: &&Source| match kind {
            50..68 => matches!(one, Source::Object(..)),
            68..86 => matches!(one, Source::Words(..)),
            86..93 => matches!(one, Source::Table(..)),
            93.. => matches!(one, Source::Pointers(..)),
            _ => false,
        };
        let all: Vec<Source> = self.sources.iter().filter(fits).copied().collect();
        if all.is_empty() {
            return Ok(match kind {
                35..50 => qword_ptr(VARIABLES + word),
                _ => qword_ptr(rsp + word as i32),
            });
        }
        let source = all[self.random.below(all.len())];
        self.operand(source)
    }

    pub fn operand(&mut self, source: Source) -> Result<AsmMemoryOperand> {
        let field =
            |random: &mut Random, bytes: u64| 8 * random.below(bytes.min(256) as usize / 8) as i32;
        Ok(match source {
            Source::Object(at, bytes) => qword_ptr(at + field(self.random, bytes)),
            Source::Words(base, index) => qword_ptr(base + index * 8),
            Source::Pointers(base, index, bytes) => {
                let to = self.scratch();
                self.asm.mov(to, qword_ptr(base + index * 8))?;
                qword_ptr(to + field(self.random, bytes))
            }
            Source::Table(base, log) => {
                let (key, hash) = (self.loaded, self.scratch());
                self.asm.imul_3(hash, key, 0x1e37_79b1)?;
                self.asm.shr(hash, 15)?;
                self.asm.and(hash, (1 << log) - 1)?;
                qword_ptr(base + hash * 8)
            }
        })
    }

    /// Emits a condition, and a jump if it is false: half of them test bits of loaded values, half
    /// a counter or which of two numbers is larger.
    pub fn branch(&mut self, otherwise: CodeLabel) -> Result {
        let bits = 1 + self.random.below(6) as u32;
        let mask = (1 << bits) - 1;
        match (self.random.below(4), self.counters.last()) {
            (0, Some((counter, _))) => self.asm.test(*counter, mask)?,
            (1, _) => {
                let (one, other) = (self.loaded, self.scratch());
                self.asm.cmp(one, other)?;
                return self.asm.jb(otherwise);
            }
            _ => self.asm.test(self.loaded, mask)?,
        }
        if self.random.below(2) == 0 {
            self.asm.je(otherwise)
        } else {
            self.asm.jne(otherwise)
        }
    }

    /// Emits code with conditions and loops.
    pub fn piece(&mut self, depth: usize, times: u64) -> Result {
        self.straight()?;
        for _ in 0..self.random.below(3) {
            match self.random.below(4) {
                0 => {
                    let mut over = self.asm.create_label();
                    self.branch(over)?;
                    self.straight()?;
                    self.asm.set_label(&mut over)?;
                }
                1 => {
                    let (mut other, mut over) = (self.asm.create_label(), self.asm.create_label());
                    self.branch(other)?;
                    self.straight()?;
                    self.asm.jmp(over)?;
                    self.asm.set_label(&mut other)?;
                    self.straight()?;
                    self.asm.set_label(&mut over)?;
                }
                _ if depth > 0 => self.looped(depth - 1, times)?,
                _ => {}
            }
            self.straight()?;
        }
        Ok(())
    }

    /// Returns the address of a new array in a register, if one is free.
    pub fn held(&mut self, bytes: u64, words: Words) -> Result<Option<AsmRegister64>> {
        let Some(base) = self.free.pop() else {
            return Ok(None);
        };
        let start = self.contents.array(self.random, bytes, words);
        if self.random.below(3) == 0 {
            self.asm.mov(base, start)?;
        } else {
            let at = self.parameter(start);
            self.asm.mov(base, at)?;
        }
        Ok(Some(base))
    }
}
