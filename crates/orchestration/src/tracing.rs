//! Tracing of the time that threads cost each other: selection of functions, and storage of traces.

use crate::trace_limits::{USUAL_LIMIT_MIB, USUAL_OVERHEAD, USUAL_ROOM_MIB};
use analysis::interference::Analyser;
use experiment::{FunctionPattern, TraceLive, TraceOptions, Traced};
use profile::known_code::known_functions;
use profile::{
    ImageKind, ImageOffset, Interference, Location, Recording, SharedLine, SharingCode, TraceBatch,
    TraceHead, TracedBlock, UNNAMED_PROCEDURE,
};
use results::phrases::format_bytes;
use sampler::{Launched, Progress, Rate, TargetSpec};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{StoredResult, TraceWriter};
use symbols::Detail;

/// Least part of the CPU time that makes a function worth tracing.
const SHARE: f64 = 0.01;

/// Samples a second of the data that threads use. Each one delays the threads whose times are
/// compared.
const HERTZ: u64 = 97;

/// Traces the functions that are hot in a recording of the same program. Stores the result for
/// `interference report`, and prints nothing. Returns the path of the result, the result, and the
/// command if it still runs. `attach` is a running process instead of the command.
///
/// # Errors
/// If the program cannot be traced, or the result cannot be stored.
pub(crate) fn trace_recorded(
    command: &[OsString],
    attach: Option<u32>,
    recording: &Recording,
    duration: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<(PathBuf, Interference, Option<Launched>)> {
    let runtime = experiment::find_runtime(None)?;
    let options = TraceOptions {
        functions: hot_functions(recording),
        duration: Some(duration),
        ..usual_trace(command.to_vec(), attach, runtime)
    };
    let keeper = TraceKeeper::create(None, Some(USUAL_LIMIT_MIB))?;
    let (path, result, traced) = trace_program(&options, keeper, stop, &mut |_| {})?;
    Ok((path, result, traced.running))
}

/// Traces a program, and samples meanwhile which data its functions share. Returns the path of the
/// result, the result, and the end of the run.
///
/// # Errors
/// If the program cannot be traced, or the result cannot be stored.
pub fn trace_program(
    options: &TraceOptions,
    mut keeper: TraceKeeper,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&TraceLive),
) -> anyhow::Result<(PathBuf, Interference, Traced)> {
    let mut sampler: Option<DataSampler> = None;
    let traced = experiment::trace(
        options,
        stop,
        &mut |blocks, batch| keeper.take(blocks, batch),
        &mut |live| {
            sampler.get_or_insert_with(|| DataSampler::start(live.process));
            show(live);
        },
    );
    let recording = sampler.and_then(DataSampler::finish);
    let mut traced = traced?;
    if let Some(recording) = recording {
        name_shared_lines(&recording, &mut traced.head);
    }
    let (path, result) = keeper.finish(&traced.head)?;
    Ok((path, result, traced))
}

/// Returns the default options of a trace, which selects only the known functions.
pub fn usual_trace(command: Vec<OsString>, attach: Option<u32>, runtime: PathBuf) -> TraceOptions {
    TraceOptions {
        command,
        attach,
        runtime,
        functions: Vec::new(),
        also: known_patterns(),
        room: USUAL_ROOM_MIB << 20,
        duration: None,
        budget: Some(USUAL_OVERHEAD / 100.0),
        every: 1,
    }
}

/// Returns patterns for the functions that are always traced: their kind of wait is known.
pub fn known_patterns() -> Vec<FunctionPattern> {
    let names = known_functions().flat_map(|(_, names)| *names);
    let exact = names.filter(|name| !name.contains('*'));
    exact.map(|name| FunctionPattern::parse(name)).collect()
}

/// A function: the path of its image, and its start.
type FunctionKey = (String, ImageOffset);

/// Returns the functions that take at least a hundredth of a recording's CPU time, the hottest
/// first.
pub fn hot_functions(recording: &Recording) -> Vec<FunctionPattern> {
    // Event 0 has the time samples. Waits are other events, in nanoseconds.
    let samples = recording.samples.iter();
    let leaves = samples.filter(|sample| sample.event.0 == 0).map(|sample| {
        let location = recording.stacks.frame(sample.stack).location;
        (location, sample.weight)
    });
    let locations = leaves.clone().map(|(location, _)| location);
    let names = FunctionNames::resolve_in(recording, locations);
    let mut all = 0;
    let mut sums: BTreeMap<FunctionKey, (u64, &str)> = BTreeMap::new();
    for (location, weight) in leaves {
        all += weight;
        if let Some((key, name)) = names.function_at(location) {
            sums.entry(key).or_insert((0, name)).0 += weight;
        }
    }
    let mut hot: Vec<_> = sums
        .into_iter()
        .filter(|(_, (sum, _))| *sum as f64 >= SHARE * all as f64)
        .collect();
    hot.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(*sum));
    hot.into_iter()
        .map(|((image, offset), (_, name))| FunctionPattern::at(&image, offset, name))
        .collect()
}

/// A sampler of the data that a running process uses. It needs the registers of x86-64.
struct DataSampler {
    stop: Arc<AtomicBool>,
    recorded: JoinHandle<Option<Recording>>,
}

impl DataSampler {
    /// Starts to sample. Returns when everything is prepared: that takes as much CPU time as a
    /// second of sampling.
    fn start(process: u32) -> Self {
        let (prepared, is_prepared) = std::sync::mpsc::sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let mut options = sampler::Options::new(TargetSpec::Process(process));
        options.registers = true;
        options.rate = Rate::Frequency(HERTZ);
        let is_over = Arc::clone(&stop);
        // Where it cannot sample, the cause of a loss stays unknown.
        let record = move || {
            let mut observe = |progress| {
                if let Progress::Samples(_) = progress {
                    _ = prepared.try_send(());
                }
            };
            Some(
                sampler::record(&options, &is_over, &mut observe)
                    .ok()?
                    .recording,
            )
        };
        let recorded = std::thread::spawn(record);
        // The sender is dropped on failure.
        _ = is_prepared.recv();
        Self { stop, recorded }
    }

