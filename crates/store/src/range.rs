//! A range of times by which epochs are selected.

use std::path::Path;

/// Start times of epochs, as any number of leading digits of the date and time (UTC): `20261121` is
/// a day, `2026-11-21T03` an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    from: Option<String>,
    to: Option<String>,
}

impl std::str::FromStr for TimeRange {
    type Err = String;

    /// Parses `A..B` (both included), `A..`, `..B`, `..`, or `A` alone.
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let digits = |text: &str| {
            let strange = |c: char| !c.is_ascii_digit() && !"-:.TZ ".contains(c);
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            match (text.is_empty(), text.contains(strange) || digits.len() < 4) {
                (true, _) => Ok(None),
                (_, true) => Err(format!(
                    "'{text}' is not a time such as 2026, 20261121 or 2026-11-21T03:15"
                )),
                _ => Ok(Some(digits)),
            }
        };
        let (from, to) = (digits(from)?, digits(to)?);
        Ok(Self { from, to })
    }
}

impl TimeRange {
    /// Returns whether epochs of a day can be in the range.
    pub(crate) fn contains_day(&self, directory: &str) -> bool {
        let digits: String = directory.chars().filter(char::is_ascii_digit).collect();
        let within = |limit: &Option<String>, is_past: fn(&str, &str) -> bool| {
            limit.as_ref().is_none_or(|limit| {
                let len = limit.len().min(digits.len());
                !is_past(&digits[..len], &limit[..len])
            })
        };
        within(&self.from, |day, from| day < from) && within(&self.to, |day, to| day > to)
    }

    /// Returns whether an epoch's directory is in the range.
    pub(crate) fn contains_epoch(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = parent.to_string_lossy();
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let prefix = |len: usize| digits.get(..len).unwrap_or(&digits);
        self.from
            .as_ref()
            .is_none_or(|from| prefix(from.len()) >= from.as_str())
            && self
                .to
                .as_ref()
                .is_none_or(|to| prefix(to.len()) <= to.as_str())
    }
}
