//! The listing of a procedure (the paper's Figure 2).

use super::cycles::{actual_text, amount_text, executions_text};
use crate::output::{clean_name, group_digits, shell_words, shorten_middle};
use crate::screen::{terminal_width, warn_user, wrap_sentence};
use analysis::stall::culprits::{Account, Cause, Culprit, Static};
use machine::{Instruction, Limit};
use profile::Target;
use results::annotation::{AnnotatedProcedure, AnnotationSetting, FrequencyBasis, UsedLines};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use symbols::ImageSymbols;

/// Blocks with less than this share of the procedure's samples are left out.
const LEAST: f64 = 0.005;

/// Number of blocks that are always shown.
const FEW: usize = 10;

/// Maximum width of an instruction, in characters.
const WIDEST: usize = 44;

/// Minimum width of an instruction in a narrow terminal, and width of the row's other columns, in
/// characters.
const NARROWEST: usize = 24;
const BESIDE: usize = 56;

/// Stalls of fewer cycles have no bubble.
const BUBBLE: f64 = 0.3;

/// Source files, each read once.
#[derive(Default)]
pub struct SourceFiles(BTreeMap<String, Vec<String>>);

impl SourceFiles {
    /// Returns the shortened text of a line, if the file can be read.
    pub fn line_text(&mut self, file: &str, line: u32) -> Option<String> {
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            let read = std::fs::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&read);
            text.lines().map(str::to_owned).collect()
        });
        let line = lines.get((line as usize).checked_sub(1)?)?.trim();
        Some(shorten_middle(&clean_name(line), 60))
    }
}

/// The source line of each instruction.
#[derive(Default)]
pub struct Lines(Vec<Option<String>>);

impl Lines {
    /// Finds the lines by the debug information, with the text if the source file exists.
    pub fn of(code: &ImageSymbols, analysed: &AnnotatedProcedure) -> Self {
        let debug = match code.debug_info() {
            Ok(Some(debug)) => debug,
            Ok(None) => {
                warn_user(&format!(
                    "{} has no debug information",
                    code.path().display()
                ));
                return Self::default();
            }
            Err(error) => {
                warn_user(&format!("{error}; no lines"));
                return Self::default();
            }
        };
        let mut files = SourceFiles::default();
        let of = |instruction: &Instruction| {
            let frames = debug.source_frames(instruction.address, None).ok()?;
            let frame = frames.into_iter().next()?;
            let (file, line) = (frame.file?, frame.line?);
            let short = file.rsplit('/').next().unwrap_or(&file);
            Some(match files.line_text(&file, line) {
                Some(text) => format!("{}:{line} {text}", clean_name(short)),
                None => format!("{}:{line}", clean_name(short)),
            })
        };
        Self(analysed.graph.instructions.iter().map(of).collect())
    }
}

/// Writes the heading of the listing or summary.
pub fn write_head(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
) -> anyhow::Result<()> {
    let total = analysed.total_samples();
    writeln!(
        out,
        "{} in {}",
        clean_name(&analysed.name),
        clean_name(&analysed.image)
    )?;
    writeln!(
        out,
        "{} of {} samples of {} ({:.1}%), model {}",
        group_digits(total.round() as u64),
        group_digits(setting.total.round() as u64),
        setting.event,
        100.0 * total / setting.total,
        setting.model.processor().name
    )?;
    let records = analysed.contradictions.1;
    let basis = describe_basis(setting, analysed.basis, records);
    writeln!(out, "{}", wrap_sentence(&basis))?;
    Ok(())
}

/// Writes the heading of a profile's summary.
pub fn whole_head(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    procedures: usize,
    found: Option<(FrequencyBasis, u64)>,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "{} samples of {} in {procedures} procedures, model {}",
        group_digits(setting.total.round() as u64),
        setting.event,
        setting.model.processor().name
    )?;
    if let Some((found, records)) = found {
        let basis = describe_basis(setting, found, records);
        write!(out, "{}", wrap_sentence(&basis))?;
    }
    writeln!(out)?;
    Ok(())
}

