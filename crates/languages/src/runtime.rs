//! Interface of all runtimes to the sampler.

use crate::ElfImage;
use object::ReadRef;

/// Reason why a runtime is not supported: a predicate of its image, such as "is Ruby 1.9, which was
/// never tried".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSupported(pub String);

/// A runtime whose structures the sampler reads.
pub trait LanguageRuntime: Sized {
    /// Clause for the user: the data missing for a program with an unsupported runtime.
    const LOST: &'static str;

    /// Returns the runtime in an image; `None` if there is none. `name` is the image's file name.
    ///
    /// # Errors
    /// If its version is untested.
    fn find_in_image<'data, R: ReadRef<'data>>(
        name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported>;
}
