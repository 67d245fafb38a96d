//! The thread that makes tables.

use super::disk::TableFiles;
use super::maker::{MadeTable, TableSource};
use super::store::{ImageKey, ImageRuntime, Installed, LabelledImage, TableStore};
use crate::Error;
use crate::clock::monotonic_ns;
use languages::go::GoProgram;
use languages::python::Interpreter;
use languages::ruby::RubyInterpreter;
use languages::v8::V8Engine;
use languages::{ElfImage, LanguageRuntime, NotSupported};
use profile::BuildId;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unwind::CompactTable;

/// Length of a round, the resolution of last uses of tables.
const ROUND: Duration = Duration::from_secs(1);
/// Niceness of the thread. At 19 a busy machine would leave it a sixtieth of a processor, and
/// tables would come after the program's end.
const NICE: libc::c_int = 5;
/// Maximum number of notes, and of files with unfinished tables.
const MOST_NOTES: usize = 256;
const MOST_UNFINISHED: usize = 64;
/// Note on the images for whose tables there was no memory.
const NO_ROOM: &str = "some images had no room for their unwind tables and went by frame pointers: raise --unwind-memory";
/// Time after the last sample in which tables are still made, for the next recording. Debug builds
/// are so slow that they would never make those of large images.
const LONGEST_AFTER_SAMPLES: Duration =
    Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// An image whose table is to be made.
pub(crate) struct TableJob {
    pub key: ImageKey,
    /// Label of the image in stacks; 0: none.
    pub label: u32,
    pub name: String,
    /// File of the image. `None` if it cannot be read: then it has no table.
    pub file: Option<File>,
    pub build_id: Option<BuildId>,
}

impl TableJob {
    fn source<'a>(&'a self, file: &'a File) -> TableSource<'a> {
        TableSource {
            name: &self.name,
            file,
            build_id: self.build_id.as_ref(),
        }
    }
}

/// Order to the thread.
enum TableOrder {
    Make(TableJob),
    /// A walk waits for the table of this image.
    Prefer(ImageKey),
}

/// The waiting jobs.
#[derive(Default)]
struct JobQueue {
    /// Jobs that walks wait for. The smallest file is next: otherwise a small program would wait
    /// for seconds for the tables of a large one.
    wanted: Vec<(u64, TableJob)>,
    others: VecDeque<TableJob>,
}

