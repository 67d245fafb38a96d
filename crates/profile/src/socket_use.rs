//! The part that a program plays on networks.

use serde::{Deserialize, Serialize};

/// What the sockets of a program were seen to be for. It tells whether its waits for a network are
/// its own loss or those of a server without requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketUse {
    /// It has sockets, and none of its processes listens on one.
    Client,
    /// One of its processes listens on a socket.
    Server,
}
