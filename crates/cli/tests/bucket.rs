//! Databases in buckets: nothing lost, nothing doubled, and clear errors, whatever the server does.

mod common;

use common::s3::S3Server;
use profile::{CallGraph, Collector, Event, EventId, Host, Image, ImageId, ImageKind};
use profile::{ImageOffset, Location, Recording, Sample, Target, Unit};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use store::Database;

const DB: &str = "s3://fleet/web";
const HOUR: u64 = 3_600_000_000_000;

/// Starts a server; returns it with a directory for a spool, or `None` where there is none.
fn server_and_spool() -> Option<(S3Server, PathBuf)> {
    let server = S3Server::start()?;
    let spool = server.directory("spool");
    Some((server, spool))
}

/// Writes an epoch of `samples` samples into a database.
fn write_epoch(spool: &Path, host: &str, start_unix_ns: u64, samples: u64) -> PathBuf {
    let host = Host {
        name: host.to_owned(),
        ..Host::default()
    };
    let mut made = Recording::new(host, Target::Machine, Collector::Bpf, CallGraph::None);
    made.start_unix_ns = start_unix_ns;
    made.duration_ns = 1_000_000_000;
    made.images = vec![Image {
        kind: ImageKind::File,
        path: "/usr/bin/service".to_owned(),
        build_id: None,
        file: None,
        gone: false,
    }];
    let mut event = Event::new("cpu-clock", Unit::Samples, 1_000_000);
    event.taken = samples;
    event.stored = samples;
    made.events.push(event);
    let process = made.names.intern("service");
    let place = Location {
        image: ImageId(0),
        offset: ImageOffset(0x1000),
    };
    let stack = made.stacks.intern(place, None);
    made.samples
        .push(Sample::new(EventId(0), process, stack, samples));
    Database::create(spool)
        .unwrap()
        .write_recording(&made)
        .unwrap()
        .path
}

fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().to_owned()
}

fn send_args<'a>(spool: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = [
        "daemon",
        "send",
        "--db",
        DB,
        "--spool",
        spool,
        "--spool-size",
        "1G",
    ];
    [&args[..], more].concat()
}

fn send_from(server: &S3Server, spool: &Path) -> Output {
    server.run(&send_args(spool.to_str().unwrap(), &[]))
}

fn said_by(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that a command succeeded.
fn check_success(output: Output) -> Output {
    assert!(output.status.success(), "{}", said_by(&output));
    output
}

fn first_number(output: &Output) -> u64 {
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    rows[0]["n"].as_u64().unwrap_or(0)
}

const SUM: &str = "SELECT sum(count) AS n FROM samples";

/// Returns the number of samples in the bucket, read by a machine that has nothing of it yet.
fn total_samples(server: &S3Server) -> u64 {
    first_number(&check_success(
        server.run_anew(&["query", "--json", SUM, "--db", DB]),
    ))
}

/// Returns the number of epochs with samples in a spool.
fn waiting_epochs(spool: &Path) -> usize {
    let mut epochs = Database::create(spool).unwrap().epochs().unwrap();
    epochs.retain(|epoch| !epoch.is_empty());
    epochs.len()
}

#[test]
fn commands_read_a_bucket_as_a_directory() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", 24 * HOUR, 100);
    write_epoch(&spool, "a", 49 * HOUR, 20);
    write_epoch(&spool, "b 2", 50 * HOUR, 3);
    check_success(send_from(&server, &spool));
    assert_eq!(waiting_epochs(&spool), 0);
    assert_eq!(total_samples(&server), 123);

    // A question reads the files of its own days and host.
    let read = server.count("GET", "samples.parquet");
    let args = ["query", "--json", SUM, "--db", DB, "--host", "b 2"];
    assert_eq!(first_number(&check_success(server.run_anew(&args))), 3);
    let args = ["query", "--json", SUM, "--db", DB, "--epoch", "19700102"];
    assert_eq!(first_number(&check_success(server.run_anew(&args))), 100);
    assert_eq!(server.count("GET", "samples.parquet"), read + 2);
    // Pieces never change: what was fetched is not fetched again.
    let read = server.count("GET", ".parquet");
    check_success(server.run(&args));
    assert_eq!(server.count("GET", ".parquet"), read);

    let epochs = check_success(server.run(&["epochs", "--json", "--db", DB]));
    let epochs: Value = serde_json::from_slice(&epochs.stdout).unwrap();
    assert_eq!(epochs["epochs"].as_array().unwrap().len(), 3, "{epochs}");
    let first = epochs["epochs"][0]["path"].as_str().unwrap();
    assert!(
        first.starts_with(&format!("{DB}/day=19700102/")),
        "{epochs}"
    );
    check_success(server.run_anew(&["report", first]));
    let nobody = server.run(&["report", &format!("{DB}/day=19700102/host=nobody")]);
    assert!(
        said_by(&nobody).contains("host=nobody"),
        "{}",
        said_by(&nobody)
    );
    let report =
        check_success(server.run(&["report", "--json", "--all", "--epoch", "..", "--db", DB]));
    assert!(String::from_utf8_lossy(&report.stdout).contains("service"));
    check_success(server.run_anew(&["report", DB]));
    check_success(server.run_anew(&["report", "--by", "host", "--epoch", "..", "--db", DB]));
    let days = ["19700102", "19700103"].map(|day| format!("{DB}/day={day}/host=a"));
    check_success(server.run_anew(&["diff", &days[0], &days[1]]));
    check_success(server.run_anew(&["stats", &days[0], &days[1]]));
    let page = server.directory("page.html");
    check_success(server.run_anew(&["html", page.to_str().unwrap(), "--db", DB]));
    assert!(page.exists());
}

