//! Branches and accessed data: from the registers at samples and the known memory (DCPI section 7:
//! interpretation), and from the processor's own records.

use crate::events::records::Record;
use crate::processes::images::open_same;
use crate::recording::collection::Collection;
use machine::{CodeInterpreter, Registers, Slice, WayObservation};
use object::Endianness;
use object::elf::{EM_X86_64, FileHeader64, PF_W, PF_X, PT_LOAD, ProgramHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use profile::{
    DataAccess, ImageAddress, ImageId, ImageKind, ImageOffset, Location, OnWay, Stretches,
    TakenBranch, add_way,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Maximum number of images whose code is read.
const MOST_IMAGES: usize = 512;

/// Maximum number of kinds of stretches between branches: more than the largest programs have warm.
const MOST_STRETCHES: usize = 1 << 20;

/// Maximum number of instructions with data addresses: 60 MB at most, usually far less.
const MOST_ACCESSING: usize = 1 << 15;

/// Maximum number of accesses to data near a sample.
const MOST_DATA: usize = 16;

/// Maximum number of segments of an image.
const MOST_SEGMENTS: usize = 64;

/// Observes the targets of branches. Code is read from the images' files, by offset.
pub(crate) struct Branches {
    /// Code of images; `None` if an image's file cannot be read.
    code: FxHashMap<ImageId, Option<Image>>,
}

/// File of an image, with its decoded code.
struct Image {
    file: File,
    /// Mapped segments that are not writable.
    segments: Vec<Segment>,
    /// Addresses of its variables, before relocation.
    variables: Vec<Range<u64>>,
    interpreter: CodeInterpreter,
}

/// A mapped part of a file, at its address before relocation.
struct Segment {
    offset: u64,
    address: u64,
    length: u64,
    is_code: bool,
}

impl Image {
    /// Opens the file as it was mapped, if its code can be interpreted (x86-64).
    fn open_image(collection: &Collection, id: ImageId) -> Option<Self> {
        let image = collection.images.get(id);
        if image.kind != ImageKind::File {
            return None;
        }
        let file = match collection.images.held_file(id) {
            Some(file) => file.try_clone().ok(),
            None => open_same(&image.path, image.file?, None),
        }?;
        let (segments, variables) = read_segments(&file)?;
        Some(Self {
            file,
            segments,
            variables,
            interpreter: CodeInterpreter::new(),
        })
    }
}

/// Returns the read-only segments of an x86-64 ELF file, and the addresses of its writable ones.
fn read_segments(file: &File) -> Option<(Vec<Segment>, Vec<Range<u64>>)> {
    let file = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != EM_X86_64 {
        return None;
    }
    let all = header.program_headers(endian, &file).ok()?.iter();
    let all = all.filter(|one| one.p_type(endian) == PT_LOAD);
    let is_writable = |one: &&ProgramHeader64<Endianness>| one.p_flags(endian).contains(PF_W);
    let (writable, constant): (Vec<_>, Vec<_>) = all.take(MOST_SEGMENTS).partition(is_writable);
    let segment = |one: &ProgramHeader64<Endianness>| Segment {
        offset: one.p_offset(endian),
        address: one.p_vaddr(endian),
        length: one.p_filesz(endian),
        is_code: one.p_flags(endian).contains(PF_X),
    };
    let addresses = |one: &ProgramHeader64<Endianness>| {
        let start = one.p_vaddr(endian);
        start..start.saturating_add(one.p_memsz(endian))
    };
    Some((
        constant.into_iter().map(segment).collect(),
        writable.into_iter().map(addresses).collect(),
    ))
}

/// Returns the code segment at an offset of the file.
fn code_at(segments: &[Segment], at: ImageOffset) -> Option<&Segment> {
    let mut of_code = segments.iter().filter(|one| one.is_code);
    of_code.find(|one| at.0.wrapping_sub(one.offset) < one.length)
}

/// Reads eight bytes at a read-only address of an image.
fn read_constant(file: &File, segments: &[Segment], at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let from = segments.iter().find_map(|one| {
        let from = at.checked_sub(one.address)?;
        let fits = one.length.checked_sub(from)? >= 8;
        one.offset.checked_add(from).filter(|_| fits)
    })?;
    file.read_exact_at(&mut bytes, from).ok()?;
    Some(u64::from_le_bytes(bytes))
}

impl Branches {
    pub fn new() -> Self {
        Self {
            code: FxHashMap::default(),
        }
    }

    fn interpreted_image(&mut self, collection: &Collection, id: ImageId) -> Option<&mut Image> {
        if self.code.len() >= MOST_IMAGES && !self.code.contains_key(&id) {
            return None;
        }
        let code = self.code.entry(id);
        code.or_insert_with(|| Image::open_image(collection, id))
            .as_mut()
    }

    /// Counts the branches and data addresses that follow from a process's registers at a place,
    /// and from its memory as far as a slice has read it. Extends the slice by the missing reads.
    pub fn observe_sample(
        &mut self,
        collection: &mut Collection,
        pid: u32,
        at: Location,
        registers: &Registers,
        slice: Option<(&mut Slice, &[Option<u64>])>,
    ) {
        let Some(image) = self.interpreted_image(collection, at.image) else {
            return;
        };
        let Image {
            file,
            segments,
            variables,
            interpreter,
        } = image;
        // Difference between addresses in the process and in the file.
        let moved = code_at(segments, at.offset).map(|code| {
            let address = (at.offset.0 - code.offset).wrapping_add(code.address);
            registers.counter.wrapping_sub(address)
        });
        let Collection {
            branches,
            accesses,
            shared_lines,
            warnings,
            ..
        } = collection;
        let space = u64::from(pid);
        let place = |address: ImageAddress| (at.image, ImageOffset(address.0));
        let mut way: Vec<OnWay<(ImageId, ImageOffset)>> = Vec::new();
        let mut data: Vec<DataAccess> = Vec::new();
        let mut use_data = |address: u64, writes: bool| {
            let place = moved.map(|moved| address.wrapping_sub(moved));
            let place = place.filter(|at| variables.iter().any(|all| all.contains(at)));
            if data.len() < MOST_DATA {
                data.push(DataAccess {
                    address,
                    writes,
                    variable: place.map(|place| (at.image, ImageAddress(place))),
                });
            }
        };
        interpreter.follow(
            ImageAddress(at.offset.0),
            registers,
            slice,
            |place, buffer| file.read_at(buffer, place.0).unwrap_or(0),
            |word| read_constant(file, segments, word.wrapping_sub(moved?)),
            |seen| match seen {
                WayObservation::Branch(seen) => {
                    let (branch, target) = (ImageOffset(seen.branch.0), ImageOffset(seen.target.0));
                    // Calls through pointers may lead to other images.
                    if code_at(segments, target).is_some() {
                        branches.entry((at.image, branch, target)).or_default().0 += 1;
                    }
                }
                WayObservation::Access(seen) => {
                    if let Some(address) = seen.address {
                        use_data(address, seen.writes);
                    }
                    way.push(OnWay {
                        instruction: place(seen.instruction),
                        address: seen.address,
                        has_room: seen.has_room,
                    });
                }
                WayObservation::Before {
                    instruction,
                    address,
                    writes,
                } => {
                    use_data(address, writes);
                    if let Some(one) = accesses.get_mut(&place(instruction)) {
                        one.wait(space, address);
                    }
                }
            },
        );
        add_way(space, &way, MOST_ACCESSING, accesses);
        if let Some(thread) = registers.thread {
            shared_lines.add_sample(pid, thread, at, data.into_iter());
        }
        if accesses.len() >= MOST_ACCESSING {
            warnings.insert(format!(
                "data addresses are of the first {MOST_ACCESSING} instructions that were seen"
            ));
        }
    }

    /// Counts the code that was executed between the branches of a sample.
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
        // Locating an address, and checking that it is in a file, needs the table of images.
        let images = RefCell::new(images);
        let (pid, time) = (record.pid, record.time);
        let locate = |address| maps.locate_address(pid, time, address, &mut images.borrow_mut());
        let is_file = |image| images.borrow().get(image).kind == ImageKind::File;
        stretches.add(stack, locate, is_file);
    }
}

/// Returns a summary of the branch records, in a sentence.
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
