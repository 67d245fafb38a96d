//! Whole recordings: sources of names, and warnings about missing ones.

use profile::{
    BuildId, CallGraph, Collector, EmbeddedSymbol, Host, Image, ImageId, ImageKind, ImageOffset,
    Location, Recording, Target,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use symbols::{
    Detail, ImageSymbols, Resolved, SymbolOptions, build_id_of_bytes, build_id_of_file,
    embed_procedures, resolve,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn options(debug_dirs: &[&Path]) -> SymbolOptions {
    SymbolOptions {
        debug_dirs: debug_dirs.iter().map(PathBuf::from).collect(),
        root: None,
        debuginfod: None,
    }
}

fn open(name: &str) -> ImageSymbols {
    ImageSymbols::open_image(&fixture(name), &options(&[])).unwrap()
}

fn recording(images: Vec<Image>) -> Recording {
    let mut recording = Recording::new(
        Host::default(),
        Target::Machine,
        Collector::Bpf,
        CallGraph::None,
    );
    recording.images = images;
    recording
}

fn file(path: &Path, build_id: Option<BuildId>) -> Image {
    Image {
        kind: ImageKind::File,
        path: path.to_str().unwrap().to_owned(),
        build_id,
        file: None,
        gone: false,
    }
}

fn at(image: u32, offset: u64) -> Location {
    Location {
        image: ImageId(image),
        offset: ImageOffset(offset),
    }
}

/// Returns the start of a procedure of the program, by its full symbol table.
fn place(procedure: &str) -> u64 {
    let image = open("dwarf5");
    let found = image
        .all_procedures()
        .find(|p| p.name == procedure.as_bytes());
    found.unwrap_or_else(|| panic!("{procedure}")).start.0
}

/// Returns the name at a place of a file.
fn name(image: &Path, offset: u64, options: &SymbolOptions) -> (Option<String>, Resolved) {
    let id = build_id_of_file(image).unwrap();
    let recording = recording(vec![file(image, id)]);
    let resolved = resolve(&recording, [at(0, offset)], Detail::Procedures, options);
    let procedure = resolved.table.procedure(at(0, offset));
    (procedure.map(|p| p.name.to_string()), resolved)
}

#[test]
fn procedures_have_the_names_people_use() {
    let image = open("dwarf5");
    let names: Vec<_> = image
        .all_procedures()
        .map(|p| p.demangle_procedure().name.to_string())
        .collect();
    for name in [
        "main",
        "check",
        "check.cold",
        "complain",
        "local_only",
        "asm_open",
        "asm_label",
        "_start",
        "puts@plt",
        "printf@plt",
        "strlen@plt",
        "__cxa_finalize@plt",
    ] {
        assert_eq!(
            names.iter().filter(|n| *n == name).count(),
            1,
            "{name} in {names:?}"
        );
    }
    // The one of two names with fewer underscores; no label inside a procedure.
    assert!(names.contains(&"hash".to_owned()));
    assert!(!names.contains(&"__hash_alias".to_owned()));
    assert!(!names.contains(&"asm_inner".to_owned()));
    // Hand-written assembly extends to the next symbol.
    let open = image
        .all_procedures()
        .find(|p| p.name == b"asm_open")
        .unwrap();
    let label = image
        .all_procedures()
        .find(|p| p.name == b"asm_label")
        .unwrap();
    assert_eq!(open.start.0 + open.size, label.start.0);
    assert!(label.size > 0);
    // Sorted, and found by every address.
    let procedures: Vec<_> = image.all_procedures().collect();
    assert!(procedures.is_sorted_by_key(|p| p.start));
    for procedure in &procedures {
        for offset in [procedure.start.0, procedure.start.0 + procedure.size / 2] {
            assert_eq!(image.procedure_at(ImageOffset(offset)), Some(*procedure));
        }
    }
    assert_eq!(image.procedure_at(ImageOffset(1 << 40)), None);
}

#[test]
fn offsets_and_addresses_convert() {
    for name in ["dwarf5", "fixed", "clang5"] {
        let image = open(name);
        let main = image.all_procedures().find(|p| p.name == b"main").unwrap();
        let address = image.address_of(main.start).unwrap();
        assert_eq!(image.offset_of(address), Some(main.start));
        assert_eq!(name == "fixed", address.0 > 0x40_0000, "{name}");
    }
}

#[test]
fn build_ids_are_the_same_everywhere() {
    let id = build_id_of_file(&fixture("dwarf5")).unwrap().unwrap();
    assert_eq!(id.as_bytes().len(), 20);
    for same in ["stripped", "stripped.debug", "zstd", "mini", "nosymbols"] {
        assert_eq!(
            build_id_of_file(&fixture(same)).unwrap().as_ref(),
            Some(&id),
            "{same}"
        );
    }
    let bytes = fs::read(fixture("dwarf5")).unwrap();
    assert_eq!(build_id_of_bytes(Path::new("x"), bytes).unwrap(), Some(id));
    assert_eq!(build_id_of_file(&fixture("bare")).unwrap(), None);
    assert!(build_id_of_file(&fixture("work.c")).is_err());
    assert!(build_id_of_file(&fixture("absent")).is_err());
    assert!(build_id_of_file(&fixture("")).is_err());
}

#[test]
fn a_stripped_program_finds_its_debug_file() {
    let offset = place("local_only");
    // By its link, beside it.
    assert_eq!(
        name(&fixture("stripped"), offset, &options(&[])).0.unwrap(),
        "local_only"
    );

    // By build-id.
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("bin/program");
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::copy(fixture("stripped"), &alone).unwrap();
    let (none, resolved) = name(&alone, offset, &options(&[dir.path()]));
    assert_eq!(none, None);
    let id = build_id_of_file(&alone).unwrap().unwrap().to_string();
    let layouts = [
        format!(".build-id/{}/{}.debug", &id[..2], &id[2..]),
        format!(".build-id/{}/{}/debug", &id[..2], &id[2..]),
        format!("{id}/debuginfo"),
        // By its link, under the path of the program.
        format!("{}/stripped.debug", alone.parent().unwrap().display())
            .trim_start_matches('/')
            .to_owned(),
    ];
    let warning = resolved.warnings[0].to_string();
    assert!(
        warning.contains("stripped") && warning.contains(&layouts[0]),
        "{warning}"
    );
    for layout in layouts {
        let path = dir.path().join(&layout);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(fixture("stripped.debug"), &path).unwrap();
        let (found, resolved) = name(&alone, offset, &options(&[dir.path()]));
        assert_eq!(found.as_deref(), Some("local_only"), "{layout}");
        assert_eq!(resolved.warnings, [], "{layout}");
        fs::remove_file(path).unwrap();
    }

    // A file with another checksum is not used.
    fs::copy(fixture("shapes"), dir.path().join("bin/stripped.debug")).unwrap();
    assert_eq!(name(&alone, offset, &options(&[dir.path()])).0, None);
}

#[test]
fn a_link_is_checked_by_its_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("program");
    // Without build-ids, only the checksum is left.
    let mut image = fs::read(fixture("stripped")).unwrap();
    let mut debug = fs::read(fixture("stripped.debug")).unwrap();
    for bytes in [&mut image, &mut debug] {
        let at: Vec<usize> = (0..bytes.len() - 8)
            .filter(|at| bytes[*at..].starts_with(b"\x03\0\0\0GNU\0"))
            .collect();
        at.iter().for_each(|at| bytes[*at] = 9);
    }
    fs::write(dir.path().join("stripped.debug"), &debug).unwrap();
    let offset = place("local_only");
    fs::write(&alone, &image).unwrap();
    assert_eq!(build_id_of_file(&alone).unwrap(), None);
    assert_eq!(name(&alone, offset, &options(&[])).0, None);

    let link = image
        .windows(15)
        .position(|w| w == b"stripped.debug\0")
        .unwrap();
    let crc = crc32fast::hash(&debug).to_le_bytes();
    image[link + 16..link + 20].copy_from_slice(&crc);
    fs::write(&alone, &image).unwrap();
    assert_eq!(
        name(&alone, offset, &options(&[])).0.as_deref(),
        Some("local_only")
    );
}

#[test]
fn names_come_from_wherever_there_are_some() {
    let offset = place("local_only");
    // .gnu_debugdata.
    assert_eq!(
        name(&fixture("mini"), offset, &options(&[])).0.unwrap(),
        "local_only"
    );
    // Debug information without symbols.
    let (found, resolved) = name(&fixture("nosymbols"), offset + 1, &options(&[]));
    assert_eq!(found.unwrap(), "local_only");
    let procedure = resolved.table.procedure(at(0, offset + 1)).unwrap();
    assert_eq!(procedure.start.0, offset);
    assert!(procedure.size > 10);
    // Neither.
    let (none, resolved) = name(&fixture("bare"), offset, &options(&[]));
    assert_eq!(none, None);
    assert_eq!(resolved.warnings.len(), 1);
}

#[test]
fn functions_of_a_stripped_program_are_told_apart_by_its_unwind_table() {
    let dir = tempfile::tempdir().unwrap();
    let stripped = dir.path().join("program");
    let status = Command::new("strip")
        .arg("-o")
        .args([&stripped, &fixture("tabled")])
        .status();
    assert!(status.expect("binutils is installed").success());
    let image = open("tabled");
    let id = image.build_id().unwrap().to_string();
    let mut seen = 0;
    for procedure in image.all_procedures() {
        let named = [
            "main",
            "hash",
            "local_only",
            "check",
            "check.cold",
            "complain",
        ];
        if !named.iter().any(|name| name.as_bytes() == procedure.name) {
            continue;
        }
        seen += 1;
        // All of it is one row, with its place and build.
        let start = image.address_of(procedure.start).unwrap().0;
        for offset in [procedure.start.0, procedure.start.0 + procedure.size - 1] {
            let (found, _) = name(&stripped, offset, &options(&[]));
            let wanted = format!("[function at {start:#x} {}]", &id[..8]);
            assert_eq!(
                found,
                Some(wanted),
                "{}",
                String::from_utf8_lossy(procedure.name)
            );
        }
    }
    assert_eq!(seen, 6);
    // Hand-written assembly is unknown.
    let assembly = image
        .all_procedures()
        .find(|p| p.name == b"asm_open")
        .unwrap();
    assert_eq!(name(&stripped, assembly.start.0, &options(&[])).0, None);
}

/// Whether the system's C library is stripped or not, its code has names or boundaries.
#[test]
fn code_of_a_library_of_the_system_has_names_or_boundaries() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.contains("/libc.so") || line.contains("/libc-2"));
    let path = Path::new(line.unwrap().split_whitespace().last().unwrap());
    let image = ImageSymbols::open_image(path, &options(&[])).unwrap();
    // Its exported procedures show where its code is.
    let procedures: Vec<_> = image.all_procedures().filter(|p| p.size > 0).collect();
    let (first, last) = (
        procedures[0].start.0,
        procedures[procedures.len() - 1].start.0,
    );
    let offsets: Vec<u64> = (first..last).step_by(64).collect();
    let recording = recording(vec![file(path, image.build_id().cloned())]);
    let places = offsets.iter().map(|offset| at(0, *offset));
    let resolved = resolve(&recording, places, Detail::Procedures, &options(&[]));
    let named = offsets
        .iter()
        .filter(|o| resolved.table.procedure(at(0, **o)).is_some());
    let (named, all) = (named.count(), offsets.len());
    assert!(all > 1000 && named * 100 >= all * 97, "{named} of {all}");
}

