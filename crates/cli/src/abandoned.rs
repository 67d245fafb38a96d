//! Collectors that no daemon reads, in words.

use crate::output::{format_ns, group_digits};
use daemon::Abandoned;

/// Describes the state of a collector without a daemon.
pub fn describe_abandoned(abandoned: &Abandoned) -> String {
    let samples = group_digits(abandoned.waiting);
    match abandoned.ceased_ago_ns {
        None => format!("samples on, and no daemon reads it; {samples} samples wait in it"),
        Some(ago_ns) => format!(
            "stopped by itself {} ago, because no daemon read it; {samples} samples wait in it",
            format_ns(ago_ns as f64)
        ),
    }
}
