//! The signal handler that `vitalfew causal run` brings into programs in front of whose functions nothing can stand: static ones, those
//! of other C libraries than glibc, Go.
//!
//! It carries out virtual speedups as the runtime does, whose modules it is made of, but uses neither a C library nor
//! thread-local storage: it finds the state of a thread by its id in the shared memory. It sees no operation by which threads meet.
//! Instead the kernel says who woke whom ([`runtime_abi::kernel`]).
//!
//! `experiment` compiles it once more, by itself, into the bytes that go into a target: `image.rs` is the root of that.
#![no_std]
#![cfg(target_arch = "x86_64")]

#[path = "../../runtime/src/accounts.rs"]
mod accounts;
#[path = "../../runtime/src/clocks.rs"]
mod clocks;
#[path = "../../runtime/src/cpu.rs"]
mod cpu;
#[path = "../../runtime/src/delay.rs"]
mod delay;
mod handler;
#[path = "../../runtime/src/stack.rs"]
mod stack;
mod stack_memory;
mod sys;
mod thread;
mod thread_event;

pub use handler::vitalfew_sample;
pub use thread::SHARED;
