//! Interface of all runtimes to the sampler.

use crate::ElfImage;
use object::ReadRef;

/// Reason that a runtime is not understood: a predicate of its image, as "is Ruby 1.9, which was never tried".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSupported(pub String);

/// A runtime whose structures the sampler reads.
pub trait LanguageRuntime: Sized {
    /// Clause for the user: what is not known of a program whose runtime is not understood.
    const LOST: &'static str;

    /// Returns the runtime that an image is, `None` if it is none. `name` is the image's file name.
    ///
    /// # Errors
    /// If it is none of the versions that were tried.
    fn find_in_image<'data, R: ReadRef<'data>>(
        name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported>;
}
