//! Finds functions of the libraries that follow this one in the dynamic linker's list of loaded
//! objects.
//!
//! `dlsym` and `dlvsym` are no option: their errors allocate memory when a version is missing, and
//! an allocator takes locks. Its lock function is a hook, which would be looked up again. Nothing
//! here allocates, locks, or calls anything, so the first call of a hook may come from anywhere:
//! from an allocator's constructor, which runs before this library's, or from a signal handler.

use core::ffi::{CStr, c_char, c_int, c_void};

/// The public part of the dynamic linker's `struct link_map` (`<link.h>`).
#[repr(C)]
struct LoadedObject {
    base: usize,
    name: *const c_char,
    dynamic: *const DynamicEntry,
    next: *const LoadedObject,
    previous: *const LoadedObject,
}

/// The part of `struct r_debug` that is read.
#[repr(C)]
struct LinkerState {
    version: c_int,
    first: *const LoadedObject,
}

/// `Elf64_Dyn`.
#[repr(C)]
pub struct DynamicEntry {
    pub tag: i64,
    pub value: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

/// The hooks by name.
pub struct OwnFunctions(SymbolTable);

impl OwnFunctions {
    /// Finds this library's symbol table.
    pub fn find() -> Option<Self> {
        // SAFETY: the dynamic linker keeps the list, which has this loaded library.
        unsafe {
            let mut object = _r_debug.first;
            while let Some(loaded) = object.as_ref() {
                if is_own(loaded.dynamic) {
                    return SymbolTable::of(loaded).map(Self);
                }
                object = loaded.next;
            }
        }
        None
    }

    /// Returns the address of the hook of this name.
    pub fn named(&self, name: &CStr) -> Option<usize> {
        // SAFETY: this library is loaded.
        let found = unsafe { self.0.find_function(name) };
        found.map(|found| found as usize)
    }
}

/// Returns whether a dynamic section is this library's.
pub fn is_own(dynamic: *const DynamicEntry) -> bool {
    core::ptr::eq(dynamic, &raw const _DYNAMIC)
}

unsafe extern "C" {
    /// Kept by the dynamic linker for debuggers; complete before the first constructor runs.
    static _r_debug: LinkerState;
    /// This library's dynamic section, by which it finds itself in the list.
    static _DYNAMIC: DynamicEntry;
}

const TAG_HASH: i64 = 4;
const TAG_STRINGS: i64 = 5;
const TAG_SYMBOLS: i64 = 6;
const TAG_GNU_HASH: i64 = 0x6fff_fef5;
const TAG_VERSIONS: i64 = 0x6fff_fff0;

/// Flag of a version that only programs linked with an older library use.
const HIDDEN: u16 = 0x8000;

/// Types of symbols.
const NO_TYPE: u8 = 0;
const FUNCTION: u8 = 2;
const INDIRECT: u8 = 10;

/// Returns the default version of a function in the first object after this library that defines
/// it; null if none does. If this library was loaded last, into a running program, the search
/// starts at the first object: the one that calls were bound to.
pub fn function_behind(name: &CStr) -> *mut c_void {
    // SAFETY: the dynamic linker keeps the list and its objects. An object that defines a function
    // which the program calls was loaded with the program, ahead of all that may be closed.
    unsafe {
        let own = &raw const _DYNAMIC;
        let mut object = _r_debug.first;
        if !crate::late::came_late() {
            while !object.is_null() && (*object).dynamic != own {
                object = (*object).next;
            }
            if !object.is_null() {
                object = (*object).next;
            }
        }
        while let Some(loaded) = object.as_ref() {
            object = loaded.next;
            if loaded.dynamic == own {
                continue;
            }
            if let Some(found) = SymbolTable::of(loaded).and_then(|table| table.find_function(name))
            {
                return found;
            }
        }
    }
    core::ptr::null_mut()
}

/// The dynamic symbols of an object.
struct SymbolTable {
    base: usize,
    symbols: *const Symbol,
    strings: *const c_char,
    /// Null where symbols have no versions.
    versions: *const u16,
    /// The GNU hash table; it or `hash` may be null.
    gnu_hash: *const u32,
    hash: *const u32,
}

impl SymbolTable {
    /// # Safety
    /// The object is loaded.
    unsafe fn of(object: &LoadedObject) -> Option<Self> {
        let mut table = Self {
            base: object.base,
            symbols: core::ptr::null(),
            strings: core::ptr::null(),
            versions: core::ptr::null(),
            gnu_hash: core::ptr::null(),
            hash: core::ptr::null(),
        };
        let mut entry = object.dynamic;
        // SAFETY: a dynamic section ends with an entry of tag 0.
        while let Some(DynamicEntry { tag, value }) = unsafe { entry.as_ref() } {
            // glibc relocates most of these offsets, but not in objects that it cannot write to.
            let address = if *value < object.base {
                object.base + value
            } else {
                *value
            };
            match *tag {
                0 => break,
                TAG_HASH => table.hash = address as _,
                TAG_STRINGS => table.strings = address as _,
                TAG_SYMBOLS => table.symbols = address as _,
                TAG_GNU_HASH => table.gnu_hash = address as _,
                TAG_VERSIONS => table.versions = address as _,
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        let complete = !table.symbols.is_null() && !table.strings.is_null();
        complete.then_some(table)
    }

    /// # Safety
    /// The object is loaded.
    unsafe fn find_function(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: see the caller.
        unsafe {
            if !self.gnu_hash.is_null() {
                self.find_by_gnu_hash(name)
            } else if !self.hash.is_null() {
                self.find_by_hash(name)
            } else {
                None
            }
        }
    }

    /// # Safety
    /// The object is loaded, and `gnu_hash` is its table.
    unsafe fn find_by_gnu_hash(&self, name: &CStr) -> Option<*mut c_void> {
        let letters = name.to_bytes().iter();
        let hash = letters.fold(5381u32, |hash, letter| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*letter))
        });
        // SAFETY: the linker's layout of the table: four numbers, the filter's words, the buckets,
        // and for each symbol from the first one its hash, whose lowest bit ends the bucket.
        unsafe {
            let word = |at: usize| *self.gnu_hash.add(at);
            let (buckets, first, filter) = (word(0), word(1), word(2));
            if buckets == 0 {
                return None;
            }
            let bucket_at = 4 + filter as usize * 2;
            let chains_at = bucket_at + buckets as usize;
            let mut number = word(bucket_at + (hash % buckets) as usize);
            if number < first {
                return None;
            }
            loop {
                let chained = word(chains_at + (number - first) as usize);
                if (chained ^ hash) >> 1 == 0
                    && let Some(found) = self.function(number as usize, name)
                {
                    return Some(found);
                }
                if chained & 1 != 0 {
                    return None;
                }
                number += 1;
            }
        }
    }

