//! Counts of lines, by gcov and in lcov's form, and which of them are a file's.

use formats::counts::{Counts, LineCounts, read};
use formats::tree::Limits;
use proptest::prelude::*;
use std::io::Write;

/// What gcc 12's `gcov --json-format --stdout` wrote of two small programs, shortened.
const GCOV: &str = r#"{"gcc_version": "12.2.0", "files": [{"file": "a/work.c", "functions": [{"blocks": 4, "end_column": 1,
"start_line": 1, "name": "work", "blocks_executed": 3, "execution_count": 1, "demangled_name": "work", "start_column": 5,
"end_line": 5}], "lines": [{"branches": [], "count": 1, "line_number": 1, "unexecuted_block": false, "function_name": "work"},
{"branches": [{"fallthrough": true, "count": 7, "throw": false}], "count": 8, "line_number": 2, "unexecuted_block": true,
"function_name": "work"}]}], "format_version": "1", "current_working_directory": "/home/one", "data_file": "work.gcda"}
{"files": [{"file": "/usr/include/inline.h", "lines": [{"count": 3, "line_number": 9, "branches": []}]},
{"file": "a/../a/work.c", "lines": [{"count": 2, "line_number": 1}]}], "current_working_directory": "/home/one"}
"#;

/// What llvm-cov 14 wrote.
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
    match read(file.path(), &Limits::default()) {
        Ok(Counts::Lines(lines)) => Ok(lines),
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
    let of = |path: &str, line: u32| gcov.of(path).and_then(|lines| lines.get(&line).copied());
    assert_eq!(of("/home/one/a/work.c", 1), Some(3));
    // Another build, elsewhere.
    assert_eq!(of("/build/a/work.c", 2), Some(8));
    assert_eq!(of("inline.h", 9), Some(3));
    assert_eq!(of("/home/one/a/other.c", 1), None);

    let gz = flate2(GCOV.as_bytes());
    assert_eq!(counts(&gz).expect("compressed"), gcov);
    let mut twice = gcov.clone();
    twice.join(gcov);
    assert_eq!(
        twice.of("work.c").and_then(|lines| lines.get(&2)),
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
    let line = |path: &str, line: u32| two.of(path).and_then(|lines| lines.get(&line).copied());
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

proptest! {
    #[test]
    fn damage_is_an_error_at_most(
        json: bool,
        damage in proptest::collection::vec((0_usize..1400, any::<u8>()), 0..4),
        length in 0_usize..1400,
    ) {
        let mut bytes = if json { GCOV } else { LCOV }.as_bytes().to_vec();
        for (at, byte) in damage {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(length.max(8));
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&bytes).expect("written");
        let _ = read(file.path(), &Limits::default());
    }
}
