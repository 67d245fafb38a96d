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
