//! Content of the page, gathered from files of any kind.

use crate::hottest::hottest_code;
use crate::run::last_result_path;
use analysis::bottleneck::auto;
use analysis::bottleneck::forest::{Forest, Normalisation, ProfiledRun};
use analysis::bottleneck::transform::{self, Transform};
use analysis::statistics::interval_of_part;
use daemon::Request;
use formats::read::{self, GroupBy, ReadOptions, TreeProfile};
use profile::Recording;
use regex::Regex;
use results::causal::analyse_files;
use results::interference::result_of_file;
use results::page::{PAGE_SCHEMA, PageEpoch, PageLines, PageProfile, join_slices};
use results::{
    JsonClaims, OpenedRecording, RecordingSource, ResultKind, command_words, difference_of_files,
    epochs_json, error_chain, failure_refusal, inconclusive_refusal, is_recording, resolve_all,
    tree_of_recording, why_nothing_recorded,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use store::Wanted;

/// Maximum length of a `--json` result, in bytes.
const LONGEST_RESULT: u64 = 256 << 20;

/// Maximum number of profiles that are compared with each other, and of rows of a comparison.
const MOST_SETS: usize = 4;
const MOST_DIFFERENCES: usize = 300;

/// Maximum number of causal profiles for which all subsets are analysed.
const MOST_CHOSEN: usize = 4;

/// Content of the page, as `docs/page.md` describes it.
#[derive(Serialize)]
pub struct PageContent {
    schema: &'static str,
    made_by: &'static str,
    /// True if a server sends newer data when there are any.
    live: bool,
    profiles: Vec<PageProfile>,
    /// Results of commands with `--json`, each with its own `schema`.
    results: Vec<Value>,
    /// Files of a directory that are left out, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_read: Vec<String>,
}

/// Function that accepts a recording and tells the user which parts are missing.
pub type AcceptRecording = fn(OpenedRecording) -> Recording;

/// A file to show.
struct GivenFile {
    path: PathBuf,
    /// True if the user named the file. Such a file must be readable. A file found in a directory
    /// need not be.
    is_named: bool,
}

impl PageContent {
    /// Returns the document as JSON.
    ///
    /// # Errors
    /// If the document cannot be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// Removes the text of sources.
    pub fn leave_out_sources(&mut self) {
        self.profiles
            .iter_mut()
            .for_each(PageProfile::leave_out_sources);
    }

    /// Removes the calling contexts that have less than `share` of the cost. Returns the total
    /// number of removed contexts.
    pub fn leave_out(&mut self, share: f64) -> usize {
        let leave_out = |profile: &mut PageProfile| {
            profile.leave_out(share);
            profile.tree.left_out.map_or(0, |left_out| left_out.nodes)
        };
        self.profiles.iter_mut().map(leave_out).sum()
    }
}

/// Reads the files, or the latest file of each kind in the default database.
///
/// # Errors
/// If a named file cannot be read, or if there are no files.
pub fn gather_content(
    files: &[PathBuf],
    debug_dirs: &[PathBuf],
    live: bool,
    accept: AcceptRecording,
) -> anyhow::Result<PageContent> {
    let mut content = PageContent {
        schema: PAGE_SCHEMA,
        made_by: concat!("vitalfew ", env!("CARGO_PKG_VERSION")),
        live,
        profiles: Vec::new(),
        results: Vec::new(),
        not_read: Vec::new(),
    };
    let latest = if files.is_empty() {
        latest_files()?
    } else {
        Vec::new()
    };
    let given = given_files(files.iter().chain(&latest))?;
    if given.is_empty() && !live {
        return Err(inconclusive_refusal(format!(
            "there is no file in {}",
            files[0].display()
        )));
    }
    for file in &given {
        if let Err(error) = content.add_file(&file.path, debug_dirs, accept) {
            content.pass_over(file, error)?;
        }
    }
    content.add_causal(&given)?;
    if !files.is_empty() {
        let paths: Vec<PathBuf> = given.into_iter().map(|file| file.path).collect();
        content.add_differences(&paths, debug_dirs);
    }
    Ok(content)
}

/// Maximum number of files that are read from a directory. The newest are taken.
const MOST_FILES: usize = 16;

/// Number of epochs that the page lists at least, if they must be fetched from a bucket.
const MOST_EPOCHS: usize = 1000;

/// Replaces each directory that is no database by its files.
fn given_files<'a>(files: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<Vec<GivenFile>> {
    let mut given = Vec::new();
    for file in files {
        let is_plain = file.is_dir()
            && matches!(
                store::open_path(file),
                Err(store::StoreError::NotARecording { .. })
            );
        if !is_plain {
            given.push(GivenFile {
                path: file.clone(),
                is_named: true,
            });
            continue;
        }
        let mut inside = Vec::new();
        for entry in file.read_dir()? {
            let entry = entry?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let metadata = entry.path().metadata();
            if let Ok(metadata) = metadata
                && metadata.is_file()
                && !is_hidden
            {
                inside.push((metadata.modified().ok(), entry.path()));
            }
        }
        inside.sort();
        let newest = inside.into_iter().rev().take(MOST_FILES);
        given.extend(newest.map(|(_, path)| GivenFile {
            path,
            is_named: false,
        }));
    }
    Ok(given)
}