/// Describes the source of the frequencies, with the number of stretches between branch records.
fn describe_basis(setting: &AnnotationSetting, basis: FrequencyBasis, records: u64) -> String {
    let estimated = match records {
        0 => "estimated".to_owned(),
        _ => format!(
            "estimated from {} stretches between branch records",
            group_digits(records)
        ),
    };
    let sample = || {
        let period = setting.period.unwrap_or(0.0);
        format!("a sample is {} cycles", group_digits(period as u64))
    };
    match basis {
        FrequencyBasis::Counts => format!("frequencies: exact counts; {}", sample()),
        FrequencyBasis::Lines(UsedLines { lines, used }) => format!(
            "frequencies: from the counts of {used} of {lines} source lines, whose code runs equally often; the rest {estimated}; {}",
            sample()
        ),
        FrequencyBasis::Instructions => format!(
            "frequencies: {estimated}, their scale from samples of instructions; {}",
            sample()
        ),
        FrequencyBasis::Bursts => format!(
            "frequencies: {estimated}, their scale from executions counted in bursts; {}",
            sample()
        ),
        FrequencyBasis::InOrder => "frequencies: estimated from the samples".to_owned(),
        FrequencyBasis::OutOfOrder => format!(
            "frequencies: {estimated}, without a scale: how blocks compare is known, cycles are not"
        ),
    }
}

/// Returns the command that gives a procedure's cycles, if its frequencies have no scale.
pub fn scale_advice(target: &Target, analysed: &AnnotatedProcedure) -> Option<String> {
    if analysed.basis != FrequencyBasis::OutOfOrder || !analysed.rates.is_empty() {
        return None;
    }
    let name = shell_words(std::slice::from_ref(&analysed.name));
    let of = match target {
        Target::Command(words) => format!("-- {}", shell_words(words)),
        Target::Process(pid) => format!("-p {pid}"),
        Target::Machine => "-p PID".to_owned(),
    };
    Some(format!(
        "only an exact count of one of its blocks gives cycles: vitalfew annotate --count {name} {of}"
    ))
}

/// Writes the listing.
pub fn write_listing(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
    lines: &Lines,
    all: bool,
) -> anyhow::Result<()> {
    let total = analysed.total_samples();
    let of = |block: &machine::Block| -> f64 {
        analysed.samples[block.instructions.clone()].iter().sum()
    };
    // At least the first few, if none has many samples.
    let mut sums: Vec<f64> = analysed.graph.blocks.iter().map(of).collect();
    sums.sort_by(|a, b| b.total_cmp(a));
    let few = sums.get(FEW - 1).copied().unwrap_or(0.0);
    let least = few.min(LEAST * total).max(f64::MIN_POSITIVE);
    let mut shown = 0;
    let mut legend = BTreeSet::new();
    let mut passed = (0, 0.0);
    for (index, block) in analysed.graph.blocks.iter().enumerate() {
        let sum = of(block);
        let fits = sum >= LEAST * total || sum >= least && shown < FEW;
        if !all && !fits {
            passed = (passed.0 + 1, passed.1 + sum);
            continue;
        }
        shown += 1;
        write_skipped(out, &mut passed, total)?;
        block_head(out, setting, analysed, index, sum)?;
        let mut last_line = None;
        for place in block.instructions.clone() {
            match &analysed.accounts[place] {
                Some(account) => write_bubbles(out, analysed, place, account, &mut legend)?,
                None if stands_out(analysed, block, place) => {
                    write_suspicion(out, analysed, place, &mut legend)?;
                }
                None => {}
            }
            let line = lines.0.get(place).and_then(Option::as_deref);
            let shown = line.filter(|line| last_line != Some(*line));
            last_line = line.or(last_line);
            write_instruction(out, analysed, place, shown.unwrap_or(""))?;
        }
        writeln!(out)?;
    }
    write_skipped(out, &mut passed, total)?;
    Ok(())
}

