//! The daemon on this machine: its stored data, and its recovery from failures.

mod common;

use common::daemon::*;
use common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_daemon_collects_tells_of_itself_and_stops() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--merge", "1s"]);
    let status = daemon.wait_for("collecting", |status| taken(status) > 500);
    assert_eq!(status["stored"], status["taken"], "{status:#}");
    assert_eq!(status["stopped"], Value::Null);
    assert_eq!(status["not_pinned"], Value::Null, "{status:#}");
    let second = Command::new(VITALFEW)
        .args(["daemon", "run", "--db"])
        .arg(&db)
        .output();
    let second = second.expect("vitalfew runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another daemon"));
    let flushed = daemon.ask("flush");
    assert_eq!(flushed["stored"], flushed["taken"], "{flushed:#}");
    let before = daemon.ask("status")["epoch"].clone();
    assert_ne!(daemon.ask("epoch")["epoch"], before);
    // The closed epoch has names for the kernel's procedures.
    let kernel = report(&db, &["--epoch", "..", "--image", "[kernel]"]);
    assert!(
        amount(&kernel, "[no symbol]") < 0.1 * total(&kernel),
        "{kernel:#}"
    );
    assert_eq!(daemon.ask("stop")["stopped"], Value::Null);
    assert_eq!(daemon.code(), Some(0));
    assert!(assert_accounted(&db) > 500);
    let epochs = query(&db, "SELECT open FROM epochs ORDER BY epoch");
    assert_eq!(epochs[0]["open"], 0, "{epochs:?}");
}

#[test]
fn a_killed_daemon_loses_nothing() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    for round in 0..6u64 {
        // Every drain is a part of its own.
        let daemon = Daemon::start(&db, &["--merge", "1h"]);
        std::thread::sleep(Duration::from_millis(100 + 130 * (round % 4)));
        assert_eq!(abandoned(&db), Vec::<PathBuf>::new());
        daemon.kill();
        // Without a daemon, counting goes on.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(abandoned(&db).len(), 1);
    }
    let daemon = Daemon::start(&db, &["--merge", "1h"]);
    assert!(daemon.ask("status")["taken_over"].as_u64() > Some(0));
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_eq!(abandoned(&db), Vec::<PathBuf>::new());
    assert!(assert_accounted(&db) > 500);
    let warned = fs::read_to_string(db.with_extension("talk")).expect("what it said");
    assert!(!warned.contains("lost"), "{warned}");
    // Each drain of each collector is there, once.
    let mut drains: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for epoch in fs::read_dir(&db).expect("the database").flatten() {
        for open in fs::read_dir(epoch.path()).into_iter().flatten().flatten() {
            for part in fs::read_dir(open.path()).into_iter().flatten().flatten() {
                let name = part.file_name().into_string().expect("text");
                let Some((first, last)) = name.trim_end_matches(".vf").split_once('-') else {
                    continue;
                };
                assert_eq!(first, last);
                let (collector, drain) = first.split_once('.').expect("two numbers");
                let number = drain.parse().expect("a number");
                drains.entry(collector.to_owned()).or_default().push(number);
            }
        }
    }
    assert_eq!(drains.len(), 7, "{drains:?}");
    for numbers in drains.values_mut() {
        numbers.sort_unstable();
        let expected: Vec<u32> = (1..=numbers.len() as u32).collect();
        assert_eq!(*numbers, expected);
    }
}

