//! Result of a run, as text.

use super::result::{CommandEnd, LeftProcess, RunResult};
use crate::commands::wrapped;
use crate::output::shell_words;
use crate::output::{clean_name, format_ns, shorten_middle};
use crate::times::time_line;
use analysis::judgement::SAID_FIRST;
use profile::{
    CauseKind, Certainty, CpuTaker, Finding, FindingDoubt, FindingEvidence, KERNEL_CALL,
    PAGE_FAULT, PlaceInCode, TimeKind, UNNAMED_PROCEDURE, short_name,
};
use results::IdleKind;
use std::io::{self, Write};

/// Columns of a path.
const WIDTH: usize = 76;

/// Processes left behind that are named.
const MOST_LEFT: usize = 3;
/// Causes of lost time that a finding lists, and the part of the loss from which on they are worth it.
const MOST_CAUSES: usize = 3;
const LEAST_CAUSE: f64 = 0.05;
/// The part that other findings have of a place, from which on it is said.
const LEAST_SHARED: f64 = 0.001;

/// Writes the report.
pub fn write_report(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", time_line(&result.times_alone()))?;
    write_end(result, out)?;
    if result.claims.findings().next().is_some_and(is_of_machine) {
        writeln!(
            out,
            "\nthe machine is the problem: it had other work, which disturbs all that was measured"
        )?;
    }
    for (number, finding) in (1..).zip(result.claims.findings()) {
        write_finding(number, finding, out)?;
    }
    match result.few_samples {
        Some(samples) => write_few(samples, out)?,
        None => write_rest(result, out)?,
    }
    for (kind, ns) in &result.idle_ns {
        let whom = idle_phrase(*kind);
        writeln!(
            out,
            "no loss: {} in all threads waiting {whom}",
            format_ns(*ns as f64)
        )?;
    }
    write_asked(result, out)
}

/// Returns whether so much of the time is a wait for CPUs that others had that it is said before everything else.
fn is_of_machine(finding: &Finding) -> bool {
    let strangers = finding.cpu_taken_by().is_some_and(CpuTaker::is_stranger);
    strangers && finding.amount.value >= SAID_FIRST
}

fn write_few(samples: u64, out: &mut dyn Write) -> io::Result<()> {
    let samples = match samples {
        1 => "1 sample or wait is".to_owned(),
        more => format!("{more} samples and waits are"),
    };
    writeln!(
        out,
        "\n{samples} too few to say where the time goes: give it more work"
    )
}

/// Says what the findings that are shown leave out.
fn write_rest(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    let is_wait = |finding: &Finding| finding.spent_on() == Some(TimeKind::NoCpu);
    let waits = result.claims.findings().filter(|f| is_wait(f)).count();
    if result.findings_total == waits {
        writeln!(
            out,
            "\nnothing here is worth your time: no place has {:.0} % of it for sure",
            100.0 * analysis::judgement::LEAST
        )?;
    }
    let more = result
        .findings_total
        .saturating_sub(result.claims.list.len());
    if more > 0 {
        writeln!(out, "\n{more} more with --all")?;
    }
    let rest = (1.0 - result.together).clamp(0.0, 1.0);
    let without = if waits > 0 {
        ", without waiting for a CPU"
    } else {
        ""
    };
    let together = match result.findings_total == waits {
        true => String::new(),
        false => format!(
            "all of these together{without}: at most {:.0} %\n",
            100.0 - 100.0 * rest
        ),
    };
    writeln!(
        out,
        "\n{together}everything else: {:.0} % of the working time ({} in all threads), of it waiting {:.0} %",
        100.0 * rest,
        format_ns(result.working_ns),
        100.0 * result.rest_waiting.min(rest),
    )
}

