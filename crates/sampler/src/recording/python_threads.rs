//! Names of the threads of Python programs, which the interpreter does not report to the kernel
//! before 3.14.

use crate::processes::images::ImageTable;
use crate::processes::maps::ProcessMaps;
use crate::processes::threads::process_file;
use languages::python::{Interpreter, ThreadNames};
use languages::{ElfImage, LanguageRuntime};
use object::ReadCache;
use profile::known_code::{KnownCode, PYTHON};
use profile::{Recording, name_thread};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Time between two searches for new processes, and between the first two looks at a process. Each
/// later pause is twice as long.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time between two looks at a process.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The maximum number of processes that are read in turn.
const MOST_PROCESSES: usize = 256;
/// The maximum number of names.
const MOST_NAMES: usize = 1 << 16;
/// Maximum number of lines read of a process's list of mappings.
const MOST_MAPPINGS: usize = 10_000;

/// A process with an interpreter.
struct PythonProcess {
    next: Instant,
    pause: Duration,
    /// `None`: there is no interpreter with readable names.
    interpreter: Option<LoadedInterpreter>,
}

struct LoadedInterpreter {
    interpreter: Interpreter,
    base: u64,
    /// Addresses of the dictionaries of its threads, once known.
    dictionaries: Vec<u64>,
}

/// The names read so far.
#[derive(Default)]
pub(crate) struct PythonThreads {
    looked: Option<Instant>,
    processes: FxHashMap<u32, PythonProcess>,
    /// Names by process and thread.
    names: FxHashMap<(u32, u32), String>,
}

impl PythonThreads {
    /// Reads the names of the threads of processes that are due. Called several times a second.
    pub fn look(
        &mut self,
        maps: &ProcessMaps,
        images: &ImageTable,
        is_target: impl Fn(u32) -> bool,
        all: bool,
    ) {
        let now = Instant::now();
        if !all && self.looked.is_some_and(|looked| now - looked < LOOK) {
            return;
        }
        self.looked = Some(now);
        let pythons = images.with_path(is_python);
        if pythons.is_empty() {
            return;
        }
        let mut running = maps.processes_with(&pythons);
        running.retain(|pid| is_target(*pid));
        self.processes.retain(|pid, _| running.contains(pid));
        for pid in running.into_iter().take(MOST_PROCESSES) {
            let process = self.processes.entry(pid).or_insert(PythonProcess {
                next: now,
                pause: LOOK,
                interpreter: None,
            });
            if !all && now < process.next {
                continue;
            }
            process.next = now + process.pause;
            process.pause = LONGEST_PAUSE.min(2 * process.pause);
            for (tid, name) in process.read_names(pid).unwrap_or_default() {
                if self.names.len() < MOST_NAMES {
                    self.names.insert((pid, tid), name);
                }
            }
        }
    }

    /// Adds the names to a recording.
    pub fn name_threads(&self, recording: &mut Recording) {
        for thread in &mut recording.threads {
            if let Some(name) = self.names.get(&(thread.pid, thread.tid)) {
                let named = name_thread(recording.names.get(thread.process), name);
                thread.process = recording.names.intern(&named);
            }
        }
    }
}

impl PythonProcess {
    fn read_names(&mut self, pid: u32) -> Option<Vec<(u32, String)>> {
        if self.interpreter.is_none() {
            self.interpreter = find_interpreter(pid);
        }
        let LoadedInterpreter {
            interpreter,
            base,
            dictionaries,
        } = self.interpreter.as_mut()?;
        let memory = File::open(process_file(pid, "mem")).ok()?;
        let read = |address: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, address).is_ok();
        let names = ThreadNames::of_interpreter(interpreter, &read)?;
        if dictionaries.is_empty() {
            *dictionaries = names.find_dictionaries(*base);
        }
        let found = dictionaries.iter().flat_map(|one| names.read_names(*one));
        let found: Vec<(u32, String)> = found.collect();
        let tasks = OwnNumbers::of_process(pid);
        let found = found.into_iter();
        Some(
            found
                .filter_map(|(number, name)| Some((tasks.to_outer(number)?, name)))
                .collect(),
        )
    }
}

/// Numbers of a process's threads in its own namespace.
struct OwnNumbers(FxHashMap<u32, u32>);

impl OwnNumbers {
    fn of_process(pid: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.into_iter().flatten().flatten();
        let numbers = tasks.filter_map(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?;
            let inner = line.split_whitespace().next_back()?.parse().ok()?;
            Some((inner, task.file_name().to_str()?.parse().ok()?))
        });
        Self(numbers.collect())
    }

    fn to_outer(&self, number: u32) -> Option<u32> {
        self.0.get(&number).copied()
    }
}

fn is_python(path: &str) -> bool {
    KnownCode::of_file(path).is_some_and(|code| code.name == PYTHON)
}

/// Finds the interpreter in a process, and its mapping.
fn find_interpreter(pid: u32) -> Option<LoadedInterpreter> {
    let maps = File::open(process_file(pid, "maps")).ok()?;
    let lines = BufReader::new(maps).lines().take(MOST_MAPPINGS);
    let mut code = lines
        .map_while(Result::ok)
        .filter(|line| line.contains(" r-xp ") && is_python(line.trim_end_matches(" (deleted)")));
    code.find_map(|line| {
        let mut words = line.split(' ');
        let range = words.next()?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        let base = start.wrapping_sub(number(words.nth(1)?)?);
        let file = File::open(process_file(pid, &format!("map_files/{start:x}-{end:x}"))).ok()?;
        let data = ReadCache::new(file);
        let image = ElfImage::parse(&data)?;
        let name = line.rsplit('/').next()?;
        let interpreter = Interpreter::find_in_image(name, &image).ok()??;
        Some(LoadedInterpreter {
            interpreter,
            base,
            dictionaries: Vec::new(),
        })
    })
}