#[test]
fn lines_come_with_inlined_calls() {
    for name in ["dwarf5", "zlib", "zstd", "split", "packed4", "stripped"] {
        let path = fixture(name);
        let image = open(name);
        let recording = recording(vec![file(&path, image.build_id().cloned())]);
        let hash = image.all_procedures().find(|p| p.name == b"hash").unwrap();
        let all = (hash.start.0..hash.start.0 + hash.size).map(|offset| at(0, offset));
        let resolved = resolve(&recording, all.clone(), Detail::Lines, &options(&[]));
        assert_eq!(resolved.warnings, [], "{name}");
        let deepest = all
            .filter_map(|place| resolved.table.get(place))
            .map(|r| &r.inlined);
        let deepest = deepest.max_by_key(|frames| frames.len()).unwrap();
        let names: Vec<_> = deepest
            .iter()
            .map(|frame| frame.function.as_ref())
            .collect();
        assert_eq!(names, ["mix", "twice", "hash"], "{name}");
        assert_eq!(deepest[2].file.as_deref(), Some("/fixture/work.c"));
    }
}

#[test]
fn missing_split_debug_information_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("split");
    fs::copy(fixture("split"), &alone).unwrap();
    let image = open("split");
    let hash = image.all_procedures().find(|p| p.name == b"hash").unwrap();
    let recording = recording(vec![file(&alone, image.build_id().cloned())]);
    let place = at(0, hash.start.0);
    let resolved = resolve(&recording, [place], Detail::Lines, &options(&[]));
    let warning = resolved.warnings[0].to_string();
    assert!(warning.contains("split.dwo"), "{warning}");
    assert_eq!(
        resolved.table.procedure(place).unwrap().name.as_ref(),
        "hash"
    );
}

