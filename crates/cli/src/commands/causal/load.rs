//! Finding and reading causal profiles.

use super::args::CausalSource;
use profile::CausalProfile;
use results::{Refusal, RefusalReason, inconclusive_refusal};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum length of a profile of Coz.
const MAX_LEN: u64 = 256 << 20;

/// Reads the profiles and joins their runs; also returns their paths.
pub fn load_profiles(source: &CausalSource) -> anyhow::Result<(CausalProfile, Vec<PathBuf>)> {
    let files = match source.files.is_empty() {
        false => source.files.clone(),
        true => vec![latest_profile()?],
    };
    let mut profile = CausalProfile::default();
    for file in &files {
        profile.runs.extend(read_profile(file)?.runs);
    }
    Ok((profile, files))
}

fn latest_profile() -> anyhow::Result<PathBuf> {
    let database = store::default_database();
    store::latest_causal(&database)?.ok_or_else(|| {
        let message = format!(
            "{} has no causal profile: make one with vitalfew causal run -- COMMAND",
            database.display()
        );
        inconclusive_refusal(message)
    })
}

fn read_profile(path: &Path) -> anyhow::Result<CausalProfile> {
    let failed = |what: String| Refusal {
        reason: RefusalReason::Failure,
        message: format!("{}: {what}", path.display()),
    };
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
        return Err(failed("is neither a causal profile of ours nor one of Coz".to_owned()).into());
    }
    file.read_to_end(&mut start).map_err(cannot)?;
    if start.len() as u64 > MAX_LEN {
        return Err(failed("no causal profile is longer than 256 MiB".to_owned()).into());
    }
    Ok(formats::coz::read_coz(&start).map_err(|error| failed(error.to_string()))?)
}
