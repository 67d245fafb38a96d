//! Methods of a made-up JVM, in both forms of compiled code.

use super::made_up::{MadeUp, PublishedField};
use super::method_layout::METHOD_STRUCTURES;
use super::*;

const VERSION: u64 = 1 << 15;

/// Returns the fields and sizes that JDK 11 and JDK 25 publish, as far as they are read.
fn published(version: u32) -> (Vec<PublishedField<'static>>, Vec<(&'static str, u64)>) {
    let mut fields = vec![
        (
            "Abstract_VM_Version",
            "_vm_major_version",
            "int",
            0,
            VERSION,
        ),
        ("ConstantPool", "_pool_holder", "InstanceKlass*", 24, 0),
        ("ConstMethod", "_constants", "ConstantPool*", 8, 0),
        ("Method", "_constMethod", "ConstMethod*", 8, 0),
        ("Klass", "_name", "Symbol*", 24, 0),
        ("Symbol", "_body[0]", "u1", 6, 0),
    ];
    if version < 20 {
        fields.extend([
            ("ConstantPool", "_length", "int", 52, 0),
            ("ConstMethod", "_flags", "u2", 36, 0),
            ("ConstMethod", "_code_size", "u2", 40, 0),
            ("ConstMethod", "_name_index", "u2", 42, 0),
            ("InstanceKlass", "_source_file_name_index", "u2", 298, 0),
            ("Symbol", "_length", "unsigned short", 0, 0),
            ("CodeBlob", "_name", "const char*", 96, 0),
            ("CompiledMethod", "_method", "Method*", 112, 0),
            ("CompiledMethod", "_scopes_data_begin", "address", 120, 0),
            ("nmethod", "_metadata_offset", "int", 292, 0),
            ("nmethod", "_scopes_pcs_offset", "int", 300, 0),
            ("nmethod", "_dependencies_offset", "int", 304, 0),
            ("nmethod", "_compile_id", "int", 324, 0),
        ]);
    } else {
        fields.extend([
            ("ConstantPool", "_length", "int", 60, 0),
            ("ConstantPool", "_source_file_name_index", "u2", 54, 0),
            ("ConstMethod", "_flags._flags", "u4", 28, 0),
            ("ConstMethod", "_code_size", "u2", 34, 0),
            ("ConstMethod", "_name_index", "u2", 36, 0),
            ("Symbol", "_length", "u2", 4, 0),
            ("CodeBlob", "_name", "const char*", 8, 0),
            ("CodeBlob", "_mutable_data", "address", 16, 0),
            ("CodeBlob", "_relocation_size", "int", 28, 0),
            ("CodeBlob", "_mutable_data_size", "int", 48, 0),
            ("nmethod", "_method", "Method*", 80, 0),
            ("nmethod", "_immutable_data", "address", 96, 0),
            ("nmethod", "_immutable_data_size", "int", 160, 0),
            ("nmethod", "_scopes_pcs_offset", "int", 196, 0),
            ("nmethod", "_scopes_data_offset", "int", 200, 0),
            ("nmethod", "_compile_id", "int", 212, 0),
        ]);
    }
    let constants = if version < 20 { 64 } else { 72 };
    let sizes = vec![
        ("HeapBlock", 16),
        ("PcDesc", 16),
        ("ConstMethod", 56),
        ("ConstantPool", constants),
    ];
    (fields, sizes)
}

/// Returns a structure of `size` bytes, with some parts set.
fn structure(size: usize, parts: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, part) in parts {
        bytes[*at as usize..][..part.len()].copy_from_slice(part);
    }
    bytes
}

fn symbol(made: &mut MadeUp, layout: &MethodLayout, text: &str) -> [u8; 8] {
    let length = (text.len() as u16).to_ne_bytes();
    let body = (layout.symbol_body, text.as_bytes());
    let bytes = structure(8 + text.len(), &[(layout.symbol_length, &length), body]);
    made.put(&bytes).to_ne_bytes()
}

