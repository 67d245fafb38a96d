//! Tests the window through which a walk reads the stack (`stack_window.h`), compiled for this
//! machine: each word must equal the stack's.

use std::path::Path;
use std::process::Command;

#[test]
fn each_word_that_is_on_the_stack_is_read_and_no_other() {
    let lab = tempfile::tempdir().expect("a directory");
    let program = lab.path().join("window");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/window/window.c");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .args([&program, &source])
        .output()
        .expect("a C compiler");
    assert!(built.status.success(), "{built:?}");
    let run = Command::new(&program).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
}
