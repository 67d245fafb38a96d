//! `vitalfew interference report` as text.

use super::load::image;
use super::shown_report::ShownBlocks;
use super::solo_text::{self, percents, wrapped};
use crate::output::{
    Align, Table, clean_name, count_noun, format_ns, group_digits, shorten_middle,
};
use profile::{
    BlockScore, Cause, Coverage, DoubtKind, EventScore, Floor, Interference, Level, Quality,
    RunEnd, SequenceScore, SoloVerdict, Standing, TracedCpuUser,
};
use std::io::Write;

/// Least score that is worth a look, as in the paper (§5.5).
const WORTH_A_LOOK: f64 = 0.1;

/// Writes the report.
pub fn write(report: &ShownBlocks<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let result = report.result;
    writeln!(
        out,
        "{} of {} by {} of {}, {}{}",
        count_noun(result.executions, "execution"),
        count_noun(result.findings.len() as u64, "function"),
        count_noun(result.threads, "thread"),
        shorten_middle(&clean_name(&result.command.join(" ")), 60),
        format_ns(result.duration_ns),
        match result.end {
            RunEnd::Exited(0) | RunEnd::Unknown => String::new(),
            RunEnd::Exited(code) => format!("; it exited with {code}"),
            RunEnd::Signalled(signal) => format!("; signal {signal} ended it"),
            RunEnd::Stopped => "; it had not ended".into(),
        }
    )?;
    solo_text::write(&result.solo, report.all, out)?;
    machine(result, out)?;
    let is_measured = result.solo.verdict != SoloVerdict::NotMeasured;
    if !result.findings.is_empty() && !is_measured {
        none(result, out)?;
    }
    let listed = |finding: &&BlockScore| report.all || is_listed(finding);
    let listed: Vec<&BlockScore> = report.shown.iter().filter(listed).collect();
    for (number, finding) in listed.iter().enumerate() {
        writeln!(out)?;
        block(report, number + 1, finding, out)?;
    }
    if !report.all {
        others(result, out)?;
    }
    if report.all {
        sequences(report, out)?;
        left_out(report, out)?;
    }
    writeln!(out)?;
    let more = result.findings.len() - listed.len();
    if more > 0 {
        writeln!(out, "{} more with --all", group_digits(more as u64))?;
    }
    let left = result.left_out.len();
    if left > 0 && !report.all {
        writeln!(
            out,
            "{} left out: why with --all",
            group_digits(left as u64)
        )?;
    }
    writeln!(out, "next: {}", next(report))
}

/// Returns whether other threads slow it down, or several threads wait in it for busy ones.
fn is_listed(finding: &BlockScore) -> bool {
    matches!(
        finding.score.standing,
        Standing::Interference | Standing::ForWork
    )
}

/// Least share of the threads' time that is reported as lost to the machine.
const BUSY: f64 = 0.01;

/// Writes the time that threads lost to other processes and to limits: it belongs to this machine and moment, not to the program.
fn machine(result: &Interference, out: &mut impl Write) -> std::io::Result<()> {
    let machine = &result.machine;
    let part = |ns: f64| ns / result.thread_time_ns.max(1.0);
    if part(machine.taken_ns) >= BUSY {
        let all: u64 = machine.others.iter().map(|user| user.ns).sum();
        let user = |user: &TracedCpuUser| {
            let share = 100.0 * user.ns as f64 / all.max(1) as f64;
            match user.pid {
                // None that this PID namespace has a number for.
                0 => format!("{} (outside of this container) {share:.0}%", user.name),
                pid => format!("{} (process {pid}) {share:.0}%", user.name),
            }
        };
        let users: Vec<String> = machine.others.iter().take(NAMED).map(user).collect();
        let text = format!(
            "other processes had the CPUs for which threads were ready for {} ({:.1}% of their time): {}; measure on an idle machine",
            format_ns(machine.taken_ns),
            100.0 * part(machine.taken_ns),
            users.join(", ")
        );
        wrapped("! ", &clean_name(&text), out)?;
    }
    if let Some(limit) = &machine.limit
        && part(machine.throttled_ns) >= BUSY
    {
        let text = format!(
            "threads were ready for {} ({:.1}% of their time) while the control group {} had used up its CPU time",
            format_ns(machine.throttled_ns),
            100.0 * part(machine.throttled_ns),
            limit.group
        );
        wrapped("! ", &clean_name(&text), out)?;
    }
    Ok(())
}

