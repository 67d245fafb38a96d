//! Finds the images that walks request, and passes them to the thread that makes tables.

use super::counts::{clear_walks, read_walks};
use super::disk::TableFiles;
use super::hotspot::JvmStacks;
use super::store::{ImageKey, TableStore};
use super::worker::{TableJob, TableNote, UnfinishedTables, Worker};
use crate::Error;
use crate::bpf::frame_words::{FIRST_LABEL, MOST_LABELS};
use crate::bpf::kernel::WalkMaps;
use crate::bpf::labels::{ImageLabels, MOST_FILES};
use crate::processes::images::{ImageTable, identity_of, open_regular, open_same};
use crate::processes::jvm::NamedJvms;
use crate::processes::maps::ProcessMaps;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use profile::{FileIdentity, Image, StackWalks};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use unwind::{CompactTable, ModuleData};

/// Longest wait of a recording for the tables of its target's files. While they are missing, stacks
/// end early.
const LONGEST_OF_TARGET: Duration = Duration::from_secs(3);
/// Number of failed attempts to open an image after which it has no table.
const LOOKS: u32 = 50;

/// Maximum number of files remembered as used until they are stored.
const MOST_USED: usize = 256;

/// Settings of the making and keeping of tables.
pub(crate) struct TableSettings<'a> {
    /// Maximum size of tables in the kernel, in bytes.
    pub limit: usize,
    /// Directory in which they are kept.
    pub directory: Option<&'a Path>,
    /// Name of the recording's target, under which its files are remembered.
    pub target: String,
    /// True if the collector may outlive this process.
    pub lasting: bool,
}

/// The tables of a recording.
pub(crate) struct Unwinding {
    worker: Worker,
    numbers: MapHandle,
    counts: MapHandle,
    wanted: MapHandle,
    /// Number of requested images at the last look.
    seen: u32,
    /// Images passed to the thread, with their labels in stacks.
    given: FxHashMap<ImageKey, u32>,
    /// The file of each label from `FIRST_LABEL` on that was not taken yet.
    labelled: Vec<FileIdentity>,
    next_label: u32,
    /// Meanings of labels for a process that takes over, if the collector may outlive this one.
    labels: Option<ImageLabels>,
    /// Number of attempts to open each image that could not be opened.
    looks: FxHashMap<ImageKey, u32>,
    jobs: u64,
    /// Directory of tables, if there is one.
    files: Option<TableFiles>,
    used: Vec<PathBuf>,
    target: String,
    limit: u64,
    jvms: JvmStacks,
}

impl Unwinding {
    /// Prepares the service. JVMs whose methods have names are added to `named`.
    pub fn new(
        maps: WalkMaps,
        named: NamedJvms,
        settings: TableSettings<'_>,
    ) -> Result<Self, Error> {
        let TableSettings {
            limit, directory, ..
        } = settings;
        let copy = |map: &MapHandle| {
            MapHandle::try_from(map).map_err(Error::bpf("sharing the collector's tables"))
        };
        let (numbers, counts) = (copy(&maps.numbers)?, copy(&maps.counts)?);
        let wanted = copy(&maps.wanted)?;
        let jvms = JvmStacks::new(copy(&maps.hotspots)?, named);
        // Earlier walks belong to the measurement of a sample's cost.
        clear_walks(&counts);
        for key in numbers.keys() {
            let _ = numbers.delete(&key);
        }
        let mut store = TableStore::new(maps, limit)?;
        store.install_vdso(&vdso_table())?;
        Ok(Self {
            worker: Worker::new(store, directory.map(TableFiles::new)),
            labels: settings.lasting.then(ImageLabels::create).transpose()?,
            numbers,
            counts,
            wanted,
            seen: 0,
            given: FxHashMap::default(),
            labelled: Vec::new(),
            next_label: FIRST_LABEL,
            looks: FxHashMap::default(),
            jobs: 0,
            files: directory.map(TableFiles::new),
            used: Vec::new(),
            target: settings.target,
            limit: limit as u64,
            jvms,
        })
    }

    /// Starts the thread that makes tables.
    pub fn start_thread(&mut self) -> Result<(), Error> {
        let what = || "starting the thread that makes unwind tables".into();
        let started = self.worker.start_thread();
        started.map_err(|source| Error::System {
            what: what(),
            source,
        })
    }

