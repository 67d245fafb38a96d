//! Finds the images that walks ask for, and gives them to the thread that makes tables.

use super::counts::WalkCounts;
use super::disk::TableFiles;
use super::store::{ImageKey, TableStore};
use super::worker::{TableJob, Worker};
use crate::Error;
use crate::bpf::kernel::WalkMaps;
use crate::processes::images::{ImageTable, identity_of, open_regular, open_same};
use crate::processes::maps::ProcessMaps;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::FileIdentity;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use unwind::{CompactTable, ModuleData};

/// Looks after which an image that nobody can open has no table.
const LOOKS: u32 = 50;

/// The tables of a recording.
pub(crate) struct Unwinding {
    worker: Worker,
    numbers: MapHandle,
    counts: MapHandle,
    wanted: MapHandle,
    /// How many images had been asked for at the last look.
    seen: u32,
    /// Images that were given to the thread.
    given: FxHashSet<ImageKey>,
    /// Looks at images that could not be opened.
    looks: FxHashMap<ImageKey, u32>,
    jobs: u64,
    /// Where tables are kept, and what was used of it.
    files: Option<TableFiles>,
    used: Vec<PathBuf>,
    limit: u64,
}

impl Unwinding {
    /// Starts the thread. Tables take at most `limit` bytes in the kernel; `directory` keeps them.
    pub fn start(maps: WalkMaps, limit: usize, directory: Option<&Path>) -> Result<Self, Error> {
        let copy = |map: &MapHandle| {
            MapHandle::try_from(map).map_err(Error::bpf("sharing the collector's tables"))
        };
        let (numbers, counts) = (copy(&maps.numbers)?, copy(&maps.counts)?);
        let wanted = copy(&maps.wanted)?;
        // What walked before was our own measurement of what a sample costs.
        WalkCounts::clear(&counts);
        for key in numbers.keys() {
            let _ = numbers.delete(&key);
        }
        let mut store = TableStore::new(maps, limit)?;
        store.install_vdso(&vdso_table())?;
        let worker = Worker::start(store, directory.map(TableFiles::new)).map_err(|source| {
            Error::System {
                what: "starting the thread that makes unwind tables".into(),
                source,
            }
        })?;
        Ok(Self {
            worker,
            numbers,
            counts,
            wanted,
            seen: 0,
            given: FxHashSet::default(),
            looks: FxHashMap::default(),
            jobs: 0,
            files: directory.map(TableFiles::new),
            used: Vec::new(),
            limit: limit as u64,
        })
    }

