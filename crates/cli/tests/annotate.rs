//! `annotate` on programs of known behaviour, and on input that it must refuse.

mod common;

use common::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn annotate(args: &[&str]) -> Output {
    let output = Command::new(VITALFEW).arg("annotate").args(args).output();
    output.expect("vitalfew runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the instruction with the most samples, and its block.
fn hottest(procedure: &Value) -> (&Value, &Value) {
    let blocks = procedure["blocks"].as_array().expect("blocks");
    let instructions = blocks.iter().flat_map(|block| {
        let all = block["instructions"].as_array().expect("instructions");
        all.iter().map(move |one| (one, block))
    });
    let samples = |one: &Value| one["samples"].as_f64().expect("samples");
    let most = instructions.max_by(|a, b| samples(a.0).total_cmp(&samples(b.0)));
    most.expect("an instruction")
}

/// Returns the instructions with at least a third as many samples as the hottest one: a branch that
/// is mispredicted half of the time delays its successors on two paths, each with a part of the
/// samples.
fn with_many_samples(procedure: &Value) -> Vec<&Value> {
    let samples = |one: &Value| one["samples"].as_f64().expect("samples");
    let least = samples(hottest(procedure).0) / 3.0;
    let blocks = procedure["blocks"].as_array().expect("blocks").iter();
    let all = blocks.flat_map(|block| block["instructions"].as_array().expect("instructions"));
    all.filter(|one| samples(one) >= least).collect()
}

/// Checks the claims of a procedure against the schema; each must be about an instruction with
/// samples, and none may be certain if executions are unknown.
fn assert_documented_claims(procedure: &Value) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/finding.schema.json");
    let schema = std::fs::read_to_string(schema).expect("the schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for claim in procedure["claims"]["list"].as_array().expect("claims") {
        assert!(validator.is_valid(claim), "{claim:#}");
        assert_eq!(claim["claim"], "stalls");
        let next = claim["next"].as_array().expect("a command");
        let recording = next.last().and_then(Value::as_str).expect("its recording");
        assert!(Path::new(recording).exists(), "{claim:#}");
        assert_eq!(claim["amount"]["certainty"], "upper_bound", "{claim:#}");
    }
}

/// Adds samples of instructions to a recording of one kernel, as if each had taken four cycles: a
/// scale.
#[cfg(target_arch = "x86_64")]
fn add_scale(file: &Path) {
    let mut recording = store::read_file(file).expect("a recording");
    let hz = 3e9;
    recording.host.clock_hz = Some(hz as u64);
    let time = recording.events[0].clone();
    let most = recording.samples.iter().max_by_key(|one| one.weight);
    let mut sample = *most.expect("samples");
    let all: u64 = recording.samples.iter().map(|one| one.weight).sum();
    sample.event = profile::EventId(recording.events.len() as u16);
    (sample.count, sample.weight) = (all / 4, all / 4);
    let period = (time.period as f64 * hz / 1e9) as u64;
    let mut counted = profile::Event::new("instructions", profile::Unit::Samples, period);
    (counted.taken, counted.stored) = (all / 4, all / 4);
    recording.events.push(counted);
    recording.samples.push(sample);
    std::fs::remove_file(file).expect("removed");
    store::write_file(&recording, file).expect("written");
}

/// Returns `annotate`'s JSON of a kernel's recording, with a scale or without.
#[cfg(target_arch = "x86_64")]
fn kernel_of(lab: &Lab, options: &[&str], command: &[&str], scaled: bool) -> Value {
    let file = lab.record([&["-e", "cpu-clock"], options, &["--"], command].concat());
    if scaled {
        add_scale(&file);
    }
    let file = file.to_str().expect("a name");
    // The test machine's processor need not have a model.
    let output = annotate(&[command[1], file, "--json", "--cpu", "zen3"]);
    let talk = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {talk}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_true_culprit_is_listed_for_the_hottest_stall() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("stalls");
    let program = program.to_str().expect("a name");
    for (kernel, truth) in [
        ("chase", ["D-cache miss"].as_slice()),
        ("random_loads", &["D-cache miss"]),
        ("store_burst", &["Store buffer"]),
        // The units that bound the block are the divider's.
        ("divide", &["Ports"]),
        ("mispredict", &["Branch mispredict"]),
        ("ports", &["Ports"]),
        ("fetch", &["Front end", "I-cache miss"]),
        ("pages", &["DTLB miss"]),
    ] {
        // Data addresses must not rule the truth out.
        for registers in [&[][..], &["--registers"]] {
            let options = [&["-F1000"], registers].concat();
            let found = kernel_of(&lab, &options, &[program, kernel, "1"], false);
            let (_, block) = hottest(&found);
            let mut causes: Vec<&str> = block["bound"].as_str().into_iter().collect();
            // Executions are unknown, and so are durations: any of the instructions with many
            // samples may be the one that stalls.
            for instruction in with_many_samples(&found) {
                assert!(instruction["account"].is_null(), "{instruction:#}");
                let suspects = instruction["suspects"].as_array().expect("suspects").iter();
                causes.extend(suspects.filter_map(|one| one["cause"].as_str()));
            }
            println!("{kernel}: {causes:?}");
            let told = truth.iter().any(|truth| causes.contains(truth));
            assert!(told, "{kernel}: {found:#}");
            assert_documented_claims(&found);
            if kernel == "chase" {
                let claimed = &found["claims"]["list"][0]["place"]["what"]["address"];
                assert_eq!(*claimed, hottest(&found).0["address"], "{found:#}");
            }
        }
    }
}

/// Data addresses, known from registers at samples, rule DTLB misses out where they are impossible.
/// They bound them where they are rare, and keep them where they occur.
#[test]
#[cfg(target_arch = "x86_64")]
fn data_addresses_tell_dtlb_misses_from_cache_misses() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("stalls");
    let program = program.to_str().expect("a name");
    // Upper bound of the DTLB share of the hottest stall, with registers and without.
    let share = |kernel: &str, registers: &[&str]| {
        let options = [&["-F10000"], registers].concat();
        let command = [program, kernel, "3"];
        let found = kernel_of(&lab, &options, &command, true);
        let (instruction, block) = hottest(&found);
        let account = &instruction["account"];
        let culprits = account["culprits"].as_array().expect("culprits");
        let walks = culprits.iter().find(|one| one["letter"] == "D");
        let most = walks.map_or(0.0, |one| one["most_cycles"].as_f64().expect("cycles"));
        let all = block["instructions"].as_array().expect("instructions");
        let data: Vec<Value> = all.iter().map(|one| one["data"].clone()).collect();
        let share = most / account["dynamic_stall"].as_f64().expect("a stall");
        println!("{kernel} {registers:?}: {share:.3}, {data:?}");
        let is_null = data.iter().all(Value::is_null);
        assert_eq!(is_null, registers.is_empty(), "{data:?}");
        (share, data)
    };
    let (chase, _) = share("chase_near", &[]);
    assert_eq!(chase, 1.0);
    let (chase, data) = share("chase_near", &["--registers"]);
    // 0 of 27,000 samples; a busy machine takes fewer, which rule out less.
    assert!(chase < 0.2, "{chase}");
    let load = data.iter().find(|one| !one.is_null()).expect("a load");
    assert_eq!(load["pages"], 24);
    // 32,768 pages at random, most of which are seen once or not at all.
    let (chase, data) = share("chase", &["--registers"]);
    assert_eq!(chase, 1.0);
    let load = data.iter().find(|one| !one.is_null()).expect("a load");
    let pages = load["pages"].as_f64().expect("a count");
    assert!((2_000.0..60_000.0).contains(&pages), "{load}");
    let (stream, data) = share("stream", &["--registers"]);
    assert!(stream < 0.7, "{stream}");
    let load = data.iter().find(|one| !one.is_null()).expect("a load");
    assert_eq!(load["stride"], 8);
    // A new page every 512 times.
    assert!(load["new_page"].as_f64().expect("a share") < 0.01, "{load}");
    let (pages, _) = share("pages", &["--registers"]);
    assert_eq!(pages, 1.0);
}

