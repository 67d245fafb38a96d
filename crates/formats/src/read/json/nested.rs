//! JSON in which callees are nested in their callers, as deep as the stacks: V8's heap profiles,
//! its CPU profiles before Chrome 58, and GHC's. Read without recursion.

use super::value::value_type;
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::input::ProfileInput;
use crate::read::options::ReadOptions;
use crate::read::skipped::Skipped;
use profile::{DraftNode, ValueType};
use rustc_hash::FxHashMap;
use std::io::{ErrorKind, Read};
use struson::reader::{
    JsonReader, JsonReaderPosition, JsonStreamReader, ReaderError, ReaderSettings,
    ValueType as JsonType,
};

const HEAP: &str = "V8 heap profile";
const OLD_CPU: &str = "Chromium CPU profile";
const GHC: &str = "GHC profile";
/// Memory of a node beside its names.
const NODE_BYTES: u64 = 160;

/// Returns whether a text begins as these files do: with the outermost node, or with the program
/// that GHC ran.
pub(crate) fn detect_nested_json(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('{') else {
        return false;
    };
    let rest = rest.trim_start();
    // v8-profiler writes its title first; only its tree of nodes has these keys side by side.
    rest.starts_with("\"head\"")
        || rest.starts_with("\"typeId\"") && text.contains("\"head\":{\"functionName\"")
        || rest.starts_with("\"program\"") && text.contains("\"rts_arguments\"")
}

/// A node of the file's tree.
#[derive(Default)]
struct NestedNode {
    parent: Option<usize>,
    name: String,
    url: String,
    line: Option<i64>,
    id: u64,
    /// Bytes of a heap profile, hits of a CPU profile, ticks of GHC's.
    own: i64,
    /// GHC: bytes allocated.
    allocated: i64,
}

/// A cost centre of GHC.
struct CostCentre {
    label: String,
    module: String,
}

/// Contents of a file.
#[derive(Default)]
struct NestedFile {
    nodes: Vec<NestedNode>,
    samples: Vec<u64>,
    /// Times of the samples, in microseconds.
    timestamps: Vec<f64>,
    has_sizes: bool,
    cost_centres: FxHashMap<u64, CostCentre>,
    /// Microseconds for each tick.
    tick_us: f64,
    is_ghc: bool,
    /// End of the run, in seconds.
    end_time: f64,
    held: u64,
    most: u64,
}

type Reader<'i> = JsonStreamReader<std::io::Take<&'i mut ProfileInput>>;

