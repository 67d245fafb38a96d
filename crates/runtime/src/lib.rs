//! The library that `vitalfew causal run` preloads into a target, or loads into a running one.
//!
//! It carries out virtual speedups (Coz, section 3.4): it samples each thread of the target, counts
//! samples in the selected fragment as delay that all other threads owe, and makes threads pay what
//! they owe. `docs/method/causal.md` is the protocol, `runtime_abi` the memory shared with the
//! controller.
//!
//! It must never make a program misbehave. After the start it allocates nothing, takes no lock that
//! a thread of the target can wait for, opens no file and reads no symbols. Its code runs in signal
//! handlers and between any two instructions of the target.
// Attaching to processes and tracing functions exist for x86-64 only; other targets leave much
// unused.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables)
)]
#![cfg_attr(not(test), no_std)]
// Unit tests have no hooks and no start: these would replace the test program's own functions.
#![cfg_attr(test, allow(dead_code, unused_imports))]

// Nothing calls this crate: it provides the panic handler and the personality of unwinding, which a
// library must have to be linked and no stable language feature can provide.
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
mod own_signal;
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
