//! Finds names of code that will be unreadable later in a child process: the symbol table of a
//! large deleted program would stay in the daemon's peak memory.

use crate::program::HostProgram;
use rustix::io::{FdFlags, fcntl_setfd};
use sampler::{Named, Names, Unreadable};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::Stdio;

/// An image of a request: its file is a descriptor that the child inherits.
#[derive(Serialize, Deserialize)]
struct NamesQuestion {
    descriptor: i32,
    kind: Names,
    offsets: Vec<profile::ImageOffset>,
}

/// Finds names as [`sampler::find_names`] does, in another process.
pub(crate) fn find_elsewhere(
    program: HostProgram,
    images: &[Unreadable],
) -> Vec<Option<Vec<Named>>> {
    let inherited = |flags| {
        let mut files = images.iter().map(|image| &image.file);
        files.try_for_each(|file| fcntl_setfd(file, flags))
    };
    let found = inherited(FdFlags::empty())
        .map_err(anyhow::Error::from)
        .and_then(|()| ask_for_names(program, images));
    let _ = inherited(FdFlags::CLOEXEC);
    found.unwrap_or_else(|error| {
        program.print_line(&format!(
            "programs that were deleted have no names for now: {error:#}"
        ));
        vec![None; images.len()]
    })
}

fn ask_for_names(
    program: HostProgram,
    images: &[Unreadable],
) -> anyhow::Result<Vec<Option<Vec<Named>>>> {
    let asked: Vec<NamesQuestion> = images
        .iter()
        .map(|image| NamesQuestion {
            descriptor: image.file.as_raw_fd(),
            kind: image.kind,
            offsets: image.offsets.clone(),
        })
        .collect();
    let asked = serde_json::to_vec(&asked)?;
    let mut child = (program.names_command)()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The child answers after it has read the whole request; if it dies before, the missing answer
    // shows that.
    let told = child.stdin.take().map(|mut stdin| stdin.write_all(&asked));
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "{}", output.status);
    told.transpose()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Answers a daemon: reads a request with images on standard input and writes their names to
/// standard output.
///
/// # Errors
/// If the request cannot be read or the answer cannot be written.
pub fn answer_names() -> anyhow::Result<()> {
    let mut asked = Vec::new();
    std::io::stdin().lock().read_to_end(&mut asked)?;
    if asked.is_empty() {
        return Ok(()); // the daemon was killed
    }
    let asked: Vec<NamesQuestion> = serde_json::from_slice(&asked)?;
    let images: Vec<Option<Unreadable>> = asked
        .into_iter()
        .map(|asked| {
            let path = format!("/proc/self/fd/{}", asked.descriptor);
            let file = std::fs::File::open(path).ok()?;
            Some(Unreadable {
                file,
                kind: asked.kind,
                offsets: asked.offsets,
            })
        })
        .collect();
    let found: Vec<Option<Vec<Named>>> = images
        .into_iter()
        .map(|image| sampler::find_names(&[image?]).pop().flatten())
        .collect();
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &found)?;
    out.flush()?;
    Ok(())
}