#[test]
fn a_replaced_image_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    fs::copy(fixture("shapes"), &path).unwrap();
    let id = build_id_of_file(&fixture("dwarf5")).unwrap();
    let text = id.as_ref().unwrap().to_string();
    let place = at(0, place("main"));
    let mut recording = recording(vec![file(&path, id)]);
    let go = |recording: &Recording| {
        resolve(
            recording,
            [place],
            Detail::Procedures,
            &options(&[dir.path()]),
        )
    };
    let resolved = go(&recording);
    assert_eq!(resolved.table.len(), 0);
    assert!(
        resolved.warnings[0].what.contains("was replaced"),
        "{:?}",
        resolved.warnings
    );

    // The recording's own names are used, and nothing is lost.
    recording.symbols.push(EmbeddedSymbol {
        image: ImageId(0),
        start: place.offset,
        end: ImageOffset(place.offset.0 + 4),
        name: "_ZN4kept2upEv".to_owned(),
    });
    let resolved = go(&recording);
    assert_eq!(
        resolved.table.procedure(place).unwrap().name.as_ref(),
        "kept::up()"
    );
    assert_eq!(resolved.warnings, []);

    // A copy under its build-id is the right one; a debug file without code is not.
    let keep = dir.path().join(".build-id").join(&text[..2]);
    fs::create_dir_all(keep.join(&text[2..])).unwrap();
    fs::copy(
        fixture("stripped.debug"),
        keep.join(format!("{}.debug", &text[2..])),
    )
    .unwrap();
    assert_eq!(
        go(&recording).table.procedure(place).unwrap().name.as_ref(),
        "kept::up()"
    );
    fs::copy(fixture("dwarf5"), keep.join(&text[2..]).join("elf")).unwrap();
    assert_eq!(
        go(&recording).table.procedure(place).unwrap().name.as_ref(),
        "main"
    );

    // Gone, and without a build-id to identify another copy.
    recording.symbols.clear();
    recording.images[0].build_id = None;
    recording.images[0].gone = true;
    let resolved = go(&recording);
    assert_eq!(resolved.table.len(), 0);
    assert!(
        resolved.warnings[0].what.contains("gone"),
        "{:?}",
        resolved.warnings
    );
}

