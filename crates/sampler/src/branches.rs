//! Where branches go and which data are accessed: from the registers at samples (DCPI section 7:
//! interpretation), and from the processor's own records.

use crate::collection::Collection;
use crate::images::open_same;
use crate::records::Record;
use machine::{Interpreter, Registers, Seen};
use profile::{
    ImageAddress, ImageId, ImageKind, ImageOffset, Location, OnWay, Stretches, TakenBranch, add_way,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Images whose code is looked at.
const MOST_IMAGES: usize = 512;

/// Kinds of stretches between branches that are kept: more than the largest programs have warm.
const MOST_STRETCHES: usize = 1 << 20;

/// Instructions of which data addresses are kept: 60 MB of them at most, mostly far less.
const MOST_ACCESSING: usize = 1 << 15;

/// Sees where branches go. Code is read from the images' files, by offset.
pub(crate) struct Branches {
    /// Nothing for what cannot be read.
    code: FxHashMap<ImageId, Option<(File, Interpreter)>>,
    /// Room for the accesses after one sample.
    way: Vec<OnWay<(ImageId, ImageOffset)>>,
}

impl Branches {
    pub fn new() -> Self {
        Self {
            code: FxHashMap::default(),
            way: Vec::new(),
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

    /// Counts the branches and the data addresses that follow from a process' registers at a place.
    pub fn observe(
        &mut self,
        collection: &mut Collection,
        pid: u32,
        at: Location,
        registers: &Registers,
    ) {
        let mut way = std::mem::take(&mut self.way);
        let Some((file, interpreter)) = self.image(collection, at.image) else {
            return;
        };
        let Collection {
            branches,
            accesses,
            warnings,
            ..
        } = collection;
        let space = u64::from(pid);
        let place = |address: ImageAddress| (at.image, ImageOffset(address.0));
        way.clear();
        interpreter.follow(
            ImageAddress(at.offset.0),
            registers,
            |place, buffer| file.read_at(buffer, place.0).unwrap_or(0),
            |seen| match seen {
                Seen::Branch(seen) => {
                    let (branch, target) = (ImageOffset(seen.branch.0), ImageOffset(seen.target.0));
                    branches.entry((at.image, branch, target)).or_default().0 += 1;
                }
                Seen::Access(seen) => way.push(OnWay {
                    instruction: place(seen.instruction),
                    address: seen.address,
                    has_room: seen.has_room,
                }),
                Seen::Before(instruction, address) => {
                    if let Some(one) = accesses.get_mut(&place(instruction)) {
                        one.wait(space, address);
                    }
                }
            },
        );
        add_way(space, &way, MOST_ACCESSING, accesses);
        if accesses.len() >= MOST_ACCESSING {
            warnings.insert(format!(
                "data addresses are of the first {MOST_ACCESSING} instructions that were seen"
            ));
        }
        self.way = way;
    }

    /// Counts what was executed between the branches that came with a sample.
    pub fn add_stack(&self, collection: &mut Collection, record: &Record, stack: &[TakenBranch]) {
        let Collection {
            images,
            maps,
            stretches,
            warnings,
            ..
        } = collection;
        if stretches.kinds() >= MOST_STRETCHES {
            warnings.insert(format!(
                "of {} kinds of code between branches no more are counted: branch records are of the first {} samples",
                MOST_STRETCHES, stretches.stacks
            ));
            return;
        }
        // Where an address is needs the table of images, and whether that is a file too.
        let images = RefCell::new(images);
        let (pid, time) = (record.pid, record.time);
        let locate = |address| maps.locate(pid, time, address, &mut images.borrow_mut());
        let is_file = |image| images.borrow().get(image).kind == ImageKind::File;
        stretches.add(stack, locate, is_file);
    }
}

/// What there was of branch records, in a sentence.
pub(crate) fn summary(stretches: &Stretches) -> Option<String> {
    let Stretches {
        stacks,
        used,
        impossible,
        ..
    } = stretches;
    (*stacks > 0).then(|| {
        format!(
            "{stacks} branch stacks, with {used} stretches of code between branches, and {impossible} that no execution can have led through"
        )
    })
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
