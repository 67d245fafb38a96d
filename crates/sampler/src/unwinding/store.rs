//! The tables in the kernel: the number of each image, and the place of its rows.

use super::pages::PageAllocator;
use crate::Error;
use crate::bpf::go::program_bytes;
use crate::bpf::kernel::WalkMaps;
use crate::bpf::python::{InterpreterTable, interpreter_bytes};
use crate::bpf::ruby::ruby_bytes;
use crate::bpf::tables::wait_for_running_programs;
use crate::bpf::v8::engine_bytes;
use languages::go::GoProgram;
use languages::python::Interpreter;
use languages::ruby::RubyInterpreter;
use languages::v8::V8Engine;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use unwind::{CompactKind, CompactRule, CompactTable};

/// `ROW_PAGE_WORDS`, `CHUNK_PAGES`, `MOST_CHUNKS` and `MOST_IMAGES` of unwind_tables.h.
const PAGE_WORDS: usize = 1024;
const CHUNK_PAGES: u32 = 256;
const MOST_CHUNKS: u32 = 1024;
const MOST_IMAGES: u32 = 4096;
/// `IMAGE_VDSO`, `IMAGE_WITHOUT_TABLE` and `IMAGE_FIRST`.
const VDSO: u32 = 1;
const WITHOUT_TABLE: u32 = 2;
const FIRST: u32 = 3;
/// Number of chunks created ahead of need.
const CHUNKS_AHEAD: u32 = 3;
/// Number of rounds for which a used table stays even if room is needed: otherwise a set of tables
/// that does not fit would be made again and again.
const ROUNDS_KEPT: u32 = 10;

/// `struct image_key`: the file as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ImageKey {
    pub inode: u64,
    pub device: u32,
    pub generation: u32,
}

impl ImageKey {
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.inode.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.device.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.generation.to_ne_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (inode, rest) = bytes.split_first_chunk::<8>()?;
        let (device, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            inode: u64::from_ne_bytes(*inode),
            device: u32::from_ne_bytes(*device),
            generation: u32::from_ne_bytes(rest.try_into().ok()?),
        })
    }
}

/// An image with its label in stacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelledImage {
    pub key: ImageKey,
    pub label: u32,
}

/// The runtime of another language that an image contains.
pub(crate) enum ImageRuntime {
    Python(Interpreter),
    Ruby(RubyInterpreter),
    Go(GoProgram),
    V8(V8Engine),
}

impl ImageRuntime {
    /// Returns the bit of `enum image_runtime`.
    fn bit(&self) -> u32 {
        1 << match self {
            Self::Python(_) => 0,
            Self::Ruby(_) => 1,
            Self::V8(_) => 2,
            Self::Go(_) => 3,
        }
    }
}

/// Result of installing a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    InUse,
    /// The image has no table.
    Empty,
    /// The memory is full of tables in use.
    NoRoom,
}

/// An image with a table in the kernel.
struct StoredTable {
    key: ImageKey,
    pages: Range<u32>,
}

/// Puts tables into the kernel, in bounded memory.
pub(crate) struct TableStore {
    maps: WalkMaps,
    pages: PageAllocator,
    /// The existing chunks, and the number of tables in each.
    chunks: FxHashMap<u32, (MapHandle, u32)>,
    rules: FxHashMap<CompactRule, u16>,
    stored: FxHashMap<u32, StoredTable>,
    free_numbers: Vec<u32>,
    interpreters: InterpreterTable,
    rubies: InterpreterTable,
    engines: InterpreterTable,
    version: u32,
    round: u32,
}

