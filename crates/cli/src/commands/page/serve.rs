//! `vitalfew serve`.

use super::args::Serve;
use super::stub::warn_of_stub_page;
use crate::screen::tell_user;
use crate::source::accept_recording;
use orchestration::{gather_content, latest_files};
use results::error_chain;
use server::{PageData, PageServer};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs the command.
pub fn run(args: &Serve) -> anyhow::Result<ExitCode> {
    let served = Arc::new(ServedFiles {
        files: args.shown.files.clone(),
        database: args.db.clone(),
        debug_dirs: args.shown.debug_dir.clone(),
        state: Mutex::default(),
    });
    // What cannot be shown is said here, not first in the browser.
    served.data()?;
    let server = PageServer::bind(args.port)?;
    announce_address(&server, args.no_browser)?;
    warn_of_stub_page();
    server.run(Arc::new(move || {
        served.data().map_err(|error| error_chain(&error))
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// Files that are shown, and the data that were made of them.
struct ServedFiles {
    files: Vec<PathBuf>,
    database: Option<PathBuf>,
    debug_dirs: Vec<PathBuf>,
    state: Mutex<ServedState>,
}

#[derive(Default)]
struct ServedState {
    made: Option<PageData>,
    /// The version of the files of which no data could be made, and why.
    failed: Option<(String, String)>,
    /// A thread makes newer data.
    is_making: bool,
}

impl ServedFiles {
    /// Returns the data of the files. Of files that have changed it makes newer data beside, and returns what it has: a page that is
    /// opened does not wait, and one that is open asks again.
    ///
    /// # Errors
    /// If no data can be made of the files as they are.
    fn data(self: &Arc<Self>) -> anyhow::Result<PageData> {
        let watched = if self.files.is_empty() {
            latest_files(self.database.as_deref())?
        } else {
            self.files.clone()
        };
        let tag = version_of(&watched);
        let mut state = self.lock();
        if let Some((_, why)) = state.failed.as_ref().filter(|(failed, _)| *failed == tag) {
            anyhow::bail!("{why}");
        }
        let Some(made) = state.made.clone() else {
            let data = self.make(&watched, tag)?;
            return Ok(state.made.insert(data).clone());
        };
        if made.tag != tag && !state.is_making {
            state.is_making = true;
            let served = Arc::clone(self);
            std::thread::spawn(move || {
                let data = served.make(&watched, tag.clone());
                let mut state = served.lock();
                state.is_making = false;
                match data {
                    Ok(data) => state.made = Some(data),
                    Err(error) => state.failed = Some((tag, error_chain(&error))),
                }
            });
        }
        Ok(made)
    }

    fn make(&self, watched: &[PathBuf], tag: String) -> anyhow::Result<PageData> {
        let content = gather_content(watched, &self.debug_dirs, true, accept_recording)?;
        let compressed = server::compress_data(&content.to_json()?)?.into();
        Ok(PageData { compressed, tag })
    }

    /// Nobody panics while holding it, and data that are made anew are right in any case.
    fn lock(&self) -> MutexGuard<'_, ServedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says where the page is, and opens a browser where there is one.
fn announce_address(server: &PageServer, no_browser: bool) -> anyhow::Result<()> {
    let url = server.url();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()?;
    let port = server.port();
    if std::env::var_os("SSH_CONNECTION").is_some() {
        tell_user(&format!(
            "from the machine that you sit at, first: ssh -N -L {port}:127.0.0.1:{port} THIS-MACHINE"
        ));
    } else if !no_browser
        && ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some())
    {
        let opened = Command::new("xdg-open")
            .arg(&url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if opened.is_err() {
            tell_user("open this address in a browser");
        }
    }
    tell_user("Ctrl-C ends");
    Ok(())
}

/// Directories in directories that are looked into: of a database, epochs and their hosts.
const DEPTH: usize = 3;

/// Returns what changes when the files do.
fn version_of(files: &[PathBuf]) -> String {
    let mut hasher = DefaultHasher::new();
    for file in files {
        add_version(file, DEPTH, &mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

fn add_version(path: &Path, depth: usize, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    let Ok(meta) = std::fs::metadata(path) else {
        return;
    };
    meta.len().hash(hasher);
    meta.modified().ok().hash(hasher);
    if meta.is_dir() && depth > 0 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        inside.sort_unstable();
        for path in inside {
            add_version(&path, depth - 1, hasher);
        }
    }
}