impl JobQueue {
    fn take_order(&mut self, order: TableOrder) {
        match order {
            TableOrder::Make(job) => self.others.push_back(job),
            TableOrder::Prefer(key) => {
                let position = self.others.iter().position(|job| job.key == key);
                if let Some(job) = position.and_then(|at| self.others.remove(at)) {
                    let size = job.file.as_ref().and_then(|file| file.metadata().ok());
                    self.wanted.push((size.map_or(0, |data| data.len()), job));
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.others.is_empty()
    }

    fn next_job(&mut self) -> Option<TableJob> {
        let sizes = self.wanted.iter().map(|(size, _)| *size).enumerate();
        match sizes.min_by_key(|(_, size)| *size) {
            Some((index, _)) => Some(self.wanted.remove(index).1),
            None => self.others.pop_front(),
        }
    }
}

/// Note for the reader on a missing table or runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableNote {
    /// The image concerned; `None`: all images.
    pub image: Option<ImageKey>,
    /// Sentence for the reader.
    pub message: String,
}

/// Progress of the thread.
#[derive(Default)]
pub(crate) struct Progress {
    pub done: AtomicU64,
    /// CPU time that the thread took, in nanoseconds.
    pub cpu_ns: AtomicU64,
    /// True if the kernel refused a table: no more are tried.
    pub failed: AtomicBool,
    /// Tables and runtimes that are missing.
    pub notes: Mutex<Vec<TableNote>>,
    /// Files whose tables would have been kept on disk, had there been time.
    unfinished: Mutex<Vec<PathBuf>>,
    /// End of the work, on the monotonic clock; 0 while stacks are walked.
    ends_ns: AtomicU64,
}

impl Progress {
    /// Ends the work after `time`, unless its end is set already.
    fn end_within(&self, time: Duration) {
        let end = monotonic_ns().saturating_add(time.as_nanos() as u64);
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.ends_ns.compare_exchange(0, end.max(1), set, get);
    }

    /// Returns whether walks have ended.
    fn is_ending(&self) -> bool {
        self.ends_ns.load(Ordering::Acquire) != 0
    }

    /// Returns whether there is time for more work.
    fn has_time(&self) -> bool {
        let end = self.ends_ns.load(Ordering::Acquire);
        end == 0 || monotonic_ns() < end
    }
}

/// The unfinished tables of a worker, known once it is gone.
pub(crate) struct UnfinishedTables(Arc<Progress>);

impl UnfinishedTables {
    /// Returns their files.
    pub fn into_files(self) -> Vec<PathBuf> {
        let files = self.0.unfinished.lock();
        files.map_or_else(|_| Vec::new(), |files| files.clone())
    }
}

/// The thread, and its work.
pub(crate) struct Worker {
    orders: Option<Sender<TableOrder>>,
    /// State that is passed to the thread when it starts.
    idle: Option<(Workbench, Receiver<TableOrder>)>,
    thread: Option<JoinHandle<()>>,
    pub progress: Arc<Progress>,
}

impl Worker {
    /// Creates a worker whose thread has not been started.
    pub fn new(store: TableStore, files: Option<TableFiles>) -> Self {
        let (orders, inbox) = channel();
        let progress = Arc::new(Progress::default());
        let bench = Workbench {
            store,
            files,
            progress: progress.clone(),
        };
        Self {
            orders: Some(orders),
            idle: Some((bench, inbox)),
            thread: None,
            progress,
        }
    }

    /// Starts the thread, with this thread's current privileges.
    pub fn start_thread(&mut self) -> std::io::Result<()> {
        if let Some((mut bench, inbox)) = self.idle.take() {
            let thread = std::thread::Builder::new().name("unwind-tables".into());
            self.thread = Some(thread.spawn(move || bench.serve_jobs(&inbox))?);
        }
        Ok(())
    }

    /// Performs the waiting jobs in this thread, if the other one does not exist yet.
    pub fn work_off(&mut self) {
        if let Some((bench, inbox)) = &mut self.idle {
            let mut queue = JobQueue::default();
            inbox.try_iter().for_each(|order| queue.take_order(order));
            while let Some(job) = queue.next_job() {
                bench.perform_job(&job);
            }
        }
    }

    pub fn queue_job(&self, job: TableJob) {
        self.send_order(TableOrder::Make(job));
    }

    /// Moves the job of an image to the front, if it waits: tables made ahead of requests can be
    /// many and large.
    pub fn prefer_job(&self, key: ImageKey) {
        self.send_order(TableOrder::Prefer(key));
    }

    /// Ends the work soon: stacks are no longer walked, and tables are only made to be kept on
    /// disk.
    pub fn end_walks(&self) {
        self.progress.end_within(LONGEST_AFTER_SAMPLES);
    }

    /// Returns the unfinished tables.
    pub fn unfinished_tables(&self) -> UnfinishedTables {
        UnfinishedTables(self.progress.clone())
    }

    fn send_order(&self, order: TableOrder) {
        if let Some(orders) = &self.orders {
            // Without the thread no tables are made: frame pointers serve.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.progress.end_within(Duration::ZERO);
        (self.orders, self.idle) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Workbench {
    store: TableStore,
    files: Option<TableFiles>,
    progress: Arc<Progress>,
}

impl Workbench {
    fn serve_jobs(&mut self, inbox: &Receiver<TableOrder>) {
        // SAFETY: system calls without pointers, about this thread only.
        unsafe {
            let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, thread, NICE);
        }
        let mut round = Instant::now();
        let mut queue = JobQueue::default();
        loop {
            let longest = if queue.is_empty() {
                ROUND
            } else {
                Duration::ZERO
            };
            match inbox.recv_timeout(longest) {
                // All orders are read before a job begins.
                Ok(order) => {
                    queue.take_order(order);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) if queue.is_empty() => return,
                Err(_) => {}
            }
            if !self.progress.has_time() {
                while let Some(job) = queue.next_job() {
                    self.note_unfinished(&job);
                }
                return;
            }
            if let Some(job) = queue.next_job() {
                self.perform_job(&job);
                let cpu_ns = &self.progress.cpu_ns;
                cpu_ns.store(crate::clock::thread_cpu_ns(), Ordering::Relaxed);
            }
            if round.elapsed() >= ROUND {
                round = Instant::now();
                let tidied = self
                    .store
                    .next_round()
                    .and_then(|()| self.store.forget_images());
                if let Err(error) = tidied {
                    self.add_note(None, format!("unwind tables: {error}"));
                }
            }
        }
    }

    fn perform_job(&mut self, job: &TableJob) {
        if let Err(error) = self.make_table(job) {
            let message = format!("no unwind table for {}: {error}", job.name);
            self.add_note(Some(job.key), message);
            self.progress.failed.store(true, Ordering::Relaxed);
        }
        self.progress.done.fetch_add(1, Ordering::Release);
    }

    fn make_table(&mut self, job: &TableJob) -> Result<(), Error> {
        let table = job
            .file
            .as_ref()
            .and_then(|file| self.table_of_file(job, file));
        if self.progress.is_ending() {
            return Ok(());
        }
        let file = job.file.as_ref().filter(|_| table.is_some());
        let runtime = file.and_then(|file| self.find_runtime(job, file));
        let image = LabelledImage {
            key: job.key,
            label: job.label,
        };
        let table = table.unwrap_or_default();
        let installed = self.store.install_table(image, &table, runtime.as_ref())?;
        if installed == Installed::NoRoom {
            self.add_note(Some(job.key), NO_ROOM.to_owned());
        }
        Ok(())
    }

    /// Recognises the runtime of another language in an image.
    fn find_runtime(&self, job: &TableJob, file: &File) -> Option<ImageRuntime> {
        let name = job.name.rsplit('/').next().unwrap_or_default();
        let data = object::ReadCache::new(file);
        let image = ElfImage::parse(&data)?;
        let found = recognise::<Interpreter>(name, &image)
            .map(|python| python.map(ImageRuntime::Python))
            .or_else(|| {
                let ruby = recognise::<RubyInterpreter>(name, &image)?;
                Some(ruby.map(ImageRuntime::Ruby))
            })
            .or_else(|| {
                let engine = recognise::<V8Engine>(name, &image)?;
                Some(engine.map(ImageRuntime::V8))
            })
            .or_else(|| {
                let program = recognise::<GoProgram>(name, &image)?;
                Some(program.map(ImageRuntime::Go))
            });
        let add_note = |reason| self.add_note(Some(job.key), format!("{} {reason}", job.name));
        found?.map_err(add_note).ok()
    }

    /// Returns the table of a file, from disk if it is there.
    fn table_of_file(&self, job: &TableJob, file: &File) -> Option<CompactTable> {
        let source = job.source(file);
        match source.find_or_make(self.files.as_ref(), &|| self.progress.has_time()) {
            Ok(MadeTable::Made(table)) => Some(table),
            Ok(MadeTable::Absent) => None,
            Ok(MadeTable::Unfinished) => {
                self.note_unfinished(job);
                None
            }
            Err(error) => {
                self.add_note(Some(job.key), error.to_string());
                None
            }
        }
    }

    /// Records an unfinished job, if its table could be on disk and is not.
    fn note_unfinished(&self, job: &TableJob) {
        let source = job.file.as_ref().map(|file| job.source(file));
        if source.is_some_and(|source| source.is_missing(self.files.as_ref()))
            && let Ok(mut unfinished) = self.progress.unfinished.lock()
            && unfinished.len() < MOST_UNFINISHED
        {
            unfinished.push(PathBuf::from(&job.name));
        }
    }

    fn add_note(&self, image: Option<ImageKey>, message: String) {
        let note = TableNote { image, message };
        if let Ok(mut notes) = self.progress.notes.lock()
            && notes.len() < MOST_NOTES
            && !notes.contains(&note)
        {
            notes.push(note);
        }
    }
}

/// Recognises the runtime in an image; `None` if it is not one. The error is a predicate of the
/// image that says why the runtime is not supported and what is lost.
fn recognise<'data, L: LanguageRuntime>(
    name: &str,
    image: &ElfImage<'data, &'data object::ReadCache<&'data File>>,
) -> Option<Result<L, String>> {
    match L::find_in_image(name, image) {
        Ok(runtime) => runtime.map(Ok),
        Err(NotSupported(reason)) => Some(Err(format!("{reason}: {}", L::LOST))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_walk_waits_for_is_done_next() {
        let key = |inode| ImageKey {
            inode,
            device: 1,
            generation: 0,
        };
        let mut queue = JobQueue::default();
        for inode in 1..=4 {
            queue.take_order(TableOrder::Make(TableJob {
                key: key(inode),
                label: 0,
                name: String::new(),
                file: None,
                build_id: None,
            }));
        }
        // The second time it is at the front already, and the ninth does not exist.
        for inode in [3, 3, 9] {
            queue.take_order(TableOrder::Prefer(key(inode)));
        }
        let jobs = std::iter::from_fn(|| queue.next_job());
        let order: Vec<u64> = jobs.map(|job| job.key.inode).collect();
        assert_eq!(order, [3, 1, 2, 4]);
    }

    #[test]
    fn work_ends_when_it_was_said_first() {
        let progress = Progress::default();
        assert!(progress.has_time() && !progress.is_ending());
        progress.end_within(Duration::from_secs(3600));
        progress.end_within(Duration::ZERO);
        assert!(progress.has_time() && progress.is_ending());
        let over = Progress::default();
        over.end_within(Duration::ZERO);
        assert!(!over.has_time() && over.is_ending());
    }

    #[test]
    fn of_what_walks_wait_for_the_smallest_file_is_next() {
        let mut queue = JobQueue::default();
        for (inode, size) in [(1, 900), (2, 30), (3, 60)] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(size).unwrap();
            let key = ImageKey {
                inode,
                device: 1,
                generation: 0,
            };
            queue.take_order(TableOrder::Make(TableJob {
                key,
                label: 0,
                name: String::new(),
                file: Some(file),
                build_id: None,
            }));
            if inode != 3 {
                queue.take_order(TableOrder::Prefer(key));
            }
        }
        let jobs = std::iter::from_fn(|| queue.next_job());
        let order: Vec<u64> = jobs.map(|job| job.key.inode).collect();
        assert_eq!(order, [2, 1, 3]);
    }
}
