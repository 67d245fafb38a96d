//! Reads samples into a tree of locations. The locations themselves may come later in the file.

use super::tables::Locations;
use super::wire::{Message, WireValue};
use crate::read::error::{FilePosition, ReadFault};
use hashbrown::HashTable;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

/// A node's parent, and its location (below the root, a set of labels).
type Node = (u32, u32);

/// Samples, which share common callers.
pub(super) struct SampleTree {
    pub nodes: Vec<Node>,
    index: HashTable<u32>,
    /// Values by node, `width` each.
    pub values: Vec<i64>,
    pub width: Option<usize>,
    /// The sets of labels of the file; the first is for samples without labels.
    pub labels: IndexSet<Vec<SampleLabel>, FxBuildHasher>,
    /// Bytes of `labels`.
    label_bytes: u64,
    keep_labels: bool,
    /// The path of the previous sample: location and node, outermost first.
    path: Vec<Node>,
    /// Scratch space for one sample.
    locations: Vec<u64>,
    numbers: Vec<u64>,
}

/// A label: indexes of strings, and a number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SampleLabel {
    pub key: u64,
    pub text: u64,
    pub number: i64,
}

impl SampleTree {
    pub fn new(keep_labels: bool) -> Self {
        Self {
            nodes: vec![(0, u32::MAX)],
            index: HashTable::new(),
            values: Vec::new(),
            width: None,
            labels: IndexSet::from_iter([Vec::new()]),
            label_bytes: 0,
            keep_labels,
            path: Vec::new(),
            locations: Vec::new(),
            numbers: Vec::new(),
        }
    }

    pub fn read_sample(
        &mut self,
        mut message: Message<'_>,
        places: &mut Locations,
    ) -> Result<(), ReadFault> {
        let at = message.file_position();
        self.locations.clear();
        self.numbers.clear();
        let mut labels = Vec::new();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, value) => value.append_numbers(&mut self.locations)?,
                (2, value) => value.append_numbers(&mut self.numbers)?,
                (3, WireValue::Bytes(label)) if self.keep_labels => labels.push(read_label(label)?),
                _ => {}
            }
        }
        let values = self.numbers.len();
        let width = match self.width {
            Some(width) => width,
            None => {
                self.width = Some(values);
                self.values.resize(values, 0);
                values
            }
        };
        if values != width {
            let what = format!("a sample of {values} values after one of {width}");
            return Err(ReadFault::damaged(what, at));
        }
        let node = self.stack_node(labels, places, at)? as usize;
        let entries = self.values.get_mut(node * width..(node + 1) * width);
        for (entry, value) in entries.unwrap_or_default().iter_mut().zip(&self.numbers) {
            *entry = entry.checked_add(*value as i64).ok_or_else(|| {
                ReadFault::damaged("the values of a stack add up to more than 63 bits", at)
            })?;
        }
        Ok(())
    }

    /// Returns the node of the read locations, under that of the labels.
    fn stack_node(
        &mut self,
        mut labels: Vec<SampleLabel>,
        places: &mut Locations,
        at: FilePosition,
    ) -> Result<u32, ReadFault> {
        labels.sort_unstable();
        let bytes = 64 + (size_of::<SampleLabel>() * labels.len()) as u64;
        let (labels, new) = self.labels.insert_full(labels);
        self.label_bytes += if new { bytes } else { 0 };
        // Most samples share the outermost callers of the previous one.
        let mut node = self.child_node(0, labels as u32, at)?;
        let mut shared = self.path.first() == Some(&(labels as u32, node));
        if !shared {
            self.path.clear();
            self.path.push((labels as u32, node));
        }
        let count = self.locations.len();
        for depth in 1..=count {
            // Innermost first in the file.
            let id = self.locations.get(count - depth).copied().unwrap_or(0);
            let location = places.ids.index_of(id);
            if shared
                && let Some((last, known)) = self.path.get(depth)
                && *last == location
            {
                node = *known;
            } else {
                if shared {
                    self.path.truncate(depth);
                    shared = false;
                }
                node = self.child_node(node, location, at)?;
                self.path.push((location, node));
            }
        }
        Ok(node)
    }

    fn child_node(
        &mut self,
        parent: u32,
        location: u32,
        at: FilePosition,
    ) -> Result<u32, ReadFault> {
        let wanted = (parent, location);
        let nodes = &self.nodes;
        let found = self.index.find(FxBuildHasher.hash_one(wanted), |n| {
            nodes.get(*n as usize) == Some(&wanted)
        });
        if let Some(node) = found {
            return Ok(*node);
        }
        let number = u32::try_from(self.nodes.len())
            .map_err(|_| ReadFault::too_large("more than 2^32 stacks", at))?;
        self.index
            .insert_unique(FxBuildHasher.hash_one(wanted), number, |n| {
                FxBuildHasher.hash_one(nodes.get(*n as usize).copied().unwrap_or_default())
            });
        self.nodes.push(wanted);
        let width = self.width.unwrap_or(0);
        self.values.resize(self.nodes.len() * width, 0);
        Ok(number)
    }

    /// Frees the index, which is no longer needed.
    pub fn drop_index(&mut self) {
        self.index = HashTable::new();
    }

    pub fn memory_size(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>() + 5 * self.index.capacity();
        (nodes + 8 * self.values.capacity()) as u64 + self.label_bytes
    }
}

fn read_label(mut message: Message<'_>) -> Result<SampleLabel, ReadFault> {
    let mut label = SampleLabel::default();
    while let Some((field, value)) = message.next_field()? {
        match field {
            1 => label.key = value.as_number(),
            2 => label.text = value.as_number(),
            3 => label.number = value.as_number() as i64,
            _ => {}
        }
    }
    Ok(label)
}
