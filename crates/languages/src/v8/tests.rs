//! Functions in made-up heaps, whole and damaged.

use super::engine::V8Layout;
use super::function::{FunctionReader, JsFunction, SharedFunction};
use proptest::prelude::*;

const LATE: V8Layout = V8Layout {
    frame_context: 8,
    frame_function: 16,
    function_shared: 24,
    shared_name: 16,
    shared_script: 32,
    script_source: 8,
    script_name: 16,
    script_line_ends: 56,
    function_type: 2066,
    shared_type: 262,
    script_type: 167,
    scope_type: 261,
    array_type: 175,
    scope_names: 3,
};
const ONE_BYTE: u16 = 40;
const TWO_BYTE: u16 = 32;
const CONS: u16 = 33;
const EXTERNAL: u16 = 42;
const SLICED: u16 = 43;
const THIN: u16 = 45;
const BASE: u64 = 0x10_0000;

/// The memory of a process: bytes from [`BASE`] on.
#[derive(Clone, Default)]
struct Memory(Vec<u8>);

impl Memory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let start = address.wrapping_sub(BASE) as usize;
        let found = self.0.get(start..).and_then(|rest| rest.get(..bytes.len()));
        found.map(|found| bytes.copy_from_slice(found)).is_some()
    }

    fn end(&self) -> u64 {
        BASE + self.0.len() as u64
    }

    fn add_words(&mut self, words: &[u64]) -> u64 {
        let start = self.end();
        self.0
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        start + 1
    }

    /// Makes an object of a type, with its map.
    fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
        let map = self.add_words(&[0, u64::from(kind) << 32]);
        let start = self.add_words(&[map]);
        self.add_words(words);
        start
    }

    fn text(&mut self, text: &str) -> u64 {
        self.string(ONE_BYTE, text.len(), text.as_bytes())
    }

    fn string(&mut self, kind: u16, length: usize, bytes: &[u8]) -> u64 {
        let string = self.object(kind, &[(length as u64) << 32]);
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        string
    }

    /// Makes a string that does not contain its characters.
    fn other(&mut self, kind: u16, length: usize, words: [u64; 2]) -> u64 {
        self.object(kind, &[(length as u64) << 32, words[0], words[1]])
    }
}

fn small(number: i32) -> u64 {
    u64::from(number as u32) << 32
}

/// Makes a function that begins at a place of a source, with a name and an inferred one.
fn function(
    memory: &mut Memory,
    layout: &V8Layout,
    [name, inferred]: [u64; 2],
    place: i32,
    [file, source]: [u64; 2],
) -> SharedFunction {
    let ends = memory.object(1, &[]);
    let script = memory.object(layout.script_type, &[source, file, 0, 0, 0, 0, ends]);
    let variable = memory.text("q");
    let variables = [variable, variable, small(18), small(82)];
    let scope = match layout.scope_names {
        3 => {
            let mut words = vec![small(94658), small(2), small(2)];
            words.extend(variables);
            words.extend([name, small(-1), inferred, small(place), small(place + 30)]);
            memory.object(layout.scope_type, &words)
        }
        _ => {
            let mut words = vec![0x171c4, small(2), small(2), small(place), small(place + 9)];
            words.extend(variables);
            words.extend([name, small(-1), inferred]);
            memory.object(layout.scope_type, &words)
        }
    };
    let shared = match layout.shared_name {
        16 => memory.object(layout.shared_type, &[0, scope, 0, script, 0, 0]),
        _ => memory.object(layout.shared_type, &[0, 0, scope, 0, script, 0]),
    };
    SharedFunction {
        shared,
        name: scope,
        script,
    }
}

fn read(memory: &Memory, layout: &V8Layout, function: SharedFunction) -> Option<JsFunction> {
    let read = |address: u64, bytes: &mut [u8]| memory.read(address, bytes);
    FunctionReader::default().read_function(7, layout, function, &read)
}

/// Makes a program with one function, `handle` on the third line of `/srv/app.js`.
fn program(layout: &V8Layout) -> (Memory, SharedFunction) {
    let mut memory = Memory::default();
    let name = memory.text("handle");
    let nothing = memory.object(131, &[]);
    let file = memory.text("/srv/app.js");
    let source = memory.text("'use strict';\r\n\nfunction handle(x) { return x; }\n");
    let found = function(&mut memory, layout, [name, nothing], 31, [file, source]);
    (memory, found)
}

