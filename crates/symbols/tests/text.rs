//! Lists of symbols: of the kernel, perf maps, jitdump files.

use profile::ProcessAddress;
use proptest::prelude::*;
use std::path::Path;
use symbols::{Error, KernelSymbols, ProcessSymbol, parse_jitdump, parse_perf_map};

const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000000 T _text
ffffffff81000140 t __do_thing
ffffffff81000140 T do_thing
ffffffff81000200 W weak_thing
ffffffff81000300 T last_thing
ffffffff81000400 T _etext
ffffffff81000400 D some_data
ffffffff82000000 t .hidden
ffffffffc0000000 t init_module\t[ext4]
ffffffffc0000000 t ext4_start\t[ext4]
ffffffffc0000100 T ext4_read\t[ext4]
ffffffffc0009000 t bpf_prog_6deef7357e7b4530_sd_fw\t[bpf]
";
const MODULES: &str = "\
ext4 8192 2 mbcache,jbd2, Live 0xffffffffc0000000
mbcache 4096 0 - Live 0xffffffffc0005000 (OE)
";

fn kernel() -> KernelSymbols {
    KernelSymbols::parse(KALLSYMS, MODULES).unwrap()
}

#[test]
fn the_kernel_is_named() {
    let kernel = kernel();
    assert_eq!(
        kernel.text_start(),
        Some(ProcessAddress(0xffff_ffff_8100_0000))
    );
    let find = |address| {
        let symbol = kernel.find(ProcessAddress(address))?;
        let module = symbol.module.as_deref().unwrap_or("-");
        Some((symbol.name.as_str(), module, symbol.end.0 - symbol.start.0))
    };
    assert_eq!(
        find(0xffff_ffff_8100_0010),
        Some(("startup_64", "-", 0x140))
    );
    assert_eq!(find(0xffff_ffff_8100_0150), Some(("do_thing", "-", 0xc0)));
    assert_eq!(
        find(0xffff_ffff_8100_0200),
        Some(("weak_thing", "-", 0x100))
    );
    assert_eq!(
        find(0xffff_ffff_8100_03ff),
        Some(("last_thing", "-", 0x100))
    );
    // After the text; data is no procedure.
    assert_eq!(find(0xffff_ffff_8100_0400), None);
    assert_eq!(find(0), None);
    assert_eq!(
        find(0xffff_ffff_c000_0000),
        Some(("init_module", "ext4", 0x100))
    );
    // To the end of the module, not to the next one.
    assert_eq!(
        find(0xffff_ffff_c000_1fff),
        Some(("ext4_read", "ext4", 0x1f00))
    );
    assert_eq!(find(0xffff_ffff_c000_2000), None);
    let bpf = find(0xffff_ffff_c000_9010).unwrap();
    assert_eq!((bpf.1, bpf.2), ("bpf", 0));
    let module = |address| {
        kernel
            .module_at(ProcessAddress(address))
            .map(|m| m.name.as_str())
    };
    assert_eq!(module(0xffff_ffff_c000_5fff), Some("mbcache"));
    assert_eq!(module(0xffff_ffff_c000_6000), None);
    assert_eq!(module(0), None);
}

#[test]
fn hidden_addresses_are_an_error_of_their_own() {
    let hidden = "0000000000000000 T _text\n0000000000000000 T schedule\n";
    let modules = "ext4 8192 0 - Live 0x0000000000000000\n";
    for text in [hidden, ""] {
        let error = KernelSymbols::parse(text, modules).unwrap_err();
        assert!(
            matches!(error, Error::KernelAddressesHidden { .. }),
            "{error}"
        );
    }
}

