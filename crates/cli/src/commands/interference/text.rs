//! `vitalfew interference report` as text.

use super::args::Shown;
use crate::output::{
    Align, Table, clean_name, count_noun, format_ns, group_digits, shorten_middle,
};
use crate::screen::{terminal_width, wrap_paragraph};
use profile::known_code::KnownOperation;
use profile::{CauseKind, FunctionLoss, FunctionWaits, Interference, RunEnd, TracedFunction};
use results::phrases::{
    LEAST_PART, function_cause, machine_sentences, other_functions, percent_interval,
    verdict_sentence, whole_percent,
};
use std::io::Write;

/// Maximum width of a line, in columns.
const WIDTH: usize = 100;
/// Width of a function's name in a table, in columns.
const NAME: usize = 50;
/// Maximum number of callers, and of threads, that are named for a function.
const DETAILS: usize = 4;

/// Writes the report of a result. `file` is its path, or empty if the user did not name one.
pub fn write(
    result: &Interference,
    shown: &Shown,
    file: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{}, {}, {}, {} of {}{}",
        shorten_middle(&clean_name(&result.command.join(" ")), 60),
        format_ns(result.duration_ns),
        count_noun(result.threads, "thread"),
        count_noun(result.executions, "execution"),
        count_noun(result.functions.len() as u64, "function"),
        match result.end {
            RunEnd::Exited(0) | RunEnd::Unknown => String::new(),
            RunEnd::Exited(code) => format!("; it exited with {code}"),
            RunEnd::Signalled(signal) => format!("; signal {signal} ended it"),
            RunEnd::Stopped => "; it had not ended".into(),
        }
    )?;
    for sentence in machine_sentences(&result.machine, result.thread_time_ns) {
        wrapped("", &clean_name(&sentence), out)?;
    }
    wrapped("", &clean_name(&verdict_sentence(&result.solo)), out)?;
    losses(result, shown, out)?;
    waits(result, shown, out)?;
    if shown.all {
        functions(result, out)?;
        left_out(result, out)?;
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "next: {}", next(file))
}

/// Writes the functions in which the program loses time, and the locks of functions with several.
fn losses(result: &Interference, shown: &Shown, out: &mut impl Write) -> std::io::Result<()> {
    let mut table = Table::new(vec![
        ("lost".to_owned(), Align::Right),
        ("of its time".to_owned(), Align::Right),
        ("function".to_owned(), Align::Left),
        ("cause".to_owned(), Align::Left),
    ]);
    let mut rows = 0;
    let mut add = |loss: &FunctionLoss, name: String, cause: &str| {
        if !loss.solo.is_claimed || (rows >= shown.limit && !shown.all) {
            return;
        }
        rows += 1;
        let of_own = (loss.solo.loss.estimate / loss.share).min(1.0);
        table.add_row(vec![
            percent_interval(loss.solo.loss),
            whole_percent(of_own),
            name,
            cause.to_owned(),
        ]);
    };
    if let Some(contention) = &result.contention {
        let name = shorten_middle(&clean_name(&contention.function), NAME);
        let name = match other_functions(contention) {
            None => name,
            Some(others) => format!("{name} {others}"),
        };
        add(&contention.loss, name, contention.cause.label());
    }
    for function in &result.functions {
        let is_contended = function.cause.is_some_and(CauseKind::is_contention);
        if is_contended && result.contention.is_some() && !shown.all {
            continue;
        }
        let cause = clean_name(&function_cause(function));
        let name = shorten_middle(&clean_name(&function.name), NAME);
        if let Some(loss) = &function.loss {
            add(loss, name.clone(), &cause);
        }
        for lock in &function.locks {
            add(
                &lock.loss,
                format!("{name}, lock 0x{:x}", lock.address),
                &cause,
            );
        }
    }
    if rows == 0 {
        return Ok(());
    }
    writeln!(out)?;
    write!(out, "{}", table.render())
}

