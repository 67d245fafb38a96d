//! A recording, exported and read again, equals the tree that is made of it directly.

use crate::common::{self, recordings, safe};
use crate::support::*;
use formats::read::{GroupBy, ReadOptions, TreeProfile, from_recording};
use formats::write::WriteOptions;
use profile::{CallTree, EventId, NodeId, Recording, SymbolTable, Unit};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Returns the costs of one value type by the names of the frames, each name mapped by `name`.
/// Modules are left out: formats replace them by the image, the source file or nothing.
fn by_names(
    tree: &CallTree,
    value: usize,
    name: impl Fn(&str) -> String,
) -> BTreeMap<Vec<String>, i64> {
    let mut all = BTreeMap::new();
    for node in (0..tree.len() as u32).map(NodeId) {
        let cost = tree.cost(value, node);
        if cost == 0 {
            continue;
        }
        let mut path = Vec::new();
        let mut at = node;
        while let Some(method) = tree.method(at) {
            path.push(name(&tree.methods()[method.0 as usize].name));
            at = tree.parent(at).unwrap();
        }
        path.reverse();
        *all.entry(path).or_default() += cost;
    }
    all
}

fn same(name: &str) -> String {
    name.to_owned()
}

type Write = fn(
    &Recording,
    &SymbolTable,
    &WriteOptions,
    &mut dyn std::io::Write,
) -> Result<(), formats::write::WriteError>;

fn reread(
    write: Write,
    case: &(Recording, SymbolTable),
    event: u16,
    inline: bool,
    group: bool,
) -> Option<TreeProfile> {
    let options = WriteOptions {
        event: EventId(event),
        inline,
        ..WriteOptions::default()
    };
    let mut bytes = Vec::new();
    write(&case.0, &case.1, &options, &mut bytes).unwrap();
    // There was nothing to write.
    if bytes.is_empty() {
        return None;
    }
    let options = ReadOptions {
        group_by: if group {
            vec![GroupBy::Host, GroupBy::Process, GroupBy::Thread]
        } else {
            Vec::new()
        },
        ..ReadOptions::default()
    };
    Some(read_bytes(&bytes, &options).unwrap_or_else(|error| panic!("{error}")))
}

fn direct(case: &(Recording, SymbolTable), inline: bool, group_by: Vec<GroupBy>) -> CallTree {
    let options = ReadOptions {
        group_by,
        inline,
        ..ReadOptions::default()
    };
    from_recording(&case.0, &case.1, &options).unwrap().tree
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_exported_reads_as_the_same_tree((mut recording, symbols) in recordings(), inline: bool) {
        for event in &mut recording.events {
            // Each format rounds different rows.
            event.multiplex_scale = 1.0;
        }
        let case = (recording, symbols);
        let plain = direct(&case, inline, Vec::new());
        let by_process = direct(&case, inline, vec![GroupBy::Process]);
        for event in 0..case.0.events.len() {
            let of = |write: Write| {
                let profile = reread(write, &case, event as u16, inline, false);
                profile.map_or_else(BTreeMap::new, |p| by_names(&p.tree, 0, same))
            };
            prop_assert_eq!(of(formats::write::speedscope::write_speedscope), by_names(&by_process, event, same));
            prop_assert_eq!(of(formats::write::folded::write_folded), by_names(&by_process, event, safe));
            prop_assert_eq!(of(formats::write::firefox::write_firefox), by_names(&plain, event, same));
        }
        let profile = reread(formats::write::pprof::write_pprof, &case, 0, inline, false).unwrap();
        let names: Vec<_> = profile.tree.value_types().iter().map(|v| v.unit.as_str()).collect();
        let mut column = 0;
        for (index, event) in case.0.events.iter().enumerate() {
            prop_assert_eq!(
                by_names(&profile.tree, column, same),
                by_names(&plain, index, same)
            );
            prop_assert_eq!(names[column] == "nanoseconds", event.unit == Unit::Nanoseconds);
            let clock = event.unit == Unit::Samples
                && event.period > 0
                && (event.name == "cpu-clock" || event.name.starts_with("task-clock"));
            column += if clock { 2 } else { 1 };
        }
        let all = vec![GroupBy::Host, GroupBy::Process, GroupBy::Thread];
        let grouped = direct(&case, inline, all);
        let profile = reread(formats::write::pprof::write_pprof, &case, 0, inline, true).unwrap();
        prop_assert_eq!(by_names(&profile.tree, 0, same), by_names(&grouped, 0, same));
    }
}

#[test]
fn modules_are_images() {
    let case = common::small();
    let tree = direct(&case, true, Vec::new());
    let expected = [
        "[unknown] [[unknown]] 3",
        "main [tool];hot(int) [tool];<T as Add>::add [tool] 42",
        "main [tool];libc.so.6+0x88 [libc.so.6] 5",
    ];
    assert_eq!(folded(&tree, 0), expected);
    let profile = reread(formats::write::pprof::write_pprof, &case, 0, true, false).unwrap();
    assert_eq!(folded(&profile.tree, 0), expected);
    let profile = reread(
        formats::write::firefox::write_firefox,
        &case,
        0,
        true,
        false,
    )
    .unwrap();
    assert_eq!(folded(&profile.tree, 0)[1..], expected[1..]);
}

#[test]
fn lines_tell_places_apart() {
    let case = common::small();
    let options = ReadOptions {
        lines: true,
        group_by: vec![GroupBy::Thread],
        ..ReadOptions::default()
    };
    let tree = from_recording(&case.0, &case.1, &options).unwrap().tree;
    let lines = folded(&tree, 0);
    let expected = "main:99 [tool];hot(int):41 [tool];<T as Add>::add:7 [tool] 30";
    assert!(
        lines.iter().any(|line| line.ends_with(expected)),
        "{lines:#?}"
    );
    let mut bytes = Vec::new();
    formats::write::pprof::write_pprof(&case.0, &case.1, &WriteOptions::default(), &mut bytes)
        .unwrap();
    let profile = read_bytes(&bytes, &options).unwrap();
    assert_eq!(folded(&profile.tree, 0), lines);
}
