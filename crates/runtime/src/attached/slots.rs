//! Words through which the program's libraries call functions, as the dynamic linker filled them
//! in. In a program that ran before this library was loaded, they bypass the hooks. While a session
//! lasts they point to the hooks; the words of OpenMP's functions do so in programs that vitalfew
//! starts, too.
//!
//! Words are changed only by the guard thread, or before the program begins, while the dynamic
//! linker is kept from loading and unloading libraries (`dl_iterate_phdr` does so). A library that
//! is just being loaded is not write-protected yet, and must not become so here: its words are only
//! written.

use crate::link_map::{self, DynamicEntry, OwnFunctions};
use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    _rest: [u32; 5],
}

const TAG_PLT_SIZE: i64 = 2;
const TAG_STRINGS: i64 = 5;
const TAG_SYMBOLS: i64 = 6;
const TAG_RELOCATIONS: i64 = 7;
const TAG_SIZE: i64 = 8;
const TAG_PLT: i64 = 23;

/// Relocation of a data word that holds a symbol's address.
const ABSOLUTE: u32 = 1;
/// Relocation of a global offset table's entry.
const TABLE: u32 = 6;
/// Relocation of a word through which code calls.
const CALL: u32 = 7;

const PAGE: usize = 4096;

/// Maximum number of replaced words, each kept with its old value.
const MOST: usize = 1 << 16;
static SAVED: AtomicPtr<[usize; 2]> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Points the words to the hooks, also in libraries that were loaded since the last call.
pub fn take() {
    if SAVED.load(Relaxed).is_null() {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
        let length = MOST * size_of::<[usize; 2]>();
        let map = [0, length, access, flags, usize::MAX, 0];
        // SAFETY: a new mapping.
        let address = unsafe { sys::call(libc::SYS_mmap, map) };
        if address < 0 {
            return;
        }
        SAVED.store(address as *mut [usize; 2], Release);
    }
    visit_all(b"", take_word);
}

/// Restores the old values.
pub fn give_back() {
    visit_all(b"", give_word);
    COUNT.store(0, Relaxed);
}

/// A word that points to a hooked function.
struct Word<'a> {
    slot: &'a AtomicUsize,
    own: usize,
    name: &'a CStr,
    kind: u32,
}

type Change = fn(&Word<'_>) -> Option<usize>;

/// Returns the address to store in the word; `None`: the word stays.
fn take_word(word: &Word<'_>) -> Option<usize> {
    let now = word.slot.load(Acquire);
    if now == word.own {
        return None;
    }
    // The program may have changed data since.
    if word.kind == ABSOLUTE && now != link_map::function_behind(word.name) as usize {
        return None;
    }
    let at = COUNT.load(Relaxed);
    if at >= MOST {
        return None;
    }
    // SAFETY: as many as there is room for.
    unsafe {
        let saved = SAVED.load(Relaxed).add(at);
        *saved = [core::ptr::from_ref(word.slot) as usize, now];
    }
    COUNT.store(at + 1, Relaxed);
    Some(word.own)
}

fn give_word(word: &Word<'_>) -> Option<usize> {
    if word.slot.load(Acquire) != word.own {
        return None;
    }
    let slot = core::ptr::from_ref(word.slot) as usize;
    let saved = SAVED.load(Relaxed);
    for at in 0..COUNT.load(Relaxed) {
        // SAFETY: `COUNT` entries have been written, and `at` is below `COUNT`.
        let [known, before] = unsafe { *saved.add(at) };
        if known == slot {
            return Some(before);
        }
    }
    // A process that was forked during a session may have closed the library and loaded it again.
    let behind = link_map::function_behind(word.name) as usize;
    (behind != 0).then_some(behind)
}

/// Points the words of OpenMP's functions to the hooks, for good. These hooks do not carry the
/// functions' names: a program that loads two OpenMP libraries later (as Python's packages do)
/// would then call one library for the other. A library that is loaded when the program begins
/// serves the whole program.
pub fn take_openmp() {
    if !link_map::function_behind(c"GOMP_parallel").is_null() {
        visit_all(b"vitalfew_", |word| {
            (word.kind != ABSOLUTE && word.slot.load(Acquire) != word.own).then_some(word.own)
        });
    }
}

/// State that is passed through the dynamic linker to `visit_object`.
struct Visit {
    own: OwnFunctions,
    /// Prefix of the hooks' names.
    prefix: &'static [u8],
    change: Change,
}

impl Visit {
    /// Returns the address of the hook of a function.
    fn own_function(&self, name: &CStr) -> Option<usize> {
        if self.prefix.is_empty() {
            return self.own.named(name);
        }
        let mut full = [0; 64];
        let letters = self.prefix.iter().chain(name.to_bytes_with_nul());
        let mut places = full.iter_mut();
        for letter in letters {
            *places.next()? = *letter;
        }
        self.own.named(CStr::from_bytes_until_nul(&full).ok()?)
    }
}

fn visit_all(prefix: &'static [u8], change: Change) {
    let Some(own) = OwnFunctions::find() else {
        return;
    };
    let mut visit = Visit {
        own,
        prefix,
        change,
    };
    // SAFETY: the function is called for each library while the visit lives.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut visit).cast()) };
}

unsafe extern "C" fn visit_object(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    visit: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic linker and `visit_all` pass a loaded library with its headers.
    unsafe {
        let (object, visit) = (&*object, &*visit.cast::<Visit>());
        let headers = core::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        let base = object.dlpi_addr as usize;
        let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC);
        let Some(dynamic) = dynamic else { return 0 };
        let entries = (base + dynamic.p_vaddr as usize) as *const DynamicEntry;
        if link_map::is_own(entries) {
            return 0;
        }
        if let Some(tables) = Relocations::of(base, entries) {
            tables.visit(visit);
        }
    }
    0
}

