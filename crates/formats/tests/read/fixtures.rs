//! Files of the tools themselves, made from `work.c` and similar programs in `tests/fixtures`.

use crate::support::*;
use flate2::read::MultiGzDecoder;
use formats::read::{GroupBy, ReadOptions, TreeProfile, read_profile};
use profile::CallTree;
use std::collections::BTreeMap;
use std::io::Read;

fn value_types(profile: &TreeProfile) -> Vec<String> {
    let types = profile.tree.value_types().iter();
    types.map(|v| format!("{} {}", v.name, v.unit)).collect()
}

fn options() -> ReadOptions {
    ReadOptions {
        // With the program that perf recorded, by its build-id (--buildid-mmap writes no list of
        // them).
        debug_dirs: vec![fixture("")],
        ..ReadOptions::default()
    }
}

fn by(groups: &[GroupBy]) -> ReadOptions {
    ReadOptions {
        group_by: groups.to_vec(),
        ..options()
    }
}

/// Returns the stacks within the program `work`: the libraries differ between machines.
fn in_work(tree: &CallTree, value: usize) -> BTreeMap<Vec<String>, i64> {
    let mut all = BTreeMap::new();
    for (path, cost) in stacks(tree, value) {
        let own = path
            .iter()
            .filter_map(|frame| frame.strip_suffix(" [work]"));
        *all.entry(own.map(str::to_owned).collect()).or_default() += cost;
    }
    all
}

#[test]
fn go_cpu_profile() {
    let profile = read_fixture("go-cpu.pb.gz");
    assert_eq!(profile.format, "pprof");
    assert_eq!(value_types(&profile), ["samples count", "cpu nanoseconds"]);
    assert_eq!(profile.default_value, 1);
    // Go samples a hundred times a second.
    let tree = &profile.tree;
    assert_eq!(tree.total(1), tree.total(0) * 10_000_000);
    let all = folded(tree, 0).join("\n");
    // `small` is inlined into `left`.
    assert!(
        all.contains("main.left [gowork];main.small [gowork];main.leaf [gowork] "),
        "{all}"
    );
    assert!(
        all.contains("main.right [gowork];main.leaf [gowork] "),
        "{all}"
    );
    let outlined = ReadOptions {
        inline: false,
        ..options()
    };
    let outlined = read_profile(&fixture("go-cpu.pb.gz"), &outlined)
        .unwrap()
        .tree;
    let all = folded(&outlined, 0).join("\n");
    assert!(
        all.contains("main.left [gowork];main.leaf [gowork] "),
        "{all}"
    );
    assert_eq!(outlined.total(0), tree.total(0));
    let lines = ReadOptions {
        lines: true,
        ..options()
    };
    let lines = read_profile(&fixture("go-cpu.pb.gz"), &lines).unwrap().tree;
    let all = folded(&lines, 0).join("\n");
    assert!(
        all.contains("main.small:15 [gowork];main.leaf:14 [gowork] "),
        "{all}"
    );
}

#[test]
fn go_labels_group() {
    let profile = read_profile(&fixture("go-cpu.pb.gz"), &by(&[GroupBy::Thread])).unwrap();
    let tree = &profile.tree;
    let top: Vec<_> = tree
        .children(profile::NodeId::ROOT)
        .map(|node| path(tree, node).join(";"))
        .collect();
    assert!(top.contains(&"one [[thread]]".to_owned()), "{top:?}");
    assert!(top.contains(&"two [[thread]]".to_owned()), "{top:?}");
}

#[test]
fn go_heap_profile() {
    let profile = read_fixture("go-heap.pb.gz");
    let expected = [
        "alloc_objects count",
        "alloc_space bytes",
        "inuse_objects count",
        "inuse_space bytes",
    ];
    assert_eq!(value_types(&profile), expected);
    assert_eq!(profile.default_value, 3);
    let all = folded(&profile.tree, 2).join("\n");
    assert!(
        all.contains("main.main [gowork];main.alloc [gowork] "),
        "{all}"
    );
}

