//! The command line for more experiments.

use profile::CausalRun;
use sampler::ProcessStat;
use std::time::Duration;

/// Returns the command line that repeats the run for at least this time, or for the requested time;
/// `None` if the target is unknown. `line` restricts the run to one line.
pub fn run_again(
    run: &CausalRun,
    line: Option<&str>,
    at_least: Option<Duration>,
) -> Option<Vec<String>> {
    let asked = &run.asked;
    let mut words = ["vitalfew", "causal", "run"].map(str::to_owned).to_vec();
    if let Some(time) = asked.time_ns.map(Duration::from_nanos).max(at_least) {
        words.extend(["--for".to_owned(), typed_time(time)]);
    }
    let names_code =
        |word: &String| ["--fixed-line", "--sequence", "--lock"].contains(&word.as_str());
    if let Some(line) = line.filter(|_| !asked.options.iter().any(names_code)) {
        words.extend(["--fixed-line", line].map(str::to_owned));
    }
    words.extend(asked.options.iter().cloned());
    words.extend(program_words(run)?);
    Some(words)
}

/// Returns the words that name the target: its process while that runs, otherwise its command, if
/// that can be started.
fn program_words(run: &CausalRun) -> Option<Vec<String>> {
    let program = run.command.first()?;
    if let Some(pid) = run.asked.process {
        if runs_still(run, pid) {
            return Some(vec!["-p".to_owned(), pid.to_string()]);
        }
        // A server's process title may be no command.
        sampler::find_program(program).filter(|path| path.exists())?;
    }
    let command = run.command.iter().cloned();
    Some(std::iter::once("--".to_owned()).chain(command).collect())
}

/// Returns whether the measured process still runs on this machine; a later one may have the same
/// number.
fn runs_still(run: &CausalRun, pid: u32) -> bool {
    let process = ProcessStat::read_process(pid).filter(ProcessStat::is_alive);
    let is_it = |process: ProcessStat| process.started_unix_ns() <= run.start_unix_ns;
    sampler::read_host().name == run.host.name && process.is_some_and(is_it)
}

/// Returns a time as it is typed.
pub fn typed_time(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
