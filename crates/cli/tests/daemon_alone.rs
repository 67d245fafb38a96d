//! A collector without its daemon, and a daemon without its database.

mod common;

use common::daemon::*;
use common::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A mount, which is removed when the test ends.
struct Mounted(PathBuf);

impl Mounted {
    fn new(arguments: &[&str], at: &Path) -> Self {
        fs::create_dir(at).expect("made");
        let mount = Command::new("mount").args(arguments).arg(at).status();
        assert!(mount.expect("mount runs").success());
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Waits until `wanted` accepts the abandoned collector.
fn wait_for_collector(db: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = abandoned_collectors(db);
        match found.as_slice() {
            [collector] if wanted(collector) => return collector.clone(),
            other => assert!(Instant::now() < end, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asserts that `daemon status` fails, and names the waiting collector, since when it waits, and
/// how to remove it.
fn assert_status_names(db: &Path, collector: &Value) {
    let status = Command::new(VITALFEW)
        .args(["daemon", "status", "--db"])
        .arg(db)
        .output();
    let output = status.expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by itself"), "{said}");
    let directory = collector["directory"].as_str().expect("a path");
    assert!(said.contains(&format!("rm -r {directory}")), "{said}");
}

fn count(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name}: {value:#}"))
}

#[test]
fn a_collector_without_a_daemon_stops_by_itself() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--outlive", "1s"]);
    let status = daemon.wait_for("collecting", |status| taken(status) > 100);
    let ends = status["interrupts_end"] == Value::Bool(true);
    daemon.kill();
    let ceased = |collector: &Value| collector["ceased_ago_ns"] != Value::Null;
    let before = wait_for_collector(&db, ceased);
    std::thread::sleep(Duration::from_millis(1500));
    let after = wait_for_collector(&db, ceased);
    // Sampling has stopped; each CPU's event caused one more interrupt to notice it.
    assert_eq!(before["waiting"], after["waiting"]);
    assert!(count(&before, "waiting") > 0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    assert!(!ends || count(&after, "overdue") <= cpus, "{after:#}");
    assert_status_names(&db, &after);
    // The next daemon continues, and no count is lost.
    let next = Daemon::start(&db, &["--outlive", "1s"]);
    let taken_over = count(&next.ask("status"), "taken_over");
    assert_eq!(taken_over, count(&after, "waiting"), "{}", next.said());
    next.wait_for("more", |status| taken(status) > taken_over + 100);
    assert_eq!(next.end("TERM"), Some(0));
    assert_accounted(&db);
    let warnings = report(&db, &["--epoch", ".."])["warnings"].to_string();
    assert!(warnings.contains("stopped by itself"), "{warnings}");
}

#[test]
fn a_daemon_that_did_not_run_for_a_while_begins_again() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--outlive", "500ms"]);
    daemon.wait_for("collecting", |status| taken(status) > 100);
    daemon.signal("STOP");
    std::thread::sleep(Duration::from_millis(1500));
    daemon.signal("CONT");
    let status = daemon.wait_for("collecting again", |status| {
        count(status, "unsampled_ns") > 0
    });
    daemon.wait_for("more", |now| taken(now) > taken(&status) + 300);
    assert!(
        !daemon.said().contains("starting again"),
        "{}",
        daemon.said()
    );
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
    let warnings = report(&db, &["--epoch", ".."])["warnings"].to_string();
    assert!(warnings.contains("nothing was sampled for"), "{warnings}");
}

#[test]
fn a_database_that_is_removed_takes_nothing_with_it_that_was_not_in_it() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    // All counts are in the kernel.
    let daemon = Daemon::start(&db, &["--interval", "1h", "--outlive", "2s"]);
    std::thread::sleep(Duration::from_millis(500));
    fs::remove_dir_all(&db).expect("removed");
    // While the daemon lives, no other takes its collector.
    let second = Command::new(VITALFEW)
        .args(["daemon", "run", "--db"])
        .arg(&db)
        .output();
    let second = second.expect("vitalfew runs");
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{why}");
    assert!(why.contains("another daemon"), "{why}");
    daemon.kill();
    let _ = fs::remove_dir_all(&db);
    let left = wait_for_collector(&db, |collector| collector["ceased_ago_ns"] != Value::Null);
    assert_status_names(&db, &left);
    assert!(count(&left, "waiting") > 300, "{left:#}");
    let next = Daemon::start(&db, &[]);
    let status = next.ask("status");
    assert_eq!(count(&status, "taken_over"), count(&left, "waiting"));
    assert!(!next.said().contains("lost"), "{}", next.said());
    assert_eq!(next.end("TERM"), Some(0));
    assert_accounted(&db);
}

#[test]
fn a_file_system_that_freezes_loses_nothing() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let (image, mounted) = (lab.path("image"), lab.path("mounted"));
    let file = fs::File::create(&image).expect("made");
    file.set_len(64 << 20).expect("as long");
    let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
    assert!(made.expect("mkfs.ext4 runs").success());
    let image = image.to_str().expect("text");
    let _mounted = Mounted::new(&["-o", "loop", image], &mounted);
    struct Frozen<'a>(&'a Path);
    impl Drop for Frozen<'_> {
        fn drop(&mut self) {
            let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
        }
    }
    let db = mounted.join("db");
    let _load = (Load::start(), Load::start());
    let daemon = Daemon::start_with(&db, &["--merge", "1h"], |_| ());
    daemon.wait_for("collecting", |status| taken(status) > 100);
    let froze = Command::new("fsfreeze").arg("-f").arg(&mounted).status();
    assert!(froze.expect("fsfreeze runs").success());
    let frozen = Frozen(&mounted);
    std::thread::sleep(Duration::from_secs(4));
    // The daemon still answers, with the reason for its wait.
    let begin = Instant::now();
    let status = daemon.ask("status");
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    assert!(count(&status, "late_ns") > 0, "{status:#}");
    // A polling client must not keep the daemon from draining or from reading process records.
    while begin.elapsed() < Duration::from_secs(6) {
        daemon.ask("status");
    }
    drop(frozen);
    let status = daemon.wait_for("writing", |status| count(status, "late_ns") == 0);
    assert_eq!(status["stopped"], Value::Null);
    assert!(count(&status, "resident_bytes") < 256 << 20, "{status:#}");
    assert_eq!(daemon.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > 1000);
    assert_eq!(sum(&db, "SELECT sum(dropped) FROM events"), 0);
    let warnings = report(&db, &["--epoch", ".."])["warnings"].to_string();
    assert!(!warnings.contains("lost"), "{warnings}");
}

