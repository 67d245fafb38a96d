//! Helpers of the tests that measure programs.
#![allow(dead_code)] // each test binary uses a part

pub mod daemon;
pub mod made_up;
pub mod running;
pub mod s3;

use serde_json::Value;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub const VITALFEW: &str = env!("CARGO_BIN_EXE_vitalfew");

/// Returns the library to preload, built once: cargo builds nothing for tests that they do not
/// depend on.
pub fn runtime() -> &'static Path {
    static RUNTIME: OnceLock<PathBuf> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", "runtime"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the runtime does not build");
        let beside = Path::new(VITALFEW).with_file_name("libvitalfew_runtime.so");
        let debug = beside
            .parent()
            .and_then(Path::parent)
            .map(|target| target.join("debug"));
        let debug = debug
            .expect("a target directory")
            .join("libvitalfew_runtime.so");
        if debug.exists() { debug } else { beside }
    })
}

/// Locks the machine for one test of a file at a time, if other tests' load would matter. `None`:
/// nothing can be measured here.
pub fn alone() -> Option<MutexGuard<'static, ()>> {
    static MACHINE: Mutex<()> = Mutex::new(());
    live().then(|| MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A directory for a test, with a program in it.
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles a program of tests/programs/.
    pub fn program(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/programs")
            .join(name)
            .with_extension("c");
        let program = self.path(name);
        let flags = ["-O2", "-g", "-fomit-frame-pointer", "-pthread"];
        // When the whole machine is sampled, another test's copy would count as the same program,
        // and disappear with that test.
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        let id = format!("-Wl,--build-id=0x{:016x}", hasher.finish());
        let status = Command::new("cc")
            .args(flags)
            .arg(id)
            .arg("-o")
            .args([&program, &source])
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{name} does not compile");
        program
    }

    /// Records with these arguments into a file and returns it.
    pub fn record<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> PathBuf {
        let (file, output) = self.try_record(args);
        assert!(file.exists(), "{}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// Starts a recording and returns when it reports its start: that time depends on the machine's
    /// load.
    pub fn start_recording<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> RunningRecording {
        let file = self.path("recording.vf");
        let _ = std::fs::remove_file(&file);
        let mut child = Command::new(VITALFEW)
            .args(["record", "-o"])
            .arg(&file)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("vitalfew runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = String::new();
        while !said.contains("vitalfew: recording ") {
            let line = lines.next().unwrap_or_else(|| panic!("ended: {said}"));
            said += &line.expect("text");
            said.push('\n');
        }
        // Reads on, because a full pipe would block it.
        let rest =
            std::thread::spawn(move || said + &lines.map_while(Result::ok).collect::<String>());
        RunningRecording { child, file, rest }
    }

    pub fn try_record<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> (PathBuf, Output) {
        let file = self.path("recording.vf");
        let _ = std::fs::remove_file(&file);
        let output = Command::new(VITALFEW)
            .args(["record", "-o"])
            .arg(&file)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("vitalfew runs");
        (file, output)
    }
}

/// A running recording.
pub struct RunningRecording {
    pub child: Child,
    file: PathBuf,
    rest: std::thread::JoinHandle<String>,
}

impl RunningRecording {
    /// Sends it a signal by its name.
    pub fn send(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits until it ends. Returns its exit status and its file.
    pub fn wait(mut self) -> (ExitStatus, PathBuf) {
        let status = self.child.wait().expect("it ends");
        let said = self.rest.join().expect("text");
        assert!(self.file.exists(), "{said}");
        (status, self.file)
    }
}

/// Returns whether programs can be measured here. A test may be skipped only with the doctor's
/// reason, and not at all with REQUIRE_LIVE=1.
pub fn live() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let doctor = Command::new(VITALFEW).args(["doctor", "--json"]).output();
        let doctor = doctor.expect("vitalfew runs");
        let report: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
        let probes = report["probes"].as_array().expect("probes");
        let gap = |question: &str| {
            let probe = probes.iter().find(|probe| probe["question"] == question);
            let gap = &probe.expect("the question")["gap"];
            (!gap.is_null()).then(|| gap.to_string())
        };
        gap("whole_machine").or(gap("bpf"))
    });
    let Some(reason) = reason else { return true };
    assert!(
        std::env::var_os("REQUIRE_LIVE").is_none(),
        "REQUIRE_LIVE is set and this machine cannot be measured: {reason}"
    );
    eprintln!("skipped: {reason}");
    false
}

pub fn report(file: &Path, args: &[&str]) -> Value {
    let output = Command::new(VITALFEW)
        .args(["report", "--json", "--all"])
        .arg(file)
        .args(args)
        .output()
        .expect("vitalfew runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("rows")
}

pub fn total(report: &Value) -> f64 {
    report["events"][0]["total"].as_f64().expect("a total")
}

/// Returns the amount of the first event in rows whose name contains `name`.
pub fn amount(report: &Value, name: &str) -> f64 {
    let named = |row: &&Value| row["name"].as_str().is_some_and(|n| n.contains(name));
    let amounts = rows(report).iter().filter(named);
    amounts.filter_map(|row| row["amounts"][0].as_f64()).sum()
}

pub fn share(report: &Value, name: &str) -> f64 {
    amount(report, name) / total(report)
}

/// Returns five standard errors of a share that was counted out of `n`.
pub fn error(share: f64, n: f64) -> f64 {
    5.0 * (share * (1.0 - share) / n).sqrt()
}

/// Asserts that the program's samples are balanced, and equal the count in the report.
pub fn assert_balanced(report: &Value) {
    for event in report["recorded_events"].as_array().expect("events") {
        let count = |key: &str| event[key].as_u64().expect("a count");
        let given_up = count("dropped") + count("lost");
        assert_eq!(count("taken"), count("stored") + given_up, "{event}");
    }
    let warnings = report["warnings"].as_array().expect("warnings");
    let accounting = |w: &&Value| w.as_str().is_some_and(|w| w.starts_with("accounting"));
    assert_eq!(warnings.iter().find(accounting), None);
}