pub(crate) fn read_nested_json(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<(TreeDraft, &'static str), ReadFault> {
    let most = options.limits.memory;
    let settings = ReaderSettings {
        max_nesting_depth: None,
        track_path: false,
        restrict_number_values: false,
        ..ReaderSettings::default()
    };
    let mut reader = JsonStreamReader::new_custom(input.take(most), settings);
    let mut file = NestedFile {
        most,
        ..NestedFile::default()
    };
    file.read_document(&mut reader)?;
    reader.consume_trailing_whitespace().map_err(reader_fault)?;
    file.into_draft(options)
}

/// An open bracket while nodes are read.
enum OpenNode {
    Node(usize),
    Children(usize),
}

impl NestedFile {
    fn read_document(&mut self, reader: &mut Reader<'_>) -> Result<(), ReadFault> {
        reader.begin_object().map_err(reader_fault)?;
        while reader.has_next().map_err(reader_fault)? {
            let key = reader.next_name_owned().map_err(reader_fault)?;
            let is = reader.peek().map_err(reader_fault)?;
            match (key.as_str(), is) {
                ("head" | "profile", JsonType::Object) => self.read_tree(reader)?,
                ("program", _) => {
                    self.is_ghc = true;
                    reader.skip_value().map_err(reader_fault)?;
                }
                ("samples", JsonType::Array) => {
                    self.samples = self
                        .read_numbers(reader)?
                        .iter()
                        .map(|n| *n as u64)
                        .collect();
                }
                ("timestamps", JsonType::Array) => self.timestamps = self.read_numbers(reader)?,
                ("endTime", JsonType::Number) => self.end_time = read_number(reader)?,
                ("tick_interval", JsonType::Number) => self.tick_us = read_number(reader)?,
                ("cost_centres", JsonType::Array) => self.cost_centres(reader)?,
                _ => reader.skip_value().map_err(reader_fault)?,
            }
        }
        reader.end_object().map_err(reader_fault)
    }

    /// Reads the numbers of an array; other elements are skipped.
    fn read_numbers(&mut self, reader: &mut Reader<'_>) -> Result<Vec<f64>, ReadFault> {
        let mut all = Vec::new();
        reader.begin_array().map_err(reader_fault)?;
        while reader.has_next().map_err(reader_fault)? {
            if reader.peek().map_err(reader_fault)? == JsonType::Number {
                all.push(read_number(reader)?);
                self.charge_memory(24, reader)?;
            } else {
                reader.skip_value().map_err(reader_fault)?;
            }
        }
        reader.end_array().map_err(reader_fault)?;
        Ok(all)
    }

    fn charge_memory(&mut self, bytes: u64, reader: &Reader<'_>) -> Result<(), ReadFault> {
        self.held = self.held.saturating_add(bytes);
        if self.held > self.most {
            let what = format!(
                "its tables need more than {} MiB of memory",
                self.most >> 20
            );
            return Err(ReadFault::too_large(
                what,
                file_position(&reader.current_position(false)),
            ));
        }
        Ok(())
    }

    fn add_node(
        &mut self,
        parent: Option<usize>,
        reader: &Reader<'_>,
    ) -> Result<OpenNode, ReadFault> {
        self.charge_memory(NODE_BYTES, reader)?;
        self.nodes.push(NestedNode {
            parent,
            ..NestedNode::default()
        });
        Ok(OpenNode::Node(self.nodes.len() - 1))
    }

    /// Reads a node with its descendants.
    fn read_tree(&mut self, reader: &mut Reader<'_>) -> Result<(), ReadFault> {
        reader.begin_object().map_err(reader_fault)?;
        let mut open = vec![self.add_node(None, reader)?];
        while let Some(innermost) = open.last() {
            let has_next = reader.has_next().map_err(reader_fault)?;
            match *innermost {
                OpenNode::Node(node) if has_next => {
                    let key = reader.next_name_owned().map_err(reader_fault)?;
                    let is = reader.peek().map_err(reader_fault)?;
                    match (key.as_str(), is) {
                        ("children", JsonType::Array) => {
                            reader.begin_array().map_err(reader_fault)?;
                            open.push(OpenNode::Children(node));
                        }
                        ("callFrame", JsonType::Object) => {
                            reader.begin_object().map_err(reader_fault)?;
                            while reader.has_next().map_err(reader_fault)? {
                                let key = reader.next_name_owned().map_err(reader_fault)?;
                                self.read_attribute(node, &key, reader)?;
                            }
                            reader.end_object().map_err(reader_fault)?;
                        }
                        _ => self.read_attribute(node, &key, reader)?,
                    }
                }
                OpenNode::Children(node) if has_next => {
                    reader.begin_object().map_err(reader_fault)?;
                    let child = self.add_node(Some(node), reader)?;
                    open.push(child);
                }
                OpenNode::Node(_) => {
                    reader.end_object().map_err(reader_fault)?;
                    open.pop();
                }
                OpenNode::Children(_) => {
                    reader.end_array().map_err(reader_fault)?;
                    open.pop();
                }
            }
        }
        Ok(())
    }

    fn read_attribute(
        &mut self,
        node: usize,
        key: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), ReadFault> {
        let is = reader.peek().map_err(reader_fault)?;
        let Some(node) = self.nodes.get_mut(node) else {
            return reader.skip_value().map_err(reader_fault);
        };
        match (key, is) {
            ("functionName", JsonType::String) => {
                node.name = reader.next_string().map_err(reader_fault)?;
                let bytes = node.name.len() as u64;
                self.charge_memory(bytes, reader)
            }
            ("url", JsonType::String) => {
                node.url = reader.next_string().map_err(reader_fault)?;
                let bytes = node.url.len() as u64;
                self.charge_memory(bytes, reader)
            }
            ("lineNumber", JsonType::Number) => {
                node.line = Some(read_number(reader)? as i64);
                Ok(())
            }
            ("id", JsonType::Number) => {
                node.id = read_number(reader)? as u64;
                Ok(())
            }
            ("alloc", JsonType::Number) => {
                node.allocated = read_number(reader)? as i64;
                Ok(())
            }
            ("selfSize", JsonType::Number) => {
                node.own = read_number(reader)? as i64;
                self.has_sizes = true;
                Ok(())
            }
            ("hitCount" | "ticks", JsonType::Number) => {
                node.own = read_number(reader)? as i64;
                Ok(())
            }
            _ => reader.skip_value().map_err(reader_fault),
        }
    }

    fn cost_centres(&mut self, reader: &mut Reader<'_>) -> Result<(), ReadFault> {
        reader.begin_array().map_err(reader_fault)?;
        while reader.has_next().map_err(reader_fault)? {
            reader.begin_object().map_err(reader_fault)?;
            let mut id = 0;
            let mut centre = CostCentre {
                label: String::new(),
                module: String::new(),
            };
            while reader.has_next().map_err(reader_fault)? {
                let key = reader.next_name_owned().map_err(reader_fault)?;
                match (key.as_str(), reader.peek().map_err(reader_fault)?) {
                    ("id", JsonType::Number) => id = read_number(reader)? as u64,
                    ("label", JsonType::String) => {
                        centre.label = reader.next_string().map_err(reader_fault)?;
                    }
                    ("module", JsonType::String) => {
                        centre.module = reader.next_string().map_err(reader_fault)?;
                    }
                    _ => reader.skip_value().map_err(reader_fault)?,
                }
            }
            reader.end_object().map_err(reader_fault)?;
            let bytes = NODE_BYTES + (centre.label.len() + centre.module.len()) as u64;
            self.charge_memory(bytes, reader)?;
            self.cost_centres.insert(id, centre);
        }
        reader.end_array().map_err(reader_fault)
    }

    fn into_draft(self, options: &ReadOptions) -> Result<(TreeDraft, &'static str), ReadFault> {
        if self.nodes.is_empty() {
            let what = "no outermost node (head, profile)";
            return Err(ReadFault::damaged(what, FilePosition::Offset(0)));
        }
        let (name, types): (_, Vec<ValueType>) = if self.is_ghc {
            (
                GHC,
                vec![
                    value_type("time", "nanoseconds"),
                    value_type("allocations", "bytes"),
                ],
            )
        } else if self.has_sizes {
            (HEAP, vec![value_type("space", "bytes")])
        } else {
            (
                OLD_CPU,
                vec![
                    value_type("samples", "samples"),
                    value_type("time", "nanoseconds"),
                ],
            )
        };
        let mut draft = TreeDraft::new(types, options);
        draft.charge_memory(self.held, FilePosition::Offset(0))?;
        let places = self.place_nodes(&mut draft, options)?;
        let own = self.nodes.iter().zip(&places);
        if self.is_ghc {
            for (node, place) in own {
                let time = node.own as f64 * self.tick_us * 1000.0;
                draft.add_cost(0, *place, time.round() as i64);
                draft.add_cost(1, *place, node.allocated);
            }
        } else if self.has_sizes || self.samples.is_empty() {
            for (node, place) in own {
                draft.add_cost(0, *place, node.own);
            }
        } else {
            self.add_samples(&mut draft, &places)?;
        }
        Ok((draft, name))
    }

    fn place_nodes(
        &self,
        draft: &mut TreeDraft,
        options: &ReadOptions,
    ) -> Result<Vec<DraftNode>, ReadFault> {
        let root = draft.group_node(&Owner::default(), FilePosition::Offset(0))?;
        let mut places: Vec<DraftNode> = Vec::with_capacity(self.nodes.len());
        for (row, node) in self.nodes.iter().enumerate() {
            let at = FilePosition::Row {
                table: "node",
                row: row as u64,
            };
            let Some(parent) = node.parent.and_then(|parent| places.get(parent).copied()) else {
                // The format's root becomes the draft's root.
                places.push(root);
                continue;
            };
            let method = match self.cost_centres.get(&node.id).filter(|_| self.is_ghc) {
                Some(centre) => draft.intern_method(&centre.label, &centre.module)?,
                None => {
                    let module = node.url.strip_prefix("file://").unwrap_or(&node.url);
                    let line = node.line.filter(|line| *line >= 0);
                    // Heap profiles count lines from 0, as CPU profiles do.
                    let line = line.map(|line| line.saturating_add(1));
                    let name = match (node.name.as_str(), line) {
                        ("", Some(line)) => format!("(anonymous):{line}"),
                        ("", None) => "(anonymous)".to_owned(),
                        (name, Some(line)) if options.lines => format!("{name}:{line}"),
                        (name, _) => name.to_owned(),
                    };
                    draft.intern_method(&name, module)?
                }
            };
            places.push(draft.child_node(parent, method, at)?);
        }
        Ok(places)
    }

    /// Adds the samples of an old CPU profile: each lasts until the next.
    fn add_samples(&self, draft: &mut TreeDraft, places: &[DraftNode]) -> Result<(), ReadFault> {
        let ids = self
            .nodes
            .iter()
            .map(|node| node.id)
            .zip(places.iter().copied());
        let by_id: FxHashMap<u64, DraftNode> = ids.collect();
        let (mut skipped, mut read) = (Skipped::new("samples"), 0);
        for (index, sample) in self.samples.iter().enumerate() {
            let Some(node) = by_id.get(sample) else {
                let at = FilePosition::Row {
                    table: "sample",
                    row: index as u64,
                };
                skipped.skip_part(format!("it is of node {sample}, which is not there"), at);
                continue;
            };
            read += 1;
            draft.add_cost(0, *node, 1);
            let start = self.timestamps.get(index);
            let end = self.timestamps.get(index + 1).copied();
            let end = end.unwrap_or(self.end_time * 1e6);
            if let Some(start) = start {
                draft.add_cost(1, *node, ((end - start).max(0.0) * 1000.0).round() as i64);
            }
        }
        skipped.note_skipped(read, draft)
    }
}

fn read_number(reader: &mut Reader<'_>) -> Result<f64, ReadFault> {
    let at = file_position(&reader.current_position(false));
    let text = reader.next_number_as_str().map_err(reader_fault)?;
    text.parse()
        .map_err(|_| ReadFault::damaged(format!("{text} is no number"), at))
}

fn file_position(position: &JsonReaderPosition) -> FilePosition {
    match (&position.line_pos, position.data_pos) {
        (Some(line), _) => FilePosition::Column {
            line: line.line + 1,
            column: line.column + 1,
        },
        (None, offset) => FilePosition::Offset(offset.unwrap_or(0)),
    }
}

fn reader_fault(error: ReaderError) -> ReadFault {
    let (what, location) = match error {
        // The parser's error for text that is not UTF-8.
        ReaderError::IoError { error, location } if error.kind() == ErrorKind::InvalidData => {
            (error.to_string(), location)
        }
        ReaderError::IoError { error, .. } => return error.into(),
        ReaderError::SyntaxError(error) => (format!("{:?}", error.kind), error.location),
        ReaderError::UnexpectedValueType {
            expected,
            actual,
            location,
        } => (format!("{actual} where {expected} is expected"), location),
        ReaderError::UnexpectedStructure { kind, location } => (kind.to_string(), location),
        ReaderError::MaxNestingDepthExceeded { location, .. } => {
            ("nested too deep".to_owned(), location)
        }
        ReaderError::UnsupportedNumberValue { number, location } => {
            (format!("{number} is no number"), location)
        }
        other => return ReadFault::damaged(other.to_string(), FilePosition::Offset(0)),
    };
    ReadFault::damaged(what, file_position(&location))
}
