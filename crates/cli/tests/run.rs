//! `vitalfew run` on programs of known truth. The tests assert places, kinds and orders; never
//! times.

mod common;

use common::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const SAVES: &str = r"
#include <fcntl.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) static void compute(void) { long s = 0; for (long i = 0; i < 200000; i++) s += i % 7; sink = s; }
__attribute__((noinline)) static void save(int file) { char page[4096] = {1}; if (pwrite(file, page, sizeof page, 0) < 0) _exit(1); fsync(file); }
int main(int n, char **words) { int file = open(words[1], O_CREAT | O_RDWR, 0600); (void)n;
  for (int i = 0; i < 60; i++) { compute(); for (int j = 0; j < 10; j++) save(file); } return 7; }
";

const SLEEPS: &str = r"
#include <unistd.h>
__attribute__((noinline)) static void wait_for_turn(void) { usleep(5000); }
int main(void) { for (int i = 0; i < 100; i++) wait_for_turn(); return 0; }
";

fn compile(lab: &Lab, name: &str, source: &str) -> PathBuf {
    let file = lab.path(&format!("{name}.c"));
    std::fs::write(&file, source).expect("written");
    let program = lab.path(name);
    let status = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .args([&program, &file])
        .status();
    assert!(status.expect("a compiler").success());
    program
}

fn run(lab: &Lab, options: &[&str], command: &[&Path]) -> Output {
    Command::new(VITALFEW)
        .args(["run", "--quiet", "-o"])
        .arg(lab.path("result.json"))
        .args(options)
        .arg("--")
        .args(command)
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs")
}

fn result(lab: &Lab) -> Value {
    let text = std::fs::read(lab.path("result.json")).expect("a result");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    if let Err(error) = result_validator().validate(&json) {
        panic!("{error} at {}: {json:#}", error.instance_path());
    }
    json
}

/// Returns the validator of a result's documented form, claims included.
fn result_validator() -> jsonschema::Validator {
    let read = |name: &str| -> Value {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let text = std::fs::read_to_string(docs.join(name)).expect("a schema");
        serde_json::from_str(&text).expect("JSON")
    };
    let mut schema = read("run.schema.json");
    let mut finding = read("finding.schema.json");
    finding["$id"] = "finding.schema.json".into();
    schema["$defs"]["finding"] = finding;
    jsonschema::validator_for(&schema).expect("a schema")
}

/// Returns the findings' kinds of time, with their places: experiments name a line, not a path.
fn spent(json: &Value) -> Vec<(String, String)> {
    let list = json["claims"]["list"].as_array().expect("a list");
    let on = |claim: &Value| {
        let evidence = claim["evidence"].as_array().expect("evidence");
        let spent = evidence.iter().find(|e| e["kind"] == "time_spent");
        let on = spent.map_or("", |spent| spent["on"].as_str().unwrap_or_default());
        (on.to_owned(), claim["place"]["what"].to_string())
    };
    list.iter().map(on).collect()
}

#[test]
fn waiting_for_the_disk_is_found_with_who_asked_for_it() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "saves", SAVES);
    let output = run(&lab, &["--once"], &[&program, &lab.path("file")]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let json = result(&lab);
    let disk = |(on, path): &(String, String)| {
        (on == "disk" || on == "system_calls")
            && path.contains("\"save\"")
            && path.contains("fsync")
    };
    let found = spent(&json);
    assert!(found.iter().any(disk), "{found:?}");
    let asked = json["asked"].to_string();
    assert!(asked.contains("in one run"), "{asked}");
}

#[test]
fn sleeping_is_the_first_finding_of_a_program_that_sleeps() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "sleeps", SLEEPS);
    let output = run(&lab, &[], &[&program]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = result(&lab);
    let mut found = spent(&json);
    // On a shared machine others may use the CPUs.
    found.retain(|(on, _)| on != "no_cpu");
    assert_eq!(found[0].0, "sleeping", "{found:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("wait_for_turn > ") && text.contains("sleep\n"),
        "{text}"
    );
    let asked = json["asked"].to_string();
    assert!(asked.contains("one thread does the work"), "{asked}");
}

/// A command that only sleeps has hardly any samples, but its waits are measured.
/// A client, with a thread that does nothing, and a server that nobody asks.
const CLIENT: &str = r"
import socket, sys, threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
def ask(connection):
    connection.sendall(b'?')
    connection.recv(1)
