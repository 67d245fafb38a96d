//! Runs a daemon: the steps before the first sample and after the last.

use crate::lease::{CollectorClaim, DatabaseLease};
use crate::names::find_elsewhere;
use crate::options::DaemonOptions;
use crate::program::HostProgram;
use crate::serve::{Daemon, LoopEnd, Start};
use crate::wall_clock::unix_ns;
use crate::{pins, privileges};
use anyhow::Context;
use sampler::{ContinuousOptions, Rate, StackOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{Database, OpenEpoch, StoreError};

/// Fraction of the budget for samples at the start; the daemon needs some.
const SAMPLES_PART: f64 = 0.8;

/// The end of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonEnd {
    /// All counts are stored, or wait in the kernel for the next daemon.
    Stored,
    /// The last counts could not be stored, as a message reported.
    Unstored,
}

/// Samples until SIGINT or SIGTERM, or until SIGHUP, after which the next daemon takes over.
///
/// # Errors
/// If another daemon has the database, or the machine refuses the requested collection.
pub fn run(options: &DaemonOptions, program: HostProgram) -> anyhow::Result<DaemonEnd> {
    let stop = Arc::new(AtomicBool::new(false));
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    // Under `nohup` the signal means that a terminal is gone.
    if !sampler::was_ignored(SIGHUP) {
        signal_hook::flag::register(SIGHUP, leave.clone())?;
    }

    let came_from = std::env::current_dir();
    Database::create(&options.database).context("no place for the database (--db DIR)")?;
    let path = fs::canonicalize(&options.database)?;
    let database = Database::create(&path)?;
    let host = sampler::read_host().name;
    refuse_newer(&database, &host)?;
    let socket = options.socket.as_deref();
    let socket = socket.map(std::path::absolute).transpose()?;
    let pins = if options.pinned {
        pins::pin_directory(&path)
    } else {
        Err("--no-pin".to_owned())
    };
    let claim = pins.as_ref().ok();
    let claim = claim.map(|pins| CollectorClaim::take_claim(pins, &path, &host));
    let _claim = claim.transpose()?;
    let mut lease = DatabaseLease::take_lease(&database, &host, socket.as_deref())?;
    let left = match &pins {
        Ok(pins) => sampler::left_behind(pins)?,
        Err(_) => Vec::new(),
    };
    let open = database.open_epochs(&host)?;
    let collector = next_collector(&open, &left);
    let pinned_at = pins.as_ref().ok();
    let pinned_at = pinned_at.map(|pins| pins.join(format!("{collector:020}")));
    let collection = collection_options(options, program, pinned_at);
    // A current directory elsewhere would prevent unmounting its file system.
    std::env::set_current_dir("/").context("changing to /")?;
    let ended = sampler::sample_continuously(collection, |collecting| {
        for problem in privileges::drop_privileges(&path) {
            program.print_line(&problem);
        }
        // Now, because a thread keeps the privileges that it was started with.
        collecting.start_tables()?;
        if let Some(why) = collecting.why_without_stacks() {
            program.print_line(&format!("warning: without call stacks: {why}"));
        }
        let not_pinned = match (collecting.pinned_or_reason(), &pins) {
            (Ok(()), _) => None,
            (Err(_), Err(why)) => Some(why.clone()),
            (Err(why), _) => Some(why.to_owned()),
        };
        let requests = lease.listen_at_socket()?;
        let start = Start {
            database,
            host,
            lease,
            requests,
            collector,
            not_pinned,
            open,
            left,
        };
        Daemon::start_collecting(options, program, start, collecting)?
            .serve_until_told(collecting, &stop, &leave)
    })??;
    let end = match ended {
        LoopEnd::Stored => DaemonEnd::Stored,
        LoopEnd::Unstored => DaemonEnd::Unstored,
        LoopEnd::ToStartAgain => {
            std::env::set_current_dir(came_from?).context("starting again")?;
            return Err(start_again());
        }
    };
    if let Ok(pins) = &pins {
        pins::remove_stale_mark(pins);
    }
    Ok(end)
}

fn collection_options(
    options: &DaemonOptions,
    program: HostProgram,
    pins: Option<PathBuf>,
) -> ContinuousOptions {
    let most = Rate::Overhead(options.budget_percent() * SAMPLES_PART);
    ContinuousOptions {
        events: options.events.clone(),
        rate: options.frequency.map_or(most, Rate::Frequency),
        interval: options.interval,
        outlive: options.outlive,
        pins,
        stacks: options.stacks.as_ref().map(|tables| StackOptions {
            table_memory: tables.memory,
            table_directory: tables.directory.clone(),
        }),
        find_names: Box::new(move |images| find_elsewhere(program, images)),
    }
}

/// Executes this program again in this process, with the same arguments; its locks are released at
/// that moment and not before. Returns the error if it failed.
fn start_again() -> anyhow::Error {
    let mut args = std::env::args_os();
    let mut again = Command::new("/proc/self/exe");
    again.arg0(args.next().unwrap_or_default()).args(args);
    anyhow::Error::from(again.exec()).context("starting again")
}

/// Refuses a database that a newer program wrote to.
fn refuse_newer(database: &Database, host: &str) -> anyhow::Result<()> {
    for epoch in database.select_epochs(&store::TimeRange::default(), Some(host))? {
        let newer = |error: &StoreError| matches!(error, StoreError::Newer { .. });
        let mut unreadable = epoch.summary.err().into_iter().chain(epoch.damaged);
        if let Some(error) = unreadable.find(newer) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Returns a number for the collector above all earlier ones, whatever the clock shows.
fn next_collector(open: &[OpenEpoch], left: &[(String, PathBuf)]) -> u64 {
    let stored = open
        .iter()
        .filter_map(|epoch| epoch.last_part().ok().flatten());
    let stored = stored.map(|part| part.collector);
    let left = left.iter().filter_map(|(name, _)| name.parse::<u64>().ok());
    let last = stored.chain(left).max();
    last.map_or(0, |last| last.saturating_add(1)).max(unix_ns())
}
