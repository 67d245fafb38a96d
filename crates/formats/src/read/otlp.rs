//! OpenTelemetry's profiles (`opentelemetry.proto.profiles.v1development`): a message of tables
//! shared by all profiles, and profiles whose samples refer to these. The tables may come last, so
//! a file is read whole. Three versions of the schema are supported.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use super::pprof::{Message, WireValue};
use super::skipped::Skipped;
use crate::frame::base_of_path;
use profile::{MethodId, ValueType};
use rustc_hash::FxHashMap;

/// A file needs several times its size while it is read.
const MEMORY_FOR_BYTE: u64 = 16;

/// Returns whether the first bytes of a file look like such profiles: nested messages, where pprof
/// has numbers.
pub(crate) fn detect_otlp(head: &[u8], is_whole: bool) -> bool {
    let mut message = Message::new(head);
    let mut fields = 0;
    loop {
        match message.next_field() {
            Ok(Some((1, WireValue::Bytes(resource)))) if is_resource(resource) => fields += 1,
            Ok(Some((2, WireValue::Bytes(_)))) if fields > 0 => {}
            Ok(None) => return fields > 0,
            Ok(Some(_)) => return false,
            // The field reaches beyond the available bytes: the available part must look right.
            Err(_) => {
                let inner = Message::new(head.get(1..).unwrap_or_default());
                return !is_whole
                    && (fields > 0 || head.first() == Some(&0x0a) && begins_with_resource(inner));
            }
        }
    }
}

/// Returns whether a message consists of a resource and its profiles.
fn is_resource(mut message: Message<'_>) -> bool {
    let mut fields = 0;
    loop {
        match message.next_field() {
            Ok(Some((1..=3, WireValue::Bytes(_)))) => fields += 1,
            Ok(None) => return fields > 0,
            _ => return false,
        }
    }
}

/// Returns the same for a truncated message with a length prefix.
fn begins_with_resource(mut message: Message<'_>) -> bool {
    message.read_varint().is_ok() && matches!(message.field_bytes().first(), Some(0x0a | 0x12))
}

#[derive(Clone, Copy, Default)]
struct LocationRow {
    mapping: u64,
    address: u64,
    /// Its lines, as a range of [`OtlpTables::lines`].
    lines: (usize, usize),
}

/// The tables to which profiles refer.
#[derive(Default)]
struct OtlpTables<'b> {
    strings: Vec<&'b [u8]>,
    /// Start and file name.
    mappings: Vec<(u64, u64, u64)>,
    locations: Vec<LocationRow>,
    /// Function and line.
    lines: Vec<(u64, u64)>,
    /// Name and system name.
    functions: Vec<(u64, u64)>,
    stacks: Vec<Message<'b>>,
    /// Key and text.
    attributes: Vec<(String, String)>,
}

/// The fields of a sample.
#[derive(Default)]
struct SampleRow {
    /// The new schema's stack, or the old one's first location.
    first: u64,
    length: u64,
    values: Vec<u64>,
    attributes: Vec<u64>,
    timestamps: u64,
}

pub(crate) fn read_otlp(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let bytes = input.read_whole(options.limits.memory / MEMORY_FOR_BYTE)?;
    let mut draft = TreeDraft::new(Vec::new(), options);
    draft.charge_memory(
        bytes.len() as u64 * MEMORY_FOR_BYTE,
        FilePosition::Offset(0),
    )?;
    let mut tables = OtlpTables::default();
    let mut resources = Vec::new();
    let mut message = Message::new(&bytes);
    while let Some((field, value)) = message.next_field()? {
        match (field, value) {
            (1, WireValue::Bytes(resource)) => resources.push(resource),
            (2, WireValue::Bytes(dictionary)) => tables.read_dictionary(dictionary)?,
            _ => {}
        }
    }
    let mut reader = OtlpReader {
        tables,
        draft,
        options,
        types: FxHashMap::default(),
        methods: FxHashMap::default(),
        unnamed: 0,
        skipped: Skipped::new("samples"),
        read: 0,
    };
    for resource in resources {
        reader.read_resource(resource)?;
    }
    let OtlpReader {
        mut draft,
        skipped,
        read,
        unnamed,
        ..
    } = reader;
    skipped.note_skipped(read, &mut draft)?;
    if unnamed > 0 {
        draft.add_note(format!("{unnamed} places have no symbol"));
    }
    Ok(draft)
}

