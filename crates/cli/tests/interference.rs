//! `vitalfew interference run` on programs with a known truth, on the machine that the tests run on. What is
//! asserted are outputs, counts and orders; never times.

mod common;

use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Compiles a program of tests/programs/interference/.
fn compile(lab: &Lab, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs/interference")
        .join(source);
    let program = lab.path(source.file_stem().expect("a name").to_str().expect("text"));
    let status = Command::new(compiler)
        .args(options)
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("a compiler");
    assert!(status.success(), "{} does not compile", source.display());
    program
}

const C: &[&str] = &["-O2", "-g", "-pthread", "-fomit-frame-pointer"];

fn run(lab: &Lab, options: &[&str], program: &Path, args: &[&str]) -> Output {
    Command::new(VITALFEW)
        .args(["interference", "run", "--quiet", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("trace"))
        .args(options)
        .arg("--")
        .arg(program)
        .args(args)
        .current_dir(lab.path(""))
        .stdin(Stdio::null())
        .output()
        .expect("vitalfew runs")
}

fn report(lab: &Lab, options: &[&str]) -> Value {
    let output = Command::new(VITALFEW)
        .args(["interference", "report", "--json", "--all"])
        .arg(lab.path("trace"))
        .args(options)
        .output()
        .expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let findings = report["findings"].as_array().expect("findings");
    let named = findings.iter().find(|finding| finding["name"] == name);
    named.unwrap_or_else(|| panic!("nothing on {name} in {report}"))
}

/// A traced program must print and return what it does alone.
fn is_as_alone(lab: &Lab, program: &Path, options: &[&str]) {
    let alone = Command::new(program).output().expect("the program runs");
    let traced = run(lab, options, program, &[]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(
        String::from_utf8_lossy(&traced.stdout),
        String::from_utf8_lossy(&alone.stdout),
        "{options:?}: {said}"
    );
    assert_eq!(
        traced.status.code(),
        alone.status.code(),
        "{options:?}: {said}"
    );
}

#[test]
fn a_program_with_everything_traced_does_what_it_does_alone() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(
        &lab,
        "c++",
        "matrix.cc",
        &["-O2", "-g", "-pthread", "-Wno-psabi"],
    );
    let all = ["-f", "*", "--every", "1", "--overhead", "100"];
    is_as_alone(&lab, &program, &all);
    let report = report(&lab, &[]);
    let catches = finding(&report, "(anonymous namespace)::catches(int, int*)");
    let calls = |finding: &Value| {
        let count = |key: &str| finding[key].as_u64().expect("a count");
        count("calls") + count("warm_up")
    };
    assert_eq!(calls(catches), 3000 + 20, "{catches}");
    let throws = finding(&report, "(anonymous namespace)::throws(int)");
    // The first execution, which may be left out as a warm-up, is one of them.
    let unwound = throws["unwound"].as_u64().expect("a count");
    assert!((2019..=2020).contains(&unwound), "{throws}");
    // The C library, the unwinder and the C++ library as well.
    let libraries = [
        "-f",
        "*",
        "-f",
        "libc!*",
        "-f",
        "libgcc_s!*",
        "-f",
        "libstdc++!*",
    ];
    is_as_alone(&lab, &program, &libraries);
    is_as_alone(&lab, &program, &["-f", "*", "--every", "50"]);
}

#[test]
fn panics_pass_through_traced_functions() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let program = compile(
        &lab,
        &rustc,
        "panics.rs",
        &["--edition", "2024", "-O", "-g"],
    );
    is_as_alone(&lab, &program, &["-f", "*", "-f", "libgcc_s!*"]);
}

#[test]
fn what_threads_wait_for_is_found_with_its_cause() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    let functions = [
        "-f",
        "count",
        "-f",
        "meet",
        "-f",
        "bump",
        "-f",
        "keep",
        "-f",
        "take",
        "--overhead",
        "100",
    ];
    for (kind, name, cause) in [
        ("barrier", "meet", "barrier"),
        ("disk", "keep", "disk"),
        ("pool", "take", "pool"),
    ] {
        let also = match kind {
            "barrier" => "pthread_barrier_wait",
            "disk" => "fdatasync",
            _ => "read",
        };
        let mut options = functions.to_vec();
        options.extend(["-f", also]);
        run(&lab, &options, &program, &[kind]);
        let found = report(&lab, &[]);
        let suffers = finding(&found, name);
        assert!(
            suffers["sci"]["high"].as_f64() > Some(0.1),
            "{kind}: {suffers}"
        );
        let causes = found["findings"].as_array().expect("findings").iter();
        let named = causes.flat_map(|f| f["causes"].as_array().cloned().unwrap_or_default());
        let named: Vec<Value> = named.collect();
        assert!(
            named.iter().any(|c| c["kind"] == cause),
            "{kind}: {named:?}"
        );
    }
}

#[test]
fn what_cannot_be_traced_is_refused_with_the_reason() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    let says = |options: &[&str], program: &Path, expected: &str| {
        let output = run(&lab, options, program, &["lock"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    says(&["-f", "counts"], &program, "did you mean count");
    says(
        &["-f", "_start"],
        &program,
        "none of the functions can be traced",
    );
    let still = compile(&lab, "cc", "contention.c", &["-O2", "-static", "-pthread"]);
    says(&["-f", "main"], &still, "statically linked");
    says(&["-f", "main"], Path::new("/etc/hostname"), "");
}