#[test]
fn perf_data_says_what_perf_script_says() {
    for (data, text) in [
        ("perf-fp.data", "perf-fp.txt"),
        ("perf-dwarf.data", "perf-dwarf.txt"),
    ] {
        let profile = read_profile(&fixture(data), &options()).unwrap();
        let script = read_fixture(text);
        assert_eq!(
            (profile.format, script.format),
            ("perf.data", "perf script")
        );
        let mut types = value_types(&profile);
        let mut expected = value_types(&script);
        types.sort();
        expected.sort();
        assert_eq!(types, expected);
        for (value, value_type) in profile.tree.value_types().iter().enumerate() {
            let same = |v: &profile::ValueType| v == value_type;
            let other = script.tree.value_types().iter().position(same).unwrap();
            assert_eq!(
                in_work(&profile.tree, value),
                in_work(&script.tree, other),
                "{data} {value_type:?}"
            );
        }
        let all = folded(&profile.tree, 0).join("\n");
        let recursion = "main [work];recurse [work];recurse [work];recurse [work];recurse [work];";
        assert!(all.contains(recursion), "{all}");
    }
}

#[test]
fn perf_compresses_and_pipes() {
    for name in ["perf-zstd.data", "perf-pipe.data"] {
        let profile = read_profile(&fixture(name), &options()).unwrap();
        assert_eq!(value_types(&profile)[0], "cpu-clock:u samples", "{name}");
        let stacks = in_work(&profile.tree, 0);
        let leaves = stacks
            .keys()
            .filter(|path| path.ends_with(&["leaf".to_owned()]));
        assert!(
            leaves.clone().all(|path| path[0] == "main"),
            "{name}: {stacks:?}"
        );
        assert!(leaves.count() > 2, "{name}: {stacks:?}");
    }
}

#[test]
fn perf_data_groups() {
    let options = by(&[GroupBy::Host, GroupBy::Process, GroupBy::Thread]);
    let profile = read_profile(&fixture("perf-fp.data"), &options).unwrap();
    let all = folded(&profile.tree, 0).join("\n");
    assert!(
        all.starts_with("box [[host]];work [[process]];work ("),
        "{all}"
    );
    let script = read_profile(&fixture("perf-fp.txt"), &options).unwrap();
    let all = folded(&script.tree, 0).join("\n");
    assert!(
        all.starts_with("box [[host]];work [[process]];work ("),
        "{all}"
    );
}

#[test]
fn perf_script_of_the_kernel() {
    let profile = read_fixture("perf-kernel.txt");
    let all = folded(&profile.tree, 0).join("\n");
    assert!(all.contains("do_syscall_64 [[kernel.kallsyms]];"), "{all}");
}

#[test]
fn samply_profile_without_symbols() {
    let profile = read_fixture("samply.json.gz");
    assert_eq!(profile.format, "Firefox profile");
    assert_eq!(
        value_types(&profile),
        ["samples samples", "cpu nanoseconds"]
    );
    assert!(
        profile.notes[0].contains("without symbols"),
        "{:?}",
        profile.notes
    );
    // The samples are those of perf-fp.data.
    let perf = read_profile(&fixture("perf-fp.data"), &options()).unwrap();
    assert_eq!(profile.tree.total(0), perf.tree.total(0));
    let all = folded(&profile.tree, 0).join("\n");
    assert!(all.contains(" [work];work+0x"), "{all}");
}

#[test]
fn node_cpu_profile() {
    let profile = read_fixture("node.cpuprofile");
    assert_eq!(profile.format, "Chromium CPU profile");
    let all = folded(&profile.tree, 0).join("\n");
    assert!(
        all.contains("left [/tmp/demo/work.js];leaf [/tmp/demo/work.js] "),
        "{all}"
    );
    assert!(!all.contains("(root)"), "{all}");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture("node.cpuprofile")).unwrap()).unwrap();
    let samples = json["samples"].as_array().unwrap().len();
    assert_eq!(profile.tree.total(0), samples as i64);
    let (start, end) = (
        json["startTime"].as_i64().unwrap(),
        json["endTime"].as_i64().unwrap(),
    );
    let first = json["timeDeltas"][0].as_i64().unwrap();
    assert_eq!(profile.tree.total(1), (end - start - first) * 1000);
}