impl<'b> OtlpTables<'b> {
    fn read_dictionary(&mut self, mut dictionary: Message<'b>) -> Result<(), ReadFault> {
        let mut attributes = Vec::new();
        while let Some((field, value)) = dictionary.next_field()? {
            let WireValue::Bytes(message) = value else {
                continue;
            };
            match field {
                1 => {
                    let [start, _, offset, name] = read_number_fields(message, [1, 2, 3, 4])?;
                    self.mappings.push((start, offset, name));
                }
                2 => self.read_location(message)?,
                3 => {
                    let [name, system_name] = read_number_fields(message, [1, 2])?;
                    self.functions.push((name, system_name));
                }
                5 => self.strings.push(message.field_bytes()),
                6 => attributes.push(message),
                7 => self.stacks.push(message),
                _ => {}
            }
        }
        // Keys may be strings of the table.
        for attribute in attributes {
            let attribute = self.read_attribute(attribute)?;
            self.attributes.push(attribute);
        }
        Ok(())
    }

    fn read_location(&mut self, mut message: Message<'b>) -> Result<(), ReadFault> {
        let first = self.lines.len();
        let mut row = LocationRow::default();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, value) => row.mapping = value.as_number(),
                (2, value) => row.address = value.as_number(),
                (3, WireValue::Bytes(line)) => {
                    let [function, line] = read_number_fields(line, [1, 2])?;
                    self.lines.push((function, line));
                }
                _ => {}
            }
        }
        row.lines = (first, self.lines.len());
        self.locations.push(row);
        Ok(())
    }

    /// Reads key and value, if that is text; the key is a string or the number of one.
    fn read_attribute(&self, mut message: Message<'b>) -> Result<(String, String), ReadFault> {
        let (mut key, mut text) = (String::new(), String::new());
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, WireValue::Number(number)) => key = self.string_at(number),
                (1, WireValue::Bytes(name)) => key = lossy_text(name.field_bytes()),
                (2, WireValue::Bytes(mut value)) => {
                    while let Some((kind, value)) = value.next_field()? {
                        text = match (kind, value) {
                            (1, WireValue::Bytes(value)) => lossy_text(value.field_bytes()),
                            (3, WireValue::Number(number)) => (number as i64).to_string(),
                            (_, _) => continue,
                        };
                    }
                }
                _ => {}
            }
        }
        Ok((key, text))
    }

    fn string_at(&self, number: u64) -> String {
        let index = usize::try_from(number).ok();
        lossy_text(
            index
                .and_then(|index| self.strings.get(index))
                .copied()
                .unwrap_or_default(),
        )
    }
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the numbers of some fields of a message, 0 for those that are not set.
fn read_number_fields<const N: usize>(
    mut message: Message<'_>,
    fields: [u64; N],
) -> Result<[u64; N], ReadFault> {
    let mut found = [0; N];
    while let Some((field, value)) = message.next_field()? {
        for (wanted, found) in fields.iter().zip(&mut found) {
            if *wanted == field {
                *found = value.as_number();
            }
        }
    }
    Ok(found)
}

/// Order of the fields of a sample: the schema changed twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SampleLayout {
    /// First location, their number, values, attributes, link, times.
    Ranges,
    /// Stack, values, attributes, link, times.
    ValuesFirst,
    /// Stack, attributes, link, values, times.
    ValuesLast,
}

fn sample_row(mut message: Message<'_>, layout: SampleLayout) -> Result<SampleRow, ReadFault> {
    use SampleLayout::{Ranges, ValuesFirst, ValuesLast};
    let mut row = SampleRow::default();
    while let Some((field, value)) = message.next_field()? {
        match (field, layout) {
            (1, _) => row.first = value.as_number(),
            (2, Ranges) => row.length = value.as_number(),
            (3, Ranges) | (2, ValuesFirst) | (4, ValuesLast) => {
                value.append_numbers(&mut row.values)?
            }
            (4, Ranges) | (3, ValuesFirst) | (2, ValuesLast) => {
                value.append_numbers(&mut row.attributes)?;
            }
            (6, Ranges) | (5, ValuesFirst | ValuesLast) => {
                row.timestamps += match value {
                    WireValue::Number(_) => 1,
                    // Varints, or numbers of eight bytes.
                    WireValue::Bytes(packed) if layout == Ranges => packed
                        .field_bytes()
                        .iter()
                        .filter(|b| **b & 0x80 == 0)
                        .count()
                        as u64,
                    WireValue::Bytes(packed) => packed.field_bytes().len() as u64 / 8,
                };
            }
            _ => {}
        }
    }
    Ok(row)
}