if sys.argv[1] == 'serve':
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(2)
        try:
            server.accept()
        except TimeoutError:
            pass
else:
    with socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=10) as connection:
        for _ in range(100):
            ask(connection)
";

/// Answers each byte of the first client after 10 ms.
fn answer_slowly(listener: &TcpListener) -> std::io::Result<()> {
    let (mut client, _) = listener.accept()?;
    let mut byte = [0];
    while client.read(&mut byte)? > 0 {
        std::thread::sleep(Duration::from_millis(10));
        client.write_all(&byte)?;
    }
    Ok(())
}

#[test]
fn clients_wait_for_answers_and_servers_for_requests() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let script = lab.path("asks.py");
    std::fs::write(&script, CLIENT).expect("written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string();
    let server = std::thread::spawn(move || answer_slowly(&listener));
    let output = run(
        &lab,
        &["--once"],
        &[Path::new("python3"), &script, Path::new(&port)],
    );
    assert!(output.status.success(), "{output:?}");
    let _ = server.join().expect("the server ends");
    let found = spent(&result(&lab));
    let asks = |(on, path): &(String, String)| on == "network" && path.contains("ask");
    assert!(found.first().is_some_and(asks), "{found:?}");
    let output = run(
        &lab,
        &["--once"],
        &[Path::new("python3"), &script, Path::new("serve")],
    );
    assert!(output.status.success(), "{output:?}");
    let found = spent(&result(&lab));
    assert!(found.iter().all(|(on, _)| on != "network"), "{found:?}");
}

#[test]
fn a_command_that_only_sleeps_is_said_to_sleep() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let output = run(&lab, &["--once"], &[Path::new("sleep"), Path::new("2")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = result(&lab);
    assert!(json["samples"].as_u64() < Some(30), "{json}");
    let mut found = spent(&json);
    // On a shared machine others may use the CPUs.
    found.retain(|(on, _)| on != "no_cpu");
    assert_eq!(found[0].0, "sleeping", "{found:?}");
}

const ONCE: &str = r"
#include <fcntl.h>
static volatile long sink;
__attribute__((noinline)) static void make_file(void) { long s = 0; for (long i = 0; i < 400000000; i++) s += i % 7; sink = s; }
int main(int n, char **words) { (void)n; if (open(words[1], O_CREAT | O_EXCL | O_RDWR, 0600) < 0) return 3; make_file(); return 0; }
";

/// A command without symbols: a message names the file of the addresses.
#[test]
fn a_stripped_program_is_said_to_have_no_names() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "sleeps", SLEEPS);
    let strip = Command::new("strip").arg(&program).status();
    assert!(strip.expect("strip").success());
    let output = run(&lab, &["--once"], &[&program]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("sleeps have no names"), "{text}");
}

/// A second run that finds the first one's results does other work, which must not count as the
/// command's.
#[test]
fn only_the_first_run_counts_if_another_one_ends_otherwise() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "once", ONCE);
    let output = run(&lab, &[], &[&program, &lab.path("made")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = result(&lab);
    let asked = json["asked"].to_string();
    assert!(asked.contains("ended otherwise"), "{asked}");
    let mut found = spent(&json);
    found.retain(|(on, _)| on != "no_cpu");
    assert_eq!(found[0].0, "computing", "{found:?}");
    assert!(found[0].1.contains("make_file"), "{found:?}");
}

const PAUSES: &str = r"
#include <pthread.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) static void compute_part(void) { long s = 0; for (long i = 0; i < 200000; i++) s += i % 7; sink = s; }
static void *work(void *unused) { for (int i = 0; i < 300; i++) { compute_part(); usleep(500); } return unused; }
int main(void) { pthread_t one, other; pthread_create(&one, 0, work, 0); pthread_create(&other, 0, work, 0);
  pthread_join(one, 0); pthread_join(other, 0); return 0; }
";

/// Waits are in nanoseconds and samples are counted: the functions to trace are the computing ones.
#[test]
fn functions_of_a_program_that_waits_are_traced() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "pauses", PAUSES);
    let output = Command::new(VITALFEW)
        .args(["run", "--quiet", "--for", "60s", "-o"])
        .arg(lab.path("result.json"))
        .arg("--")
        .arg(&program)
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = result(&lab);
    let report = Command::new(VITALFEW)
        .args(["interference", "report", "--json", "--all"])
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(
        text.contains("compute_part"),
        "{} {text} {report:?}",
        json["asked"]
    );
}