#[test]
fn py_spy_in_three_formats() {
    let raw = read_fixture("py-spy.raw");
    let expected = "<module> (work.py:12);right (work.py:9);leaf (work.py:4) 56";
    assert!(folded(&raw.tree, 0).contains(&expected.to_owned()));
    for (name, format) in [
        ("py-spy.speedscope", "speedscope"),
        ("py-spy.chrometrace.gz", "Chromium trace"),
    ] {
        let profile = read_fixture(name);
        assert_eq!(profile.format, format);
        assert_eq!(value_types(&profile), ["time nanoseconds"]);
        let methods: Vec<_> = profile
            .tree
            .methods()
            .iter()
            .map(|m| m.name.as_str())
            .collect();
        assert_eq!(methods.len(), 4, "{methods:?}");
        for method in ["<module>", "left", "right", "leaf"] {
            assert!(methods.contains(&method), "{methods:?}");
        }
    }
}

#[test]
fn callgrind_adds_up() {
    let graph = read_fixture("callgrind.out.gz");
    let callers = read_fixture("callgrind-callers.out.gz");
    // The file's own totals.
    for profile in [&graph, &callers] {
        assert_eq!(profile.format, "callgrind");
        assert_eq!(value_types(profile), ["Ir count"]);
        assert_eq!(profile.tree.total(0), 122_444);
        assert!(
            profile.notes[0].contains("call graph"),
            "{:?}",
            profile.notes
        );
    }
    // The contexts of --separate-callers are one method.
    let names = |profile: &TreeProfile| -> Vec<_> {
        let mut names: Vec<_> = profile
            .tree
            .methods()
            .iter()
            .map(|m| m.name.clone())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&graph), names(&callers));
}

/// Renames an event of a JFR recording to a shorter name without moving any byte: as an array of
/// characters, whose numbers may be padded.
fn rename_jfr_event(recording: &mut [u8], old: &str, new: &str) {
    let start = recording
        .windows(old.len())
        .position(|window| window == old.as_bytes())
        .unwrap();
    let mut text = vec![4, new.len() as u8];
    for (index, byte) in new.bytes().enumerate() {
        if index < old.len() - new.len() {
            text.extend([byte | 0x80, 0])
        } else {
            text.push(byte)
        }
    }
    recording[start - 2..start + old.len()].copy_from_slice(&text);
}

#[test]
fn jfr_events_of_datadog_have_weights() {
    let (name, mut recording) = ("jdk.ObjectAllocationSample", Vec::new());
    let file = std::fs::File::open(fixture("work.jfr.gz")).unwrap();
    MultiGzDecoder::new(file)
        .read_to_end(&mut recording)
        .unwrap();
    let plain = read_bytes(&recording, &options()).unwrap();
    let allocations = value_types(&plain)
        .iter()
        .position(|t| t == "allocations bytes")
        .unwrap();
    let weight = plain.tree.total(allocations);
    assert!(weight > 1000);
    for (event, value) in [
        ("datadog.ExecutionSample", "samples of Datadog samples"),
        ("datadog.MethodSample", "wall clock of Datadog samples"),
    ] {
        let mut renamed = recording.clone();
        rename_jfr_event(&mut renamed, name, event);
        let profile = read_bytes(&renamed, &options()).unwrap();
        let types = value_types(&profile);
        let position = types.iter().position(|t| t == value);
        assert_eq!(profile.tree.total(position.unwrap()), weight, "{types:?}");
    }
}