impl TableStore {
    /// Creates a store of at most `limit` bytes of rows.
    pub fn new(maps: WalkMaps, limit: usize) -> Result<Self, Error> {
        let pages = u32::try_from(limit / (4 * PAGE_WORDS)).unwrap_or(u32::MAX);
        let copy = |map: &MapHandle| {
            MapHandle::try_from(map).map_err(Error::bpf("sharing the collector's tables"))
        };
        let interpreters =
            InterpreterTable::new(copy(&maps.interpreters)?, copy(&maps.image_interpreters)?);
        let rubies = InterpreterTable::new(copy(&maps.rubies)?, copy(&maps.image_rubies)?);
        let engines = InterpreterTable::new(copy(&maps.v8_engines)?, copy(&maps.image_v8_engines)?);
        let mut store = Self {
            maps,
            interpreters,
            rubies,
            engines,
            pages: PageAllocator::new(pages.min(MOST_CHUNKS * CHUNK_PAGES)),
            chunks: FxHashMap::default(),
            rules: FxHashMap::default(),
            stored: FxHashMap::default(),
            free_numbers: (FIRST..MOST_IMAGES).rev().collect(),
            version: 0,
            round: 0,
        };
        // Walks use rule 0 for code outside of a table.
        store.number_of_rule(CompactRule::bare(CompactKind::Uncovered))?;
        Ok(store)
    }

    /// Installs the table of the vDSO.
    pub fn install_vdso(&mut self, table: &CompactTable) -> Result<(), Error> {
        if !table.is_empty()
            && let Some(pages) = self.pages.take_pages(pages_of(table))
        {
            self.write_rows(table, pages.clone())?;
            self.write_table(VDSO, table, pages.start)?;
        }
        self.invalidate_lookups()
    }

    /// Installs the table and the runtime of an image, which walks use from then on.
    pub fn install_table(
        &mut self,
        image: LabelledImage,
        table: &CompactTable,
        runtime: Option<&ImageRuntime>,
    ) -> Result<Installed, Error> {
        let (installed, number) = if table.is_empty() {
            (Installed::Empty, WITHOUT_TABLE)
        } else {
            match self.make_room(pages_of(table)) {
                Some((pages, number)) => {
                    self.write_rows(table, pages.clone())?;
                    self.write_table(number, table, pages.start)?;
                    let key = image.key;
                    self.stored.insert(number, StoredTable { key, pages });
                    self.set_runtime(number, runtime)?;
                    (Installed::InUse, number)
                }
                None => (Installed::NoRoom, WITHOUT_TABLE),
            }
        };
        // Last: a walk that finds the number must find the whole table.
        let runtime = runtime.filter(|_| installed == Installed::InUse);
        self.number_image(image, number, runtime.map_or(0, ImageRuntime::bit))?;
        self.invalidate_lookups()?;
        Ok(installed)
    }

    fn set_runtime(&mut self, number: u32, runtime: Option<&ImageRuntime>) -> Result<(), Error> {
        let (mut python, mut ruby, mut go, mut v8) = (None, None, None, None);
        match runtime {
            Some(ImageRuntime::Python(interpreter)) => {
                python = Some(interpreter_bytes(interpreter))
            }
            Some(ImageRuntime::Ruby(interpreter)) => ruby = Some(ruby_bytes(interpreter)),
            Some(ImageRuntime::Go(program)) => go = Some(program),
            Some(ImageRuntime::V8(engine)) => v8 = Some(engine_bytes(&engine.layout)),
            None => {}
        }
        self.update_map(&self.maps.go_programs, number, &program_bytes(go))?;
        self.interpreters.set_interpreter(number, python)?;
        self.rubies.set_interpreter(number, ruby)?;
        self.engines.set_interpreter(number, v8)?;
        Ok(())
    }

    /// Begins the next round, about every second: tables used from now on count as used later.
    pub fn next_round(&mut self) -> Result<(), Error> {
        self.round += 1;
        self.write_state()
    }

