//! Searches in files: labels by the names of their methods, so that they can be found again in another
//! profile of the same program.

use super::command::ChosenSuggester;
use crate::kept_file::KeptFile;
use analysis::bottleneck::forest::Forest;
use analysis::bottleneck::interface::{Profile, Step};
use analysis::bottleneck::search::Search;
use analysis::bottleneck::suggesters::Suggester;
use anyhow::Context;
use profile::Method;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use whole_file::WholeFile;

const SCHEMA: &str = "vitalfew.search/1";
/// The name under which a suggester that is not built in is saved.
const OWN: &str = "own";
const SEARCH_FILE: KeptFile = KeptFile {
    what: "a saved search",
    schema: SCHEMA,
    longest: 64 << 20,
};

#[derive(Serialize, Deserialize)]
struct Saved {
    schema: String,
    suggester: String,
    cutoff: f64,
    zoom: bool,
    labels: Vec<Labelled>,
}

#[derive(Serialize, Deserialize)]
struct Labelled {
    label: String,
    path: Vec<Method>,
}

/// Writes a search, whole or not at all.
pub fn save_search(
    path: &Path,
    search: &Search<'_, Forest>,
    chosen: ChosenSuggester,
) -> anyhow::Result<()> {
    let forest = search.profile();
    let labelled = |(label, summary): (&str, &_)| Labelled {
        label: label.to_owned(),
        path: forest
            .path_of(summary)
            .iter()
            .map(|step| forest.method(*step).clone())
            .collect(),
    };
    let suggester = match chosen {
        ChosenSuggester::BuiltIn(one) => one.name,
        ChosenSuggester::Own(_) => OWN,
    };
    let saved = Saved {
        schema: SCHEMA.to_owned(),
        suggester: suggester.to_owned(),
        cutoff: search.cutoff(),
        zoom: search.zooming,
        labels: search
            .labelled_summaries()
            .into_iter()
            .map(labelled)
            .collect(),
    };
    let write = || -> anyhow::Result<()> {
        let mut file = WholeFile::create_private(path)?;
        serde_json::to_writer_pretty(&mut file, &saved)?;
        file.write_all(b"\n")?;
        Ok(file.commit()?)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// Reads a search; returns the suggester if it is built in, and the labels whose call sequences are not in
/// this profile. A command of the user's own is not saved: a file from somebody else must not run any.
pub fn load_search(
    path: &Path,
    search: &mut Search<'_, Forest>,
) -> anyhow::Result<(Option<&'static Suggester>, Vec<String>)> {
    let saved: Saved = SEARCH_FILE.read(path, |saved: &Saved| &saved.schema)?;
    let suggester = Suggester::named(&saved.suggester);
    if suggester.is_none() && saved.suggester != OWN {
        let why = format!("no suggester is called {:?}", saved.suggester);
        return Err(SEARCH_FILE.refuse(path, &why));
    }
    let cutoff = search.set_cutoff(saved.cutoff);
    cutoff.with_context(|| path.display().to_string())?;
    search.zooming = saved.zoom;
    let forest = search.profile();
    let methods = forest.methods().iter().enumerate();
    let numbers: HashMap<&Method, u32> = methods.map(|(at, m)| (m, at as u32)).collect();
    let mut missing = Vec::new();
    for Labelled { label, path } in saved.labels {
        let steps = path
            .iter()
            .map(|method| numbers.get(method).copied().map(Step));
        let steps: Option<Vec<Step>> = steps.collect();
        match steps.and_then(|steps| forest.summary_of(&steps)) {
            Some(summary) => search.label_summary(&label, summary),
            None => missing.push(label),
        }
    }
    Ok((suggester, missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::bottleneck::forest::Run;
    use proptest::prelude::*;

    fn forest() -> Forest {
        let value = profile::ValueType {
            name: "cpu".into(),
            unit: "samples".into(),
        };
        let mut builder = profile::CallTreeBuilder::new(vec![value]);
        let mut node = profile::DraftNode::ROOT;
        for name in ["main", "parse", "read \"it\"", "parse"] {
            let method = builder.method(name, "lib").unwrap();
            node = builder.child(node, method).unwrap();
            builder.add(0, node, 1);
        }
        Forest::single(Run {
            name: "profile".into(),
            tree: builder.finish().unwrap(),
            value: 0,
            work: None,
        })
        .unwrap()
    }

    /// A search with two labels, saved.
    fn saved(forest: &Forest, path: &Path) -> Vec<u8> {
        let mut search = Search::new(forest);
        search.set_cutoff(0.5).unwrap();
        for (label, path) in [("one", &[1, 2][..]), ("two words", &[1])] {
            let steps: Vec<Step> = path.iter().map(|step| Step(*step)).collect();
            search.label_summary(label, forest.summary_of(&steps).unwrap());
        }
        let auto = Suggester::named("Auto").unwrap();
        save_search(path, &search, ChosenSuggester::BuiltIn(auto)).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_search_comes_back_and_no_part_of_it_does() {
        let (forest, directory) = (forest(), tempfile::tempdir().unwrap());
        let path = directory.path().join("search");
        let whole = saved(&forest, &path);
        let mut search = Search::new(&forest);
        let (suggester, missing) = load_search(&path, &mut search).unwrap();
        let name = suggester.map(|one| one.name);
        assert_eq!((name, missing.len()), (Some("Auto"), 0));
        assert_eq!(
            (search.cutoff(), search.labelled_summaries().len()),
            (0.5, 2)
        );
        // The last byte is the end of the line.
        for length in 0..whole.len() - 1 {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut search = Search::new(&forest);
            let error = load_search(&path, &mut search).unwrap_err().to_string();
            assert!(error.contains("search"), "{error}");
            assert!(search.labelled_summaries().is_empty());
        }
    }

    proptest! {
        #[test]
        fn changed_bytes_are_a_search_or_an_error(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let (forest, directory) = (forest(), tempfile::tempdir().unwrap());
            let path = directory.path().join("search");
            let mut bytes = saved(&forest, &path);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            std::fs::write(&path, bytes).unwrap();
            let mut search = Search::new(&forest);
            if load_search(&path, &mut search).is_ok() {
                prop_assert!(search.cutoff() > 0.0);
            }
        }
    }
}
