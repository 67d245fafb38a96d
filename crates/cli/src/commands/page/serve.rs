//! `vitalfew serve`.

use super::args::Serve;
use super::gather::{gather_content, latest_files};
use super::stub::warn_of_stub_page;
use crate::exit::error_chain;
use crate::screen::tell_user;
use server::{PageData, PageServer};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

/// Runs the command.
pub fn run(args: &Serve) -> anyhow::Result<ExitCode> {
    let (files, database, debug_dirs) = (
        args.shown.files.clone(),
        args.db.clone(),
        args.shown.debug_dir.clone(),
    );
    let made = Mutex::new(None);
    let current = move || -> anyhow::Result<PageData> {
        let watched = match files.is_empty() {
            true => latest_files(database.as_deref())?,
            false => files.clone(),
        };
        let tag = version_of(&watched);
        // Nobody panics while holding it, and data that are made anew are right in any case.
        let mut made = made.lock().unwrap_or_else(|lock| lock.into_inner());
        if let Some(data) = made.as_ref().filter(|data: &&PageData| data.tag == tag) {
            return Ok(data.clone());
        }
        let content = gather_content(&watched, None, &debug_dirs, true)?;
        let compressed = server::compress_data(&content.to_json()?)?.into();
        Ok(made.insert(PageData { compressed, tag }).clone())
    };
    // What cannot be shown is said here, not first in the browser.
    current()?;
    let server = PageServer::bind(args.port)?;
    announce_address(&server, args.no_browser)?;
    warn_of_stub_page();
    server.run(Arc::new(move || {
        current().map_err(|error| error_chain(&error))
    }))?;
    Ok(ExitCode::SUCCESS)
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
