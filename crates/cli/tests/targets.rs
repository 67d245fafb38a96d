//! Programs that vitalfew launches do what they do alone, or are refused.

mod common;

use common::*;
use std::path::Path;
use std::process::Command;

/// The short selection of benches/targets.py: allocators, coroutines, collectors, unwinders, long jumps, static programs, each
/// under `causal run` and `interference run` with everything traced.
#[test]
fn programs_print_and_return_what_they_do_alone_or_are_refused() {
    if !live() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/targets.py");
    let output = Command::new("python3")
        .arg("-B")
        .arg(script)
        .args([VITALFEW, "--short", "--runtime"])
        .arg(runtime())
        .output()
        .expect("Python runs");
    let table = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{wrong}");
}

/// In a PID namespace of its own, as in a container, processes have other numbers than in the kernel's samples.
#[test]
fn a_pid_namespace_is_named_as_the_reason() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    for words in [
        &["record", "-o", "r.vf"][..],
        &["record", "--collector", "ring", "-o", "r.vf"],
        &["run", "--once"],
        &["check", "--runs", "2", "-o", "b.json"],
    ] {
        let output = Command::new("unshare")
            .args(["-pf", "--mount-proc", VITALFEW])
            .args(words)
            .arg("--")
            .arg(&program)
            .arg("1000")
            .current_dir(lab.path(""))
            .env("VITALFEW_DB", lab.path("db"))
            .output()
            .expect("unshare runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {said}");
        assert!(said.contains("PID namespace"), "{words:?}: {said}");
    }
}
