//! Runs vitalfew's own commands for a tool, with limits of time and size, and ends them with the
//! call.

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum output, above that of any command with `--json` within its own limits.
const LONGEST_OUTPUT: u64 = 64 << 20;
/// Number of bytes kept of the end of standard error.
const LONGEST_TALK: usize = 2000;
/// Time after an interrupt for a measurement to give its result so far; then it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runner of vitalfew's own commands.
#[derive(Debug)]
pub struct OwnCommand {
    program: PathBuf,
    folder: PathBuf,
    longest: Duration,
}

/// Output of a command.
#[derive(Debug)]
pub struct Said {
    output: Vec<u8>,
    /// The end of standard error, without the program's name in front of its lines.
    pub talk: String,
}

impl Said {
    /// Parses the output as JSON.
    ///
    /// # Errors
    /// If it is not JSON: with the messages instead.
    pub fn json(&self) -> anyhow::Result<Value> {
        if self.output.trim_ascii().is_empty() {
            bail!("{}", self.talk);
        }
        serde_json::from_slice(&self.output).with_context(|| format!("no JSON came: {}", self.talk))
    }
}

impl OwnCommand {
    /// Makes a runner of this program in a directory. A command takes at most `longest`.
    ///
    /// # Errors
    /// If this program's file is unknown.
    pub fn new(folder: &Path, longest: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            program: std::env::current_exe().context("where is vitalfew itself?")?,
            folder: folder.to_owned(),
            longest,
        })
    }

    /// Returns the longest time that a measurement may take.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Runs a command that reads kept results, and returns its output.
    ///
    /// # Errors
    /// If it cannot be started, prints too much, or takes too long.
    pub async fn read(
        &self,
        arguments: Vec<OsString>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Said> {
        self.run(arguments, Stdio::piped(), self.longest, cancel)
            .await
    }

    /// Runs a command that measures for `time`; the measured program's output is dropped.
    ///
    /// # Errors
    /// If it cannot be started, or does not end within the longest time after that.
    pub async fn measure(
        &self,
        arguments: Vec<OsString>,
        time: Duration,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Said> {
        let limit = time + self.longest;
        self.run(arguments, Stdio::null(), limit, cancel).await
    }

    async fn run(
        &self,
        arguments: Vec<OsString>,
        output: Stdio,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Said> {
        let mut command = Command::new(&self.program);
        sampler::pass_inheritance_on(command.as_std_mut());
        let mut child = command
            .args(arguments)
            .current_dir(&self.folder)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start vitalfew")?;
        let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let end = |signal| group.map(|group| kill_process_group(group, signal));
        let outcome = tokio::select! {
            outcome = timeout(limit, collect(&mut child)) => outcome,
            () = cancel.cancelled() => {
                end(Signal::INT);
                let _ = timeout(PATIENCE, child.wait()).await;
                end(Signal::KILL);
                bail!("the call was cancelled");
            }
        };
        let Ok(outcome) = outcome else {
            end(Signal::INT);
            let _ = timeout(PATIENCE, child.wait()).await;
            end(Signal::KILL);
            bail!("it took longer than {} s and was ended", limit.as_secs());
        };
        outcome
    }
}

/// Collects the output and the last messages of a command, until it ends.
async fn collect(child: &mut Child) -> anyhow::Result<Said> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout
                .take(LONGEST_OUTPUT + 1)
                .read_to_end(&mut output)
                .await?;
        }
        if output.len() as u64 > LONGEST_OUTPUT {
            bail!("it said more than {} MiB", LONGEST_OUTPUT >> 20);
        }
        Ok(output)
    };
    let (output, talk) = tokio::join!(output, last_of(stderr));
    let output = output?;
    child.wait().await?;
    let talk = String::from_utf8_lossy(&talk).replace("vitalfew: ", "");
    Ok(Said {
        output,
        talk: talk.trim().to_owned(),
    })
}

/// Reads to the end, and keeps the last bytes.
async fn last_of(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part).await {
        kept.extend_from_slice(&part[..length]);
        let more = kept.len().saturating_sub(LONGEST_TALK);
        kept.drain(..more);
    }
    kept
}
