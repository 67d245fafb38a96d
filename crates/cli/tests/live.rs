//! The command on programs with a known truth (tests/programs/), on the test machine. The tests
//! assert shares, by intervals; never times.

mod common;

use common::*;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Returns the line of a source with a word in it.
fn line_of(program: &str, word: &str) -> usize {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(program);
    let text = std::fs::read_to_string(source).expect("the source");
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.contains(word))
        .last()
        .expect("the word")
        .0
        + 1
}

/// Returns the commands of the README's first screen, each with its shown output.
fn readme_commands() -> Vec<(String, Vec<String>)> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).expect("the README");
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside && line.starts_with("$ vitalfew ") => {
                let command = line.trim_start_matches("$ vitalfew ");
                let command = command.split("  #").next().unwrap_or_default();
                commands.push((command.trim().to_owned(), Vec::new()));
            }
            line if inside => {
                if let Some((_, shown)) = commands.last_mut() {
                    shown.push(line.to_owned());
                }
            }
            _ => {}
        }
    }
    commands
}

/// Returns a line without the parts that differ from run to run: numbers, and their alignment.
fn shape(line: &str) -> String {
    let number = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '%');
    let words = line.split_whitespace().map(|word| word.replace(number, ""));
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn wait_or_kill(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn the_hot_line_is_found() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    for collector in ["bpf", "ring"] {
        let (file, output) = lab.try_record([
            OsStr::new("-F1000"),
            OsStr::new("--collector"),
            OsStr::new(collector),
            OsStr::new("--"),
            program.as_os_str(),
        ]);
        assert_eq!(output.status.code(), Some(3), "the program's exit code");
        let by_line = report(&file, &["--by", "line"]);
        assert_balanced(&by_line);
        assert!(total(&by_line) > 100.0, "{collector}: {}", total(&by_line));
        let line = line_of("hot_line.c", "HOT");
        // The loop has one more instruction, which belongs to the line of the `for`.
        let near = share(&by_line, &format!("hot_line.c:{line}"))
            + share(&by_line, &format!("hot_line.c:{}", line - 1));
        assert!(near > 0.85, "{collector}: {near}");
        assert!(share(&report(&file, &[]), "hot") > 0.85);
    }
}

#[test]
fn both_ways_of_collecting_give_the_true_shares() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("three_to_one");
    let mut shares = Vec::new();
    for collector in ["bpf", "ring"] {
        let file = lab.record([
            "-F2000",
            "--collector",
            collector,
            "--",
            program.to_str().unwrap(),
        ]);
        // Only the program: on a busy machine the kernel's share differs between runs.
        let report = report(&file, &["--image", "three_to_one"]);
        assert_balanced(&report);
        let n = total(&report);
        assert!(n > 300.0, "{collector}: {n} samples");
        for (name, truth) in [("six", 0.6), ("three", 0.3), ("one", 0.1)] {
            let found = share(&report, name);
            assert!(
                (found - truth).abs() < error(truth, n) + 0.01,
                "{collector}: {name} {found} of {n}, not {truth}"
            );
        }
        shares.push((share(&report, "six"), n));
    }
    let [(a, n), (b, m)] = shares[..] else {
        panic!()
    };
    assert!(
        (a - b).abs() < 5.0 * (0.24 / n + 0.24 / m).sqrt(),
        "{a} and {b}"
    );
}

#[test]
fn a_program_in_lock_step_with_the_rate_is_not_misattributed() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("lock_step");
    for collector in ["bpf", "ring"] {
        let file = lab.record([
            "-F1000",
            "--collector",
            collector,
            "--",
            program.to_str().unwrap(),
            "2000",
        ]);
        // Reading the clock belongs to both halves, and its caller is not visible by procedure.
        let report = report(&file, &["--procedure", "_half"]);
        let n = total(&report);
        assert!(n > 100.0, "{n} samples");
        let first = share(&report, "first_half");
        assert!(
            (first - 0.5).abs() < error(0.5, n) + 0.1,
            "{collector}: first_half has {first} of {n}"
        );
    }
}

#[test]
fn processes_that_live_for_milliseconds_are_attributed() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let file = lab.record(["-F5000", "--", "sh", "-c", script]);
    let report = report(&file, &["--by", "image"]);
    assert_balanced(&report);
    assert!(total(&report) > 300.0);
    let unknown = report["events"][0]["unknown"].as_f64().unwrap() / total(&report);
    assert!(unknown < 0.01, "{unknown} is unknown");
    assert!(amount(&report, "ld-linux") + amount(&report, "ld.so") > 0.0);
}