const ENDS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) static void compute(void) { for (long i = 0; i < 200000000; i++) sink += i; }
int main(int n, char **words) {
  const char *how = n > 1 ? words[1] : "";
  compute();
  if (!strcmp(how, "crash")) abort();
  if (!strcmp(how, "hang")) for (;;) compute();
  return 3;
}
"#;

/// A command that crashes, fails or hangs: the known results are reported, with how it ended.
#[test]
fn how_the_command_ended_is_said_beside_what_is_known() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "ends", ENDS);
    for (how, ended, said) in [
        ("fail", serde_json::json!({"code": 3}), "exit code 3"),
        (
            "crash",
            serde_json::json!({"signal": 6}),
            "signal 6 (SIGABRT) ended",
        ),
        ("hang", serde_json::json!("unfinished"), "had not ended"),
    ] {
        let output = run_for_a_moment(&lab, &program, how);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{how}: {text}");
        let json = result(&lab);
        assert_eq!(json["ended_by"], ended, "{how}");
        assert!(
            spent(&json).iter().any(|(on, _)| on == "computing"),
            "{how}: {text}"
        );
    }
}

fn run_for_a_moment(lab: &Lab, program: &Path, how: &str) -> Output {
    let command = Command::new("timeout")
        .args([
            "--signal=TERM",
            "60",
            VITALFEW,
            "run",
            "--quiet",
            "--once",
            "--for",
            "3s",
            "-o",
        ])
        .arg(lab.path("result.json"))
        .arg("--")
        .args([program, Path::new(how)])
        .env("VITALFEW_DB", lab.path("db"))
        .output();
    command.expect("vitalfew runs")
}

const APPENDS: &str = r#"
#pragma GCC optimize("O2")
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void append_word(char *to, const char *word) { strcat(to, word); }
__attribute__((noinline)) static void fill_page(char *page) {
  page[0] = 0;
  for (int i = 0; i < 20000; i++) { append_word(page, "word "); __asm__ volatile("" : : : "memory"); }
}
int main(void) { char *page = malloc(1 << 20); for (int i = 0; i < 15; i++) fill_page(page); return 0; }
"#;

/// A function that ends in a tail call of the C library is not on stacks, but its caller did call
/// it.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_function_that_ends_with_a_tail_call_is_named() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "appends", APPENDS);
    let output = run(&lab, &["--once"], &[&program]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut found = spent(&result(&lab));
    found.retain(|(on, _)| on != "no_cpu");
    assert!(found[0].1.contains("append_word"), "{found:?}");
}

const SERVES: &str = r"
#include <pthread.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) static void answer(void) { long s = 0; for (long i = 0; i < 200000; i++) s += i % 7; sink = s; }
static void *serve(void *unused) { for (;;) { answer(); if (write(1, unused, 0) < 0) _exit(1); } return unused; }
int main(void) { pthread_t one, other; pthread_create(&one, 0, serve, 0); pthread_create(&other, 0, serve, 0);
  pthread_join(one, 0); pthread_join(other, 0); return 0; }
";

/// A process with several busy threads is sampled, traced, then experimented with, and runs on.
#[test]
fn a_running_process_is_asked_by_all_methods_and_runs_on() {
    if !live() {
        return;
    }
    // `run` finds it beside the command.
    let _ = runtime();
    let lab = Lab::new();
    let program = compile(&lab, "serves", SERVES);
    let null = std::process::Stdio::null();
    let child = Command::new(&program).stdout(null).spawn();
    let mut child = child.expect("it starts");
    let pid = child.id().to_string();
    let output = Command::new(VITALFEW)
        .args(["run", "--quiet", "--for", "60s", "-p", &pid, "-o"])
        .arg(lab.path("result.json"))
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs");
    let left = child.try_wait().expect("asked");
    child.kill().expect("it ran on");
    child.wait().expect("it ends");
    assert!(left.is_none(), "{left:?} {output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json = result(&lab);
    let asked = json["asked"].as_array().expect("methods");
    for method in ["interference", "experiments"] {
        let answer = asked.iter().find(|asked| asked["method"] == method);
        let had = answer.map(|answer| answer["had"].to_string());
        assert!(
            had.is_some_and(|had| had.contains(&format!("process {pid}"))),
            "{asked:?}"
        );
    }
    assert!(
        spent(&json).iter().any(|(_, path)| path.contains("answer")),
        "{output:?}"
    );
}

/// A measurement stopped by the user is not reported as too short.
#[test]
fn a_stopped_measurement_gives_what_it_has() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "ends", ENDS);
    let output = Command::new("timeout")
        .args(["--foreground", "--signal=TERM", "8", VITALFEW, "run"])
        .args(["--quiet", "--for", "100s", "-o"])
        .arg(lab.path("result.json"))
        .arg("--")
        .args([&program, Path::new("hang")])
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("you stopped it"), "{text}");
    assert_eq!(result(&lab)["ended_by"], "stopped");
}