/// Returns the default database, if it has recordings, and the latest results in it.
///
/// # Errors
/// If the database has neither, or cannot be read.
pub fn latest_files() -> anyhow::Result<Vec<PathBuf>> {
    let database = store::default_database();
    let mut files = Vec::new();
    if let Ok(opened) = store::Database::open(&database)
        && opened.latest_epoch()?.0.is_some()
    {
        files.push(database.clone());
    }
    let results = store::written_database(&database);
    if results.exists() {
        files.extend(Some(last_result_path(&results)).filter(|path| path.exists()));
        files.extend(store::latest_causal(&results)?);
        files.extend(store::latest_interference(&results)?);
    }
    if files.is_empty() {
        return Err(why_nothing_recorded(&database));
    }
    Ok(files)
}

impl PageContent {
    /// Notes the reason why a file of a directory is left out. Fails for a file that the user
    /// named.
    fn pass_over(&mut self, file: &GivenFile, error: anyhow::Error) -> anyhow::Result<()> {
        if file.is_named {
            return Err(error);
        }
        let why = error_chain(&error);
        let name = file.path.display().to_string();
        self.not_read.push(if why.contains(&name) {
            why
        } else {
            format!("{name}: {why}")
        });
        Ok(())
    }

    fn add_file(
        &mut self,
        file: &Path,
        debug_dirs: &[PathBuf],
        accept: AcceptRecording,
    ) -> anyhow::Result<()> {
        let unreadable =
            |error| failure_refusal(format!("{}: cannot be read: {error}", file.display()));
        match ResultKind::of_file(file).map_err(unreadable)? {
            ResultKind::Recording => self.add_recording(file, debug_dirs, accept)?,
            ResultKind::Causal => {}
            ResultKind::Interference => self.results.push(result_of_file(file)?),
            ResultKind::Run | ResultKind::Check | ResultKind::OtherJson => {
                self.results.push(read_result(file)?)
            }
            ResultKind::Foreign => {
                let profile = read_foreign(file, debug_dirs)?;
                self.add_profile(file, &profile, |page| page)?;
            }
        }
        Ok(())
    }

    /// Adds the causal profiles. Profiles of the same command are analysed together, which narrows
    /// their bands. If there are few, every subset is analysed too, so that a reader can leave out
    /// runs. Only the result of all runs makes claims.
    fn add_causal(&mut self, files: &[GivenFile]) -> anyhow::Result<()> {
        let mut programs: Vec<(Value, Vec<PathBuf>)> = Vec::new();
        for given in files {
            let file = &given.path;
            if !matches!(ResultKind::of_file(file), Ok(ResultKind::Causal)) {
                continue;
            }
            let alone = match analyse_files(std::slice::from_ref(file)) {
                Ok(result) => result,
                Err(error) => {
                    self.pass_over(given, error)?;
                    continue;
                }
            };
            let command = alone["runs"][0]["command"].clone();
            match programs.iter_mut().find(|(known, _)| *known == command) {
                Some((_, files)) => files.push(file.clone()),
                None => programs.push((command, vec![file.clone()])),
            }
        }
        for (_, files) in programs {
            for chosen in choices_of(&files) {
                let mut result = analyse_files(&chosen)?;
                let names = chosen.iter().map(|file| file.display().to_string());
                result["files"] = names.collect::<Vec<String>>().into();
                if chosen.len() < files.len()
                    && let Some(fields) = result.as_object_mut()
                {
                    fields.remove("claims");
                }
                self.results.push(result);
            }
        }
        Ok(())
    }

