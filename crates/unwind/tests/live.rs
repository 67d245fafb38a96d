//! Real programs, stopped anywhere: every stack must reach its root.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(missing_docs)]

mod support;

use std::collections::HashMap;
use std::path::Path;
use support::{Event, STACK_COPY, Symbols, Traced, compile, ranking};
use unwind::{AddressSpace, CompactUnwinder, ModuleCache, StackMemory, UnwindOutcome, Unwinder};

struct Bench {
    unwinder: Unwinder,
    compact: CompactUnwinder,
    cache: ModuleCache,
    stack: Vec<u8>,
    frames: Vec<profile::ProcessAddress>,
}

impl Bench {
    fn new() -> Self {
        Self {
            unwinder: Unwinder::new(),
            compact: CompactUnwinder::new(),
            cache: ModuleCache::new(256 << 20),
            stack: vec![0; STACK_COPY],
            frames: Vec::new(),
        }
    }

    fn unwind(&mut self, traced: &Traced, space: &AddressSpace) -> UnwindOutcome {
        let registers = traced.registers();
        let copied = traced.memory(registers.sp(), &mut self.stack);
        let stack = StackMemory::new(registers.sp(), &self.stack[..copied]);
        self.unwinder
            .unwind(space, &registers, stack, &mut self.frames)
    }

    /// Unwinds by compact tables.
    fn unwind_compactly(&mut self, traced: &Traced, space: &AddressSpace) -> UnwindOutcome {
        let registers = traced.registers();
        let copied = traced.memory(registers.sp(), &mut self.stack);
        let stack = StackMemory::new(registers.sp(), &self.stack[..copied]);
        self.compact
            .unwind(space, &registers, stack, &mut self.frames)
    }
}

/// Stops at each SIGSTOP in turn and returns the names of the frames at the `nth`.
fn names_at_stop(program: &Path, nth: usize) -> (UnwindOutcome, Vec<String>) {
    let mut bench = Bench::new();
    let mut traced = Traced::start(program);
    for _ in 0..nth {
        traced.run_to_stop();
    }
    let (space, symbols) = traced.maps(&mut bench.cache);
    let outcome = bench.unwind(&traced, &space);
    let names = symbols.names(&bench.frames);
    (outcome, names.into_iter().map(str::to_owned).collect())
}

/// Returns whether `expected` are among `names`, in this order.
fn in_order(names: &[String], expected: &[&str]) -> bool {
    let mut rest = names.iter();
    expected.iter().all(|e| rest.any(|name| name == e))
}

/// Executes everything between the first stop of the program and `stops` later, one instruction
/// after the other, and unwinds at each in both ways. Returns the number of unwinds, and the wrong
/// ones by function.
fn step_through(program: &Path, stops: usize) -> (usize, HashMap<String, usize>) {
    let mut bench = Bench::new();
    let mut traced = Traced::start(program);
    traced.run_to_stop();
    let (mut space, mut symbols) = traced.maps(&mut bench.cache);
    let (mut steps, mut wrong, mut signal) = (0, HashMap::new(), 0);
    let mut passed = 0;
    loop {
        signal = match traced.step(signal) {
            Event::Stopped(libc::SIGTRAP) => 0,
            Event::Stopped(libc::SIGSTOP) => {
                passed += 1;
                if passed == stops {
                    return (steps, wrong);
                }
                0
            }
            Event::Stopped(other) => other,
            Event::Exited => panic!("the program ended"),
        };
        let pc = profile::ProcessAddress(traced.registers().pc());
        if !symbols.covers(pc) {
            (space, symbols) = traced.maps(&mut bench.cache);
        }
        for compactly in [false, true] {
            steps += 1;
            let outcome = if compactly {
                bench.unwind_compactly(&traced, &space)
            } else {
                bench.unwind(&traced, &space)
            };
            if outcome != UnwindOutcome::Complete || !is_whole(&symbols, &bench.frames) {
                let names = symbols.names(&bench.frames);
                let innermost = names[..names.len().min(4)].join(" < ");
                let way = if compactly { "compact" } else { "whole" };
                *wrong
                    .entry(format!("{way}: {innermost}: {outcome:?}"))
                    .or_default() += 1;
            }
        }
    }
}

fn is_whole(symbols: &Symbols, frames: &[profile::ProcessAddress]) -> bool {
    let names = symbols.names(frames);
    names.contains(&"main") && names.last() == Some(&"_start")
}

/// Functions for which compilers write tables that are wrong for an instruction or two. With gcc
/// -O0 it is the place after `leave` in a function that realigned its stack: the rule for `rbp`
/// still reads through the register that has just been restored. The others are the last
/// instructions of the function that throws, which replace its own frame by the catching one.
const WRONG_TABLES: [&str; 2] = ["realigned < compare", "_Unwind_RaiseException"];