#[test]
fn on_a_full_disk_old_epochs_go_before_new_samples() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], &db);
    let name = db.to_str().expect("text");
    for _ in 0..3 {
        let args = ["record", "-q", "-a", "--for", "200ms", "--db", name];
        let recorded = Command::new(VITALFEW).args(args).status();
        assert!(recorded.expect("vitalfew runs").success());
    }
    let first = query(&db, "SELECT min(epoch) AS first FROM epochs");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--merge", "1h", "--keep-size", "1G"]);
    daemon.wait_for("collecting", |status| taken(status) > 100);
    assert!(fs::write(db.join("ballast"), vec![0u8; 16 << 20]).is_err());
    let status = daemon.wait_for("making room", |status| {
        count(status, "sacrificed_epochs") > 0
    });
    assert!(
        !daemon.said().contains("collecting stops"),
        "{}",
        daemon.said()
    );
    fs::remove_file(db.join("ballast")).expect("removed");
    daemon.wait_for("more", |now| taken(now) > taken(&status) + 100);
    assert_ne!(query(&db, "SELECT min(epoch) AS first FROM epochs"), first);
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
}

#[test]
fn a_rate_that_was_asked_for_is_kept_and_its_cost_said() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["-F", "4000"]);
    daemon.wait_for_word("the rate stays at 4000 Hz, as -F asks");
    assert_eq!(count(&daemon.ask("status"), "frequency"), 4000);
    assert_eq!(daemon.end("TERM"), Some(0));
}

