//! `vitalfew daemon`.

use crate::abandoned::describe_abandoned;
use crate::args::{Daemon, DaemonAction, DaemonAsk, DaemonMerge, DaemonRun, DaemonSend, Keep};
use crate::exit::FAILURE;
use crate::output::{
    clean_name, create_private_files, format_bytes, format_ns, group_digits, write_json,
};
use crate::screen::{Screen, tell_user, warn_user};
use daemon::{
    BucketOptions, DaemonEnd, DaemonOptions, HostProgram, MergeOptions, Request, Retention,
    SendOptions, Status, TableLimits,
};
use results::error_chain;
use sampler::EventSpec;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Runs the command.
pub fn run(args: &Daemon) -> anyhow::Result<ExitCode> {
    match &args.action {
        DaemonAction::Run(run) => run_daemon(run),
        DaemonAction::Merge(merge) => {
            daemon::merge_epoch(&merge_options(merge)).map(|()| ExitCode::SUCCESS)
        }
        DaemonAction::Send(send) => send_spool(send),
        DaemonAction::Names => daemon::answer_names().map(|()| ExitCode::SUCCESS),
        DaemonAction::Status(asked) => ask_daemon(asked, Request::Status),
        DaemonAction::Flush(asked) => ask_daemon(asked, Request::Flush),
        DaemonAction::Epoch(asked) => ask_daemon(asked, Request::Epoch),
        DaemonAction::Stop(asked) => ask_daemon(asked, Request::Stop),
    }
}

fn run_daemon(args: &DaemonRun) -> anyhow::Result<ExitCode> {
    if !args.shared {
        create_private_files();
    }
    let events = args.events.iter().map(|event| EventSpec::parse(event));
    let (database, bucket) = database_and_bucket(args)?;
    let epoch = Duration::from_secs(if bucket.is_some() { 3600 } else { 24 * 3600 });
    let local = match &bucket {
        None => retention_of(&args.keep),
        // On a full disk the oldest epochs that wait make room.
        Some(_) => Retention {
            longest: None,
            most_bytes: Some(args.spool_size),
        },
    };
    let options = DaemonOptions {
        database,
        socket: args.socket.clone(),
        events: events.collect::<Result<_, _>>()?,
        frequency: args.frequency,
        budget: args.budget,
        interval: args.interval,
        merge_every: args.merge,
        epoch_length: args.epoch.unwrap_or(epoch),
        retention: local,
        bucket,
        outlive: args.outlive,
        pinned: !args.no_pin,
        stacks: (!args.no_stacks).then(|| TableLimits {
            memory: (args.unwind_memory as usize) << 20,
            directory: orchestration::table_directory(),
        }),
    };
    let program = HostProgram {
        say: tell_user,
        explain: error_chain,
        merge_command,
        send_command,
        names_command,
    };
    Ok(match daemon::run(&options, program)? {
        DaemonEnd::Stored => ExitCode::SUCCESS,
        DaemonEnd::Unstored => ExitCode::from(FAILURE),
    })
}

/// Returns the local database to write to, and the bucket that its epochs are sent to.
fn database_and_bucket(args: &DaemonRun) -> anyhow::Result<(PathBuf, Option<BucketOptions>)> {
    let database = store::default_database();
    let Some(usual) = store::default_spool(&database) else {
        return Ok((database, None));
    };
    let spool = args.spool.clone().unwrap_or(usual);
    store::create_spool(&spool, &database)?;
    let bucket = BucketOptions {
        database,
        every: args.send,
        spool_bytes: args.spool_size,
        retention: retention_of(&args.keep),
    };
    Ok((spool, Some(bucket)))
}

fn send_spool(args: &DaemonSend) -> anyhow::Result<ExitCode> {
    let outcome = daemon::send_spool(&SendOptions {
        spool: args.spool.clone(),
        bucket: BucketOptions {
            database: args.db.clone(),
            every: Duration::ZERO,
            spool_bytes: args.spool_size,
            retention: retention_of(&args.keep),
        },
    })?;
    for error in &outcome.unsent.unreadable {
        warn_user(&format!("this epoch cannot be sent: {error}"));
    }
    for epoch in &outcome.lost {
        let epoch = epoch.display();
        warn_user(&format!(
            "{epoch} is lost: it was not sent, and the spool has reached --spool-size"
        ));
    }
    match outcome.unsent.stopped {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(error.into()),
    }
}

/// Returns the command that parses into these options.
fn send_command(options: &SendOptions) -> Command {
    let mut command = this_program();
    command
        .args(["daemon", "send", "--db"])
        .arg(&options.bucket.database)
        .arg("--spool")
        .arg(&options.spool)
        .args(["--spool-size", &options.bucket.spool_bytes.to_string()]);
    add_retention(&mut command, &options.bucket.retention);
    command
}

fn add_retention(command: &mut Command, retention: &Retention) {
    if let Some(longest) = retention.longest {
        let seconds = format!("{}s", longest.as_secs_f64());
        command.arg("--keep").arg(seconds);
    }
    if let Some(bytes) = retention.most_bytes {
        command.arg("--keep-size").arg(bytes.to_string());
    }
}