    /// # Safety
    /// The object is loaded, and `hash` is its table.
    unsafe fn find_by_hash(&self, name: &CStr) -> Option<*mut c_void> {
        let letters = name.to_bytes().iter();
        let hash = letters.fold(0u32, |hash, letter| {
            let hash = (hash << 4).wrapping_add(u32::from(*letter));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        // SAFETY: the linker's layout of the table: the numbers of buckets and of symbols, the
        // buckets, and for each symbol the next one in its bucket; 0 ends it.
        unsafe {
            let word = |at: usize| *self.hash.add(at);
            let buckets = word(0);
            if buckets == 0 {
                return None;
            }
            let mut number = word(2 + (hash % buckets) as usize);
            while number != 0 {
                if let Some(found) = self.function(number as usize, name) {
                    return Some(found);
                }
                number = word(2 + (buckets + number) as usize);
            }
        }
        None
    }

    /// Returns the address of a symbol, if it is a function of this name in its default version.
    ///
    /// # Safety
    /// The object is loaded and has a symbol with this number.
    unsafe fn function(&self, number: usize, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: see the caller.
        unsafe {
            let symbol = &*self.symbols.add(number);
            let kind = symbol.info & 0xf;
            let defined = symbol.section != 0 && symbol.value != 0;
            if !defined || !matches!(kind, NO_TYPE | FUNCTION | INDIRECT) {
                return None;
            }
            if CStr::from_ptr(self.strings.add(symbol.name as usize)) != name {
                return None;
            }
            // Condition variables, for instance, had another layout in older versions. Version 0
            // marks local symbols.
            let version = self.versions.as_ref().map(|_| *self.versions.add(number));
            if version.is_some_and(|version| version & HIDDEN != 0 || version == 0) {
                return None;
            }
            let address = self.base.wrapping_add(symbol.value);
            Some(match kind {
                INDIRECT => choose_indirect(address),
                _ => address as *mut c_void,
            })
        }
    }
}

/// Calls an indirect function's resolver for the address of the implementation.
///
/// # Safety
/// The address is that of a resolver.
unsafe fn choose_indirect(resolver: usize) -> *mut c_void {
    // SAFETY: see the caller. On x86-64 a resolver takes no argument, on AArch64 the processor's
    // features.
    unsafe {
        let choose =
            core::mem::transmute::<usize, unsafe extern "C" fn(u64) -> *mut c_void>(resolver);
        #[cfg(target_arch = "x86_64")]
        let features = 0;
        #[cfg(not(target_arch = "x86_64"))]
        let features = libc::getauxval(libc::AT_HWCAP);
        choose(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: usize = 3;

    /// Symbols and their tables, as a linker lays them out.
    struct MadeUpObject {
        symbols: Vec<Symbol>,
        strings: Vec<u8>,
        versions: Vec<u16>,
        gnu_hash: Vec<u32>,
        hash: Vec<u32>,
    }

    impl MadeUpObject {
        /// Builds tables for symbols given by name, type, section and version. The address of each
        /// is its index here.
        fn of(symbols: &[(&str, u8, u16, u16)]) -> Self {
            let gnu = |name: &str| {
                let add = |hash: u32, letter| hash.wrapping_mul(33).wrapping_add(u32::from(letter));
                name.bytes().fold(5381, add)
            };
            let elf = |name: &str| {
                name.bytes().fold(0u32, |hash, letter| {
                    let hash = (hash << 4).wrapping_add(u32::from(letter));
                    (hash ^ (hash & 0xf000_0000) >> 24) & 0x0fff_ffff
                })
            };
            let bucket = |hash: u32| hash as usize % BUCKETS;
            let mut order: Vec<usize> = (0..symbols.len()).collect();
            order.sort_by_key(|at| bucket(gnu(symbols[*at].0)));
            // The first symbol is empty; the filter has one word, which is not read here.
            let mut own = Self {
                symbols: vec![symbol(0, 0, 0, 0)],
                strings: vec![0],
                versions: vec![0],
                gnu_hash: vec![BUCKETS as u32, 1, 1, 0, 0, 0, 0, 0, 0],
                hash: vec![0; 2 + BUCKETS + 1 + symbols.len()],
            };
            (own.hash[0], own.hash[1]) = (BUCKETS as u32, symbols.len() as u32 + 1);
            for (number, at) in (1..).zip(&order) {
                let (name, kind, section, version) = symbols[*at];
                own.symbols
                    .push(symbol(own.strings.len(), kind, section, *at + 1));
                own.strings.extend(name.bytes().chain([0]));
                own.versions.push(version);
                let of = bucket(gnu(name));
                if own.gnu_hash[6 + of] == 0 {
                    own.gnu_hash[6 + of] = number as u32;
                }
                let next = order.get(number).map(|next| bucket(gnu(symbols[*next].0)));
                own.gnu_hash
                    .push(gnu(name) & !1 | u32::from(next != Some(of)));
                let head = 2 + bucket(elf(name));
                own.hash[2 + BUCKETS + number] = own.hash[head];
                own.hash[head] = number as u32;
            }
            own
        }

        /// Returns the addresses that both tables give for a name.
        fn find(&self, name: &CStr) -> [Option<usize>; 2] {
            let mut table = SymbolTable {
                base: 0,
                symbols: self.symbols.as_ptr(),
                strings: self.strings.as_ptr().cast(),
                versions: self.versions.as_ptr(),
                gnu_hash: self.gnu_hash.as_ptr(),
                hash: self.hash.as_ptr(),
            };
            // SAFETY: the tables are whole, and live as long as this object.
            let by_gnu_hash = unsafe { table.find_function(name) };
            table.gnu_hash = core::ptr::null();
            // SAFETY: likewise.
            let by_hash = unsafe { table.find_function(name) };
            [by_gnu_hash, by_hash].map(|found| found.map(|found| found as usize))
        }
    }

    fn symbol(name: usize, info: u8, section: u16, value: usize) -> Symbol {
        let (name, other, size) = (name as u32, 0, 0);
        Symbol {
            name,
            info,
            other,
            section,
            value,
            size,
        }
    }

    #[test]
    fn functions_are_found_in_their_default_version() {
        const OBJECT: u8 = 1;
        let object = MadeUpObject::of(&[
            ("wait", FUNCTION, 1, HIDDEN | 2),
            ("wait", FUNCTION, 1, 3),
            ("lock", 1 << 4 | FUNCTION, 1, 2),
            ("unlock", FUNCTION, 1, 2),
            ("imported", FUNCTION, 0, 2),
            ("local", FUNCTION, 1, 0),
            ("data", OBJECT, 1, 2),
            ("start", NO_TYPE, 1, 2),
        ]);
        for (name, found) in [
            (c"wait", Some(2)),
            (c"lock", Some(3)),
            (c"unlock", Some(4)),
            (c"start", Some(8)),
            (c"imported", None),
            (c"local", None),
            (c"data", None),
            (c"loc", None),
            (c"", None),
        ] {
            assert_eq!(object.find(name), [found; 2], "{name:?}");
        }
        assert_eq!(MadeUpObject::of(&[]).find(c"wait"), [None; 2]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "no dynamic linker")]
    fn functions_are_those_that_the_dynamic_linker_finds() {
        for name in [
            c"pthread_cond_wait",
            c"pthread_mutex_lock",
            c"memcpy",
            c"sem_post",
            c"no_such_function",
        ] {
            // SAFETY: looks a name up.
            let linked = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            assert_eq!(function_behind(name), linked, "{name:?}");
        }
        // SAFETY: the program comes first in the list.
        assert!(is_own(unsafe { (*_r_debug.first).dynamic }));
    }
}
