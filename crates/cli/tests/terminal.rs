//! Output on a terminal: fitting lines, colour if wanted, a pager, and no control sequences from
//! foreign names. Also other tools' profiles in the commands for recordings.

mod common;

use common::VITALFEW;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Makes a speedscope profile with long and hostile names.
fn profile(directory: &Path) -> PathBuf {
    let file = directory.join("app.json");
    let long = "std::vector<std::pair<std::string,long>>::".repeat(6) + "insert";
    let hostile = "evil\u{1b}[31m\u{202e}txt\u{7}";
    let names = ["main", &long, hostile, "small"];
    let frames: Vec<_> = names.map(|name| serde_json::json!({ "name": name })).into();
    let profile = serde_json::json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 100,
            "samples": [[0, 1], [0, 2], [0, 3]], "weights": [70, 29, 1],
        }],
    });
    std::fs::write(&file, profile.to_string()).expect("written");
    file
}

/// Returns the output of a command on a terminal of `columns` columns.
fn on_terminal(columns: u32, environment: &str, command: &str) -> String {
    let line = format!("stty cols {columns} rows 24; {environment} {VITALFEW} {command}");
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("PAGER")
        .env_remove("VITALFEW_PAGER")
        .output()
        .expect("script of util-linux");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

/// Returns a line without vitalfew's colours.
fn plain(line: &str) -> String {
    let mut plain = line.to_owned();
    for escape in [
        "\u{1b}[0m",
        "\u{1b}[1m",
        "\u{1b}[2m",
        "\u{1b}[31m",
        "\u{1b}[33m",
    ] {
        plain = plain.replace(escape, "");
    }
    plain
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = profile(directory.path());
    let file = file.display();
    for command in [
        format!("report {file} --no-pager"),
        format!("report {file} --tree --no-pager"),
        format!("diff {file} {file} --no-pager"),
        format!("bottlenecks {file} --auto --no-pager"),
        "report ../../tests/recordings/blocked.vf --no-pager".to_owned(),
        "interference report tests/interference/lock.trace --no-pager".to_owned(),
        "report ../../tests/recordings/generated.vf --by instruction --no-pager".to_owned(),
    ] {
        for columns in [80, 120] {
            let shown = on_terminal(columns, "", &command);
            assert!(shown.contains('%'), "{command}: {shown}");
            // A message, or a command to type, is one line.
            let whole = |line: &&str| line.starts_with("vitalfew: ") || line.starts_with("next: ");
            for line in shown.lines().filter(|line| !whole(line)) {
                let width = plain(line).chars().count();
                assert!(
                    width <= columns as usize,
                    "{command}: {width} columns: {line}"
                );
            }
        }
    }
    let wide = on_terminal(80, "", &format!("report {file} --wide --no-pager"));
    assert!(
        wide.lines().any(|line| line.chars().count() > 250),
        "{wide}"
    );
}

#[test]
fn colour_is_for_terminals_and_for_whom_it_pleases() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = profile(directory.path());
    let report = format!("report {} --no-pager", file.display());
    let hot = "\u{1b}[31m";
    assert!(on_terminal(80, "", &report).contains(hot));
    for (environment, option) in [("NO_COLOR=1", ""), ("TERM=dumb", ""), ("", "--color never")] {
        let shown = on_terminal(80, environment, &format!("{report} {option}"));
        assert!(
            shown.contains("self%") && !shown.contains('\u{1b}'),
            "{shown:?}"
        );
    }
    let piped = |color: &str| {
        let output = Command::new(VITALFEW)
            .args(["report", "--color", color])
            .arg(&file)
            .output()
            .expect("vitalfew runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!piped("auto").contains('\u{1b}'));
    assert!(piped("always").contains(hot));
}

#[test]
fn a_pager_is_for_terminals_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = format!("report {}", profile(directory.path()).display());
    let pager = "VITALFEW_PAGER='sed s/^/paged:/'";
    let paged = on_terminal(80, pager, &report);
    assert!(
        paged.lines().any(|line| line.starts_with("paged:")),
        "{paged}"
    );
    assert!(!on_terminal(80, pager, &format!("{report} --no-pager")).contains("paged:"));
    assert!(!on_terminal(80, pager, &format!("{report} --json")).contains("paged:"));
    let gone = on_terminal(80, "PAGER=cat", &report);
    assert!(gone.contains("self%"), "{gone}");
    let output = Command::new("sh")
        .args(["-c", &format!("{pager} {VITALFEW} {report}")])
        .output()
        .expect("a shell");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("paged:"));
}