#[test]
fn a_program_that_is_deleted_while_it_runs_keeps_its_names() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let script = format!(
        "{0} 1500000000 & sleep 0.6; rm {0}; wait",
        program.display()
    );
    let file = lab.record(["-F1000", "--", "sh", "-c", &script]);
    let report = report(&file, &["--image", "hot_line"]);
    assert!(total(&report) > 100.0);
    assert!(share(&report, "hot") > 0.9, "{report}");
}

#[test]
fn generated_code_is_named_by_its_perf_map() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("generated");
    for memory in ["own", "shared", "twice"] {
        for collector in ["bpf", "ring"] {
            let file = lab.record([
                "-F1000",
                "--collector",
                collector,
                "--",
                program.to_str().unwrap(),
                "500",
                memory,
            ]);
            let report = report(&file, &[]);
            let found = share(&report, "generated_loop");
            assert!(found > 0.7, "{memory}, {collector}: {found}");
        }
    }
}

#[test]
fn a_running_process_is_joined_with_threads_that_come_later() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("late");
    for collector in ["bpf", "ring"] {
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .spawn()
            .expect("it runs");
        let pid = child.id().to_string();
        let recording = lab.start_recording(["-F1000", "--collector", collector, "-p", &pid]);
        drop(child.stdin.take());
        let (_, file) = recording.wait();
        let by_thread = report(&file, &["--by", "thread"]);
        assert!(share(&by_thread, "late") > 0.9, "{collector}: {by_thread}");
        assert!(share(&report(&file, &[]), "late_work") > 0.7);
        wait_or_kill(child);
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_keeps_its_names() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("leaderless");
    for (collector, whole_machine) in [("bpf", false), ("bpf", true), ("ring", false)] {
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .spawn()
            .expect("it runs");
        let pid = child.id().to_string();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        while !state().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let target = if whole_machine {
            vec!["-a", "--for", "1s"]
        } else {
            vec!["-p", &pid]
        };
        let options = ["-F1000", "--collector", collector].into_iter();
        let recording = lab.start_recording(options.chain(target));
        drop(child.stdin.take());
        let (_, file) = recording.wait();
        wait_or_kill(child);
        let of_process = ["--process", "leaderless"];
        let procedures = report(&file, &of_process[..2 * usize::from(whole_machine)]);
        let named = share(&procedures, "work_of_threads");
        assert!(named > 0.9, "{collector}, {whole_machine}: {procedures}");
        let processes = report(&file, &["--by", "process"]);
        assert!(amount(&processes, "leaderless") > 0.0, "{processes}");
        assert_eq!(amount(&processes, "-worker"), 0.0, "{processes}");
    }
}

#[test]
fn code_without_frame_pointers_is_unwound_by_its_tables() {
    if !live() {
        return;
    }
    for way in ["--call-graph=dwarf", "-g"] {
        unwind_deep_program(way);
    }
}

fn unwind_deep_program(way: &str) {
    let lab = Lab::new();
    let program = lab.program("deep");
    let file = lab.record(["-F1000", way, "--", program.to_str().unwrap()]);
    let report = report(&file, &[]);
    let complete = report["complete_stacks"].as_f64().expect("a share");
    assert!(
        complete > 0.9,
        "{way}: {complete} of the stacks are complete"
    );
    let inclusive = |name: &str| {
        let row = rows(&report).iter().find(|row| row["name"] == name);
        row.and_then(|row| row["inclusive"].as_f64()).unwrap_or(0.0) / total(&report)
    };
    for name in ["outer", "middle", "main"] {
        assert!(inclusive(name) > 0.8, "{name}: {}", inclusive(name));
    }
    assert!(inclusive("leaf") > 0.05);
}

