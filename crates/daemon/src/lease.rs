//! The lease that makes a daemon the only one of its database: a claim on its collectors, a lock in
//! its directory, its socket.

use crate::control::{Asked, SocketId, listen_at, private_directory};
use anyhow::Context;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use store::Database;

/// A daemon's directory in its database, with its lock and its socket.
pub(crate) struct DatabaseLease {
    directory: PathBuf,
    lock: File,
    /// Path of the socket, and whether the user chose it.
    socket: (PathBuf, bool),
    made: Option<SocketId>,
}

impl DatabaseLease {
    /// Takes the lease; `socket` is the path of the socket, if it is not in the database.
    pub(crate) fn take_lease(
        database: &Database,
        host: &str,
        socket: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let directory = database.daemon_directory(host);
        private_directory(&directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        let asked = socket.is_some();
        let socket = socket.map_or_else(|| directory.join("socket"), Path::to_owned);
        let path = directory.join("lock");
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let lock = opened.with_context(|| format!("opening {}", path.display()))?;
        if !is_locked_by_us(&lock, &path)? {
            return Err(occupied_error(database.path(), host));
        }
        Ok(Self {
            made: SocketId::read_kept(&directory.join(MADE)),
            directory,
            lock,
            socket: (socket, asked),
        })
    }

    /// Listens at its socket.
    pub(crate) fn listen_at_socket(&mut self) -> anyhow::Result<Receiver<Asked>> {
        let (path, asked) = &self.socket;
        // A socket in the daemon's own directory is its own.
        let is_ours = |there| !asked || self.made == Some(there);
        let failed = || {
            format!(
                "the socket {} (--socket PATH names another)",
                path.display()
            )
        };
        let (requests, made) = listen_at(path, is_ours).with_context(failed)?;
        made.keep_in_file(&self.directory.join(MADE))
            .with_context(failed)?;
        self.made = Some(made);
        Ok(requests)
    }

    /// Takes the lease again, and listens, if another process removed it.
    pub(crate) fn take_again(
        &mut self,
        database: &Database,
        host: &str,
    ) -> anyhow::Result<Option<Receiver<Asked>>> {
        if !self.is_gone() {
            return Ok(None);
        }
        let (socket, asked) = &self.socket;
        let mut next = Self::take_lease(database, host, asked.then_some(socket.as_path()))?;
        next.made = self.made;
        let requests = next.listen_at_socket()?;
        *self = next;
        Ok(Some(requests))
    }

    /// Returns whether another process removed it.
    fn is_gone(&self) -> bool {
        let there = fs::metadata(self.directory.join("lock"));
        let ours = self.lock.metadata();
        match (there, ours) {
            (Ok(there), Ok(ours)) => there.ino() != ours.ino(),
            (Err(error), _) => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Removes the socket.
    pub(crate) fn remove_socket(&self) {
        if let Some(made) = self.made {
            made.remove_socket(&self.socket.0);
            let _ = fs::remove_file(self.directory.join(MADE));
        }
    }
}

/// File in the directory with the identity of the socket made last.
const MADE: &str = "socket-made";

fn is_locked_by_us(lock: &File, path: &Path) -> anyhow::Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            Err(anyhow::Error::from(error).context(format!("locking {}", path.display())))
        }
    }
}

/// Pause of a claim that waits for processes which only test whether it is taken.
const WATCH_PAUSE: Duration = Duration::from_millis(1);

/// Returns whether the holders of the lock share it: they only test whether the claim is taken
/// ([`CollectorClaim::is_taken`]), and release it at once. A daemon's lock is exclusive.
fn is_only_watched(lock: &File) -> bool {
    let shared = lock.try_lock_shared().is_ok();
    let _ = lock.unlock();
    shared
}

fn occupied_error(database: &Path, host: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "another daemon of {host} writes to {}; ask it: vitalfew daemon status --db {0}",
        database.display()
    )
}

/// The right to the collectors of a database: a lock on the directory in which they are pinned.
/// Unlike the lock in the database, it outlasts the removal of the database.
pub(crate) struct CollectorClaim {
    _lock: File,
}

impl CollectorClaim {
    /// Takes the claim for as long as the value lives.
    pub(crate) fn take_claim(pins: &Path, database: &Path, host: &str) -> anyhow::Result<Self> {
        let failed = || format!("locking {}", pins.display());
        loop {
            fs::create_dir_all(pins).with_context(failed)?;
            let lock = File::open(pins).with_context(failed)?;
            if !is_locked_by_us(&lock, pins)? {
                if !is_only_watched(&lock) {
                    return Err(occupied_error(database, host));
                }
                std::thread::sleep(WATCH_PAUSE);
                continue;
            }
            // Its former owner may have removed it between opening and locking.
            let there = fs::metadata(pins).map(|meta| meta.ino()).ok();
            if there == lock.metadata().map(|meta| meta.ino()).ok() {
                return Ok(Self { _lock: lock });
            }
        }
    }

    /// Returns whether another process has the claim.
    pub(crate) fn is_taken(pins: &Path) -> bool {
        let lock = File::open(pins);
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn who_asks_whether_a_claim_is_taken_does_not_take_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let pins = directory.path().join("pins");
        let claim = || CollectorClaim::take_claim(&pins, Path::new("/db"), "host");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    CollectorClaim::is_taken(&pins);
                }
            });
            let refused = (0..2000).find_map(|_| claim().err());
            done.store(true, Relaxed);
            assert!(refused.is_none(), "{refused:?}");
        });
        let _held = claim().expect("free");
        assert!(CollectorClaim::is_taken(&pins));
        let second = claim().err().expect("refused").to_string();
        assert!(second.contains("another daemon"), "{second}");
    }
}
