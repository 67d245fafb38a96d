//! The `vitalfew` command: of all the time a program takes, the few causes that matter.
#![forbid(unsafe_code)]

mod args;
mod cache;
mod claims;
mod commands;
mod comparison;
mod exit;
mod losses;
mod output;
mod runtimes;
mod screen;
mod source;
mod table;
mod times;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    screen::configure(args.screen());
    let result = match &args.command {
        Command::Record(record) => commands::record::run(record),
        Command::Daemon(daemon) => commands::daemon::run(daemon),
        Command::Report(report) => commands::report::run(report),
        Command::Annotate(annotate) => commands::annotate::run(annotate),
        Command::Epochs(epochs) => commands::epochs::run(epochs),
        Command::Query(query) => commands::query::run(query),
        Command::Stats(stats) => commands::stats::run(stats),
        Command::Diff(diff) => commands::diff::run(diff),
        Command::Bottlenecks(bottlenecks) => commands::bottlenecks::run(bottlenecks),
        Command::Causal(causal) => commands::causal::run(causal),
        Command::Interference(interference) => commands::interference::run(interference),
        Command::Export(export) => commands::export::run(export),
        Command::Doctor(doctor) => commands::doctor::run(doctor),
        Command::Generate(generate) => commands::generate::run(generate),
    };
    match result {
        Ok(code) => exit::complete(code),
        Err(error) => exit::explain(&args.command, &error),
    }
}