/// Says how the command ended, if that may be the reason why it did less than it should have.
fn write_end(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    match result.ended_by {
        Some(CommandEnd::Code(code)) => writeln!(
            out,
            "the command ended with exit code {code}: what follows is of what it did until then"
        )?,
        Some(CommandEnd::Signal(signal)) => writeln!(
            out,
            "{} ended the command: what follows is of what it did until then",
            wrapped::signal_words(signal)
        )?,
        Some(CommandEnd::Unfinished) => writeln!(
            out,
            "the command had not ended when the time was over: what follows is of that part (--for gives more)"
        )?,
        Some(CommandEnd::Stopped) => writeln!(
            out,
            "the command had not ended when you stopped it: what follows is of what it did until then"
        )?,
        None => {}
    }
    for process in result.left_running.iter().take(MOST_LEFT) {
        let LeftProcess { pid, name } = process;
        let name = clean_name(name);
        writeln!(
            out,
            "it left process {pid} ({name}) running, whose time is not here: vitalfew run -p {pid} measures that"
        )?;
    }
    Ok(())
}

fn write_asked(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    for asked in &result.asked {
        let method = clean_name(&asked.method);
        match (&asked.had, &asked.why_not) {
            (Some(had), None) => writeln!(out, "{method}: {}", clean_name(had))?,
            (Some(had), Some(why)) => {
                writeln!(
                    out,
                    "{method}: {}, and no answer: {}",
                    clean_name(had),
                    clean_name(why)
                )?;
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("not asked");
                writeln!(out, "{method}: not asked: {}", clean_name(why))?;
            }
        }
    }
    Ok(())
}

fn write_finding(number: usize, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let amount = &finding.amount;
    let interval = amount.interval.map_or(String::new(), |[low, high]| {
        format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high)
    });
    let kind = match amount.certainty {
        Certainty::Measured => "about",
        Certainty::UpperBound => "at most",
        Certainty::Prediction => "by experiments",
    };
    writeln!(
        out,
        "\n{number}  {}\n   worth {kind} {:.1} %{interval}",
        clean_name(&finding.sentence()),
        100.0 * amount.value,
    )?;
    if let Some(gain) = gain_line(finding) {
        writeln!(out, "   {}", clean_name(&gain))?;
    }
    if let PlaceInCode::CallPath { path } = &finding.place.what
        && path.len() > 1
    {
        let path = clean_name(&path.join(" > "));
        writeln!(out, "   {}", shorten_middle(&path, WIDTH))?;
    }
    for line in nameless_line(finding)
        .into_iter()
        .chain(evidence_lines(finding))
    {
        writeln!(out, "   {}", clean_name(&line))?;
    }
    if !finding.next.is_empty() {
        writeln!(out, "   next: {}", clean_name(&shell_words(&finding.next)))?;
    }
    Ok(())
}

/// Says of which file a function is that is known by its address alone, and what names it.
fn nameless_line(finding: &Finding) -> Option<String> {
    let PlaceInCode::CallPath { path } = &finding.place.what else {
        return None;
    };
    // The image is that of the function which asked the kernel.
    let is_kernel = |name: &&String| name.ends_with(KERNEL_CALL) || *name == PAGE_FAULT;
    let function = path.iter().rev().find(|name| !is_kernel(name))?;
    let image = finding.place.image.as_ref()?;
    function.starts_with(UNNAMED_PROCEDURE).then(|| {
        format!("functions of {image} have no names: its debug symbols, installed or by DEBUGINFOD_URLS, give them")
    })
}

/// Bounds of what a change there gains.
fn gain_line(finding: &Finding) -> Option<String> {
    let mut evidence = finding.evidence.iter();
    let gain = evidence.find_map(|evidence| match evidence {
        FindingEvidence::RunGain {
            interval,
            with,
            spared,
        } => Some((interval, with, spared)),
        _ => None,
    });
    let ([low, high], with, spared) = gain?;
    let spared = spared.map_or(String::new(), |spared| {
        format!(
            "; the lower end assumes that it spares {:.0} % of the place",
            100.0 * spared
        )
    });
    let with = with.as_ref().map_or(String::new(), |with| {
        format!(", if {} does none of its work any more", short_name(with))
    });
    Some(format!(
        "a change there makes the run {:.0} to {:.0} % shorter{with}{spared}",
        100.0 * low,
        100.0 * high
    ))
}

