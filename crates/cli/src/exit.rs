//! Exit codes, and the function that turns an error into a message with advice.

use crate::args::Command;
use crate::screen::tell_user;
use results::{Refusal, RefusalReason, error_chain};
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// A report that could not be made.
pub const FAILURE: u8 = 1;
/// The command line is invalid.
const USAGE: u8 = 2;
/// The machine refuses the measurement.
pub const REFUSED: u8 = 3;
/// There is too little data to answer.
pub const INCONCLUSIVE: u8 = 4;
/// The answer leaves out damaged data.
const INCOMPLETE: u8 = 5;
/// `diff --fail-over` found more than is allowed.
pub const WORSE: u8 = 6;
/// A wrapping command itself failed, as in env(1) and timeout(1).
const OWN_FAILURE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// True once data was left out.
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// Records that damaged data was left out of the command's answer.
pub fn note_left_out() {
    LEFT_OUT.store(true, Ordering::Relaxed);
}

/// Returns the exit code of a command that did not fail: its own, unless it succeeded on incomplete
/// data.
pub fn code_when_done(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && LEFT_OUT.load(Ordering::Relaxed) {
        ExitCode::from(INCOMPLETE)
    } else {
        code
    }
}

/// Prints why a command failed, and returns its exit code.
pub fn explain_failure(command: &Command, error: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let is_refusal = error.downcast_ref::<Refusal>().is_some();
    let mark = if is_refusal { "" } else { "error: " };
    tell_user(&format!("{mark}{}", error_chain(error)));
    ExitCode::from(exit_code(command, error))
}

/// Returns whether the error is a pipe closed by its reader: `vitalfew report | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref().map(io::Error::kind);
        io.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind())
    };
    let mut kinds = error.chain().filter_map(kind);
    kinds.any(|kind| kind == io::ErrorKind::BrokenPipe)
}

fn exit_code(command: &Command, error: &anyhow::Error) -> u8 {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return match refusal.reason {
            RefusalReason::Failure => FAILURE,
            RefusalReason::Usage => USAGE,
            RefusalReason::Inconclusive => INCONCLUSIVE,
        };
    }
    let wraps = match command {
        Command::Run(run) => !run.command.is_empty(),
        Command::Record(record) => !record.command.is_empty(),
        Command::Causal(causal) => causal.runs_command(),
        Command::Interference(interference) => interference.wraps(),
        Command::Top(_)
        | Command::Daemon(_)
        | Command::Report(_)
        | Command::Annotate(_)
        | Command::Epochs(_)
        | Command::Query(_)
        | Command::Stats(_)
        | Command::Diff(_)
        | Command::Check(_)
        | Command::Bottlenecks(_)
        | Command::Serve(_)
        | Command::Html(_)
        | Command::Mcp(_)
        | Command::Export(_)
        | Command::Doctor(_)
        | Command::Generate(_) => false,
    };
    use sampler::Error as E;
    let sampler = match error.downcast_ref::<experiment::Error>() {
        Some(experiment::Error::Sampler(error)) => Some(error),
        Some(experiment::Error::PointSyntax { .. }) => return USAGE,
        _ => error.downcast_ref::<E>(),
    };
    match sampler {
        Some(E::NoSuchProgram { .. } | E::NoInterpreter { .. }) => NOT_FOUND,
        Some(E::NotExecutable { .. }) => NOT_EXECUTABLE,
        _ if wraps => OWN_FAILURE,
        Some(E::UnknownEvent { .. } | E::EventSyntax { .. }) => 2,
        Some(
            E::EventRefused { .. }
            | E::Refused { .. }
            | E::ProcessRefused { .. }
            | E::RateTooHigh { .. },
        ) => REFUSED,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_however_it_was_written_to() {
        struct Closed;
        impl io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let json = serde_json::to_writer(Closed, &[1]).expect_err("closed");
        assert!(is_closed_pipe(&json.into()));
        let io = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&anyhow::Error::from(io).context("writing")));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!is_closed_pipe(&full.into()));
    }
}
