//! Lines of evidence below a claim.

use super::interference::cause_phrase;
use super::names::{ALL_OF_IT, place_name, short_name};
use super::{ender_name, need_advice, percent, taker_name};
use profile::{
    AmountBase, Claim, Finding, FindingDoubt, FindingEvidence, PlaceInCode, TimeKind,
    UNNAMED_PROCEDURE,
};

/// Least part of a place shared with other findings that is reported.
const LEAST_SHARED: f64 = 0.001;
/// Largest distance of the ends of a stall's share with which it is reported: a wider one says
/// nothing.
const WIDEST_STALL: f64 = 0.3;
/// Culprits of stalls that time alone cannot distinguish.
const MEMORY_LATENCY: [&str; 2] = ["D-cache miss", "DTLB miss"];

/// Returns the line about the gain of a speedup of the place, or of the end of the contention in
/// it; `None` if unknown.
pub fn speedup_line(finding: &Finding) -> Option<String> {
    let end = |value: f64| percent(value).trim_end_matches(" %").to_owned();
    let contention = finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::ContentionLoss { part, interval } => Some((*part, *interval)),
        _ => None,
    });
    if let Some((part, [low, high])) = contention {
        return Some(format!(
            "without contention: threads need {} less time [{}, {}] (measured)",
            percent(part),
            end(low),
            end(high)
        ));
    }
    let speedup = finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::VirtualSpeedup {
            of,
            free,
            interval,
            measured_at,
        } => Some((of, *free, *interval, measured_at)),
        _ => None,
    });
    let (of, free, [low, high], measured_at) = speedup?;
    let what = match of {
        AmountBase::Period(point) => format!("time for each {point}"),
        AmountBase::Latency(point) => format!("latency of {point}"),
        _ => "run".to_owned(),
    };
    let change = if free < 0.0 { "longer" } else { "shorter" };
    let at = match measured_at {
        Some(at) => format!("{} (measured)", short_name(at)),
        None => "here".to_owned(),
    };
    Some(format!(
        "2x as fast {at}: {what} {} {change}   free: {} [{}, {}]",
        percent(free.abs() / 2.0),
        percent(free),
        end(low),
        end(high),
    ))
}

/// Returns the hottest line of the place's function, as `file:line`.
pub fn hottest_line(finding: &Finding) -> Option<&str> {
    finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::DearLine { line, .. } => Some(line.as_str()),
        _ => None,
    })
}

/// Returns the lines of evidence for a claim, the strongest first, without evidence that does not
/// narrow down the cause.
pub fn evidence_lines(finding: &Finding) -> Vec<String> {
    let evidence = &finding.evidence;
    let grouped = [
        callees_line(finding),
        parts_line(evidence, "allocations", |one| match one {
            FindingEvidence::AllocatedBy { function, part } => Some((short_name(function), *part)),
            _ => None,
        }),
        nameless_line(finding),
    ];
    let mut lines: Vec<String> = grouped.into_iter().flatten().collect();
    let place = place_name(finding);
    let is_new = |one: &&FindingEvidence| match one {
        FindingEvidence::OnBehalfOf { function, .. } => !place.starts_with(&short_name(function)),
        _ => true,
    };
    lines.extend(evidence.iter().filter(is_new).filter_map(single_line));
    lines.extend(stall_line(evidence));
    lines.extend(parts_line(evidence, "woken by", |one| match one {
        // A device or a timer says nothing of what to change.
        FindingEvidence::WaitEnded { by, part } if !by.thread.starts_with('[') => {
            Some((ender_name(by), *part))
        }
        _ => None,
    }));
    lines.extend(parts_line(evidence, "CPU had by", |one| match one {
        FindingEvidence::CpuTaken { by, part } => Some((taker_name(by), *part)),
        _ => None,
    }));
    lines.extend(causes_line(evidence));
    lines.extend(kinds_line(evidence));
    lines.extend(evidence.iter().filter_map(|one| match one {
        FindingEvidence::CountedElsewhere { part } if *part >= LEAST_SHARED => {
            Some(format!("{} more is in other findings", percent(*part)))
        }
        _ => None,
    }));
    lines
}

/// Returns why a place stands where it stands in the order of `run`.
pub fn rank_line(finding: &Finding) -> Option<String> {
    if finding.claim != Claim::TakesTime {
        return None;
    }
    let least = percent(finding.saving());
    Some(match speedup_line(finding) {
        Some(_) => format!("ranked by what it saves at least: {least}"),
        None => format!("ranked by its least part of the time, {least}: its saving is not known"),
    })
}

