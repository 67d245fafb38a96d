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
        debug_dirs: args.shown.debug_dir.clone(),
        state: Mutex::default(),
    });
    // An error is reported here, before the browser opens.
    served.data()?;
    let server = PageServer::bind(args.port)?;
    announce_address(&server, args.no_browser)?;
    warn_of_stub_page();
    server.run(Arc::new(move || {
        served.data().map_err(|error| error_chain(&error))
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// Files of the page, and the data made from them.
struct ServedFiles {
    files: Vec<PathBuf>,
    debug_dirs: Vec<PathBuf>,
    state: Mutex<ServedState>,
}

#[derive(Default)]
struct ServedState {
    made: Option<PageData>,
    /// The version of the files that could not be converted, and the error.
    failed: Option<(String, String)>,
    /// True while a thread makes newer data.
    is_making: bool,
}

impl ServedFiles {
    /// Returns the data of the files. If the files have changed, starts a thread that makes newer
    /// data, and returns the present data. So a page opens without delay, and an open page asks
    /// again.
    ///
    /// # Errors
    /// If the present version of the files cannot be converted.
    fn data(self: &Arc<Self>) -> anyhow::Result<PageData> {
        let watched = if self.files.is_empty() {
            latest_files()?
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

    /// Locks the state. A poisoned lock is harmless: no holder panics, and data that are made anew
    /// are right in any case.
    fn lock(&self) -> MutexGuard<'_, ServedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the address of the page, and opens a browser on a local desktop.
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

/// Depth to which directories are searched: a database has epochs, and epochs have hosts.
const DEPTH: usize = 3;

/// Returns a hash of the files' paths, sizes and modification times.
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
