//! Comparison of two results of `vitalfew run`.

use crate::output::{clean_name, format_ns};
use orchestration::RunResult;
use profile::{AmountBase, Claim, Finding};
use results::phrases::claim_sentence;
use std::io::{self, Write};

/// Kind of change of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    /// The finding is gone.
    Gone,
    /// The finding is new.
    New,
    /// The interval lies below the former one.
    Less,
    /// The interval lies above the former one.
    More,
    /// The intervals overlap.
    Unclear,
}

/// Writes the changes between two results. Findings correspond if they make the same claim about a
/// place of the same name.
pub fn write_changes(before: &RunResult, after: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nsince then (one run each: runs differ by themselves)"
    )?;
    write_time(out, "wall", before.duration_ns, after.duration_ns)?;
    if let (Some(before), Some(after)) = (before.times, after.times) {
        write_time(out, "CPU", before.cpu_ns, after.cpu_ns)?;
    }
    for (kind, finding, former) in pair_findings(before, after) {
        let sentence = clean_name(&claim_sentence(finding));
        let was = former.map_or(0.0, |former| 100.0 * former.amount.value);
        let line = match kind {
            ChangeKind::Gone => format!("gone: {sentence}"),
            ChangeKind::New => format!("new: {sentence}"),
            ChangeKind::Less => format!("less, it was {was:.1} %: {sentence}"),
            ChangeKind::More => format!("more, it was {was:.1} %: {sentence}"),
            ChangeKind::Unclear => format!("no clear change, it was {was:.1} %: {sentence}"),
        };
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn write_time(out: &mut dyn Write, what: &str, before: u64, after: u64) -> io::Result<()> {
    let (before, after) = (before as f64, after as f64);
    let change = 100.0 * (after - before) / before.max(1.0);
    writeln!(
        out,
        "  {what} {} -> {} ({change:+.1} %)",
        format_ns(before),
        format_ns(after)
    )
}

/// Returns the findings of both results, each with its former finding. Findings that are gone come
/// first.
fn pair_findings<'a>(
    before: &'a RunResult,
    after: &'a RunResult,
) -> Vec<(ChangeKind, &'a Finding, Option<&'a Finding>)> {
    let at = |list: &'a RunResult, finding: &Finding| -> Option<&'a Finding> {
        let key = place_of(finding);
        list.claims.findings().find(|other| place_of(other) == key)
    };
    let gone = before.claims.findings().filter(|f| at(after, f).is_none());
    let mut all: Vec<_> = gone.map(|f| (ChangeKind::Gone, f, None)).collect();
    for finding in after.claims.findings() {
        let former = at(before, finding);
        let kind = former.map_or(ChangeKind::New, |former| change_kind(former, finding));
        all.push((kind, finding, former));
    }
    all.sort_by_key(|(kind, ..)| *kind);
    all
}

fn place_of(finding: &Finding) -> (Claim, String) {
    (finding.claim, finding.place.what.name())
}

fn change_kind(before: &Finding, after: &Finding) -> ChangeKind {
    let interval = |finding: &Finding| {
        let value = finding.amount.value;
        finding.amount.interval.unwrap_or([value, value])
    };
    let is_same_base =
        |a: &AmountBase, b: &AmountBase| std::mem::discriminant(a) == std::mem::discriminant(b);
    let ([low, high], [new_low, new_high]) = (interval(before), interval(after));
    match is_same_base(&before.amount.relative_to, &after.amount.relative_to) {
        true if new_low > high => ChangeKind::More,
        true if new_high < low => ChangeKind::Less,
        _ => ChangeKind::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{
        AmountUnit, CallGraph, Certainty, Collector, FindingAmount, FindingPlace, Host,
        PlaceInCode, Recording, Target,
    };
    use results::JsonClaims;

    fn finding(name: &str, value: f64) -> Finding {
        Finding {
            claim: Claim::TakesTime,
            place: FindingPlace {
                image: None,
                what: PlaceInCode::Procedure {
                    name: name.to_owned(),
                },
            },
            amount: FindingAmount {
                value,
                interval: Some([value - 0.02, value + 0.02]),
                unit: AmountUnit::Fraction,
                relative_to: AmountBase::WorkingTime,
                certainty: Certainty::UpperBound,
            },
            evidence: Vec::new(),
            doubts: Vec::new(),
            next: Vec::new(),
        }
    }

    fn result(findings: &[(&str, f64)]) -> RunResult {
        let target = Target::Command(vec!["app".to_owned()]);
        let recording = Recording::new(Host::default(), target, Collector::Import, CallGraph::None);
        let mut result = RunResult::of_recording(&recording);
        let findings = findings.iter().map(|(name, value)| finding(name, *value));
        result.claims = JsonClaims::of_findings(findings.collect());
        result
    }

    #[test]
    fn what_went_comes_first_and_what_is_within_the_interval_is_no_change() {
        let before = result(&[("a", 0.5), ("b", 0.3), ("c", 0.1)]);
        let after = result(&[("b", 0.31), ("c", 0.4), ("d", 0.1)]);
        let found = pair_findings(&before, &after);
        let kinds: Vec<_> = found
            .iter()
            .map(|(kind, f, _)| (*kind, f.place.what.name()))
            .collect();
        let expected = [
            (ChangeKind::Gone, "a"),
            (ChangeKind::New, "d"),
            (ChangeKind::More, "c"),
            (ChangeKind::Unclear, "b"),
        ];
        let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_kept_result_is_read_back_and_other_files_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("result.json");
        let text = serde_json::to_string(&result(&[("a", 0.5)])).expect("JSON");
        std::fs::write(&path, &text).expect("written");
        let read = RunResult::read(&path).expect("read");
        assert_eq!(read.claims.findings().count(), 1);
        for other in ["", "[]", "{\"schema\":\"vitalfew.run/2\"}"] {
            std::fs::write(&path, other).expect("written");
            let error = RunResult::read(&path).expect_err("refused");
            assert!(error.to_string().contains("not a result"), "{error}");
        }
        let newer = text.replace("run/2", "run/9");
        std::fs::write(&path, newer).expect("written");
        assert!(RunResult::read(&path).is_err());
    }
}