#[test]
fn a_recording_goes_straight_to_the_bucket_or_waits() {
    let Some(server) = S3Server::start() else {
        return;
    };
    if !common::live() {
        return;
    }
    let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let args = ["record", "--db", DB, "--", "sh", "-c", work];
    server.set_fault("PUT", "recording.json", "forbid");
    let refused = server.run(&args);
    assert!(
        said_by(&refused).contains("waits in"),
        "{}",
        said_by(&refused)
    );
    server.mend_faults();
    check_success(server.run(&args));
    let epochs = check_success(server.run_anew(&["epochs", "--json", "--db", DB]));
    let epochs: Value = serde_json::from_slice(&epochs.stdout).unwrap();
    assert_eq!(epochs["epochs"].as_array().unwrap().len(), 2, "{epochs}");
}

#[test]
fn a_result_of_run_is_shown_from_the_bucket() {
    let Some(server) = S3Server::start() else {
        return;
    };
    if !common::live() {
        return;
    }
    let none = server.run(&["run", "--show", DB]);
    assert!(
        said_by(&none).contains("no such object"),
        "{}",
        said_by(&none)
    );
    let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let args = ["run", "--once", "--db", DB, "--", "sh", "-c", work];
    let told = said_by(&check_success(server.run(&args)));
    let (_, address) = told.split_once("vitalfew run --show ").expect("an address");
    let address = address.trim();
    let args = ["run", "--json", "--show", address];
    let shown = check_success(server.run_anew(&args)).stdout;
    let newest = check_success(server.run_anew(&["run", "--json", "--show", DB])).stdout;
    assert!(!shown.is_empty() && shown == newest);
    server.set_fault("GET", ".json", "cut");
    let cut = server.run_anew(&args);
    assert!(
        said_by(&cut).contains("its hash is not that of its name"),
        "{}",
        said_by(&cut)
    );
    assert!(
        said_by(&cut).contains(address.rsplit_once('/').unwrap().0),
        "{}",
        said_by(&cut)
    );
}

#[test]
fn a_piece_sent_twice_counts_once() {
    let Some(server) = S3Server::start() else {
        return;
    };
    let (spool, copy) = (server.directory("spool"), server.directory("copy"));
    for database in [&spool, &copy] {
        write_epoch(database, "a", HOUR, 100);
    }
    check_success(send_from(&server, &spool));
    let objects = server
        .ask("GET", "/fleet?list-type=2", "")
        .matches("<Key>")
        .count();
    check_success(send_from(&server, &copy));
    assert_eq!(waiting_epochs(&copy), 0);
    assert_eq!(total_samples(&server), 100);
    let again = server
        .ask("GET", "/fleet?list-type=2", "")
        .matches("<Key>")
        .count();
    assert_eq!(again, objects);
}

