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
    let path = args.db.clone().unwrap_or_else(store::default_database);
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => {
            let host = sampler::host().name;
            Database::open(&path)?
                .daemon_directory(&host)
                .join("socket")
        }
    };
    let asked = daemon::ask(&socket, request);
    let status = asked.map_err(|error| match daemon::abandoned_of(&path) {
        None => error,
        Some(left) => error.context(format!("its collector {}", left.describe())),
    })?;
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
