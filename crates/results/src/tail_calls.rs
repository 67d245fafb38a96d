//! Functions that are not on stacks because they ended with a jump into another one (a tail call),
//! found by their caller's call instruction.

use profile::{
    ImageId, ImageKind, ImageOffset, Location, Recording, StackId, StackTable, SymbolTable,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use symbols::{ImageSymbols, SymbolOptions};

/// x86-64's `call` of an address relative to the next instruction, and its length in bytes.
const DIRECT_CALL: u8 = 0xe8;
const CALL_BYTES: u64 = 5;
/// ELF's machine number of x86-64.
const X86_64: u16 = 62;

/// Inserts functions into all stacks that jumped into the function of the next frame. The caller's
/// return address shows them: it follows the call of a function with a known name that does not
/// contain the next frame. Returns whether there are any.
///
/// Assumes that a called function is either on the stack or has jumped. A call by a register, or
/// through the linkage table, shows no target.
pub fn insert_tail_callers(recording: &mut Recording, table: &SymbolTable) -> bool {
    let mut callers = TailCallers {
        recording,
        table,
        images: FxHashMap::default(),
        called: FxHashMap::default(),
    };
    let old = &recording.stacks;
    let mut missing: FxHashMap<StackId, Location> = FxHashMap::default();
    for (number, frame) in (0..).zip(old.frames()) {
        let caller = frame.caller.map(|caller| old.frame(caller).location);
        let between = caller.and_then(|caller| callers.between(caller, frame.location));
        missing.extend(between.map(|location| (StackId(number), location)));
    }
    if missing.is_empty() {
        return false;
    }
    let old = std::mem::take(&mut recording.stacks);
    let mut new = StackTable::new();
    // Callers come before their callees.
    let mut moved: Vec<StackId> = Vec::with_capacity(old.len());
    for (number, frame) in (0..).zip(old.frames()) {
        let mut caller = frame.caller.map(|caller| moved[caller.0 as usize]);
        if let Some(between) = missing.get(&StackId(number)) {
            caller = Some(new.intern(*between, caller));
        }
        moved.push(new.intern(frame.location, caller));
    }
    let new_place = |id: StackId| moved[id.0 as usize];
    for sample in &mut recording.samples {
        sample.stack = new_place(sample.stack);
        if let Some(waker) = &mut sample.waker {
            waker.stack = waker.stack.map(new_place);
        }
    }
    recording.stacks = new;
    true
}

/// Finder of the missing functions on stacks.
struct TailCallers<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    images: FxHashMap<ImageId, Option<ImageSymbols>>,
    /// Target of the call at each place: its function's start and name.
    called: FxHashMap<Location, Option<(ImageOffset, Arc<str>)>>,
}

impl TailCallers<'_> {
    /// Returns the place of the function that was called at `caller` and jumped to `callee`.
    fn between(&mut self, caller: Location, callee: Location) -> Option<Location> {
        let reached = self.table.procedure(callee)?;
        if !self.is_file(callee.image) {
            return None;
        }
        let (start, name) = self.called_at(caller)?;
        let is_callee = callee.image == caller.image && reached.start == start;
        // A part that the compiler moved away, such as `work.cold`, belongs to the function.
        let is_part = reached.name.starts_with(&*name);
        (!is_callee && !is_part).then_some(Location {
            image: caller.image,
            offset: start,
        })
    }

    fn is_file(&self, image: ImageId) -> bool {
        self.recording.image(image).kind == ImageKind::File
    }

    fn called_at(&mut self, caller: Location) -> Option<(ImageOffset, Arc<str>)> {
        if let Some(known) = self.called.get(&caller) {
            return known.clone();
        }
        let called = self.read_call(caller);
        self.called.insert(caller, called.clone());
        called
    }

    /// Reads the call whose last byte is at a place.
    fn read_call(&mut self, caller: Location) -> Option<(ImageOffset, Arc<str>)> {
        if !self.is_file(caller.image) {
            return None;
        }
        let recorded = self.recording.image(caller.image);
        let code = self.images.entry(caller.image).or_insert_with(|| {
            let code = ImageSymbols::of_recording(recorded, &SymbolOptions::default());
            // Unreadable code shows no call.
            code.ok()
                .filter(|code| code.elf_machine() == X86_64 && code.has_code())
        });
        let code = code.as_ref()?;
        let next = caller.offset.0.checked_add(1)?;
        let call = code.address_of(ImageOffset(next.checked_sub(CALL_BYTES)?))?;
        let mut bytes = [0; CALL_BYTES as usize];
        if !code.read_loaded(call, &mut bytes) {
            return None;
        }
        let [DIRECT_CALL, distance @ ..] = bytes else {
            return None;
        };
        let distance = i64::from(i32::from_le_bytes(distance));
        let address = call
            .0
            .checked_add(CALL_BYTES)?
            .checked_add_signed(distance)?;
        let target = code.offset_of(profile::ImageAddress(address))?;
        let procedure = code
            .procedure_at(target)
            .filter(|called| called.start == target)?;
        let name = procedure.demangle_procedure().name;
        (!name.ends_with("@plt")).then_some((target, name))
    }
}