#[test]
fn stores_without_conditional_writes_are_written_to() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", HOUR, 100);
    server.set_fault("PUT", "/fleet/", "no conditions");
    check_success(send_from(&server, &spool));
    assert_eq!((waiting_epochs(&spool), total_samples(&server)), (0, 100));
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "not {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill_daemon(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_at_any_step_nothing_is_lost_or_doubled() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", HOUR, 100);
    write_epoch(&spool, "a", 2 * HOUR, 20);
    // While it writes a table, the description, and between the last write and the mark.
    for (method, part) in [
        ("PUT", "samples.parquet"),
        ("PUT", "recording.json"),
        ("GET", "list-type=2"),
    ] {
        server.set_fault(method, part, "hang");
        let before = server.count(method, part);
        let mut command = server.command();
        let child = command
            .args(send_args(spool.to_str().unwrap(), &[]))
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        wait_until("at the step", || server.count(method, part) > before);
        kill_daemon(child);
        server.mend_faults();
        assert_eq!(waiting_epochs(&spool), 2, "{part}");
        assert!(total_if_any(&server) <= 100, "{part}");
    }
    check_success(send_from(&server, &spool));
    assert_eq!((waiting_epochs(&spool), total_samples(&server)), (0, 120));
}

/// Returns the number of samples in the bucket, 0 if it has no epoch.
fn total_if_any(server: &S3Server) -> u64 {
    let output = server.run_anew(&["query", "--json", SUM, "--db", DB]);
    match output.status.code() {
        Some(4) => 0,
        _ => first_number(&check_success(output)),
    }
}

#[test]
fn without_network_epochs_wait_within_the_limit() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    let host = this_host();
    for (hour, samples) in [(1, 1000), (2, 200), (3, 30)] {
        write_epoch(&spool, &host, hour * HOUR, samples);
    }
    let unreachable = |args: &[&str]| {
        let mut command = server.command();
        command
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            .args(args);
        S3Server::run_command(&mut command)
    };
    for _ in 0..2 {
        let failed = unreachable(&send_args(spool.to_str().unwrap(), &[]));
        assert_eq!(failed.status.code(), Some(1));
        assert!(
            said_by(&failed).contains("cannot be reached"),
            "{}",
            said_by(&failed)
        );
        assert_eq!(waiting_epochs(&spool), 3);
    }
    let asked = unreachable(&["report", "--db", DB]);
    assert!(
        said_by(&asked).contains("s3://fleet/web: the server cannot be reached"),
        "{}",
        said_by(&asked)
    );

    // A limit is said with what it costs, the oldest first.
    let size = Database::create(&spool).unwrap().epochs().unwrap()[2]
        .summary
        .as_ref()
        .unwrap()
        .bytes;
    let limit = (size * 5 / 2).to_string();
    let args = [
        "daemon",
        "send",
        "--db",
        DB,
        "--spool",
        spool.to_str().unwrap(),
        "--spool-size",
        &limit,
    ];
    let failed = unreachable(&args);
    assert!(
        said_by(&failed).contains("epoch=19700101T010000.000000Z")
            && said_by(&failed).contains("is lost"),
        "{}",
        said_by(&failed)
    );
    check_success(send_from(&server, &spool));
    assert_eq!((waiting_epochs(&spool), total_samples(&server)), (0, 230));
}

#[test]
fn a_server_that_lies_about_writes_costs_nothing() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", HOUR, 100);
    for fault in ["swallow", "cut put"] {
        server.set_fault("PUT", "samples.parquet", fault);
        let failed = send_from(&server, &spool);
        assert!(
            !failed.status.success() && said_by(&failed).contains("sent again"),
            "{fault}: {}",
            said_by(&failed)
        );
        assert_eq!(waiting_epochs(&spool), 1, "{fault}");
    }
    server.mend_faults();
    check_success(send_from(&server, &spool));
    assert_eq!((waiting_epochs(&spool), total_samples(&server)), (0, 100));
}

#[test]
fn a_stale_list_hides_nothing_for_good() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", HOUR, 100);
    // What was written is not listed yet.
    server.set_fault("GET", "list-type=2", "nothing listed");
    let failed = send_from(&server, &spool);
    assert!(
        said_by(&failed).contains("does not list"),
        "{}",
        said_by(&failed)
    );
    assert_eq!((waiting_epochs(&spool), total_if_any(&server)), (1, 0));
    server.mend_faults();
    check_success(send_from(&server, &spool));
    assert_eq!((waiting_epochs(&spool), total_samples(&server)), (0, 100));
    // A list with a piece that is gone by now.
    server.set_fault("GET", "list-type=2", "stale");
    assert_eq!(total_samples(&server), 100);
    let prefix = "web/day=19700101/host=a/";
    let listed = server.ask("GET", &format!("/fleet?list-type=2&prefix={prefix}"), "");
    for key in listed
        .split("<Key>")
        .skip(1)
        .filter_map(|rest| rest.split("</Key>").next())
    {
        server.ask("DELETE", &format!("/fleet/{key}"), "");
    }
    let gone = server.run_anew(&["query", "--json", SUM, "--db", DB]);
    assert!(
        said_by(&gone).contains("no such object"),
        "{}",
        said_by(&gone)
    );
}

