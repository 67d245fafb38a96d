//! A bucket, by the crate `object_store`.

use crate::http::{BodyLimit, BodyTooLong, UreqConnector, failure_code};
use crate::profile::AwsProfile;
use crate::{BucketAddress, BucketError, Patience, StoredObject};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
};
use std::env;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A bucket. Its calls block, and any number of threads may call.
pub struct Bucket {
    address: BucketAddress,
    store: AmazonS3,
}

impl fmt::Debug for Bucket {
    // Of the rest, credentials are a part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.address)
    }
}

impl Bucket {
    /// Makes the client of a bucket; sends nothing.
    ///
    /// Settings and credentials are those of AWS's own tools: the variables `AWS_…`, the files of
    /// profiles, else the role of this machine, container or service account.
    ///
    /// # Errors
    /// If the settings contradict each other, or a file that they name cannot be used.
    pub fn open(address: &BucketAddress, patience: Patience) -> Result<Self, BucketError> {
        let place = address.to_string();
        let wrong = |what: String| BucketError::Configuration {
            place: place.clone(),
            what,
        };
        let mut builder = with_profile(AmazonS3Builder::from_env()).map_err(wrong)?;
        builder = builder
            .with_bucket_name(&address.bucket)
            .with_allow_http(true)
            .with_disable_bulk_delete(true)
            .with_http_connector(UreqConnector::new(patience).map_err(wrong)?)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(200),
                    max_backoff: Duration::from_secs(10),
                    base: 3.0,
                },
                max_retries: patience.retries,
                retry_timeout: patience.whole,
            });
        let store = builder.build();
        let store = store.map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            address: address.clone(),
            store,
        })
    }

    /// Returns its address.
    pub fn bucket_address(&self) -> &BucketAddress {
        &self.address
    }

    /// Returns the names of the directories right below a directory (`""` or ending in `/`).
    ///
    /// # Errors
    /// If the bucket cannot be listed.
    pub fn list_directories(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let mut names = Vec::new();
        self.list_pages(prefix, Some("/".into()), |page| {
            let parts = page.common_prefixes.iter();
            names.extend(parts.filter_map(|path| path.filename().map(str::to_owned)));
        })?;
        Ok(names)
    }

    /// Returns all objects below a directory (`""` or ending in `/`).
    ///
    /// # Errors
    /// If the bucket cannot be listed.
    pub fn list_objects(&self, prefix: &str) -> Result<Vec<StoredObject>, BucketError> {
        let skipped = match self.address.prefix.len() {
            0 => 0,
            len => len + 1,
        };
        let mut objects = Vec::new();
        self.list_pages(prefix, None, |page| {
            objects.extend(page.objects.iter().filter_map(|object| {
                Some(StoredObject {
                    key: object.location.as_ref().get(skipped..)?.to_owned(),
                    bytes: object.size,
                })
            }));
        })?;
        Ok(objects)
    }

    fn list_pages(
        &self,
        prefix: &str,
        delimiter: Option<std::borrow::Cow<'static, str>>,
        mut add_page: impl FnMut(&object_store::ListResult),
    ) -> Result<(), BucketError> {
        let whole = self.full_key(prefix);
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: delimiter.clone(),
                page_token: page_token.clone(),
                ..PaginatedListOptions::default()
            };
            let page = wait_for(self.store.list_paginated(Some(&whole), options));
            let page = page.map_err(|error| self.explain_error(prefix, &error))?;
            add_page(&page.result);
            // A server that repeats a page would be asked forever.
            if page.page_token.is_none() || page.page_token == page_token {
                return Ok(());
            }
            page_token = page.page_token;
        }
    }

    /// Reads an object of at most so many bytes.
    ///
    /// # Errors
    /// If it is longer, or cannot be read.
    pub fn read_object(&self, key: &str, most: u64) -> Result<Vec<u8>, BucketError> {
        let mut options = GetOptions::default();
        options.extensions.insert(BodyLimit(most));
        let path = self.path_of(key)?;
        let read = wait_for(async {
            let object = self.store.get_opts(&path, options).await?;
            object.bytes().await
        });
        match read {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) if is_cause::<BodyTooLong>(&error) => Err(BucketError::TooLong {
                place: self.place_of(key),
                most,
            }),
            Err(error) => Err(self.explain_error(key, &error)),
        }
    }

    /// Writes an object, unless there is one with this key, which stays as it is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create_object(&self, key: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let path = self.path_of(key)?;
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        match wait_for(self.store.put_opts(&path, bytes.clone().into(), options)) {
            Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(()),
            // Stores without conditions; the same content is written again, at worst.
            Err(error) if failure_code(&chain_of(&error)) == Some("NotImplemented") => {
                self.replace_object(key, bytes)
            }
            Err(error) => Err(self.explain_error(key, &error)),
        }
    }

    /// Writes an object, in place of an existing one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn replace_object(&self, key: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let path = self.path_of(key)?;
        let put = wait_for(self.store.put(&path, bytes.into()));
        put.map(drop)
            .map_err(|error| self.explain_error(key, &error))
    }

    /// Removes objects, in this order; those that are gone already count as removed.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove_objects(&self, keys: &[String]) -> Result<(), BucketError> {
        for key in keys {
            let path = self.path_of(key)?;
            match wait_for(self.store.delete(&path)) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(self.explain_error(key, &error)),
            }
        }
        Ok(())
    }

    fn full_key(&self, key: &str) -> String {
        match self.address.prefix.as_str() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        }
    }

    fn path_of(&self, key: &str) -> Result<Path, BucketError> {
        Path::parse(self.full_key(key)).map_err(|error| BucketError::Server {
            place: self.address.to_string(),
            what: format!("an impossible key: {error}"),
        })
    }

    fn place_of(&self, key: &str) -> String {
        match key {
            "" => self.address.to_string(),
            key => format!("{}/{key}", self.address),
        }
    }

    /// Says what an error means, without any text of the server.
    fn explain_error(&self, key: &str, error: &Error) -> BucketError {
        let (place, text) = (self.place_of(key), chain_of(error));
        let code = failure_code(&text).map(str::to_owned);
        if text.contains("/latest/api/token") || text.contains("/latest/meta-data") {
            return BucketError::NoCredentials { place };
        }
        let status = failed_status(&text);
        match (code.as_deref(), status) {
            (Some("NoSuchBucket"), _) => BucketError::NoBucket {
                place: self.address.to_string(),
            },
            (Some("PermanentRedirect" | "AuthorizationHeaderMalformed"), _) => {
                BucketError::OtherRegion { place }
            }
            (Some("RequestTimeTooSkewed"), _) => BucketError::WrongClock { place },
            // Some stores say so with status 400.
            (Some("InvalidAccessKeyId" | "ExpiredToken" | "InvalidToken"), _)
            | (_, Some("401" | "403")) => BucketError::Denied {
                place,
                code: code.unwrap_or_else(|| "no reason given".into()),
            },
            (_, Some("404")) => BucketError::NoObject { place },
            _ if text.contains("Received redirect") => BucketError::OtherRegion { place },
            _ => match http_cause(error) {
                Some(cause) => BucketError::Unreachable {
                    place,
                    why: match cause.kind() {
                        HttpErrorKind::Timeout => "it does not answer in time".into(),
                        _ => innermost_cause(cause),
                    },
                },
                None => BucketError::Server {
                    place,
                    what: match (status, code) {
                        (Some(status), Some(code)) => format!("status {status}, {code}"),
                        (Some(status), None) => format!("status {status}"),
                        _ => "an answer that is not of this protocol".into(),
                    },
                },
            },
        }
    }
}