const LEAVES: &str = r"
#include <unistd.h>
int main(void) { if (fork() == 0) { setsid(); sleep(60); } return 0; }
";

/// A process that a command leaves behind is named.
#[test]
fn who_goes_on_after_the_command_is_said() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "leaves", LEAVES);
    let errors = std::fs::File::create(lab.path("errors")).expect("a file");
    // The process left behind has it open, too.
    let status = Command::new(VITALFEW)
        .args(["run", "--quiet", "-o"])
        .arg(lab.path("result.json"))
        .arg("--")
        .arg(&program)
        .env("VITALFEW_DB", lab.path("db"))
        .stdout(std::process::Stdio::null())
        .stderr(errors)
        .status();
    assert_eq!(status.expect("vitalfew runs").code(), Some(0));
    let left = &result(&lab)["left_running"][0];
    let pid = left["pid"].as_u64().expect("one is left").to_string();
    let killed = Command::new("kill").arg(&pid).status();
    assert!(killed.expect("kill runs").success(), "{left}");
    assert_eq!(left["name"], "leaves");
    let said = std::fs::read_to_string(lab.path("errors")).expect("it said something");
    assert!(said.contains(&format!("vitalfew run -p {pid}")), "{said}");
}

const ASKS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile long sink;
static void *compute(void *unused) { long s = 0; for (long i = 0; i < 300000000; i++) s += i % 7; sink = s; return unused; }
int main(int n, char **words) {
  FILE *started = fopen(words[n - 1], "a"); fprintf(started, "%d\n", getpid()); fclose(started);
  char answer[9]; if (read(open("/dev/tty", O_RDWR), answer, sizeof answer) < 0) return 1;
  pthread_t one; pthread_create(&one, 0, compute, 0); compute(0); pthread_join(one, 0); return 0; }
"#;

/// A user would have to repeat the answers to a command's questions.
#[test]
fn a_command_that_asks_its_user_is_run_once() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "asks", ASKS);
    let started = lab.path("started");
    let line = format!(
        "{VITALFEW} run --quiet --for 30s -o {} -- {} {}",
        lab.path("result.json").display(),
        program.display(),
        started.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("VITALFEW_DB", lab.path("db"))
        .env("VITALFEW_PAGER", "cat")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("script of util-linux");
    // It is asked for an answer when it sleeps, after it printed its name.
    let sleeps = || {
        let pid = std::fs::read_to_string(&started).ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
        stat.contains(") S ").then_some(())
    };
    while sleeps().is_none() && terminal.try_wait().expect("asked").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let mut keys = terminal.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut keys, b"yes\n").expect("typed");
    assert!(terminal.wait().expect("it ends").success());
    let starts = std::fs::read_to_string(&started).expect("started");
    assert_eq!(starts.lines().count(), 1, "{starts}");
    let asked = result(&lab)["asked"].to_string();
    assert!(asked.contains("typed"), "{asked}");
}

#[test]
fn too_little_is_said_to_be_too_little() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let output = run(&lab, &[], &[Path::new("/bin/true")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("too few"), "{text}");
    assert_eq!(result(&lab)["findings_total"], 0);
    let missing = run(&lab, &[], &[Path::new("/no/such/program")]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
}

#[test]
fn json_is_alone_on_standard_output() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let output = Command::new(VITALFEW)
        .args(["run", "--json", "--", "/bin/echo", "printed by the command"])
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert!(result_validator().is_valid(&json), "{json:#}");
    assert!(said.contains("printed by the command"), "{said}");
}

