//! The socket: one line in, one line of JSON out, then the connection ends.

use crate::status::Status;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use store::Database;

/// Maximum length of a line; requests are words.
const LONGEST: u64 = 64;

/// Time limit for a client's request, so that others do not wait longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time limit for the daemon's answer; merging takes seconds.
const ANSWER: Duration = Duration::from_secs(120);

/// A request to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The daemon's status.
    Status,
    /// Store and merge.
    Flush,
    /// Flush, and begin a new epoch.
    Epoch,
    /// Store all samples, and end.
    Stop,
}

impl Request {
    fn request_word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Flush => "flush",
            Self::Epoch => "epoch",
            Self::Stop => "stop",
        }
    }

    /// Returns whether the answer waits until samples are stored.
    pub(crate) fn stores_samples(self) -> bool {
        matches!(self, Self::Flush | Self::Epoch)
    }

    fn parse_request(line: &[u8]) -> Option<Self> {
        let all = [Self::Status, Self::Flush, Self::Epoch, Self::Stop];
        all.into_iter()
            .find(|r| r.request_word().as_bytes() == line.trim_ascii_end())
    }
}

/// An answer: a value, or the reason that there is none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The daemon's status, after the request was carried out.
    #[serde(rename = "status")]
    Status(Box<Status>),
    /// The error.
    #[serde(rename = "error")]
    Error(String),
}

/// A request, and the sender for its answer.
pub(crate) type Asked = (Request, Sender<Answer>);

/// Creates a directory that only its owner can enter.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// The identity of the socket at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketId {
    device: u64,
    inode: u64,
}

impl SocketId {
    /// Returns the socket at a path; `None` if nothing is there.
    ///
    /// # Errors
    /// If another kind of file is there.
    fn socket_at(path: &Path) -> io::Result<Option<Self>> {
        let meta = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            meta => meta?,
        };
        if meta.file_type().is_socket() {
            Ok(Some(Self {
                device: meta.dev(),
                inode: meta.ino(),
            }))
        } else {
            Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "what lies there is not a socket, and is left alone",
            ))
        }
    }

    /// Reads the identity that was [stored](Self::keep_in_file) in a file.
    pub(crate) fn read_kept(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (device, inode) = text.trim_end().split_once(' ')?;
        Some(Self {
            device: device.parse().ok()?,
            inode: inode.parse().ok()?,
        })
    }

    /// Stores it in a file, so that the next daemon recognises the socket if this one is killed.
    pub(crate) fn keep_in_file(self, file: &Path) -> io::Result<()> {
        let text = format!("{} {}\n", self.device, self.inode);
        whole_file::write_whole_file(file, text.as_bytes())
    }

    /// Removes the socket, unless another one is at the path by now.
    pub(crate) fn remove_socket(self, path: &Path) {
        if let Ok(Some(there)) = Self::socket_at(path)
            && there == self
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Listens at a path, in a thread. No other daemon may exist: a socket at the path is removed if
/// `is_ours` accepts it.
pub(crate) fn listen_at(
    path: &Path,
    is_ours: impl FnOnce(SocketId) -> bool,
) -> io::Result<(Receiver<Asked>, SocketId)> {
    if let Some(there) = SocketId::socket_at(path)? {
        if !is_ours(there) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "a socket lies there that this daemon did not make; remove it if nobody needs it",
            ));
        }
        there.remove_socket(path);
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    let made = SocketId::socket_at(path)?.ok_or(io::ErrorKind::NotFound)?;
    let (asked, requests) = channel();
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                // One client at a time; a client that goes away loses its answer.
                let served = stream.and_then(|stream| serve_client(&stream, &asked));
                match served {
                    Err(e) if e.kind() == io::ErrorKind::NotConnected => return,
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    Ok(()) => {}
                }
            }
        })?;
    Ok((requests, made))
}

