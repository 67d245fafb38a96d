//! Entry point of tracing, for a command or a process that runs.

use super::attached::trace_process;
use super::trace_session::{TraceLive, TraceOptions, Traced, trace_command};
use crate::{Error, attach};
use profile::{TraceBatch, TracedBlock};
use std::sync::atomic::AtomicBool;

/// Traces a command, or a process that runs on afterwards, until it ends, `stop` is set or the time is over. `sink` gets what the threads
/// do, as it comes, with all blocks known so far; `talk` is called some times a second.
///
/// # Errors
/// What makes tracing impossible is an error. The command has not come to its `main` then, and is ended; a process runs on.
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
