//! `vitalfew bottlenecks`.
//!
//! `load` gets a `profile::CallTree` of each profile: from `formats`, the cache or a recording.
//! `analysis::bottleneck` transforms and indexes the trees; its `search.rs` keeps the state of the
//! search, which `console` drives.

pub mod args;
mod auto;
mod cache;
mod command;
mod console;
mod json;
mod load;
mod own_suggester;
mod prompt;
mod text;

use crate::exit::INCONCLUSIVE;
use crate::output::clean_name;
use anyhow::Context;
use args::Bottlenecks;
use console::Console;
use results::failure_refusal;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Bottlenecks) -> anyhow::Result<ExitCode> {
    let (forest, notes) = load::load_forest(args)?;
    for note in &notes {
        eprintln!("vitalfew: note: {}", clean_name(note));
    }
    let mut console = Console::new(&forest, args)?;
    if args.auto || args.json && args.script.is_none() {
        let found = console.search_alone(None)?;
        let code = if found == 0 { INCONCLUSIVE } else { 0 };
        return Ok(ExitCode::from(code));
    }
    match &args.script {
        Some(path) if path != Path::new("-") => {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            run_script(
                &mut console,
                BufReader::new(file),
                &path.display().to_string(),
            )?;
        }
        None if io::stdin().is_terminal() => prompt::run(&mut console)?,
        _ => run_script(&mut console, io::stdin().lock(), "standard input")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Maximum length of a command.
const LONGEST_LINE: u64 = 1 << 20;

/// Runs the commands of a script, up to the first that fails.
fn run_script(
    console: &mut Console<'_>,
    mut input: impl BufRead,
    name: &str,
) -> anyhow::Result<()> {
    console.print_head()?;
    for number in 1.. {
        let mut line = String::new();
        let read = input.by_ref().take(LONGEST_LINE).read_line(&mut line);
        if read.with_context(|| format!("{name}, line {number}"))? == 0 {
            break;
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        console.echo_command(line)?;
        match console.execute_line(line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let message = format!("{name}, line {number}: {error:#}");
                return Err(failure_refusal(message));
            }
        }
    }
    Ok(())
}
