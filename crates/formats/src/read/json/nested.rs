//! JSON in which callees lie inside their callers, as deep as the stacks were: V8's heap profiles, its
//! CPU profiles of before Chrome 58, and GHC's. Read without recursion.

use super::value::value_type;
use crate::read::draft::{Draft, Owner};
use crate::read::error::{Fault, Place};
use crate::read::input::Input;
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
/// What a node costs beside its names.
const NODE_BYTES: u64 = 160;

/// Returns whether a text begins as these files do: with the outermost node, or with what GHC ran.
pub(crate) fn detect(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('{') else {
        return false;
    };
    let rest = rest.trim_start();
    rest.starts_with("\"head\"")
        || rest.starts_with("\"program\"") && text.contains("\"rts_arguments\"")
}

/// A node of the tree as the file has it.
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

/// A cost centre of GHC's.
struct CostCentre {
    label: String,
    module: String,
}

/// All that a file says.
#[derive(Default)]
struct NestedFile {
    nodes: Vec<NestedNode>,
    samples: Vec<u64>,
    /// In microseconds.
    timestamps: Vec<f64>,
    has_sizes: bool,
    cost_centres: FxHashMap<u64, CostCentre>,
    /// Microseconds a tick.
    tick_us: f64,
    is_ghc: bool,
    /// In seconds.
    end_time: f64,
    held: u64,
    most: u64,
}

type Reader<'i> = JsonStreamReader<std::io::Take<&'i mut Input>>;

pub(crate) fn read(
    input: &mut Input,
    options: &ReadOptions,
) -> Result<(Draft, &'static str), Fault> {
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
    file.document(&mut reader)?;
    reader.consume_trailing_whitespace().map_err(fault)?;
    file.into_draft(options)
}

/// What is open while nodes are read.
enum Open {
    Node(usize),
    Children(usize),
}

impl NestedFile {
    fn document(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.begin_object().map_err(fault)?;
        while reader.has_next().map_err(fault)? {
            let key = reader.next_name_owned().map_err(fault)?;
            let is = reader.peek().map_err(fault)?;
            match (key.as_str(), is) {
                ("head" | "profile", JsonType::Object) => self.tree(reader)?,
                ("program", _) => {
                    self.is_ghc = true;
                    reader.skip_value().map_err(fault)?;
                }
                ("samples", JsonType::Array) => {
                    self.samples = self.numbers(reader)?.iter().map(|n| *n as u64).collect();
                }
                ("timestamps", JsonType::Array) => self.timestamps = self.numbers(reader)?,
                ("endTime", JsonType::Number) => self.end_time = number(reader)?,
                ("tick_interval", JsonType::Number) => self.tick_us = number(reader)?,
                ("cost_centres", JsonType::Array) => self.cost_centres(reader)?,
                _ => reader.skip_value().map_err(fault)?,
            }
        }
        reader.end_object().map_err(fault)
    }

    /// The numbers of an array; what is none is left out.
    fn numbers(&mut self, reader: &mut Reader<'_>) -> Result<Vec<f64>, Fault> {
        let mut all = Vec::new();
        reader.begin_array().map_err(fault)?;
        while reader.has_next().map_err(fault)? {
            if reader.peek().map_err(fault)? == JsonType::Number {
                all.push(number(reader)?);
                self.hold(24, reader)?;
            } else {
                reader.skip_value().map_err(fault)?;
            }
        }
        reader.end_array().map_err(fault)?;
        Ok(all)
    }

    fn hold(&mut self, bytes: u64, reader: &Reader<'_>) -> Result<(), Fault> {
        self.held = self.held.saturating_add(bytes);
        if self.held > self.most {
            let what = format!(
                "its tables need more than {} MiB of memory",
                self.most >> 20
            );
            return Err(Fault::too_large(
                what,
                place(&reader.current_position(false)),
            ));
        }
        Ok(())
    }