    fn finish(self) -> Option<Recording> {
        self.stop.store(true, Relaxed);
        self.recorded.join().ok()?
    }
}

/// Tells the functions of a trace which cache lines they share by a recording's samples.
fn name_shared_lines(recording: &Recording, head: &mut TraceHead) {
    let lines = shared_lines(recording);
    for block in &mut head.blocks {
        let key = (block.image.clone(), block.offset);
        block.shared_line = lines.get(&key).cloned();
    }
}

/// Returns for each function the line that it shares most.
fn shared_lines(recording: &Recording) -> BTreeMap<FunctionKey, SharedLine> {
    let places = recording.sharing.iter().map(|code| code.place);
    let names = FunctionNames::resolve_in(recording, places);
    let mut places: BTreeMap<FunctionKey, Vec<&SharingCode>> = BTreeMap::new();
    for code in &recording.sharing {
        if let Some((key, _)) = names.function_at(code.place) {
            places.entry(key).or_default().push(code);
        }
    }
    let line_of = |(key, codes): (FunctionKey, Vec<&SharingCode>)| {
        let sum = |of: fn(&SharingCode) -> u64| codes.iter().map(|code| of(code)).sum();
        let most = codes.iter().rev().max_by_key(|code| code.shared)?;
        let variable = most.variable.and_then(|(image, at)| {
            let image = recording.images.get(image.0 as usize)?;
            symbols::name_variable(Path::new(&image.path), at)
        });
        let line = SharedLine {
            variable,
            threads: most.threads,
            is_false: most.is_false,
            samples: sum(|code| code.samples),
            shared: sum(|code| code.shared),
        };
        (line.shared > 0).then_some((key, line))
    };
    places.into_iter().filter_map(line_of).collect()
}

/// The functions at places of a recording.
struct FunctionNames<'a> {
    recording: &'a Recording,
    resolved: symbols::Resolved,
}

impl<'a> FunctionNames<'a> {
    fn resolve_in(recording: &'a Recording, places: impl Iterator<Item = Location>) -> Self {
        let options = symbols::SymbolOptions::default();
        Self {
            recording,
            resolved: symbols::resolve(recording, places, Detail::Procedures, &options),
        }
    }

    /// Returns the function at a place, and its name. A stub of the procedure linkage table is no
    /// function of the image. Its target has samples of its own. An unnamed place in a stripped
    /// image may be a part of a function that is reached by a jump.
    fn function_at(&self, place: Location) -> Option<(FunctionKey, &str)> {
        let image = self.recording.images.get(place.image.0 as usize)?;
        let procedure = self.resolved.table.get(place)?.procedure.as_ref()?;
        let name: &str = &procedure.name;
        let is_function = image.kind == ImageKind::File
            && !name.ends_with("@plt")
            && !name.starts_with(UNNAMED_PROCEDURE);
        is_function.then(|| ((image.path.to_string(), procedure.start), name))
    }
}

/// Keeper of a trace: analyses the items as they arrive, and stores them.
pub struct TraceKeeper {
    analyser: Analyser,
    writer: Option<TraceWriter>,
    result: PathBuf,
    limit: u64,
    /// Reason why the trace is not stored.
    failed: Option<String>,
    blocks: usize,
}

impl TraceKeeper {
    /// Creates a trace in a file, or in a new file of the default database. Only the result is
    /// stored of a trace larger than `limit_mib`. Without a limit, only the result of any trace is
    /// stored.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(file: Option<PathBuf>, limit_mib: Option<u64>) -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as u64);
        let database = store::written_database(&store::default_database());
        let path = |kept| match &file {
            Some(path) => path.clone(),
            None => store::interference_path(&database, now, kept),
        };
        let trace = limit_mib.map(|_| TraceWriter::create_file(&path(StoredResult::Trace)));
        Ok(Self {
            analyser: Analyser::new(&[], cfg!(target_arch = "aarch64")),
            writer: trace.transpose()?,
            result: path(StoredResult::Result),
            limit: limit_mib.unwrap_or(0).saturating_mul(1 << 20),
            failed: None,
            blocks: 0,
        })
    }

    /// Analyses and stores a batch.
    pub fn take(&mut self, blocks: &[TracedBlock], batch: &TraceBatch) {
        if blocks.len() != self.blocks {
            self.blocks = blocks.len();
            self.analyser.set_blocks(blocks);
        }
        self.analyser.push(batch);
        if let Some(writer) = &mut self.writer {
            if let Err(error) = writer.write_batch(batch) {
                self.failed = Some(format!("the trace could not be kept: {error}"));
                self.writer = None;
            } else if writer.bytes_written() > self.limit {
                self.failed = Some(format!(
                    "the trace grew beyond {} and was not kept (--trace-limit allows more)",
                    format_bytes(self.limit)
                ));
                self.writer = None;
            }
        }
    }

    /// Stores the trace, or only the result. Returns the path and the result.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self, head: &TraceHead) -> anyhow::Result<(PathBuf, Interference)> {
        let mut head = head.clone();
        head.warnings.extend(self.failed);
        let result = self.analyser.finish(&head);
        let written = match self.writer {
            Some(writer) => writer.finish_trace(&head)?,
            None => store::write_interference(&result, &self.result)?,
        };
        Ok((written.path, result))
    }
}