#[test]
fn foreign_names_do_not_steer_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = profile(directory.path());
    let file = file.display();
    for command in [
        format!("report {file}"),
        format!("report {file} --tree"),
        format!("report {file} --json"),
        format!("diff {file} {file}"),
        format!("stats {file} {file} --json"),
        format!("diff {file} {file} --folded"),
        format!("export {file} --format folded"),
        format!("export {file} --format speedscope"),
        format!("report {file} --event 'x\u{202e}y'"),
    ] {
        let shown = on_terminal(100, "NO_COLOR=1", &format!("{command} --no-pager"));
        let named = shown.contains("evil") || command.contains("--event");
        assert!(named, "{command}: {shown}");
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(steers), "{command}: {shown:?}");
    }
}

#[test]
fn profiles_of_other_tools_are_reported_and_exported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("two.folded");
    std::fs::write(&file, "main;a;b 30\nmain;a 20\nmain;c;a 50\n").expect("written");
    let report = common::report(&file, &[]);
    assert_eq!(report["collector"], "import");
    assert_eq!(common::total(&report), 100.0);
    assert_eq!(report["rows"][0]["name"], "a");
    assert_eq!(report["rows"][0]["amounts"][0], 70.0);
    assert_eq!(report["rows"][0]["inclusive"], 100.0);
    for (arguments, advice) in [
        (["annotate", "--summary"], "vitalfew bottlenecks"),
        (["query", "SELECT 1"], "vitalfew report"),
    ] {
        let option = (arguments[0] == "query").then_some("--db");
        let output = Command::new(VITALFEW)
            .args(arguments)
            .args(option)
            .arg(&file)
            .output();
        let output = output.expect("vitalfew runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("two.folded") && said.contains(advice),
            "{said}"
        );
    }
    let export = |format: &str, from: &Path| {
        let to = directory.path().join(format!("out.{format}"));
        let status = Command::new(VITALFEW)
            .args(["export", "--format", format, "-o"])
            .args([&to, from])
            .status();
        assert!(status.expect("vitalfew runs").success(), "{format}");
        to
    };
    for format in ["pprof", "speedscope"] {
        let again = common::report(&export(format, &file), &[]);
        assert_eq!(common::total(&again), 100.0, "{format}");
        assert_eq!(common::amount(&again, "a"), 70.0, "{format}");
    }
}

#[test]
fn a_page_is_opened_in_a_browser_and_over_ssh_the_tunnel_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = profile(directory.path());
    let opened = directory.path().join("opened");
    let browser = directory.path().join("xdg-open");
    let script = format!(
        "#!/bin/sh\necho \"$1\" > {}.part && mv {0}.part {0}\n",
        opened.display()
    );
    std::fs::write(&browser, script).expect("written");
    let runnable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&browser, runnable).expect("runnable");
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let serve = |environment: &[(&str, &str)]| -> (String, String) {
        let mut child = Command::new(VITALFEW)
            .args(["serve", "--port", "43210"])
            .arg(&file)
            .env("PATH", &path)
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("SSH_CONNECTION")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("vitalfew");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = lines.next().expect("an address").expect("text");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = said.next().expect("a sentence").expect("text");
        if environment.iter().any(|(name, _)| *name == "DISPLAY") {
            while !opened.exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        child.kill().expect("ended");
        child.wait().expect("ended");
        (url, first)
    };
    let (url, _) = serve(&[("DISPLAY", ":9")]);
    let asked = std::fs::read_to_string(&opened).expect("the address");
    assert_eq!(asked.trim(), url);
    let (url, said) = serve(&[
        ("DISPLAY", ":9"),
        ("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"),
    ]);
    let port = url.split([':', '/']).nth(4).expect("a port");
    assert!(
        said.contains(&format!("ssh -N -L {port}:127.0.0.1:{port}")),
        "{said}"
    );
    std::fs::remove_file(&opened).expect("removed");
    serve(&[]);
    assert!(!opened.exists());
}