/// Says so if nothing is worth a look.
fn none(result: &Interference, out: &mut impl Write) -> std::io::Result<()> {
    let worth = |finding: &BlockScore| match finding.score.standing {
        Standing::Interference => {
            finding.score.hindered.min(finding.score.sci.high) >= WORTH_A_LOOK
        }
        Standing::ForWork => finding.score.sci.high >= WORTH_A_LOOK,
        _ => false,
    };
    if result.findings.iter().any(worth) {
        return Ok(());
    }
    let found = match result.findings.iter().any(is_listed) {
        true => "little interference found",
        false => "no interference found",
    };
    let text = format!(
        "{found}: in no function do threads lose {WORTH_A_LOOK} of their time to each other"
    );
    wrapped("", &text, out)
}

/// Largest number of functions that are named in a line.
const NAMED: usize = 6;

/// Writes the functions that have a score but no interference, as far as can be told: a line for each reason.
fn others(result: &Interference, out: &mut impl Write) -> std::io::Result<()> {
    let reasons = [
        (
            Standing::Machine,
            "had no CPU, because other processes or the limit of a control group took it",
        ),
        (
            Standing::Varies,
            "executions differ, and nothing says that other threads are the reason",
        ),
        (
            Standing::Outside,
            "waits for what comes from outside of the program",
        ),
        (
            Standing::Idle,
            "waits because it was asked to, or has nothing to do",
        ),
    ];
    let mut first = true;
    for (standing, reason) in reasons {
        if standing == Standing::Varies && result.solo.verdict != SoloVerdict::NotMeasured {
            continue;
        }
        let all = result
            .findings
            .iter()
            .filter(|f| f.score.standing == standing);
        let all: Vec<&BlockScore> = all.collect();
        let name = |finding: &&BlockScore| {
            let name = shorten_middle(&clean_name(&finding.name), 60);
            format!("{name} ({:.2})", finding.score.sci.estimate)
        };
        let mut names: Vec<String> = all.iter().take(NAMED).map(name).collect();
        if names.is_empty() {
            continue;
        }
        if all.len() > NAMED {
            names.push(format!("{} more", all.len() - NAMED));
        }
        if std::mem::take(&mut first) {
            writeln!(out, "\nno interference, as far as can be told (SCI):")?;
        }
        wrapped("   ", &format!("{}: {reason}", names.join(", ")), out)?;
    }
    Ok(())
}

fn block(
    report: &ShownBlocks<'_>,
    number: usize,
    finding: &BlockScore,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let name = shorten_middle(&clean_name(&finding.name), 80);
    writeln!(out, "{number}. {name}  {}", clean_name(image(finding)))?;
    let solo = finding.solo.as_ref().filter(|solo| solo.is_claimed);
    match solo {
        Some(solo) => {
            let text = format!(
                "alone, its executions take {} less time",
                percents(solo.loss)
            );
            wrapped("   ", &text, out)?;
        }
        None => score(report, finding, out)?,
    }
    let calls = format!(
        "{} calls by {} threads, mean {}, median {}, 99% {}, longest {}",
        group_digits(finding.executions.calls),
        group_digits(finding.threads_total),
        format_ns(finding.durations.mean_ns),
        format_ns(finding.durations.median_ns),
        format_ns(finding.durations.p99_ns),
        format_ns(finding.durations.max_ns)
    );
    wrapped("   ", &calls, out)?;
    if solo.is_none() {
        let known = floor(&finding.floor) + &coverage(&finding.coverage);
        wrapped("   ", &format!("floor {known}"), out)?;
    }
    causes(report, finding, out)?;
    events(report, finding, out)?;
    let doubts = finding.doubts.iter().filter(|_| solo.is_none());
    for doubt in doubts {
        wrapped("   ! ", &clean_name(&doubt.text), out)?;
    }
    same(report, finding, out)?;
    let stacks = if report.all { usize::MAX } else { 1 };
    for stack in finding.stacks.iter().take(stacks) {
        let frames: Vec<String> = stack.frames.iter().take(6).map(|f| clean_name(f)).collect();
        wrapped("   from ", &frames.join(" < "), out)?;
    }
    if report.all {
        kinds(finding, out)?;
    }
    if report.thread {
        threads(finding, out)?;
    }
    Ok(())
}

/// Writes the loss as durations say.
fn score(
    report: &ShownBlocks<'_>,
    finding: &BlockScore,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let (sci, program) = (finding.score.sci, finding.score.program);
    let percent = |x: f64| format!("{:.1}%", 100.0 * x);
    writeln!(
        out,
        "   SCI {:.2} [{:.2}, {:.2}]; the program loses {} [{}, {}]{}",
        sci.estimate,
        sci.low,
        sci.high,
        percent(program.estimate),
        percent(program.low),
        percent(program.high),
        split(report, finding)
    )
}

