//! The requested level of detail, and warnings for the reader of the result.

use profile::ImageId;
use std::fmt;

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Procedures only: the symbol tables suffice.
    Procedures,
    /// Source lines and inlined calls too, from debug information.
    Lines,
}

/// A warning about one image, for the reader of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The image.
    pub image: ImageId,
    /// The missing data, and the loss by it.
    pub what: String,
    /// The remedy; empty if there is none.
    pub advice: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.advice.is_empty() {
            write!(f, ": {}", self.advice)?;
        }
        Ok(())
    }
}
