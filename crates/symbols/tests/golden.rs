//! Every address of every fixture, against `addr2line -fi` of binutils.

use profile::{ImageAddress, ImageOffset};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use symbols::{ImageSymbols, SymbolOptions};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn options() -> SymbolOptions {
    SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: None,
    }
}

/// A frame as text: `function file:line`.
type Frames = Vec<String>;

fn binutils(path: &Path, addresses: &[ImageAddress]) -> Vec<Frames> {
    let mut child = Command::new("addr2line")
        .args([
            "--addresses",
            "--functions",
            "--inlines",
            "--demangle",
            "-e",
        ])
        .arg(path)
        // The directory in which it looks for .dwo files.
        .current_dir(fixture(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("binutils is installed");
    let mut input = child.stdin.take().unwrap();
    let text: String = addresses.iter().map(|a| format!("{:#x}\n", a.0)).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all: Vec<Frames> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap();
        let place = place.split(" (discriminator").next().unwrap();
        all.last_mut().unwrap().push(format!("{line} {place}"));
    }
    assert_eq!(all.len(), addresses.len());
    all
}

fn ours(image: &ImageSymbols, addresses: &[ImageAddress]) -> Vec<Frames> {
    let debug = image.debug_info().unwrap().expect("debug information");
    let frames = |address: &ImageAddress| {
        let procedure = image.procedure_at(image.offset_of(*address).unwrap());
        let name = procedure.map(|procedure| procedure.demangle_procedure().name);
        let frames = debug.source_frames(*address, name.as_ref()).unwrap();
        frames
            .iter()
            .map(|frame| {
                let file = frame.file.as_deref().unwrap_or("??");
                let line = frame.line.map_or("?".to_owned(), |line| line.to_string());
                format!("{} {file}:{line}", frame.function)
            })
            .collect()
    };
    let all = addresses.iter().map(frames).collect();
    assert_eq!(debug.missing_split_files(), Vec::<PathBuf>::new());
    all
}

/// Checks every address of every procedure that the debug information covers.
fn check(image_name: &str, reference: &str) {
    let image = ImageSymbols::open_image(&fixture(image_name), &options()).unwrap();
    let addresses: Vec<ImageAddress> = image
        .all_procedures()
        .flat_map(|procedure| (0..procedure.size).map(move |at| procedure.start.0 + at))
        .filter_map(|offset| image.address_of(ImageOffset(offset)))
        .collect();
    let theirs = binutils(&fixture(reference), &addresses);
    let ours = ours(&image, &addresses);
    let mut compared = 0;
    for ((address, ours), theirs) in addresses.iter().zip(&ours).zip(&theirs) {
        // Start-up code without debug information: binutils still has the symbol.
        if ours.is_empty() {
            let no_line = |frame: &String| frame.ends_with(":?") || frame.ends_with(":0");
            assert!(theirs.iter().all(no_line), "{address:?} {theirs:?}");
            continue;
        }
        assert_eq!(ours, theirs, "{image_name} at {:#x}", address.0);
        compared += 1;
    }
    assert!(
        compared > 150,
        "{compared} addresses of {image_name} have lines"
    );
    let inlined = ours.iter().filter(|frames| frames.len() > 1).count();
    assert!(inlined > 0, "no inlined call in {image_name}");
}

#[test]
fn dwarf_5() {
    check("dwarf5", "dwarf5");
}

#[test]
fn dwarf_4() {
    check("dwarf4", "dwarf4");
}

#[test]
fn compressed() {
    check("zlib", "zlib");
    check("zlib-gnu", "zlib-gnu");
    check("zstd", "zstd");
}

#[test]
fn clang() {
    check("clang4", "clang4");
    // binutils 2.40 misses the inlined calls in this one.
    check("clang5", "clang4");
}

#[test]
fn not_position_independent() {
    check("fixed", "fixed");
}

#[test]
fn cpp() {
    check("shapes", "shapes");
}

#[test]
fn debug_link() {
    check("stripped", "dwarf5");
}

/// binutils 2.40 does not read these; the same program without splitting is the reference.
#[test]
fn split() {
    check("split", "dwarf5");
    check("packed4", "dwarf4");
    check("packed5", "clang4");
}

#[test]
fn shared_between_programs() {
    check("twin4", "dwarf4");
    check("twin5", "dwarf5");
}

/// A large program of many units: this test.
#[test]
fn rust() {
    let path = std::env::current_exe().unwrap();
    let image = ImageSymbols::open_image(&path, &options()).unwrap();
    let debug = image.debug_info().unwrap().unwrap();
    let mut own = 0;
    for procedure in image.all_procedures() {
        let demangled = procedure.demangle_procedure().name;
        if !demangled.starts_with("golden::") || procedure.size == 0 {
            continue;
        }
        let address = image.address_of(procedure.start).unwrap();
        let frames = debug.source_frames(address, None).unwrap();
        let Some(outer) = frames.last() else {
            continue;
        };
        if demangled.as_ref() == "golden::binutils" {
            assert!(
                outer.file.as_deref().unwrap().ends_with("tests/golden.rs"),
                "{outer:?}"
            );
            assert_eq!(outer.function.as_ref(), "golden::binutils");
            own += 1;
        }
    }
    assert_eq!(own, 1);
}
