//! Loads the forest that the command line names.

use super::args::{Bottlenecks, GroupArg, Normalize};
use super::cache::Cache;
use crate::args::Source;
use crate::source;
use analysis::bottleneck::forest::{Forest, ForestError, Normalisation, ProfiledRun};
use analysis::bottleneck::transform::{self, Transform};
use anyhow::Context;
use formats::read::{self, GroupBy, ReadOptions, TreeProfile};
use profile::CallTree;
use results::{
    Refusal, RefusalReason, ResultKind, is_recording, resolve_all, tree_of_recording, usage_refusal,
};
use std::path::Path;
use store::Wanted;

/// Loads the profiles of the command line; also returns the readers' notes.
pub fn load_forest(args: &Bottlenecks) -> anyhow::Result<(Forest, Vec<String>)> {
    let options = read_options(args);
    let count = args.profiles.len().max(1) + args.against.len();
    if args.normalize == Normalize::Work && args.work.len() != count {
        return Err(usage_refusal(format!(
            "--normalize work needs one --work for each of the {count} profiles"
        )));
    }
    let mut notes = Vec::new();
    let mut work = args.work.iter().copied();
    let mut run = |path: Option<&Path>| -> anyhow::Result<ProfiledRun> {
        let profile = read_tree(path, args, &options)?;
        let name = path.map_or_else(|| "the last recording".into(), |p| p.display().to_string());
        notes.extend(profile.notes.iter().map(|note| format!("{name}: {note}")));
        let value = choose_value(&name, &profile, args.value.as_deref())?;
        let tree = transform_tree(profile.tree.with_only(value), args)?;
        Ok(ProfiledRun {
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
    let b = b.collect::<anyhow::Result<Vec<ProfiledRun>>>()?;
    let by = match args.normalize {
        Normalize::None => Normalisation::None,
        Normalize::Total => Normalisation::Total,
        Normalize::Work => Normalisation::Work,
    };
    let forest = Forest::new(a, b, by).map_err(|error| match error {
        ForestError::Empty(ref names, ref value) => Refusal {
            reason: RefusalReason::Inconclusive,
            message: match &args.change.focus {
                Some(regex) => {
                    format!(
                        "{names}: no {value} in calls of the functions that --focus '{regex}' names"
                    )
                }
                None => error.to_string(),
            },
        }
        .into(),
        error => anyhow::Error::from(error),
    })?;
    Ok((forest, notes))
}

fn read_options(args: &Bottlenecks) -> ReadOptions {
    let group = |group: &GroupArg| match group {
        GroupArg::Host => GroupBy::Host,
        GroupArg::Process => GroupBy::Process,
        GroupArg::Thread => GroupBy::Thread,
    };
    ReadOptions {
        group_by: args.by.iter().map(group).collect(),
        lines: args.lines,
        inline: !args.no_inline,
        debug_dirs: args.debug_dir.clone(),
        ..ReadOptions::default()
    }
}

fn read_tree(
    path: Option<&Path>,
    args: &Bottlenecks,
    options: &ReadOptions,
) -> anyhow::Result<TreeProfile> {
    if let Some(path) = path.filter(|path| !is_recording(path)) {
        ResultKind::Recording.expect_file(path)?;
        let cache = (!args.no_cache).then(Cache::of_user).flatten();
        let entry = cache.and_then(|cache| cache.entry(path, options));
        if let Some(profile) = entry.as_ref().and_then(|entry| entry.read()) {
            return Ok(profile);
        }
        let profile = read::read_profile(path, options)?;
        if let Some(entry) = entry {
            entry.write(&profile);
        }
        return Ok(profile);
    }
    let source = Source {
        path: path.map(Path::to_owned),
        debug_dir: args.debug_dir.clone(),
        ..Source::default()
    };
    let mut recording = source::open_source(&source, Wanted::ALL)?;
    profile::fold_interpreter_frames(&mut recording);
    let resolved = resolve_all(&recording, &source.recording_source());
    tree_of_recording(&recording, &resolved, options)
}

fn choose_value(name: &str, profile: &TreeProfile, wanted: Option<&str>) -> anyhow::Result<usize> {
    let Some(wanted) = wanted else {
        return Ok(profile.default_value);
    };
    let values = profile.tree.value_types();
    values
        .iter()
        .position(|value| value.name == wanted)
        .ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
            usage_refusal(format!(
                "{name} has no value '{wanted}'; it has: {}",
                names.join(", ")
            ))
        })
}

fn transform_tree(mut tree: CallTree, args: &Bottlenecks) -> anyhow::Result<CallTree> {
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
        tree = transform::apply_transform(&tree, &transform).context("changing the tree")?;
    }
    Ok(tree)
}
