//! What intervals alone say, as text.

use crate::output::{Align, Table, clean_name, count_noun, group_digits, shorten_middle};
use crate::screen::{terminal_width, wrap_paragraph};
use profile::{Between, SoloBlock, SoloLoss, SoloReport, SoloVerdict};
use std::io::Write;

/// Columns of a line at most.
const WIDTH: usize = 100;
/// Functions that are listed.
const MOST: usize = 12;

/// Writes how fast threads are beside what they are alone, and where they lose it; `all`: also what is within the method's error.
pub fn write(solo: &SoloReport, all: bool, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(says) = says(solo) {
        wrapped("", &says, out)?;
    }
    if solo.verdict == SoloVerdict::Dependence {
        return Ok(());
    }
    // Of a function with several locks each lock has a row.
    let has_locks = |block: &SoloBlock| {
        let of_lock = |row: &SoloBlock| row.lock.is_some() && row.name == block.name;
        block.lock.is_none() && solo.blocks.iter().any(of_lock)
    };
    let is_lost = |block: &SoloBlock| block.loss.is_claimed;
    let listed = |block: &&SoloBlock| (all || is_lost(block)) && !has_locks(block);
    let mut table = Table::new(vec![
        ("the program loses".to_owned(), Align::Right),
        ("of its own time".to_owned(), Align::Right),
        ("function".to_owned(), Align::Left),
    ]);
    let listed: Vec<&SoloBlock> = solo.blocks.iter().filter(listed).collect();
    for block in listed.iter().take(if all { usize::MAX } else { MOST }) {
        let lock = block.lock.map(|lock| format!("  lock 0x{lock:x}"));
        let name = shorten_middle(&clean_name(&block.name), 60);
        table.add_row(vec![
            percents(block.loss.loss),
            format!("{:.0} %", 100.0 * block.loss.loss.estimate / block.share),
            format!("{name}{}", lock.unwrap_or_default()),
        ]);
    }
    match listed.is_empty() {
        true => Ok(()),
        false => write!(out, "{}", table.render()),
    }
}

/// Returns what is found, in a sentence; `None`: no thread was to be held.
fn says(solo: &SoloReport) -> Option<String> {
    let threads = count_noun(solo.threads.round() as u64, "thread");
    let stuck = group_digits(solo.stuck);
    let intervals = count_noun(solo.intervals, "interval");
    Some(match (solo.verdict, &solo.program) {
        (SoloVerdict::Interference, Some(program)) => {
            format!("{threads}: each runs at {}", speed(program))
        }
        (SoloVerdict::NotFound, Some(program)) => {
            format!("{threads}: no loss found; each runs at {}", speed(program))
        }
        (SoloVerdict::Dependence, Some(_)) if solo.stuck == 0 => format!(
            "{threads} that depend on each other: alone, each is slower. That is dependence, not interference"
        ),
        (SoloVerdict::Dependence, _) => format!(
            "{threads} that depend on each other: alone, a thread came to a halt in {stuck} of {intervals}. That is dependence, not \
             interference"
        ),
        (SoloVerdict::OneThread, _) => {
            "one thread is busy at a time: none slows another one down, and none was held"
                .to_owned()
        }
        _ => match &solo.refused {
            Some(reason) => {
                format!("no thread ran alone, so losses are guessed from durations: {reason}")
            }
            None if solo.intervals + solo.given_up > 0 => format!(
                "too few executions ended in {intervals} alone ({} given up): losses are guessed from durations",
                group_digits(solo.given_up)
            ),
            None => return None,
        },
    })
}

fn speed(program: &SoloLoss) -> String {
    let Between {
        estimate,
        low,
        high,
    } = program.loss;
    let percent = |loss: f64| 100.0 * (1.0 - loss);
    format!(
        "{:.0} % of the speed that it has alone ({:.0} to {:.0})",
        percent(estimate),
        percent(high),
        percent(low)
    )
}

/// Returns a loss in percent, with its interval.
pub(super) fn percents(loss: Between) -> String {
    let [estimate, low, high] = [loss.estimate, loss.low, loss.high].map(|part| 100.0 * part);
    format!("{estimate:.0} % ({low:.0} to {high:.0})")
}

/// Writes a paragraph with a hanging indent.
pub(super) fn wrapped(first: &str, text: &str, out: &mut impl Write) -> std::io::Result<()> {
    let width = terminal_width().unwrap_or(WIDTH).min(WIDTH);
    write!(out, "{}", wrap_paragraph(first, text, width))
}