fn evidence_lines(finding: &Finding) -> Vec<String> {
    let mut lines = Vec::new();
    let spent = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            FindingEvidence::TimeSpent { on, part } => {
                Some(format!("{} {:.0} %", on.phrase(), 100.0 * part))
            }
            _ => None,
        });
    let spent: Vec<String> = spent.collect();
    if spent.len() > 1 {
        lines.push(spent.join(", "));
    }
    lines.extend(name_called(finding));
    lines.extend(name_allocators(&finding.evidence));
    for evidence in &finding.evidence {
        match evidence {
            FindingEvidence::HotInstruction {
                procedure,
                address,
                line,
                part,
            } => lines.push(format!(
                "slowest there: {} at {address:#x}{}, {:.0} % of its time: {}",
                short_name(procedure),
                line.as_ref()
                    .map_or(String::new(), |line| format!(" ({line})")),
                100.0 * part,
                name_culprits(finding),
            )),
            FindingEvidence::CountedElsewhere { part } if *part >= LEAST_SHARED => {
                lines.push(format!(
                    "another {:.1} % there is counted in other findings",
                    100.0 * part
                ));
            }
            FindingEvidence::OnBehalfOf { function, part } => {
                let function = short_name(function);
                lines.push(format!("{:.0} % of it on behalf of {function}", 100.0 * part));
            }
            FindingEvidence::SparedBy { change } => lines.push(format!("spared by {change}")),
            FindingEvidence::DearLine { line, part } => lines.push(format!(
                "dearest line there: {line}, {:.0} % of its function",
                100.0 * part
            )),
            FindingEvidence::HoldsUp { waiting, on, part } => lines.push(format!(
                "others wait until it goes on: {waiting} most, {:.0} % of the working time in all{}",
                100.0 * part,
                on.map_or(String::new(), |on| format!(", {}", on.phrase())),
            )),
            FindingEvidence::WorksAlone { part } => lines.push(format!(
                "one thread runs it while no other one works: {:.0} % of the run at least",
                100.0 * part
            )),
            FindingEvidence::CpuTaken { by, part } => {
                lines.push(format!("{:.0} % by {}", 100.0 * part, name_taker(by)));
            }
            FindingEvidence::MemoryShort { need } => lines.push(need.advice()),
            FindingEvidence::Experiments {
                experiments,
                visits,
                slope: [slope, low, high],
                ..
            } => lines.push(format!(
                "experiments: {experiments}, {visits} visits; each percent faster there makes the program {slope:.2} % [{low:.2}, {high:.2}] faster"
            )),
            _ => {}
        }
    }
    lines.extend(name_all_stalls(&finding.evidence));
    lines.extend(name_enders(&finding.evidence));
    lines.extend(name_causes(&finding.evidence));
    if finding.doubts.contains(&FindingDoubt::IntervalHoldsZero) {
        lines.push("the experiments do not tell yet whether it gains anything".to_owned());
    }
    lines
}

/// The libraries' functions that a place calls.
fn name_called(finding: &Finding) -> Option<String> {
    let called = finding.evidence.iter();
    let called = called.filter_map(|evidence| match evidence {
        FindingEvidence::TimeCalling { function, part } => {
            Some(format!("{} {:.0} %", short_name(function), 100.0 * part))
        }
        _ => None,
    });
    let called: Vec<String> = called.collect();
    let how = match finding.spent_on() {
        Some(TimeKind::Swapping) => "touched by",
        _ => "of that in functions that it calls:",
    };
    (!called.is_empty()).then(|| format!("{how} {}", called.join(", ")))
}

/// Names the functions whose allocations are collected, with their shares.
fn name_allocators(evidence: &[FindingEvidence]) -> Option<String> {
    let allocators = evidence.iter().filter_map(|evidence| match evidence {
        FindingEvidence::AllocatedBy { function, part } => {
            Some(format!("{} {:.0} %", short_name(function), 100.0 * part))
        }
        _ => None,
    });
    let allocators: Vec<String> = allocators.collect();
    (!allocators.is_empty()).then(|| format!("allocations by {}", allocators.join(", ")))
}

/// Names who ended the waits, with their shares.
fn name_enders(evidence: &[FindingEvidence]) -> Option<String> {
    let enders = evidence.iter().filter_map(|evidence| match evidence {
        FindingEvidence::WaitEnded { by, part } => {
            Some(format!("{} {:.0} %", by.phrase(), 100.0 * part))
        }
        _ => None,
    });
    let enders: Vec<String> = enders.collect();
    (!enders.is_empty()).then(|| format!("waits there ended by {}", enders.join("; ")))
}