#[test]
fn jfr_recording() {
    let profile = read_profile(&fixture("work.jfr.gz"), &by(&[GroupBy::Thread])).unwrap();
    assert_eq!(profile.format, "JFR");
    let types = value_types(&profile);
    let samples = types.iter().position(|t| t == "samples samples").unwrap();
    assert_eq!(profile.default_value, samples);
    assert!(types.contains(&"allocations bytes".to_owned()), "{types:?}");
    // As `jfr summary` counts them.
    assert_eq!(profile.tree.total(samples), 37);
    let all = folded(&profile.tree, samples).join("\n");
    assert!(all.starts_with("main ("), "{all}");
    assert!(
        all.contains(" [[thread]];Work.main;Work.recurse;Work.recurse;"),
        "{all}"
    );
    assert!(all.contains("worker ("), "{all}");
    let lines = ReadOptions {
        lines: true,
        ..options()
    };
    let tree = read_profile(&fixture("work.jfr.gz"), &lines).unwrap().tree;
    assert!(
        folded(&tree, samples)
            .join("\n")
            .contains(";Work.right:5;Work.leaf:3")
    );
}

/// Times divide the costs of a profile without changing them.
#[test]
fn slices_of_time_add_up_to_the_profile() {
    for (name, least) in [
        ("work.jfr.gz", 10),
        ("samply.json.gz", 2),
        ("perf-fp.data", 2),
        ("perf-pipe.data", 2),
        ("py-spy.speedscope", 0),
    ] {
        let whole = read_profile(&fixture(name), &by(&[GroupBy::Thread])).unwrap();
        assert_eq!(whole.time, None, "{name}");
        let timed = read_profile(&fixture(name), &by(&[GroupBy::Thread, GroupBy::Slice])).unwrap();
        assert_eq!(value_types(&timed), value_types(&whole), "{name}");
        assert_eq!(timed.notes, whole.notes, "{name}");
        let mut slices = std::collections::BTreeSet::new();
        for value in 0..whole.tree.value_types().len() {
            let mut joined: BTreeMap<Vec<String>, i64> = BTreeMap::new();
            for (mut path, cost) in stacks(&timed.tree, value) {
                path.retain(|frame| match frame.strip_suffix(" [[slice]]") {
                    Some(number) => {
                        slices.insert(number.parse::<u32>().expect("a number"));
                        false
                    }
                    None => true,
                });
                *joined.entry(path).or_default() += cost;
            }
            let mut expected: BTreeMap<Vec<String>, i64> = BTreeMap::new();
            for (path, cost) in stacks(&whole.tree, value) {
                *expected.entry(path).or_default() += cost;
            }
            assert_eq!(joined, expected, "{name}, value {value}");
        }
        assert!(slices.len() >= least, "{name}: {slices:?}");
        if let Some(time) = timed.time {
            assert!(
                slices.last().is_some_and(|last| *last < time.slices),
                "{name}: {time:?}"
            );
        }
    }
}

/// Frames open over several slices count in each of them for their time in it.
#[test]
fn open_frames_count_in_each_slice() {
    let text = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"a"},{"name":"b"}]},
        "profiles":[{"type":"evented","name":"t","unit":"seconds","startValue":0,"endValue":300,"events":[
        {"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":0.25},{"type":"C","frame":1,"at":2.5},{"type":"C","frame":0,"at":3},
        {"type":"O","frame":1,"at":299},{"type":"C","frame":1,"at":300}]}]}"#;
    let profile = read_bytes(text.as_bytes(), &by(&[GroupBy::Thread, GroupBy::Slice])).unwrap();
    let time = profile.time.expect("times");
    assert_eq!((time.slice_ns, time.slices), (1_000_000_000, 301));
    let expected = [
        "t [[thread]];0 [[slice]];a 250000000",
        "t [[thread]];0 [[slice]];a;b 750000000",
        "t [[thread]];1 [[slice]];a;b 1000000000",
        "t [[thread]];2 [[slice]];a 500000000",
        "t [[thread]];2 [[slice]];a;b 500000000",
        "t [[thread]];299 [[slice]];b 1000000000",
    ];
    assert_eq!(folded(&profile.tree, 0), expected);
}
