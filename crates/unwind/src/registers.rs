/// The number of register columns: the larger machine's 32, and its program counter.
const COLUMNS: usize = 33;

/// A machine that can be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnwindMachine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// perf's register number for each DWARF register of x86-64; the last one is the program counter.
const PERF_X86_64: [u8; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

impl UnwindMachine {
    /// Returns the machine that this program was built for, if its stacks can be unwound.
    pub fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// Returns the registers to request from the kernel: `perf_event_attr.sample_regs_user`.
    pub fn perf_mask(self) -> u64 {
        match self {
            Self::X86_64 => PERF_X86_64.iter().fold(0, |mask, bit| mask | 1 << bit),
            Self::Aarch64 => (1 << 33) - 1,
        }
    }

    /// Returns the column of perf's register `bit`.
    fn column_of_perf(self, bit: u32) -> Option<usize> {
        match self {
            Self::X86_64 => PERF_X86_64.iter().position(|b| u32::from(*b) == bit),
            Self::Aarch64 => (bit < 33).then_some(bit as usize),
        }
    }

    /// Returns the column of the program counter. On x86-64 this is also DWARF's return address
    /// column.
    pub(crate) fn pc_column(self) -> usize {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    pub(crate) fn sp_column(self) -> usize {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    pub(crate) fn fp_column(self) -> usize {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// Returns the column of the register on which code without frame pointers builds frames, if it
    /// must not touch the others.
    pub(crate) fn base_column(self) -> Option<usize> {
        match self {
            Self::X86_64 => Some(3),
            Self::Aarch64 => None,
        }
    }

    /// Returns the link register's column, if the machine has one.
    pub(crate) fn lr_column(self) -> Option<usize> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some(30),
        }
    }
}

/// The known registers of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindRegisters {
    machine: UnwindMachine,
    /// Bit n is set if column n is known.
    known: u64,
    /// Values by DWARF register number; the program counter is in [`UnwindMachine::pc_column`].
    values: [u64; COLUMNS],
}

impl UnwindRegisters {
    fn none_known(machine: UnwindMachine) -> Self {
        Self {
            machine,
            known: 0,
            values: [0; COLUMNS],
        }
    }

    /// Creates registers of an x86-64 thread: `rip`, `rsp`, `rbp`. Add other known ones by
    /// [`Self::with`], because a few functions need them.
    pub fn x86_64(ip: u64, sp: u64, bp: u64) -> Self {
        let mut new = Self::none_known(UnwindMachine::X86_64);
        new.set_all([(16, ip), (7, sp), (6, bp)]);
        new
    }

    /// Creates registers of an AArch64 thread: `pc`, `sp`, `x29`, `x30`. Add other known ones by
    /// [`Self::with`].
    pub fn aarch64(pc: u64, sp: u64, fp: u64, lr: u64) -> Self {
        let mut new = Self::none_known(UnwindMachine::Aarch64);
        new.set_all([(32, pc), (31, sp), (29, fp), (30, lr)]);
        new
    }

    /// Creates the registers of a perf sample: the requested `mask`, and `values` with one value
    /// for each of its bits, from the lowest. `None` if the numbers of values and bits differ, or
    /// program counter and stack pointer are missing.
    ///
    /// Only for a sample with `PERF_SAMPLE_REGS_ABI_64`; 32-bit processes cannot be unwound.
    pub fn from_perf(machine: UnwindMachine, mask: u64, values: &[u64]) -> Option<Self> {
        if mask.count_ones() as usize != values.len() {
            return None;
        }
        let mut new = Self::none_known(machine);
        let bits = (0..64).filter(|bit| mask >> bit & 1 == 1);
        for (bit, value) in bits.zip(values) {
            if let Some(column) = machine.column_of_perf(bit) {
                new.set_column(column, *value);
            }
        }
        (new.get_column(machine.pc_column()).is_some()
            && new.get_column(machine.sp_column()).is_some())
        .then_some(new)
    }

    /// Adds the register with this DWARF number. A number that does not matter to unwinding (vector
    /// registers) is ignored.
    #[must_use]
    pub fn with(mut self, dwarf_register: u16, value: u64) -> Self {
        let column = usize::from(dwarf_register);
        if column != self.machine.pc_column() {
            self.set_column(column, value);
        }
        self
    }

    /// Returns their machine.
    pub fn machine(&self) -> UnwindMachine {
        self.machine
    }

    /// Returns the program counter.
    pub fn pc(&self) -> u64 {
        self.values[self.machine.pc_column()]
    }

    /// Returns the stack pointer.
    pub fn sp(&self) -> u64 {
        self.values[self.machine.sp_column()]
    }

    pub(crate) fn get_column(&self, column: usize) -> Option<u64> {
        let value = self.values.get(column)?;
        (self.known >> column & 1 == 1).then_some(*value)
    }

    pub(crate) fn set_column(&mut self, column: usize, value: u64) {
        if let Some(slot) = self.values.get_mut(column) {
            *slot = value;
            self.known |= 1 << column;
        }
    }

    pub(crate) fn forget_column(&mut self, column: usize) {
        if column < COLUMNS {
            self.known &= !(1 << column);
        }
    }

    fn set_all<const N: usize>(&mut self, registers: [(usize, u64); N]) {
        for (column, value) in registers {
            self.set_column(column, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_registers_find_their_columns() {
        let mask = UnwindMachine::X86_64.perf_mask();
        assert_eq!(mask, 0xff_01ff);
        let values: Vec<u64> = (0..17).map(|i| 100 + i).collect();
        let regs = UnwindRegisters::from_perf(UnwindMachine::X86_64, mask, &values).unwrap();
        // perf: ax bx cx dx si di bp sp ip r8…; DWARF: ax dx cx bx si di bp sp r8… ip.
        assert_eq!((regs.pc(), regs.sp()), (108, 107));
        assert_eq!(regs.get_column(1), Some(103));
        assert_eq!(regs.get_column(3), Some(101));
        assert_eq!(regs.get_column(15), Some(116));
        assert_eq!(
            UnwindRegisters::from_perf(UnwindMachine::X86_64, mask, &values[1..]),
            None
        );
        assert_eq!(
            UnwindRegisters::from_perf(UnwindMachine::X86_64, 1 << 8, &[1]),
            None
        );
        let arm =
            UnwindRegisters::from_perf(UnwindMachine::Aarch64, (1 << 33) - 1, &[7; 33]).unwrap();
        assert_eq!((arm.pc(), arm.get_column(30)), (7, Some(7)));
    }

    #[test]
    fn the_program_counter_is_no_dwarf_register_to_set() {
        let regs = UnwindRegisters::x86_64(1, 2, 3)
            .with(16, 9)
            .with(200, 9)
            .with(3, 4);
        assert_eq!((regs.pc(), regs.get_column(3)), (1, Some(4)));
    }
}