#[test]
fn one_damaged_piece_is_named_and_the_others_answer() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    for hour in 1..=10 {
        write_epoch(&spool, "a", hour * HOUR, 10);
    }
    check_success(send_from(&server, &spool));
    let piece = "epoch=19700101T050000.000000Z";
    for fault in ["damage", "cut", "endless", "drop", "fail", "forbid"] {
        server.set_fault("GET", &format!("{piece}/piece="), fault);
        let output = server.run_anew(&["query", "--json", SUM, "--db", DB]);
        let words = said_by(&output);
        assert_eq!(output.status.code(), Some(5), "{fault}: {words}");
        assert_eq!(first_number(&output), 90, "{fault}");
        let place = "s3://fleet/web/day=19700101/host=a/epoch=19700101T050000.000000Z";
        assert!(words.contains(place), "{fault}: {words}");
    }
    // Only a table of it.
    server.mend_faults();
    check_success(server.run_anew(&["epochs", "--db", DB]));
    for fault in ["damage", "cut", "endless", "drop"] {
        server.set_fault("GET", "T050000.000000Z/piece=", fault);
        let output = server.run(&["query", "--json", SUM, "--db", DB]);
        assert_eq!(
            output.status.code(),
            Some(5),
            "{fault}: {}",
            said_by(&output)
        );
        assert_eq!(first_number(&output), 90, "{fault}");
    }
    // Nothing damaged was kept.
    server.mend_faults();
    assert_eq!(
        first_number(&check_success(
            server.run(&["query", "--json", SUM, "--db", DB])
        )),
        100
    );
    // Not even if it is damaged here.
    let cached = server.directory("cache/vitalfew/s3:/fleet/web/day=19700101/host=a");
    for epoch in std::fs::read_dir(cached).unwrap().flatten() {
        for piece in std::fs::read_dir(epoch.path()).unwrap().flatten() {
            std::fs::write(piece.path().join("samples.parquet"), "x").unwrap();
        }
    }
    assert_eq!(
        first_number(&check_success(
            server.run(&["query", "--json", SUM, "--db", DB])
        )),
        100
    );
}

#[test]
fn refusals_say_what_to_do_and_no_secret() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    write_epoch(&spool, "a", HOUR, 100);
    // `S3Server::run` looks for secrets in what is said.
    for (method, args) in [
        ("GET", vec!["report", "--db", DB]),
        ("PUT", send_args(spool.to_str().unwrap(), &[])),
    ] {
        server.set_fault(method, "/fleet", "forbid");
        let denied = server.run(&args);
        assert_eq!(denied.status.code(), Some(1));
        let words = said_by(&denied);
        assert!(
            words.contains("access denied (SignatureDoesNotMatch)"),
            "{words}"
        );
        assert!(words.lines().count() == 1 && words.contains(DB), "{words}");
    }
    server.set_fault("GET", "/fleet", "skew");
    let skewed = server.run(&["report", "--db", DB]);
    assert!(
        said_by(&skewed).contains("this machine's clock"),
        "{}",
        said_by(&skewed)
    );
    server.mend_faults();
    let mut command = server.command();
    command
        .env("VITALFEW_DB", "s3://fleet/../etc")
        .arg("report");
    let invalid = S3Server::run_command(&mut command);
    assert_eq!(invalid.status.code(), Some(2), "{}", said_by(&invalid));
    let gone = server.run(&["report", "--db", "s3://nowhere/web"]);
    assert!(
        said_by(&gone).contains("s3://nowhere/web: there is no such bucket"),
        "{}",
        said_by(&gone)
    );
    let wrong = server.run(&["report", "--db", "s3://fleet/../etc"]);
    assert_eq!(wrong.status.code(), Some(2));
    let empty = server.run(&["report", "--db", DB]);
    assert_eq!(empty.status.code(), Some(4), "{}", said_by(&empty));
    assert!(said_by(&empty).contains(DB), "{}", said_by(&empty));

    let mut command = server.command();
    command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY");
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    let none = S3Server::run_command(command.args(["report", "--db", DB]));
    assert!(
        said_by(&none).contains("no credentials: set AWS_ACCESS_KEY_ID"),
        "{}",
        said_by(&none)
    );
    // The files of profiles.
    let files = server.directory(".aws");
    std::fs::create_dir_all(&files).unwrap();
    let keys = "[fleet]\naws_access_key_id = AKIATESTKEYOFOURS\naws_secret_access_key = verysecretaccesskeyofthetests\n";
    std::fs::write(files.join("credentials"), keys).unwrap();
    let found = S3Server::run_command(command.env("AWS_PROFILE", "fleet"));
    assert_eq!(found.status.code(), Some(4), "{}", said_by(&found));
    let missing = S3Server::run_command(command.env("AWS_PROFILE", "other"));
    assert!(
        said_by(&missing).contains("no profile 'other'"),
        "{}",
        said_by(&missing)
    );
}

