//! Events while a daemon runs: deleted programs, unmounted file systems, clocks, CPUs.

mod common;

use common::daemon::*;
use common::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Compiles a spinning program with 60,000 procedures: searching its symbol table takes 16 MB.
fn large_program(lab: &Lab) -> PathBuf {
    let procedure = |number: u32| {
        let long = "of_a_name_that_is_about_as_long_as_compilers_make_them_and_then_some";
        format!(
            ".globl p{number}{long}\n.type p{number}{long},@function\np{number}{long}: nop\n.size p{number}{long},1\n"
        )
    };
    let source = lab.path("large.s");
    let many: String = (0..60_000).map(procedure).collect();
    let text = format!(
        ".text\n{many}.globl main\n.type main,@function\nmain: jmp main\n.size main,.-main\n.section .note.GNU-stack\n"
    );
    fs::write(&source, text).expect("written");
    let program = lab.path("large");
    let compiler = Command::new("cc")
        .arg("-o")
        .args([&program, &source])
        .status();
    assert!(compiler.expect("a C compiler").success());
    program
}

/// A child process, killed when the test ends.
struct Running(Child);

impl Running {
    fn start(program: &Path) -> Self {
        Self(Command::new(program).spawn().expect("it runs"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn peak_kilobytes(process: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a peak")
}

fn wait_for_more(daemon: &Daemon, samples: u64) -> Value {
    let before = taken(&daemon.ask("status"));
    daemon.wait_for("more samples", |status| taken(status) > before + samples)
}

/// Starts a daemon that has samples of a large running program.
fn sample_large_program(lab: &Lab, db: &Path) -> (PathBuf, Daemon, Running) {
    let program = large_program(lab);
    let daemon = Daemon::start(db, &[]);
    let running = Running::start(&program);
    wait_for_more(&daemon, 300);
    (program, daemon, running)
}

#[test]
fn the_names_of_a_deleted_program_cost_the_daemon_no_memory() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let (program, daemon, running) = sample_large_program(&lab, &db);
    let before = peak_kilobytes(&daemon.child);
    fs::remove_file(&program).expect("removed");
    wait_for_more(&daemon, 300);
    drop(running);
    daemon.ask("flush");
    let grown = peak_kilobytes(&daemon.child) - before;
    assert!(grown < 8 << 10, "{grown} kB more for the names");
    assert_eq!(daemon.end("TERM"), Some(0));
    let report = report(&db, &["--epoch", "..", "--image", "large"]);
    assert!(amount(&report, "main") > 0.9 * total(&report), "{report:#}");
    assert_accounted(&db);
}

#[test]
fn a_closed_epoch_names_programs_that_were_replaced_since() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let (program, daemon, running) = sample_large_program(&lab, &db);
    drop(running);
    daemon.ask("epoch");
    assert_eq!(daemon.end("TERM"), Some(0));
    fs::copy("/bin/true", &program).expect("replaced");
    let report = report(&db, &["--epoch", "..", "--image", "large"]);
    assert!(amount(&report, "main") > 0.9 * total(&report), "{report:#}");
    assert_accounted(&db);
}

#[test]
fn a_file_system_can_be_unmounted() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let mounted = lab.path("mounted");
    fs::create_dir(&mounted).expect("made");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&mounted)
        .status();
    assert!(mount.expect("mount runs").success());
    let program = mounted.join("hot_line");
    fs::copy(lab.program("hot_line"), &program).expect("copied");
    // The program starts in the mount, before and after the daemon's start.
    let mut early = Command::new(&program)
        .arg("100000000000")
        .spawn()
        .expect("it runs");
    let daemon = Daemon::start_with(&db, &[], |command| {
        command.current_dir(&mounted);
    });
    let mut late = Command::new(&program)
        .arg("100000000000")
        .spawn()
        .expect("it runs");
    wait_for_more(&daemon, 300);
    for process in [&mut early, &mut late] {
        process.kill().expect("killed");
        process.wait().expect("waited");
    }
    let unmount = Command::new("umount")
        .arg(&mounted)
        .output()
        .expect("umount runs");
    let why = String::from_utf8_lossy(&unmount.stderr).into_owned();
    if !unmount.status.success() {
        let _ = Command::new("umount").arg("-l").arg(&mounted).status();
    }
    assert!(unmount.status.success(), "{why}");
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
}

#[test]
fn a_removed_epoch_is_made_again() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--merge", "1s"]);
    let status = wait_for_more(&daemon, 100);
    let epoch = Path::new(status["epoch"].as_str().expect("a path"));
    fs::remove_dir_all(epoch.parent().expect("an epoch")).expect("removed");
    let status = wait_for_more(&daemon, 300);
    assert_eq!(status["stopped"], Value::Null);
    assert_eq!(daemon.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > 100);
}

#[test]
fn a_clock_that_is_set_back_loses_nothing() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/clock.c");
    let (library, offset) = (lab.path("clock.so"), lab.path("offset"));
    let compiler = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiler.expect("a C compiler").success());
    fs::write(&offset, "0").expect("written");
    let preloaded = |command: &mut Command| {
        command
            .env("LD_PRELOAD", &library)
            .env("CLOCK_OFFSET", &offset);
    };
    let _load = Load::start();
    let mut stored = 0;
    let daemon = Daemon::start_with(&db, &["--merge", "1s"], preloaded);
    wait_for_more(&daemon, 100);
    for seconds in ["-7200", "-90000"] {
        fs::write(&offset, seconds).expect("written");
        wait_for_more(&daemon, 100);
        stored = daemon.ask("epoch")["stored"].as_u64().expect("a count");
    }
    // The next daemon's clock is before its predecessor's start.
    daemon.kill();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(&offset, "-200000").expect("written");
    let next = Daemon::start_with(&db, &["--merge", "1s"], preloaded);
    assert!(next.ask("status")["taken_over"].as_u64() > Some(0));
    wait_for_more(&next, 100);
    assert_eq!(next.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > stored + 100);
    let epochs = query(&db, "SELECT epoch FROM epochs");
    assert!(epochs.len() >= 3, "{epochs:?}");
    let all = report(&db, &["--epoch", ".."]);
    let warnings = all["warnings"].to_string();
    assert!(warnings.contains("the clock was set back by"), "{warnings}");
}

#[test]
#[ignore = "takes a CPU from the machine for a second, as root; run it alone"]
fn a_cpu_that_was_offline_is_sampled_again() {
    let online = Path::new("/sys/devices/system/cpu/cpu1/online");
    struct Restored<'a>(&'a Path);
    impl Drop for Restored<'_> {
        fn drop(&mut self) {
            let _ = fs::write(self.0, "1");
        }
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = (Load::start(), Load::start());
    let daemon = Daemon::start(&db, &[]);
    wait_for_more(&daemon, 300);
    {
        let _restored = Restored(online);
        fs::write(online, "0").expect("a CPU that can be taken away");
        daemon.wait_for_word("now 0 are online: starting again");
        daemon.wait_for("answering", |_| true);
        wait_for_more(&daemon, 300);
    }
    daemon.wait_for_word("now 0, 1 are online: starting again");
    // For less time than between two checks of the daemon.
    fs::write(online, "0").expect("a CPU that can be taken away");
    fs::write(online, "1").expect("a CPU that can be brought back");
    daemon.wait_for_word("was offline for a while: starting again");
    daemon.ask("flush");
    assert_eq!(daemon.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > 600);
}