/// The relocations of a library.
struct Relocations {
    base: usize,
    strings: *const c_char,
    symbols: *const Symbol,
    /// Addresses and sizes in bytes of the two tables.
    tables: [(usize, usize); 2],
}

impl Relocations {
    /// # Safety
    /// The entries are those of a library that is loaded.
    unsafe fn of(base: usize, mut entries: *const DynamicEntry) -> Option<Self> {
        let mut known = Self {
            base,
            strings: core::ptr::null(),
            symbols: core::ptr::null(),
            tables: [(0, 0); 2],
        };
        let [general, calls] = &mut known.tables;
        // SAFETY: a dynamic section ends with an entry of tag 0.
        while let Some(entry) = unsafe { entries.as_ref() } {
            let address = if entry.value < base {
                base + entry.value
            } else {
                entry.value
            };
            match entry.tag {
                0 => break,
                TAG_STRINGS => known.strings = address as _,
                TAG_SYMBOLS => known.symbols = address as _,
                TAG_RELOCATIONS => general.0 = address,
                TAG_SIZE => general.1 = entry.value,
                TAG_PLT => calls.0 = address,
                TAG_PLT_SIZE => calls.1 = entry.value,
                _ => {}
            }
            entries = entries.wrapping_add(1);
        }
        let complete = !known.strings.is_null() && !known.symbols.is_null();
        complete.then_some(known)
    }

    /// # Safety
    /// The library is loaded.
    unsafe fn visit(&self, visit: &Visit) {
        let mut page = WritablePage::none();
        for (address, size) in self.tables {
            if address == 0 {
                continue;
            }
            let count = size / size_of::<Relocation>();
            // SAFETY: the table is as the linker has made it.
            let table = unsafe { core::slice::from_raw_parts(address as *const Relocation, count) };
            for relocation in table {
                // SAFETY: see the caller.
                let Some(word) = (unsafe { self.word(relocation, visit) }) else {
                    continue;
                };
                if let Some(address) = (visit.change)(&word)
                    && page.reach(core::ptr::from_ref(word.slot) as usize)
                {
                    word.slot.store(address, Release);
                }
            }
        }
        page.close();
    }

    /// Returns the word that a relocation filled in, if it points to a hooked function.
    ///
    /// # Safety
    /// The library is loaded, and the relocation is one of the library's.
    unsafe fn word<'a>(&'a self, relocation: &Relocation, visit: &Visit) -> Option<Word<'a>> {
        let (kind, symbol) = (relocation.info as u32, (relocation.info >> 32) as usize);
        let calls = matches!(kind, TABLE | CALL) || kind == ABSOLUTE && relocation.addend == 0;
        let at = self.base.wrapping_add(relocation.offset);
        if !calls || symbol == 0 || !at.is_multiple_of(align_of::<usize>()) {
            return None;
        }
        // SAFETY: see the caller: the symbol, its name and the word belong to the loaded library.
        unsafe {
            let name = (*self.symbols.add(symbol)).name as usize;
            let name = CStr::from_ptr(self.strings.add(name));
            Some(Word {
                own: visit.own_function(name)?,
                slot: &*(at as *const AtomicUsize),
                name,
                kind,
            })
        }
    }
}

/// A page that is made writable, if it was not, while words on it are changed.
struct WritablePage {
    address: usize,
    opened: bool,
}

impl WritablePage {
    fn none() -> Self {
        Self {
            address: 0,
            opened: false,
        }
    }

    /// Makes the page of a word writable. Returns whether that succeeded.
    fn reach(&mut self, word: usize) -> bool {
        let address = word & !(PAGE - 1);
        if address == self.address {
            return true;
        }
        self.close();
        if !is_writable(word) {
            self.opened = protect(address, libc::PROT_READ | libc::PROT_WRITE);
            if !self.opened {
                return false;
            }
        }
        self.address = address;
        true
    }

    fn close(&mut self) {
        if self.opened {
            protect(self.address, libc::PROT_READ);
        }
        *self = Self::none();
    }
}

fn protect(page: usize, access: c_int) -> bool {
    // SAFETY: a page of data of a library, which stays readable.
    unsafe { sys::call(libc::SYS_mprotect, [page, PAGE, access as usize, 0, 0, 0]) == 0 }
}

/// Returns whether a word can be written: asks the kernel to add 0 to half of it.
fn is_writable(word: usize) -> bool {
    const ADD_NOTHING: usize = 1 << 28;
    let own = AtomicU32::new(0);
    let operation = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [own.as_ptr() as usize, operation, 0, 0, word, ADD_NOTHING];
    // SAFETY: no thread waits on either word, and adding 0 changes nothing.
    unsafe { sys::call(libc::SYS_futex, arguments) >= 0 }
}
