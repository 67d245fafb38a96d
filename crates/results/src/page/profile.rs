//! A call tree as columns, with facts about its recording.

use super::code::PageCode;
use super::lines::PageLines;
use super::timeline::{PageEpoch, PageTimeline, PageWakes};
use super::tree::{PageTree, prune_tree};
use ::profile::{CallTree, Recording, SymbolTable, Target};
use formats::read::TreeProfile;
use rustc_hash::FxHashSet;
use serde::Serialize;

/// Name and version of the form.
pub const PAGE_SCHEMA: &str = "vitalfew.page/1";

/// A profile.
#[derive(Clone, Debug, Serialize)]
pub struct PageProfile {
    /// Its name, usually the file's.
    pub name: String,
    /// The format of its file.
    pub format: String,
    /// Notes for the reader: each a sentence.
    pub notes: Vec<String>,
    /// Facts about our own recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<PageFacts>,
    /// The measured values.
    pub values: Vec<PageValue>,
    /// Position of the value to show first.
    pub default_value: usize,
    /// The methods of the nodes.
    pub methods: PageMethods,
    /// The calling contexts.
    pub tree: PageTree,
    /// Source lines, if the profile has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<PageLines>,
    /// The code of the hottest procedures, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<PageCode>,
    /// Times of the samples, if the recording has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<PageTimeline>,
    /// Waits by the thread that ended them, if the recording has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakes: Option<PageWakes>,
}

/// Facts about a recording.
#[derive(Clone, Debug, Serialize)]
pub struct PageFacts {
    /// The command with its arguments; absent if a process or the machine was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Name of the machine.
    pub host: String,
    /// Model of its processor, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Its processors.
    pub cpus: u32,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
    /// The collector, as in `report --json`.
    pub collector: ::profile::Collector,
    /// The kind of call stacks, as in `report --json`.
    pub call_graph: ::profile::CallGraph,
    /// The scheduler's accounts of the target's threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_times: Option<::profile::TaskTimes>,
}

/// A measured quantity.
#[derive(Clone, Debug, Serialize)]
pub struct PageValue {
    /// Its name, such as `cpu-clock`.
    pub name: String,
    /// Its unit: `samples`, `nanoseconds`, `bytes` or another.
    pub unit: String,
    /// Samples in a second of a busy CPU, if it has a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
}

/// Methods by number.
#[derive(Clone, Debug, Serialize)]
pub struct PageMethods {
    /// Names.
    pub name: Vec<String>,
    /// Position in `modules` of each method's module.
    pub module: Vec<u32>,
    /// Names of modules.
    pub modules: Vec<String>,
    /// Methods that occur only inlined into callers, if known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<u32>,
}

impl PageProfile {
    /// Makes the data of a tree. For our own recordings, `lines` and facts are known, too.
    pub fn new(name: String, profile: &TreeProfile) -> Self {
        let tree = &profile.tree;
        Self {
            name,
            format: profile.format.to_owned(),
            notes: profile.notes.clone(),
            facts: None,
            values: (tree.value_types().iter())
                .map(|value| PageValue {
                    name: value.name.clone(),
                    unit: value.unit.clone(),
                    per_second: None,
                })
                .collect(),
            default_value: profile.default_value,
            methods: page_methods(tree),
            tree: tree_columns(tree),
            lines: None,
            code: None,
            timeline: profile.time.map(PageTimeline::of_axis),
            wakes: None,
        }
    }

    /// Adds the facts about the recording.
    pub fn with_recording(
        mut self,
        recording: &Recording,
        table: &SymbolTable,
        lines: PageLines,
        code: PageCode,
    ) -> Self {
        self.facts = Some(PageFacts {
            command: match &recording.target {
                Target::Command(words) => Some(words.clone()),
                _ => None,
            },
            host: recording.host.name.clone(),
            cpu_model: recording.host.cpu_model.clone(),
            cpus: recording.host.cpus,
            start_unix_ns: recording.start_unix_ns,
            duration_ns: recording.duration_ns,
            collector: recording.collector,
            call_graph: recording.call_graph,
            task_times: recording.task_times,
        });
        self.lines = Some(lines);
        self.code = Some(code);
        self.timeline = PageTimeline::of_recording(recording);
        self.wakes = PageWakes::of_recording(recording);
        self.methods.find_inlined(recording, table);
        for (value, event) in self.values.iter_mut().zip(&recording.events) {
            value.per_second = event.frequency;
        }
        self
    }

