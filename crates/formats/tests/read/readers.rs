//! Further formats: files of the tools themselves, made from a program whose `main` calls `left`,
//! `right` and, where stacks are deep, `recurse`. If a tool does not run here, the text is written
//! by hand from the format's description.

use crate::support::*;
use formats::read::{GroupBy, ReadError, ReadOptions, TreeProfile, read_profile};

fn value_types(profile: &TreeProfile) -> Vec<String> {
    let types = profile.tree.value_types().iter();
    types.map(|v| format!("{} {}", v.name, v.unit)).collect()
}

fn totals(profile: &TreeProfile) -> Vec<i64> {
    let values = 0..profile.tree.value_types().len();
    values.map(|value| profile.tree.total(value)).collect()
}

fn all_stacks(profile: &TreeProfile, value: usize) -> String {
    folded(&profile.tree, value).join("\n")
}

fn read_text(text: &str) -> TreeProfile {
    read_bytes(text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    read_bytes(bytes, &ReadOptions::default())
        .unwrap_err()
        .to_string()
}

fn has_note(profile: &TreeProfile, text: &str) -> bool {
    profile.notes.iter().any(|note| note.contains(text))
}

#[test]
fn gperftools_cpu_profile() {
    let profile = read_fixture("gperftools.cpu");
    assert_eq!(profile.format, "gperftools profile");
    assert_eq!(value_types(&profile), ["samples count", "cpu nanoseconds"]);
    // `PROFILE: interrupts/evictions/bytes = 51/3/512` at 250 samples a second.
    assert_eq!(totals(&profile), [51, 204_000_000]);
    assert_eq!(profile.default_value, 1);
    let all = all_stacks(&profile, 0);
    assert!(all.contains(" [work];work+0x"), "{all}");
    assert!(all.contains("libc.so.6+0x"), "{all}");
}

/// A header of five words, stacks, and the end, in words of any size and byte order.
#[test]
fn gperftools_words_of_any_size() {
    let words: Vec<u64> = vec![
        0, 3, 0, 10_000, 0, // header: 10 ms
        3, 2, 0x1010, 0x2011, // three samples, called from 0x2010
        2, 1, 0x2020, //
        0, 1, 0, // end
    ];
    let maps =
        "1000-2000 r-xp 00000000 00:00 0 /demo/one\n2000-3000 r-xp 00000000 00:00 0 /demo/two\n";
    for (width, big_endian) in [(4, false), (4, true), (8, false), (8, true)] {
        let mut bytes = Vec::new();
        for word in &words {
            if big_endian {
                bytes.extend_from_slice(&word.to_be_bytes()[8 - width..])
            } else {
                bytes.extend_from_slice(&word.to_le_bytes()[..width])
            }
        }
        bytes.extend_from_slice(maps.as_bytes());
        let profile = read_bytes(&bytes, &ReadOptions::default()).unwrap();
        assert_eq!(totals(&profile), [5, 50_000_000]);
        let expected = ["two+0x10 [two];one+0x10 [one] 3", "two+0x20 [two] 2"];
        assert_eq!(folded(&profile.tree, 0), expected);
    }
}

#[test]
fn gperftools_heap_profiles() {
    let profile = read_fixture("gperftools.heap");
    assert_eq!(
        value_types(&profile),
        [
            "alloc_objects count",
            "alloc_space bytes",
            "inuse_objects count",
            "inuse_space bytes"
        ]
    );
    assert_eq!(totals(&profile), [1000, 3_000_000, 600, 1_800_000]);
    assert_eq!(profile.default_value, 3);
    // 600 blocks of 3,000 bytes are in use, and the libraries' own; sampled each 4 KiB.
    let profile = read_fixture("jemalloc.heap");
    assert_eq!(value_types(&profile), ["objects count", "space bytes"]);
    let bytes = profile.tree.total(1);
    assert!((1_500_000..2_300_000).contains(&bytes), "{bytes}");
}

#[test]
fn gperftools_text_profiles() {
    let contention = "--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 100\n\
        ms since reset = 5\n  4000  3 @ 0x1011 0x1021\n--- Memory map: ---\n  1000-2000: /demo/one (@40)\n";
    let profile = read_text(contention);
    assert_eq!(
        value_types(&profile),
        ["contentions count", "delay nanoseconds"]
    );
    assert_eq!(totals(&profile), [300, 200_000]);
    assert_eq!(
        folded(&profile.tree, 0),
        ["one+0x60 [one];one+0x50 [one] 300"]
    );
    let java = "--- heapz 1 ---\nformat = java\nresolution = bytes\n  2097152 1 @ 0x03 0x04\n\n 0x03 a.B.c (B.java:3)\n 0x04 GC\n";
    let profile = read_text(java);
    // 1 / (1 - exp(-2 MiB / 512 KiB)) = 1.0187
    assert_eq!(totals(&profile), [1, 2_136_279]);
    assert_eq!(folded(&profile.tree, 0), ["GC;a.B.c 1"]);
    let threads = "--- threadz 1 ---\n\n--- Thread 7f (name: main/1) stack: ---\n  PC:  0x10: leaf(int)\n  0x21: main\n\
        --- Thread 7e (name: b/2) stack: ---\n    [same as previous thread]\n";
    let profile = read_text(threads);
    assert_eq!(folded(&profile.tree, 0), ["main;leaf(int) 2"]);
    let go = "goroutine profile: total 3\n2 @ 0x11 0x22\n#\t0x11\tmain.wait+0x1\t/a.go:1\n#\t0x22\tmain.inner+0x1\t/a.go:2\n#\t0x22\tmain.outer+0x1\t/a.go:3\n\n1 @ 0x11\n";
    let profile = read_text(go);
    assert_eq!(
        folded(&profile.tree, 0),
        ["main.outer;main.inner;main.wait 2", "main.wait 1"]
    );
    let raw = "--- symbol\nbinary=/demo/one\n0x0000000000001010 leaf--outer\n---\n--- heap\nheap profile: 1: 8 [1: 8] @ heapprofile\n 1: 8 [1: 8] @ 0x1011\n";
    let profile = read_text(raw);
    assert_eq!(folded(&profile.tree, 1), ["outer;leaf 8"]);
    let growth = "heap profile: 2: 20 [2: 20] @ growthz\n 2: 20 [2: 20] @ 0x11\n oops\n 0: 0 [0: 0] @ 0x11\n";
    let profile = read_text(growth);
    assert_eq!(totals(&profile), [2, 20]);
    assert!(
        has_note(&profile, "1 lines were left out"),
        "{:?}",
        profile.notes
    );
}

#[test]
fn python_stats() {
    let profile = read_fixture("work.pstats");
    assert_eq!(profile.format, "pstats");
    assert_eq!(value_types(&profile), ["time nanoseconds"]);
    // `pstats.Stats("work.pstats").total_tt`
    assert_eq!(totals(&profile), [671_913_534]);
    let all = all_stacks(&profile, 0);
    assert!(
        all.contains("main [work.py];right [work.py];leaf [work.py] "),
        "{all}"
    );
    assert!(all.contains("recurse [work.py];recurse [work.py]"), "{all}");
}

#[test]
fn v8_log() {
    let profile = read_fixture("v8.log.gz");
    assert_eq!(profile.format, "V8 log");
    // `node --prof-process` counts 236 ticks, 138 of them in `leaf`.
    assert_eq!(profile.tree.total(0), 236);
    let stacks = stacks(&profile.tree, 0).into_iter();
    let in_leaf = stacks.filter(|(path, _)| path.last().is_some_and(|f| f.starts_with("leaf ")));
    assert_eq!(in_leaf.map(|(_, cost)| cost).sum::<i64>(), 138);
    let all = all_stacks(&profile, 0);
    assert!(
        all.contains("right [/tmp/demo/small.js];leaf [/tmp/demo/small.js] "),
        "{all}"
    );
}

#[test]
fn v8_heap_profile() {
    let profile = read_fixture("node.heapprofile");
    assert_eq!(profile.format, "V8 heap profile");
    // The sum of `selfSize`.
    assert_eq!(totals(&profile), [200_736]);
    // As deep as a program may be, deeper than JSON parsers allow.
    let mut deep = String::from("{\"head\":");
    for depth in 0..20_000 {
        deep += &format!(
            "{{\"callFrame\":{{\"functionName\":\"f{depth}\",\"url\":\"\"}},\"selfSize\":1,\"children\":["
        );
    }
    deep += &"]}".repeat(20_000);
    deep += "}";
    let profile = read_text(&deep);
    assert_eq!(totals(&profile), [20_000]);
    assert_eq!(profile.tree.len(), 20_000);
}

#[test]
fn stackprof_in_both_forms() {
    let json = read_fixture("stackprof.json.gz");
    assert_eq!(json.format, "stackprof");
    assert_eq!(value_types(&json), ["samples samples", "wall nanoseconds"]);
    let dump = read_fixture("stackprof.dump");
    assert_eq!(json, dump);
    assert_eq!(json.tree.total(1), json.tree.total(0) * 1_000_000);
    let all = all_stacks(&json, 0);
    assert!(
        all.contains("Object#right [work.rb];Object#leaf [work.rb];"),
        "{all}"
    );
    assert!(
        all.contains("Object#recurse [work.rb];Object#recurse [work.rb]"),
        "{all}"
    );
}

#[test]
fn ghc_profiles() {
    let profile = read_fixture("ghc.prof");
    assert_eq!(profile.format, "GHC profile");
    // `total time` and `total alloc`, in the file's head.
    assert_eq!(totals(&profile), [680_000_000, 650_815_920]);
    let all = all_stacks(&profile, 0);
    assert!(
        all.contains("MAIN [MAIN];CAF [Main];main [Main];right [Main];leaf [Main] 451000000"),
        "{all}"
    );
    let percent = read_fixture("ghc-percent.prof");
    assert!(has_note(&percent, "percentages"), "{:?}", percent.notes);
    assert!((percent.tree.total(0) - 745_000_000).abs() < 2_000_000);
    let json = read_fixture("ghc.json.gz");
    assert_eq!(totals(&json), [2_441_000_000, 911_518_120]);
}

#[test]
fn a_profile_as_firefox_hands_it_out_is_refused_with_the_way() {
    let text = r#"{"meta":{"version":24},"libs":[],"threads":[{"name":"GeckoMain","samples":{"schema":{"stack":0},"data":[[0]]},
        "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0]]},"stringTable":["main"]}],"processes":[]}"#;
    let refusal = read_bytes(text.as_bytes(), &ReadOptions::default()).unwrap_err();
    assert!(
        refusal.to_string().contains("Firefox Profiler"),
        "{refusal}"
    );
}

/// Encodes a field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// One process, two samples of `leaf` called by `main`, in each of the three versions of the
/// schema.
#[test]
fn otlp_profiles() {
    let strings = [
        "",
        "samples",
        "count",
        "leaf",
        "main",
        "/demo/work",
        "thread.name",
    ];
    let dictionary = [
        field(1, &[]),
        field(1, &[0x20, 5]),
        field(2, &[]),
        field(2, &[&[0x08, 1][..], &field(3, &[0x08, 1])].concat()),
        field(2, &[&[0x08, 1][..], &field(3, &[0x08, 2])].concat()),
        field(3, &[]),
        field(3, &[0x08, 3]),
        field(3, &[0x08, 4]),
        strings
            .iter()
            .flat_map(|s| field(5, s.as_bytes()))
            .collect(),
        field(6, &[]),
        field(
            6,
            &[&[0x08, 6][..], &field(2, &field(1, b"worker"))].concat(),
        ),
    ]
    .concat();
    let stack_table = [field(7, &[]), field(7, &field(1, &[1, 2]))].concat();
    let times = [7; 16];
    let versions = [
        (
            [&[0x08, 0, 0x10, 2][..], &field(3, &[2]), &field(4, &[1])].concat(),
            field(3, &[1, 2]),
            vec![],
        ),
        (
            [&[0x08, 1][..], &field(2, &[2]), &field(3, &[1])].concat(),
            vec![],
            stack_table.clone(),
        ),
        (
            [
                &[0x08, 1][..],
                &field(2, &[1]),
                &field(4, &[1, 1]),
                &field(5, &times),
            ]
            .concat(),
            vec![],
            stack_table,
        ),
    ];
    for (sample, indices, stack_table) in versions {
        let profile = [field(1, &[0x08, 1, 0x10, 2]), field(2, &sample), indices].concat();
        let attribute = [field(1, b"service.name"), field(2, &field(1, b"shop"))].concat();
        let resource = [
            field(1, &field(1, &attribute)),
            field(2, &field(2, &profile)),
        ]
        .concat();
        let dictionary = [dictionary.clone(), stack_table].concat();
        let mut bytes = field(1, &resource);
        bytes.extend([
            2 << 3 | 2,
            dictionary.len() as u8 | 0x80,
            (dictionary.len() >> 7) as u8,
        ]);
        bytes.extend(&dictionary);
        let options = ReadOptions {
            group_by: vec![GroupBy::Process, GroupBy::Thread],
            ..ReadOptions::default()
        };
        let profile = read_bytes(&bytes, &options).unwrap();
        assert_eq!(profile.format, "OTLP profiles");
        assert_eq!(value_types(&profile), ["samples count"]);
        let expected = ["shop [[process]];worker [[thread]];main [work];leaf [work] 2"];
        assert_eq!(folded(&profile.tree, 0), expected);
    }
}

#[test]
fn a_trace_may_be_left_open() {
    let event = |phase: &str, at: u32| {
        format!("{{\"ph\":\"{phase}\",\"pid\":1,\"tid\":1,\"name\":\"f\",\"ts\":{at}}}")
    };
    let (begin, end) = (event("B", 1), event("E", 3));
    let closed = read_text(&format!("[{begin},{end}]"));
    assert_eq!(closed.tree.total(0), 2000);
    for open in [
        format!("[{begin},{end}"),
        format!("\n[{begin},\n{end},\n \n"),
    ] {
        assert_eq!(read_text(&open), closed);
    }
    let cut = format!("[{begin},{}", &end[..10]);
    assert!(refusal(cut.as_bytes()).contains("damaged"));
    assert!(refusal(b"[{\"a\":1},{\"b\":2}]").contains("no events of a trace"));
}

#[test]
fn a_cpu_profile_in_chunks() {
    let chunk = |id: &str, at: u32, data: &str| {
        format!(
            "{{\"ph\":\"P\",\"pid\":1,\"tid\":2,\"id\":\"{id}\",\"name\":\"ProfileChunk\",\"ts\":{at},\"args\":{{\"data\":{{{data}}}}}}}"
        )
    };
    let nodes = "\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\"},\"children\":[2]},{\"id\":2,\"parent\":1,\"callFrame\":{\"functionName\":\"f\"}}]";
    // The second chunk stands before the first; another profile has only an end.
    let events = [
        chunk(
            "0x1",
            30,
            "\"cpuProfile\":{\"samples\":[2]},\"timeDeltas\":[5]",
        ),
        chunk(
            "0x9",
            10,
            "\"cpuProfile\":{\"samples\":[7]},\"timeDeltas\":[1]",
        ),
        chunk(
            "0x1",
            20,
            &format!(
                "\"cpuProfile\":{{{nodes},\"samples\":[2,2]}},\"timeDeltas\":[3,4],\"endTime\":20"
            ),
        ),
    ];
    let profile = read_text(&format!("[{}]", events.join(",")));
    assert_eq!(totals(&profile), [3, 17_000]);
    assert_eq!(folded(&profile.tree, 0), ["f 3"]);
    assert!(
        has_note(&profile, "1 CPU profiles began before"),
        "{:?}",
        profile.notes
    );
}

#[test]
fn samples_beside_the_events_of_a_trace() {
    let text = "{\"traceEvents\":[{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"app\"}}],\
        \"samples\":[{\"pid\":1,\"tid\":\"2\",\"ts\":\"10\",\"sf\":2,\"weight\":\"1\"},{\"pid\":1,\"tid\":\"2\",\"ts\":\"14\",\"sf\":1,\"weight\":\"1\"}],\
        \"stackFrames\":{\"1\":{\"name\":\"a\"},\"2\":{\"name\":\"b\",\"parent\":1}}}";
    let profile = read_text(text);
    assert_eq!(totals(&profile), [2, 4000]);
    assert_eq!(folded(&profile.tree, 0), ["a 1", "a;b 1"]);
}

#[test]
fn callgrind_costs_as_differences() {
    let text = "# callgrind format\nevents: Ir\nfn=main\n16 20\ncfn=f\ncalls=1 50\n* 400\nfn=f\n+35 *\n+1 -300\n";
    let profile = read_text(text);
    assert_eq!(totals(&profile), [20 + 400 + 100]);
    let negative = "# callgrind format\nevents: Ir\nfn=main\n16 20\n+1 -21\n";
    assert!(refusal(negative.as_bytes()).contains("negative"));
}

#[test]
fn callgrind_callers_that_paid_too_much() {
    // Recursion through another function: each call has the cost of the calls in it. `own` is 10 +
    // 20 + 30.
    let text = "# callgrind format\nevents: Ir\nfn=main\n1 10\ncfn=a\ncalls=1 1\n2 50\nfn=a\n3 20\ncfn=b\ncalls=2 1\n4 80\nfn=b\n5 30\ncfn=a\ncalls=1 1\n6 30\n";
    let profile = read_text(text);
    assert_eq!(totals(&profile), [60]);
    let note = |profile: &TreeProfile, part: &str| profile.notes.iter().any(|n| n.contains(part));
    assert!(note(&profile, "scaled down"), "{:?}", profile.notes);
}

#[test]
fn callgrind_jumps_and_numbers_without_names() {
    let text = "# callgrind format\nevents: Ir\npositions: instr line\nob=(9)\nfn=(1) main\n0x10 1 7\njfi=(74)\njump=71 +24 347\n* *\njcnd=3/7 +2 1\n* *\n+2 * 5\ncob=(8)\ncfn=(2) f\ncalls=1 0 0\n* * 4\n";
    let profile = read_text(text);
    assert_eq!(totals(&profile), [16]);
    assert!(
        profile
            .notes
            .iter()
            .any(|n| n.contains("2 names are not in the file")),
        "{:?}",
        profile.notes
    );
}

#[test]
fn flight_recordings_of_old_jdks_are_named() {
    let old = b"FLR\0\0\0\0\x09\0\0\0\0\0\0\x10\0";
    assert!(refusal(old).contains("Oracle's JDK 7 or 8"));
}

#[test]
fn old_cpu_profile_that_says_its_name_first() {
    let text = r#"{"typeId":"CPU","uid":"1","title":"p1","head":{"functionName":"(root)","url":"","lineNumber":0,"id":1,"hitCount":0,
        "children":[{"functionName":"work","url":"a.js","lineNumber":3,"id":2,"hitCount":2,"children":[]}]},
        "startTime":1,"endTime":2,"samples":[2,2],"timestamps":[1000000,1000500]}"#;
    let profile = read_text(text);
    assert_eq!(totals(&profile), [2, 1_000_000_000]);
}

