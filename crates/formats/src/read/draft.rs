//! A tree under construction, shared by all readers.

use super::error::{FilePosition, ReadFault};
use super::options::{GroupBy, ReadOptions};
use super::time_axis::TimeSlices;
use super::tree_profile::TreeProfile;
use profile::{CallTree, CallTreeBuilder, DraftNode, MethodId, NodeId, ValueType};

/// Memory of a node during construction, and again while the tree is sorted.
const NODE_BYTES: u64 = 48;
const VALUE_BYTES: u64 = 16;
/// Memory of a method beside its name.
const METHOD_BYTES: u64 = 96;

/// Owner of a stack, as far as the profile tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner<'a> {
    pub host: Option<&'a str>,
    pub process: Option<&'a str>,
    pub pid: Option<i64>,
    pub thread: Option<&'a str>,
    pub tid: Option<i64>,
    pub slice: Option<u32>,
}

/// A [`CallTreeBuilder`] within limits, with the notes of its reader.
pub(crate) struct TreeDraft {
    builder: CallTreeBuilder,
    group_by: Vec<GroupBy>,
    /// True for each group that any stack had.
    grouped: Vec<bool>,
    stacks: u64,
    /// Number of methods.
    methods: u32,
    values: usize,
    node_bytes: u64,
    memory: u64,
    /// Bytes of methods, and of the reader's data beside the tree.
    other: u64,
    depth: u32,
    notes: Vec<String>,
    /// See [`TreeProfile::time`].
    slices: Option<TimeSlices>,
    /// See [`TreeProfile::default_value`].
    pub default_value: usize,
}

impl TreeDraft {
    pub fn new(value_types: Vec<ValueType>, options: &ReadOptions) -> Self {
        Self {
            values: value_types.len(),
            node_bytes: NODE_BYTES + VALUE_BYTES * value_types.len() as u64,
            builder: CallTreeBuilder::new(value_types),
            group_by: options.group_by.clone(),
            grouped: vec![false; options.group_by.len()],
            stacks: 0,
            methods: 0,
            memory: options.limits.memory,
            other: 0,
            depth: options.limits.depth,
            notes: Vec::new(),
            slices: None,
            default_value: 0,
        }
    }

    /// Counts `bytes` of the reader's data beside the tree.
    pub fn charge_memory(&mut self, bytes: u64, at: FilePosition) -> Result<(), ReadFault> {
        self.other = self.other.saturating_add(bytes);
        self.check_memory(at)
    }

    /// Adds a value type, for formats that do not list theirs beforehand. Returns its index.
    pub fn add_value_type(&mut self, value_type: ValueType) -> usize {
        self.values += 1;
        self.node_bytes += VALUE_BYTES;
        self.builder.add_value_type(value_type)
    }

    pub fn intern_method(&mut self, name: &str, module: &str) -> Result<MethodId, ReadFault> {
        let id = self.builder.method(name, module)?;
        if id.0 >= self.methods {
            self.methods = id.0 + 1;
            self.other += METHOD_BYTES + 2 * (name.len() + module.len()) as u64;
        }
        Ok(id)
    }

    /// Returns the node of `method` called from `parent`; `at` is the position in the file.
    pub fn child_node(
        &mut self,
        parent: DraftNode,
        method: MethodId,
        at: FilePosition,
    ) -> Result<DraftNode, ReadFault> {
        let node = self.builder.child(parent, method)?;
        self.check_memory(at)?;
        Ok(node)
    }

    /// Refuses a file that needs more memory than allowed.
    fn check_memory(&self, at: FilePosition) -> Result<(), ReadFault> {
        let nodes = self.builder.len() as u64;
        if nodes * self.node_bytes + self.other <= self.memory {
            return Ok(());
        }
        let what = format!(
            "{nodes} nodes and their methods need more than {} MiB of memory",
            self.memory >> 20
        );
        Err(ReadFault::too_large(what, at))
    }

    /// Returns whether stacks are separated by time.
    pub fn wants_times(&self) -> bool {
        self.group_by.contains(&GroupBy::Slice)
    }

