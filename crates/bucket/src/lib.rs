//! Objects in a bucket of S3 or a compatible store, by blocking calls.
//!
//! The protocol is the crate `object_store`'s (signatures, lists, retries, credentials of roles).
//! This crate adds the HTTP client that the program has anyway (`http`), the credentials of profile
//! files (`profile`), and errors that name the place and the cause, and never a secret (`error`).
//!
//! Without the feature `object-storage`, opening a bucket fails.
#![forbid(unsafe_code)]

mod address;
mod error;
#[cfg(feature = "object-storage")]
mod http;
#[cfg(not(feature = "object-storage"))]
#[path = "without.rs"]
mod objects;
#[cfg(feature = "object-storage")]
mod objects;
#[cfg(feature = "object-storage")]
mod profile;

pub use address::{BucketAddress, SCHEME};
pub use error::BucketError;
pub use objects::Bucket;

use std::time::Duration;

/// True if this program can open buckets.
pub const IS_BUILT_IN: bool = cfg!(feature = "object-storage");

/// An object of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its key, without the prefix of the bucket's address.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Limits on the time that a server may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To connect, to begin an answer, and between two pieces of it.
    pub silence: Duration,
    /// To answer a request completely.
    pub whole: Duration,
    /// Number of further tries.
    pub retries: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(10),
            whole: Duration::from_secs(300),
            retries: 2,
        }
    }
}
