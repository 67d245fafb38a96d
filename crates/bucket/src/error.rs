/// Reason that a bucket could not be used. No message contains a secret or a server's own text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The program was built without the feature.
    #[error(
        "{place}: this vitalfew was built without object storage: packages have it, or build it with the cargo feature object-storage"
    )]
    NotBuiltIn {
        /// The address.
        place: String,
    },
    /// No credentials were found.
    #[error(
        "{place}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine a role"
    )]
    NoCredentials {
        /// The address.
        place: String,
    },
    /// A file of credentials or certificates cannot be used.
    #[error("{place}: {what}")]
    Configuration {
        /// The address.
        place: String,
        /// The file and the fault.
        what: String,
    },
    /// The credentials are wrong or do not suffice.
    #[error(
        "{place}: access denied ({code}): the credentials are wrong, expired, or lack this right"
    )]
    Denied {
        /// The address of the object or list.
        place: String,
        /// The server's code.
        code: String,
    },
    /// The clocks of this machine and the server differ too much for signatures.
    #[error(
        "{place}: the server refuses this machine's clock, which is too slow or too fast: set it"
    )]
    WrongClock {
        /// The address.
        place: String,
    },
    /// The bucket does not exist.
    #[error("{place}: there is no such bucket at this endpoint")]
    NoBucket {
        /// The address.
        place: String,
    },
    /// The object does not exist.
    #[error("{place}: no such object; it may have been removed since it was listed")]
    NoObject {
        /// The address of the object.
        place: String,
    },
    /// The bucket is in another region.
    #[error("{place}: the bucket is in another region: set AWS_REGION")]
    OtherRegion {
        /// The address.
        place: String,
    },
    /// The server did not answer (in time).
    #[error("{place}: the server cannot be reached: {why}")]
    Unreachable {
        /// The address.
        place: String,
        /// The cause.
        why: String,
    },
    /// An object is longer than was said.
    #[error("{place}: longer than {most} bytes")]
    TooLong {
        /// The address of the object.
        place: String,
        /// Its length as said.
        most: u64,
    },
    /// The server failed, or answered something impossible.
    #[error("{place}: the server failed: {what}")]
    Server {
        /// The address.
        place: String,
        /// The code or the fault.
        what: String,
    },
}
