//! The phrase book: the words of findings, for terminals, JSON and the page alike.
//!
//! [`claim_sentence`] states a claim, [`speedup_line`] the gain of a speedup, [`evidence_lines`]
//! the evidence for it, and [`doubt_lines`] the doubts; [`effect_verdict`] what experiments
//! predict, and [`InterferenceWords`] a whole result of interference. Inference returns data; only
//! this module turns it into sentences.

mod causal;
mod evidence;
mod interference;
mod names;

pub use causal::effect_verdict;
pub use evidence::{doubt_lines, evidence_lines, hottest_line, rank_line, speedup_line};
pub use interference::{
    InterferenceWords, LEAST_PART, function_cause, machine_sentences, other_functions,
    percent_interval, verdict_sentence, whole_percent,
};
pub use names::{place_name, short_name};

use names::path_end;
use profile::known_code::LOCKING;
use profile::{
    AmountBase, Certainty, Claim, CpuTaker, EndingThread, Finding, FindingEvidence, MemoryLimit,
    MemoryNeed, PlaceInCode, TimeKind,
};

/// Part of a place's time above which a second activity is named in its sentence.
const AS_MUCH: f64 = 0.4;

/// Part of a place's time in waits for locks above which locks are the reason for its time: a
/// thread that waits for a lock also runs to spin and to wake others.
const CONTENDED: f64 = 0.2;

/// Returns a part of a whole with two or three digits: `75 %`, `3.2 %`.
pub fn percent(part: f64) -> String {
    let value = 100.0 * part;
    if value.abs() < 9.95 && value != 0.0 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

/// Formats 1234567 as 1,234,567.
pub fn group_digits(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `1 run`, `2 runs`.
pub fn count_noun(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", group_digits(count))
}

/// Returns bytes with a unit.
pub fn format_bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Formats nanoseconds as a time with three digits: 1.50 s, 12.3 ms.
pub fn format_ns(ns: f64) -> String {
    if ns == 0.0 {
        return "0 s".to_owned();
    }
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Returns a claim as one sentence, without its interval.
pub fn claim_sentence(finding: &Finding) -> String {
    let place = place_name(finding);
    let value = finding.amount.value;
    match finding.claim {
        Claim::HoldsCost => {
            let place = path_end(&finding.place).unwrap_or(place);
            match finding.amount.relative_to {
                AmountBase::ProfileDifference => {
                    format!("{place} is {} of the difference", percent(value))
                }
                _ => format!("{place} has {} of the cost", percent(value)),
            }
        }
        Claim::WorthSpeedup => format!(
            "making {} makes the program up to {} faster",
            made_faster(finding, &place),
            percent(value)
        ),
        Claim::SpeedupHurts => format!(
            "making {} makes the program up to {} slower: its threads get in each other's way",
            made_faster(finding, &place),
            percent(-value)
        ),
        Claim::SpeedupWorthless => {
            format!("making {} changes nothing", made_faster(finding, &place))
        }
        Claim::SpeedupUnclear => format!(
            "inconclusive: the experiments do not tell what making {} is worth",
            made_faster(finding, &place)
        ),
        Claim::LosesTime => format!(
            "threads lose {} of their time in {place} to each other",
            percent(value)
        ),
        Claim::TakesTime => time_sentence(finding, &place),
        Claim::Changed => format!("{place} costs {value:.2} times what it did"),
        Claim::Varies => format!(
            "{place} varies from run to run by {} of what it usually takes",
            percent(value)
        ),
        Claim::Stalls => {
            let most = match finding.amount.certainty {
                Certainty::UpperBound => "at most ",
                _ => "",
            };
            format!(
                "waits at {place} take {most}{} of its procedure's time",
                percent(value)
            )
        }
    }
}

/// Returns the sentence about the time of a place.
fn time_sentence(finding: &Finding, place: &str) -> String {
    let part = percent(finding.amount.value);
    if let Some(taker) = finding.cpu_taken_by() {
        return match taker {
            CpuTaker::OwnThreads { allowed, online } => format!(
                "{part} of the time: threads wait for a CPU, as the program may use {allowed} of {online}"
            ),
            CpuTaker::Nobody => format!(
                "{part} of the time: threads wait for a CPU that is idle: a CPU limit of the control group, or CPUs that wake up slowly"
            ),
            other => format!(
                "other programs: this run waited {part} of its time for a CPU that {} had; times are longer than alone",
                taker_name(other)
            ),
        };
    }
    let spent = spent_phrase(finding);
    match &finding.place.what {
        PlaceInCode::Program => format!("{part} of the time: {spent}"),
        _ => {
            let held = holds_up(finding).unwrap_or_default();
            format!("{part} of the time in {place}: {spent}{held}")
        }
    }
}

/// Returns the subject that experiments made faster: a place, or its waits.
fn made_faster(finding: &Finding, place: &str) -> String {
    let call = finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::SpedUpWaits { call } => Some(call),
        _ => None,
    });
    match call {
        Some(call) => format!("the waiting in {call} at {place} shorter"),
        None => format!("{place} faster"),
    }
}

/// Returns the activity that takes most of the time (swapping with its reason), and a second one
/// that takes nearly the same.
pub fn spent_phrase(finding: &Finding) -> String {
    let mut spent = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            FindingEvidence::TimeSpent { on, part } => Some((*on, *part)),
            _ => None,
        });
    let Some((most, _)) = spent.next() else {
        return String::new();
    };
    let waits_for_locks = spent
        .clone()
        .any(|(on, part)| on == TimeKind::Locks && part >= CONTENDED);
    if waits_for_locks || is_measured_contention(finding) {
        return TimeKind::Locks.phrase().to_owned();
    }
    let phrase = most.phrase();
    let need = finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::MemoryShort { need } => Some(*need),
        _ => None,
    });
    match need.filter(|_| most == TimeKind::Swapping) {
        Some(need) => format!("{phrase}: {}", need_phrase(need)),
        None => match spent.find(|(_, part)| *part >= AS_MUCH) {
            Some((second, _)) => format!("{phrase} and {}", second.phrase()),
            None => phrase.to_owned(),
        },
    }
}