#[test]
fn only_sockets_of_ours_are_replaced() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let (db, socket) = (lab.path("db"), lab.path("socket"));
    let name = socket.to_str().expect("text").to_owned();
    let refused = || {
        let run = Command::new(VITALFEW)
            .args(["daemon", "run", "--socket", &name, "--db"])
            .arg(&db)
            .output();
        let run = run.expect("vitalfew runs");
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    fs::write(&socket, "precious").expect("written");
    assert!(refused().contains("not a socket"));
    assert_eq!(fs::read_to_string(&socket).expect("there"), "precious");
    fs::remove_file(&socket).expect("removed");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    assert!(refused().contains("did not make"));
    fs::remove_file(&socket).expect("removed");
    // A killed daemon's socket is replaced.
    let args = ["--socket", &name];
    for end in [false, true] {
        let daemon = Daemon::start_asked_at(&db, &args, &socket);
        if end {
            assert_eq!(daemon.end("TERM"), Some(0))
        } else {
            daemon.kill()
        }
    }
    assert!(!socket.exists());
}

#[test]
fn what_the_whole_machine_does_is_for_its_owner() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let modes = |directory: &Path| {
        let mut found = vec![mode(directory)];
        let mut waiting = vec![directory.to_owned()];
        while let Some(next) = waiting.pop() {
            for entry in fs::read_dir(next).expect("read").flatten() {
                found.push(mode(&entry.path()));
                if entry.path().is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let record = |args: &[&str]| {
        let vitalfew = format!("umask 022; exec {VITALFEW} record \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &vitalfew, "sh", "-q"]).args(args);
        assert!(shell.status().expect("vitalfew runs").success());
    };
    let name = |name: &str| lab.path(name).to_str().expect("text").to_owned();
    let all = ["-a", "--for", "300ms"];
    record(&[&all[..], &["-o", &name("private.vf")]].concat());
    assert_eq!(mode(&lab.path("private.vf")), 0o600);
    record(&[&all[..], &["-o", &name("shared.vf"), "--shared"]].concat());
    assert_eq!(mode(&lab.path("shared.vf")), 0o644);
    record(&[&all[..], &["--db", &name("private")]].concat());
    assert_eq!(modes(&lab.path("private")), [0o600, 0o700]);
    let db = lab.path("db");
    let daemon = Daemon::start(&db, &["--merge", "1s"]);
    daemon.wait_for("collecting", |status| taken(status) > 0);
    daemon.ask("epoch");
    daemon.wait_for("more", |status| count(status, "parts") > 0);
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_eq!(modes(&db), [0o600, 0o700]);
}

#[test]
fn a_report_that_leaves_damaged_data_out_says_so_by_its_code() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let name = db.to_str().expect("text");
    for _ in 0..2 {
        let args = ["record", "-q", "-a", "--for", "200ms", "--db", name];
        let recorded = Command::new(VITALFEW).args(args).status();
        assert!(recorded.expect("vitalfew runs").success());
    }
    let code = |args: &[&str]| {
        let ran = Command::new(VITALFEW).args(args).output();
        ran.expect("vitalfew runs").status.code()
    };
    let select = "SELECT sum(count) FROM samples";
    let all = [
        &["report", name, "--epoch", ".."][..],
        &["report", name],
        &["query", "--db", name, select],
        &["epochs", "--db", name],
    ];
    for args in all {
        assert_eq!(code(args), Some(0), "{args:?}");
    }
    let newest = fs::read_dir(&db).expect("read").flatten().map(|e| e.path());
    let newest = newest.filter(|path| path.to_string_lossy().contains("epoch="));
    let newest = newest.max().expect("an epoch");
    let host = fs::read_dir(newest).expect("read").flatten().next();
    let host = host.expect("a host").path();
    for entry in fs::read_dir(host).expect("read").flatten() {
        fs::write(entry.path(), "damaged").expect("written");
    }
    for args in all {
        assert_eq!(code(args), Some(5), "{args:?}");
    }
}
