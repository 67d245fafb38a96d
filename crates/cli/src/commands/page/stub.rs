//! A build without the page.

use crate::screen::warn_user;

/// Says so if this program was built without its page.
pub fn warn_of_stub_page() {
    if server::IS_STUB {
        warn_user(
            "this vitalfew was built without its page: run make in its source, then this again",
        );
    }
}
