//! Images that are kept with a recording, so that its code can be read after a rebuild or
//! elsewhere.

use anyhow::Context;
use profile::{BuildId, Image, ImageKind, Recording};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use symbols::{DebuginfodClient, SymbolOptions};
use whole_file::WholeFile;

/// Directory of the images within a database.
const IN_DATABASE: &str = "images";

/// Returns the directory of the images kept with a recording's file.
pub fn beside_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".images");
    name.into()
}

/// Returns the directory of the images kept in a database.
pub fn in_database(database: &Path) -> PathBuf {
    database.join(IN_DATABASE)
}

/// Returns the places to search for images and debug information of a recording's file, epoch or
/// database: the given directories, the images kept with it, and the usual places.
pub fn symbol_options(recording: &Path, debug_dirs: &[PathBuf]) -> SymbolOptions {
    let mut options = SymbolOptions::default();
    let kept = if recording.is_dir() {
        // From an epoch's directory, DB/epoch=…/host=…, the database is two levels up.
        let absolute = recording
            .canonicalize()
            .unwrap_or_else(|_| recording.to_owned());
        let ancestors = absolute.ancestors().take(3).map(in_database);
        ancestors.filter(|directory| directory.is_dir()).collect()
    } else {
        vec![beside_file(recording)]
    };
    let given = debug_dirs.iter().cloned();
    options.debug_dirs.splice(0..0, given.chain(kept));
    options.debuginfod = debuginfod_client();
    options
}

/// Returns the client of the servers that the environment names. The process has one client, so
/// that an unreachable server is tried once.
fn debuginfod_client() -> Option<Arc<DebuginfodClient>> {
    static CLIENT: OnceLock<Option<Arc<DebuginfodClient>>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| DebuginfodClient::of_environment().map(Arc::new));
    client.clone()
}

/// Copies the images that have samples into a directory, by build-id, as debuggers look for them.
/// Returns a warning for each image that could not be kept.
///
/// # Errors
/// If the directory cannot be written to.
pub fn keep_images(recording: &Recording, directory: &Path) -> anyhow::Result<Vec<String>> {
    let frames = recording.stacks.frames().iter();
    let sampled: BTreeSet<_> = frames.map(|frame| frame.location.image).collect();
    let mut warnings = Vec::new();
    for image in sampled.into_iter().map(|id| recording.image(id)) {
        if image.kind != ImageKind::File {
            continue;
        }
        let Some(id) = &image.build_id else {
            warnings.push(format!(
                "{} has no build-id to keep it by: link it with -Wl,--build-id",
                image.path
            ));
            continue;
        };
        if !keep_image(image, id, directory)
            .with_context(|| format!("keeping images in {}", directory.display()))?
        {
            warnings.push(format!(
                "{} was replaced since the recording: it could not be kept",
                image.path
            ));
        }
    }
    Ok(warnings)
}

/// Copies one image, whole or not at all; returns whether it is there now.
fn keep_image(image: &Image, id: &BuildId, directory: &Path) -> io::Result<bool> {
    let name = id.to_string();
    // At least one byte: two digits.
    let (head, tail) = name.split_at(2);
    let place = directory.join(".build-id").join(head).join(tail);
    let kept = place.join("elf");
    if kept.exists() {
        return Ok(true);
    }
    let same =
        |path: &Path| symbols::build_id_of_file(path).is_ok_and(|found| found.as_ref() == Some(id));
    let path = Path::new(&image.path);
    if image.gone || !same(path) {
        return Ok(false);
    }
    let Ok(mut file) = File::open(path) else {
        return Ok(false);
    };
    fs::create_dir_all(&place)?;
    let mut copy = WholeFile::create_private(&kept)?;
    io::copy(&mut file, copy.file_mut())?;
    // The image may have been replaced between the check and the copy.
    if !same(copy.unfinished_path()) {
        return Ok(false);
    }
    copy.commit()?;
    Ok(true)
}