    /// Makes tables of files before anybody asks, puts those in place that were used lately, and waits
    /// for that for a short while.
    pub fn prepare(&mut self, files: &[PathBuf], longest: Duration) {
        let begin = Instant::now();
        for path in files {
            self.prepare_file(path, u64::MAX);
        }
        let mut room = self.limit / 2;
        for path in self
            .files
            .as_ref()
            .map_or_else(Vec::new, TableFiles::recent)
        {
            room -= self.prepare_file(&path, room);
        }
        let done = || self.worker.progress.done.load(Ordering::Acquire);
        while done() < self.jobs && begin.elapsed() < longest {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has the table of a file made, or with a `limit` only put in place if it is on disk and no larger;
    /// how large it is there.
    fn prepare_file(&mut self, path: &Path, limit: u64) -> u64 {
        let Some((file, identity)) = open_regular(&path.to_string_lossy())
            .and_then(|file| identity_of(&file).map(|identity| (file, identity)))
        else {
            return 0;
        };
        let build_id = symbols::build_id_of_file(path).ok().flatten();
        let length = file.metadata().map_or(0, |data| data.len());
        let kept = self.files.as_ref().zip(build_id.as_ref());
        let size = kept.and_then(|(files, id)| files.size_of(id.as_bytes(), length));
        let key = key_of(identity);
        let wanted = limit == u64::MAX || size.is_some_and(|size| size <= limit);
        if !wanted || !self.given.insert(key) {
            return 0;
        }
        self.give(TableJob {
            key,
            name: path.to_string_lossy().into_owned(),
            file: Some(file),
            build_id,
        });
        size.unwrap_or(0).min(limit)
    }

    /// Remembers what was used, for the next time.
    pub fn finish(&mut self) {
        if let Some(files) = &self.files {
            files.remember(std::mem::take(&mut self.used));
        }
    }

    fn give(&mut self, job: TableJob) {
        self.jobs += 1;
        self.worker.give(job);
    }

    /// To be called some times a second: has tables made of images that walks have met since.
    pub fn look(&mut self, images: &mut ImageTable, maps: &ProcessMaps) {
        let wanted = self.wanted.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let wanted = wanted
            .ok()
            .flatten()
            .and_then(|bytes| bytes.try_into().ok());
        let wanted = wanted.map_or(0, u32::from_ne_bytes);
        let failed = self.worker.progress.failed.load(Ordering::Relaxed);
        if failed || (wanted == self.seen && self.looks.is_empty()) {
            return;
        }
        self.seen = wanted;
        let keys: Vec<Vec<u8>> = self.numbers.keys().collect();
        for bytes in keys {
            let value = self.numbers.lookup(&bytes, MapFlags::ANY).ok().flatten();
            if let Some(key) = ImageKey::from_bytes(&bytes)
                && let Some((0, tgid)) = value.and_then(|value| number_and_process(&value))
            {
                self.find(key, tgid, images, maps);
            }
        }
    }

    fn find(&mut self, key: ImageKey, tgid: u32, images: &mut ImageTable, maps: &ProcessMaps) {
        // One that was forgotten is asked for again; a job that is under way is not.
        let done = self.worker.progress.done.load(Ordering::Acquire) == self.jobs;
        if self.given.contains(&key) && !done {
            return;
        }
        let identity = identity_of_key(key);
        let image = images.file_without_path(identity);
        let held = images.held(image).and_then(|file| file.try_clone().ok());
        let file = held
            .or_else(|| open_same(&images.get(image).path, identity, Some(tgid)))
            .or_else(|| maps.open_mapped(image, identity));
        let looks = self.looks.entry(key).or_default();
        *looks += 1;
        if file.is_none() && *looks < LOOKS {
            return;
        }
        self.looks.remove(&key);
        self.given.insert(key);
        let known = images.get(image);
        if file.is_some() {
            self.used.push(PathBuf::from(&known.path));
        }
        self.give(TableJob {
            key,
            name: known.path.clone(),
            build_id: known.build_id.clone(),
            file,
        });
    }

    /// Returns how the walks went so far.
    pub fn counts(&self) -> WalkCounts {
        WalkCounts::read(&self.counts)
    }

    /// Returns what the reader should know: each a sentence.
    pub fn notes(&self) -> Vec<String> {
        let counts = self.counts();
        let mut notes: Vec<String> = counts.summary().into_iter().collect();
        notes.extend(counts.warnings());
        let progress = &self.worker.progress;
        let no_room = progress.no_room.load(Ordering::Relaxed);
        if no_room > 0 {
            notes.push(format!(
                "{no_room} images had no room for their unwind tables and went by frame pointers: raise --unwind-memory"
            ));
        }
        if let Ok(messages) = progress.messages.lock() {
            notes.extend(messages.iter().cloned());
        }
        notes
    }
}

fn vdso_table() -> CompactTable {
    let bytes = crate::processes::vdso::bytes();
    let module = bytes.and_then(|bytes| ModuleData::from_bytes("[vdso]", &bytes).ok());
    let table = module.and_then(|module| CompactTable::compile("[vdso]", &module).ok());
    table.unwrap_or_default()
}

fn number_and_process(value: &[u8]) -> Option<(u32, u32)> {
    let (number, rest) = value.split_first_chunk::<4>()?;
    let (tgid, _) = rest.split_first_chunk::<4>()?;
    Some((u32::from_ne_bytes(*number), u32::from_ne_bytes(*tgid)))
}

fn key_of(identity: FileIdentity) -> ImageKey {
    ImageKey {
        inode: identity.inode,
        device: identity.major << 20 | identity.minor,
        generation: identity.generation as u32,
    }
}

fn identity_of_key(key: ImageKey) -> FileIdentity {
    FileIdentity {
        major: key.device >> 20,
        minor: key.device & 0xf_ffff,
        inode: key.inode,
        generation: key.generation.into(),
    }
}