    /// Drops images without tables, and the less recently used half of the tables, if image numbers
    /// run out.
    pub fn forget_images(&mut self) -> Result<(), Error> {
        let keys: Vec<Vec<u8>> = self.maps.numbers.keys().collect();
        if keys.len() < MOST_IMAGES as usize * 3 / 4 {
            return Ok(());
        }
        let mut by_use: Vec<(u32, u32)> = self
            .stored
            .keys()
            .map(|n| (self.last_used(*n), *n))
            .collect();
        by_use.sort_unstable();
        for (_, number) in &by_use[..by_use.len() / 2] {
            self.evict_table(*number)?;
        }
        let kept: Vec<[u8; 16]> = self.stored.values().map(|s| s.key.to_bytes()).collect();
        for key in keys {
            if !kept.iter().any(|kept| kept[..] == key[..]) {
                let _ = self.maps.numbers.delete(&key);
            }
        }
        self.invalidate_lookups()
    }

    /// Returns pages and a number for a table; evicts the least recently used tables.
    fn make_room(&mut self, pages: u32) -> Option<(Range<u32>, u32)> {
        loop {
            if let Some(number) = self.free_numbers.last().copied()
                && let Some(pages) = self.pages.take_pages(pages)
            {
                self.free_numbers.pop();
                return Some((pages, number));
            }
            let by_use = self.stored.keys().map(|n| (self.last_used(*n), *n));
            let (used, number) = by_use.min()?;
            // An evicted table would be requested again at once.
            if used + ROUNDS_KEPT > self.round {
                return None;
            }
            self.evict_table(number).ok()?;
        }
    }

    /// Returns the round in which a table was last used.
    fn last_used(&self, number: u32) -> u32 {
        let table = self
            .maps
            .tables
            .lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let table = table.ok().flatten().unwrap_or_default();
        let used = table.get(16..20).and_then(|bytes| bytes.try_into().ok());
        used.map_or(0, u32::from_ne_bytes)
    }