#[test]
fn perf_script_of_all_kinds() {
    let bare = "java 123 cycles:\nffff1 inner ([kernel.kallsyms])\nffff2 outer (/lib/a)\n\njava 123 cycles:\n\tffff2\touter (/lib/a)\n";
    let profile = read_text(bare);
    assert_eq!(profile.format, "perf script");
    assert_eq!(
        folded(&profile.tree, 0),
        ["outer [a] 1", "outer [a];inner [[kernel.kallsyms]] 1"]
    );
    let one_line = "   false 39 1.5:  1 cycles:u:  fff1 f (/lib/a)\n   add 39 1.6:  1 cycles:u:  fff1 f (/lib/a)\n";
    assert_eq!(totals(&read_text(one_line))[0], 2);
    let headed = "# ========\n# captured on    : now\n# sample duration : 12\n# ========\n#\n";
    let profile = read_text(headed);
    assert_eq!(profile.format, "perf script");
    assert_eq!(profile.tree.len(), 1);
    let odd = format!(
        "{}x\n",
        "a 1 1.0: 1 cycles:\n\tfff1 f (/lib/a)\n\tWEIRD\n\n".repeat(3)
    );
    let profile = read_text(&odd);
    assert_eq!(totals(&profile)[0], 3);
    assert!(
        has_note(&profile, "4 lines were left out; the first: not a frame"),
        "{:?}",
        profile.notes
    );
    let mostly = "a 1 1.0: 1 cycles:\n\nx\ny\n";
    assert!(refusal(mostly.as_bytes()).contains("in line 3"));
}