/// Names the causes by which threads lose time to each other, the largest first. Of a cause that several traced functions
/// name, the largest share stands.
fn name_causes(evidence: &[FindingEvidence]) -> Option<String> {
    let mut named: Vec<(CauseKind, f64, bool)> = Vec::new();
    for evidence in evidence {
        let FindingEvidence::SuspectedCause {
            cause,
            share,
            measured,
        } = evidence
        else {
            continue;
        };
        match named.iter_mut().find(|(known, ..)| known == cause) {
            Some((_, largest, seen)) => {
                *largest = largest.max(*share);
                *seen |= measured;
            }
            None => named.push((*cause, *share, *measured)),
        }
    }
    named.retain(|(_, share, _)| *share >= LEAST_CAUSE);
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = named.iter().take(MOST_CAUSES).map(|(cause, share, seen)| {
        let sure = if *seen { "seen" } else { "possible" };
        format!("{} ({:.0} %, {sure})", cause.label(), 100.0 * share)
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| {
        format!(
            "threads lose time to each other there: {}",
            words.join("; ")
        )
    })
}

/// The reasons of a stall that were not ruled out.
fn name_culprits(finding: &Finding) -> String {
    let named = finding.evidence.iter().filter_map(|e| match e {
        FindingEvidence::StallCulprit { culprit, .. } => Some(culprit.as_str()),
        _ => None,
    });
    let named: Vec<&str> = named.collect();
    match named.as_slice() {
        [] => "no reason known".to_owned(),
        named => named.join(" or "),
    }
}

/// Names what explains more of the place's stalls than those of its slowest instruction.
fn name_all_stalls(evidence: &[FindingEvidence]) -> Option<String> {
    let sums = evidence.iter().filter_map(|evidence| match evidence {
        FindingEvidence::StallSum {
            culprit,
            least,
            most,
        } => Some(format!(
            "{culprit} {:.0} to {:.0} %",
            100.0 * least,
            100.0 * most
        )),
        _ => None,
    });
    let sums: Vec<String> = sums.collect();
    (!sums.is_empty()).then(|| format!("in all of its instructions: {}", sums.join(", ")))
}

fn name_taker(by: &CpuTaker) -> String {
    match by {
        CpuTaker::OtherProgram { name } => format!("{name}, another program"),
        CpuTaker::OtherMachines => {
            "other machines on the same host, by the time that the hypervisor took".to_owned()
        }
        CpuTaker::OwnThreads { .. } => "its own threads".to_owned(),
        CpuTaker::Nobody => {
            "nobody: a limit of its control group, or CPUs that wake up slowly".to_owned()
        }
    }
}

fn idle_phrase(kind: IdleKind) -> &'static str {
    match kind {
        IdleKind::Requests => "for requests",
        IdleKind::Threads => "for other threads",
        IdleKind::Processes => "for other processes",
        IdleKind::Terminal => "for a terminal",
        IdleKind::Cpus => "for the program's own threads, which used all CPUs",
        IdleKind::Turn => "for their next turn",
        IdleKind::Profiler => "for vitalfew, which measured",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each traced function of a path says its causes; the reader gets each once, with the largest part.
    #[test]
    fn a_cause_is_named_once() {
        let cause = |cause, share, measured| FindingEvidence::SuspectedCause {
            cause,
            share,
            measured,
        };
        let evidence = [
            cause(CauseKind::Lock, 0.2, true),
            cause(CauseKind::Scheduler, 0.3, false),
            cause(CauseKind::Lock, 0.6, false),
            cause(CauseKind::Core, 0.01, false),
        ];
        let expected = format!(
            "threads lose time to each other there: {} (60 %, seen); {} (30 %, possible)",
            CauseKind::Lock.label(),
            CauseKind::Scheduler.label()
        );
        assert_eq!(name_causes(&evidence), Some(expected));
        assert_eq!(name_causes(&[]), None);
    }
}