    fn evict_table(&mut self, number: u32) -> Result<(), Error> {
        let Some(stored) = self.stored.remove(&number) else {
            return Ok(());
        };
        // If it is requested again, it is made again.
        let _ = self.maps.numbers.delete(&stored.key.to_bytes());
        self.update_map(&self.maps.tables, number, &[0; 24])?;
        self.invalidate_lookups()?;
        // Running walks may still read the rows; only after them another table gets the room.
        wait_for_running_programs();
        for chunk in chunks_of(&stored.pages) {
            let Some((_, users)) = self.chunks.get_mut(&chunk) else {
                continue;
            };
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.chunks.remove(&chunk);
                let _ = self.maps.rows.delete(&chunk.to_ne_bytes());
            }
        }
        self.pages.give_back(stored.pages);
        self.free_numbers.push(number);
        Ok(())
    }

    fn write_rows(&mut self, table: &CompactTable, pages: Range<u32>) -> Result<(), Error> {
        let numbers: Vec<u16> = table
            .rules()
            .iter()
            .map(|rule| self.number_of_rule(*rule))
            .collect::<Result<_, _>>()?;
        let mut words = table.renumbered(&numbers);
        self.use_chunks(chunks_of(&pages))?;
        for chunk in chunks_of(&pages) {
            let Some((inner, _)) = self.chunks.get(&chunk) else {
                continue;
            };
            let first = chunk * CHUNK_PAGES;
            for page in pages.start.max(first)..pages.end.min(first + CHUNK_PAGES) {
                let mut bytes = vec![0; 4 * PAGE_WORDS];
                for (place, word) in bytes
                    .chunks_exact_mut(4)
                    .zip(words.by_ref().take(PAGE_WORDS))
                {
                    place.copy_from_slice(&word.to_ne_bytes());
                }
                self.update_map(inner, page - first, &bytes)?;
            }
        }
        Ok(())
    }

    /// Creates these chunks, for one more table, and some more: each update of the outer map waits
    /// until no program uses the old one, which takes tens of milliseconds.
    fn use_chunks(&mut self, chunks: Range<u32>) -> Result<(), Error> {
        let last = (chunks.end + CHUNKS_AHEAD).min(MOST_CHUNKS);
        let missing = chunks
            .clone()
            .any(|chunk| !self.chunks.contains_key(&chunk));
        if missing {
            let wanted = chunks.start..last;
            let new: Vec<u32> = wanted.filter(|c| !self.chunks.contains_key(c)).collect();
            self.add_chunks(&new)?;
        }
        for chunk in chunks {
            if let Some((_, users)) = self.chunks.get_mut(&chunk) {
                *users += 1;
            }
        }
        Ok(())
    }

    fn add_chunks(&mut self, new: &[u32]) -> Result<(), Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let (page, name) = (4 * PAGE_WORDS as u32, Some("vf_rows"));
        let (mut keys, mut values, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in new {
            let inner = MapHandle::create(MapType::Array, name, 4, page, CHUNK_PAGES, &options)
                .map_err(Error::bpf("making room for unwind tables"))?;
            keys.extend(chunk.to_ne_bytes());
            values.extend((inner.as_fd().as_raw_fd() as u32).to_ne_bytes());
            maps.push((*chunk, inner));
        }
        let (count, any) = (new.len() as u32, MapFlags::ANY);
        let rows = &self.maps.rows;
        if rows.update_batch(&keys, &values, count, any, any).is_err() {
            // Before Linux 6.0 such maps do not support batch updates.
            for (chunk, inner) in &maps {
                let fd = inner.as_fd().as_raw_fd() as u32;
                self.update_map(rows, *chunk, &fd.to_ne_bytes())?;
            }
        }
        let unused = maps.into_iter().map(|(chunk, inner)| (chunk, (inner, 0)));
        self.chunks.extend(unused);
        Ok(())
    }

    fn number_of_rule(&mut self, rule: CompactRule) -> Result<u16, Error> {
        if let Some(number) = self.rules.get(&rule) {
            return Ok(*number);
        }
        let unsupported = CompactRule::bare(CompactKind::Unsupported);
        let number = match u16::try_from(self.rules.len()) {
            Ok(number) if number < u16::MAX || rule == unsupported => number,
            // Out of numbers: a walk stops at such a place, instead of using a wrong rule.
            _ => return self.number_of_rule(unsupported),
        };
        self.update_map(&self.maps.rules, number.into(), &rule.to_bytes())?;
        self.rules.insert(rule, number);
        Ok(number)
    }

    fn write_table(&self, number: u32, table: &CompactTable, page: u32) -> Result<(), Error> {
        let mut bytes = table.start().to_ne_bytes().to_vec();
        for word in [table.blocks(), page, self.round, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        self.update_map(&self.maps.tables, number, &bytes)
    }

    fn number_image(&self, image: LabelledImage, number: u32, runtimes: u32) -> Result<(), Error> {
        let mut value = [0; 16];
        value[..4].copy_from_slice(&number.to_ne_bytes());
        value[8..12].copy_from_slice(&image.label.to_ne_bytes());
        value[12..].copy_from_slice(&runtimes.to_ne_bytes());
        let key = image.key.to_bytes();
        let update = self.maps.numbers.update(&key, &value, MapFlags::ANY);
        update.map_err(Error::bpf("numbering an image"))
    }

    /// Invalidates cached mappings.
    fn invalidate_lookups(&mut self) -> Result<(), Error> {
        self.version += 1;
        self.write_state()
    }

    fn write_state(&self) -> Result<(), Error> {
        let mut state = self.version.to_ne_bytes().to_vec();
        state.extend(self.round.to_ne_bytes());
        self.update_map(&self.maps.state, 0, &state)
    }

    fn update_map(&self, map: &MapHandle, index: u32, value: &[u8]) -> Result<(), Error> {
        let update = map.update(&index.to_ne_bytes(), value, MapFlags::ANY);
        update.map_err(Error::bpf("writing unwind tables"))
    }
}

fn pages_of(table: &CompactTable) -> u32 {
    table.words().len().div_ceil(PAGE_WORDS) as u32
}

fn chunks_of(pages: &Range<u32>) -> Range<u32> {
    pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES)
}