    /// Compares each pair of the first profiles as `diff` does. Databases are left out: `diff`
    /// compares one epoch, and the page shows all.
    fn add_differences(&mut self, files: &[PathBuf], debug_dirs: &[PathBuf]) {
        let is_profile = |file: &&PathBuf| {
            let name = file.display().to_string();
            !file.is_dir()
                && is_recording(file)
                && self.profiles.iter().any(|profile| profile.name == name)
        };
        let sets: Vec<PathBuf> = files
            .iter()
            .filter(is_profile)
            .take(MOST_SETS)
            .cloned()
            .collect();
        for (at, before) in sets.iter().enumerate() {
            for after in &sets[at + 1..] {
                let pair = [before.clone(), after.clone()];
                let compared = difference_of_files(&pair, debug_dirs, MOST_DIFFERENCES);
                let mut result = compared.unwrap_or_else(
                    |error| json!({ "schema": "vitalfew.diff/1", "why_not": error_chain(&error) }),
                );
                result["sets"] = pair.map(|path| path.display().to_string()).to_vec().into();
                self.results.push(result);
            }
        }
    }

    /// Adds the epochs of a database, and the status of its daemon if one runs.
    fn add_machine(&mut self, directory: &Path) -> anyhow::Result<()> {
        // A directory can also be a single epoch.
        let Ok(database) = store::Database::open(directory) else {
            return Ok(());
        };
        let epochs = database.newest_epochs(MOST_EPOCHS)?;
        if !epochs.is_empty() {
            self.results
                .push(serde_json::to_value(epochs_json(&epochs))?);
        }
        if let Ok(status) = daemon::ask_daemon(directory, None, Request::Status) {
            self.results.push(serde_json::to_value(status)?);
        }
        Ok(())
    }

    fn add_recording(
        &mut self,
        file: &Path,
        debug_dirs: &[PathBuf],
        accept: AcceptRecording,
    ) -> anyhow::Result<()> {
        if file.is_dir() {
            self.add_machine(file)?;
        }
        let source = RecordingSource {
            path: Some(file.to_owned()),
            debug_dirs: debug_dirs.to_owned(),
            ..RecordingSource::default()
        };
        let mut epochs = Vec::new();
        let latest = match store::Database::open(file) {
            Ok(database) if file.is_dir() => results::open_latest_epochs(&database)?,
            _ => None,
        };
        let mut recording = match latest {
            Some((recording, all)) => {
                epochs = page_epochs(&all);
                recording
            }
            None => accept(results::open_recording(&source, Wanted::ALL)?),
        };
        profile::fold_interpreter_frames(&mut recording);
        join_slices(&mut recording);
        let resolved = resolve_all(&recording, &source);
        let mut options = read_options(debug_dirs);
        options
            .group_by
            .extend(recording.slice_ns.map(|_| GroupBy::Slice));
        let profile = tree_of_recording(&recording, &resolved, &options)?;
        let code = hottest_code(&recording, &source);
        let lines = PageLines::of_recording(&recording, &resolved.table, &code.procedures);
        self.add_profile(file, &profile, |page| {
            let page = page.with_recording(&recording, &resolved.table, lines, code);
            if epochs.is_empty() {
                page
            } else {
                page.with_epochs(epochs)
            }
        })
    }

    fn add_profile(
        &mut self,
        file: &Path,
        profile: &TreeProfile,
        more: impl FnOnce(PageProfile) -> PageProfile,
    ) -> anyhow::Result<()> {
        let name = file.display().to_string();
        self.results.push(search_profile(&name, profile)?);
        self.profiles.push(more(PageProfile::new(name, profile)));
        Ok(())
    }
}

