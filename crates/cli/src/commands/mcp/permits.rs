//! Permissions of an agent: programs that it may start, and files that it may read.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// The programs that may be run, and the directories whose files may be read.
#[derive(Debug)]
pub struct Permits {
    /// Canonical paths.
    programs: Vec<PathBuf>,
    /// Canonical.
    folder: PathBuf,
}

impl Permits {
    /// Finds the programs and the directory.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub fn new(programs: &[PathBuf], folder: &Path) -> anyhow::Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("--folder {}", folder.display()))?;
        let found = programs.iter().map(|program| {
            let canonical = canonical_program(program, &folder);
            canonical
                .with_context(|| format!("--allow {}: there is no such program", program.display()))
        });
        let programs = found.collect::<anyhow::Result<_>>()?;
        Ok(Self { programs, folder })
    }

    /// Returns the directory in which commands run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Refuses a command whose program is not permitted, under whatever name.
    ///
    /// # Errors
    /// With the option that would permit it.
    pub fn check_command(&self, command: &[String]) -> anyhow::Result<()> {
        let Some(program) = command.first() else {
            bail!("command is empty: give the program and its arguments");
        };
        let canonical = canonical_program(Path::new(program), &self.folder);
        let Some(canonical) = canonical else {
            bail!("there is no program {program:?}");
        };
        if !self.programs.contains(&canonical) {
            bail!(
                "{program:?} may not be run: whoever started this server has to add --allow {program}"
            );
        }
        Ok(())
    }

    /// Returns the path of a kept result in `keep`, by its name, or else of a file below the
    /// folder.
    ///
    /// # Errors
    /// If there is none, or it is elsewhere.
    pub fn result_file(&self, keep: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !name.starts_with('.');
        if is_name && keep.join(name).exists() {
            return Ok(keep.join(name));
        }
        let path = self.folder.join(name);
        let canonical = path
            .canonicalize()
            .with_context(|| format!("there is no result or file {name:?}"))?;
        if !canonical.starts_with(&self.folder) {
            bail!("{name:?} is outside of the folder that may be read");
        }
        Ok(canonical)
    }
}

/// Finds a program as a shell in `folder` would.
fn canonical_program(program: &Path, folder: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return folder.join(program).canonicalize().ok();
    }
    sampler::find_program(program.to_str()?)?
        .canonicalize()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_allowed_is_run_under_whatever_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("app");
        std::fs::write(&program, "").expect("written");
        std::os::unix::fs::symlink(&program, directory.path().join("other-name")).expect("linked");
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("shell")).expect("linked");
        let permits =
            Permits::new(&["./app".into(), "true".into()], directory.path()).expect("they exist");
        let check = |program: &str| permits.check_command(&[program.to_owned(), "x".to_owned()]);
        for allowed in ["./app", "./other-name", "true"] {
            assert!(check(allowed).is_ok(), "{allowed}");
        }
        for refused in ["app", "./shell", "sh", "/bin/sh", "", "../nothing"] {
            assert!(check(refused).is_err(), "{refused}");
        }
        assert!(permits.check_command(&[]).is_err());
        assert!(Permits::new(&["./nothing".into()], directory.path()).is_err());
    }

    #[test]
    fn files_elsewhere_are_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let (folder, keep) = (
            directory.path().join("folder"),
            directory.path().join("keep"),
        );
        for (parent, name) in [(&folder, "a.vf"), (&keep, "run-1"), (&keep, "deep")] {
            std::fs::create_dir_all(parent).expect("made");
            std::fs::write(parent.join(name), "").expect("written");
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).expect("linked");
        let permits = Permits::new(&[], &folder).expect("it exists");
        let file = |name: &str| permits.result_file(&keep, name);
        assert_eq!(file("run-1").expect("kept"), keep.join("run-1"));
        assert!(file("a.vf").is_ok());
        for refused in [
            "/etc/passwd",
            "link",
            "../keep/run-1",
            "../../etc/passwd",
            "nothing",
            "",
            "..",
        ] {
            // The folder itself may be a database.
            assert!(file(refused).is_err() || refused.is_empty(), "{refused}");
        }
    }
}
