//! `vitalfew daemon run`: what is done before the first sample and after the last.

use super::place::{Claim, Place};
use super::privileges;
use super::serve::{Daemon, Ended, Start};
use crate::args::DaemonRun;
use crate::output::create_private_files;
use crate::screen::tell_user;
use anyhow::Context;
use sampler::{ContinuousOptions, EventSpec, Rate};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Database, Error as StoreError, OpenEpoch};

/// The part of the budget that samples may take at the start; the daemon needs some.
const SAMPLES_PART: f64 = 0.8;

/// Runs the command.
pub fn run(args: &DaemonRun) -> anyhow::Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    signal_hook::flag::register(SIGHUP, leave.clone())?;

    let came_from = std::env::current_dir();
    if !args.shared {
        create_private_files();
    }
    let path = args.db.clone().unwrap_or_else(store::default_database);
    Database::create(&path).context("no place for the database (--db DIR)")?;
    let path = fs::canonicalize(&path)?;
    let database = Database::create(&path)?;
    let host = sampler::host().name;
    refuse_newer(&database, &host)?;
    let socket = args
        .socket
        .as_deref()
        .map(std::path::absolute)
        .transpose()?;
    let pins = match args.no_pin {
        true => Err("--no-pin".to_owned()),
        false => super::pins::of(&path),
    };
    let claim = pins
        .as_ref()
        .ok()
        .map(|pins| Claim::take(pins, &path, &host));
    let _claim = claim.transpose()?;
    let mut place = Place::take(&database, &host, socket.as_deref())?;
    let left = match &pins {
        Ok(pins) => sampler::left_behind(pins)?,
        Err(_) => Vec::new(),
    };
    let open = database.open_epochs(&host)?;
    let collector = next_collector(&open, &left);
    let options = ContinuousOptions {
        events: args
            .events
            .iter()
            .map(|e| EventSpec::parse(e))
            .collect::<Result<_, _>>()?,
        rate: args.frequency.map_or(
            Rate::Overhead(args.budget() * SAMPLES_PART),
            Rate::Frequency,
        ),
        interval: args.interval,
        outlive: args.outlive,
        pins: pins
            .as_ref()
            .ok()
            .map(|pins| pins.join(format!("{collector:020}"))),
        find_names: super::names::find_elsewhere,
    };
    // No file system is kept from being unmounted.
    std::env::set_current_dir("/").context("changing to /")?;
    let ended = sampler::sample_continuously(options, |collecting| {
        for problem in privileges::reduce(&path) {
            say(&problem);
        }
        let not_pinned = match (collecting.pinned(), &pins) {
            (Ok(()), _) => None,
            (Err(_), Err(why)) => Some(why.clone()),
            (Err(why), _) => Some(why.to_owned()),
        };
        let requests = place.listen()?;
        let start = Start {
            database,
            host,
            place,
            requests,
            collector,
            not_pinned,
            open,
            left,
        };
        Daemon::start(args, start, collecting)?.serve(collecting, &stop, &leave)
    })??;
    match ended {
        Ended::With(code) => {
            if let Ok(pins) = &pins {
                super::pins::tidy(pins);
            }
            Ok(code)
        }
        Ended::ToStartAgain => {
            std::env::set_current_dir(came_from?).context("starting again")?;
            let mut args = std::env::args_os();
            let mut again = Command::new("/proc/self/exe");
            again.arg0(args.next().unwrap_or_default()).args(args);
            Err(anyhow::Error::from(again.exec()).context("starting again"))
        }
    }
}

pub(super) fn say(text: &str) {
    tell_user(text);
}

pub(super) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() as u64
}

/// A database that a newer program wrote to is left alone.
fn refuse_newer(database: &Database, host: &str) -> anyhow::Result<()> {
    for epoch in database.select(&store::Range::default(), Some(host))? {
        let newer = |error: &StoreError| matches!(error, StoreError::Newer { .. });
        let mut unreadable = epoch.summary.err().into_iter().chain(epoch.damaged);
        if let Some(error) = unreadable.find(newer) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// A number for the collector, above all that were there before, whatever the clock says.
fn next_collector(open: &[OpenEpoch], left: &[(String, PathBuf)]) -> u64 {
    let stored = open.iter().filter_map(|epoch| epoch.last().ok().flatten());
    let stored = stored.map(|part| part.collector);
    let left = left.iter().filter_map(|(name, _)| name.parse::<u64>().ok());
    let last = stored.chain(left).max();
    last.map_or(0, |last| last.saturating_add(1)).max(unix_ns())
}