#[test]
fn time_off_the_cpu_is_counted_by_stack_and_waker() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("blocked");
    let file = lab.record(["--off-cpu", "--", program.to_str().unwrap()]);
    let seconds = |args: &[&str], name: &str| amount(&report(&file, args), name) / 1e9;
    // 20 times 20 ms; a busy machine makes it longer, never shorter.
    let by_thread = ["--event", "off-cpu", "--by", "thread"];
    let slept = seconds(&by_thread, "sleeper");
    assert!((0.35..2.0).contains(&slept), "{slept} s");
    let by_waker = ["--event", "off-cpu", "--by", "waker", "--thread", "sleeper"];
    let woken = seconds(&by_waker, "waker");
    assert!(woken > 0.8 * slept, "{woken} of {slept} s");
    // An interrupt wakes the sleeper on a timer, not the thread that happened to run.
    let by_waker = ["--event", "off-cpu", "--by", "waker", "--thread", "waker"];
    let interrupted = seconds(&by_waker, "[interrupt]");
    assert!(interrupted > 0.3, "{interrupted} s");
    assert_balanced(&report(&file, &[]));
}

#[test]
fn the_whole_machine_is_seen() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let child = Command::new(program)
        .arg("100000000000")
        .spawn()
        .expect("it runs");
    let file = lab.record(["-F1000", "-a", "--for", "1s"]);
    wait_or_kill(child);
    let report = report(&file, &["--by", "image"]);
    assert_balanced(&report);
    assert!(share(&report, "hot_line") > 0.1, "{report}");
    assert!(rows(&report).len() > 1);
}

#[test]
fn an_interrupt_saves_and_a_second_one_soon_after_loses_nothing() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let recording = lab.start_recording(["-a", "-F1000"]);
    std::thread::sleep(Duration::from_millis(1500));
    recording.send("INT");
    // As `timeout` sends its signal, to the process and to its group.
    recording.send("INT");
    let (status, file) = recording.wait();
    assert!(status.success());
    assert!(!rows(&report(&file, &["--by", "image"])).is_empty());
}

#[test]
fn several_events_stand_side_by_side() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for collector in ["bpf", "ring"] {
        let file = lab.record([
            "-F1000",
            "--collector",
            collector,
            "-e",
            "cpu-clock,page-faults",
            "-e",
            "context-switches",
            "--",
            "sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; sleep 0.01",
        ]);
        let report = report(&file, &[]);
        assert_balanced(&report);
        let total = |event: usize| report["events"][event]["total"].as_f64().unwrap();
        // A starting process has some dozens of page faults.
        assert!(total(1) > 9.0 * 20.0, "{collector}: {} faults", total(1));
        assert!(total(2) >= 9.0, "{collector}: {} switches", total(2));
    }
}

#[test]
fn tracepoints_are_counted_to_their_period() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    // On one CPU: each CPU counts occurrences up to the period separately.
    let script = "for i in 1 2 3 4 5 6 7 8; do /bin/true; done; true";
    let count = |event: &str| {
        let file = lab.record(["-e", event, "--", "taskset", "-c", "0", "sh", "-c", script]);
        total(&report(&file, &["--by", "process"]))
    };
    assert_eq!(count("sched:sched_process_fork"), 8.0);
    assert_eq!(count("sched:sched_process_fork:3"), 2.0);
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let commands = readme_commands();
    assert!(commands.len() >= 4, "{commands:?}");
    for directory in ["causal", "interference"] {
        std::fs::create_dir(lab.path(directory)).expect("a directory");
    }
    std::fs::rename(lab.program("causal/lock_bound"), lab.path("inserts")).expect("renamed");
    // SQLite's locks are held for a moment, as these.
    std::fs::rename(lab.program("interference/alone"), lab.path("locks")).expect("renamed");
    let mut compared = 0;
    for (command, shown) in commands {
        // The README's programs need SQLite and time; a smaller one stands in for them.
        let command = command.replace("30s -- ./import 5000", "8s -- ./inserts none 0 1");
        let command = command.replace("45s -- ./inserts 2 3", "8s -- ./inserts none 0 1");
        let command = command.replace(
            "import.c -- ./import 5000",
            "lock_bound.c -- ./inserts none 0 3",
        );
        let command = command.replace(
            "run -- ./inserts 2 3",
            "run -- ./locks slept 3 2; [ $? = 7 ]",
        );
        let command = command.replace("./inserts 2 5", "./inserts none 0 1");
        // A short program would be run again and again.
        let command = command.replace("causal run ", "causal run --runs 1 ");
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("{{ {VITALFEW} {command}; }} 2>&1"))
            .current_dir(lab.path(""))
            .env("VITALFEW_DB", lab.path("db"))
            .output()
            .expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {printed}");
        let printed: Vec<String> = printed.lines().map(shape).collect();
        // Headings must match word for word; names and numbers are the program's own.
        const FIXED: [&str; 4] = [
            "everything else ",
            "experiments in run",
            "busy threads",
            "insertsvf: cpu-clock in calling contexts",
        ];
        for line in shown.iter().map(|line| shape(line)) {
            let Some(start) = FIXED.iter().find(|start| line.starts_with(**start)) else {
                continue;
            };
            assert!(
                printed.iter().any(|line| line.starts_with(*start)),
                "{command}: no line like {line:?} in {printed:#?}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

#[test]
fn a_full_disk_does_not_lose_the_recording() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let output = Command::new(VITALFEW)
        .args([
            "record",
            "-F1000",
            "-o",
            "/dev/full",
            "--",
            "sh",
            "-c",
            // Long enough for at least one sample.
            "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 5",
        ])
        .env("TMPDIR", lab.path(""))
        .output()
        .expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("No space left") && said.contains("instead"),
        "{said}"
    );
    let saved = std::fs::read_dir(lab.path(""))
        .expect("a directory")
        .flatten();
    let saved: Vec<PathBuf> = saved.map(|entry| entry.path()).collect();
    let [file] = &saved[..] else {
        panic!("{saved:?}")
    };
    report(file, &["--by", "process"]);
}

