//! Commands that vitalfew starts inherit what they would inherit without it.

mod common;

use common::*;
use std::fs;
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
    "interference run -q --no-events -f work",
    "check -q --runs 2 -o b.json",
];

/// A parent as odd as supervisors, CI agents and `nohup` are.
const PARENT: &str = "umask 027; ulimit -Sn 200; exec 5</dev/null; \
    exec env --ignore-signal=HUP,PIPE,CHLD,USR2 --block-signal=WINCH nice -n 3 \"$@\"";

fn inherited(lab: &Lab, program: &Path, prefix: &[&str]) -> String {
    let file = lab.path("inherited.txt");
    let _ = fs::remove_file(&file);
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "sh", "-c", PARENT, "sh"])
        .args(prefix)
        .arg(program)
        .arg(&file)
        .current_dir(lab.path(""))
        .env("VITALFEW_DB", lab.path("db"))
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), None, "{prefix:?} hangs: {said}");
    let text = fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{prefix:?}: {error}: {said}"));
    // Pipes to us have another number in each run.
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
    let alone = inherited(&lab, &program, &[]);
    assert!(alone.contains("descriptor 5: /dev/null"), "{alone}");
    runtime(); // it is looked for beside the command
    for words in COMMANDS {
        let prefix: Vec<&str> = [VITALFEW]
            .into_iter()
            .chain(words.split(' '))
            .chain(["--"])
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
            "{words}: {new:#?} for {gone:#?}"
        );
    }
}
