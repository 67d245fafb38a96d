//! Line counts, by gcov and in lcov's form, their assignment to files, and damage to these and to
//! branch stacks.

mod branch_stacks;
#[path = "read/memory.rs"]
mod memory;

use branch_stacks::perf_data;
use formats::counts::{CountsError, ExecutionCounts, LineCounts, read_counts};
use formats::read::{ReadError, ReadLimits};
use proptest::prelude::*;
use std::io::Write;
use std::sync::LazyLock;

/// Output of gcc 12's `gcov --json-format --stdout` for two small programs, shortened.
const GCOV: &str = r#"{"gcc_version": "12.2.0", "files": [{"file": "a/work.c", "functions": [{"blocks": 4, "end_column": 1,
"start_line": 1, "name": "work", "blocks_executed": 3, "execution_count": 1, "demangled_name": "work", "start_column": 5,
"end_line": 5}], "lines": [{"branches": [], "count": 1, "line_number": 1, "unexecuted_block": false, "function_name": "work"},
{"branches": [{"fallthrough": true, "count": 7, "throw": false}], "count": 8, "line_number": 2, "unexecuted_block": true,
"function_name": "work"}]}], "format_version": "1", "current_working_directory": "/home/one", "data_file": "work.gcda"}
{"files": [{"file": "/usr/include/inline.h", "lines": [{"count": 3, "line_number": 9, "branches": []}]},
{"file": "a/../a/work.c", "lines": [{"count": 2, "line_number": 1}]}], "current_working_directory": "/home/one"}
"#;

/// Output of llvm-cov 14.
const LCOV: &str = "SF:/home/one/a/work.c
FN:1,work
FNDA:1,work
FNF:1
DA:1,3
DA:2,8
BRF:0
LF:2
LH:2
end_of_record
TN:
SF:/usr/include/inline.h
DA:9,3,checksum
end_of_record
";

fn counts(bytes: &[u8]) -> Result<LineCounts, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    match read_counts(file.path(), &ReadLimits::default()) {
        Ok(ExecutionCounts::Lines(lines)) => Ok(lines),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error
            .to_string()
            .replace(&file.path().display().to_string(), "FILE")),
    }
}

#[test]
fn gcov_and_lcov_say_the_same() {
    let gcov = counts(GCOV.as_bytes()).expect("gcov");
    assert_eq!(gcov.len(), 3);
    assert_eq!(gcov, counts(LCOV.as_bytes()).expect("lcov"));
    let of = |path: &str, line: u32| {
        gcov.lines_of_file(path)
            .and_then(|lines| lines.get(&line).copied())
    };
    assert_eq!(of("/home/one/a/work.c", 1), Some(3));
    // Another build, in another directory.
    assert_eq!(of("/build/a/work.c", 2), Some(8));
    assert_eq!(of("inline.h", 9), Some(3));
    assert_eq!(of("/home/one/a/other.c", 1), None);

    let gz = flate2(GCOV.as_bytes());
    assert_eq!(counts(&gz).expect("compressed"), gcov);
    let mut twice = gcov.clone();
    twice.merge_counts(gcov);
    assert_eq!(
        twice
            .lines_of_file("work.c")
            .and_then(|lines| lines.get(&2)),
        Some(&16)
    );
}

fn flate2(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("in memory");
    out.finish().expect("in memory")
}

#[test]
fn of_files_with_one_name_the_nearest_is_taken_or_none() {
    let two = LCOV.replace("/usr/include/inline.h", "/home/one/b/work.c");
    let two = counts(two.as_bytes()).expect("lcov");
    let line = |path: &str, line: u32| {
        two.lines_of_file(path)
            .and_then(|lines| lines.get(&line).copied())
    };
    assert_eq!(line("/other/b/work.c", 9), Some(3));
    assert_eq!(line("/other/a/work.c", 2), Some(8));
    assert_eq!(line("/other/work.c", 2), None);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let wrong = |bytes: &[u8]| counts(bytes).expect_err("wrong");
    let cut = wrong(&GCOV.as_bytes()[..200]);
    let expected = "FILE: damaged counts: EOF while parsing a string, in line 2, column 98";
    assert_eq!(cut, expected);
    let line = wrong(LCOV.replace("DA:2,8", "DA:2,-8").as_bytes());
    assert_eq!(line, "FILE: damaged counts: not DA:LINE,COUNT, in line 6");
    let file = wrong(LCOV.replace("SF:/usr", "XX:/usr").as_bytes());
    assert_eq!(
        file,
        "FILE: damaged counts: DA: before the file, SF:, in line 13"
    );
    for (bytes, advice) in [
        (&b"adcg*21B and so on"[..], "gcov --json-format"),
        (b"\xfflprofi\x81\0\0", "llvm-cov export -format=lcov"),
        (b"main\n# Func Hash:\n24\n", "llvm-cov export -format=lcov"),
        (
            br#"{"data":[],"type":"llvm.coverage.json.export"}"#,
            "-format=lcov",
        ),
        (br#"{"data":[]}"#, "not what gcov --json-format writes"),
        (br#"{"files":[]}"#, "no counts of lines"),
        (b"TN:\n", "no counts of lines"),
        (b"something else", "no counts of instructions"),
        (b"PERFILE2 and no more", "damaged perf.data: cut short"),
    ] {
        let said = wrong(bytes);
        assert!(said.contains(advice), "{said}");
    }
}

static VALID: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    // Two loops; one of them calls a library.
    let stack = |turn: u64| {
        let (inner, outer) = ((BIAS + 0x40, BIAS + 0x10), (BIAS + 0x80 + turn % 3, BIAS));
        let (out, back) = ((BIAS + 0x90, LIBRARY), (LIBRARY + 8, BIAS));
        vec![inner, inner, outer, back, out, inner, outer]
    };
    let stacks: Vec<_> = (0..40).map(stack).collect();
    let gcov = GCOV.as_bytes();
    let perf = perf_data("/home/one/work", &[7; 20], BIAS, &stacks);
    [gcov.to_vec(), flate2(gcov), LCOV.as_bytes().to_vec(), perf]
});

