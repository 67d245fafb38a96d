//! How much is asked for, and what the reader of the answer should know.

use profile::ImageId;
use std::fmt;

/// How much to find out.
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
    /// What is missing, and what is lost by it.
    pub what: String,
    /// What mends it; empty where nothing does.
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