#[test]
fn programs_on_a_stacked_file_system_keep_their_names() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(lab.path(name)).expect("a directory");
    }
    std::fs::rename(lab.program("hot_line"), lab.path("lower/hot_line")).expect("a program");
    let merged = lab.path("merged");
    let layers = format!(
        "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work",
        lab.path("").display()
    );
    let mount = Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &layers])
        .arg(&merged)
        .status();
    assert!(mount.expect("mount runs").success());
    let (file, _) = lab.try_record([OsStr::new("-F1000"), merged.join("hot_line").as_os_str()]);
    let report = report(&file, &["--image", "hot_line"]);
    // Tests beside this one record the whole machine, and may be reading the program just now.
    let unmount = Command::new("umount").arg("--lazy").arg(&merged).status();
    assert!(unmount.expect("umount runs").success());
    assert!(total(&report) > 100.0);
    assert!(share(&report, "hot") > 0.85, "{report}");
}

/// A control group in the hierarchy that tells containers apart; its processes must have ended
/// before it is removed.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn make(name: &str) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let mounted = |kind: &str, option: &str| {
            let mut mounts = mounts
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>());
            let found = mounts.find(|words| {
                words[2] == kind && (option.is_empty() || words[3].split(',').any(|o| o == option))
            });
            found.map(|words| PathBuf::from(words[1]))
        };
        let root = mounted("cgroup", "memory").or_else(|| mounted("cgroup2", ""));
        let unique = format!("vitalfew-{}-{name}", std::process::id());
        let path = root.expect("control groups").join(unique).join(name);
        std::fs::create_dir_all(&path).expect("a control group");
        Self(path)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its processes may end a moment later.
        for directory in [Some(&*self.0), self.0.parent()].into_iter().flatten() {
            let mut tries = 0;
            while std::fs::remove_dir(directory).is_err() && tries < 500 {
                std::thread::sleep(Duration::from_millis(10));
                tries += 1;
            }
        }
    }
}

#[test]
fn samples_are_told_apart_by_container() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let id = "3f2a1b4c5d6e".repeat(6)[..64].to_owned();
    let (container, other) = (
        ControlGroup::make(&format!("docker-{id}.scope")),
        ControlGroup::make("other"),
    );
    // The same program in both, twice in the one.
    let enter = |group: &ControlGroup, times: usize| {
        let run = format!("{} 100000000;", program.display()).repeat(times);
        format!("(echo 0 > {}/cgroup.procs; {run})", group.0.display())
    };
    let script = format!("{}; {}; true", enter(&container, 2), enter(&other, 1));
    for how in [
        &["--no-stacks"][..],
        &["-g"],
        &["--collector", "ring", "--no-stacks"],
    ] {
        let command = ["-F1000", "--", "sh", "-c", &script];
        let file = lab.record(how.iter().chain(&command));
        let all = report(&file, &["--by", "container"]);
        assert_balanced(&all);
        let found = share(&all, "docker 3f2a1b4c5d6e");
        // By process: each runs as long as the others, whatever else the machine does.
        let truth = 2.0 / 3.0;
        let tolerance = error(truth, total(&all)) + 0.1;
        assert!((found - truth).abs() < tolerance, "{how:?}: {found} {all}");
        let groups = report(&file, &["--by", "cgroup"]);
        let row = rows(&groups)
            .iter()
            .find(|row| row["detail"] == "docker 3f2a1b4c5d6e");
        let path = row.expect("a row")["name"].as_str().unwrap_or_default();
        assert!(path.ends_with(&format!("/docker-{id}.scope")), "{path}");
        // As a filter, by the container's name and by the path, over threads and over places.
        for wanted in ["docker 3f2a1b", &id] {
            for by in ["cgroup", "procedure"] {
                let some = report(&file, &["--by", by, "--cgroup", wanted]);
                let part = total(&some) / total(&all);
                assert!((part - found).abs() < 1e-6, "{how:?} {wanted} {by}: {part}");
            }
        }
    }
}

