//! `vitalfew daemon`.

use crate::args::{Daemon, DaemonAction, DaemonAsk};
use crate::daemon::{self, Request};
use crate::screen::Screen;
use std::io::Write;
use std::process::ExitCode;
use store::Database;

/// Runs the command.
pub fn run(args: &Daemon) -> anyhow::Result<ExitCode> {
    match &args.action {
        DaemonAction::Run(run) => daemon::run(run),
        DaemonAction::Merge(merge) => daemon::merge(merge),
        DaemonAction::Names => daemon::names(),
        DaemonAction::Status(asked) => ask(asked, Request::Status),
        DaemonAction::Flush(asked) => ask(asked, Request::Flush),
        DaemonAction::Epoch(asked) => ask(asked, Request::Epoch),
    }
}

fn ask(args: &DaemonAsk, request: Request) -> anyhow::Result<ExitCode> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => {
            let path = args.db.clone().unwrap_or_else(store::default_database);
            let host = sampler::host().name;
            Database::open(&path)?
                .daemon_directory(&host)
                .join("socket")
        }
    };
    let status = daemon::ask(&socket, request)?;
    let mut out = Screen::open(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &status).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", status.render())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