#[test]
fn without_a_build_id_age_is_a_warning() {
    let place = at(0, place("main"));
    let mut recording = recording(vec![file(&fixture("bare"), None)]);
    recording.start_unix_ns = 1_000_000_000;
    let resolved = resolve(&recording, [place], Detail::Procedures, &options(&[]));
    assert!(
        resolved.warnings[0].what.contains("written after"),
        "{:?}",
        resolved.warnings
    );
    recording.start_unix_ns = u64::MAX;
    let resolved = resolve(&recording, [place], Detail::Procedures, &options(&[]));
    assert!(
        !resolved.warnings[0].what.contains("written after"),
        "{:?}",
        resolved.warnings
    );
}

#[test]
fn names_stay_with_the_recording_when_its_program_is_rebuilt_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    let id = build_id_of_file(&fixture("dwarf5")).unwrap();
    for (build_id, end) in [(id, u64::MAX), (None, 1)] {
        fs::copy(fixture("dwarf5"), &path).unwrap();
        let places = [at(0, place("main")), at(0, place("hash"))];
        let mut recording = recording(vec![file(&path, build_id)]);
        recording.start_unix_ns = end;
        for location in places {
            recording.stacks.push_leaf(location);
        }
        embed_procedures(&mut recording, &options(&[]));
        let names: Vec<&str> = recording.symbols.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        // The rebuilt program has other procedures at these places.
        fs::copy(fixture("shapes"), &path).unwrap();
        for detail in [Detail::Procedures, Detail::Lines] {
            let resolved = resolve(&recording, places, detail, &options(&[]));
            let name = |at| resolved.table.procedure(at).unwrap().name.to_string();
            assert_eq!(places.map(name), ["main", "hash"]);
            let says_why = resolved
                .warnings
                .iter()
                .any(|w| w.what.contains("is not the file that was recorded"));
            assert_eq!(says_why, detail == Detail::Lines, "{:?}", resolved.warnings);
        }
    }
}