/// Names the callers that have the same loss, or the function that the loss comes from.
fn same(
    report: &ShownBlocks<'_>,
    finding: &BlockScore,
    out: &mut impl Write,
) -> std::io::Result<()> {
    if let Some(name) = &finding.score.same_as {
        return wrapped(
            "   ",
            &format!("the same loss as {}", clean_name(name)),
            out,
        );
    }
    let callers = report.result.findings.iter();
    let callers = callers.filter(|other| other.score.same_as.as_ref() == Some(&finding.name));
    let callers: Vec<String> = callers
        .take(NAMED)
        .map(|other| shorten_middle(&clean_name(&other.name), 60))
        .collect();
    match callers.is_empty() {
        true => Ok(()),
        false => wrapped(
            "   ",
            &format!("the same loss in what calls it: {}", callers.join(", ")),
            out,
        ),
    }
}

/// Returns what threads did while the time was lost.
fn split(report: &ShownBlocks<'_>, finding: &BlockScore) -> String {
    if !report.result.waits || finding.score.sci.estimate < 0.005 {
        return String::new();
    }
    let part = |part: f64| 100.0 * part / finding.score.sci.estimate;
    // Where other programs take the CPUs, what is left is what the program's own threads do.
    let left = match part(finding.breakdown.scheduler) >= 10.0 {
        true => format!(
            "\n   without waiting for a CPU: SCI {:.2}, mean {}",
            finding.score.sci.estimate - finding.breakdown.scheduler,
            format_ns(finding.durations.mean_with_cpu_ns)
        ),
        false => String::new(),
    };
    format!(
        "\n   of that: {:.0}% blocked, {:.0}% ready without a CPU, {:.0}% running{left}",
        part(finding.breakdown.blocked),
        part(finding.breakdown.scheduler),
        part(finding.breakdown.running)
    )
}

/// The floor with its quality.
fn floor(floor: &Floor) -> String {
    let quality = match floor.quality {
        Quality::Good => "good",
        Quality::Fair => "fair",
        Quality::Doubtful => "doubtful",
    };
    let reasons = match floor.reasons.is_empty() {
        true => String::new(),
        false => format!(", {}", floor.reasons.join(", ")),
    };
    format!(
        "{} ({quality}: {} of {} executions within a tenth{reasons})",
        format_ns(floor.ns),
        group_digits(floor.near),
        group_digits(floor.n)
    )
}

/// Returns how much of the time could not be compared exactly.
fn coverage(coverage: &Coverage) -> String {
    let shares = [
        (coverage.collapsed, "loops of any length"),
        (coverage.arguments, "similar arguments"),
        (coverage.block, "all that is rarer"),
    ];
    let shares = shares.iter().filter(|(share, _)| *share >= 0.005);
    let shares: Vec<String> = shares
        .map(|(share, what)| format!("{what} {:.0}%", 100.0 * share))
        .collect();
    match shares.is_empty() {
        true => String::new(),
        false => format!("; compared as one: {}", shares.join(", ")),
    }
}

/// Writes the causes that the kernel saw.
fn causes(
    report: &ShownBlocks<'_>,
    finding: &BlockScore,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let seen = finding.causes.iter().filter(|cause| cause.measured);
    let most = if report.all { usize::MAX } else { 2 };
    let seen: Vec<&Cause> = seen.take(most).collect();
    for cause in &seen {
        let name = cause.kind.label();
        let share = 100.0 * cause.share;
        let text = format!("{name} ({share:.0}%): {}", cause.evidence.join("; "));
        wrapped("   cause: ", &clean_name(&text), out)?;
    }
    match seen.is_empty() && is_listed(finding) {
        true => writeln!(out, "   cause: not known"),
        false => Ok(()),
    }
}

/// Writes the events sampled in a function: those of which slow executions have more, unless a cause names them.
fn events(
    report: &ShownBlocks<'_>,
    finding: &BlockScore,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let said = |event: &EventScore| {
        let mut evidence = finding.causes.iter().flat_map(|cause| &cause.evidence);
        evidence.any(|words| words.contains(&event.name))
    };
    let more = |event: &EventScore| event.slow.is_some_and(|slow| slow.at_least > 1.0);
    let shown = |event: &&EventScore| report.all || more(event) && !said(event);
    let seen = finding.events.iter().filter(|event| event.samples > 0);
    let seen = seen.filter(shown);
    let seen = seen.map(|event| {
        let compared = event.slow.map_or(String::new(), |slow| {
            let most = slow
                .at_most
                .map_or("…".to_owned(), |most| format!("{most:.2}"));
            let times = slow
                .times
                .map_or(String::new(), |times| format!(" {times:.2}"));
            format!(
                " (in those that ran {:.1} times as long{times} [{:.2}, {most}] times as many)",
                slow.slower, slow.at_least
            )
        });
        format!("{} {}{compared}", amount(event.per_execution), event.name)
    });
    let seen: Vec<String> = seen.collect();
    if seen.is_empty() {
        return Ok(());
    }
    let text = format!("in each execution: {}", seen.join(", "));
    wrapped("   ", &clean_name(&text), out)
}