fn assert_steps(program: &Path, stops: usize, at_least: usize) {
    let (steps, mut wrong) = step_through(program, stops);
    let before: usize = wrong.values().sum();
    wrong.retain(|what, _| !WRONG_TABLES.iter().any(|known| what.contains(known)));
    let known = before - wrong.values().sum::<usize>();
    assert!(known * 500 < steps, "{known} of {steps} at wrong tables");
    eprintln!("{}: {steps} unwinds", program.display());
    assert!(steps > at_least, "only {steps} steps");
    assert!(wrong.is_empty(), "of {steps}: {:#?}", ranking(&wrong));
}

const LAZY: &str = "-Wl,-z,lazy";
const NO_FRAME_POINTER: &str = "-fomit-frame-pointer";

#[test]
fn through_qsort_and_a_signal_handler() {
    let directory = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang"] {
        let options = ["-O2", NO_FRAME_POINTER];
        let Some(program) = compile(directory.path(), compiler, "chain.c", &options) else {
            continue;
        };
        let (outcome, names) = names_at_stop(&program, 2);
        let expected = [
            "raise",
            "deepest",
            "handler",
            "realigned",
            "compare",
            "recurse",
            "main",
            "__libc_start_main",
            "_start",
        ];
        assert_eq!(outcome, UnwindOutcome::Complete, "{compiler}: {names:?}");
        assert!(in_order(&names, &expected), "{compiler}: {names:?}");
        assert_eq!(
            names.last().map(String::as_str),
            Some("_start"),
            "{compiler}: {names:?}"
        );
    }
}

#[test]
fn to_the_start_of_a_thread() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-O2", NO_FRAME_POINTER, "-pthread"];
    let Some(program) = compile(directory.path(), "gcc", "thread.c", &options) else {
        return;
    };
    let (outcome, names) = names_at_stop(&program, 1);
    assert_eq!(outcome, UnwindOutcome::Complete, "{names:?}");
    // Its root is in the C library, and main is on another stack.
    assert!(in_order(&names, &["raise", "work"]), "{names:?}");
    assert!(!names.iter().any(|name| name == "main"), "{names:?}");
}

#[test]
fn at_every_instruction_of_c() {
    let directory = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang"] {
        for options in [
            &["-O2", NO_FRAME_POINTER, LAZY][..],
            &["-O0", LAZY],
            &["-O3", "-static", NO_FRAME_POINTER],
            &[
                "-O2",
                "-no-pie",
                NO_FRAME_POINTER,
                "-fno-asynchronous-unwind-tables",
                "-g",
            ],
        ] {
            if let Some(program) = compile(directory.path(), compiler, "chain.c", options) {
                assert_steps(&program, 2, 2000);
            }
        }
    }
}

/// Code without unwind tables, in the C library too: with a frame pointer or without, on another
/// stack. (Frames that are both realigned and of variable size are not followed.)
#[test]
fn at_every_instruction_without_tables() {
    const NO_TABLES: &str = "-fno-asynchronous-unwind-tables";
    let directory = tempfile::tempdir().unwrap();
    for (compiler, options) in [
        ("gcc", &["-O2", NO_FRAME_POINTER, NO_TABLES, LAZY][..]),
        ("gcc", &["-O3", NO_TABLES, "-static"]),
        ("clang", &["-O2", NO_TABLES, "-fcf-protection=none"]),
        ("musl-gcc", &["-O2", NO_TABLES, "-static"]),
        ("musl-gcc", &["-Os", NO_TABLES, "-static"]),
        ("musl-gcc", &["-O2", "-static"]),
    ] {
        let options = [options, &["-DALIGNMENT=16"]].concat();
        if let Some(program) = compile(directory.path(), compiler, "chain.c", &options) {
            assert_steps(&program, 2, 2000);
        }
    }
}

#[test]
fn at_every_instruction_of_the_vdso() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-O2", NO_FRAME_POINTER];
    if let Some(program) = compile(directory.path(), "gcc", "vdso.c", &options) {
        assert_steps(&program, 1, 100);
    }
}

#[test]
fn at_every_instruction_of_cpp() {
    let directory = tempfile::tempdir().unwrap();
    for compiler in ["g++", "clang++"] {
        let options = ["-O2", NO_FRAME_POINTER, LAZY];
        if let Some(program) = compile(directory.path(), compiler, "throws.cpp", &options) {
            assert_steps(&program, 1, 10_000);
        }
    }
}

#[test]
fn at_every_instruction_of_rust() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["-O", "--edition=2021"];
    if let Some(program) = compile(directory.path(), "rustc", "plain.rs", &options) {
        assert_steps(&program, 1, 10_000);
    }
}
