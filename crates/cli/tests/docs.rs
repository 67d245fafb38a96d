//! README and docs name only existing commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the README and all pages of docs/, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = ["docs", "docs/decisions", "docs/method"].map(|folder| repository().join(folder));
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

/// Returns the names of the subcommands: each has a man page.
fn commands() -> BTreeSet<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut generate = Command::new(env!("CARGO_BIN_EXE_vitalfew"));
    let generated = generate.args(["generate", "man"]).arg(directory.path());
    assert!(generated.status().expect("vitalfew runs").success());
    let pages = directory.path().read_dir().expect("man pages").flatten();
    let names = pages.filter_map(|page| {
        let name = page.file_name().into_string().ok()?;
        Some(
            name.strip_prefix("vitalfew-")?
                .strip_suffix(".1")?
                .to_owned(),
        )
    });
    names.filter(|name| !name.contains('-')).collect()
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

/// A page once had both sides of a merge in it.
#[test]
fn no_page_has_a_conflict_in_it() {
    for (path, text) in pages() {
        let marker = text.lines().find(|line| line.starts_with("<<<<<<< "));
        assert_eq!(marker, None, "{}", path.display());
    }
}

#[test]
fn every_command_that_is_shown_is_there() {
    let commands = commands();
    for (path, text) in pages() {
        let shown = text.match_indices("vitalfew ").filter_map(|(at, name)| {
            // Only commands: at the start of code, or after a prompt.
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

#[test]
fn every_command_has_a_place_in_the_pages() {
    let texts: Vec<String> = pages().into_iter().map(|(_, text)| text).collect();
    for command in commands().iter().filter(|command| *command != "help") {
        let shown = format!("vitalfew {command}");
        let is_shown = texts.iter().any(|text| text.contains(&shown));
        assert!(is_shown, "no page shows {shown}");
    }
}

/// Kinds by their names in JSON, from docs/finding.schema.json, which is made from the types.
#[test]
fn every_kind_in_a_finding_is_explained() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect(path);
    let schema: serde_json::Value =
        serde_json::from_str(&read("docs/finding.schema.json")).expect("JSON");
    for (definition, page) in [
        ("CauseKind", "docs/interference.md"),
        ("Claim", "docs/json.md"),
    ] {
        let text = read(page);
        let kinds = schema["$defs"][definition]["oneOf"].as_array();
        let kinds = kinds.expect(definition);
        assert!(kinds.len() > 5, "{definition}");
        for kind in kinds {
            let name = kind["const"].as_str().expect("a name");
            let is_explained = text.contains(&format!("`{name}`"));
            assert!(is_explained, "{page} says nothing of {definition} {name}");
        }
    }
}

/// Returns the external crates that a manifest names outside of its tests.
fn dependencies_of(manifest: &str, own: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut counts = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = matches!(line, "[dependencies]" | "[build-dependencies]");
        } else if let Some((name, _)) = line.split_once('=')
            && counts
            && !line.starts_with('#')
        {
            let name = name.trim().trim_end_matches(".workspace").to_owned();
            if !own.contains(&name) {
                found.insert(name);
            }
        }
    }
    found
}

/// Returns the rows of ARCHITECTURE.md's table of dependencies: an external crate, and its users.
fn dependency_rows() -> Vec<(String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("a page");
    let (_, table) = text.split_once("## Dependencies").expect("a table");
    // Text in parentheses only explains.
    let names = |cell: &str| -> BTreeSet<String> {
        let mut plain = String::new();
        let mut depth = 0_usize;
        for c in cell.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                c if depth == 0 => plain.push(c),
                _ => {}
            }
        }
        plain
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect()
    };
    let mut rows = Vec::new();
    for line in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [crates, users, _] = cells.as_slice() else {
            panic!("{line}");
        };
        let users = names(users);
        if !users.contains("used by") && !users.contains("web") {
            let crates = names(crates.trim_start_matches("| "));
            rows.extend(crates.into_iter().map(|name| (name, users.clone())));
        }
    }
    rows
}

#[test]
fn the_table_of_dependencies_is_that_of_the_manifests() {
    let folders: BTreeSet<String> = std::fs::read_dir(repository().join("crates"))
        .expect("the crates")
        .map(|entry| {
            entry
                .expect("a crate")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    let mut used = BTreeSet::new();
    for folder in &folders {
        let manifest = repository().join("crates").join(folder).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        let dependencies = dependencies_of(&manifest, &folders);
        used.extend(dependencies.into_iter().map(|name| (name, folder.clone())));
    }
    assert!(used.len() > 60, "{used:?}");
    let rows = dependency_rows();
    for (name, user) in &used {
        let is_said = |(row, users): &(String, BTreeSet<String>)| {
            row == name && (users.contains(user) || users.contains("all"))
        };
        assert!(
            rows.iter().any(is_said),
            "ARCHITECTURE.md: {user} uses {name}"
        );
    }
    for (name, users) in &rows {
        for user in users.iter().filter(|user| folders.contains(*user)) {
            let pair = (name.clone(), user.clone());
            assert!(
                used.contains(&pair),
                "ARCHITECTURE.md: {user} does not use {name}"
            );
        }
    }
}