/// Returns the HTTP status in the text of an error. The type with the status is private, and lists
/// return no error of their own for a status.
fn failed_status(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("non-2xx status code: ")?;
    rest.get(..3)
}

/// Adds what variables leave open from the profile's files.
fn with_profile(mut builder: AmazonS3Builder) -> Result<AmazonS3Builder, String> {
    use AmazonS3ConfigKey as Key;
    let has = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let profile = AwsProfile::read_profile()?;
    let from_role = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ];
    if !has("AWS_ACCESS_KEY_ID") {
        if let Some(id) = profile.get("aws_access_key_id") {
            builder = builder.with_config(Key::AccessKeyId, id);
            let secret = profile.get("aws_secret_access_key").unwrap_or_default();
            builder = builder.with_config(Key::SecretAccessKey, secret);
            if let Some(token) = profile.get("aws_session_token") {
                builder = builder.with_config(Key::Token, token);
            }
        } else if let Some(source) = profile.unsupported_source()
            && !from_role.into_iter().any(has)
        {
            return Err(format!(
                "the AWS profile gets its credentials by {source}, which vitalfew cannot: aws configure export-credentials --format env prints them as variables"
            ));
        }
    }
    let regions = ["AWS_REGION", "AWS_DEFAULT_REGION"];
    if let Some(region) = profile.get("region")
        && !regions.into_iter().any(has)
    {
        builder = builder.with_config(Key::Region, region);
    }
    let endpoints = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    if let Some(endpoint) = profile.get("endpoint_url")
        && !endpoints.into_iter().any(has)
    {
        builder = builder.with_config(Key::Endpoint, endpoint);
    }
    Ok(builder)
}

/// Runs a call to its end on this thread.
fn wait_for<T>(call: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build();
    // Only timers are needed, so that the system is asked for nothing.
    runtime
        .expect("a runtime without input and output")
        .block_on(call)
}

type Cause = dyn StdError + 'static;

fn causes(error: &Cause) -> impl Iterator<Item = &Cause> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let this = next?;
        next = this.source();
        Some(this)
    })
}

fn chain_of(error: &Error) -> String {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}

fn is_cause<E: StdError + 'static>(error: &Error) -> bool {
    causes(error).any(|cause| cause.is::<E>())
}

fn http_cause(error: &Error) -> Option<&HttpError> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn innermost_cause(error: &HttpError) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}