const BIAS: u64 = 0x5555_5555_0000;
const LIBRARY: u64 = 0x7000_0000_0000;

/// Reads a file with little memory; returns the memory used.
fn taken(bytes: &[u8], most: u64) -> (Result<ExecutionCounts, CountsError>, isize) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    let limits = ReadLimits {
        memory: most,
        ..ReadLimits::default()
    };
    let before = memory::start();
    let result = read_counts(file.path(), &limits);
    (result, memory::peak() - before)
}

/// Memory of a reader that does not grow with the limit: buffers, a decompressor, one line of text.
const FREE: isize = 4 << 20;

fn harmless(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (result, peak) = taken(bytes, 1 << 20);
    prop_assert!(peak <= (1 << 20) + FREE, "{} bytes of memory", peak);
    if let Err(CountsError::Other(error)) = result {
        prop_assert!(!matches!(error, ReadError::Io { .. }), "{}", error);
    }
    Ok(())
}

#[test]
fn valid_files_are_read_and_may_end_anywhere() {
    for whole in VALID.iter() {
        let (result, _) = taken(whole, 1 << 20);
        match result.expect("it is valid") {
            ExecutionCounts::Lines(lines) => assert_eq!(lines.len(), 3),
            ExecutionCounts::Branches(found) => {
                let found = found.stretches;
                assert_eq!((found.stacks, found.impossible), (40, 0));
            }
            ExecutionCounts::Instructions(_) => panic!("no such file"),
        }
        for length in 0..whole.len() {
            harmless(&whole[..length]).expect("harmless");
        }
    }
}

#[test]
fn large_files_are_refused_with_little_memory() {
    const MOST: u64 = 16 << 20;
    let many = |each: &dyn Fn(u64) -> String, head: &str, foot: &str| {
        let all: Vec<String> = (0..400_000).map(each).collect();
        format!("{head}{}{foot}", all.join(",").replace("\n,", "\n")).into_bytes()
    };
    let deep = "a/".repeat(1 << 18);
    let nested: String = (0..100)
        .map(|n| format!("SF:{n}/{deep}x\nDA:1,1\n"))
        .collect();
    let stacks: Vec<_> = (0..40_000_u64)
        .map(|turn| {
            let branch = |n: u64| (BIAS + 0x100 + 4 * turn + n, BIAS + 4 * turn + n);
            (0..8).map(branch).collect()
        })
        .collect();
    let files: [Vec<u8>; 7] = [
        many(&|n| format!("DA:{n},1\n"), "SF:a\n", ""),
        many(&|n| format!("SF:{n}/a\nDA:1,1\n"), "", ""),
        many(&|n| format!("SF:{n}\nDA:1,1\n"), "", ""),
        nested.into_bytes(),
        many(&|_| r#"{"file":""}"#.to_owned(), r#"{"files":["#, "]}"),
        many(
            &|n| format!(r#"{{"line_number":{n},"count":1}}"#),
            r#"{"files":[{"file":"a","lines":["#,
            "]}]}",
        ),
        perf_data("/home/one/work", &[7; 20], BIAS, &stacks),
    ];
    for (number, file) in files.iter().enumerate() {
        let (result, peak) = taken(file, MOST);
        let Err(error) = result.map(|_| ()) else {
            panic!("{number} was read");
        };
        let error = error.to_string();
        println!("{number}: {peak} bytes, {error}");
        assert!(
            error.contains("more memory than the limit allows"),
            "{number}: {error}"
        );
        assert!(peak <= MOST as isize + FREE, "{number}: {peak}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_is_an_error_at_most(
        which in 0_usize..4,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = VALID[which].clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        harmless(&bytes)?;
    }

    /// Arbitrary numbers as lengths, counts and offsets.
    #[test]
    fn any_number_in_perf_data_is_an_error_at_most(
        at in any::<prop::sample::Index>(),
        number in prop_oneof![any::<u64>(), 0_u64..4096, Just(u64::MAX), Just(1 << 63)],
    ) {
        let mut bytes = VALID[3].clone();
        let at = at.index(bytes.len() / 8) * 8;
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        harmless(&bytes)?;
    }
}
