//! Functions of other languages seen on stacks.

use crate::bpf::python::{FrameCode, ScriptFrame};
use crate::processes::images::ImageTable;
use languages::jvm::JavaFrame;
use profile::{EmbeddedSymbol, ImageId, ImageKind, ImageOffset, Location};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Number of lowest bits of an offset in a script that hold the line.
const LINE_BITS: u32 = 24;
const MOST_LINE: u32 = (1 << LINE_BITS) - 1;
/// Maximum number of remembered functions, and of their bytes; others have no names.
const MOST: usize = 1 << 20;
const MOST_BYTES: usize = 512 << 20;
/// The maximum in a collection that lasts for weeks: beyond it, the kernel half describes all
/// functions anew.
const MOST_LASTING: usize = 8192;
const MOST_LASTING_BYTES: usize = 64 << 20;
/// Warning for more functions than that.
pub(crate) const FUNCTIONS_LOST: &str = "functions that were met last have no names: those of scripts and Java before them take 512 MiB, or are a million";
/// File name of functions without a description.
const NOWHERE: &str = "[interpreter]";

/// Known functions of scripts.
#[derive(Default)]
pub(crate) struct ScriptFunctions {
    codes: FxHashMap<u64, FrameCode>,
    /// Functions that the kernel half describes anew when it sees them again. Frames of the next
    /// drain may still refer to them.
    older: FxHashMap<u64, FrameCode>,
    /// Approximate size of `codes`.
    bytes: usize,
    /// Names by location in the recording.
    names: FxHashMap<(ImageId, u64), String>,
}

impl ScriptFunctions {
    /// Adds the descriptions that the kernel half sent.
    pub fn add_objects(&mut self, codes: Vec<(u64, FrameCode)>) {
        for (number, code) in codes {
            if self.is_full() {
                break;
            }
            self.bytes += code.memory();
            let replaced = self.codes.insert(number, code);
            self.bytes -= replaced.map_or(0, |code| code.memory());
        }
    }

    /// Returns whether there is no room for more.
    pub fn is_full(&self) -> bool {
        self.codes.len() >= MOST || self.bytes >= MOST_BYTES
    }

    /// Returns whether all of these are known.
    pub fn knows_all<'a>(&self, mut numbers: impl Iterator<Item = &'a u64>) -> bool {
        numbers.all(|number| self.codes.contains_key(number))
    }

    /// Ends one of many drains: forgets the names, which each drain finds anew, and functions
    /// beyond the maximum. Returns whether the kernel half has to describe all functions again.
    pub fn end_drain(&mut self) -> bool {
        self.names = FxHashMap::default();
        self.older = FxHashMap::default();
        if self.codes.len() < MOST_LASTING && self.bytes < MOST_LASTING_BYTES {
            return false;
        }
        self.older = std::mem::take(&mut self.codes);
        self.bytes = 0;
        true
    }

    /// Returns the file, function and line of a frame; with inlined calls several, innermost first.
    pub fn locate_frame(&mut self, frame: ScriptFrame, images: &mut ImageTable) -> Vec<Location> {
        let names = &mut self.names;
        let code = self.codes.get(&frame.code);
        match code.or_else(|| self.older.get(&frame.code)) {
            None => {
                let image = images.named_image(ImageKind::Script, NOWHERE);
                let name = || "[function without a name]".to_owned();
                names.entry((image, 0)).or_insert_with(name);
                let offset = ImageOffset(0);
                vec![Location { image, offset }]
            }
            Some(FrameCode::Function(code)) => {
                let image = images.named_image(ImageKind::Script, code.file());
                let function = function_number(code.name_and_line());
                let name = || code.display_name();
                names.entry((image, function)).or_insert_with(name);
                vec![place_of_line(image, function, code.line(frame.index))]
            }
            Some(FrameCode::Java(code)) => {
                let frames = code.frames_at(frame.index).into_iter();
                let locate = |frame: JavaFrame<'_>| {
                    let image = images.named_image(ImageKind::Script, frame.file);
                    let function = function_number((frame.name, frame.first_line));
                    let name = || frame.display_name;
                    names.entry((image, function)).or_insert_with(name);
                    place_of_line(image, function, frame.line)
                };
                frames.map(locate).collect()
            }
        }
    }

    /// Returns the name at a place, for an image whose number in the recording differs.
    pub fn embedded_symbol(
        &self,
        old: ImageId,
        at: ImageOffset,
        new: ImageId,
    ) -> Option<EmbeddedSymbol> {
        let function = at.0 >> LINE_BITS;
        let name = self.names.get(&(old, function))?.clone();
        Some(EmbeddedSymbol {
            image: new,
            start: ImageOffset(function << LINE_BITS),
            end: ImageOffset((function + 1) << LINE_BITS),
            name,
        })
    }
}

fn place_of_line(image: ImageId, function: u64, line: u32) -> Location {
    let line = u64::from(line.min(MOST_LINE));
    Location {
        image,
        offset: ImageOffset(function << LINE_BITS | line),
    }
}

/// Returns a number for a function in its file, the same in every recording.
fn function_number(name_and_line: (&str, u32)) -> u64 {
    let mut hasher = FxHasher::default();
    name_and_line.hash(&mut hasher);
    (hasher.finish() >> 28).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use languages::ScriptFunction;
    use languages::python::{CodeObject, Version};

    fn function(number: u64) -> (u64, FrameCode) {
        large_function(number, 0)
    }

    /// Makes a function whose line table has `lines` bytes.
    fn large_function(number: u64, lines: usize) -> (u64, FrameCode) {
        let code = CodeObject {
            version: Version {
                major: 3,
                minor: 12,
            },
            file: "a.py".to_owned(),
            name: format!("f{number}"),
            first_line: 1,
            lines: vec![0; lines],
        };
        (number, FrameCode::Function(ScriptFunction::Python(code)))
    }

    #[test]
    fn functions_that_are_told_anew_are_known_for_one_more_drain() {
        let mut functions = ScriptFunctions::default();
        let mut images = ImageTable::new();
        let mut is_known = |functions: &mut ScriptFunctions| {
            let place = functions.locate_frame(ScriptFrame { code: 1, index: 0 }, &mut images);
            place[0].offset.0 > 0
        };
        functions.add_objects(vec![function(1)]);
        assert!(!functions.end_drain());
        assert!(is_known(&mut functions));
        functions.add_objects((2..=MOST_LASTING as u64).map(function).collect());
        assert!(functions.end_drain());
        assert!(is_known(&mut functions));
        assert!(!functions.end_drain());
        assert!(!is_known(&mut functions));
        functions.add_objects(vec![function(1)]);
        assert!(is_known(&mut functions));
        functions.add_objects(vec![large_function(2, MOST_LASTING_BYTES)]);
        assert!(functions.end_drain());
        assert!(!functions.end_drain());
    }

    #[test]
    fn functions_that_find_no_room_are_not_known() {
        let mut functions = ScriptFunctions::default();
        functions.add_objects(vec![large_function(1, MOST_BYTES - 4096)]);
        functions.add_objects(vec![function(2)]);
        assert!(!functions.is_full() && functions.knows_all([1, 2].iter()));
        functions.add_objects(vec![large_function(1, MOST_BYTES), function(3)]);
        assert!(functions.is_full() && !functions.knows_all([3].iter()));
        functions.add_objects(vec![function(1)]);
        assert!(functions.is_full(), "what there is stays");
    }
}
