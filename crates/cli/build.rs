//! Puts the commit into what `--version` says.

use std::env;
use std::path::Path;
use std::process::Command;

/// Holds the commit in archives that git made, which have no history to ask.
const ARCHIVED: &str = include_str!("../../packaging/commit");

fn main() {
    let commit = match (ARCHIVED.trim(), env::var("PROFILE").as_deref()) {
        (archived, _) if !archived.starts_with('$') => archived.to_owned(),
        // After each commit its tests would be built anew.
        (_, Ok("debug")) => "debug build".to_owned(),
        _ => find_commit().unwrap_or_else(|| "unknown commit".to_owned()),
    };
    println!("cargo::rustc-env=VITALFEW_COMMIT={commit}");
    let target = env::var("TARGET").expect("cargo says what it builds for");
    println!("cargo::rustc-env=VITALFEW_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../packaging/commit");
}

/// Returns the short hash of the checked-out commit, with `+` if files were changed since. `None`
/// without git or its history.
fn find_commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(format!(
        "{commit}{}",
        if changed.is_empty() { "" } else { "+" }
    ))
}
