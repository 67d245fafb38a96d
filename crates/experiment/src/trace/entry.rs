//! Entry point of tracing, for a command or a running process.

use super::attached::trace_process;
use super::trace_session::{TraceLive, TraceOptions, Traced, trace_command};
use crate::{Error, attach};
use profile::{TraceBatch, TracedBlock};
use std::sync::atomic::AtomicBool;

/// Traces a command or a running process until it ends, `stop` is set or the time is over. A
/// process runs on afterwards. `sink` receives the threads' items as they are read, with all blocks
/// known so far. `talk` is called once while a command still waits for its start, and then several
/// times a second.
///
/// # Errors
/// If the target cannot be traced. A command is then ended before its `main`. A process runs on.
pub fn trace(
    options: &TraceOptions,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(&[TracedBlock], &TraceBatch),
    talk: &mut dyn FnMut(&TraceLive),
) -> Result<Traced, Error> {
    let Some(pid) = options.attach else {
        return trace_command(options, stop, sink, talk);
    };
    let options = TraceOptions {
        command: attach::command_of(pid),
        ..options.clone()
    };
    trace_process(&options, pid, stop, sink, talk)
}