#[test]
fn programs_in_other_mount_namespaces_are_read_there() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    for name in ["whole", "stripped", "app"] {
        std::fs::create_dir(lab.path(name)).expect("a directory");
    }
    std::fs::copy(&program, lab.path("whole/server")).expect("a copy");
    let strip = Command::new("strip")
        .arg("-o")
        .args([&lab.path("stripped/server"), &program])
        .status();
    assert!(strip.expect("binutils is installed").success());
    // Each sees another program under the same path, which does not exist outside.
    let run = |directory: &str| {
        format!(
            "unshare -m sh -c 'mount --bind {} {1} && {1}/server 200000000'",
            lab.path(directory).display(),
            lab.path("app").display()
        )
    };
    let script = format!("{}; {}; true", run("whole"), run("stripped"));
    for collector in ["bpf", "ring"] {
        let command = [
            "--no-stacks",
            "-F1000",
            "--collector",
            collector,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let file = lab.record(command);
        let report = report(&file, &["--image", "app/server"]);
        assert!(total(&report) > 100.0, "{collector}: {report}");
        // Its only loop is the same in both, one with a name and one without.
        for name in ["hot", "[function at 0x"] {
            let found = share(&report, name);
            assert!(found > 0.25, "{collector}: {name} {found} {report}");
        }
    }
}

#[test]
fn a_program_deleted_before_the_recording_keeps_its_names() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let child = Command::new(&program)
        .arg("100000000000")
        .spawn()
        .expect("it runs");
    std::fs::remove_file(&program).expect("it is there");
    let pid = child.id().to_string();
    for target in [&["-p", &pid][..], &["-a"]] {
        let file = lab.record(target.iter().chain(&["-F1000", "--for", "500ms"]));
        let report = report(&file, &["--image", "hot_line"]);
        assert!(share(&report, "hot") > 0.85, "{target:?}: {report}");
    }
    wait_or_kill(child);
}

#[test]
fn short_processes_are_seen_as_often_both_ways() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("three_to_one");
    let script = format!(
        "i=0; while [ $i -lt 300 ]; do {} 1; i=$((i+1)); done",
        program.display()
    );
    // One inside the other: both see the same processes, whatever else the machine does.
    let by_bpf = lab.path("bpf.vf");
    let bpf = [
        VITALFEW,
        "record",
        "-q",
        "-F1000",
        "--collector",
        "bpf",
        "-o",
    ];
    let ring = ["-F1000", "--collector", "ring", "--"];
    let command = ring.iter().chain(&bpf).map(OsStr::new);
    let shell = ["--", "sh", "-c", &script].map(OsStr::new);
    let by_ring = lab.record(command.chain([by_bpf.as_os_str()]).chain(shell));
    let count = |file: &Path| amount(&report(file, &["--by", "image"]), "three_to_one");
    let ratio = count(&by_bpf) / count(&by_ring);
    assert!((0.75..1.33).contains(&ratio), "{ratio}");
}

#[test]
fn a_termination_is_passed_on_to_the_command() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let ready = lab.path("ready");
    let script = format!(
        "trap 'exit 9' TERM; touch {}; while :; do :; done",
        ready.display()
    );
    let recording = lab.start_recording(["-F1000", "sh", "-c", &script]);
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(1500));
    recording.send("TERM");
    let (status, file) = recording.wait();
    assert_eq!(status.code(), Some(9));
    assert!(!rows(&report(&file, &["--by", "image"])).is_empty());
}

