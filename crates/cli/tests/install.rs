//! `make install` and `make uninstall`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VITALFEW: &str = env!("CARGO_BIN_EXE_vitalfew");

fn make(target: &str, vitalfew: &Path, root: &Path) -> Output {
    Command::new("make")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["-s", target])
        .arg(format!("VITALFEW={}", vitalfew.display()))
        .arg(format!("DESTDIR={}", root.display()))
        .output()
        .expect("make runs")
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().expect("a directory").flatten();
    let files = entries.map(|entry| entry.path());
    files
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn uninstall_removes_what_install_put_there() {
    let lab = tempfile::tempdir().expect("a directory");
    let (built, root) = (lab.path().join("built"), lab.path().join("root"));
    std::fs::create_dir_all(&built).expect("made");
    std::fs::create_dir_all(&root).expect("made");
    let missing = make("install", &built.join("vitalfew"), &root);
    assert!(!missing.status.success());
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("run make, then make install"), "{said}");
    std::os::unix::fs::symlink(VITALFEW, built.join("vitalfew")).expect("linked");
    std::fs::write(built.join("libvitalfew_runtime.so"), "").expect("written");
    let installed = make("install", &built.join("vitalfew"), &root);
    assert!(installed.status.success(), "{installed:?}");
    let files = files_below(&root);
    for name in [
        "vitalfew-record.1",
        "_vitalfew",
        "vitalfew.fish",
        "bash-completion/completions/vitalfew",
    ] {
        assert!(
            files.iter().any(|file| file.ends_with(name)),
            "{name}: {files:?}"
        );
    }
    let removed = make("uninstall", &built.join("vitalfew"), &root);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(files_below(&root), [""; 0].map(PathBuf::from));
}