/// Returns the time span of each epoch.
fn page_epochs(epochs: &[store::Epoch]) -> Vec<PageEpoch> {
    let summaries = epochs
        .iter()
        .filter_map(|epoch| epoch.summary.as_ref().ok());
    let page_epoch = |summary: &store::RecordingSummary| PageEpoch {
        start_unix_ns: summary.start_unix_ns,
        duration_ns: summary.duration_ns,
    };
    summaries.map(page_epoch).collect()
}

/// Returns the set of all files, followed by all other subsets if the files are few, else by each
/// single file.
fn choices_of(files: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    if files.len() > MOST_CHOSEN {
        let alone = files.iter().map(|file| vec![file.clone()]);
        return std::iter::once(files.to_vec()).chain(alone).collect();
    }
    let chosen = |mask: usize| {
        let numbered = files.iter().enumerate();
        let chosen = numbered.filter(|(at, _)| mask & (1 << at) != 0);
        chosen.map(|(_, file)| file.clone()).collect()
    };
    (1..1_usize << files.len()).rev().map(chosen).collect()
}

/// Maximum number of calling contexts of a foreign profile with times. A larger profile has no
/// timeline.
const MOST_TIMED_NODES: usize = 2_000_000;

/// Reads another tool's profile. Time slices are kept apart if it has times and does not become too
/// large.
fn read_foreign(file: &Path, debug_dirs: &[PathBuf]) -> anyhow::Result<TreeProfile> {
    let mut options = read_options(debug_dirs);
    options.group_by.push(GroupBy::Slice);
    let profile = read::read_profile(file, &options)?;
    if profile.time.is_none() || profile.tree.len() <= MOST_TIMED_NODES {
        return Ok(profile);
    }
    options.group_by.pop();
    let mut profile = read::read_profile(file, &options)?;
    let note =
        "times are left out: kept apart by time, it has too many calling contexts for a page";
    profile.notes.push(note.to_owned());
    Ok(profile)
}

/// Returns options under which stacks begin with their thread, so that the page can separate
/// threads.
fn read_options(debug_dirs: &[PathBuf]) -> ReadOptions {
    ReadOptions {
        group_by: vec![GroupBy::Thread],
        debug_dirs: debug_dirs.to_owned(),
        ..ReadOptions::default()
    }
}

/// Searches a profile as `bottlenecks --auto` does, with all threads merged.
fn search_profile(name: &str, profile: &TreeProfile) -> anyhow::Result<Value> {
    let threads = Regex::new(r"^\[(thread|slice)\]$")?;
    let tree = profile.tree.clone().with_only(profile.default_value);
    let value = tree.value_types()[0].clone();
    let run = ProfiledRun {
        name: name.to_owned(),
        tree: transform::apply_transform(&tree, &Transform::HideModules(threads))?,
        value: 0,
        work: None,
    };
    let mut next = command_words(&["bottlenecks"]);
    next.push(name.to_owned());
    let mut findings = match Forest::new(vec![run], Vec::new(), Normalisation::None) {
        Ok(forest) => {
            auto::search_causes(&forest, &auto::Options::default())?.as_findings(&forest, &next)
        }
        // A profile without any cost has no findings. The page says that it is empty.
        Err(_) => Vec::new(),
    };
    // A search of one profile gives no interval. Its counts are a sample, so the sampling error
    // applies.
    if value.unit == "samples" {
        let samples = tree.total(0) as f64;
        for finding in &mut findings {
            let amount = &mut finding.amount;
            let sampling = interval_of_part(amount.value, samples);
            amount.interval.get_or_insert(sampling);
        }
    }
    Ok(json!({
        "schema": "vitalfew.bottlenecks-claims/1",
        "profile": name,
        "value": { "name": value.name, "unit": value.unit },
        "claims": JsonClaims::of_findings(findings),
    }))
}

fn read_result(file: &Path) -> anyhow::Result<Value> {
    let failed = |what: String| failure_refusal(format!("{}: {what}", file.display()));
    let mut text = Vec::new();
    File::open(file)?
        .take(LONGEST_RESULT + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_RESULT {
        return Err(failed("no result is longer than 256 MiB".to_owned()));
    }
    serde_json::from_slice(&text).map_err(|error| failed(format!("is damaged: {error}")))
}
