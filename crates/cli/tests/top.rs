//! `vitalfew top` in a terminal: it draws, obeys keys, and restores the terminal, however it ends.

mod common;

use common::{VITALFEW, live};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than a table takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A pseudo-terminal of 24 lines of 80 columns in which `top` runs, and then `stty`.
struct TopTerminal {
    script: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl TopTerminal {
    fn start(options: &str) -> Self {
        let line = format!(
            "stty rows 24 cols 80; {VITALFEW} top --every 500ms {options}; echo ended with $?; stty -a"
        );
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux");
        let keys = script.stdin.take().expect("piped");
        let mut stdout = script.stdout.take().expect("piped");
        let (send, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let seen = String::new();
        Self {
            script,
            keys,
            output,
            seen,
        }
    }

    /// Reads until a text was drawn.
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + LONG;
        while !self.seen.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(more) = self.output.recv_timeout(left) else {
                panic!("'{text}' was not drawn: {:?}", self.seen);
            };
            self.seen += &String::from_utf8_lossy(&more);
        }
    }

    /// Types, and forgets the earlier drawing.
    fn type_keys(&mut self, keys: &str) {
        self.seen.clear();
        self.keys.write_all(keys.as_bytes()).expect("typed");
        self.keys.flush().expect("typed");
    }

    /// Asserts that the terminal is restored: its usual screen, with a cursor, lines and echo.
    fn expect_restored(mut self, status: &str) {
        self.wait_for("speed");
        self.wait_for(" echo ");
        for text in [
            &format!("ended with {status}"),
            "\u{1b}[?1049l",
            "\u{1b}[?25h",
            " icanon",
        ] {
            // An immediate refusal has drawn nothing.
            let was_drawn = status == "0" || !text.starts_with('\u{1b}');
            assert!(
                !was_drawn || self.seen.contains(text),
                "no {text:?}: {:?}",
                self.seen
            );
        }
    }
}

/// A failed test leaves no `top` that goes on drawing: it ends with its terminal.
impl Drop for TopTerminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn it_draws_obeys_keys_and_restores_the_terminal() {
    if !live() {
        return;
    }
    let mut top = TopTerminal::start("");
    top.wait_for("\u{1b}[?1049h");
    top.wait_for("SELF %");
    // Only changed cells are drawn: no name has a corner of a box, and READY shares no letter with
    // TOTAL at its place.
    top.type_keys("?");
    top.wait_for("┌");
    top.type_keys("x4");
    top.wait_for("READY");
    top.type_keys("q");
    top.expect_restored("0");
}

#[test]
fn control_c_and_signals_restore_the_terminal() {
    if !live() {
        return;
    }
    let mut top = TopTerminal::start("--by threads");
    top.wait_for("READY %");
    top.type_keys("\u{3}");
    top.expect_restored("0");
    // The signal comes from outside, to the process below this terminal's shell.
    let mut top = TopTerminal::start("--by waits");
    top.wait_for("WAITS/S");
    top.seen.clear();
    let own = own_process(&top);
    let killed = Command::new("kill").args(["-TERM", &own]).status();
    assert!(killed.expect("kill").success());
    top.expect_restored("0");
}

/// Returns the process of `vitalfew` on a terminal.
fn own_process(top: &TopTerminal) -> String {
    let script = top.script.id().to_string();
    let shell = first_child(&script).expect("the terminal's shell");
    first_child(&shell).expect("vitalfew")
}

fn first_child(of: &str) -> Option<String> {
    let path = format!("/proc/{of}/task/{of}/children");
    let children = std::fs::read_to_string(path).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

#[test]
fn without_a_terminal_it_prints_one_table() {
    if !live() {
        return;
    }
    // An idle machine has an empty table.
    let mut busy = busy_process();
    for options in [
        &["--every", "300ms"][..],
        &["--every", "300ms", "--once", "--by", "threads"],
    ] {
        let text = printed_table(options);
        assert!(text.contains("NAME") && text.lines().count() > 1, "{text}");
    }
    busy.kill().expect("ended");
    busy.wait().expect("ended");
}

/// The table of an idle process is empty, and a message says so.
#[test]
fn an_empty_table_says_so() {
    if !live() {
        return;
    }
    let mut still = Command::new("sleep").arg("1000").spawn().expect("sleep");
    // It is woken once, at its start.
    std::thread::sleep(Duration::from_millis(200));
    let pid = still.id().to_string();
    let text = printed_table(&["--every", "300ms", "-p", &pid]);
    still.kill().expect("ended");
    still.wait().expect("ended");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// Starts a process that computes until it is killed.
fn busy_process() -> Child {
    let shell = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn();
    shell.expect("a shell")
}

/// Returns the output of `top` without a terminal.
fn printed_table(options: &[&str]) -> String {
    let output = Command::new(VITALFEW).arg("top").args(options).output();
    let output = output.expect("vitalfew");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains('\u{1b}'), "{text}");
    let is_empty = text.lines().count() == 1;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        is_empty,
        said.contains("nothing ran or waited in"),
        "{said}"
    );
    text
}

/// A message names the missing process, and the terminal is unchanged.
#[test]
fn what_cannot_be_sampled_is_said() {
    if !live() {
        return;
    }
    let output = Command::new(VITALFEW)
        .args(["top", "-p", "4194303"])
        .output();
    let output = output.expect("vitalfew");
    assert!(!output.status.success());
    assert!(!output.stderr.is_empty());
    let top = TopTerminal::start("-p 4194303");
    top.expect_restored("1");
}

/// A user who closes the window cannot press q any more.
#[test]
fn it_ends_with_its_terminal() {
    if !live() {
        return;
    }
    let mut top = TopTerminal::start("");
    top.wait_for("SELF %");
    let process = own_process(&top);
    // The terminal would only notice the lost reader at new output, which an idle machine does not
    // cause.
    top.script.kill().expect("the terminal ends");
    drop(top);
    let gone = || !std::path::Path::new(&format!("/proc/{process}")).exists();
    let end = Instant::now() + LONG;
    while !gone() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(gone(), "{process} goes on without a terminal");
}