#[test]
fn text_of_any_encoding() {
    let text = "a;b 1\na;ü€𝄞 2\n";
    let plain = read_text(text);
    let units: Vec<u16> = text.encode_utf16().collect();
    let little = units.iter().flat_map(|unit| unit.to_le_bytes());
    let big = units.iter().flat_map(|unit| unit.to_be_bytes());
    for bytes in [
        [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        b"\xff\xfe".iter().copied().chain(little).collect(),
        b"\xfe\xff".iter().copied().chain(big).collect(),
    ] {
        assert_eq!(read_bytes(&bytes, &ReadOptions::default()).unwrap(), plain);
    }
}

#[test]
fn odd_lines_of_folded_stacks_are_left_out() {
    let profile = read_text("// by hand\na;b 1\nno number\na 2\n");
    assert_eq!(totals(&profile), [3]);
    assert!(
        has_note(
            &profile,
            "1 lines were left out; the first: no number behind the last space, in line 3"
        ),
        "{:?}",
        profile.notes
    );
}

#[test]
fn metadata_of_folded_stacks_is_no_stack() {
    let profile = read_text("# tool: 1\n#run;f 2\na;b 1\n# duration: 23873\n");
    assert_eq!(totals(&profile), [3]);
    assert_eq!(all_stacks(&profile, 0), "#run;f 2\na;b 1");
}

#[test]
fn fractions_add_up() {
    let profile = read_text(&"a;b 0.4\na;c 0.4\n".repeat(500));
    assert_eq!(totals(&profile), [400]);
    assert_eq!(all_stacks(&profile, 0), "a;b 200\na;c 200");
}

#[test]
fn austin_samples() {
    let profile = read_fixture("full.austin");
    assert_eq!(profile.format, "Austin samples");
    let expected = [
        "wall time nanoseconds",
        "cpu time nanoseconds",
        "memory bytes",
    ];
    assert_eq!(value_types(&profile), expected);
    // awk -F'[ ,]' '/^P/ { wall += $(NF-2); if (!$(NF-1)) cpu += $(NF-2); bytes += $NF }'
    assert_eq!(totals(&profile), [565_026_000, 565_026_000, 2_338_816]);
    let stacks = all_stacks(&profile, 0);
    assert!(
        stacks.contains("<module> [work.py];main [work.py];right [work.py] "),
        "{stacks}"
    );
    let grouped = ReadOptions {
        group_by: vec![GroupBy::Process, GroupBy::Thread],
        lines: true,
        ..ReadOptions::default()
    };
    let profile = read_profile(&fixture("full.austin"), &grouped).unwrap();
    let stacks = all_stacks(&profile, 0);
    assert!(
        stacks.contains(
            "pid 10349 [[process]];tid 10349 [[thread]];<module>:12 [work.py];main:11 [work.py];"
        ),
        "{stacks}"
    );
    assert_eq!(profile.notes, [""; 0]);
}

#[test]
fn austin_measures_one_thing_or_more() {
    let head = "# austin: 3.7.0\n# mode: ";
    for (mode, lines, total, stacks) in [
        (
            "full",
            "P1;T2;a.py:f:3 7,0,5\nP1;T2;a.py:f:3 2,1,0\n",
            9000,
            "f [a.py] 9000",
        ),
        ("cpu", "P1;T0:2;a.py:f:3 7\n", 7000, "f [a.py] 7000"),
        // No tool writes a second mode; a damaged file may have one.
        (
            "memory",
            "P1;T2;a.py:f:3 7\n# mode: full\nP1;T2;a.py:f:3 1,0,1\nP1;T2;a.py:f:3 0\n",
            7,
            "f [a.py] 7",
        ),
        (
            "wall",
            "P1;T2;:GC: 1\nodd\nP1;T2;a.py:f:3 7\n",
            8000,
            "[gc] 1000\nf [a.py] 7000",
        ),
    ] {
        let profile = read_text(&format!("{head}{mode}\n\n{lines}\n# duration: 9\n"));
        assert_eq!(totals(&profile)[0], total, "{mode}");
        if mode == "full" {
            assert_eq!(totals(&profile)[1..], [7000, 5]);
        }
        assert_eq!(all_stacks(&profile, 0), stacks);
    }
    let refusal = refusal(format!("{head}full\n\nP1;T2;a.py:f:3 7\n").as_bytes());
    assert!(
        refusal.contains("damaged Austin samples: no values of the mode"),
        "{refusal}"
    );
}

#[test]
fn refusals_name_the_kind() {
    for (bytes, what) in [
        (
            &b"\tTime and Allocation Profiling Report  (Final)\n\ntotal time = 1\n"[..],
            "damaged GHC profile",
        ),
        (
            b"\x7b\x29\x03\x7a\x01~\x69\0\0\0\0\x7a\x01a0000",
            "damaged pstats",
        ),
        (b"{\"version\":1,\"recording\":{}}", "Safari"),
        (b"{\"head\":[]}", "no outermost node"),
        (b"SIMPLEPERF", "simpleperf"),
    ] {
        let refusal = refusal(bytes);
        assert!(refusal.contains(what), "{refusal}");
    }
    let error = read_bytes(
        b"\x04\x08{\x06:\x0cversioni\x06:\x09mode",
        &ReadOptions::default(),
    );
    assert!(
        matches!(
            error,
            Err(ReadError::Damaged {
                format: "stackprof",
                ..
            })
        ),
        "{error:?}"
    );
}
