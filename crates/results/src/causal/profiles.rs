//! Finding and reading causal profiles.

use crate::refusal::{failure_refusal, inconclusive_refusal};
use crate::result_kind::ResultKind;
use profile::CausalProfile;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum length of a profile of Coz.
const MAX_LEN: u64 = 256 << 20;

/// Reads causal profiles, ours or Coz's, and puts their runs together; without files, the last
/// profile in the database.
///
/// # Errors
/// If one cannot be read, or there is none.
pub fn load_profiles(files: &[PathBuf]) -> anyhow::Result<CausalProfile> {
    let latest = files.is_empty().then(latest_profile).transpose()?;
    let mut profile = CausalProfile::default();
    for file in files.iter().chain(&latest) {
        profile.runs.extend(read_profile(file)?.runs);
    }
    Ok(profile)
}

fn latest_profile() -> anyhow::Result<PathBuf> {
    let database = store::written_database(&store::default_database());
    store::latest_causal(&database)?.ok_or_else(|| {
        let message = format!(
            "{} has no causal profile: make one with vitalfew causal run -- COMMAND",
            database.display()
        );
        inconclusive_refusal(message)
    })
}

fn read_profile(path: &Path) -> anyhow::Result<CausalProfile> {
    ResultKind::Causal.expect_file(path)?;
    let failed = |what: String| failure_refusal(format!("{}: {what}", path.display()));
    let cannot = |error: std::io::Error| failed(format!("cannot be read: {error}"));
    let mut start = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    let mut file = file.take(MAX_LEN + 1);
    file.by_ref()
        .take(4096)
        .read_to_end(&mut start)
        .map_err(cannot)?;
    if store::is_causal(&start) || start.is_empty() {
        return Ok(store::read_causal(path)?);
    }
    if !formats::coz::is_coz(&start) {
        return Err(failed(
            "is neither a causal profile of ours nor one of Coz".to_owned(),
        ));
    }
    file.read_to_end(&mut start).map_err(cannot)?;
    if start.len() as u64 > MAX_LEN {
        return Err(failed(
            "no causal profile is longer than 256 MiB".to_owned(),
        ));
    }
    formats::coz::read_coz(&start).map_err(|error| failed(error.to_string()))
}
