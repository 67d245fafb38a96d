//! Loops of the simulated programs, and the arrays that they traverse.

use super::code::{Result, Source, Writer};
use super::contents::Words;
use iced_x86::code_asm::*;

/// Bytes of arrays and tables: from 1 KiB to 64 MiB.
const SMALL: f64 = 10.0;
const LARGE: f64 = 26.0;

/// Maximum number of rounds of a loop.
const ROUNDS: u64 = 512;

/// Code at the end of a loop.
#[derive(Default)]
struct Latch {
    /// Registers that advance by a constant, and those that follow the address that they hold.
    advancing: Vec<(AsmRegister64, u64)>,
    following: Vec<AsmRegister64>,
    /// Locations in which followed addresses are kept until the next call.
    kept: Vec<(AsmMemoryOperand, AsmRegister64)>,
}

impl Writer<'_> {
    /// Emits an object whose address the surrounding code has.
    pub fn object(&mut self) -> Result {
        let bytes = self.power(6.0, 9.0) & !7;
        if let Some(at) = self.held(bytes, Words::Numbers)? {
            self.sources.push(Source::Object(at, bytes));
        }
        Ok(())
    }

    /// Emits a table indexed by a hash.
    pub fn table(&mut self) -> Result {
        let log = (self.power(SMALL, LARGE) / 8).ilog2();
        if let Some(at) = self.held(8 << log, Words::Numbers)? {
            self.sources.push(Source::Table(at, log));
        }
        Ok(())
    }

    /// Emits a loop that counts, or that goes on until a loaded value ends it.
    pub fn looped(&mut self, depth: usize, times: u64) -> Result {
        let most = times.min(ROUNDS);
        if self.free.len() < 3 || most < 4 {
            return self.straight();
        }
        let (free, sources) = (self.free.clone(), self.sources.len());
        let rounds = if depth > 0 && self.random.below(2) == 0 {
            self.power(1.0, 5.0)
        } else {
            self.power(1.0, (most as f64).log2())
        };
        let rounds = rounds.clamp(2, most);
        let counter = self.free.pop().expect("there");
        let mut latch = Latch::default();
        for _ in 0..1 + self.random.below(3) {
            self.array(counter, rounds, &mut latch)?;
        }
        self.asm.xor(counter, counter)?;
        let (mut top, mut out) = (self.asm.create_label(), self.asm.create_label());
        self.asm.set_label(&mut top)?;
        self.counters.push((counter, rounds));
        if depth < 2 && self.random.below(3) == 0 {
            self.kernel(sources)?;
        } else {
            self.piece(depth, times / rounds)?;
        }
        if self.random.below(5) == 0 {
            let bits = 3 + self.random.below(6) as u32;
            self.asm.test(self.loaded, (1 << bits) - 1)?;
            self.asm.je(out)?;
            self.straight()?;
        }
        self.counters.pop();
        for (register, by) in &latch.advancing {
            self.asm.add(*register, *by as i32)?;
        }
        for register in &latch.following {
            self.asm.mov(*register, qword_ptr(*register))?;
        }
        self.asm.inc(counter)?;
        if self.random.below(2) == 0 {
            self.asm.cmp(counter, rounds as i32)?;
        } else {
            let limit = self.parameter(rounds);
            self.asm.cmp(counter, limit)?;
        }
        self.asm.jb(top)?;
        self.asm.set_label(&mut out)?;
        for (at, register) in latch.kept {
            self.asm.mov(at, register)?;
        }
        self.asm.zero_bytes()?;
        self.sources.truncate(sources);
        self.free = free;
        Ok(())
    }

    /// Emits the body of a loop that sums, fills or copies its data.
    fn kernel(&mut self, sources: usize) -> Result {
        let (from, to) = (self.random.below(3), self.scratch());
        for index in sources..self.sources.len() {
            let at = self.operand(self.sources[index])?;
            let stores = from == 0 || from == 1 && index > sources;
            match stores {
                true => self.asm.mov(at, to)?,
                false if from == 1 => self.asm.mov(to, at)?,
                false => self.asm.add(to, at)?,
            }
        }
        Ok(())
    }

    /// Emits an array that a loop traverses.
    fn array(&mut self, counter: AsmRegister64, rounds: u64, latch: &mut Latch) -> Result {
        match self.random.below(12) {
            0 => self.object(),
            1 => self.table(),
            2 => self.list(latch),
            3 => {
                let bytes = self.power(6.0, 10.0) & !7;
                let log = (self.power(SMALL, LARGE) / bytes).max(1).ilog2();
                let to = self
                    .contents
                    .array(self.random, bytes << log, Words::Numbers);
                let words = Words::Pointers { to, log, bytes };
                let base = self.walked(8 * rounds, words)?;
                self.sources
                    .extend(base.map(|base| Source::Pointers(base, counter, bytes)));
                Ok(())
            }
            4..9 => {
                let base = self.walked(8 * rounds, Words::Numbers)?;
                self.sources
                    .extend(base.map(|base| Source::Words(base, counter)));
                Ok(())
            }
            _ => {
                let bytes = self.power(3.0, 9.0) & !7;
                let base = self.walked(bytes * rounds, Words::Numbers)?;
                if let Some(base) = base {
                    self.sources.push(Source::Object(base, bytes));
                    latch.advancing.push((base, bytes));
                }
                Ok(())
            }
        }
    }

    /// Emits a linked list: from its start each time, or from where the last call ended.
    fn list(&mut self, latch: &mut Latch) -> Result {
        let bytes = self.power(4.0, 8.0) & !7;
        let log = (self.power(SMALL, LARGE) / bytes).ilog2();
        let Some(at) = self.free.pop() else {
            return Ok(());
        };
        let words = Words::List { log, bytes };
        let start = self.contents.array(self.random, bytes << log, words);
        let head = self.parameter(start);
        self.asm.mov(at, head)?;
        self.sources.push(Source::Object(at, bytes));
        latch.following.push(at);
        if self.random.below(2) == 0 {
            latch.kept.push((head, at));
        }
        Ok(())
    }

    /// Returns the start of the part of an array that a loop traverses: always the same, a row for
    /// each round of the outer loop, or one part after the other from call to call.
    fn walked(&mut self, bytes: u64, words: Words) -> Result<Option<AsmRegister64>> {
        let kind = self.random.below(4);
        if kind < 2 {
            return self.held(bytes, words);
        }
        let Some(base) = self.free.pop() else {
            return Ok(None);
        };
        if let (2, Some((outer, rounds))) = (kind, self.counters.last().copied()) {
            let start = self.contents.array(self.random, bytes * rounds, words);
            let start = self.parameter(start);
            self.asm.imul_3(base, outer, bytes as i32)?;
            self.asm.add(base, start)?;
            return Ok(Some(base));
        }
        let whole = self.power(SMALL, LARGE).max(bytes).next_power_of_two();
        let start = self.contents.array(self.random, whole + bytes, words);
        let (start, next) = (self.parameter(start), self.parameter(0));
        let scratch = self.scratch();
        self.asm.mov(base, next)?;
        self.asm.lea(scratch, qword_ptr(base + bytes as i32))?;
        self.asm.and(scratch, (whole - 1) as i32)?;
        self.asm.mov(next, scratch)?;
        self.asm.add(base, start)?;
        Ok(Some(base))
    }
}