/// Counts of a killed daemon keep their rate, and so their time; the next daemon's counts at
/// another rate are in another epoch.
#[test]
fn another_rate_after_a_kill_begins_an_epoch() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    for (rate, kill) in [("1000", true), ("100", false)] {
        let daemon = Daemon::start(&db, &["-F", rate]);
        daemon.wait_for("collecting", |status| taken(status) > 50);
        daemon.ask("flush");
        if kill {
            daemon.kill()
        } else {
            assert_eq!(daemon.end("TERM"), Some(0))
        }
    }
    let events = query(
        &db,
        "SELECT epoch, frequency, period FROM events ORDER BY epoch",
    );
    let rates: Vec<&Value> = events.iter().map(|event| &event["frequency"]).collect();
    assert_eq!(rates, [1000.0, 100.0], "{events:?}");
    assert!(assert_accounted(&db) > 40);
    // Time, in every table and for epochs of any rate.
    for table in ["samples", "threads"] {
        let sums = query(
            &db,
            &format!(
                "SELECT sum(s.weight) AS weight, sum(s.count) * e.period AS time FROM {table} s \
                 JOIN events e ON s.epoch = e.epoch AND s.event = e.event GROUP BY s.epoch, s.event"
            ),
        );
        assert_eq!(sums.len(), 2);
        for sum in sums {
            assert_eq!(sum["weight"], sum["time"], "{table}: {sum:?}");
        }
    }
    let told = report(&db, &["--epoch", ".."]).to_string();
    assert!(told.contains("different rates"), "{told}");
}

/// Under `nohup` the hangup of a terminal is no order to leave.
#[test]
fn a_daemon_under_nohup_goes_on() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let _load = Load::start();
    let daemon = Daemon::start_with(&lab.path("db"), &["--no-pin"], |command| {
        let mut ignoring = Command::new("env");
        // In place of the argument that resets the signal.
        ignoring
            .arg("--ignore-signal=HUP")
            .args(command.get_args().skip(1))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        *command = ignoring;
    });
    daemon.signal("HUP");
    let before = taken(&daemon.ask("status"));
    daemon.wait_for("collecting", |status| taken(status) > before + 1000);
    assert_eq!(daemon.end("TERM"), Some(0));
}

#[test]
fn an_upgrade_leaves_no_gap() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &[]);
    daemon.wait_for("collecting", |status| taken(status) > 100);
    assert_eq!(daemon.end("HUP"), Some(0));
    let stored = sum(&db, "SELECT sum(stored) FROM events");
    std::thread::sleep(Duration::from_millis(700));
    let next = Daemon::start(&db, &[]);
    let status = next.ask("status");
    // A CPU was busy for at least 0.7 s, with a sample each millisecond.
    assert!(status["taken_over"].as_u64() > Some(300), "{status:#}");
    assert_eq!(next.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > stored + 300);
}

#[test]
fn a_service_manager_is_told_of_its_life() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let path = lab.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let patience = Some(Duration::from_secs(30));
    manager.set_read_timeout(patience).expect("a timeout");
    let heard = |wanted: &str| {
        let mut message = [0; 4096];
        loop {
            let length = manager.recv(&mut message);
            let length = length.unwrap_or_else(|error| panic!("no {wanted}: {error}"));
            if message[..length].starts_with(wanted.as_bytes()) {
                return;
            }
        }
    };
    let daemon = Daemon::start_with(&db, &[], |command| {
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "900000");
    });
    heard("READY=1");
    heard("WATCHDOG=1");
    heard("WATCHDOG=1");
    assert_eq!(daemon.end("TERM"), Some(0));
    heard("STOPPING=1");
}

#[test]
fn garbage_on_the_socket_changes_nothing() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let daemon = Daemon::start(&db, &[]);
    let hosts = fs::read_dir(db.join(".daemon")).expect("its directory");
    let host = hosts.flatten().next().expect("a host").path();
    for garbage in [
        &[0u8; 5000][..],
        b"\n",
        b"status",
        b"flush; drop\n",
        &[0xff; 70],
    ] {
        let mut stream = UnixStream::connect(host.join("socket")).expect("connected");
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    // A silent client that stays connected.
    let _silent = UnixStream::connect(host.join("socket")).expect("connected");
    assert_eq!(daemon.ask("status")["stopped"], Value::Null);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&host), mode(&host.join("socket"))), (0o700, 0o600));
    assert_eq!(daemon.end("TERM"), Some(0));
}