/// Adds a method of a class `app/Main` in `Main.java`, whose code has 10 bytes; `lines` is its
/// packed table. Returns its address, and that of its constant part.
fn method(made: &mut MadeUp, layout: &MethodLayout, name: &str, lines: &[u8]) -> (u64, u64) {
    let class_name = symbol(made, layout, "app/Main");
    let (name, source) = (
        symbol(made, layout, name),
        symbol(made, layout, "Main.java"),
    );
    let second = 2_u16.to_ne_bytes();
    let mut class = vec![(layout.class_name, &class_name[..])];
    if let method_layout::SourceIndex::OfClass(at) = layout.source {
        class.push((at, &second));
    }
    let class = made.put(&structure(320, &class)).to_ne_bytes();
    let length = 3_u32.to_ne_bytes();
    let first = layout.first_constant;
    let mut constants = vec![
        (layout.holder, &class[..]),
        (layout.constants_length, &length),
        (first + 8, &name),
        (first + 16, &source),
    ];
    if let method_layout::SourceIndex::OfConstants(at) = layout.source {
        constants.push((at, &second));
    }
    let constants = made
        .put(&structure(first as usize + 24, &constants))
        .to_ne_bytes();
    let (flag, size) = (1_u16.to_ne_bytes(), 10_u16.to_ne_bytes());
    let parts = [
        (layout.constants, &constants[..]),
        (layout.flags, &flag),
        (layout.code_size, &size),
        (layout.name, &flag),
        (layout.code + 10, lines),
    ];
    // The bytes after it are mapped, too, up to the end of a page.
    let size = layout.code as usize + 10 + lines.len() + 256;
    let constant = made.put(&structure(size, &parts));
    let at = [(layout.method_constant, &constant.to_ne_bytes()[..])];
    (made.put(&structure(88, &at)), constant)
}

/// A JVM with a method `outer` (lines 10 and 12), into which `inner` (line 30) was inlined at one
/// place.
struct Jvm {
    made: MadeUp,
    layout: MethodLayout,
    outer: (u64, u64),
    block: u64,
}

fn method_layout(made: &MadeUp) -> Option<MethodLayout> {
    let published = made.published(&METHOD_STRUCTURES)?;
    made.with_memory(|memory| MethodLayout::read(&published, memory))
}

fn jvm(version: u32) -> Jvm {
    let mut made = MadeUp::default();
    made.put_at(VERSION, &version.to_ne_bytes());
    let (fields, sizes) = published(version);
    made.publish(&fields, &sizes);
    let layout = method_layout(&made).expect("it is published");
    let excess = layout.packed_excess;
    let number = |value: u8| value + excess;
    // Instruction 0: line 10, by a long entry; instruction 4: line 12, by a byte.
    let lines = [0xff, number(0), number(20), 4 << 3 | 2, 0];
    let outer = method(&mut made, &layout, "outer", &lines);
    let inner = method(
        &mut made,
        &layout,
        "inner",
        &[0xff, number(0), number(60), 0],
    );
    // Scope 1: outer, at instruction 4; scope 4: inner, at instruction 0, called from scope 1.
    // Numbers are stored plus one.
    let scopes = [0, 0, 1, 5, 1, 2, 1].map(number);
    let methods = [outer.0.to_ne_bytes(), inner.0.to_ne_bytes()].concat();
    let place = |end: i32, scope: i32| [end, scope, 0, 0].map(i32::to_ne_bytes).concat();
    let places = [place(-1, 0), place(16, 1), place(32, 4), place(48, 0)].concat();
    let block = piece(&mut made, &layout, outer.0, [&places, &scopes, &methods]);
    Jvm {
        made,
        layout,
        outer,
        block,
    }
}

fn piece(made: &mut MadeUp, layout: &MethodLayout, method: u64, tables: [&[u8]; 3]) -> u64 {
    let name = made.text("nmethod").to_ne_bytes();
    let method = method.to_ne_bytes();
    let [places, scopes, methods] = tables;
    let half = |value: usize| (value as u32).to_ne_bytes();
    let of = &layout.piece;
    let mut parts: Vec<(u64, Vec<u8>)> =
        vec![(of.name, name.to_vec()), (of.method, method.to_vec())];
    let mut block = vec![0; of.structure as usize];
    match of.tables {
        method_layout::CodeTables::Within {
            places: places_at,
            places_end,
            scopes: scopes_at,
            methods: methods_at,
        } => {
            // Methods, scopes and places follow the structure.
            let (start, at) = (400, made.put(&[0; 1024]));
            let scopes_start = start + methods.len();
            let places_start = scopes_start + scopes.len();
            let scopes_address = at + of.structure + scopes_start as u64;
            parts.extend([
                (methods_at, half(start).to_vec()),
                (scopes_at, scopes_address.to_ne_bytes().to_vec()),
                (places_at, half(places_start).to_vec()),
                (places_end, half(places_start + places.len()).to_vec()),
                (start as u64, methods.to_vec()),
                (scopes_start as u64, scopes.to_vec()),
                (places_start as u64, places.to_vec()),
            ]);
            let parts: Vec<_> = parts.iter().map(|(at, part)| (*at, &part[..])).collect();
            block.extend(structure(800, &parts));
            made.put_at(at, &block);
            at
        }
        method_layout::CodeTables::Apart {
            unchanging,
            unchanging_size,
            places: places_at,
            scopes: scopes_at,
            changing,
            changing_size,
            relocations,
        } => {
            let both = made.put(&[places, scopes].concat());
            let relocated = made.put(&[&[7; 24][..], methods].concat());
            parts.extend([
                (unchanging, both.to_ne_bytes().to_vec()),
                (unchanging_size, half(places.len() + scopes.len()).to_vec()),
                (places_at, half(0).to_vec()),
                (scopes_at, half(places.len()).to_vec()),
                (changing, relocated.to_ne_bytes().to_vec()),
                (changing_size, half(24 + methods.len()).to_vec()),
                (relocations, half(24).to_vec()),
            ]);
            let parts: Vec<_> = parts.iter().map(|(at, part)| (*at, &part[..])).collect();
            block.extend(structure(240, &parts));
            made.put(&block)
        }
    }
}