/// Answers one client; `NotConnected` if the daemon's loop has ended.
fn serve_client(stream: &UnixStream, asked: &Sender<Asked>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    let answer = match Request::parse_request(&line) {
        None => Answer::Error("not a request; there are: status, flush, epoch, stop".into()),
        Some(Request::Stop) if std::env::var_os("NOTIFY_SOCKET").is_some() => Answer::Error(
            "systemd started it, and would start it again: systemctl stop vitalfew".into(),
        ),
        Some(request) => {
            let (reply, replies) = channel();
            let gone = |_| io::Error::from(io::ErrorKind::NotConnected);
            asked.send((request, reply)).map_err(gone)?;
            let late = |_| Answer::Error("the daemon does not answer in time".into());
            replies.recv_timeout(ANSWER).unwrap_or_else(late)
        }
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    (&*stream).write_all(&text)
}

/// Asks the daemon of a database, at `socket` if that is not in the database. After
/// [`Request::Stop`] it has ended.
///
/// # Errors
/// If none runs, or it cannot do what it is asked for.
pub fn ask_daemon(
    database: &Path,
    socket: Option<&Path>,
    request: Request,
) -> anyhow::Result<Status> {
    let path = match socket {
        Some(socket) => socket.to_owned(),
        None => {
            let host = sampler::read_host().name;
            Database::open(&store::written_database(database))?
                .daemon_directory(&host)
                .join("socket")
        }
    };
    let stream = UnixStream::connect(&path).with_context(|| {
        format!(
            "no daemon answers at {}: is one running on this database?",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(ANSWER))?;
    (&stream).write_all(format!("{}\n", request.request_word()).as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let status = match serde_json::from_str(&line).context("the daemon's answer cannot be read")? {
        Answer::Status(status) => *status,
        Answer::Error(error) => anyhow::bail!("the daemon: {error}"),
    };
    let asked = Instant::now();
    while request == Request::Stop && UnixStream::connect(&path).is_ok() {
        anyhow::ensure!(
            asked.elapsed() < ANSWER,
            "the daemon, process {}, still stores its last samples",
            status.pid
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_words() {
        assert_eq!(Request::parse_request(b"status\n"), Some(Request::Status));
        assert_eq!(Request::parse_request(b"epoch"), Some(Request::Epoch));
        assert_eq!(Request::parse_request(b"stop\n"), Some(Request::Stop));
        for bad in [
            &b""[..],
            b"\n",
            b"Status\n",
            b"status x\n",
            b"\xff\x00",
            b"flushflush",
        ] {
            assert_eq!(Request::parse_request(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_a_socket_of_ours_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        fs::write(&path, "precious").unwrap();
        assert!(listen_at(&path, |_| true).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(listen_at(&path, |_| true).is_err());
        fs::remove_file(&path).unwrap();
        // A socket of a dead process.
        drop(UnixListener::bind(&path).unwrap());
        let theirs = SocketId::socket_at(&path).unwrap().unwrap();
        assert!(listen_at(&path, |_| false).is_err());
        assert_eq!(SocketId::socket_at(&path).unwrap(), Some(theirs));
        let (_requests, ours) = listen_at(&path, |there| there == theirs).unwrap();
        let kept = directory.path().join("kept");
        ours.keep_in_file(&kept).unwrap();
        assert_eq!(SocketId::read_kept(&kept), Some(ours));
        // Another process put its socket in its place.
        fs::remove_file(&path).unwrap();
        fs::write(
            directory.path().join("filler"),
            "so that the inode is another",
        )
        .unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        let other = SocketId::socket_at(&path).unwrap().unwrap();
        ours.remove_socket(&path);
        assert_eq!(SocketId::socket_at(&path).unwrap().is_some(), other != ours);
    }

    #[test]
    fn garbage_gets_an_answer_and_harms_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (requests, _) = listen_at(&path, |_| false).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let answered = std::thread::spawn(move || {
            let (request, reply) = requests.recv().unwrap();
            reply.send(Answer::Status(Box::default())).unwrap();
            request
        });
        for garbage in [
            vec![0u8; 1000],
            b"\n".to_vec(),
            vec![0xff; 3],
            b"quit\n".to_vec(),
        ] {
            let stream = UnixStream::connect(&path).unwrap();
            // The daemon may hang up in the middle of it.
            let _ = (&stream).write_all(&garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = String::new();
            if BufReader::new(&stream).read_line(&mut answer).is_ok() {
                assert!(
                    answer.is_empty() || answer.contains("not a request"),
                    "{answer}"
                );
            }
        }
        drop(UnixStream::connect(&path).unwrap());
        ask_daemon(directory.path(), Some(&path), Request::Flush).unwrap();
        assert_eq!(answered.join().unwrap(), Request::Flush);
    }
}
