//! The signal handler that `vitalfew causal run` loads into programs whose functions it cannot
//! hook: static programs, programs with another C library than glibc, Go programs.
//!
//! The handler carries out virtual speedups as the runtime does, and is made of the runtime's
//! modules. It uses neither a C library nor thread-local storage: it finds the state of a thread by
//! the thread id in the shared memory. It sees no synchronisation. Instead the kernel reports which
//! thread woke which ([`runtime_abi::kernel`]).
//!
//! `experiment` compiles this crate once more into the bytes that go into a target; their root is
//! `image.rs`.
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