/// Returns the reasons why a claim may be wrong, without a doubt that is always there.
pub fn doubt_lines(finding: &Finding) -> Vec<String> {
    let doubts = finding.doubts.iter();
    let lines = doubts.filter_map(|doubt| match doubt {
        FindingDoubt::OneRun => None,
        FindingDoubt::IntervalHoldsZero => {
            Some("the experiments do not tell yet whether it gains anything".to_owned())
        }
        FindingDoubt::ShortPhase { part } => Some(format!(
            "it runs in {} of the time only: the amount was scaled",
            percent(*part)
        )),
        FindingDoubt::FrequentMeetings { .. } => {
            Some("threads wait for each other more often than delays can follow".to_owned())
        }
        FindingDoubt::UnsureFrequency => {
            Some("the execution frequency of the code is not known well".to_owned())
        }
    });
    lines.collect()
}

/// Returns the line of evidence that needs no other evidence.
fn single_line(one: &FindingEvidence) -> Option<String> {
    let line = match one {
        FindingEvidence::OnBehalfOf { function, part } if *part >= ALL_OF_IT => {
            format!("called from {}", short_name(function))
        }
        FindingEvidence::OnBehalfOf { function, part } => {
            format!("called from {} ({})", short_name(function), percent(*part))
        }
        FindingEvidence::SparedBy { change } => format!("spared by {change}"),
        FindingEvidence::HoldsUp { waiting, on, part } => format!(
            "others wait for it: {} most, {} of the time{}",
            short_name(waiting),
            percent(*part),
            on.map_or(String::new(), |on| format!(" ({})", on.phrase())),
        ),
        FindingEvidence::WorksAlone { part } => format!(
            "one thread works here while no other one does: {} of the run",
            percent(*part)
        ),
        FindingEvidence::MemoryShort { need } => need_advice(*need),
        FindingEvidence::CallCost { contexts, .. } => match contexts {
            1 => "1 calling context".to_owned(),
            contexts => format!("{contexts} calling contexts"),
        },
        FindingEvidence::SampleCounts { before, after, q } => {
            let q = q.map_or(String::new(), |q| format!(", q {q:.3}"));
            format!("{before} samples before, {after} after{q}")
        }
        FindingEvidence::Experiments {
            experiments,
            visits,
            ..
        } => format!("{experiments} experiments, {visits} visits"),
        FindingEvidence::SpedUpWaits { call } => {
            format!("its waits in {call} were sped up, not its running")
        }
        FindingEvidence::Executions { calls, mean_ns } => {
            format!("{calls} calls, {mean_ns:.0} ns each")
        }
        _ => return None,
    };
    Some(line)
}

/// Returns named parts in one line, in their order.
fn parts_line(
    evidence: &[FindingEvidence],
    what: &str,
    part_of: impl Fn(&FindingEvidence) -> Option<(String, f64)>,
) -> Option<String> {
    let parts = evidence.iter().filter_map(part_of);
    let words: Vec<String> = parts
        .map(|(name, part)| format!("{name} {}", percent(part)))
        .collect();
    (!words.is_empty()).then(|| format!("{what}: {}", words.join(", ")))
}

fn callees_line(finding: &Finding) -> Option<String> {
    let what = match finding.spent_on() {
        Some(TimeKind::Swapping) => "touched by",
        _ => "callees",
    };
    parts_line(&finding.evidence, what, |one| match one {
        FindingEvidence::TimeCalling { function, part } => Some((short_name(function), *part)),
        _ => None,
    })
}

/// Returns the kinds of time at a place, if there are several.
fn kinds_line(evidence: &[FindingEvidence]) -> Option<String> {
    let is_kind = |one: &&FindingEvidence| matches!(one, FindingEvidence::TimeSpent { .. });
    if evidence.iter().filter(is_kind).count() < 2 {
        return None;
    }
    parts_line(evidence, "its time", |one| match one {
        FindingEvidence::TimeSpent { on, part } => Some((on.phrase().to_owned(), *part)),
        _ => None,
    })
}

/// Returns the file of a function that is known by its address alone, and how to get its name.
fn nameless_line(finding: &Finding) -> Option<String> {
    let PlaceInCode::CallPath { path } = &finding.place.what else {
        return None;
    };
    // The image is that of the function that asked the kernel.
    let is_kernel =
        |name: &&String| name.ends_with(profile::KERNEL_CALL) || *name == profile::PAGE_FAULT;
    let function = path.iter().rev().find(|name| !is_kernel(name))?;
    let image = finding.place.image.as_ref()?;
    function.starts_with(UNNAMED_PROCEDURE).then(|| {
        format!("functions of {image} have no names: its debug symbols, installed or by DEBUGINFOD_URLS, give them")
    })
}