    /// Makes tables of these files in this thread, before the other thread exists.
    pub fn make_tables_here(&mut self, files: &[PathBuf]) {
        for path in files {
            self.prepare_file(path, u64::MAX);
        }
        self.worker.work_off();
    }

    /// Ends the making of tables soon: stacks are no longer walked.
    pub fn end_walks(&self) {
        self.worker.end_walks();
    }

    /// Returns the unfinished tables, known after this value is dropped.
    pub fn unfinished_tables(&self) -> UnfinishedTables {
        self.worker.unfinished_tables()
    }

    /// Returns the CPU time of the thread, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.worker.progress.cpu_ns.load(Ordering::Relaxed)
    }

    /// Returns the meanings of labels, in a table that can be pinned.
    pub fn image_labels(&self) -> Option<&ImageLabels> {
        self.labels.as_ref()
    }

    /// Returns whether a permanent collector has nearly run out of labels.
    pub fn labels_run_out(&self) -> bool {
        self.labels.is_some() && self.next_label >= FIRST_LABEL + MOST_FILES - 1024
    }

    /// Makes tables of the target's files before they are requested, installs those that it used
    /// before, and waits briefly for that, longer for those of the target.
    pub fn prepare_tables(&mut self, files: &[PathBuf], longest: Duration) {
        let begin = Instant::now();
        // The smallest first: otherwise all others would wait for a large one.
        let mut files: Vec<&PathBuf> = files.iter().collect();
        files.sort_by_cached_key(|path| path.metadata().map_or(0, |data| data.len()));
        for path in files {
            self.prepare_file(path, u64::MAX);
        }
        let own = self.jobs;
        self.prepare_recent();
        let done = || self.worker.progress.done.load(Ordering::Acquire);
        let is_late = |jobs, longest| done() < jobs && begin.elapsed() < longest;
        while is_late(own, LONGEST_OF_TARGET) || is_late(self.jobs, longest) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Installs the tables that the target used before, if they are on disk.
    pub fn prepare_recent(&mut self) {
        let mut room = self.limit / 2;
        let recent = self.files.as_ref().map(TableFiles::recently_used);
        let recent = recent.unwrap_or_default();
        for path in recent.of_target(&self.target) {
            room -= self.prepare_file(path, room);
        }
    }

    /// Makes the table of a file, or with a `limit` only installs it if it is on disk and no
    /// larger; returns its size there.
    fn prepare_file(&mut self, path: &Path, limit: u64) -> u64 {
        let Some((file, identity)) =
            open_regular(path).and_then(|file| identity_of(&file).map(|identity| (file, identity)))
        else {
            return 0;
        };
        let build_id = symbols::build_id_of_file(path).ok().flatten();
        let length = file.metadata().map_or(0, |data| data.len());
        let kept = self.files.as_ref().zip(build_id.as_ref());
        let size = kept.and_then(|(files, id)| files.size_of(id.as_bytes(), length));
        let key = key_of(identity);
        let wanted = limit == u64::MAX || size.is_some_and(|size| size <= limit);
        if !wanted || self.given.contains_key(&key) {
            return 0;
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let label = self.image_label(key);
        self.queue_job(TableJob {
            key,
            label,
            name: path.to_string_lossy().into_owned(),
            file: Some(file),
            build_id,
        });
        size.unwrap_or(0).min(limit)
    }

    /// Stores the used files for the next recording.
    pub fn remember_used(&mut self) {
        if let Some(files) = &self.files {
            files.remember_used(&self.target, std::mem::take(&mut self.used));
        }
    }

    /// Returns the label of an image in stacks: always the same one, because kept stacks may
    /// contain it.
    fn image_label(&mut self, key: ImageKey) -> u32 {
        if let Some(label) = self.given.get(&key) {
            return *label;
        }
        let label = match self.next_label {
            MOST_LABELS.. => 0,
            label => label,
        };
        let file = identity_of_key(key);
        let known = |labels: &ImageLabels| labels.set_file(label, file);
        // A label that the next daemon would not know must not be used.
        if label == 0 || !self.labels.as_ref().is_none_or(known) {
            self.given.insert(key, 0);
            return 0;
        }
        self.next_label += 1;
        self.labelled.push(file);
        self.given.insert(key, label);
        label
    }

    /// Returns whether the names of a JVM's methods are read from its memory.
    pub fn names_methods(&self, pid: u32) -> bool {
        self.jvms.has_names(pid)
    }

    /// Returns the files of labels assigned since the last call, in the order of the labels.
    pub fn take_labelled(&mut self) -> Vec<FileIdentity> {
        std::mem::take(&mut self.labelled)
    }

    fn queue_job(&mut self, job: TableJob) {
        self.jobs += 1;
        self.worker.queue_job(job);
    }

    /// Orders tables of images that walks have met since the last call. Called several times a
    /// second.
    pub fn serve_wanted(&mut self, images: &mut ImageTable, maps: &ProcessMaps) {
        self.jvms.look(images, maps);
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
                self.find_file(key, tgid, images, maps);
            }
        }
    }

    fn find_file(&mut self, key: ImageKey, tgid: u32, images: &mut ImageTable, maps: &ProcessMaps) {
        // A dropped image is requested again; a job in progress is not.
        let done = self.worker.progress.done.load(Ordering::Acquire) == self.jobs;
        if self.given.contains_key(&key) && !done {
            self.worker.prefer_job(key);
            return;
        }
        let identity = identity_of_key(key);
        let image = images.file_without_path(identity);
        let held = images
            .held_file(image)
            .and_then(|file| file.try_clone().ok());
        let file = held
            .or_else(|| open_same(&images.get(image).path, identity, Some(tgid)))
            .or_else(|| maps.open_mapped(image, identity));
        let looks = self.looks.entry(key).or_default();
        *looks += 1;
        if file.is_none() && *looks < LOOKS {
            return;
        }
        self.looks.remove(&key);
        let label = self.image_label(key);
        let known = images.get(image);
        let path = Path::new(&known.path);
        if file.is_some() && self.used.len() < MOST_USED && !self.used.iter().any(|p| p == path) {
            self.used.push(path.to_owned());
        }
        self.queue_job(TableJob {
            key,
            label,
            name: known.path.clone(),
            build_id: known.build_id.clone(),
            file,
        });
        self.worker.prefer_job(key);
    }

    /// Returns the outcomes of walks so far.
    pub fn walk_counts(&self) -> StackWalks {
        read_walks(&self.counts)
    }

    /// Returns notes for the reader beside the counts of walks, one sentence each. Tables are also
    /// made of images that may never run: notes on images without samples are left out.
    pub fn notes(&self, sampled: &[Image]) -> BTreeSet<String> {
        let progress = &self.worker.progress;
        let notes = progress.notes.lock();
        notes.map_or_else(
            |_| BTreeSet::new(),
            |notes| messages_on_images(&notes, sampled),
        )
    }
}

