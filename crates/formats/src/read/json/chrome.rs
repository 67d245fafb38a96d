//! `.cpuprofile`: the profiles of V8 (Node.js, Chromium), whose nodes already form a call tree.

use super::value::{JsonColumn, JsonText, value_type};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::skipped::Skipped;
use profile::DraftNode;
use rustc_hash::FxHashMap;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChromeNode {
    pub id: u64,
    #[serde(default)]
    pub parent: Option<u64>,
    #[serde(default)]
    call_frame: CallFrame,
    #[serde(default)]
    hit_count: f64,
    #[serde(default)]
    children: JsonColumn<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallFrame {
    function_name: JsonText,
    #[serde(default)]
    url: Option<JsonText>,
    /// Line, from 0; −1 for entries without code.
    #[serde(default)]
    line_number: Option<f64>,
}

/// Times are in microseconds.
#[derive(Default)]
pub(super) struct CpuProfile {
    pub nodes: Vec<ChromeNode>,
    pub samples: Vec<u64>,
    pub time_deltas: Vec<f64>,
    pub start_time: f64,
    pub end_time: f64,
}

pub(super) fn read_chrome_profile(
    profile: CpuProfile,
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut draft = chrome_draft(options, used)?;
    profile.add_to(&mut draft, &Owner::default(), options)?;
    Ok(draft)
}

/// Returns a draft with the value type of these profiles.
pub(super) fn chrome_draft(options: &ReadOptions, used: u64) -> Result<TreeDraft, ReadFault> {
    let types = vec![
        value_type("samples", "samples"),
        value_type("time", "nanoseconds"),
    ];
    let mut draft = TreeDraft::new(types, options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    Ok(draft)
}

impl CpuProfile {
    /// Returns whether the root node of all others is present.
    pub fn has_root(&self) -> bool {
        self.nodes.iter().any(|node| node.parent.is_none())
    }

    pub fn add_to(
        &self,
        draft: &mut TreeDraft,
        owner: &Owner<'_>,
        options: &ReadOptions,
    ) -> Result<(), ReadFault> {
        let root = draft.group_node(owner, FilePosition::Offset(0))?;
        let nodes = self.place_nodes(draft, root, options)?;
        if self.samples.is_empty() {
            draft.add_note("the profile has no samples, only the hits of each node: no time");
            for node in &self.nodes {
                if let Some(place) = nodes.get(&node.id) {
                    draft.add_cost(0, *place, node.hit_count.round() as i64);
                }
            }
            return Ok(());
        }
        let times = self.sample_times(draft);
        let (mut skipped, mut read) = (Skipped::new("samples"), 0);
        for (index, sample) in self.samples.iter().enumerate() {
            let Some(node) = nodes.get(sample) else {
                let at = FilePosition::Row {
                    table: "sample",
                    row: index as u64,
                };
                let what = format!("it is of node {sample}, which is not there");
                skipped.skip_part(what, at);
                continue;
            };
            read += 1;
            draft.add_cost(0, *node, 1);
            let time = times.get(index).copied().unwrap_or(0.0);
            draft.add_cost(1, *node, (time * 1000.0).round() as i64);
        }
        skipped.note_skipped(read, draft)
    }

    /// Returns the duration of each sample: until the next one in time, which is not always the
    /// order of the file.
    fn sample_times(&self, draft: &mut TreeDraft) -> Vec<f64> {
        let mut now = self.start_time;
        let mut backwards = 0_u64;
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(self.samples.len());
        for (index, delta) in self.time_deltas.iter().enumerate().take(self.samples.len()) {
            backwards += u64::from(*delta < 0.0);
            now += delta;
            order.push((now, index));
        }
        if backwards > 0 {
            draft.add_note(format!(
                "{backwards} samples were earlier than the one before and were put in order"
            ));
        }
        if order.len() < self.samples.len() {
            draft.add_note("some samples have no time");
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut times = vec![0.0; self.samples.len()];
        for (position, (start, index)) in order.iter().enumerate() {
            let end = order.get(position + 1).map_or(self.end_time, |next| next.0);
            if let Some(time) = times.get_mut(*index) {
                *time = (end - start).max(0.0);
            }
        }
        times
    }

    /// Returns the place of each node in the draft, by its id.
    fn place_nodes(
        &self,
        draft: &mut TreeDraft,
        root: DraftNode,
        options: &ReadOptions,
    ) -> Result<FxHashMap<u64, DraftNode>, ReadFault> {
        let by_id: FxHashMap<u64, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (node.id, index))
            .collect();
        if by_id.len() < self.nodes.len() {
            return Err(ReadFault::damaged(
                "two nodes have one id",
                FilePosition::Row {
                    table: "node",
                    row: 0,
                },
            ));
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut parents = vec![None; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let named = node
                .children
                .0
                .iter()
                .map(|child| (Some(index), by_id.get(child).copied()));
            let up = node
                .parent
                .map(|parent| (by_id.get(&parent).copied(), Some(index)));
            for (parent, child) in named.chain(up) {
                let at = FilePosition::Row {
                    table: "node",
                    row: index as u64,
                };
                let (Some(parent), Some(child)) = (parent, child) else {
                    draft.add_note("some nodes refer to callers or callees that are not there");
                    continue;
                };
                match parents.get_mut(child) {
                    Some(known) if known.is_none() => *known = Some(parent),
                    // The caller lists it and it names its caller.
                    Some(known) if *known == Some(parent) => continue,
                    _ => return Err(ReadFault::damaged("two nodes call one", at)),
                }
                if let Some(list) = children.get_mut(parent) {
                    list.push(child);
                }
            }
        }
        let mut places = FxHashMap::default();
        let tops = parents
            .iter()
            .enumerate()
            .filter(|(_, parent)| parent.is_none());
        let mut pending: Vec<(usize, DraftNode)> = tops.map(|(index, _)| (index, root)).collect();
        pending.reverse();
        while let Some((index, caller)) = pending.pop() {
            let Some(node) = self.nodes.get(index) else {
                continue;
            };
            let place = node.enter_node(draft, caller, options, index)?;
            places.insert(node.id, place);
            let callees = children.get(index).into_iter().flatten().rev();
            pending.extend(callees.map(|callee| (*callee, place)));
        }
        if places.len() < self.nodes.len() {
            let at = FilePosition::Row {
                table: "node",
                row: 0,
            };
            return Err(ReadFault::damaged("nodes call each other in a circle", at));
        }
        Ok(places)
    }
}

impl ChromeNode {
    fn enter_node(
        &self,
        draft: &mut TreeDraft,
        caller: DraftNode,
        options: &ReadOptions,
        index: usize,
    ) -> Result<DraftNode, ReadFault> {
        let JsonText(name) = &self.call_frame.function_name;
        // V8's root becomes the draft's root.
        if name == "(root)" {
            return Ok(caller);
        }
        let at = FilePosition::Row {
            table: "node",
            row: index as u64,
        };
        let url = self.call_frame.url.as_ref().map_or("", |JsonText(url)| url);
        let module = url.strip_prefix("file://").unwrap_or(url);
        let line = self.call_frame.line_number.filter(|line| *line >= 0.0);
        let line = line.map(|line| line as u64 + 1);
        let method = match (name.as_str(), line) {
            // Otherwise all functions without a name in one file would be one.
            ("", Some(line)) => draft.intern_method(&format!("(anonymous):{line}"), module)?,
            ("", None) => draft.intern_method("(anonymous)", module)?,
            (name, Some(line)) if options.lines => {
                draft.add_note("lines are those where functions begin");
                draft.intern_method(&format!("{name}:{line}"), module)?
            }
            (name, _) => draft.intern_method(name, module)?,
        };
        draft.child_node(caller, method, at)
    }
}
