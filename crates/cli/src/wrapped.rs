//! Parts shared by the commands that run another one: signals, and the exit code.

use crate::screen::tell_user;
use sampler::{Exit, Launched};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::signal_name;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Signals within this time are one request: `timeout` and process managers send theirs to the
/// process and to its group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// The signals that ask vitalfew to stop measuring.
pub struct Signals {
    /// True once a signal has arrived.
    pub stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    /// True once ending this process loses nothing.
    saved: Arc<AtomicBool>,
}

impl Signals {
    /// Catches signals: the first request stops and saves, the second warns of the loss by a third,
    /// and the third ends this process.
    pub fn catch_signals() -> std::io::Result<Self> {
        let signals = Self {
            stop: Arc::default(),
            asked: Arc::default(),
            saved: Arc::default(),
        };
        // Under `nohup` this process continues as the command does. SIGINT is caught even so:
        // shells ignore it for every command in the background, and scripts end a recording by
        // `kill -INT`.
        let ours = [SIGINT, SIGTERM, SIGHUP].into_iter();
        let ours: Vec<i32> = ours
            .filter(|signal| *signal != SIGHUP || !sampler::was_ignored(SIGHUP))
            .collect();
        // In the handler itself, so that an interrupted call sees it.
        for &signal in &ours {
            signal_hook::flag::register(signal, signals.stop.clone())?;
            let number = signal as usize;
            signal_hook::flag::register_usize(signal, signals.asked.clone(), number)?;
        }
        let caught = signal_hook::iterator::Signals::new(&ours)?;
        let saved = signals.saved.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || count_requests(caught, &saved))?;
        Ok(signals)
    }

    /// Passes the signal on to a running command that did not get it.
    pub fn pass_on(&self, running: Option<&Launched>) {
        let signal = self.asked.load(Ordering::Relaxed) as i32;
        // A terminal's Ctrl-C reaches the command by itself; a signal sent only to this process
        // does not.
        if let Some(running) = running
            && matches!(signal, SIGTERM | SIGHUP)
        {
            running.send_signal(signal);
        }
    }
}

/// Ends this process at a signal if nothing is lost by that, otherwise at the third request.
fn count_requests(mut caught: SignalsInfo, saved: &AtomicBool) {
    let (mut requests, mut last) = (0, None::<Instant>);
    for signal in caught.forever() {
        if last.is_some_and(|last| last.elapsed() < SAME_REQUEST) {
            continue;
        }
        last = Some(Instant::now());
        requests += 1;
        if saved.load(Ordering::Relaxed) {
            std::process::exit(128 + signal);
        }
        match requests {
            1 => {}
            2 => tell_user("saving what was measured; once more (Ctrl-C) gives it up"),
            _ => {
                tell_user("given up: what was measured is lost");
                std::process::exit(128 + signal);
            }
        }
    }
}

/// Waits for a command that was left running, after its measurement was saved.
pub fn wait_for_saved_command(
    running: Option<Launched>,
    signals: &Signals,
    quiet: bool,
) -> Option<Exit> {
    signals.saved.store(true, Ordering::Relaxed);
    if running.is_some() && !quiet {
        tell_user("saved; waiting for the command to end (Ctrl-C: leave it running)");
    }
    running.map(Launched::wait_for_end)
}

/// Reports that a signal ended the command, as a shell does.
pub fn tell_signal(exit: Option<Exit>, quiet: bool) {
    if let Some(Exit::Signal(signal)) = exit
        && !quiet
    {
        tell_user(&format!("{} ended the command", signal_words(signal)));
    }
}

/// Returns a signal by its number and, if it has one, its name.
pub fn signal_words(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

/// Returns the exit code of the command; without one, vitalfew's.
pub fn exit_code(exit: Option<Exit>) -> ExitCode {
    ExitCode::from(exit.map_or(128 + SIGINT, Exit::exit_code) as u8)
}

/// A line on a terminal with a measurement's progress.
pub struct Line(bool);

impl Line {
    pub fn new(quiet: bool) -> Self {
        Self(!quiet && std::io::stderr().is_terminal())
    }

    /// Returns whether the line is shown.
    pub fn is_shown(&self) -> bool {
        self.0
    }

    pub fn show(&self, text: &str) {
        if self.0 {
            eprint!("\r\x1b[Kvitalfew: {text}");
        }
    }

    pub fn clear(&self) {
        if self.0 {
            eprint!("\r\x1b[K");
        }
    }
}