/// Returns whether a place is locking and unlocking, for which threads lose time to each other.
/// Threads that contend spin and wake each other, even where they hardly wait.
fn is_measured_contention(finding: &Finding) -> bool {
    let mut evidence = finding.evidence.iter();
    let is_contended = evidence.any(
        |one| matches!(one, FindingEvidence::LossCause { cause, .. } if cause.is_contention()),
    );
    is_contended && finding.place.what.name() == LOCKING
}

/// Returns the phrase that others of the program wait for the place, if they do.
fn holds_up(finding: &Finding) -> Option<&'static str> {
    finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::HoldsUp { on, .. } => Some(match on {
            Some(TimeKind::Locks) => " while others wait for its lock",
            Some(TimeKind::Barriers) => " while others wait for it at a barrier",
            _ => " while others wait for it",
        }),
        _ => None,
    })
}

/// Returns the name of the holder of a CPU.
pub(crate) fn taker_name(by: &CpuTaker) -> String {
    match by {
        CpuTaker::OtherProgram { name } => name.clone(),
        CpuTaker::OtherMachines => "other machines on the same host".to_owned(),
        CpuTaker::OwnThreads { .. } => "its own threads".to_owned(),
        CpuTaker::Nobody => "nobody".to_owned(),
    }
}

/// Returns the words after "woken by".
fn ender_name(by: &EndingThread) -> String {
    let thread = if by.is_own {
        format!("thread {}", by.thread)
    } else {
        format!("another program, {}", by.thread)
    };
    match &by.function {
        Some(function) => format!("{} ({thread})", short_name(function)),
        None => thread,
    }
}

/// Returns the reason why a program swaps, as the end of a sentence.
fn need_phrase(need: MemoryNeed) -> String {
    let (needed, allowed) = (megabytes(need.needed_bytes), megabytes(need.allowed_bytes));
    match need.limit_of {
        MemoryLimit::ControlGroup => {
            format!("it needs {needed}, and its control group may have {allowed}")
        }
        MemoryLimit::Machine => {
            format!("it needs {needed}, and this machine has {allowed} for all programs")
        }
    }
}

/// Returns the advice against swapping.
fn need_advice(need: MemoryNeed) -> String {
    let elsewhere = match need.limit_of {
        MemoryLimit::ControlGroup => "let its control group have more",
        MemoryLimit::Machine => "leave it more of the machine's",
    };
    format!(
        "{} of its memory were swapped out: touch less at a time, or {elsewhere}",
        megabytes(need.swapped_bytes)
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}
