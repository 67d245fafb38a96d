//! Truncated, damaged or invented files: each is read or refused, in bounded time and memory, and
//! never with a panic.

use crate::common;
use crate::memory;
use crate::support::*;
use flate2::read::MultiGzDecoder;
use formats::read::{ReadError, ReadLimits, ReadOptions};
use proptest::prelude::*;
use std::io::Read;
use std::sync::LazyLock;

const TEXT: &[&str] = &[
    "py-spy.raw",
    "perf-fp.txt",
    "perf-dwarf.txt",
    "callgrind.out.gz",
    "gperftools.heap",
    "jemalloc.heap",
    "v8.log.gz",
    "ghc.prof",
    "full.austin",
];
const JSON: &[&str] = &[
    "samply.json.gz",
    "node.cpuprofile",
    "py-spy.speedscope",
    "py-spy.chrometrace.gz",
    "stackprof.json.gz",
    "node.heapprofile",
    "ghc.json.gz",
];
const BINARY: &[&str] = &[
    "go-cpu.pb.gz",
    "go-heap.pb.gz",
    "work.jfr.gz",
    "gperftools.cpu",
    "work.pstats",
    "stackprof.dump",
];
const PERF: &[&str] = &[
    "perf-fp.data",
    "perf-zstd.data",
    "perf-pipe.data",
    "perf-dwarf.data",
];

/// Returns the bytes of a fixture, decompressed.
fn bytes(name: &str) -> Vec<u8> {
    let raw = std::fs::read(fixture(name)).unwrap();
    if !name.ends_with(".gz") {
        return raw;
    }
    let mut bytes = Vec::new();
    MultiGzDecoder::new(&raw[..])
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

static ALL: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let names = [TEXT, JSON, BINARY].concat();
    let mut all: Vec<Vec<u8>> = names.iter().map(|name| bytes(name)).collect();
    // vitalfew's own files: Firefox's format with shared tables, for one.
    let (recording, symbols) = common::small();
    let options = formats::write::WriteOptions::default();
    for write in [
        formats::write::firefox::write_firefox,
        formats::write::speedscope::write_speedscope,
        formats::write::pprof::write_pprof,
    ] {
        let mut out = Vec::new();
        write(&recording, &symbols, &options, &mut out).unwrap();
        all.push(out);
    }
    all
});

fn options() -> ReadOptions {
    ReadOptions {
        limits: ReadLimits {
            memory: 64 << 20,
            ..ReadLimits::default()
        },
        ..ReadOptions::default()
    }
}

fn harmless(bytes: &[u8]) -> Result<(), TestCaseError> {
    let before = memory::start();
    let result = read_bytes(bytes, &options());
    let peak = memory::peak() - before;
    // The limit, and memory that does not grow with it: tables of the decompressors, the file
    // itself.
    let most = options().limits.memory as isize + (32 << 20) + 8 * bytes.len() as isize;
    prop_assert!(
        peak <= most,
        "{} bytes of memory for a file of {}",
        peak,
        bytes.len()
    );
    match result {
        Ok(profile) => prop_assert!(!profile.tree.value_types().is_empty()),
        Err(error) => {
            prop_assert!(!matches!(error, ReadError::Io { .. }), "{}", error);
        }
    }
    Ok(())
}

#[test]
fn files_may_end_anywhere() {
    for whole in ALL.iter() {
        // Every length of the small files, and a length in each stretch of the large ones.
        let step = whole.len() / 500 + 1;
        for length in (0..whole.len()).step_by(step) {
            harmless(&whole[..length]).unwrap();
        }
    }
    for name in PERF {
        let whole = bytes(name);
        // perf's output to a pipe is complete after any record, and is then looked up.
        let lengths = if *name == "perf-pipe.data" { 20 } else { 500 };
        for length in (0..whole.len()).step_by(whole.len() / lengths + 1) {
            harmless(&whole[..length]).unwrap();
        }
    }
}