/// The scheduler's accounts of a command with short children agree with the shell's `times`.
#[test]
fn the_first_line_says_where_the_time_went() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let script = "for i in $(seq 200); do /bin/true; done; sleep 0.5 & sleep 0.5; wait; times";
    for collector in ["bpf", "ring"] {
        let (file, output) = lab.try_record(["--collector", collector, "--", "bash", "-c", script]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let truth: f64 = said.split_whitespace().map(seconds).sum();
        let report = report(&file, &[]);
        let times = &report["task_times"];
        let ns = |key: &str| {
            times[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {report}"))
        };
        // bash, the subshell of $(seq), true, two sleeps: a few of the 204 that the kernel has not
        // released in time are missing now and then; five were, beside other tests. Their CPU time
        // is within the tolerance below.
        let threads = ns("threads");
        assert!((195.0..=204.0).contains(&threads), "{times}");
        let off = (ns("cpu_ns") / 1e9 - truth).abs() / truth;
        assert!(off < 0.1, "{collector}: {times}, by the shell {truth} s");
        // Three processes wait as long as a sleep, those that start others beside it.
        let length = report["duration_ns"].as_f64().expect("a length");
        assert!(ns("blocked_ns") > 0.5e9 * 3.0, "{times}");
        assert!(ns("blocked_ns") < 3.2 * length, "{times} of {length}");
        let text = Command::new(VITALFEW).arg("report").arg(&file).output();
        let text = String::from_utf8_lossy(&text.expect("vitalfew runs").stdout).into_owned();
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.contains(" CPU, ") && first.contains(" blocked, "),
            "{text}"
        );
    }
}

/// Parses `1m2.345s` as seconds.
fn seconds(text: &str) -> f64 {
    let (minutes, seconds) = text.split_once('m').expect("minutes");
    let number = |text: &str| text.replace(',', ".").parse::<f64>().expect("a number");
    60.0 * number(minutes) + number(seconds.trim_end_matches('s'))
}

/// A program that sleeps: the report says so, and begins with it under --off-cpu.
#[test]
fn a_program_that_waits_is_reported_by_its_waits() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let text = |args: &[&str]| {
        let file = lab.record(args.iter().chain(&["--", "sleep", "0.7"]));
        let output = Command::new(VITALFEW).arg("report").arg(&file).output();
        String::from_utf8_lossy(&output.expect("vitalfew runs").stdout).into_owned()
    };
    let plain = text(&[]);
    assert!(plain.contains("record --off-cpu -- sleep 0.7"), "{plain}");
    let waits = text(&["--off-cpu"]);
    assert!(!waits.contains("record --off-cpu"), "{waits}");
    let heading = waits
        .lines()
        .find(|line| line.contains("cum%") || line.contains("self%"));
    assert!(
        heading.is_some_and(|line| line.trim_start().starts_with("off-cpu")),
        "{waits}"
    );
    // A running process, which slept before, too.
    let mut sleeper = Command::new("sleep").arg("30").spawn().expect("sleep");
    let pid = sleeper.id().to_string();
    let file = lab.record(["-p", &pid, "--for", "1s"]);
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    // Without samples there is no table, but there are times.
    let output = Command::new(VITALFEW)
        .args(["report", "--json"])
        .arg(&file)
        .output();
    let process: serde_json::Value =
        serde_json::from_slice(&output.expect("vitalfew runs").stdout).expect("JSON");
    let times = &process["task_times"];
    let blocked = times["blocked_ns"].as_f64().expect("known");
    let length = process["duration_ns"].as_f64().expect("a length");
    assert!((blocked / length - 1.0).abs() < 0.25, "{times} of {length}");
    assert_eq!(times["threads"], 1);
}

#[test]
fn stacks_are_recorded_unless_told_otherwise() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let program = program.to_str().unwrap();
    for (options, with_stacks) in [(&["-F1000"][..], true), (&["-F1000", "--no-stacks"], false)] {
        let file = lab.record(options.iter().chain(&["--", program]));
        let report = report(&file, &[]);
        let main = rows(&report).iter().find(|row| row["name"] == "main");
        let total = main.and_then(|row| row["inclusive"].as_f64());
        assert_eq!(total.is_some(), with_stacks, "{options:?}: {report}");
    }
}