    fn add_node(&mut self, parent: Option<usize>, reader: &Reader<'_>) -> Result<Open, Fault> {
        self.hold(NODE_BYTES, reader)?;
        self.nodes.push(NestedNode {
            parent,
            ..NestedNode::default()
        });
        Ok(Open::Node(self.nodes.len() - 1))
    }

    /// A node and all in it.
    fn tree(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.begin_object().map_err(fault)?;
        let mut open = vec![self.add_node(None, reader)?];
        while let Some(innermost) = open.last() {
            let has_next = reader.has_next().map_err(fault)?;
            match *innermost {
                Open::Node(node) if has_next => {
                    let key = reader.next_name_owned().map_err(fault)?;
                    let is = reader.peek().map_err(fault)?;
                    match (key.as_str(), is) {
                        ("children", JsonType::Array) => {
                            reader.begin_array().map_err(fault)?;
                            open.push(Open::Children(node));
                        }
                        ("callFrame", JsonType::Object) => {
                            reader.begin_object().map_err(fault)?;
                            while reader.has_next().map_err(fault)? {
                                let key = reader.next_name_owned().map_err(fault)?;
                                self.attribute(node, &key, reader)?;
                            }
                            reader.end_object().map_err(fault)?;
                        }
                        _ => self.attribute(node, &key, reader)?,
                    }
                }
                Open::Children(node) if has_next => {
                    reader.begin_object().map_err(fault)?;
                    let child = self.add_node(Some(node), reader)?;
                    open.push(child);
                }
                Open::Node(_) => {
                    reader.end_object().map_err(fault)?;
                    open.pop();
                }
                Open::Children(_) => {
                    reader.end_array().map_err(fault)?;
                    open.pop();
                }
            }
        }
        Ok(())
    }

    fn attribute(&mut self, node: usize, key: &str, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let is = reader.peek().map_err(fault)?;
        let Some(node) = self.nodes.get_mut(node) else {
            return reader.skip_value().map_err(fault);
        };
        match (key, is) {
            ("functionName", JsonType::String) => {
                node.name = reader.next_string().map_err(fault)?;
                let bytes = node.name.len() as u64;
                self.hold(bytes, reader)
            }
            ("url", JsonType::String) => {
                node.url = reader.next_string().map_err(fault)?;
                let bytes = node.url.len() as u64;
                self.hold(bytes, reader)
            }
            ("lineNumber", JsonType::Number) => {
                node.line = Some(number(reader)? as i64);
                Ok(())
            }
            ("id", JsonType::Number) => {
                node.id = number(reader)? as u64;
                Ok(())
            }
            ("alloc", JsonType::Number) => {
                node.allocated = number(reader)? as i64;
                Ok(())
            }
            ("selfSize", JsonType::Number) => {
                node.own = number(reader)? as i64;
                self.has_sizes = true;
                Ok(())
            }
            ("hitCount" | "ticks", JsonType::Number) => {
                node.own = number(reader)? as i64;
                Ok(())
            }
            _ => reader.skip_value().map_err(fault),
        }
    }

    fn cost_centres(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.begin_array().map_err(fault)?;
        while reader.has_next().map_err(fault)? {
            reader.begin_object().map_err(fault)?;
            let mut id = 0;
            let mut centre = CostCentre {
                label: String::new(),
                module: String::new(),
            };
            while reader.has_next().map_err(fault)? {
                let key = reader.next_name_owned().map_err(fault)?;
                match (key.as_str(), reader.peek().map_err(fault)?) {
                    ("id", JsonType::Number) => id = number(reader)? as u64,
                    ("label", JsonType::String) => {
                        centre.label = reader.next_string().map_err(fault)?;
                    }
                    ("module", JsonType::String) => {
                        centre.module = reader.next_string().map_err(fault)?;
                    }
                    _ => reader.skip_value().map_err(fault)?,
                }
            }
            reader.end_object().map_err(fault)?;
            let bytes = NODE_BYTES + (centre.label.len() + centre.module.len()) as u64;
            self.hold(bytes, reader)?;
            self.cost_centres.insert(id, centre);
        }
        reader.end_array().map_err(fault)
    }

