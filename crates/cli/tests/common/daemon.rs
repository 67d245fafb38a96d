//! Helpers of the daemon's tests.

use super::VITALFEW;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon, which ends with the test.
pub struct Daemon {
    pub child: Child,
    db: PathBuf,
    talk: PathBuf,
    socket: Option<PathBuf>,
}

impl Daemon {
    /// Starts a daemon and waits until it answers.
    pub fn start(db: &Path, args: &[&str]) -> Self {
        Self::start_with(db, args, |_| ())
    }

    /// Starts a daemon by a command that `change` changes.
    pub fn start_with(db: &Path, args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        Self::spawn(db, args, change).awaited()
    }

    /// Starts a daemon with a socket elsewhere.
    pub fn start_asked_at(db: &Path, args: &[&str], socket: &Path) -> Self {
        let mut daemon = Self::spawn(db, args, |_| ());
        daemon.socket = Some(socket.to_owned());
        daemon.awaited()
    }

    fn awaited(self) -> Self {
        let mut daemon = self;
        // On a busy machine the kernel may take long to verify the programs.
        let end = Instant::now() + Duration::from_secs(180);
        while daemon.try_ask("status").is_none() {
            assert!(
                daemon.child.try_wait().expect("waited").is_none(),
                "{}",
                daemon.said()
            );
            assert!(Instant::now() < end, "{}", daemon.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        daemon
    }

    fn spawn(db: &Path, args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let talk = db.with_extension("talk");
        let file = fs::File::options().append(true).create(true).open(&talk);
        // Under `nohup` it would inherit that SIGHUP is ignored.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", VITALFEW])
            .args(["daemon", "run", "--db"])
            .arg(db)
            .args(if args.contains(&"--interval") {
                &[][..]
            } else {
                &["--interval", "200ms"]
            })
            .args(if args.contains(&"--budget") || args.contains(&"-F") {
                &[][..]
            } else {
                &["--budget", "100", "-F", "1000"]
            })
            // Stacks only where they matter: the unwind table of vitalfew's unoptimised program
            // alone takes seconds.
            .args(
                if args
                    .iter()
                    .any(|arg| arg.ends_with("stacks") || *arg == "--unwind-memory")
                {
                    &[][..]
                } else {
                    &["--no-stacks"]
                },
            )
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file.expect("a file for what it says"));
        change(&mut command);
        let child = command.spawn().expect("vitalfew runs");
        let db = db.to_owned();
        Self {
            child,
            db,
            talk,
            socket: None,
        }
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.talk).unwrap_or_default()
    }

    pub fn try_ask(&self, what: &str) -> Option<Value> {
        let socket = self.socket.iter();
        let output = Command::new(VITALFEW)
            .args(["daemon", what, "--json", "--db"])
            .arg(&self.db)
            .args(socket.flat_map(|path| ["--socket".as_ref(), path.as_os_str()]))
            .output()
            .expect("vitalfew runs");
        output
            .status
            .success()
            .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    pub fn ask(&self, what: &str) -> Value {
        self.try_ask(what)
            .unwrap_or_else(|| panic!("no answer to {what}: {}", self.said()))
    }

    /// Polls its status until `wanted` accepts it.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.ask("status");
            if wanted(&status) {
                return status;
            }
            assert!(
                Instant::now() < end,
                "not {what}: {status:#}\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until it has printed this.
    pub fn wait_for_word(&self, word: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.said().contains(word) {
            assert!(Instant::now() < end, "not {word}: {}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Ends it as a service manager does; returns its exit code.
    pub fn end(self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.code()
    }

    /// Waits for its end; returns its exit code.
    pub fn code(mut self) -> Option<i32> {
        self.child.wait().expect("waited").code()
    }

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            // The test failed: its collector would count on without a reader.
            for directory in abandoned(&self.db) {
                let _ = fs::remove_dir_all(directory);
            }
        }
    }
}

/// Returns the directories of the database's pinned collectors without a daemon.
pub fn abandoned(db: &Path) -> Vec<PathBuf> {
    let ours = abandoned_collectors(db);
    let directories = ours.iter().filter_map(|found| found["directory"].as_str());
    directories.map(PathBuf::from).collect()
}

/// Returns `doctor`'s entries for the database's collectors without a daemon.
pub fn abandoned_collectors(db: &Path) -> Vec<Value> {
    let output = Command::new(VITALFEW).args(["doctor", "--json"]).output();
    let said = output.expect("vitalfew runs").stdout;
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    let found = said["abandoned"].as_array().expect("a list").iter();
    let ours = found.filter(|found| found["database"].as_str().map(Path::new) == Some(db));
    ours.cloned().collect()
}

/// A load to sample on a CPU.
pub struct Load(Child);

impl Load {
    pub fn start() -> Self {
        let child = Command::new("sh")
            .args(["-c", "while :; do sh -c :; done"])
            .spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn query(db: &Path, sql: &str) -> Vec<BTreeMap<String, Value>> {
    let output = Command::new(VITALFEW)
        .args(["query", "--json", sql, "--db"])
        .arg(db)
        .output();
    let output = output.expect("vitalfew runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaint}");
    assert!(!complaint.contains("left out"), "{complaint}");
    serde_json::from_slice(&output.stdout).expect("rows")
}

pub fn sum(db: &Path, sql: &str) -> u64 {
    query(db, sql)[0]
        .values()
        .next()
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

/// Asserts that every sample taken is stored or counted as dropped, once as a place and once as one
/// of a thread; returns their number.
pub fn assert_accounted(db: &Path) -> u64 {
    let stored = sum(db, "SELECT sum(stored) FROM events");
    let taken = sum(db, "SELECT sum(taken) FROM events");
    assert_eq!(taken, stored + sum(db, "SELECT sum(dropped) FROM events"));
    assert_eq!(sum(db, "SELECT sum(count) FROM samples"), stored);
    assert_eq!(sum(db, "SELECT sum(count) FROM threads"), stored);
    stored
}

pub fn taken(status: &Value) -> u64 {
    status["taken"].as_u64().expect("a count")
}
