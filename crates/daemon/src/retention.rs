//! Removal of closed epochs.

use crate::options::Retention;
use crate::wall_clock::unix_ns;
use std::path::PathBuf;
use store::{Database, Epoch};

/// Removes expired epochs: closed epochs of this host, oldest first. On a `full` disk it removes at
/// least one, if the total size is limited. Returns the removed ones.
pub(crate) fn remove_expired(
    database: &Database,
    host: &str,
    retention: &Retention,
    full: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    if retention.longest.is_none() && retention.most_bytes.is_none() {
        return Ok(Vec::new());
    }
    let epochs = database.select_epochs(&store::TimeRange::default(), Some(host))?;
    let mut removed = Vec::new();
    for epoch in expired_epochs(&epochs, unix_ns(), retention, full) {
        database.remove_epoch(epoch)?;
        removed.push(epoch.path.clone());
    }
    Ok(removed)
}

fn expired_epochs<'e>(
    epochs: &'e [Epoch],
    now_unix_ns: u64,
    retention: &Retention,
    full: bool,
) -> Vec<&'e Epoch> {
    let bytes = |epoch: &Epoch| epoch.summary.as_ref().map_or(0, |summary| summary.bytes);
    let mut size: u64 = epochs.iter().map(bytes).fold(0, u64::saturating_add);
    let mut expired = Vec::new();
    for epoch in epochs {
        // An unreadable epoch is damaged, and left for people to examine.
        let Ok(summary) = &epoch.summary else {
            continue;
        };
        let end = summary.start_unix_ns.saturating_add(summary.duration_ns);
        let age_ns = u128::from(now_unix_ns.saturating_sub(end));
        let old = retention
            .longest
            .is_some_and(|longest| age_ns > longest.as_nanos());
        let room = full && expired.is_empty();
        let much = retention.most_bytes.is_some_and(|most| size > most || room);
        if !epoch.open && (old || much) {
            size = size.saturating_sub(summary.bytes);
            expired.push(epoch);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Target;
    use std::time::Duration;
    use store::RecordingSummary;

    fn epoch(hour: u64, open: bool) -> Epoch {
        Epoch {
            path: format!("{hour}").into(),
            open,
            summary: Ok(RecordingSummary {
                start_unix_ns: hour * 3_600_000_000_000,
                duration_ns: 3_600_000_000_000,
                host: "h".into(),
                target: Target::Machine,
                events: Vec::new(),
                samples: 1,
                lost: 0,
                bytes: 100,
            }),
            damaged: Vec::new(),
        }
    }

    #[test]
    fn the_oldest_closed_epochs_go_first() {
        let mut epochs: Vec<Epoch> = (0..5).map(|hour| epoch(hour, hour == 4)).collect();
        let removed_when = |epochs: &[Epoch], retention: Retention, full: bool| {
            let now = 5 * 3_600_000_000_000;
            let expired = expired_epochs(epochs, now, &retention, full);
            expired
                .iter()
                .map(|e| e.path.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let removed =
            |epochs: &[Epoch], retention: Retention| removed_when(epochs, retention, false);
        let age = |hours: u64| Retention {
            longest: Some(Duration::from_secs(3600 * hours)),
            most_bytes: None,
        };
        let size = |bytes| Retention {
            longest: None,
            most_bytes: Some(bytes),
        };
        assert_eq!(removed(&epochs, Retention::default()), "");
        assert_eq!(removed(&epochs, age(2)), "0 1");
        assert_eq!(removed(&epochs, age(0)), "0 1 2 3");
        assert_eq!(removed(&epochs, size(499)), "0");
        assert_eq!(removed(&epochs, size(1)), "0 1 2 3");
        // A full disk removes one more, and only if the size is limited.
        assert_eq!(removed_when(&epochs, Retention::default(), true), "");
        assert_eq!(removed_when(&epochs, age(2), true), "0 1");
        assert_eq!(removed_when(&epochs, age(100), true), "");
        assert_eq!(removed_when(&epochs, size(10_000), true), "0");
        assert_eq!(removed_when(&epochs[4..], size(10_000), true), "");
        epochs[1].summary = Err(store::StoreError::Unstorable { what: "x".into() });
        assert_eq!(removed(&epochs, age(2)), "0");
    }
}