#[test]
fn a_bad_line_is_named() {
    let lines = [
        "rubbish",
        "xyz T name",
        "12 TT name",
        "12 T ",
        "12 T name\tmodule",
        "12 T",
    ];
    for line in lines {
        let text = format!("ffffffff81000000 T _text\n{line}\n");
        let error = KernelSymbols::parse(&text, "").unwrap_err();
        assert!(
            matches!(
                error,
                Error::Line {
                    line: 2,
                    offset: 25,
                    ..
                }
            ),
            "{error}"
        );
    }
    for line in [
        "ext4",
        "ext4 x",
        "ext4 1 2 - Live",
        "ext4 1 2 - Live 12",
        "ext4 1 2 - Live 0xz",
    ] {
        let error = KernelSymbols::parse(KALLSYMS, line).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Line {
                    line: 1,
                    offset: 0,
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// The machine shows its kernel's symbols or hides them, depending on the user.
#[test]
fn the_running_kernel_is_read_or_hidden() {
    match KernelSymbols::read_running_kernel() {
        Ok(kernel) => {
            assert!(kernel.symbols().len() > 1000);
            let start = kernel.text_start().unwrap();
            assert_eq!(kernel.find(start).unwrap().start, start);
        }
        Err(error) => assert!(
            matches!(error, Error::KernelAddressesHidden { .. }),
            "{error}"
        ),
    }
}

fn symbol(start: u64, end: u64, name: &str) -> ProcessSymbol {
    ProcessSymbol {
        start: ProcessAddress(start),
        end: ProcessAddress(end),
        name: name.to_owned(),
    }
}

#[test]
fn perf_maps() {
    let text = "\
7f00001000 40 LazyCompile:*add /app/index.js:3:10
0x7f00002000 0x10 hexadecimal with prefix
7f00000000 20 void Foo::bar(int, java.lang.String)
not a line
7f00003000 zz bad size
7f00003000 10
7f00004000 0 up to the next
7f00004080 10 next
7f00005ff0 0 up to the end of its page
ffffffffffffffff 10 beyond the end
7f00001020 40 took its place
";
    let (symbols, bad) = parse_perf_map(text);
    assert_eq!(
        symbols,
        [
            symbol(
                0x7f_0000_0000,
                0x7f_0000_0020,
                "void Foo::bar(int, java.lang.String)"
            ),
            symbol(
                0x7f_0000_1000,
                0x7f_0000_1020,
                "LazyCompile:*add /app/index.js:3:10"
            ),
            symbol(0x7f_0000_1020, 0x7f_0000_1060, "took its place"),
            symbol(0x7f_0000_2000, 0x7f_0000_2010, "hexadecimal with prefix"),
            symbol(0x7f_0000_4000, 0x7f_0000_4080, "up to the next"),
            symbol(0x7f_0000_4080, 0x7f_0000_4090, "next"),
            symbol(0x7f_0000_5ff0, 0x7f_0000_6000, "up to the end of its page"),
        ]
    );
    assert_eq!(bad, 3);
    assert_eq!(parse_perf_map(""), (Vec::new(), 0));
}

/// A jitdump file in either byte order.
struct Dump {
    bytes: Vec<u8>,
    big: bool,
}

impl Dump {
    fn new(big: bool) -> Self {
        let mut dump = Self {
            bytes: Vec::new(),
            big,
        };
        for word in [0x4a69_5444, 1, 40, 62, 0, 1234] {
            dump.word(word);
        }
        dump.long(77).long(0);
        dump
    }

    fn word(&mut self, word: u32) -> &mut Self {
        let bytes = if self.big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        };
        self.bytes.extend(bytes);
        self
    }

    fn long(&mut self, long: u64) -> &mut Self {
        let bytes = if self.big {
            long.to_be_bytes()
        } else {
            long.to_le_bytes()
        };
        self.bytes.extend(bytes);
        self
    }

    fn record(&mut self, kind: u32, body: &[u64], rest: &[u8]) -> &mut Self {
        let size = 16 + 8 + body.len() * 8 + rest.len();
        self.word(kind)
            .word(size as u32)
            .long(1)
            .word(1234)
            .word(1234);
        for long in body {
            self.long(*long);
        }
        self.bytes.extend(rest);
        self
    }
}

fn parse(dump: &Dump) -> Result<Vec<ProcessSymbol>, Error> {
    parse_jitdump(Path::new("jit-1234.dump"), &dump.bytes)
}

#[test]
fn jitdump() {
    for big in [false, true] {
        let mut dump = Dump::new(big);
        dump.record(0, &[0x1000, 0x1000, 0x40, 1], b"first\0\x90\x90\x90")
            .record(2, &[0x1000, 3], b"lines are passed over")
            .record(0, &[0x2000, 0x2000, 0x40, 2], b"second\0")
            .record(
                0,
                &[0x1020, 0x1020, 0x10, 3],
                b"in the place of the first\0",
            )
            // To 0x3000.
            .record(1, &[0x3000, 0x2000, 0x3000, 0x40, 2], b"")
            .record(1, &[0x5000, 0x4444, 0x5000, 0x40, 9], b"")
            .record(3, &[], b"")
            .record(0, &[0x9000, 0x9000, 0x40, 4], b"after the end\0");
        let expected = [
            symbol(0x1000, 0x1020, "first"),
            symbol(0x1020, 0x1030, "in the place of the first"),
            symbol(0x1030, 0x1040, "first"),
            symbol(0x3000, 0x3040, "second"),
        ];
        assert_eq!(parse(&dump).unwrap(), expected);
    }
}

#[test]
fn jitdump_cut_short_anywhere() {
    let mut dump = Dump::new(false);
    dump.record(0, &[0x1000, 0x1000, 0x40, 1], b"first\0");
    let first = dump.bytes.len();
    dump.record(0, &[0x2000, 0x2000, 0x40, 2], b"second\0");
    for len in 0..dump.bytes.len() {
        let parsed = parse_jitdump(Path::new("jit"), &dump.bytes[..len]);
        match len {
            0..12 => assert!(matches!(parsed, Err(Error::Malformed { .. }))),
            _ => assert_eq!(parsed.unwrap().len(), usize::from(len >= first), "{len}"),
        }
    }
}

#[test]
fn jitdump_that_contradicts_itself() {
    let mut tiny = Dump::new(false);
    tiny.word(0).word(15).long(0);
    let mut nameless = Dump::new(false);
    nameless.record(0, &[0x1000, 0x1000, 0x40, 1], b"no end");
    let mut short = Dump::new(false);
    short.record(1, &[0x1000], b"");
    for (dump, offset) in [(tiny, 40), (nameless, 40), (short, 40)] {
        match parse(&dump) {
            Err(Error::Malformed { offset: at, .. }) => assert_eq!(at, offset),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    /// For any loads in any order, the result is sorted and disjoint, and contains the last one.
    #[test]
    fn generated_code_never_overlaps(loads in prop::collection::vec((0_u64..500, 1_u64..60), 1..80)) {
        let text: String = loads
            .iter()
            .enumerate()
            .map(|(index, (start, size))| format!("{start:x} {size:x} f{index}\n"))
            .collect();
        let (symbols, bad) = parse_perf_map(&text);
        prop_assert_eq!(bad, 0);
        prop_assert!(symbols.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let (start, size) = loads[loads.len() - 1];
        let last = symbol(start, start + size, &format!("f{}", loads.len() - 1));
        prop_assert!(symbols.contains(&last));
    }

    #[test]
    fn any_text_is_a_list(text in "([0-9a-f]{1,16} [tTdA] [a-z_]{1,8}(\t\\[[a-z]{1,4}\\])?\n){0,30}", junk in "\\PC{0,40}") {
        if let Ok(kernel) = KernelSymbols::parse(&text, "") {
            let starts: Vec<_> = kernel.symbols().iter().map(|s| s.start).collect();
            prop_assert!(starts.is_sorted());
            for symbol in kernel.symbols() {
                prop_assert_eq!(kernel.find(symbol.start), Some(symbol));
            }
        }
        let _ = KernelSymbols::parse(&junk, &junk);
        let _ = parse_perf_map(&junk);
    }

    #[test]
    fn any_bytes_are_a_dump(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_jitdump(Path::new("jit"), &bytes);
        if bytes.len() > 16 {
            bytes[..4].copy_from_slice(b"DTiJ");
            bytes[8..12].copy_from_slice(&[40, 0, 0, 0]);
            let _ = parse_jitdump(Path::new("jit"), &bytes);
        }
    }
}
