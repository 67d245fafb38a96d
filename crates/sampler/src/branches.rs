//! Where branches go, from the registers at samples (DCPI section 7: interpretation).

use crate::collection::Collection;
use crate::images::open_same;
use machine::{Interpreter, Registers};
use profile::{ImageAddress, ImageId, ImageKind, ImageOffset, Location};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Images whose code is looked at.
const MOST_IMAGES: usize = 512;

/// Sees where branches go. Code is read from the images' files, by offset.
pub(crate) struct Branches {
    /// Nothing for what cannot be read.
    code: FxHashMap<ImageId, Option<(File, Interpreter)>>,
}

impl Branches {
    pub fn new() -> Self {
        Self {
            code: FxHashMap::default(),
        }
    }

    fn image(&mut self, collection: &Collection, id: ImageId) -> Option<&mut (File, Interpreter)> {
        if self.code.len() >= MOST_IMAGES && !self.code.contains_key(&id) {
            return None;
        }
        let code = self.code.entry(id).or_insert_with(|| {
            let file = open(collection, id)?;
            Some((file, Interpreter::new()))
        });
        code.as_mut()
    }

    /// Counts the branches that follow from the registers at a place.
    pub fn observe(&mut self, collection: &mut Collection, at: Location, registers: &Registers) {
        let Some((file, interpreter)) = self.image(collection, at.image) else {
            return;
        };
        let branches = &mut collection.branches;
        interpreter.follow(
            ImageAddress(at.offset.0),
            registers,
            |place, buffer| file.read_at(buffer, place.0).unwrap_or(0),
            |seen| {
                let (branch, target) = (ImageOffset(seen.branch.0), ImageOffset(seen.target.0));
                branches.entry((at.image, branch, target)).or_default().0 += 1;
            },
        );
    }
}

/// The file of an image, as it was when it was mapped.
fn open(collection: &Collection, id: ImageId) -> Option<File> {
    let image = collection.images.get(id);
    if image.kind != ImageKind::File {
        return None;
    }
    let file = match collection.images.held(id) {
        Some(file) => file.try_clone().ok(),
        None => open_same(&image.path, image.file?, None),
    }?;
    // The interpreter knows 64-bit code only: ELFCLASS64, EM_X86_64.
    let mut header = [0; 20];
    file.read_exact_at(&mut header, 0).ok()?;
    (header[..5] == *b"\x7fELF\x02" && header[18..] == [62, 0]).then_some(file)
}