/// Returns the layout of Node.js 24.
fn early() -> V8Layout {
    V8Layout {
        shared_name: 24,
        shared_script: 40,
        scope_names: 5,
        ..LATE
    }
}

#[test]
fn functions_have_name_file_and_line() {
    for layout in [LATE, early()] {
        let (memory, function) = program(&layout);
        let found = read(&memory, &layout, function).unwrap();
        assert_eq!(found.display_name(), "handle (app.js:3)");
        assert_eq!(found.file, "/srv/app.js");
        let of_package = JsFunction {
            file: "/srv/node_modules/router/index.js".to_owned(),
            ..found
        };
        assert_eq!(of_package.display_name(), "handle (router/index.js:3)");
        let moved = SharedFunction {
            name: function.name + 8,
            ..function
        };
        assert_eq!(
            read(&memory, &layout, moved),
            None,
            "it is another one by now"
        );
    }
}

#[test]
fn functions_without_a_name_have_the_one_that_was_inferred() {
    let mut memory = Memory::default();
    let [empty, inferred] = ["", "app.handle"].map(|text| memory.text(text));
    let file = memory.text("file:///srv/my%20app.mjs");
    let source = memory.text("app.handle = function() {}");
    let found = function(&mut memory, &LATE, [empty, inferred], 21, [file, source]);
    let found = read(&memory, &LATE, found).unwrap();
    assert_eq!(found.display_name(), "app.handle (my app.mjs:1)");
    let found = function(&mut memory, &LATE, [empty, empty], 21, [empty, source]);
    let found = read(&memory, &LATE, found).unwrap();
    assert_eq!(found.display_name(), "(anonymous) ([evaluated]:1)");
}

#[test]
fn strings_of_all_kinds_are_read() {
    let mut memory = Memory::default();
    let empty = memory.text("");
    let [first, second] = ["/srv/li", "b.js"].map(|text| memory.text(text));
    let cons = memory.other(CONS, 11, [first, second]);
    let whole = memory.text("/srv/lib.js");
    let flattened = memory.other(CONS, 11, [whole, empty]);
    let thin = memory.other(THIN, 11, [flattened, 0]);
    let sliced = memory.other(SLICED, 3, [first, small(2)]);
    let wide: Vec<u8> = "größe".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = memory.string(TWO_BYTE, 5, &wide);
    let outside = memory.end();
    memory.0.extend(b"\n\n\nfunction f() {}      ");
    let external = memory.other(EXTERNAL, 18, [0, outside]);
    let mut named = |name, file, source| {
        let found = function(&mut memory, &LATE, [name, empty], 12, [file, source]);
        read(&memory, &LATE, found).unwrap().display_name()
    };
    assert_eq!(named(wide, thin, external), "größe (lib.js:4)");
    assert_eq!(named(sliced, cons, wide), "rv/ (lib.js:1)");
}

#[test]
fn long_names_keep_their_end_and_circles_end() {
    let mut memory = Memory::default();
    let empty = memory.text("");
    let long = memory.text(&format!("{}end", "x".repeat(5000)));
    let at = memory.end() + 17;
    let circle = memory.other(CONS, 1 << 20, [at, at]);
    let half = memory.other(THIN, 9, [memory.end() + 17, 0]);
    for name in [long, circle, half] {
        let found = function(&mut memory, &LATE, [name, empty], 3, [long, empty]);
        let found = read(&memory, &LATE, found).unwrap();
        assert!(found.file.ends_with("end") && found.file.chars().count() == 1025);
        assert!(found.name.len() < 1100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn damaged_heaps_are_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        words in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        is_early in any::<bool>(),
    ) {
        let layout = if is_early { early() } else { LATE };
        let (mut memory, function) = program(&layout);
        for (place, byte) in damage {
            let place = place.index(memory.0.len());
            memory.0[place] = byte;
        }
        // Pointers to other places of the same memory: cycles, and objects of other types.
        for (place, to) in words {
            let place = place.index(memory.0.len() / 8) * 8;
            let to = BASE + 8 * to.index(memory.0.len() / 8) as u64 + 1;
            memory.0[place..place + 8].copy_from_slice(&to.to_le_bytes());
        }
        if let Some(found) = read(&memory, &layout, function) {
            prop_assert!(found.name.len() < 5000 && found.file.len() < 5000);
        }
    }
}