fn retention_of(keep: &Keep) -> Retention {
    Retention {
        longest: keep.keep,
        most_bytes: keep.keep_size,
    }
}

fn merge_options(args: &DaemonMerge) -> MergeOptions {
    MergeOptions {
        database: args.db.clone(),
        epoch: args.epoch.clone(),
        all: args.all,
        close: args.close,
        retention: retention_of(&args.keep),
    }
}

/// Returns the command that parses [`merge_options`].
fn merge_command(options: &MergeOptions) -> Command {
    let mut command = this_program();
    command
        .args(["daemon", "merge", "--db"])
        .arg(&options.database)
        .arg("--epoch")
        .arg(&options.epoch);
    if options.all {
        command.arg("--all");
    }
    if options.close {
        command.arg("--close");
    }
    add_retention(&mut command, &options.retention);
    command
}

fn names_command() -> Command {
    let mut command = this_program();
    command.args(["daemon", "names"]);
    command
}

/// Returns a command of this program, even if its file was replaced since its start.
fn this_program() -> Command {
    Command::new("/proc/self/exe")
}

fn ask_daemon(args: &DaemonAsk, request: Request) -> anyhow::Result<ExitCode> {
    let path = store::default_database();
    let asked = daemon::ask_daemon(&path, args.socket.as_deref(), request);
    let status = asked.map_err(|error| match daemon::abandoned_of(&path) {
        None => error,
        Some(left) => error.context(format!(
            "its collector {} (vitalfew daemon run --db {} stores them; sudo rm -r {} drops them)",
            describe_abandoned(&left),
            path.display(),
            left.directory.display()
        )),
    })?;
    let mut out = Screen::open_output(args.json);
    if args.json {
        write_json(&mut out, &status)?;
    } else if request == Request::Stop {
        tell_user(&format!("the daemon of {} has ended", path.display()));
    } else {
        write!(out, "{}", render_status(&status))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Formats the status as text.
fn render_status(status: &Status) -> String {
    let percent = |share: f64| format!("{:.2}%", 100.0 * share);
    let lost = match status.not_pinned.as_deref() {
        None => format!(
            "kept in the kernel if the daemon dies, where {} after {}",
            if status.interrupts_end {
                "sampling ends by itself"
            } else {
                "counting ends by itself (its interrupts go on)"
            },
            format_ns(status.outlive_ns as f64)
        ),
        Some(why) => format!("LOST if the daemon dies: {}", clean_name(why)),
    };
    let state = match status.stopped.as_deref() {
        None if status.unsampled_ns > 0 => format!(
            "collecting; for {} nothing was sampled, because the daemon did not run",
            format_ns(status.unsampled_ns as f64)
        ),
        None if status.late_ns > 0 => format!(
            "collecting into memory: the file system has not answered for {}, {} wait",
            format_ns(status.late_ns as f64),
            format_bytes(status.backlog_bytes)
        ),
        None => "collecting".to_owned(),
        Some(why) => format!("STOPPED: {}", clean_name(why)),
    };
    let asked = match status.asked_frequency {
        Some(asked) if asked != status.frequency => {
            format!(" (-F asked for {})", group_digits(asked))
        }
        _ => String::new(),
    };
    let stacks = match status.stacks.map(|walks| walks.summary()) {
        None => String::new(),
        Some(None) => "stacks: none were walked yet\n".to_owned(),
        Some(Some(summary)) => format!("{summary}\n"),
    };
    let bucket = match &status.bucket {
        None => String::new(),
        Some(address) => {
            let fails = match status.sending_fails_ns {
                0 => String::new(),
                since => format!("; SENDING FAILS for {}", format_ns(since as f64)),
            };
            let waiting = status.unsent_epochs;
            format!(
                "bucket: {}; {waiting} epochs wait{fails}\n",
                clean_name(address)
            )
        }
    };
    let sacrificed = match status.sacrificed_epochs {
        0 => String::new(),
        count => format!(" ({count} removed because the disk was full)"),
    };
    format!(
        "{state}\n\
             {} at {} Hz on each CPU{asked}, for {}\n\
             samples: {} taken, {} stored ({} taken over), {} dropped; in unknown code {}\n\
             what is not stored yet: {lost}\n\
             {stacks}cost: samples {} of the machine ({} each), daemon {}, budget {}\n\
             memory: {} resident; {} images, {} processes\n\
             disk: {} in {} epochs{sacrificed}; {} parts in {}\n{bucket}",
        clean_name(&status.events.join(", ")),
        group_digits(status.frequency),
        format_ns(status.uptime_ns as f64),
        group_digits(status.taken),
        group_digits(status.stored),
        group_digits(status.taken_over),
        group_digits(status.dropped),
        percent(status.unknown),
        percent(status.sampling_share),
        format_ns(status.sample_cost_ns as f64),
        percent(status.own_share),
        percent(status.budget),
        format_bytes(status.resident_bytes),
        status.remembered.0,
        status.remembered.1,
        format_bytes(status.disk_bytes),
        status.epochs,
        status.parts,
        clean_name(&status.epoch.display().to_string()),
    )
}
