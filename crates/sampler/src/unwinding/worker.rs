//! The thread that makes tables.

use super::disk::TableFiles;
use super::store::{ImageKey, ImageRuntime, Installed, LabelledImage, TableStore};
use crate::Error;
use languages::go::GoProgram;
use languages::python::Interpreter;
use languages::ruby::RubyInterpreter;
use languages::{ElfImage, LanguageRuntime, NotSupported};
use profile::BuildId;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unwind::{CompactTable, ModuleData};

/// How long a round lasts: what was used is known by rounds.
const ROUND: Duration = Duration::from_secs(1);
/// How far the thread steps back behind others. At 19 a busy machine would leave it a sixtieth of a
/// processor, and a table would come when the program has ended.
const NICE: libc::c_int = 5;
/// The most messages that are kept.
const MOST_MESSAGES: usize = 8;

/// An image whose table is to be made.
pub(crate) struct TableJob {
    pub key: ImageKey,
    /// What stands for the image in stacks; 0: nothing does.
    pub label: u32,
    pub name: String,
    /// `None`: it cannot be read, and has none.
    pub file: Option<File>,
    pub build_id: Option<BuildId>,
}

/// What the thread has done so far.
#[derive(Default)]
pub(crate) struct Progress {
    pub done: AtomicU64,
    /// Tables for which there was no memory.
    pub no_room: AtomicU64,
    /// The kernel refused a table: no more are tried.
    pub failed: AtomicBool,
    /// Tables that could not be made: each a sentence.
    pub messages: Mutex<Vec<String>>,
}

/// The thread, and its work.
pub(crate) struct Worker {
    jobs: Option<Sender<TableJob>>,
    thread: Option<JoinHandle<()>>,
    pub progress: Arc<Progress>,
}

impl Worker {
    pub fn start(store: TableStore, files: Option<TableFiles>) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let progress = Arc::new(Progress::default());
        let mut bench = Workbench {
            store,
            files,
            progress: progress.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("unwind-tables".into())
            .spawn(move || bench.serve_jobs(&inbox))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            progress,
        })
    }

    pub fn queue_job(&self, job: TableJob) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended makes no tables: frame pointers serve.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
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
    fn serve_jobs(&mut self, inbox: &Receiver<TableJob>) {
        // SAFETY: system calls without pointers, about this thread only.
        unsafe {
            let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, thread, NICE);
        }
        let mut round = Instant::now();
        loop {
            match inbox.recv_timeout(ROUND) {
                Ok(job) => {
                    if let Err(error) = self.make_table(&job) {
                        self.add_note(format!("no unwind table for {}: {error}", job.name));
                        self.progress.failed.store(true, Ordering::Relaxed);
                    }
                    self.progress.done.fetch_add(1, Ordering::Release);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if round.elapsed() >= ROUND {
                round = Instant::now();
                let tidied = self
                    .store
                    .next_round()
                    .and_then(|()| self.store.forget_images());
                if let Err(error) = tidied {
                    self.add_note(format!("unwind tables: {error}"));
                }
            }
        }
    }

    fn make_table(&mut self, job: &TableJob) -> Result<(), Error> {
        let table = job
            .file
            .as_ref()
            .and_then(|file| self.table_of_file(job, file));
        let file = job.file.as_ref().filter(|_| table.is_some());
        let runtime = file.and_then(|file| self.find_runtime(job, file));
        let image = LabelledImage {
            key: job.key,
            label: job.label,
        };
        let table = table.unwrap_or_default();
        let installed = self.store.install_table(image, &table, runtime.as_ref())?;
        if installed == Installed::NoRoom {
            self.progress.no_room.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The runtime of another language that an image is.
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
                let program = recognise::<GoProgram>(name, &image)?;
                Some(program.map(ImageRuntime::Go))
            });
        found?.map_err(|note| self.add_note(note)).ok()
    }

    /// The table of a file, from disk if it is there.
    fn table_of_file(&self, job: &TableJob, file: &File) -> Option<CompactTable> {
        let size = file.metadata().map_or(0, |data| data.len());
        let cached = self.files.as_ref().zip(job.build_id.as_ref());
        if let Some((files, build_id)) = cached
            && let Some(table) = files.read_table(build_id.as_bytes(), size)
        {
            return Some(table);
        }
        // What is no ELF image has no table, as generated code in a file.
        let module = ModuleData::from_file(&job.name, file).ok()?;
        match CompactTable::compile(&job.name, &module) {
            Ok(table) => {
                if let Some((files, build_id)) = cached {
                    files.write_table(build_id.as_bytes(), size, &table);
                }
                Some(table)
            }
            Err(error) => {
                self.add_note(error.to_string());
                None
            }
        }
    }

    fn add_note(&self, message: String) {
        if let Ok(mut messages) = self.progress.messages.lock()
            && messages.len() < MOST_MESSAGES
        {
            messages.push(message);
        }
    }
}

/// Returns whether an image is this runtime: what says so, or else a sentence why it is not understood and what is lost.
fn recognise<'data, L: LanguageRuntime>(
    name: &str,
    image: &ElfImage<'data, &'data object::ReadCache<&'data File>>,
) -> Option<Result<L, String>> {
    match L::find_in_image(name, image) {
        Ok(runtime) => runtime.map(Ok),
        Err(NotSupported(reason)) => Some(Err(format!("{reason}: {}", L::LOST))),
    }
}
