//! `vitalfew generate`: man pages and completions, from the definitions of the arguments; unwind
//! tables.

use crate::args::{Args, Generate, Generated};
use anyhow::Context;
use clap::CommandFactory;
use orchestration::table_directory;
use std::process::ExitCode;
use std::time::Duration;

/// The longest time for the tables of one recording.
const LONGEST_MAKING: Duration = Duration::from_secs(600);

/// Runs the command.
pub fn run(args: &Generate) -> anyhow::Result<ExitCode> {
    match &args.what {
        Generated::Man { directory } => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(documented_command(), directory))
            .with_context(|| format!("writing man pages into {}", directory.display()))?,
        Generated::Completions { shell } => {
            let mut command = Args::command();
            clap_complete::generate(*shell, &mut command, "vitalfew", &mut std::io::stdout());
        }
        Generated::UnwindTables { files } => {
            let directory = table_directory().context("there is no directory for caches")?;
            sampler::make_tables(&directory, files, LONGEST_MAKING);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the definition of the command line, with synopses for the man pages.
fn documented_command() -> clap::Command {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    spell_out_options(command)
}

/// Replaces `[OPTIONS]` in the usage of a command and its subcommands by the options with their
/// values.
fn spell_out_options(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let spelled = command.get_arguments().filter_map(|option| {
        let long = format!("--{}", option.get_long().unwrap_or_default());
        let is_everywhere = option.is_global_set() || ["--help", "--version"].contains(&&*long);
        let is_named = long.len() > 2 && usage.contains(&long);
        if option.is_hide_set() || option.is_positional() || is_everywhere || is_named {
            return None;
        }
        let text = option.to_string().replace("> <", " ").replace(" <", " ");
        let text = text.replace("=<", "=").replace(">]", "]");
        let short = option.get_short().map(|short| format!("-{short}"));
        let text = text.replace(&long, short.as_ref().unwrap_or(&long));
        Some(format!("[{}]", text.trim_end_matches('>')))
    });
    let spelled: Vec<String> = spelled.collect();
    let usage = match &spelled[..] {
        [] => usage.to_owned(),
        _ => usage.replace("[OPTIONS]", &spelled.join(" ")),
    };
    let names = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned());
    let names: Vec<String> = names.collect();
    names
        .into_iter()
        .fold(command.override_usage(usage), |command, name| {
            command.mut_subcommand(name, spell_out_options)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synopses_have_the_values_of_options() {
        let mut command = documented_command();
        let record = command.find_subcommand_mut("record").expect("a command");
        let usage = record.render_usage().to_string();
        for part in [
            "vitalfew record [-e EVENT] [-F HZ] ",
            "[--path-bursts[=PERCENT]] [--off-cpu]",
            " [-q] <--all|--pid <PID>|COMMAND>",
        ] {
            assert!(usage.contains(part), "{usage}");
        }
        assert!(!usage.contains("OPTIONS"), "{usage}");
    }
}
