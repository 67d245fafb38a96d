//! Stands for buckets in a program without the feature `object-storage`.

use crate::{BucketAddress, BucketError, Patience, StoredObject};
use std::convert::Infallible;

/// A bucket: in this program there is none.
#[derive(Debug)]
pub struct Bucket(Infallible);

impl Bucket {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(address: &BucketAddress, _patience: Patience) -> Result<Self, BucketError> {
        Err(BucketError::NotBuiltIn {
            place: address.to_string(),
        })
    }

    /// There is none.
    pub fn bucket_address(&self) -> &BucketAddress {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn list_directories(&self, _prefix: &str) -> Result<Vec<String>, BucketError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn list_objects(&self, _prefix: &str) -> Result<Vec<StoredObject>, BucketError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn read_object(&self, _key: &str, _most: u64) -> Result<Vec<u8>, BucketError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn create_object(&self, _key: &str, _bytes: Vec<u8>) -> Result<(), BucketError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn replace_object(&self, _key: &str, _bytes: Vec<u8>) -> Result<(), BucketError> {
        match self.0 {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn remove_objects(&self, _keys: &[String]) -> Result<(), BucketError> {
        match self.0 {}
    }
}
