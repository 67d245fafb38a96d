//! Addresses of places in buckets: `s3://bucket/prefix`.

use std::fmt;

/// Beginning of an address.
pub const SCHEME: &str = "s3://";

/// A bucket, and the beginning of the keys of all objects that belong to a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketAddress {
    /// The name of the bucket.
    pub bucket: String,
    /// The prefix, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl std::str::FromStr for BucketAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("'{text}' is not s3://BUCKET/PREFIX: {why}"));
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return wrong("it begins otherwise");
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || bucket.starts_with('.') || !bucket.chars().all(is_name) {
            return wrong("a bucket's name has letters, digits, '-', '.' and '_'");
        }
        let prefix = prefix.trim_matches('/');
        let is_strange = |part: &str| {
            part.is_empty() || part == "." || part == ".." || part.contains(char::is_control)
        };
        if !prefix.is_empty() && prefix.split('/').any(is_strange) {
            return wrong("the prefix has an empty part, '.' or '..'");
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.prefix.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_written() {
        for text in ["s3://b", "s3://b/", "s3://my-fleet.eu/profiles/web"] {
            let address: BucketAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "/db",
            "s3://",
            "s3:///p",
            "s3://..",
            "s3://b/a//c",
            "s3://b/../c",
            "s3://a b",
        ] {
            assert!(text.parse::<BucketAddress>().is_err(), "{text}");
        }
    }
}
