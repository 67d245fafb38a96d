//! Commands that vitalfew starts inherit what they would inherit without it.

mod common;

use common::*;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Each command that starts a program.
const COMMANDS: &[&str] = &[
    "record -q -o r.vf",
    "record -q --off-cpu -o o.vf",
    "record -q --collector ring -o ring.vf",
    "run -q --once",
    "causal run -q --runs 1 --by function -o c.json",
    "causal run -q --no-hooks --runs 1 --by function -o n.json",
    "interference run -q -f work",
    "interference run -q",
    "check -q --runs 2 -o b.json",
];

/// A shell that runs some programs, and executes the last one in its process.
const SHELL: &[&str] = &["sh", "-c", "true; /bin/true; exec env \"$@\"", "sh"];

/// A parent with unusual settings, like those of supervisors, CI agents and `nohup`.
const PARENT: &str = "umask 027; ulimit -Sn 200; exec 5</dev/null; \
    exec env --ignore-signal=HUP,PIPE,CHLD,USR2 --block-signal=WINCH nice -n 3 \"$@\"";

/// Returns bytes that are not UTF-8: an argument and a file name may contain any non-zero bytes.
fn no_text() -> &'static OsStr {
    OsStr::from_bytes(b"\xff\xfe")
}

fn inherited(lab: &Lab, program: &Path, prefix: &[&str]) -> String {
    let file = lab.path("inherited.txt");
    let _ = fs::remove_file(&file);
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "sh", "-c", PARENT, "sh"])
        .args(prefix)
        .arg(program)
        .arg(&file)
        .arg(no_text())
        .current_dir(lab.path(""))
        .env("VITALFEW_DB", lab.path("db"))
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), None, "{prefix:?} hangs: {said}");
    let text = fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{prefix:?}: {error}: {said}"));
    // Pipes to this process have another number in each run.
    let lines = text.lines().map(|line| match line.split_once(": pipe:") {
        Some((descriptor, _)) => descriptor.to_owned(),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn programs_inherit_what_they_would_without_us() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("inherited");
    runtime(); // it is searched beside the command
    for (words, shell) in
        (COMMANDS.iter()).flat_map(|words| [(words, &[] as &[&str]), (words, SHELL)])
    {
        let alone = inherited(&lab, &program, shell);
        assert!(alone.contains("descriptor 5: /dev/null"), "{alone}");
        let prefix: Vec<&str> = [VITALFEW]
            .into_iter()
            .chain(words.split(' '))
            .chain(["--"])
            .chain(shell.iter().copied())
            .collect();
        let measured = inherited(&lab, &program, &prefix);
        let missing_in = |a: &str, b: &str| -> Vec<String> {
            let lines = a
                .lines()
                .filter(|line| !b.lines().any(|other| other == *line));
            lines.map(str::to_owned).collect()
        };
        let (gone, new) = (missing_in(&alone, &measured), missing_in(&measured, &alone));
        assert!(
            gone.is_empty() && new.is_empty(),
            "{words}, {shell:?}: {new:#?} for {gone:#?}"
        );
    }
}

#[test]
fn files_and_programs_may_have_any_name() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("three_to_one");
    fs::copy(program, lab.path("").join(no_text())).expect("copied");
    let vitalfew = |words: &[&OsStr]| {
        let mut command = Command::new(VITALFEW);
        let output = command.args(words).current_dir(lab.path("")).output();
        let output = output.expect("vitalfew runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        output.stdout
    };
    let text = OsStr::new;
    let program = OsStr::from_bytes(b"./\xff\xfe");
    let (recording, base) = (OsStr::from_bytes(b"r\xff.vf"), OsStr::from_bytes(b"b\xff"));
    vitalfew(&[text("record"), text("-o"), recording, text("--"), program]);
    let report = vitalfew(&[text("report"), text("--json"), recording]);
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert!(share(&report, "six") > 0.5, "{report}");
    vitalfew(&[
        text("check"),
        text("--runs"),
        text("2"),
        text("-o"),
        base,
        text("--"),
        program,
    ]);
    assert!(lab.path("").join(base).exists());
}

/// Asks `vitalfew mcp` to run a program, as a client does.
#[test]
fn programs_that_agents_start_inherit_what_the_server_did() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("inherited");
    let alone = inherited(&lab, &program, &[]);
    let file = lab.path("by_agent.txt");
    let mut server = Command::new("sh")
        .args(["-c", PARENT, "sh", VITALFEW, "mcp", "--folder"])
        .arg(lab.path(""))
        .arg("--allow")
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let begin = serde_json::json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = serde_json::json!({"name": "record", "arguments": {"command": [program, file]}});
    let mut input = server.stdin.take().expect("a pipe");
    for message in [
        serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}),
        serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        serde_json::json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        writeln!(input, "{message}").expect("it reads");
    }
    let lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let answers: Vec<String> = lines.map_while(Result::ok).take(2).collect();
    drop(input);
    server.wait().expect("it ends");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {answers:?}"));
    for name in ["SigIgn", "SigBlk", "Umask", "Max open files", "nice"] {
        let line = |text: &str| {
            let found = text.lines().find(|line| line.starts_with(name));
            found.expect("printed").to_owned()
        };
        assert_eq!(line(&text), line(&alone));
    }
}
