//! Live tests of programs that damage stacks, mappings and the structures of interpreters. Their
//! recordings end, the accounts balance, and warnings say what is missing. Skipped where this
//! machine cannot be measured, unless REQUIRE_LIVE is set.

use profile::{CallGraph, Recording};
use sampler::{Options, Rate, TargetSpec};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Returns whether this machine can be measured.
fn live() -> bool {
    let probed = sampler::capabilities::probe_machine();
    let Err(gap) = probed.system_wide().and(probed.bpf()) else {
        return true;
    };
    assert!(
        std::env::var_os("REQUIRE_LIVE").is_none(),
        "REQUIRE_LIVE is set and this machine cannot be measured: {}",
        gap.missing
    );
    eprintln!("skipped: {}", gap.missing);
    false
}

/// Compiles a program of `tests/programs`.
fn compile(directory: &Path, source: &str, name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let program = directory.join(name);
    let built = Command::new("cc")
        .args(["-O2", "-fomit-frame-pointer", "-pthread", "-rdynamic", "-o"])
        .args([&program, &programs.join(source)])
        .status()
        .expect("a C compiler");
    assert!(built.success(), "{source} does not compile");
    program
}

fn record(directory: &Path, command: &[&str]) -> Recording {
    let command = command.iter().map(|word| (*word).into()).collect();
    let mut options = Options::new(TargetSpec::Command(command));
    options.rate = Rate::Frequency(2000);
    options.call_graph = CallGraph::Tables;
    options.table_directory = Some(directory.join("tables"));
    let outcome = sampler::record(&options, &AtomicBool::new(false), &mut |_| ());
    let recording = outcome.expect("it can be recorded").recording;
    for event in &recording.events {
        assert_eq!(event.taken, event.stored + event.dropped + event.lost);
        assert!(event.dropped * 1000 <= event.taken, "{event:?}");
    }
    let unbalanced = |warning: &&String| warning.starts_with("accounting");
    assert_eq!(recording.warnings.iter().find(unbalanced), None);
    recording
}

/// Returns the samples below a function of this name among the recording's own symbols.
fn samples_below(recording: &Recording, name: &str) -> u64 {
    let named: Vec<_> = recording
        .symbols
        .iter()
        .filter(|s| s.name.contains(name))
        .collect();
    let is_named = |location: profile::Location| {
        let here = |s: &&profile::EmbeddedSymbol| {
            s.image == location.image && (s.start..s.end).contains(&location.offset)
        };
        named.iter().copied().any(|symbol| here(&symbol))
    };
    let below = |sample: &&profile::Sample| recording.stacks.locations(sample.stack).any(is_named);
    recording
        .samples
        .iter()
        .filter(below)
        .map(|sample| sample.count)
        .sum()
}

/// Returns the depth of the deepest stack.
fn depth(recording: &Recording) -> usize {
    let depths = recording
        .samples
        .iter()
        .map(|s| recording.stacks.locations(s.stack).count());
    depths.max().unwrap_or(0)
}

#[test]
fn structures_of_an_interpreter_may_say_anything() {
    let ways = [
        "good", "cycle", "garbage", "kernel", "threads", "giant", "rewrite",
    ];
    may_say_anything("Python", &ways, "cycle", &["garbage", "threads", "rewrite"]);
}

#[test]
fn structures_of_ruby_may_say_anything() {
    let ways = [
        "good", "endless", "garbage", "kernel", "giant", "itself", "rewrite",
    ];
    may_say_anything("Ruby", &ways, "endless", &["garbage", "kernel", "rewrite"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn structures_of_v8_may_say_anything() {
    let ways = ["good", "garbage", "kernel", "giant", "itself", "rewrite"];
    may_say_anything("V8", &ways, "", &[]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn structures_of_a_jvm_may_say_anything() {
    let ways = [
        "good", "cycle", "garbage", "kernel", "giant", "frames", "table", "rewrite",
    ];
    may_say_anything("Java", &ways, "", &[]);
}

/// Records the program that pretends to be an interpreter of this language in all `ways`. In the
/// one called `endless` its stack has no end. Those of `said` must cause a warning.
fn may_say_anything(language: &str, ways: &[&str], endless: &str, said: &[&str]) {
    if !live() {
        return;
    }
    let lab = tempfile::tempdir().expect("a directory");
    let source = format!("languages/hostile_{}.c", language.to_lowercase());
    // A JVM is recognised by its library, some tenths of a second after its start.
    let (file, lack, seconds) = match language {
        "Java" => ("libjvm.so", "of Java have no names".to_owned(), "1.5"),
        _ => ("program", format!("stacks of {language} lack"), "0.5"),
    };
    let program = compile(lab.path(), &source, file);
    let program = program.to_str().expect("UTF-8");
    // The first recording makes the tables.
    record(lab.path(), &[program, "good", "0.3"]);
    for how in ways {
        let recording = record(lab.path(), &[program, how, seconds]);
        let stored = recording.events[0].stored;
        assert!(stored > 50, "{how}: {stored} samples");
        let named = samples_below(&recording, "victim");
        let warned = recording.warnings.iter().any(|w| w.contains(&lack));
        // The pretence must work, or the rest would show nothing.
        if *how == "good" {
            assert!(named * 10 > stored * 8, "{named} of {stored}");
            assert!(
                !warned && depth(&recording) < 40,
                "{:?}",
                recording.warnings
            );
        }
        if *how == endless {
            assert!(named > 0 && depth(&recording) >= 508);
        }
        assert!(
            warned || !said.contains(how),
            "{how}: {:?}",
            recording.warnings
        );
        // A kernel stack may lie on a user stack of maximum depth.
        assert!(depth(&recording) <= 508 + 127, "{how}");
    }
}

#[test]
fn thousands_of_processes_and_programs_that_replace_themselves_are_accounted_for() {
    if !live() {
        return;
    }
    let lab = tempfile::tempdir().expect("a directory");
    let script = "i=0; while [ $i -lt 1500 ]; do /bin/true & i=$((i+1)); [ $((i % 50)) = 0 ] && wait; done; wait; exec sh -c 'exec sleep 0.1'";
    let recording = record(lab.path(), &["sh", "-c", script]);
    let event = &recording.events[0];
    assert!(event.stored > 300, "{event:?}");
    let name = |sample: &profile::Sample| recording.names.get(sample.process).to_owned();
    let of_true = recording
        .samples
        .iter()
        .filter(|sample| name(sample) == "true");
    assert!(of_true.map(|sample| sample.count).sum::<u64>() > 50);
}
