//! Result of a run as text: one screen of lines in fixed columns.

use crate::output::{clean_name, database_option, format_ns, shell_words, shorten_middle};
use crate::wrapped;
use orchestration::{CommandEnd, LeftProcess, RunResult};
use profile::Finding;
use results::phrases::{hottest_line, percent, place_name, spent_phrase};
use results::{IdleKind, JsonClaim};
use std::io::{self, Write};

/// Widths of a place's name, and of its source line, in columns.
const NAME_WIDTH: usize = 38;
const LINE_WIDTH: usize = 22;
/// Width of a call path, in columns.
const PATH_WIDTH: usize = 76;
/// Maximum number of evidence lines of a finding without --verbose.
const EVIDENCE_LINES: usize = 2;
/// Maximum number of processes left running that are named.
const MOST_LEFT: usize = 3;

/// Writes the report. `verbose` shows all evidence.
pub fn write_report(result: &RunResult, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    if let Some(machine) = &result.machine {
        writeln!(out, "{}", clean_name(&machine.sentence))?;
    }
    writeln!(out, "{}", result.header)?;
    if let Some(limited) = &result.limited_rights {
        writeln!(out, "{}", clean_name(limited))?;
    }
    write_end(result, out)?;
    for (number, claim) in (1..).zip(&result.claims.list) {
        write_finding(number, claim, verbose, out)?;
    }
    match result.few_samples {
        Some(samples) => write_few(samples, result.limited_rights.is_some(), out)?,
        None => write_rest(result, out)?,
    }
    if verbose {
        write_idle(result, out)?;
    }
    write_asked(result, verbose, out)?;
    write_next(result, out)
}

fn write_few(samples: u64, is_limited: bool, out: &mut dyn Write) -> io::Result<()> {
    let samples = match samples {
        1 => "1 sample or wait is".to_owned(),
        more => format!("{more} samples and waits are"),
    };
    let advice = if is_limited {
        "it ran too little, and what it waited for was not measured"
    } else {
        "give it more work"
    };
    writeln!(
        out,
        "\n{samples} too few to say where the time goes: {advice}"
    )
}

/// Writes the part of the time that the shown findings leave out.
fn write_rest(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    let least = percent(analysis::judgement::LEAST);
    if result.findings_total == 0 {
        return writeln!(
            out,
            "\nnothing above {least} for certain: the time is spread over many places"
        );
    }
    let more = result
        .findings_total
        .saturating_sub(result.claims.list.len());
    let more = match more {
        0 => format!("no place above {least}"),
        more => format!("{more} more with --all"),
    };
    let rest = (1.0 - result.together).clamp(0.0, 1.0);
    writeln!(out, "\neverything else {}, {more}", percent(rest))
}

/// Writes how the command ended, if its end may be the reason for less work than expected.
fn write_end(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    match result.ended_by {
        Some(CommandEnd::Code(code)) => {
            writeln!(
                out,
                "the command ended with exit code {code}; measured until then"
            )?;
        }
        Some(CommandEnd::Signal(signal)) => writeln!(
            out,
            "{} ended the command; measured until then",
            wrapped::signal_words(signal)
        )?,
        Some(CommandEnd::Unfinished) => writeln!(
            out,
            "the command had not ended when the time was over; measured until then (--for gives more)"
        )?,
        Some(CommandEnd::Stopped) => {
            writeln!(
                out,
                "you stopped it before the command ended; measured until then"
            )?;
        }
        None => {}
    }
    for process in result.left_running.iter().take(MOST_LEFT) {
        let LeftProcess { pid, name } = process;
        let name = clean_name(name);
        writeln!(
            out,
            "it left process {pid} ({name}) running, which was not measured: vitalfew run -p {pid}"
        )?;
    }
    Ok(())
}