    /// Sets the epochs of the slices of time.
    #[must_use]
    pub fn with_epochs(mut self, epochs: Vec<PageEpoch>) -> Self {
        self.notes.push(format!(
            "the last {} epochs of the database together; commands take the last one, or those of --epoch",
            epochs.len()
        ));
        self.timeline = self.timeline.map(|timeline| timeline.with_epochs(epochs));
        self
    }

    /// Leaves out subtrees with less than `share` of each value; their cost goes to their callers.
    pub fn leave_out(&mut self, share: f64) {
        prune_tree(&mut self.tree, share);
    }

    /// Leaves out the text of source files, and code.
    pub fn leave_out_sources(&mut self) {
        self.code = None;
        if let Some(lines) = &mut self.lines {
            lines.sources.clear();
        }
    }
}

impl PageMethods {
    /// Finds the methods that are inlined at all of their occurrences.
    fn find_inlined(&mut self, recording: &Recording, table: &SymbolTable) {
        let (mut inlined, mut called) = (FxHashSet::default(), FxHashSet::default());
        for frame in recording.stacks.frames() {
            let Some(resolution) = table.get(frame.location) else {
                continue;
            };
            let module = formats::base_name(recording.image(frame.location.image));
            let mut functions = resolution.inlined.iter().rev();
            let outermost = functions.next().map(|one| &*one.function);
            let procedure = resolution.procedure.as_ref().map(|one| &*one.name);
            called.extend(outermost.or(procedure).map(|name| (name, module)));
            inlined.extend(functions.map(|one| (&*one.function, module)));
        }
        let modules = &self.modules;
        let names = self.name.iter().zip(&self.module).zip(0..);
        let only_inlined = names.filter_map(|((name, module), method)| {
            let key = (&**name, &**modules.get(*module as usize)?);
            (inlined.contains(&key) && !called.contains(&key)).then_some(method)
        });
        self.inlined = only_inlined.collect();
    }
}

fn page_methods(tree: &CallTree) -> PageMethods {
    let mut modules: Vec<String> = tree.methods().iter().map(|m| m.module.clone()).collect();
    modules.sort_unstable();
    modules.dedup();
    let number = |module: &String| modules.binary_search(module).unwrap_or(0) as u32;
    PageMethods {
        name: tree.methods().iter().map(|m| m.name.clone()).collect(),
        module: tree.methods().iter().map(|m| number(&m.module)).collect(),
        modules,
        inlined: Vec::new(),
    }
}

fn tree_columns(tree: &CallTree) -> PageTree {
    let (method, parent, prefix) = tree.columns();
    let mut depth = vec![0_u32; method.len()];
    for node in 1..method.len() {
        depth[node] = depth[parent[node] as usize] + 1;
    }
    let own = |prefix: &Vec<i64>| prefix.windows(2).map(|pair| pair[1] - pair[0]).collect();
    PageTree {
        depth: depth.split_off(1),
        method: method[1..].to_vec(),
        cost: prefix.iter().map(own).collect(),
        left_out: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &str) -> PageProfile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let tree = formats::read::read_profile(file.path(), &Default::default()).expect("folded");
        PageProfile::new("x".to_owned(), &tree)
    }

    #[test]
    fn a_tree_is_columns_in_preorder() {
        let page = read("a;b;c 5\na;b 2\na;d 1\ne 4\n");
        let named: Vec<(u32, &str)> = (page.tree.depth.iter().copied())
            .zip(
                page.tree
                    .method
                    .iter()
                    .map(|m| &*page.methods.name[*m as usize]),
            )
            .collect();
        assert_eq!(named, [(1, "a"), (2, "b"), (3, "c"), (2, "d"), (1, "e")]);
        assert_eq!(page.tree.cost, [[0, 0, 2, 5, 1, 4]]);
    }

    #[test]
    fn what_is_small_is_left_out_and_its_cost_is_its_callers() {
        let mut page = read("a;b;c 50\na;b;d;x 1\na;b;d;y 1\na 2\nz 46\n");
        page.leave_out(0.03);
        let names: Vec<&str> = (page.tree.method.iter())
            .map(|m| &*page.methods.name[*m as usize])
            .collect();
        assert_eq!(names, ["a", "b", "c", "z"]);
        assert_eq!(page.tree.depth, [1, 2, 3, 1]);
        assert_eq!(page.tree.cost, [[0, 2, 2, 50, 46]]);
        let left_out = page.tree.left_out.expect("said");
        assert_eq!((left_out.nodes, left_out.share), (3, 0.03));
    }
}
