//! From the command line to the forest.

use super::args::{Bottlenecks, GroupArg, Normalize};
use super::cache::Cache;
use crate::args::Source;
use crate::exit::{Coded, INCONCLUSIVE};
use crate::source;
use analysis::bottleneck::forest::{Forest, ForestError, Normalisation, Run};
use analysis::bottleneck::transform::{self, Transform};
use anyhow::Context;
use formats::read::{self, Group, ReadOptions, TreeProfile};
use profile::{CallGraph, CallTree, EventId};
use results::{symbol_gaps, symbolize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use store::Wanted;
use symbols::Detail;

/// The profiles of the command line, and what their readers have to say.
pub fn load(args: &Bottlenecks) -> anyhow::Result<(Forest, Vec<String>)> {
    let options = read_options(args);
    let count = args.profiles.len().max(1) + args.against.len();
    if args.normalize == Normalize::Work && args.work.len() != count {
        return Err(usage(format!(
            "--normalize work needs one --work for each of the {count} profiles"
        )));
    }
    let mut notes = Vec::new();
    let mut work = args.work.iter().copied();
    let mut run = |path: Option<&Path>| -> anyhow::Result<Run> {
        let profile = read(path, args, &options)?;
        let name = path.map_or_else(|| "the last recording".into(), |p| p.display().to_string());
        notes.extend(profile.notes.iter().map(|note| format!("{name}: {note}")));
        let value = value(&name, &profile, args.value.as_deref())?;
        let tree = changed(profile.tree.with_only(value), args)?;
        Ok(Run {
            name,
            tree,
            value: 0,
            work: work.next(),
        })
    };
    let mut a = Vec::new();
    if args.profiles.is_empty() {
        a.push(run(None)?);
    }
    for path in &args.profiles {
        a.push(run(Some(path))?);
    }
    let b = args.against.iter().map(|path| run(Some(path)));
    let b = b.collect::<anyhow::Result<Vec<Run>>>()?;
    let by = match args.normalize {
        Normalize::None => Normalisation::None,
        Normalize::Total => Normalisation::Total,
        Normalize::Work => Normalisation::Work,
    };
    let forest = Forest::new(a, b, by).map_err(|error| match error {
        ForestError::Empty(ref names, ref value) => Coded {
            code: INCONCLUSIVE,
            message: match &args.change.focus {
                Some(regex) => {
                    format!("{names}: no {value} in calls of what --focus '{regex}' names")
                }
                None => error.to_string(),
            },
        }
        .into(),
        error => anyhow::Error::from(error),
    })?;
    Ok((forest, notes))
}

fn usage(message: String) -> anyhow::Error {
    Coded { code: 2, message }.into()
}

fn read_options(args: &Bottlenecks) -> ReadOptions {
    let group = |group: &GroupArg| match group {
        GroupArg::Host => Group::Host,
        GroupArg::Process => Group::Process,
        GroupArg::Thread => Group::Thread,
    };
    ReadOptions {
        group_by: args.by.iter().map(group).collect(),
        lines: args.lines,
        inline: !args.no_inline,
        debug_dirs: args.debug_dir.clone(),
        ..ReadOptions::default()
    }
}

fn read(
    path: Option<&Path>,
    args: &Bottlenecks,
    options: &ReadOptions,
) -> anyhow::Result<TreeProfile> {
    if let Some(path) = path.filter(|path| !is_recording(path)) {
        let cache = (!args.no_cache).then(Cache::of_user).flatten();
        let entry = cache.and_then(|cache| cache.entry(path, options));
        if let Some(profile) = entry.as_ref().and_then(|entry| entry.read()) {
            return Ok(profile);
        }
        let profile = read::read(path, options)?;
        if let Some(entry) = entry {
            entry.write(&profile);
        }
        return Ok(profile);
    }
    let source = Source {
        epoch: None,
        host: None,
        path: path.map(Path::to_owned),
        debug_dir: args.debug_dir.clone(),
    };
    let recording = source::open(&source, Wanted::ALL)?;
    let locations = recording.stacks.frames().iter().map(|frame| frame.location);
    let resolved = symbolize(
        &recording,
        locations,
        Detail::Lines,
        &source.recording_source(),
    );
    let mut profile = read::from_recording(&recording, &resolved.table, options)?;
    let gaps = symbol_gaps(&recording, Some(EventId(0)), &resolved, false);
    profile.notes.extend(gaps);
    if recording.call_graph == CallGraph::None {
        profile
            .notes
            .push("recorded without call stacks: record with -g".into());
    }
    Ok(profile)
}

/// Returns whether it is of ours: a directory, or a zip file. All else is told by its reader.
fn is_recording(path: &Path) -> bool {
    let mut magic = [0; 4];
    if path.is_dir() {
        return true;
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"PK\x03\x04"
}

fn value(name: &str, profile: &TreeProfile, wanted: Option<&str>) -> anyhow::Result<usize> {
    let Some(wanted) = wanted else {
        return Ok(profile.default_value);
    };
    let values = profile.tree.value_types();
    values
        .iter()
        .position(|value| value.name == wanted)
        .ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
            usage(format!(
                "{name} has no value '{wanted}'; it has: {}",
                names.join(", ")
            ))
        })
}

fn changed(mut tree: CallTree, args: &Bottlenecks) -> anyhow::Result<CallTree> {
    let change = &args.change;
    let focus = change.focus.iter().cloned().map(Transform::Focus);
    let hide = change.hide.iter().cloned().map(Transform::HideFunctions);
    let hide_library = change
        .hide_library
        .iter()
        .cloned()
        .map(Transform::HideModules);
    let merge = change.merge.iter().cloned();
    let merge = merge.map(|(regex, name)| Transform::MergeFunctions(regex, name));
    let merge_library = change
        .merge_library
        .iter()
        .cloned()
        .map(Transform::MergeModules);
    let collapse = change
        .collapse_recursion
        .then_some(Transform::CollapseRecursion);
    let all = focus.chain(hide).chain(hide_library).chain(merge);
    for transform in all.chain(merge_library).chain(collapse) {
        tree = transform::apply(&tree, &transform).context("changing the tree")?;
    }
    Ok(tree)
}