#[test]
fn what_is_no_file_is_named_by_the_recording() {
    let kinds = [
        ImageKind::Kernel,
        ImageKind::KernelModule,
        ImageKind::Vdso,
        ImageKind::Jit,
        ImageKind::Anonymous,
        ImageKind::Unknown,
    ];
    let images = kinds.map(|kind| Image {
        kind,
        path: format!("[{kind:?}]"),
        build_id: None,
        file: None,
        gone: false,
    });
    let mut recording = recording(images.to_vec());
    let symbol = |image, start, end, name: &str| EmbeddedSymbol {
        image: ImageId(image),
        start: ImageOffset(start),
        end: ImageOffset(end),
        name: name.to_owned(),
    };
    recording.symbols = vec![
        symbol(0, 0x10, 0x20, "schedule"),
        symbol(0, 0x40, 0x40, "open_ended"),
        symbol(3, 0x10, 0x20, "jitted"),
    ];
    let places: Vec<_> = (0..6)
        .flat_map(|image| [0, 0x10, 0x1f, 0x20, 0x99].map(|o| at(image, o)))
        .collect();
    // And one of a missing image.
    let places: Vec<_> = places.into_iter().chain([at(77, 0)]).collect();
    let resolved = resolve(&recording, places, Detail::Lines, &options(&[]));
    let name = |image, offset| {
        let procedure = resolved.table.procedure(at(image, offset));
        procedure.map(|p| (p.name.to_string(), p.size))
    };
    assert_eq!(name(0, 0x10), Some(("schedule".to_owned(), 16)));
    assert_eq!(name(0, 0x1f), Some(("schedule".to_owned(), 16)));
    assert_eq!(name(0, 0x20), None);
    assert_eq!(name(0, 0x99), Some(("open_ended".to_owned(), 0)));
    assert_eq!(name(3, 0x10), Some(("jitted".to_owned(), 16)));
    assert_eq!(name(4, 0x10), None);
    assert_eq!(resolved.table.len(), 5);
    let warned: Vec<_> = resolved.warnings.iter().map(|w| w.image).collect();
    assert_eq!(warned, [ImageId(1)]);
}

#[test]
fn the_root_of_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
    fs::copy(fixture("dwarf5"), dir.path().join("usr/bin/program")).unwrap();
    let place = at(0, place("main"));
    let id = build_id_of_file(&fixture("dwarf5")).unwrap();
    let recording = recording(vec![file(Path::new("/usr/bin/program"), id)]);
    let mut options = options(&[]);
    assert_eq!(
        resolve(&recording, [place], Detail::Procedures, &options)
            .table
            .len(),
        0
    );
    options.root = Some(dir.path().to_owned());
    assert_eq!(
        resolve(&recording, [place], Detail::Procedures, &options)
            .table
            .len(),
        1
    );
}

#[test]
fn damaged_images_warn_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fs::read(fixture("dwarf5")).unwrap();
    let cut = dir.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let text = fixture("work.c");
    let images = vec![
        file(&cut, None),
        file(&text, None),
        file(&dir.path().join("absent"), None),
        file(dir.path(), None),
        file(&fixture("dwarf5"), None),
    ];
    let main = place("main");
    let places = (0..5).map(|image| at(image, main));
    let resolved = resolve(&recording(images), places, Detail::Lines, &options(&[]));
    assert_eq!(
        resolved.table.procedure(at(4, main)).unwrap().name.as_ref(),
        "main"
    );
    let warned: Vec<_> = resolved.warnings.iter().map(|w| w.image.0).collect();
    assert_eq!(warned, [0, 1, 2, 3]);
    assert!(
        resolved.warnings[0]
            .what
            .contains("section headers, at offset 0x"),
        "{:?}",
        resolved.warnings
    );
    assert!(resolved.warnings[1].what.contains("not an ELF file"));
}

#[test]
fn line_ranges_cover_what_lookups_say() {
    for name in ["dwarf5", "dwarf4", "clang5", "split"] {
        let image = open(name);
        let debug = image.debug_info().unwrap().unwrap();
        let mut checked = 0;
        debug
            .for_each_line(|range, file, line| {
                assert!(range.start < range.end);
                let frames = debug.source_frames(range.start, None).unwrap();
                let inner = &frames[0];
                assert_eq!(inner.file.as_deref(), Some(file), "{name} {range:?}");
                assert_eq!(inner.line, Some(line), "{name} {range:?}");
                checked += 1;
            })
            .unwrap();
        assert!(checked > 30, "{checked} ranges in {name}");
    }
}

#[test]
fn many_lookups_are_no_attack() {
    let image = open("dwarf5");
    let debug = image.debug_info().unwrap().unwrap();
    // Three frames: three names are read again each time.
    let start = place("hash");
    let address = (start..start + 100)
        .filter_map(|offset| image.address_of(ImageOffset(offset)))
        .find(|address| debug.source_frames(*address, None).unwrap().len() == 3)
        .unwrap();
    for _ in 0..500_000 {
        assert_eq!(debug.source_frames(address, None).unwrap().len(), 3);
    }
}
