//! The library that `vitalfew causal run` preloads into a target, or brings into one that runs.
//!
//! It carries out virtual speedups (Coz, section 3.4): it samples each thread of the target, counts
//! samples in the selected fragment as delay that all other threads owe, and makes threads pay what
//! they owe. `docs/method/causal.md` is the protocol, `runtime_abi` the memory shared with the controller.
//!
//! It must never be the reason that a program misbehaves: after the start it allocates nothing, takes
//! no lock that a thread of the target can wait for, opens no file, and knows nothing of symbols.
//! Code here runs in signal handlers and between any two instructions of the target.
// What attaches to processes and traces functions is made for x86-64, and uses much that nothing else does.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables)
)]
#![cfg_attr(not(test), no_std)]
// Tests have no hooks and no start: they would stand in front of the test program's own functions.
#![cfg_attr(test, allow(dead_code, unused_imports))]

// Nothing of it is called: it brings what a library must have to be linked (the panic handler, and
// the personality of unwinding, which no stable language feature can give).
#[cfg(not(test))]
extern crate std as _;

mod accounts;
mod attach;
#[cfg(not(test))]
mod attached;
mod clocks;
mod coz;
mod cpu;
mod delay;
mod descriptors;
mod holds;
#[cfg(not(test))]
mod hooks;
mod late;
mod link_map;
mod operations;
mod program_clock;
mod real;
mod sample;
mod stack;
mod stack_memory;
#[cfg(not(test))]
mod start;
mod sys;
mod thread;
mod thread_event;
#[cfg(target_arch = "x86_64")]
mod trace;