/// Writes the waits of threads for each other, and for disks and networks.
fn waits(result: &Interference, shown: &Shown, out: &mut impl Write) -> std::io::Result<()> {
    let mut all: Vec<(&TracedFunction, &FunctionWaits)> = Vec::new();
    for function in &result.functions {
        let own = function.waits.iter().filter(|waits| {
            let part = waits.ns / result.thread_time_ns.max(1.0);
            let is_end = KnownOperation::Join.has_function(&function.name);
            is_shown(waits) && !is_end && part >= LEAST_PART || shown.all
        });
        all.extend(own.map(|waits| (function, waits)));
    }
    all.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns));
    let mut table = Table::new(vec![
        ("waiting".to_owned(), Align::Right),
        ("waits".to_owned(), Align::Right),
        ("function".to_owned(), Align::Left),
        ("for".to_owned(), Align::Left),
    ]);
    let count = if shown.all { usize::MAX } else { shown.limit };
    for (function, waits) in all.iter().take(count) {
        table.add_row(vec![
            whole_percent(waits.ns / result.thread_time_ns.max(1.0)),
            group_digits(waits.waits),
            shorten_middle(&clean_name(&function.name), NAME),
            reason(waits),
        ]);
    }
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    write!(out, "{}", table.render())
}

/// Returns whether waits get a line: waits that a thread asked for do not.
fn is_shown(waits: &FunctionWaits) -> bool {
    match waits.kind {
        CauseKind::Sleep | CauseKind::OtherWait => false,
        CauseKind::Pool => !waits.ended_by.is_empty(),
        _ => true,
    }
}

/// Returns the label of waits, with the function whose threads ended most of them.
fn reason(waits: &FunctionWaits) -> String {
    let label = waits.kind.label();
    let Some(first) = waits.ended_by.first() else {
        return label.to_owned();
    };
    let by = match (&first.function, &first.thread) {
        (Some(function), _) => shorten_middle(&clean_name(function), NAME),
        (None, Some(thread)) => format!("thread {}", clean_name(thread)),
        (None, None) => return label.to_owned(),
    };
    format!("{label}, ended by {by}")
}

/// Writes all functions with their threads and callers.
fn functions(result: &Interference, out: &mut impl Write) -> std::io::Result<()> {
    for function in &result.functions {
        writeln!(out)?;
        let file = function.image.rsplit('/').next().unwrap_or(&function.image);
        let every = if function.period > 1 {
            format!(", one in {} recorded", group_digits(function.period.into()))
        } else {
            String::new()
        };
        writeln!(
            out,
            "{} ({})",
            shorten_middle(&clean_name(&function.name), WIDTH - 20),
            clean_name(file)
        )?;
        let text = format!(
            "{}{every}, {} each, {} at most; {}",
            count_noun(function.calls, "call"),
            format_ns(function.mean_ns),
            format_ns(function.max_ns),
            count_noun(function.threads_total, "thread")
        );
        wrapped("   ", &text, out)?;
        let threads = function.threads.iter().take(DETAILS).map(|thread| {
            format!(
                "{} ({}) {} in {}",
                clean_name(&thread.name),
                thread.tid,
                format_ns(thread.total_ns),
                count_noun(thread.calls, "call")
            )
        });
        let threads: Vec<String> = threads.collect();
        wrapped("   by ", &threads.join(", "), out)?;
        for stack in function.stacks.iter().take(DETAILS) {
            let frames: Vec<String> = stack.frames.iter().map(|f| clean_name(f)).collect();
            let text = format!("{}: {}", format_ns(stack.mean_ns), frames.join(" < "));
            wrapped("   from ", &text, out)?;
        }
    }
    Ok(())
}

fn left_out(result: &Interference, out: &mut impl Write) -> std::io::Result<()> {
    if result.left_out.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nleft out:")?;
    for function in &result.left_out {
        let text = format!(
            "{}: {}",
            clean_name(&function.name),
            clean_name(&function.why)
        );
        wrapped("   ", &text, out)?;
    }
    Ok(())
}

/// Returns the command to type next.
fn next(file: &str) -> String {
    let file = match file {
        "" => String::new(),
        file => format!(" {}", clean_name(file)),
    };
    format!("vitalfew interference report{file} --all    every function, with threads and callers")
}

/// Writes a paragraph with a hanging indent.
fn wrapped(first: &str, text: &str, out: &mut impl Write) -> std::io::Result<()> {
    let width = terminal_width().unwrap_or(WIDTH).min(WIDTH);
    write!(out, "{}", wrap_paragraph(first, text, width))
}
