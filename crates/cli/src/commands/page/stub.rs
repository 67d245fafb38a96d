//! Warning for a build without the page.

use crate::screen::warn_user;

/// Warns the user if this program was built without its page.
pub fn warn_of_stub_page() {
    if server::IS_STUB {
        warn_user(
            "this vitalfew was built without its page: run make in its source, then this again",
        );
    }
}
