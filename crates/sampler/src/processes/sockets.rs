//! What the sockets of processes are for, as the kernel lists them.

use profile::SocketUse;
use rustc_hash::FxHashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// Time after the first look at which the second one follows. Each later pause is half as long
/// again: lists of all sockets of a machine may be long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of processes that are looked at, and of a process's descriptors.
const MOST_PROCESSES: usize = 64;
const MOST_DESCRIPTORS: usize = 1024;
/// Maximum number of bytes read of one list.
const LONGEST_LIST: u64 = 16 << 20;
/// Lists of internet sockets, with those that listen in the state [`LISTENS`].
const INTERNET: [&str; 2] = ["tcp", "tcp6"];
const LISTENS: &str = "0A";
/// The flag of a listening socket in the list of Unix sockets (`SO_ACCEPTCON`).
const ACCEPTS: u32 = 1 << 16;

/// Watch of the sockets of a target's processes.
#[derive(Default)]
pub(crate) struct SocketWatch {
    next: Option<Instant>,
    pause: Duration,
    /// Sockets that were looked up in the kernel's lists.
    known: FxHashSet<u64>,
    /// What was seen so far.
    pub seen: Option<SocketUse>,
}

impl SocketWatch {
    /// Looks at processes if it is time. Called several times a second.
    pub fn look_at_processes(&mut self, processes: impl FnOnce() -> Vec<u32>) {
        let now = Instant::now();
        let is_due = self.next.is_none_or(|next| now >= next);
        if !is_due || self.seen == Some(SocketUse::Server) {
            return;
        }
        self.pause = FIRST_PAUSE.max(self.pause + self.pause / 2);
        self.next = Some(now + self.pause);
        for pid in processes().into_iter().take(MOST_PROCESSES) {
            let sockets = sockets_of(pid);
            let is_new = sockets.iter().any(|socket| !self.known.contains(socket));
            if !is_new {
                continue;
            }
            let is_server = listening_sockets(pid).any(|socket| sockets.contains(&socket));
            let seen = if is_server {
                SocketUse::Server
            } else {
                SocketUse::Client
            };
            self.seen = self.seen.max(Some(seen));
            self.known.extend(sockets);
        }
    }
}

/// Returns the inodes of a process's sockets.
fn sockets_of(pid: u32) -> FxHashSet<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    let targets = descriptors
        .take(MOST_DESCRIPTORS)
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let inodes = targets.filter_map(|target| {
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        inode.strip_suffix(']')?.parse().ok()
    });
    inodes.collect()
}

/// Returns the inodes of the sockets that listen in a process's network namespace.
fn listening_sockets(pid: u32) -> impl Iterator<Item = u64> {
    let lines = move |list: &str| {
        let file = File::open(format!("/proc/{pid}/net/{list}")).ok();
        let file = file.map(|file| BufReader::new(file.take(LONGEST_LIST)));
        file.into_iter()
            .flat_map(|file| file.lines().map_while(Result::ok))
    };
    let internet = INTERNET.into_iter().flat_map(lines);
    let internet = internet.filter_map(|line| parse_internet(&line));
    internet.chain(lines("unix").filter_map(|line| parse_unix(&line)))
}

/// Returns the inode in a line of `/proc/PID/net/tcp` if the socket listens.
fn parse_internet(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let state = words.nth(3)?;
    let inode = words.nth(5)?;
    (state == LISTENS).then(|| inode.parse().ok())?
}

/// Returns the inode in a line of `/proc/PID/net/unix` if the socket listens.
fn parse_unix(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let inode = words.nth(2)?;
    (flags & ACCEPTS != 0).then(|| inode.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    #[test]
    fn listening_sockets_are_told_from_others() {
        let listens = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 23456 1 0000000000000000 100 0 0 10 0";
        assert_eq!(parse_internet(listens), Some(23456));
        let connected = listens.replace(" 0A ", " 01 ");
        assert_eq!(parse_internet(&connected), None);
        let unix = "0000000000000000: 00000002 00000000 00010000 0001 01 34567 /run/socket";
        assert_eq!(parse_unix(unix), Some(34567));
        assert_eq!(parse_unix(&unix.replace("00010000", "00000000")), None);
        for damaged in [
            "",
            "sl local_address rem_address st",
            "Num RefCount Protocol",
        ] {
            assert_eq!(parse_internet(damaged), None);
            assert_eq!(parse_unix(damaged), None);
        }
    }

    #[test]
    fn sockets_that_this_process_opens_are_seen() {
        let own = || vec![std::process::id()];
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let _client = TcpStream::connect(listener.local_addr().expect("an address"));
        let mut watch = SocketWatch::default();
        watch.look_at_processes(own);
        assert_eq!(watch.seen, Some(SocketUse::Server));
        drop(listener);
        let directory = tempfile::tempdir().expect("a directory");
        let _unix = UnixListener::bind(directory.path().join("socket")).expect("a socket");
        let mut watch = SocketWatch::default();
        watch.look_at_processes(own);
        assert_eq!(watch.seen, Some(SocketUse::Server));
    }
}