    /// Sets the time axis, if stacks are separated by time.
    pub fn set_time_axis(&mut self, slices: Option<TimeSlices>) {
        self.slices = slices.filter(|_| self.wants_times());
    }

    /// Returns the time axis, if there is one.
    pub fn time_axis(&self) -> Option<TimeSlices> {
        self.slices
    }

    /// Returns the node under which `owner`'s stack begins.
    pub fn group_node(
        &mut self,
        owner: &Owner<'_>,
        at: FilePosition,
    ) -> Result<DraftNode, ReadFault> {
        let mut node = DraftNode::ROOT;
        self.stacks += 1;
        for index in 0..self.group_by.len() {
            let Some(group) = self.group_by.get(index).copied() else {
                break;
            };
            let Some(name) = owner.group_name(group) else {
                continue;
            };
            if let Some(seen) = self.grouped.get_mut(index) {
                *seen = true;
            }
            let method = self.intern_method(&name, group.module_name())?;
            node = self.child_node(node, method, at)?;
        }
        Ok(node)
    }

    pub fn add_cost(&mut self, value: usize, node: DraftNode, cost: i64) {
        self.builder.add(value, node, cost);
    }

    pub fn add_note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub fn finish_tree(mut self, format: &'static str) -> Result<TreeProfile, ReadFault> {
        for (group, seen) in self.group_by.iter().zip(&self.grouped) {
            // Few formats have times, and a view without them says so itself.
            if !seen && self.stacks > 0 && *group != GroupBy::Slice {
                let name = group.module_name().trim_matches(['[', ']']);
                self.notes.push(format!(
                    "the profile does not say which {name} a stack is of; not grouped by {name}"
                ));
            }
        }
        if self.values == 0 {
            // For users of the first value type.
            self.builder.add_value_type(ValueType {
                name: "samples".to_owned(),
                unit: "samples".to_owned(),
            });
        }
        let tree = self.builder.finish()?;
        check_depth(&tree, self.depth)?;
        for (value, value_type) in tree.value_types().iter().enumerate() {
            let negative = |n: u32| tree.cost(value, NodeId(n)) < 0;
            let count = (0..tree.len() as u32).filter(|n| negative(*n)).count();
            if count > 0 {
                self.notes.push(format!(
                    "{count} call paths have a negative cost of {}, as in a difference of profiles",
                    value_type.name
                ));
            }
        }
        Ok(TreeProfile {
            tree,
            format,
            default_value: self.default_value,
            time: self.slices.map(|slices| slices.time_axis()),
            notes: self.notes,
        })
    }
}

impl Owner<'_> {
    fn group_name(&self, group: GroupBy) -> Option<String> {
        let text = |text: Option<&str>| text.filter(|t| !t.is_empty()).map(str::to_owned);
        match group {
            GroupBy::Host => text(self.host),
            GroupBy::Process => {
                text(self.process).or_else(|| self.pid.map(|pid| format!("pid {pid}")))
            }
            GroupBy::Slice => self.slice.map(|slice| slice.to_string()),
            GroupBy::Thread => match (text(self.thread), self.tid) {
                (Some(name), Some(tid)) => Some(format!("{name} ({tid})")),
                (None, Some(tid)) => Some(format!("tid {tid}")),
                (name, None) => name,
            },
        }
    }
}

fn check_depth(tree: &CallTree, most: u32) -> Result<(), ReadFault> {
    let (_, parents, _) = tree.columns();
    let mut depth = vec![0_u32; parents.len()];
    for (node, parent) in parents.iter().enumerate().skip(1) {
        // In preorder the parent comes first.
        let above = depth.get(*parent as usize).copied().unwrap_or(0);
        if above >= most {
            let what = format!("a stack of more than {most} frames");
            let row = node as u64;
            return Err(ReadFault::too_large(
                what,
                FilePosition::Row { table: "node", row },
            ));
        }
        if let Some(entry) = depth.get_mut(node) {
            *entry = above + 1;
        }
    }
    Ok(())
}