/// Returns the hottest instruction with its cause, if the code leaves one.
fn stall_line(evidence: &[FindingEvidence]) -> Option<String> {
    let hot = evidence.iter().find_map(|one| match one {
        FindingEvidence::HotInstruction {
            procedure,
            address,
            line,
            part,
        } => Some((procedure, *address, line, *part)),
        _ => None,
    });
    let (procedure, address, line, part) = hot?;
    let at = line.clone().unwrap_or_else(|| format!("{address:#x}"));
    let cause = stall_cause(evidence).map_or(String::new(), |cause| format!(": {cause}"));
    Some(format!(
        "hottest instruction: {at}, {} of {}{cause}",
        percent(part),
        short_name(procedure)
    ))
}

/// Returns the only possible cause of a stall; `None` if several can explain all of it.
fn stall_cause(evidence: &[FindingEvidence]) -> Option<String> {
    let possible: Vec<(&str, f64, f64)> = evidence
        .iter()
        .filter_map(|one| match one {
            FindingEvidence::StallCulprit {
                culprit,
                least,
                most,
            } => Some((culprit.as_str(), *least, *most)),
            _ => None,
        })
        .collect();
    let is_memory = |culprit: &str| MEMORY_LATENCY.contains(&culprit);
    match possible.as_slice() {
        [(only, ..)] => Some((*only).to_owned()),
        [_, _] if possible.iter().all(|(culprit, ..)| is_memory(culprit)) => {
            Some("memory latency (cache or TLB: not told apart)".to_owned())
        }
        several => {
            let narrow = several
                .iter()
                .find(|(_, least, most)| *least > 0.0 && most - least <= WIDEST_STALL * most);
            narrow.map(|(culprit, ..)| (*culprit).to_owned())
        }
    }
}

/// Names the causes by which threads lose time to each other, each once.
fn causes_line(evidence: &[FindingEvidence]) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for one in evidence {
        if let FindingEvidence::LossCause { cause, shared_line } = one {
            let name = cause_phrase(*cause, shared_line.as_ref());
            if !named.contains(&name) {
                named.push(name);
            }
        }
    }
    (!named.is_empty()).then(|| format!("threads lose time to each other: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{AmountUnit, CauseKind, Certainty, FindingAmount, FindingPlace};

    /// Each traced function of a path names its cause. The reader gets each cause once.
    #[test]
    fn a_cause_is_named_once() {
        let cause = |cause| FindingEvidence::LossCause {
            cause,
            shared_line: None,
        };
        let evidence = [
            cause(CauseKind::Lock),
            cause(CauseKind::Disk),
            cause(CauseKind::Lock),
        ];
        let expected = "threads lose time to each other: lock contention, disk wait";
        assert_eq!(causes_line(&evidence).as_deref(), Some(expected));
        assert_eq!(causes_line(&[]), None);
    }

    /// The order is by the saving, or by the part of the time where no saving is known.
    #[test]
    fn a_rank_names_what_orders() {
        let mut finding = Finding {
            claim: Claim::TakesTime,
            place: FindingPlace {
                image: None,
                what: PlaceInCode::Program,
            },
            amount: FindingAmount {
                value: 0.3,
                interval: Some([0.25, 0.35]),
                unit: AmountUnit::Fraction,
                relative_to: AmountBase::WorkingTime,
                certainty: Certainty::Measured,
            },
            evidence: Vec::new(),
            doubts: Vec::new(),
            next: Vec::new(),
        };
        let by_time = "ranked by its least part of the time, 25 %: its saving is not known";
        assert_eq!(rank_line(&finding).as_deref(), Some(by_time));
        finding.evidence.push(FindingEvidence::ContentionLoss {
            part: 0.5,
            interval: [0.4, 0.6],
        });
        let by_saving = "ranked by what it saves at least: 40 %";
        assert_eq!(rank_line(&finding).as_deref(), Some(by_saving));
        finding.claim = Claim::HoldsCost;
        assert_eq!(rank_line(&finding), None);
    }

    #[test]
    fn a_stall_has_one_cause_or_none() {
        let culprit = |name: &str, least, most| FindingEvidence::StallCulprit {
            culprit: name.to_owned(),
            least,
            most,
        };
        let cause = |evidence: &[FindingEvidence]| stall_cause(evidence);
        let cache = culprit("D-cache miss", 0.0, 0.8);
        let table = culprit("DTLB miss", 0.0, 0.8);
        let chain = culprit("Dependency chain", 0.0, 0.8);
        assert_eq!(
            cause(std::slice::from_ref(&chain)),
            Some("Dependency chain".into())
        );
        let both = [cache.clone(), table.clone()];
        assert!(cause(&both).is_some_and(|said| said.starts_with("memory latency")));
        assert_eq!(cause(&[cache, table, chain]), None);
    }
}
