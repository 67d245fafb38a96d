use crate::support::*;
use flate2::{Compression, write::GzEncoder};
use formats::read::{FilePosition, GroupBy, ReadError, ReadLimits, ReadOptions};
use std::io::Write;

fn options() -> ReadOptions {
    ReadOptions::default()
}

#[test]
fn the_value_stands_behind_the_last_space() {
    let text = "main;std::map<int, int>::at 3\nmain;f(int) [b] 4\n\nmain 1\nmain;f(int) [b] 2\n";
    let profile = read_bytes(text.as_bytes(), &options()).unwrap();
    assert_eq!(profile.format, "folded stacks");
    assert_eq!(profile.notes, [""; 0]);
    let expected = [
        "main 1",
        "main;f(int) [b] 6",
        "main;std::map<int, int>::at 3",
    ];
    assert_eq!(folded(&profile.tree, 0), expected);
}

#[test]
fn marks_of_how_a_frame_ran_are_no_part_of_its_name() {
    let text = "A.run_[j];B.get_[i];read_[k] 1\nA.run_[0] 2\nA.run_[1];B.get 4\n";
    let profile = read_bytes(text.as_bytes(), &options()).unwrap();
    let expected = ["A.run 2", "A.run;B.get 4", "A.run;B.get;read [[kernel]] 1"];
    assert_eq!(folded(&profile.tree, 0), expected);
    let outlined = ReadOptions {
        inline: false,
        ..options()
    };
    let profile = read_bytes(text.as_bytes(), &outlined).unwrap();
    let expected = ["A.run 2", "A.run;B.get 4", "A.run;read [[kernel]] 1"];
    assert_eq!(folded(&profile.tree, 0), expected);
}

#[test]
fn differential_stacks_are_no_profile() {
    let error = read_bytes(b"main;a 3 5\nmain;b 4 1\n", &options()).unwrap_err();
    assert!(error.to_string().contains("differential"), "{error}");
    for threads in ["worker 1 3\nworker 2 4\n", "thread 1 7\nmain;a 3\n"] {
        assert!(
            read_bytes(threads.as_bytes(), &options()).is_ok(),
            "{threads}"
        );
    }
}

#[test]
fn what_is_odd_is_said() {
    let grouped = ReadOptions {
        group_by: vec![GroupBy::Host],
        ..options()
    };
    let profile = read_bytes(b"# by hand\na 1.5\nb -2\n", &grouped).unwrap();
    assert_eq!(
        profile.notes,
        [
            "1 values were not whole numbers and were rounded",
            "1 lines with # or // are no stacks and were left out",
            "the profile does not say which host a stack is of; not grouped by host",
            "1 call paths have a negative cost of samples, as in a difference of profiles",
        ]
    );
    assert_eq!(folded(&profile.tree, 0), ["a 2", "b -2"]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn compression_is_no_matter() {
    let text = b"a;b 1\na 2\n";
    let plain = read_bytes(text, &options()).unwrap();
    for bytes in [
        gzip(text),
        zstd::encode_all(&text[..], 3).unwrap(),
        gzip(&zstd::encode_all(&text[..], 3).unwrap()),
        // Separately compressed files that are concatenated.
        [gzip(&text[..6]), gzip(&text[6..])].concat(),
    ] {
        assert_eq!(read_bytes(&bytes, &options()).unwrap(), plain);
    }
    let cut = gzip(text);
    let error = read_bytes(&cut[..cut.len() - 3], &options()).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
}

#[test]
fn errors_name_the_line() {
    let error = read_bytes(b"a 1\nb;c\n", &options()).unwrap_err();
    let ReadError::Damaged { at, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*at, FilePosition::Line(2));
}

#[test]
fn limits_hold() {
    let limited = |limits| ReadOptions {
        limits,
        ..options()
    };
    let deep = format!("{}a 1\n", "a;".repeat(100));
    let limits = ReadLimits {
        depth: 100,
        ..ReadLimits::default()
    };
    let error = read_bytes(deep.as_bytes(), &limited(limits)).unwrap_err();
    assert!(
        error.to_string().contains("more than 100 frames"),
        "{error}"
    );
    let limits = ReadLimits {
        memory: 1 << 20,
        ..ReadLimits::default()
    };
    let wide: String = (0..20_000).map(|i| format!("f{i} 1\n")).collect();
    let error = read_bytes(wide.as_bytes(), &limited(limits)).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
    let line = [&[b'a'; 9_000][..], b" 1\n"].concat().repeat(20_000);
    let bomb = zstd::encode_all(&line[..], 1).unwrap();
    let error = read_bytes(&bomb, &options()).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
}

#[test]
fn what_is_no_profile_is_refused() {
    for (bytes, what) in [
        (&b""[..], "empty"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x7fELF\x02\x01", "program"),
        (b"Dear Sir or Madam,\n", "text of an unknown kind"),
        (b"\x00\x01\x02\x03", "binary"),
    ] {
        let error = read_bytes(bytes, &options()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}