/// Returns the messages on these images and on all, each once.
fn messages_on_images(notes: &[TableNote], images: &[Image]) -> BTreeSet<String> {
    let is_sampled = |key: ImageKey| {
        let mut files = images.iter().filter_map(|image| image.file);
        files.any(|file| {
            // A file known from /proc has no generation.
            let key = match file.generation {
                0 => ImageKey {
                    generation: 0,
                    ..key
                },
                _ => key,
            };
            key_of(file) == key
        })
    };
    let on_images = notes
        .iter()
        .filter(|note| note.image.is_none_or(is_sampled));
    on_images.map(|note| note.message.clone()).collect()
}

fn vdso_table() -> CompactTable {
    let bytes = crate::processes::vdso::own_vdso();
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

#[cfg(test)]
mod tests {
    use super::*;
    use profile::ImageKind;

    #[test]
    fn notes_on_images_are_for_those_with_samples() {
        let identity = |inode, generation| FileIdentity {
            major: 8,
            minor: 1,
            inode,
            generation,
        };
        let note = |image: Option<FileIdentity>, message: &str| TableNote {
            image: image.map(key_of),
            message: message.to_owned(),
        };
        let image = |file| Image {
            kind: ImageKind::File,
            path: "/usr/bin/ruby".to_owned(),
            build_id: None,
            file: Some(file),
            gone: false,
        };
        let notes = [
            note(None, "all"),
            note(Some(identity(1, 7)), "ran"),
            note(Some(identity(2, 7)), "did not run"),
            note(Some(identity(3, 7)), "same number as one that ran"),
            note(Some(identity(4, 7)), "mapped before the recording"),
            note(Some(identity(4, 7)), "all"),
        ];
        let sampled =
            [(1, 7), (3, 8), (4, 0)].map(|(inode, generation)| image(identity(inode, generation)));
        let said = Vec::from_iter(messages_on_images(&notes, &sampled));
        assert_eq!(said, ["all", "mapped before the recording", "ran"]);
    }
}
