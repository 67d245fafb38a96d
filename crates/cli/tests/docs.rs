//! README and docs speak of the commands that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and all pages of docs/, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = ["docs", "docs/decisions"].map(|folder| repository().join(folder));
    let docs = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("docs"));
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = docs.chain([repository().join("README.md")]);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    pages.map(read).collect()
}

/// The names of the subcommands, as the help lists them.
fn commands() -> BTreeSet<String> {
    let mut help = Command::new(env!("CARGO_BIN_EXE_vitalfew"));
    let output = help.arg("--help").output().expect("vitalfew runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn no_page_calls_a_shipped_command_missing() {
    let commands = commands();
    assert!(commands.contains("causal") && commands.contains("interference"));
    for (path, text) in pages() {
        for sentence in text.split(['.', '\n', ';']) {
            let missing = ["to come", "not yet built", "not built yet", "planned"];
            if !missing.iter().any(|words| sentence.contains(words)) {
                continue;
            }
            let lower = sentence.to_lowercase();
            let words = || lower.split(|c: char| !c.is_alphanumeric());
            let shipped = words().find(|word| commands.contains(*word));
            assert_eq!(shipped, None, "{}: {sentence:?}", path.display());
        }
    }
}

#[test]
fn every_command_that_is_shown_is_there() {
    let commands = commands();
    for (path, text) in pages() {
        let shown = text.match_indices("vitalfew ").filter_map(|(at, name)| {
            // Only what stands as a command: at the start of code, or after a prompt.
            let before = text[..at].chars().next_back()?;
            let after = text[at + name.len()..]
                .split(|c: char| !c.is_ascii_lowercase())
                .next()?;
            let is_code = before == '`' || text[..at].ends_with("$ ");
            (is_code && !after.is_empty()).then_some(after)
        });
        for command in shown {
            let known = commands.contains(command) || command == "help";
            assert!(known, "{}: vitalfew {command}", path.display());
        }
    }
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let page = |name: &str| {
        let path = repository().join(name);
        let text = std::fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    let pages = pages().into_iter().chain([page("ARCHITECTURE.md")]);
    let mut links = 0;
    for (path, text) in pages {
        let folder = path.parent().expect("a folder");
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = folder.join(target);
            assert!(file.exists(), "{}: {target}", path.display());
            links += 1;
        }
    }
    assert!(links > 100, "{links}");
}
