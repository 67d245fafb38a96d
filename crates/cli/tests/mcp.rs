//! `vitalfew mcp`, used by another project's client, and by lines that no client writes.

mod common;

use common::*;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Program that spends three quarters of its time in `busy()`.
const PROGRAM: &str = "
static volatile double x;
__attribute__((noinline)) void busy(long n) { for (long i = 0; i < 3 * n; i++) x = x * 1.0001 + 1; }
__attribute__((noinline)) void other(long n) { for (long i = 0; i < n; i++) x = x * 1.0002 + 1; }
int main(void) { for (int i = 0; i < 40; i++) { busy(1000000); other(1000000); } }
";

fn compile(lab: &Lab) -> PathBuf {
    let (source, program) = (lab.path("app.c"), lab.path("app"));
    std::fs::write(&source, PROGRAM).expect("written");
    let mut compiler = Command::new("cc");
    let status = compiler
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

#[test]
fn an_agent_asks_records_and_orders_experiments() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab);
    // The runtime is found beside the command.
    runtime();
    std::fs::write(lab.path("text"), "no profile").expect("written");
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_client.py");
    let mut python = Command::new("python3");
    let output = python
        .arg(client)
        .arg(VITALFEW)
        .arg(&program)
        .arg(lab.path(""))
        .output();
    let output = output.expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the client of the package mcp: {said}"
    );
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["tools"].as_array().map(Vec::len), Some(10), "{found}");
    let answer = |name: &str| {
        let text = found["answers"][name]["text"].as_str().expect("a text");
        let limit = if name == "small" { 900 } else { 4000 };
        assert!(text.len() <= limit, "{name}: {} bytes", text.len());
        serde_json::from_str::<Value>(text).expect("JSON")
    };
    for (refused, reason) in [
        ("refused", "--allow"),
        ("no finding", "has no finding 1000"),
        ("no place", "no_such_function"),
        ("no percentage", "percent is 3"),
        ("too long", "seconds is 1000000000"),
        ("an option", "--autofdo=started"),
        ("outside", "outside of the folder"),
        ("above", "outside of the folder"),
        ("no profile", "no profile of a known format"),
    ] {
        assert_eq!(
            found["answers"][refused]["error"], true,
            "{refused}: {found}"
        );
        let error = answer(refused)["error"].to_string();
        assert!(error.contains(reason), "{refused}: {error}");
    }
    assert!(!lab.path("started").exists());

    // Three of four samples are in busy; other processes may take some.
    let first = |name: &str, list: &str| answer(name)[list][0].clone();
    let row = first("recorded", "rows");
    assert_eq!(row["name"], "busy");
    let part = row["cpu-clock"]["fraction"]
        .as_f64()
        .or(row["cycles"]["fraction"].as_f64());
    assert!(part.is_some_and(|part| (0.6..0.8).contains(&part)), "{row}");
    // The program, its start and the C library are six rows, of which 900 bytes hold three.
    assert!(answer("small")["left_out"].is_string(), "{found}");
    for name in ["searched", "run"] {
        let finding = found["answers"][name]["text"].as_str().expect("a text");
        assert!(
            finding.contains("busy") && finding.contains("interval_95"),
            "{finding}"
        );
    }
    let amount = &first("searched", "findings")["amount"];
    assert!(
        amount["interval_95"][0].as_f64() < amount["value"].as_f64(),
        "{amount}"
    );
    assert!(
        answer("why")["evidence"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    let instruction = first("annotated", "instructions");
    assert!(
        instruction["n"].as_f64() > Some(0.0) && instruction["text"].is_string(),
        "{instruction}"
    );
    assert_eq!(found["answers"]["compared"]["error"], false);
    // On a busy machine there may be too few experiments for a prediction, which is then reported.
    let predicted = answer("what if");
    assert!(predicted["experiments"].as_u64() > Some(0), "{predicted}");
    let answered = predicted["findings"][0]["amount"]["n"]["experiments"].is_u64();
    assert!(
        answered || predicted["no_answer"].is_string(),
        "{predicted}"
    );
}

#[test]
fn what_is_no_call_ends_nothing_and_what_does_not_exist_is_refused_at_the_start() {
    let mut mcp = Command::new(VITALFEW);
    mcp.args(["mcp", "--folder", "/"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = mcp.spawn().expect("vitalfew runs");
    let mut input = child.stdin.take().expect("a pipe");
    let begin = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let calls = [
        begin,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "no JSON",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nothing","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run","arguments":{"command":"rm -r /"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"run","arguments":{"command":[]}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run","arguments":{"command":["true"],"shell":true}}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tools/list"}"#,
    ];
    for call in calls {
        writeln!(input, "{call}").expect("it reads");
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(
        child.stdout.take().expect("a pipe"),
    ));
    let mut answers = std::collections::BTreeMap::new();
    while !answers.contains_key(&6) || answers.len() < 6 {
        let line = lines.next().expect("an answer to each call").expect("text");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        if let Some(id) = answer["id"].as_u64() {
            answers.insert(id, answer);
        }
    }
    drop(input);
    assert!(child.wait().expect("a child").success());
    for (id, failed) in [(2, "error"), (3, "error"), (5, "error")] {
        let answer = &answers[&id];
        assert!(
            !answer[failed].is_null() || answer["result"]["isError"] == true,
            "{answer}"
        );
    }
    assert_eq!(answers[&4]["result"]["isError"], true, "{}", answers[&4]);
    assert!(answers[&6]["result"]["tools"].is_array());

    for (arguments, said) in [
        (["--allow", "./nothing"], "there is no such program"),
        (["--folder", "/no/such/place"], "--folder"),
    ] {
        let output = Command::new(VITALFEW)
            .arg("mcp")
            .args(arguments)
            .output()
            .expect("vitalfew runs");
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said), "{error}");
    }
}