struct OtlpReader<'b, 'o> {
    tables: OtlpTables<'b>,
    draft: TreeDraft,
    options: &'o ReadOptions,
    /// Value types by name and unit.
    types: FxHashMap<(String, String), usize>,
    /// Methods by location: outermost last.
    methods: FxHashMap<u64, Vec<MethodId>>,
    unnamed: u64,
    skipped: Skipped,
    read: u64,
}

impl<'b> OtlpReader<'b, '_> {
    fn read_resource(&mut self, mut message: Message<'b>) -> Result<(), ReadFault> {
        let mut attributes = Vec::new();
        let mut scopes = Vec::new();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, WireValue::Bytes(mut resource)) => {
                    while let Some((field, value)) = resource.next_field()? {
                        if let (1, WireValue::Bytes(attribute)) = (field, value) {
                            attributes.push(self.tables.read_attribute(attribute)?);
                        }
                    }
                }
                (2, WireValue::Bytes(scope)) => scopes.push(scope),
                _ => {}
            }
        }
        for mut scope in scopes {
            while let Some((field, value)) = scope.next_field()? {
                if let (2, WireValue::Bytes(profile)) = (field, value) {
                    self.read_profile(profile, &attributes)?;
                }
            }
        }
        Ok(())
    }

    fn read_profile(
        &mut self,
        mut message: Message<'b>,
        resource: &[(String, String)],
    ) -> Result<(), ReadFault> {
        let mut types = Vec::new();
        let mut samples = Vec::new();
        let mut indices = Vec::new();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, WireValue::Bytes(value_type)) => {
                    types.push(read_number_fields(value_type, [1, 2])?)
                }
                (2, WireValue::Bytes(sample)) => samples.push(sample),
                // The old schema's list of locations; a time in the new one.
                (3, value @ WireValue::Bytes(_)) => value.append_numbers(&mut indices)?,
                _ => {}
            }
        }
        let mut values = Vec::with_capacity(types.len());
        for [name, unit] in types {
            let key = (self.tables.string_at(name), self.tables.string_at(unit));
            let next = self.types.len();
            let value = *self.types.entry(key.clone()).or_insert(next);
            if value == next {
                let (name, unit) = key;
                self.draft.add_value_type(ValueType { name, unit });
            }
            values.push(value);
        }
        let layout = self.detect_layout(&samples)?;
        for sample in samples {
            let at = sample.file_position();
            let row = sample_row(sample, layout)?;
            let Some(locations) = self.stack_locations(&row, &indices)? else {
                self.skipped.skip_part("a stack that is not there", at);
                continue;
            };
            // With a single type, a profile may have one value for each time.
            if row.values.len() > values.len() && values.len() != 1 {
                self.skipped
                    .skip_part("more values than the profile has types of", at);
                continue;
            }
            self.read += 1;
            self.add_sample(&row, &locations, &values, resource, at)?;
        }
        Ok(())
    }

    /// Detects the layout of samples: the layouts have the same fields under different numbers.
    fn detect_layout(&self, samples: &[Message<'b>]) -> Result<SampleLayout, ReadFault> {
        if self.tables.stacks.is_empty() {
            return Ok(SampleLayout::Ranges);
        }
        let mut timed = false;
        for sample in samples {
            let mut sample = *sample;
            while let Some((field, value)) = sample.next_field()? {
                match (field, value) {
                    (4, WireValue::Bytes(_)) => return Ok(SampleLayout::ValuesLast),
                    (3, WireValue::Bytes(_)) => return Ok(SampleLayout::ValuesFirst),
                    (5, _) => timed = true,
                    _ => {}
                }
            }
        }
        Ok(if timed {
            SampleLayout::ValuesLast
        } else {
            SampleLayout::ValuesFirst
        })
    }

    /// Returns the locations of a sample's stack, innermost first.
    fn stack_locations(
        &self,
        row: &SampleRow,
        indices: &[u64],
    ) -> Result<Option<Vec<u64>>, ReadFault> {
        let Ok(first) = usize::try_from(row.first) else {
            return Ok(None);
        };
        if self.tables.stacks.is_empty() {
            let end = first.saturating_add(usize::try_from(row.length).unwrap_or(usize::MAX));
            return Ok(indices.get(first..end).map(<[u64]>::to_vec));
        }
        let Some(mut stack) = self.tables.stacks.get(first).copied() else {
            return Ok(None);
        };
        let mut locations = Vec::new();
        while let Some((field, value)) = stack.next_field()? {
            if field == 1 {
                value.append_numbers(&mut locations)?;
            }
        }
        Ok(Some(locations))
    }

    fn add_sample(
        &mut self,
        row: &SampleRow,
        locations: &[u64],
        values: &[usize],
        resource: &[(String, String)],
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let own = row
            .attributes
            .iter()
            .filter_map(|index| self.tables.attributes.get(usize::try_from(*index).ok()?));
        let all: Vec<&(String, String)> = own.chain(resource).collect();
        let text = |keys: &[&str]| {
            let found = keys
                .iter()
                .find_map(|key| all.iter().find(|(k, _)| k == key));
            found.map(|(_, text)| text.clone())
        };
        let number = |key| text(&[key]).and_then(|text| text.parse().ok());
        let (host, process, thread) = (
            text(&["host.name"]),
            text(&["process.executable.name", "service.name"]),
            text(&["thread.name"]),
        );
        let owner = Owner {
            host: host.as_deref(),
            process: process.as_deref(),
            pid: number("process.pid"),
            thread: thread.as_deref(),
            tid: number("thread.id"),
            slice: None,
        };
        let mut node = self.draft.group_node(&owner, at)?;
        for location in locations.iter().rev() {
            self.name_location(*location, at)?;
            for method in self.methods.get(location).into_iter().flatten().rev() {
                node = self.draft.child_node(node, *method, at)?;
            }
        }
        // Without values, each time counts one.
        if row.values.is_empty() {
            let count = i64::try_from(row.timestamps).unwrap_or(i64::MAX);
            if let Some(value) = values.first() {
                self.draft.add_cost(*value, node, count);
            }
        }
        if let [value] = values {
            for cost in &row.values {
                self.draft.add_cost(*value, node, cost.cast_signed());
            }
            return Ok(());
        }
        for (value, cost) in values.iter().zip(&row.values) {
            self.draft.add_cost(*value, node, cost.cast_signed());
        }
        Ok(())
    }

    fn name_location(&mut self, location: u64, at: FilePosition) -> Result<(), ReadFault> {
        if self.methods.contains_key(&location) {
            return Ok(());
        }
        let row = usize::try_from(location)
            .ok()
            .and_then(|l| self.tables.locations.get(l));
        let row = row.copied().unwrap_or_default();
        let mapping = usize::try_from(row.mapping).ok();
        let mapping = mapping
            .and_then(|index| self.tables.mappings.get(index))
            .copied();
        let (start, offset, file) = mapping.unwrap_or_default();
        let path = self.tables.string_at(file);
        let module = if path.is_empty() {
            ""
        } else {
            base_of_path(&path)
        };
        let lines = self
            .tables
            .lines
            .get(row.lines.0..row.lines.1)
            .unwrap_or_default();
        let last = lines.len().saturating_sub(1);
        let mut methods = Vec::new();
        for (depth, (function, line)) in lines.iter().enumerate() {
            if !self.options.inline && depth < last {
                continue;
            }
            let function = usize::try_from(*function).ok();
            let (name, system_name) = function
                .and_then(|function| self.tables.functions.get(function))
                .copied()
                .unwrap_or_default();
            let mut name = self
                .tables
                .string_at(if name == 0 { system_name } else { name });
            if name.is_empty() {
                continue;
            }
            if self.options.lines && *line > 0 {
                name = format!("{name}:{line}");
            }
            methods.push(self.draft.intern_method(&name, module)?);
        }
        if methods.is_empty() {
            self.unnamed += 1;
            let name = match module {
                "" => "[unknown]".to_owned(),
                module => {
                    let address = row.address.wrapping_sub(start).wrapping_add(offset);
                    format!("{module}+{address:#x}")
                }
            };
            methods.push(self.draft.intern_method(&name, module)?);
        }
        self.draft.charge_memory(64, at)?;
        self.methods.insert(location, methods);
        Ok(())
    }
}
