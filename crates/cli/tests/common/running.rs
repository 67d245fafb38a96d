//! Programs that run while they are measured.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts a program, and gives it time to begin.
pub fn start(program: &Path, arguments: &[&str]) -> Child {
    let child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(300));
    child
}

/// Returns the two numbers that a program prints when it is told to end: for `running` its rounds
/// and the interrupted calls.
pub fn end(child: Child) -> [u64; 2] {
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let words: Vec<&str> = text.split_whitespace().collect();
    [words[1], words[3]].map(|word| word.parse().expect("a number"))
}