#[test]
fn a_kept_result_is_shown_and_compared_without_a_run() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "sleeps", SLEEPS);
    run(&lab, &[], &[&program]);
    let kept = lab.path("result.json");
    let output = Command::new(VITALFEW)
        .args(["run", "--show"])
        .arg(&kept)
        .arg("--against")
        .arg(&kept)
        .output()
        .expect("vitalfew runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("wait_for_turn > ") && text.contains("sleep\n"),
        "{text}"
    );
    assert!(text.contains("no clear change"), "{text}");
}

const LOOPS: &str = r"
#include <stdlib.h>
static volatile long sink;
__attribute__((noinline)) static void parse_rows(long count) { long s = 0; for (long i = 0; i < count; i++) s += i % 7; sink = s; }
__attribute__((noinline)) static void print_rows(void) { long s = 0; for (long i = 0; i < 20000000; i++) s += i % 5; sink = s; }
int main(int n, char **words) { (void)n; parse_rows(atol(words[1])); print_rows(); return 0; }
";

/// Twice the work is slower than allowed by any interval, and named; the same work is never certain
/// to be slower.
#[test]
fn check_tells_what_got_slower() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "loops", LOOPS);
    let check = |work: &str, options: &[&str]| {
        Command::new(VITALFEW)
            .args(["check", "--quiet", "--runs", "4"])
            .args(options)
            .arg("--")
            .args([&program, Path::new(work)])
            .output()
            .expect("vitalfew runs")
    };
    let base = lab.path("base.json");
    let base = base.to_str().expect("a name");
    let kept = check("40000000", &["-o", base]);
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    let slower = check("400000000", &["--against", base, "--json"]);
    assert_eq!(slower.status.code(), Some(6), "{slower:?}");
    let json: Value = serde_json::from_slice(&slower.stdout).expect("JSON");
    assert_eq!(json["verdict"], "slower");
    assert!(json["claims"].to_string().contains("parse_rows"), "{json}");
    let faster = check("400", &["--against", base, "--fail-over", "100%"]);
    assert_ne!(faster.status.code(), Some(6), "{faster:?}");
    let no_such = check("400", &["--against", "/no/such/file"]);
    assert_eq!(no_such.status.code(), Some(1), "{no_such:?}");
}

/// Runs the action with commands, and returns its success, its outputs, and the comment.
fn run_action(base: &str, command: &str) -> (bool, String, String) {
    let lab = tempfile::tempdir().expect("a directory");
    let file = |name: &str| lab.path().join(name);
    let gh = format!(
        "#!/bin/sh\nfor last; do :; done\ncp \"$last\" '{}'\n",
        file("comment").display()
    );
    std::fs::write(file("gh"), gh).expect("written");
    std::fs::set_permissions(file("gh"), PermissionsExt::from_mode(0o755)).expect("set");
    std::os::unix::fs::symlink(VITALFEW, file("vitalfew")).expect("linked");
    let path = std::env::var("PATH").expect("a path");
    let script = "/../../packaging/check-action/check.sh";
    let run = Command::new(format!("{}{script}", env!("CARGO_MANIFEST_DIR")))
        .env("PATH", format!("{}:{path}", lab.path().display()))
        .env("XDG_DATA_HOME", lab.path())
        .env("BASE", base)
        .env("COMMAND", command)
        .env("RUNS", "6")
        .env("PULL_REQUEST", "7")
        .env("GITHUB_REPOSITORY", "a/b")
        .env("GITHUB_OUTPUT", file("output"))
        .env("GITHUB_STEP_SUMMARY", file("summary"))
        .output()
        .expect("the script runs");
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
    assert_eq!(read("summary"), read("comment"), "{run:?}");
    (run.status.success(), read("output"), read("comment"))
}

#[test]
fn the_action_comments_on_a_pull_request_and_fails_if_it_is_slower() {
    if !live() {
        return;
    }
    let [short, long] = [20_000, 300_000]
        .map(|rounds| format!("sh -c 'i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done'"));
    let (passed, output, comment) = run_action(&short, &long);
    assert!(!passed, "{comment}");
    assert_eq!(output, "verdict=slower\n");
    assert!(comment.starts_with("**vitalfew check: slower than allowed**"));
    assert!(comment.contains("wall"), "{comment}");

    let (passed, output, _) = run_action(&long, &short);
    assert!(passed);
    assert_eq!(output, "verdict=allowed\n");

    // A command that fails is no verdict, and no comment.
    let (passed, output, comment) = run_action("true", "false");
    assert!(!passed);
    assert_eq!((output.as_str(), comment.as_str()), ("", ""));
}