fn read(jvm: &Jvm, seen: SeenCode) -> Option<JavaCode> {
    let mut reader = JavaCodeReader::new(jvm.layout.clone());
    jvm.made
        .with_memory(|memory| reader.read_code(seen, memory, &mut JavaReadBudget::default()))
}

fn seen_piece(jvm: &Jvm) -> SeenCode {
    SeenCode::Piece {
        block: jvm.block,
        method: jvm.outer.0,
    }
}

fn names(code: &JavaCode, place: u32) -> Vec<(String, u32)> {
    let frames = code.frames_at(place).into_iter();
    frames
        .map(|frame| (frame.display_name, frame.line))
        .collect()
}

fn named(name: &str, line: u32) -> (String, u32) {
    (name.to_owned(), line)
}

#[test]
fn inlined_methods_are_found_at_their_places() {
    for version in [11, 25] {
        let jvm = jvm(version);
        let code = read(&jvm, seen_piece(&jvm)).expect("it is there");
        let outer = "app.Main.outer (Main.java:10)";
        let inner = "app.Main.inner (Main.java:30)";
        assert_eq!(names(&code, 16), [named(outer, 12)], "{version}");
        assert_eq!(names(&code, 17), [named(inner, 30), named(outer, 12)]);
        assert_eq!(
            names(&code, 40),
            [named(outer, 10)],
            "a place without scopes"
        );
        assert_eq!(code.frames_at(99)[0].file, "app/Main.java");
        let other = SeenCode::Piece {
            block: jvm.block,
            method: 8,
        };
        assert_eq!(read(&jvm, other), None, "there is other code by now");
    }
}

#[test]
fn interpreted_methods_have_the_line_of_their_place() {
    for version in [11, 25] {
        let jvm = jvm(version);
        let (method, constant) = jvm.outer;
        let code = read(&jvm, SeenCode::Interpreted { method, constant }).expect("it is there");
        let code_start = jvm.layout.code as u32;
        for (place, line) in [(0, 10), (code_start + 3, 10), (code_start + 4, 12)] {
            assert_eq!(
                names(&code, place),
                [named("app.Main.outer (Main.java:10)", line)]
            );
        }
        let constant = constant + 8;
        assert_eq!(read(&jvm, SeenCode::Interpreted { method, constant }), None);
    }
}

#[test]
fn versions_that_are_not_known_have_no_layout() {
    for version in [10, 26] {
        let mut made = MadeUp::default();
        made.put_at(VERSION, &u32::to_ne_bytes(version));
        let (fields, sizes) = published(25);
        made.publish(&fields, &sizes);
        assert_eq!(method_layout(&made), None);
    }
}

#[test]
fn damaged_memory_is_survived() {
    for version in [11, 25] {
        let jvm = jvm(version);
        jvm.made.damage_each_byte(|made| {
            let mut reader = JavaCodeReader::new(jvm.layout.clone());
            let code = made.with_memory(|memory| {
                reader.read_code(seen_piece(&jvm), memory, &mut JavaReadBudget::default())
            });
            if let Some(code) = code {
                for place in [0, 16, 17, u32::MAX] {
                    assert!(code.frames_at(place).len() <= 2);
                }
            }
        });
    }
}
