//! The level of detail that is asked for, and warnings for the reader of the answer.

use profile::ImageId;
use std::fmt;

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Procedures only: the symbol tables suffice.
    Procedures,
    /// Source lines and inlined calls too: debug information is read.
    Lines,
}

/// Something that the reader of the result should know about one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The image.
    pub image: ImageId,
    /// The missing data, and the loss by it.
    pub what: String,
    /// The remedy; empty where there is none.
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