#[test]
fn a_removed_database_is_made_again() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--merge", "1s"]);
    daemon.wait_for("collecting", |status| taken(status) > 100);
    // Stopped meanwhile: what it writes into a directory just emptied would keep it.
    daemon.signal("STOP");
    fs::remove_dir_all(&db).expect("removed");
    daemon.signal("CONT");
    let end = Instant::now() + Duration::from_secs(30);
    while daemon.try_ask("status").is_none() {
        assert!(Instant::now() < end, "{}", daemon.said());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(daemon.said().contains("removed"), "{}", daemon.said());
    daemon.ask("flush");
    assert_eq!(daemon.end("TERM"), Some(0));
    assert!(assert_accounted(&db) > 0);
}

#[test]
fn a_full_disk_stops_collecting_until_there_is_room() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    fs::create_dir(&db).expect("made");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"])
        .arg(&db)
        .status();
    assert!(mounted.expect("mount runs").success());
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _mounted = Mounted(db.clone());
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--merge", "1h"]);
    daemon.wait_for("collecting", |status| taken(status) > 100);
    let ballast = db.join("ballast");
    let filled = fs::write(&ballast, vec![0u8; 1 << 20]);
    assert!(filled.is_err());
    let full = daemon.wait_for("stopped", |status| status["stopped"] != Value::Null);
    let why = full["stopped"].as_str().expect("a reason");
    assert!(why.contains("No space left"), "{why}");
    // No stored data is lost, and nothing is counted meanwhile.
    let stored = full["stored"].as_u64().expect("a count");
    assert_eq!(sum(&db, "SELECT sum(stored) FROM events"), stored);
    fs::remove_file(&ballast).expect("removed");
    let after = daemon.wait_for("collecting again", |status| {
        status["stopped"] == Value::Null
    });
    daemon.wait_for("more", |status| taken(status) > taken(&after) + 100);
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
}

#[test]
fn without_pins_the_daemon_says_what_can_be_lost() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let daemon = Daemon::start(&db, &["--no-pin"]);
    assert_eq!(daemon.ask("status")["not_pinned"], "--no-pin");
    assert!(daemon.said().contains("is lost"), "{}", daemon.said());
    assert_eq!(daemon.end("TERM"), Some(0));
}

#[test]
fn the_rate_is_lowered_rather_than_the_budget_exceeded() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let _load = Load::start();
    let daemon = Daemon::start(&db, &["--budget", "0.01", "-F", "2000"]);
    let status = daemon.wait_for("slower", |status| status["frequency"].as_u64() < Some(2000));
    assert!(
        daemon.said().contains("with a budget of 0.01 %"),
        "{}",
        daemon.said()
    );
    assert!(status["frequency"].as_u64() >= Some(1));
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
    // An epoch has one rate.
    let rates = query(
        &db,
        "SELECT count(DISTINCT period) n FROM events GROUP BY epoch",
    );
    assert!(rates.iter().all(|row| row["n"] == 1), "{rates:?}");
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let db = lab.path("db");
    let daemon = Daemon::start(&db, &[]);
    daemon.wait_for("collecting", |status| taken(status) > 0);
    daemon.ask("epoch");
    assert_eq!(daemon.end("TERM"), Some(0));
    let epochs = query(&db, "SELECT epoch, host FROM epochs WHERE NOT open");
    let part = |name: &str| epochs[0][name].as_str().expect("a name").to_owned();
    let path = db
        .join(format!("epoch={}", part("epoch")))
        .join(format!("host={}", part("host")));
    let description = path.join("recording.json");
    let text = fs::read_to_string(&description).expect("the description");
    fs::write(
        &description,
        text.replacen("\"version\":1", "\"version\":2", 1),
    )
    .expect("written");
    let refused = Command::new(VITALFEW)
        .args(["daemon", "run", "--db"])
        .arg(&db)
        .output();
    let refused = refused.expect("vitalfew runs");
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("format version 2"), "{why}");
}