    fn into_draft(self, options: &ReadOptions) -> Result<(Draft, &'static str), Fault> {
        if self.nodes.is_empty() {
            let what = "no outermost node (head, profile)";
            return Err(Fault::damaged(what, Place::Offset(0)));
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
        let mut draft = Draft::new(types, options);
        draft.hold(self.held, Place::Offset(0))?;
        let places = self.place_nodes(&mut draft, options)?;
        let own = self.nodes.iter().zip(&places);
        if self.is_ghc {
            for (node, place) in own {
                let time = node.own as f64 * self.tick_us * 1000.0;
                draft.add(0, *place, time.round() as i64);
                draft.add(1, *place, node.allocated);
            }
        } else if self.has_sizes || self.samples.is_empty() {
            for (node, place) in own {
                draft.add(0, *place, node.own);
            }
        } else {
            self.add_samples(&mut draft, &places)?;
        }
        Ok((draft, name))
    }

    fn place_nodes(
        &self,
        draft: &mut Draft,
        options: &ReadOptions,
    ) -> Result<Vec<DraftNode>, Fault> {
        let root = draft.group(&Owner::default(), Place::Offset(0))?;
        let mut places: Vec<DraftNode> = Vec::with_capacity(self.nodes.len());
        for (row, node) in self.nodes.iter().enumerate() {
            let at = Place::Row {
                table: "node",
                row: row as u64,
            };
            let Some(parent) = node.parent.and_then(|parent| places.get(parent).copied()) else {
                // The format's own root is ours.
                places.push(root);
                continue;
            };
            let method = match self.cost_centres.get(&node.id).filter(|_| self.is_ghc) {
                Some(centre) => draft.method(&centre.label, &centre.module)?,
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
                    draft.method(&name, module)?
                }
            };
            places.push(draft.child(parent, method, at)?);
        }
        Ok(places)
    }

    /// The samples of an old CPU profile: each lasts until the next.
    fn add_samples(&self, draft: &mut Draft, places: &[DraftNode]) -> Result<(), Fault> {
        let ids = self
            .nodes
            .iter()
            .map(|node| node.id)
            .zip(places.iter().copied());
        let by_id: FxHashMap<u64, DraftNode> = ids.collect();
        let (mut skipped, mut read) = (Skipped::new("samples"), 0);
        for (index, sample) in self.samples.iter().enumerate() {
            let Some(node) = by_id.get(sample) else {
                let at = Place::Row {
                    table: "sample",
                    row: index as u64,
                };
                skipped.add(format!("it is of node {sample}, which is not there"), at);
                continue;
            };
            read += 1;
            draft.add(0, *node, 1);
            let start = self.timestamps.get(index);
            let end = self.timestamps.get(index + 1).copied();
            let end = end.unwrap_or(self.end_time * 1e6);
            if let Some(start) = start {
                draft.add(1, *node, ((end - start).max(0.0) * 1000.0).round() as i64);
            }
        }
        skipped.finish(read, draft)
    }
}

fn number(reader: &mut Reader<'_>) -> Result<f64, Fault> {
    let at = place(&reader.current_position(false));
    let text = reader.next_number_as_str().map_err(fault)?;
    text.parse()
        .map_err(|_| Fault::damaged(format!("{text} is no number"), at))
}

fn place(position: &JsonReaderPosition) -> Place {
    match (&position.line_pos, position.data_pos) {
        (Some(line), _) => Place::Column {
            line: line.line + 1,
            column: line.column + 1,
        },
        (None, offset) => Place::Offset(offset.unwrap_or(0)),
    }
}

fn fault(error: ReaderError) -> Fault {
    let (what, location) = match error {
        // The parser's own word for what is no UTF-8.
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
        other => return Fault::damaged(other.to_string(), Place::Offset(0)),
    };
    Fault::damaged(what, place(&location))
}
