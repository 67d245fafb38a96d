//! Debug files by build-id from servers (`DEBUGINFOD_URLS`), in the cache that other tools use.

use crate::open::open_elf;
use crate::tables::RawSymbols;
use profile::BuildId;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use whole_file::WholeFile;

/// Limit on a server's time to connect and to begin its answer, unless `DEBUGINFOD_TIMEOUT` sets
/// another.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Limit on a command's total time for servers, unless `DEBUGINFOD_MAXTIME` sets another.
const TOTAL_LIMIT: Duration = Duration::from_secs(60);

/// Limit on the size of a file, unless `DEBUGINFOD_MAXSIZE` sets another.
const SIZE_LIMIT: u64 = 2 << 30;

/// Time for which a server's answer that it lacks a file is valid. The same as in other clients of
/// the cache.
const ABSENCE_COUNTS: Duration = Duration::from_secs(600);

/// The kind of a requested file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebuginfodKind {
    /// Debug information, of an image or shared by several (`dwz`).
    DebugInfo,
    /// The image itself.
    Executable,
}

impl DebuginfodKind {
    fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// Asks debuginfod servers for debug files, within limits of time and size.
///
/// An unreachable server is not asked again. [`take_note`](Self::take_note) reports the missing
/// files once.
#[derive(Debug)]
pub struct DebuginfodClient {
    servers: Vec<String>,
    cache: PathBuf,
    answer_limit: Duration,
    total_limit: Duration,
    size_limit: u64,
    state: Mutex<ClientState>,
}

#[derive(Debug, Default)]
struct ClientState {
    /// Time spent on requests.
    spent: Duration,
    last_request: Option<Instant>,
    /// Reason for not asking a server any more, by server.
    failures: Vec<Option<String>>,
    /// The first unreported failure.
    failure: Option<String>,
    /// Number of files that were not requested, or not received.
    missed: usize,
}

/// Result of a request.
enum Answer {
    Found,
    Absent,
    Failed(String),
}

impl DebuginfodClient {
    /// Returns the client that the environment configures; `None` if `DEBUGINFOD_URLS` is unset or
    /// empty.
    pub fn of_environment() -> Option<Self> {
        Self::of_variables(|name| std::env::var_os(name))
    }

    /// Returns the client that variables configure; `get` returns a variable by name.
    pub fn of_variables(get: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let text = |name| get(name).and_then(|value| value.into_string().ok());
        let number = |name| text(name)?.trim().parse::<u64>().ok().filter(|n| *n > 0);
        let seconds = |name| number(name).map(Duration::from_secs);
        let urls = text("DEBUGINFOD_URLS")?;
        let is_url = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
        let servers = urls.split_whitespace().filter(is_url);
        let servers: Vec<String> = servers
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let cache = cache_directory(&get)?;
        (!servers.is_empty()).then(|| Self {
            state: Mutex::new(ClientState {
                failures: vec![None; servers.len()],
                ..ClientState::default()
            }),
            servers,
            cache,
            answer_limit: seconds("DEBUGINFOD_TIMEOUT").unwrap_or(ANSWER_LIMIT),
            total_limit: seconds("DEBUGINFOD_MAXTIME").unwrap_or(TOTAL_LIMIT),
            size_limit: number("DEBUGINFOD_MAXSIZE").unwrap_or(SIZE_LIMIT),
        })
    }

    /// Returns the failures since the last call, with their meaning for the result.
    pub fn take_note(&self) -> Option<String> {
        let mut state = self.lock_state();
        let missed = std::mem::take(&mut state.missed);
        let reason = state.failure.take()?;
        let files = if missed == 1 { "file" } else { "files" };
        Some(format!(
            "debuginfod: {reason}; without {missed} debug {files}, whose procedures or lines stay without names: \
             repeat the command, set DEBUGINFOD_TIMEOUT or DEBUGINFOD_MAXTIME (seconds) higher, or unset DEBUGINFOD_URLS"
        ))
    }