#[test]
fn a_truncated_file_is_said_to_be_one() {
    for name in [JSON, &["perf-fp.data", "perf-zstd.data", "perf-dwarf.data"]].concat() {
        // A trace may end after any event.
        if name == "py-spy.chrometrace.gz" {
            continue;
        }
        let whole = bytes(name);
        for length in [whole.len() / 3, whole.len() - 20] {
            let error = read_bytes(&whole[..length], &options()).unwrap_err();
            assert!(
                matches!(error, ReadError::Damaged { .. }),
                "{name}: {error}"
            );
        }
    }
}

fn spoil(bytes: &mut [u8], changes: &[(prop::sample::Index, u8)]) {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
}

/// First bytes that select each reader.
const BEGINNINGS: &[&[u8]] = &[
    b"",
    b"PERFILE2\x10\0\0\0\0\0\0\0",
    b"2ELIFREP\0\0\0\0\0\0\0\x10",
    b"\x0a\x04\x08\x01\x10\x02",
    b"\x12\x04\x0a\x01\x01\x12",
    b"FLR\0\0\x02\0\x01\0\0\0\0\0\0\0\x80",
    b"# callgrind format\nevents: Ir\n",
    b"a 1 1.0: 1 cycles:\n\t",
    b"{\"nodes\":",
    b"{\"head\":{",
    b"\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"heap_v2/524288\n  t*: 1: 2 [0: 0]\n@ 0x",
    b"--- contentionz 1 ---\ncycles/second = 1\n",
    b"\x7b\x29\x03\x7a\x01",
    b"\x7b\x28\x03\0\0\0\x73",
    b"\x04\x08{\x07:\x0cversioni\x06:\x09mode",
    b"\x0a\x04\x12\x02\x12\0\x12",
    b"v8-version,6,0\ncode-creation,Builtin,3,0x10,16,a\ntick,0x10,1,0,0x0,4",
    b"\tTime and Allocation Profiling Report\nCOST CENTRE\nCOST CENTRE\n",
    b"CPU ID FUNCTION:NAME\n\n a`b\n 1\n",
    b"Analysis of sampling a\nCall graph:\n",
    b"Weight\tSelf Weight\tSymbol Name\n",
    b"\xff\xfea\0;\0b\0 \0",
    b"[{\"ph\":\"P\",\"name\":\"ProfileChunk\",",
    b"[{",
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    b"\x28\xb5\x2f\xfd",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn changed_bytes_do_no_harm(which in any::<prop::sample::Index>(), changes in changes()) {
        let mut bytes = which.get(&ALL).clone();
        spoil(&mut bytes, &changes);
        harmless(&bytes)?;
    }

    /// The beginning of one file and the end of another, of the same format or not.
    #[test]
    fn spliced_files_do_no_harm(
        one in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        same in any::<bool>(),
        cuts in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let one = one.get(&ALL);
        let other = if same { one } else { other.get(&ALL) };
        let (head, tail) = (&one[..cuts.0.index(one.len())], &other[cuts.1.index(other.len())..]);
        harmless(&[head, tail].concat())?;
    }

    #[test]
    fn any_bytes_do_no_harm(
        beginning in prop::sample::select(BEGINNINGS),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        harmless(&[beginning, &rest].concat())?;
    }

    #[test]
    fn any_callgrind_graph_does_no_harm(lines in prop::collection::vec(
        "fn=\\([0-3]\\) [a-c]|cfn=\\([0-3]\\)|cfn=\\([0-3]\\) [a-c]|calls=1 1|[0-9] [0-9]{1,3}|[+*-][0-9]? [0-9]{1,19}",
        0..40,
    )) {
        let text = format!("# callgrind format\nevents: Ir\n{}\n", lines.join("\n"));
        harmless(text.as_bytes())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn spliced_perf_data_does_no_harm(
        names in prop::sample::subsequence(PERF, 2),
        cuts in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let (one, other) = (bytes(names[0]), bytes(names[1]));
        let (head, tail) = (&one[..cuts.0.index(one.len())], &other[cuts.1.index(other.len())..]);
        harmless(&[head, tail].concat())?;
    }

    #[test]
    fn changed_perf_data_does_no_harm(
        name in prop::sample::select(PERF),
        changes in changes(),
    ) {
        let mut bytes = bytes(name);
        spoil(&mut bytes, &changes);
        harmless(&bytes)?;
    }
}
