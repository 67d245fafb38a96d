//! Shares of callers by construction: `outer` and `leaf` share the program's time, and `outer`
//! calls `leaf`. However the program was built and the stacks are collected, `outer` has all of it.
//! No times are asserted.

mod common;

use common::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Least share with callers; samples of the start and the end have none.
const LEAST: f64 = 0.9;
/// Ways of collecting stacks: in the kernel by unwind tables, and by copies of the stack through
/// ring buffers.
const WAYS: [&[&str]; 3] = [
    &["-g"],
    &["--call-graph", "dwarf"],
    &["--call-graph", "dwarf", "--collector", "ring"],
];

/// Compiles `tests/programs/leaf.*` with a compiler's arguments; `None` without that compiler.
fn build(lab: &Lab, compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let program = lab.path("leaf");
    let output = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .args([&program, &sources.join(source)])
        .env("GOCACHE", lab.path("go"))
        .output()
        .inspect_err(|error| eprintln!("skipped: {compiler}: {error}"))
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(program)
}

fn assert_callers(file: &Path, what: &str) {
    let report = report(file, &["--by", "procedure"]);
    let inclusive = |name: &str| -> f64 {
        let named = rows(&report).iter();
        let named = named.filter(|row| row["name"].as_str().is_some_and(|n| n.contains(name)));
        let amounts = named.filter_map(|row| row["inclusive"].as_f64());
        amounts.sum::<f64>() / total(&report)
    };
    let (outer, leaf) = (inclusive("outer"), share(&report, "leaf"));
    assert!(outer >= LEAST, "{what}: outer has {outer}");
    // Nearly half each, because the loops are the same.
    assert!((0.2..0.8).contains(&leaf), "{what}: leaf has {leaf}");
}

/// A program that runs until the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records the program in each way, started and attached.
fn assert_all_ways(lab: &Lab, program: &Path, what: &str) {
    let program = program.to_str().expect("UTF-8");
    for way in WAYS {
        let args = ["-q", "-F", "997"].iter().chain(way).copied();
        let file = lab.record(args.chain(["--", program, "0.4"]));
        assert_callers(&file, &format!("{what}, {way:?}, started"));
    }
    assert_attached(lab, program, WAYS[0], what);
}

fn assert_attached(lab: &Lab, program: &str, way: &[&str], what: &str) {
    let running = Command::new(program)
        .arg("60")
        .stdout(Stdio::null())
        .spawn();
    let running = Running(running.expect("it runs"));
    let pid = running.0.id().to_string();
    let args = ["-q", "-F", "997", "--for", "0.4s", "-p", &pid];
    let file = lab.record(args.iter().chain(way));
    assert_callers(&file, &format!("{what}, {way:?}, attached"));
}

#[test]
fn leaves_of_c_keep_their_callers() {
    let Some(_alone) = alone() else { return };
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            for pointers in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
                let lab = Lab::new();
                let flags = [level, pointers, "-g"];
                let Some(program) = build(&lab, compiler, "leaf.c", &flags) else {
                    continue;
                };
                let what = format!("{compiler} {level} {pointers}");
                if level == "-O2" {
                    assert_all_ways(&lab, &program, &what);
                } else {
                    let program = program.to_str().expect("UTF-8");
                    let file = lab.record(["-q", "-F", "997", "--", program, "0.4"]);
                    assert_callers(&file, &what);
                }
            }
        }
    }
}

#[test]
fn leaves_of_other_languages_keep_their_callers() {
    let Some(_alone) = alone() else { return };
    let builds: [(&str, &str, &[&str]); 4] = [
        ("g++", "leaf.c", &["-x", "c++", "-O2", "-g"]),
        ("clang++", "leaf.c", &["-x", "c++", "-O2", "-g"]),
        ("rustc", "leaf.rs", &["-O", "-g", "--crate-name", "callers"]),
        ("go", "leaf.go", &["build"]),
    ];
    for (compiler, source, flags) in builds {
        let lab = Lab::new();
        if let Some(program) = build(&lab, compiler, source, flags) {
            assert_all_ways(&lab, &program, compiler);
        }
    }
}

/// Code without unwind tables and frame pointers, whose frames follow from its instructions.
#[test]
#[cfg(target_arch = "x86_64")]
fn leaves_without_tables_keep_their_callers() {
    const NO_TABLES: &str = "-fno-asynchronous-unwind-tables";
    let Some(_alone) = alone() else { return };
    let builds: [(&str, &[&str], bool); 7] = [
        ("musl-gcc", &["-O2", "-static", NO_TABLES], false),
        ("musl-gcc", &["-Os", "-static", NO_TABLES], false),
        ("musl-gcc", &["-O2", "-static"], false),
        ("gcc", &["-O2", NO_TABLES], false),
        ("clang", &["-O2", NO_TABLES], false),
        ("gcc", &["-O2", "-static"], true),
        ("gcc", &["-O2", "-DASSEMBLY"], false),
    ];
    for (compiler, flags, is_stripped) in builds {
        let lab = Lab::new();
        let Some(program) = build(&lab, compiler, "leaf.c", flags) else {
            continue;
        };
        if is_stripped {
            let tables = ["-R", ".eh_frame", "-R", ".eh_frame_hdr"];
            let stripped = Command::new("objcopy").args(tables).arg(&program).status();
            assert!(stripped.expect("binutils").success());
        }
        assert_all_ways(&lab, &program, &format!("{compiler} {flags:?}"));
    }
}
