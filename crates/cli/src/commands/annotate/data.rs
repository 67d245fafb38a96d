//! Describes observed memory accesses of instructions in words.

use crate::output::group_digits;
use profile::{Accesses, Footprint};
use serde_json::{Value, json};

/// Least number of addresses for a description.
const ENOUGH: u64 = 20;

/// Least share of accesses that keep a stride for it to be reported.
const STEADY: f64 = 0.9;

/// Describes accesses: `stride 8 B, ~2,100 pages seen`; `None` if too few were seen.
pub fn describe_accesses(seen: &Accesses) -> Option<String> {
    let pages = &seen.pages;
    if seen.known.max(seen.waited) < ENOUGH {
        return None;
    }
    let stride = kept_stride(seen).map_or(String::new(), |bytes| format!("stride {bytes} B, "));
    let count = count_places(pages);
    let about = if pages.is_complete() { "" } else { "~" };
    let plural = if count == 1 { "" } else { "s" };
    Some(format!(
        "{stride}{about}{} page{plural} seen",
        group_digits(count)
    ))
}

/// Returns the stride in bytes, if most accesses keep it.
fn kept_stride(seen: &Accesses) -> Option<i64> {
    let steady = seen.strided as f64 >= STEADY * seen.origins as f64;
    (seen.origins >= ENOUGH && steady).then_some(seen.stride)
}

/// Returns the number of places: exact if all are known, otherwise an estimate to two digits.
fn count_places(footprint: &Footprint) -> u64 {
    let count = footprint.distinct().round();
    if footprint.is_complete() {
        return count as u64;
    }
    let unit = 10.0_f64.powf(count.max(10.0).log10().floor() - 1.0);
    (unit * (count / unit).round()) as u64
}

/// Returns the description as JSON.
pub fn accesses_json(seen: &Accesses) -> Value {
    let share = |of: u64, all: u64| (all > 0).then(|| of as f64 / all as f64);
    json!({
        "known": seen.known,
        "unknown": seen.unknown,
        "waited": seen.waited,
        "stride": kept_stride(seen),
        "new_line": share(seen.new_line, seen.origins),
        "new_page": share(seen.new_page, seen.origins),
        "lines": count_places(&seen.lines),
        "pages": count_places(&seen.pages),
        "exact": seen.lines.is_complete(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Visits;

    #[test]
    fn it_is_said_in_a_few_words() {
        let mut seen = Accesses::default();
        assert_eq!(describe_accesses(&seen), None);
        seen.known = ENOUGH;
        seen.pages.add(7, Visits::default());
        assert_eq!(describe_accesses(&seen).as_deref(), Some("1 page seen"));
        (seen.origins, seen.strided, seen.stride) = (100, 89, -8);
        assert_eq!(describe_accesses(&seen).as_deref(), Some("1 page seen"));
        seen.strided = 90;
        assert_eq!(
            describe_accesses(&seen).as_deref(),
            Some("stride -8 B, 1 page seen")
        );
        for place in 0..5000_u64 {
            let hash = (place << 51) + 1;
            seen.pages.add(hash, Visits::default());
        }
        assert_eq!(
            describe_accesses(&seen).as_deref(),
            Some("stride -8 B, ~8,500 pages seen")
        );
    }
}
