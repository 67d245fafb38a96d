//! The `vitalfew` command: finds the few causes that take most of a program's time.
#![forbid(unsafe_code)]

mod abandoned;
mod args;
mod call_tree_order;
mod commands;
mod comparison;
mod exit;
mod losses;
mod option_values;
mod output;
mod printable;
mod runtimes;
mod screen;
mod source;
mod svg;
mod table;
mod times;
mod version;
mod wrapped;

use args::{Args, Command};
use screen::Screen;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(page) = commands::help_topic::asked_page() {
        // A reader who leaves early is no failure.
        let _ = Screen::text_output().write_all(page.as_bytes());
        return ExitCode::SUCCESS;
    }
    let mut args = Args::parse_line();
    screen::configure(args.screen_settings());
    let result = match args.command.process_mut().map_or(Ok(()), find_process) {
        Ok(()) => run_command(&args.command),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(code) => exit::code_when_done(code),
        Err(error) => exit::explain_failure(&args.command, &error),
    }
}

/// Replaces a thread id by its process.
fn find_process(id: &mut u32) -> Result<(), sampler::Error> {
    let process = sampler::process_of_thread(*id)?;
    if process != *id {
        screen::tell_user(&format!(
            "{id} is a thread of process {process}, which is measured with all its threads"
        ));
        *id = process;
    }
    Ok(())
}

fn run_command(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(run) => commands::run::run(run),
        Command::Record(record) => commands::record::run(record),
        Command::Daemon(daemon) => commands::daemon::run(daemon),
        Command::Report(report) => commands::report::run(report),
        Command::Annotate(annotate) => commands::annotate::run(annotate),
        Command::Epochs(epochs) => commands::epochs::run(epochs),
        Command::Query(query) => commands::query::run(query),
        Command::Stats(stats) => commands::stats::run(stats),
        Command::Diff(diff) => commands::diff::run(diff),
        Command::Check(check) => commands::check::run(check),
        Command::Bottlenecks(bottlenecks) => commands::bottlenecks::run(bottlenecks),
        Command::Causal(causal) => commands::causal::run(causal),
        Command::Interference(interference) => commands::interference::run(interference),
        Command::Serve(serve) => commands::page::serve(serve),
        Command::Html(html) => commands::page::html(html),
        Command::Mcp(mcp) => commands::mcp::run(mcp),
        Command::Export(export) => commands::export::run(export),
        Command::Top(top) => commands::top::run(top),
        Command::Doctor(doctor) => commands::doctor::run(doctor),
        Command::Generate(generate) => commands::generate::run(generate),
    }
}