#[test]
fn what_cannot_be_said_is_refused_clearly() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let name = program.to_str().expect("a name").to_owned();
    let file = lab.record(["-e", "cpu-clock", "-F1000", "--", &name]);
    let file = file.to_str().expect("a name");
    let run = |args: &[&str]| {
        let output = annotate(&[&[args[0], file], &args[1..]].concat());
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, _, talk) = run(&["no_such_procedure", "--cpu", "zen3"]);
    assert_eq!(code, Some(4), "{talk}");
    assert!(talk.contains("no sample is in a procedure 'no_such_procedure'; most are in: "));
    let (code, _, talk) = run(&["main", "--cpu", "pentium"]);
    assert_eq!(code, Some(2));
    assert!(
        talk.contains("there is no model of 'pentium'; there are: skylake"),
        "{talk}"
    );
    let (_, json, talk) = run(&["hot", "--json", "--cpu", "zen3"]);
    let hot: Value = serde_json::from_str(&json).expect(&talk);
    let blocks = hot["blocks"].as_array().expect("blocks");
    let ends = |key: &str| {
        blocks
            .iter()
            .filter_map(|block| block[key].as_u64())
            .collect::<Vec<_>>()
    };
    let (start, end) = (
        ends("start").into_iter().min(),
        ends("end").into_iter().max(),
    );
    let range = format!(
        "{:#x}..{:#x}",
        start.expect("a start"),
        end.expect("an end")
    );
    let (code, _, talk) = run(&[&range, "--image", "hot_line", "--cpu", "neoverse-n1"]);
    assert_eq!(code, Some(2), "{talk}");

    // The whole profile, and the graph.
    let summary = annotate(&["--summary", file, "--cpu", "zen3"]);
    let shown = text(&summary.stdout);
    assert!(
        summary.status.success() && shown.contains("Total tallied"),
        "{shown}"
    );
    let last = shown.lines().last().expect("lines");
    assert!(last.ends_with("100.0%"), "{last}");

    // Stripped: by range only. The place of the code is in the program headers.
    assert!(
        Command::new("strip")
            .arg(&name)
            .status()
            .expect("strip")
            .success()
    );
    let (code, listing, talk) = run(&[&range, "--image", "hot_line", "--cpu", "zen3"]);
    assert_eq!(code, Some(0), "{talk}");
    assert!(listing.contains("CPI"), "{listing}");

    // Replaced by another build.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/hot_line.c");
    let again = Command::new("cc")
        .args(["-O1", "-pthread", "-o", &name])
        .arg(source)
        .status();
    assert!(again.expect("a C compiler").success());
    let (code, _, talk) = run(&[&range, "--image", "hot_line", "--cpu", "zen3"]);
    assert_eq!(code, Some(1), "{talk}");
    assert!(
        talk.contains("it was replaced since the recording"),
        "{talk}"
    );
}
