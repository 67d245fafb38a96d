use crate::{Error, ModuleData};
use profile::FileIdentity;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The unwind tables of files, each read once, in bounded memory.
///
/// A file with unreadable tables is remembered, too, and not read again.
#[derive(Debug)]
pub struct ModuleCache {
    entries: FxHashMap<FileIdentity, CachedModule>,
    limit: usize,
    size: usize,
    /// Number of lookups so far, as the clock of last uses.
    now: u64,
}

#[derive(Debug)]
struct CachedModule {
    module: Result<Arc<ModuleData>, Arc<Error>>,
    size: usize,
    used: u64,
}

impl CachedModule {
    /// Returns whether only the cache holds it.
    fn is_idle(&self) -> bool {
        self.module
            .as_ref()
            .map_or(true, |m| Arc::strong_count(m) == 1)
    }
}

impl ModuleCache {
    /// Makes a cache of at most `limit` bytes. The tables of a process have 2 to 20 MB.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: FxHashMap::default(),
            limit,
            size: 0,
            now: 0,
        }
    }

    /// Returns the tables of a file; `load` reads them on the first request (by
    /// [`ModuleData::open`] or [`ModuleData::from_file`]).
    ///
    /// # Errors
    /// The first error of `load`, or [`Error::CacheFull`] if too many tables are in use. Then use
    /// frame pointers ([`ModuleData::without_tables`]).
    pub fn get(
        &mut self,
        file: FileIdentity,
        load: impl FnOnce() -> Result<ModuleData, Error>,
    ) -> Result<Arc<ModuleData>, Arc<Error>> {
        self.now += 1;
        if let Some(entry) = self.entries.get_mut(&file) {
            entry.used = self.now;
            return entry.module.clone();
        }
        let mut module = load().map(Arc::new).map_err(Arc::new);
        let mut size = Self::size_of(&module);
        if !self.make_room(size) {
            module = Err(Arc::new(Error::CacheFull {
                name: format!("file {}:{} inode {}", file.major, file.minor, file.inode),
                size,
                limit: self.limit,
            }));
            size = Self::size_of(&module);
            if !self.make_room(size) {
                return module;
            }
        }
        self.size += size;
        let used = self.now;
        let kept = module.clone();
        self.entries.insert(
            file,
            CachedModule {
                module: kept,
                size,
                used,
            },
        );
        module
    }

    /// Returns the size of the tables, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of known files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no file is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn size_of(module: &Result<Arc<ModuleData>, Arc<Error>>) -> usize {
        let own = size_of::<(FileIdentity, CachedModule)>() + size_of::<Error>();
        own + module.as_ref().map_or(0, |m| m.size())
    }

    /// Drops unused tables, the longest unused first, until `size` bytes are free.
    fn make_room(&mut self, size: usize) -> bool {
        if self.size + size <= self.limit {
            return true;
        }
        let idle = self.entries.iter().filter(|(_, entry)| entry.is_idle());
        let mut idle: Vec<_> = idle.map(|(file, entry)| (entry.used, *file)).collect();
        idle.sort_unstable_by_key(|(used, _)| *used);
        for (_, file) in idle {
            if self.size + size <= self.limit {
                break;
            }
            self.size -= self.entries.remove(&file).map_or(0, |entry| entry.size);
        }
        self.size + size <= self.limit
    }
}