/// Three digits.
fn amount(value: f64) -> String {
    match value {
        100.0.. => group_digits(value.round() as u64),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

fn kinds(finding: &BlockScore, out: &mut impl Write) -> std::io::Result<()> {
    let columns = [
        "SCI",
        "calls",
        "mean",
        "floor",
        "what its executions have in common",
    ];
    let align = |at: usize| if at < 4 { Align::Right } else { Align::Left };
    let columns = columns.iter().enumerate();
    let mut table = Table::new(
        columns
            .map(|(at, c)| ((*c).to_owned(), align(at)))
            .collect(),
    );
    for kind in &finding.kinds {
        let level = match kind.level {
            Level::Exact => "the same calls inside",
            Level::Collapsed => "the same calls but for the length of loops",
            Level::Arguments => "arguments of the same magnitude",
            Level::Block => "nothing but the function",
        };
        let mut what = level.to_owned();
        if kind.inside == Some(0) {
            what = "no traced call inside".to_owned();
        }
        for (number, value) in &kind.arguments {
            what.push_str(&format!(", argument {number} {value:#x}"));
        }
        table.add_row(vec![
            format!("{:.2}", kind.sci),
            group_digits(kind.calls),
            format_ns(kind.mean_ns),
            format_ns(kind.floor.ns),
            what,
        ]);
    }
    indented(&table.render(), out)?;
    let more = finding
        .kinds_total
        .saturating_sub(finding.kinds.len() as u64);
    if more > 0 {
        writeln!(
            out,
            "     of {} kinds that were told apart",
            group_digits(finding.kinds_total)
        )?;
    }
    Ok(())
}

fn threads(finding: &BlockScore, out: &mut impl Write) -> std::io::Result<()> {
    let columns = [
        ("SCI", Align::Right),
        ("calls", Align::Right),
        ("shortest", Align::Right),
        ("thread", Align::Left),
    ];
    let mut table = Table::new(columns.iter().map(|(c, a)| ((*c).to_owned(), *a)).collect());
    for thread in &finding.threads {
        table.add_row(vec![
            format!("{:.2}", thread.sci),
            group_digits(thread.calls),
            format_ns(thread.min_ns),
            format!("{} {}", thread.tid, clean_name(&thread.name)),
        ]);
    }
    indented(&table.render(), out)
}

fn indented(text: &str, out: &mut impl Write) -> std::io::Result<()> {
    text.lines()
        .try_for_each(|line| writeln!(out, "     {line}"))
}

/// Sequences of two calls.
fn sequences(report: &ShownBlocks<'_>, out: &mut impl Write) -> std::io::Result<()> {
    // What passes between the two is what the program does when it does nothing traced.
    let of_calls = |s: &&SequenceScore| s.program >= 0.005 && s.between < 0.5 * s.program;
    let all = report.result.sequences.iter().filter(of_calls);
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\none call after the other, from the entry of the first to the leave of the second:"
    )?;
    for one in all {
        writeln!(
            out,
            "  {}, {}: {} times, mean {}, floor {}; the program loses {:.1}%, {:.1}% between the two",
            shorten_middle(&clean_name(&one.first), 40),
            shorten_middle(&clean_name(&one.second), 40),
            group_digits(one.calls),
            format_ns(one.mean_ns),
            format_ns(one.floor_ns),
            100.0 * one.program,
            100.0 * one.between
        )?;
    }
    Ok(())
}

fn left_out(report: &ShownBlocks<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let left_out = &report.result.left_out;
    if left_out.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nleft out:")?;
    for one in left_out {
        writeln!(out, "  {}: {}", clean_name(&one.name), clean_name(&one.why))?;
    }
    Ok(())
}

/// The command to type next.
fn next(report: &ShownBlocks<'_>) -> String {
    let file = match report.file.as_str() {
        "" => String::new(),
        file => format!(" {}", clean_name(file)),
    };
    let doubted = report.shown.iter().filter(|finding| finding.solo.is_none());
    let mut doubts = doubted.flat_map(|finding| {
        let doubts = finding.doubts.iter();
        doubts.map(move |doubt| (finding, doubt))
    });
    let argument = doubts.find(|(_, doubt)| doubt.kind == DoubtKind::Argument);
    let number = |text: &str| {
        text.rsplit('=')
            .next()
            .map(|end| end.trim_end_matches('\'').to_owned())
    };
    if let Some((finding, doubt)) = argument
        && let Some(number) = number(&doubt.text)
    {
        return format!(
            "vitalfew interference report{file} --args '{}={number}'    compare like with like",
            clean_name(&finding.name)
        );
    }
    if report.shown.is_empty() {
        return "vitalfew interference run -f FUNCTION -- COMMAND    other functions (-p PID of a process)".to_owned();
    }
    format!("vitalfew interference report{file} --curves curves.svg    all durations, sorted")
}