fn write_skipped(
    out: &mut impl Write,
    passed: &mut (usize, f64),
    total: f64,
) -> anyhow::Result<()> {
    let (blocks, samples) = std::mem::take(passed);
    if blocks > 0 {
        let share = 100.0 * samples / total;
        let s = if blocks == 1 { "" } else { "s" };
        writeln!(
            out,
            "... {blocks} block{s} with {share:.2}% of the samples (--all)\n"
        )?;
    }
    Ok(())
}

fn block_head(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
    index: usize,
    samples: f64,
) -> anyhow::Result<()> {
    let block = &analysed.graph.blocks[index];
    let count = block.instructions.len();
    let best: f64 = analysed.expected[block.instructions.clone()]
        .iter()
        .map(|one| one.minimum)
        .sum();
    let share = 100.0 * samples / analysed.total_samples();
    let depth =
        analysed.loops.innermost[index].map_or(0, |one| analysed.loops.loops[one].depth + 1);
    let nested = match depth {
        0 => String::new(),
        depth => format!(", loop depth {depth}"),
    };
    writeln!(
        out,
        "*** Block {index}: {:x}-{:x}, {share:.1}% of the samples{nested}",
        block.start.0, block.end.0
    )?;
    let model = &setting.model;
    let bounds = model.bounds(analysed.graph.instructions_of(block));
    let busiest = bounds
        .busiest
        .and_then(|index| model.resources().get(index));
    let bound = match bounds.limit() {
        _ if model.processor().in_order => String::new(),
        Limit::Issue => String::new(),
        Limit::FrontEnd => ", bound by the front end".to_owned(),
        Limit::Ports => format!(", bound by {}", busiest.map_or("ports", |one| one.name)),
    };
    writeln!(
        out,
        "*** Best-case {best:.1}/{count} = {:.2}CPI{}",
        best / count.max(1) as f64,
        bound
    )?;
    writeln!(
        out,
        "*** Actual    {}",
        actual_text(analysed, index, samples)
    )?;
    if let Some(executed) = executions_text(analysed, index) {
        writeln!(out, "*** Executed  {executed}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Returns whether an instruction has more than its share of its block's samples, if that alone
/// shows a stall.
fn stands_out(analysed: &AnnotatedProcedure, block: &machine::Block, place: usize) -> bool {
    let range = block.instructions.clone();
    let count = range.len().min(10) as f64;
    let all: f64 = analysed.samples[range].iter().sum();
    analysed.samples[place] * count >= all
}

/// Writes the bubble above an instruction with unknown cycles: its possible causes.
fn write_suspicion(
    out: &mut impl Write,
    analysed: &AnnotatedProcedure,
    place: usize,
    legend: &mut BTreeSet<char>,
) -> anyhow::Result<()> {
    let suspects = &analysed.suspects[place];
    let (letters, names) = named_causes(suspects);
    if letters.is_empty() {
        return Ok(());
    }
    bubble_line(out, &letters, "", &names, legend)?;
    write_accesses(out, analysed, suspects)
}

/// Returns the letters of causes, with their names.
fn named_causes(culprits: &[Culprit]) -> (String, Vec<(char, String)>) {
    let names = culprits.iter().map(|one| {
        let cause = one.cause;
        (cause.letter(), cause.name().to_lowercase())
    });
    let names: Vec<(char, String)> = names.collect();
    (names.iter().map(|(letter, _)| *letter).collect(), names)
}

/// Writes the bubbles above a stalled instruction: the possible causes, and for how long.
fn write_bubbles(
    out: &mut impl Write,
    analysed: &AnnotatedProcedure,
    place: usize,
    account: &Account,
    legend: &mut BTreeSet<char>,
) -> anyhow::Result<()> {
    // Out of order these stalls belong to the block, not to the instruction.
    let own = |(reason, cycles): &(Static, f64)| {
        *cycles >= BUBBLE && !matches!(reason, Static::FrontEnd | Static::Ports)
    };
    if let Some((reason, cycles)) = account.static_stall.filter(own) {
        let name = reason.name().to_lowercase();
        bubble_line(
            out,
            &reason.letter().to_string(),
            &format!(" ... {cycles:.1}cy"),
            &[(reason.letter(), name)],
            legend,
        )?;
    }
    if account.stall < BUBBLE.max(account.error) {
        return Ok(());
    }
    let (mut letters, mut names) = named_causes(&account.culprits);
    if account.unexplained >= 0.1 * account.stall {
        letters.push('?');
        names.push(('?', "unexplained".to_owned()));
    }
    let samples = analysed.samples[place];
    let stall = amount_text(samples, account.frequency, account.minimum, 1);
    let stall = format!(" ... {stall}cy");
    bubble_line(out, &letters, &stall, &names, legend)?;
    write_accesses(out, analysed, &account.culprits)
}

/// Writes the observed memory accesses of the suspects for a data miss.
fn write_accesses(
    out: &mut impl Write,
    analysed: &AnnotatedProcedure,
    culprits: &[Culprit],
) -> anyhow::Result<()> {
    let misses = |cause| matches!(cause, Cause::DataCache | Cause::DataTlb);
    let suspects = culprits.iter().filter(|one| misses(one.cause));
    let suspects: BTreeSet<usize> = suspects.flat_map(|one| one.at.iter().copied()).collect();
    for index in suspects {
        let seen = analysed.accesses.get(index).and_then(Option::as_ref);
        if let Some(words) = seen.and_then(super::data::describe_accesses) {
            let address = analysed.graph.instructions[index].address.0;
            writeln!(out, "                         {address:x}: {words}")?;
        }
    }
    Ok(())
}

fn bubble_line(
    out: &mut impl Write,
    letters: &str,
    cycles: &str,
    names: &[(char, String)],
    legend: &mut BTreeSet<char>,
) -> anyhow::Result<()> {
    let new: Vec<String> = names
        .iter()
        .filter(|(letter, _)| legend.insert(*letter))
        .map(|(letter, name)| format!("{letter} = {name}"))
        .collect();
    let new = if new.is_empty() {
        String::new()
    } else {
        format!("  ({})", new.join(", "))
    };
    let line = format!("{letters:>10}{cycles}{new}");
    writeln!(out, "          {}", line.trim_end())?;
    Ok(())
}

fn write_instruction(
    out: &mut impl Write,
    analysed: &AnnotatedProcedure,
    place: usize,
    line: &str,
) -> anyhow::Result<()> {
    let one = &analysed.graph.instructions[place];
    let account = analysed.accounts[place].as_ref();
    let cycles = match account {
        Some(account) if account.cycles == 0.0 => match analysed.basis {
            FrequencyBasis::InOrder if account.minimum == 0.0 => "(dual issue)".to_owned(),
            _ => String::new(),
        },
        Some(account) => {
            let samples = analysed.samples[place];
            format!("{}cy", amount_text(samples, account.frequency, 0.0, 1))
        }
        None => String::new(),
    };
    let mut at = BTreeSet::new();
    let suspects = &analysed.suspects[place];
    for culprit in account.map_or(suspects, |account| &account.culprits) {
        if culprit.cause.is_of_instruction() {
            at.extend(culprit.at.iter().copied().filter(|other| *other != place));
        }
    }
    // The nearest suspect.
    let addresses = at
        .iter()
        .rev()
        .take(3)
        .filter_map(|index| analysed.graph.instructions.get(*index));
    let addresses: Vec<String> = addresses
        .map(|one| format!("{:x}", one.address.0))
        .collect();
    let width = terminal_width().map_or(WIDEST, |all| {
        all.saturating_sub(BESIDE).clamp(NARROWEST, WIDEST)
    });
    let text = format!(
        "{:>8x}  {:<width$} {:>10} {:>12}  {:<18}  {line}",
        one.address.0,
        shorten_middle(
            &clean_name(&analysed.texts[place].replace('\t', " ")),
            width
        ),
        group_digits(analysed.samples[place].round() as u64),
        cycles,
        addresses.join(" ")
    );
    writeln!(out, "{}", text.trim_end())?;
    Ok(())
}
