//! Remembers the files whose unwind tables were used when a target was recorded, and installs these
//! before it is recorded again. The files of other targets are not installed: on a busy machine
//! those are a hundred megabytes.

use crate::TargetSpec;
use crate::processes::command_files::{command_text, find_program};
use crate::processes::threads::process_file;
use std::path::PathBuf;

/// Maximum number of remembered targets, and of files of each.
const MOST_TARGETS: usize = 64;
const MOST_FILES: usize = 64;
/// Maximum length of a target's name, in characters.
const LONGEST_NAME: usize = 256;
/// Mark in front of a target's name in the file; its files follow, one a line.
const TARGET_MARK: char = '=';
/// Programs that run other programs, depending on their arguments.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "fish"];

/// Returns the name under which a target is remembered: its program, or for a shell the whole
/// command.
pub(crate) fn target_name(target: &TargetSpec) -> String {
    let name = match target {
        TargetSpec::Machine => "machine".to_owned(),
        TargetSpec::Process(pid) => {
            let program = std::fs::read_link(process_file(*pid, "exe"));
            program.unwrap_or_default().to_string_lossy().into_owned()
        }
        TargetSpec::Command(command) => {
            let program = command.first().and_then(find_program);
            let program = program.and_then(|path| path.canonicalize().ok());
            let program = program.unwrap_or_default();
            let is_shell = SHELLS.iter().any(|shell| program.ends_with(shell));
            if is_shell {
                command_text(command).join(" ")
            } else {
                program.to_string_lossy().into_owned()
            }
        }
    };
    let line = name.replace(char::is_control, " ");
    line.chars().take(LONGEST_NAME).collect()
}

/// Files of one target, the last used first.
#[derive(Debug, PartialEq, Eq)]
struct TargetFiles {
    target: String,
    files: Vec<PathBuf>,
}

/// Files of all targets, the last recorded first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentFiles(Vec<TargetFiles>);

impl RecentFiles {
    /// Parses the text of [`Self::to_text`]; skips other lines.
    pub fn parse(text: &str) -> Self {
        let mut targets: Vec<TargetFiles> = Vec::new();
        for line in text.lines() {
            if let Some(target) = line.strip_prefix(TARGET_MARK) {
                targets.push(TargetFiles {
                    target: target.to_owned(),
                    files: Vec::new(),
                });
            } else if line.starts_with('/')
                && let Some(last) = targets.last_mut()
                && last.files.len() < MOST_FILES
            {
                last.files.push(PathBuf::from(line));
            }
        }
        targets.truncate(MOST_TARGETS);
        Self(targets)
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for TargetFiles { target, files } in &self.0 {
            text += &format!("{TARGET_MARK}{target}\n");
            let names = files.iter().filter_map(|path| path.to_str());
            let lines = names.filter(|name| !name.contains('\n'));
            lines.for_each(|name| text += &format!("{name}\n"));
        }
        text
    }

    pub fn of_target(&self, target: &str) -> &[PathBuf] {
        let known = self.0.iter().find(|known| known.target == target);
        known.map_or(&[], |known| &known.files)
    }

    /// Puts files in front of those that the target used before, and the target in front of others.
    pub fn add_used(&mut self, target: &str, mut used: Vec<PathBuf>) {
        let before = self.0.iter().position(|known| known.target == target);
        let before = before.map_or_else(Vec::new, |index| self.0.remove(index).files);
        let fresh = before.into_iter().filter(|path| !used.contains(path));
        let fresh: Vec<PathBuf> = fresh.collect();
        used.extend(fresh);
        used.truncate(MOST_FILES);
        if used.is_empty() {
            return;
        }
        let target = target.to_owned();
        self.0.insert(
            0,
            TargetFiles {
                target,
                files: used,
            },
        );
        self.0.truncate(MOST_TARGETS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_was_used_last_stands_first() {
        let mut recent = RecentFiles::default();
        recent.add_used("make", paths(&["/a", "/b"]));
        recent.add_used("cc", paths(&["/d"]));
        recent.add_used("make", paths(&["/c", "/b"]));
        assert_eq!(recent.of_target("make"), paths(&["/c", "/b", "/a"]));
        assert_eq!(recent.of_target("cc"), paths(&["/d"]));
        assert_eq!(recent.of_target("ld"), paths(&[]));
        assert_eq!(RecentFiles::parse(&recent.to_text()), recent);
        recent.add_used("ld", Vec::new());
        assert_eq!(RecentFiles::parse(&recent.to_text()), recent);
    }

    #[test]
    fn files_and_targets_are_bounded() {
        let mut recent = RecentFiles::default();
        recent.add_used(
            "make",
            (0..100).map(|n| PathBuf::from(format!("/{n}"))).collect(),
        );
        assert_eq!(recent.of_target("make").len(), MOST_FILES);
        for number in 0..MOST_TARGETS {
            recent.add_used(&number.to_string(), paths(&["/a"]));
        }
        assert_eq!(recent.of_target("make"), paths(&[]));
        assert_eq!(recent.of_target("0"), paths(&["/a"]));
        let text = "=a\n".repeat(100) + &"/b\n".repeat(100);
        let read = RecentFiles::parse(&text);
        assert_eq!(read.0.len(), MOST_TARGETS);
    }

    /// The file of older versions names no targets.
    #[test]
    fn what_belongs_to_no_target_is_passed_over() {
        let read = RecentFiles::parse("/a\n/b\n=make\n/c\nnothing\n\n");
        assert_eq!(read.of_target("make"), paths(&["/c"]));
        assert_eq!(read.0.len(), 1);
    }

    #[test]
    fn targets_are_remembered_by_their_program() {
        let command = |words: &[&str]| {
            let words = words.iter().map(OsString::from);
            target_name(&TargetSpec::Command(words.collect()))
        };
        let true_program = find_program("true").unwrap().canonicalize().unwrap();
        assert_eq!(command(&["true", "1"]), true_program.to_str().unwrap());
        assert_eq!(command(&["sh", "-c", "a\nb"]), "sh -c a b");
        assert_eq!(
            command(&["sh", "-c", &"x".repeat(9999)]).len(),
            LONGEST_NAME
        );
        let own = std::env::current_exe().unwrap();
        let process = target_name(&TargetSpec::Process(std::process::id()));
        assert_eq!(process, own.to_str().unwrap());
    }
}