/// Writes the methods that had no answer, with the reason. A program with one thread at work does
/// not need some methods. Only `verbose` writes these, and the methods that had an answer.
fn write_asked(result: &RunResult, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for asked in &result.asked {
        let method = clean_name(&asked.method);
        let had = asked.had.as_deref().map(clean_name);
        match (had, asked.why_not.as_deref().map(clean_name)) {
            (Some(had), None) if verbose => writeln!(out, "{method}: {had}")?,
            (Some(had), Some(why)) => writeln!(out, "{method}: {had}, and no answer: {why}")?,
            (None, Some(why)) if verbose || result.threads_at_work > 1 => {
                writeln!(out, "{method}: not asked: {why}")?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_finding(
    number: usize,
    claim: &JsonClaim,
    verbose: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let finding = &claim.finding;
    let name = match finding.place.what {
        profile::PlaceInCode::Program => "the program".to_owned(),
        _ => clean_name(&place_name(finding)),
    };
    let line = hottest_line(finding).map_or(String::new(), short_line);
    let interval = finding.amount.interval.filter(|_| verbose);
    let interval = interval.map_or(String::new(), |[low, high]| {
        format!(" [{}, {}]", percent(low), percent(high))
    });
    writeln!(
        out,
        "\n{number}  {name:NAME_WIDTH$} {line:LINE_WIDTH$} {:>5}  {}{interval}",
        percent(finding.amount.value),
        clean_name(&spent_phrase(finding)),
    )?;
    if let Some(speedup) = &claim.speedup {
        writeln!(out, "   {}", clean_name(speedup))?;
    }
    let path = path_line(finding).filter(|_| verbose);
    let count = if verbose { usize::MAX } else { EVIDENCE_LINES };
    let lines = claim.lines.iter().take(count).cloned();
    let doubts = claim.doubt_lines.iter().chain(&claim.rank);
    let doubts = doubts.filter(|_| verbose).cloned();
    for line in path.into_iter().chain(lines).chain(doubts) {
        writeln!(out, "   {}", clean_name(&line))?;
    }
    Ok(())
}

/// Returns a source line with its file name instead of its path.
fn short_line(line: &str) -> String {
    clean_name(line.rsplit('/').next().unwrap_or(line))
}

fn path_line(finding: &Finding) -> Option<String> {
    match &finding.place.what {
        profile::PlaceInCode::CallPath { path } if path.len() > 1 => {
            Some(shorten_middle(&clean_name(&path.join(" > ")), PATH_WIDTH))
        }
        _ => None,
    }
}

/// Writes the commands that show more. They use the last result if none is named.
fn write_next(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = result.claims.findings().next() else {
        return Ok(());
    };
    // A command that runs the program again keeps all words. The program's path is one of them.
    let runs_program = first.next.iter().any(|word| word == "--");
    let words = first.next.iter();
    let words = words.take_while(|word| runs_program || !word.starts_with('/'));
    let words: Vec<String> = words.cloned().collect();
    let next = clean_name(&shell_words(&words));
    let database = database_option();
    let again = if runs_program { "" } else { &database };
    writeln!(
        out,
        "next: vitalfew serve{database} (source, flame graph) · {next}{again}"
    )
}

fn write_idle(result: &RunResult, out: &mut dyn Write) -> io::Result<()> {
    for (kind, ns) in &result.idle_ns {
        let whom = idle_phrase(*kind);
        let ns = format_ns(*ns as f64);
        writeln!(out, "idle: {ns} in all threads, waiting {whom}")?;
    }
    Ok(())
}

fn idle_phrase(kind: IdleKind) -> &'static str {
    match kind {
        IdleKind::Requests => "for requests",
        IdleKind::Threads => "for other threads",
        IdleKind::Processes => "for other processes",
        IdleKind::Terminal => "for a terminal",
        IdleKind::Cpus => "for the program's own threads, which used all CPUs",
        IdleKind::Turn => "for their next turn",
        IdleKind::Profiler => "for the profiler",
    }
}
