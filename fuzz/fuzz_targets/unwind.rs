//! A damaged module under a recorded stack. The last 512 bytes are the stack.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::ProcessAddress;
use std::sync::Arc;
use unwind::{AddressSpace, ModuleData, StackMemory, UnwindRegisters, Unwinder};

fuzz_target!(|bytes: &[u8]| {
    let (elf, stack) = bytes.split_at(bytes.len().saturating_sub(512));
    let Ok(module) = ModuleData::from_bytes("module", elf) else {
        return;
    };
    let module = Arc::new(module);
    let mut space = AddressSpace::new();
    for (start, offset) in [(0x40_1000, 0x1000), (0x40_0000, 0)] {
        let range = ProcessAddress(start)..ProcessAddress(start + 0x1000);
        space.add_module(range, offset, module.clone());
    }
    let mut frames = Vec::new();
    let sp = 0x7ffe_0000_0000;
    for pc in (0x40_0000..0x40_2000).step_by(257) {
        let at = [
            UnwindRegisters::x86_64(pc, sp, sp + 64),
            UnwindRegisters::aarch64(pc, sp, sp + 64, 0x40_1010),
        ];
        for registers in at {
            let _ = Unwinder::new().unwind(
                &space,
                &registers,
                StackMemory::new(sp, stack),
                &mut frames,
            );
        }
    }
});