#[test]
fn a_silent_server_is_given_up() {
    let Some(server) = S3Server::start() else {
        return;
    };
    server.set_fault("GET", "/fleet", "hang");
    let began = Instant::now();
    let given_up = server.run(&["report", "--db", DB]);
    assert!(
        said_by(&given_up).contains("does not answer in time"),
        "{}",
        said_by(&given_up)
    );
    assert!(began.elapsed() < Duration::from_secs(90));
}

#[test]
fn hosts_of_one_name_lose_nothing() {
    let Some(server) = S3Server::start() else {
        return;
    };
    for (spool, samples) in [("one", 100), ("two", 23)] {
        // The same name at the same microsecond.
        let spool = server.directory(spool);
        write_epoch(&spool, "web", HOUR, samples);
        check_success(send_from(&server, &spool));
    }
    assert_eq!(total_samples(&server), 123);
    let both = format!("{DB}/day=19700101/host=web");
    check_success(server.run(&["report", &both]));
}

#[test]
fn what_is_too_old_is_removed_from_the_bucket() {
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    write_epoch(&spool, &this_host(), HOUR, 1000);
    write_epoch(&spool, &this_host(), now.as_nanos() as u64 - HOUR, 100);
    write_epoch(&spool, "another host", HOUR, 20);
    check_success(server.run(&send_args(spool.to_str().unwrap(), &["--keep", "1d"])));
    assert_eq!(total_samples(&server), 120);
    let left = server.ask("GET", "/fleet?list-type=2", "");
    assert!(
        !left.contains(&format!("day=19700101/host={}/", this_host())),
        "{left}"
    );
}

#[test]
fn a_daemon_sends_what_it_has_closed_and_at_its_end_all() {
    let Some(_alone) = common::alone() else {
        return;
    };
    let Some((server, spool)) = server_and_spool() else {
        return;
    };
    let talk = server.directory("talk");
    let start = |send: &str| {
        let spool = spool.to_str().unwrap();
        let args = [
            "daemon", "run", "--db", DB, "--spool", spool, "--send", send, "--epoch", "1s",
        ];
        let more = [
            "--interval",
            "200ms",
            "-F",
            "1000",
            "--budget",
            "100",
            "--no-stacks",
        ];
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&talk)
            .unwrap();
        server
            .command()
            .args(args)
            .args(more)
            .stderr(file)
            .spawn()
            .unwrap()
    };
    let ask = |what: &str| {
        let args = ["daemon", what, "--json", "--db", spool.to_str().unwrap()];
        let answer = server.run(&args);
        let answer = answer.status.success().then_some(answer.stdout)?;
        serde_json::from_slice::<Value>(&answer).ok()
    };
    let heard = || std::fs::read_to_string(&talk).unwrap_or_default();
    // Rarely, so that a store's bill stays small.
    let child = start("1h");
    wait_until("three epochs", || {
        let status = ask("status").unwrap_or_default();
        status["unsent_epochs"].as_u64().unwrap_or(0) >= 3
    });
    assert_eq!(server.count("PUT", ".parquet"), 0);
    let status = ask("status").unwrap();
    assert_eq!(status["bucket"], DB);
    // Killed, nothing is lost: the next daemon sends it.
    kill_daemon(child);
    let mut child = start("1s");
    wait_until("sent", || server.count("PUT", "recording.json") >= 3);
    assert!(ask("stop").is_some(), "{}", heard());
    assert!(child.wait().unwrap().success(), "{}", heard());
    assert_eq!(waiting_epochs(&spool), 0, "{}", heard());
    let sum = |sql: &str| {
        first_number(&check_success(
            server.run_anew(&["query", "--json", sql, "--db", DB]),
        ))
    };
    let stored = sum("SELECT sum(stored) AS n FROM events");
    assert!(stored > 0);
    assert_eq!(
        sum("SELECT sum(taken) - sum(dropped) AS n FROM events"),
        stored
    );
    assert_eq!(sum(SUM), stored);
    assert!(!heard().contains("error"), "{}", heard());
}