    /// Returns the path of the file with this build-id, from the cache or from a server.
    pub(crate) fn fetch_file(&self, id: &BuildId, kind: DebuginfodKind) -> Option<PathBuf> {
        let directory = self.cache.join(id.to_string());
        let path = directory.join(kind.name());
        if let Ok(metadata) = path.metadata() {
            if metadata.len() > 0 {
                return Some(path);
            }
            // An empty file records that the servers had none at that time.
            let age = |time| SystemTime::now().duration_since(time).unwrap_or_default();
            if metadata
                .modified()
                .is_ok_and(|time| age(time) < ABSENCE_COUNTS)
            {
                return None;
            }
        }
        let mut all_absent = true;
        for (index, server) in self.servers.iter().enumerate() {
            let Some(limit) = self.begin_request(index) else {
                all_absent = false;
                continue;
            };
            let begun = Instant::now();
            let url = format!("{server}/buildid/{id}/{}", kind.name());
            let answer = self.download(&url, &path, id, limit);
            match self.end_request(index, begun, answer) {
                Answer::Found => return Some(path),
                Answer::Absent => {}
                Answer::Failed(_) => all_absent = false,
            }
        }
        if all_absent {
            // A failure to write it is harmless: the servers are asked again.
            let _ = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, b""));
        } else {
            self.lock_state().missed += 1;
        }
        None
    }

    fn lock_state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time limit of a request; `None` if the server must not be asked.
    fn begin_request(&self, server: usize) -> Option<Duration> {
        let mut state = self.lock_state();
        // A page may be served for days: after a pause, the limit and the failures start anew.
        if state
            .last_request
            .is_none_or(|time| time.elapsed() > self.total_limit)
        {
            state.spent = Duration::ZERO;
            state.failures.fill(None);
        }
        if state.failures[server].is_some() {
            return None;
        }
        let left = self.total_limit.saturating_sub(state.spent);
        if left.is_zero() {
            let limit = self.total_limit.as_secs();
            let reason = || format!("{limit} s were not enough for all files");
            state.failure.get_or_insert_with(reason);
            return None;
        }
        state.last_request = Some(Instant::now());
        Some(left)
    }

    fn end_request(&self, server: usize, begun: Instant, answer: Answer) -> Answer {
        let mut state = self.lock_state();
        state.spent += begun.elapsed();
        state.last_request = Some(Instant::now());
        if let Answer::Failed(reason) = &answer {
            let reason = format!("{}: {reason}", self.servers[server]);
            state.failures[server] = Some(reason.clone());
            state.failure.get_or_insert(reason);
        }
        answer
    }

    /// Puts the file at its place in the cache if the server has it.
    fn download(&self, url: &str, path: &Path, id: &BuildId, limit: Duration) -> Answer {
        let configured = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("vitalfew/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(self.answer_limit))
            .timeout_recv_response(Some(self.answer_limit))
            .timeout_global(Some(limit));
        let agent = ureq::Agent::from(configured.build());
        let mut response = match agent.get(url).call() {
            Ok(response) => response,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        match response.status().as_u16() {
            200 => {}
            404 => return Answer::Absent,
            status => return Answer::Failed(format!("it answers with status {status}")),
        }
        // One byte more, to notice a larger file.
        let body = response.body_mut().with_config();
        let body = body.limit(self.size_limit.saturating_add(1)).reader();
        match self.keep_file(body, path, id) {
            Ok(()) => Answer::Found,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    fn keep_file(&self, mut body: impl Read, path: &Path, id: &BuildId) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut file = WholeFile::create_private(path)?;
        let size = io::copy(&mut (&mut body).take(self.size_limit), &mut file)?;
        if size == self.size_limit && body.read(&mut [0])? > 0 {
            let limit = self.size_limit;
            return Err(io::Error::other(format!(
                "a file has more than {limit} bytes (DEBUGINFOD_MAXSIZE)"
            )));
        }
        file.flush()?;
        let received = open_elf(file.unfinished_path(), &mut RawSymbols::default());
        if received.ok().and_then(|elf| elf.build_id).as_ref() != Some(id) {
            return Err(io::Error::other(format!(
                "it sent another file for build-id {id}"
            )));
        }
        file.commit_cached()
    }
}

/// Returns the directory in which debuginfod's clients keep files.
pub(crate) fn cache_directory(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let directory = |name| {
        get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    directory("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let caches = directory("XDG_CACHE_HOME");
        let caches = caches.or_else(|| directory("HOME").map(|home| home.join(".cache")));
        caches.map(|caches| caches.join("debuginfod_client"))
    })
}
