//! `vitalfew query`: SQL over a database.
//!
//! The engine is SQLite, in memory: vitalfew fills the tables that the query names (and, for
//! samples, the columns) from the epochs, and runs the query on them.

mod answer;
mod tables;

use crate::args::Query as Args;
use crate::exit;
use crate::screen::warn_user;
use crate::source;
use answer::answer_query;
use profile::{EventId, ImageId, NameId, Procedure, Recording, Sample, StackId, SymbolTable, Unit};
use results::{RecordingSource, drained_epochs, name_locations, symbol_gaps};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use rustc_hash::FxHashMap;
use std::process::ExitCode;
use std::rc::Rc;
use store::{Epoch, Wanted};
use symbols::Detail;
use tables::{EPOCHS, EVENTS, IMAGES, SAMPLES, THREADS, TableShape, create_tables, name_of};

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let epochs = source::choose_epochs(&args.chosen)?;
    let epochs = drained_epochs(epochs, &store::default_database())?;
    let words = lower_words(&args.sql);
    let mut connection = Connection::open_in_memory()?;
    let mut warnings = Vec::new();
    fill_tables(&mut connection, &epochs, args, &words, &mut warnings)?;
    connection.pragma_update(None, "query_only", true)?;
    answer_query(&connection, args)?;
    for warning in warnings {
        warn_user(&warning);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the words of a query in lower case. Other tables and columns need not be made.
fn lower_words(sql: &str) -> Vec<String> {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = sql.split(word).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

fn names_word(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}

fn fill_tables(
    connection: &mut Connection,
    epochs: &[Epoch],
    args: &Args,
    words: &[String],
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let transaction = connection.transaction()?;
    // `*` names every column except the slow ones.
    let all = args.sql.contains('*');
    let costly = |name: &str| matches!(name, "procedure" | "stack");
    let wanted: Vec<&'static str> = SAMPLES
        .columns
        .iter()
        .copied()
        .filter(|column| {
            let name = name_of(column);
            names_word(words, name) || (all && !costly(name)) || name == "count"
        })
        .collect();
    {
        let mut samples = transaction.prepare(&create_tables(&transaction, &SAMPLES, &wanted)?)?;
        let insert = |shape: &TableShape| -> rusqlite::Result<rusqlite::Statement<'_>> {
            transaction.prepare(&create_tables(&transaction, shape, shape.columns)?)
        };
        let mut threads = insert(&THREADS)?;
        let mut events = insert(&EVENTS)?;
        let mut images = insert(&IMAGES)?;
        let mut described = insert(&EPOCHS)?;
        let tables = [SAMPLES, THREADS, EVENTS, IMAGES, EPOCHS];
        if !tables.iter().any(|table| names_word(words, table.name)) {
            return Ok(()); // no table is named: SQLite reports errors, if any
        }
        let named = |column: &str| wanted.iter().any(|wanted| name_of(wanted) == column);
        let parts = Wanted {
            processes: named("process"),
            cgroups: named("cgroup"),
            ids: named("pid") || named("tid"),
            callers: named("stack") || named("labels"),
            threads: names_word(words, THREADS.name),
        };
        let others = [THREADS, EVENTS, IMAGES, EPOCHS];
        let apart = named("epoch")
            || named("host")
            || others.iter().any(|table| names_word(words, table.name));
        // If no column separates the epochs, they are read as one.
        for epochs in epochs.chunks(if apart { 1 } else { epochs.len().max(1) }) {
            let Some(epoch) = epochs.first() else {
                continue;
            };
            let recording = match source::read_epochs(epochs, parts) {
                Ok(recording) => recording,
                Err(error) => {
                    exit::note_left_out();
                    warnings.push(store::left_out(&error));
                    continue;
                }
            };
            warnings.extend(
                recording
                    .warnings
                    .iter()
                    .filter(|w| store::is_left_out(w))
                    .cloned(),
            );
            let of: Of = [text_value(&epoch.name()), text_value(&recording.host.name)];
            if names_word(words, SAMPLES.name) {
                fill_samples(&mut samples, &recording, &of, &wanted, args, warnings)?;
            }
            fill_rest(
                [&mut threads, &mut events, &mut images, &mut described],
                &recording,
                &of,
                epoch.open,
                words,
            )?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Epoch and host.
type Of = [Value; 2];

fn text_value(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn integer_value(number: u64) -> Value {
    // As in the tables on disk: a value that does not fit keeps its bits.
    Value::Integer(number as i64)
}

fn fill_samples(
    statement: &mut rusqlite::Statement<'_>,
    recording: &Recording,
    of: &Of,
    wanted: &[&str],
    args: &Args,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let has = |name: &str| wanted.iter().any(|column| name_of(column) == name);
    let stacks = &recording.stacks;
    let locations: Vec<profile::Location> = match (has("stack"), has("procedure")) {
        (true, _) => stacks.frames().iter().map(|frame| frame.location).collect(),
        (_, true) => recording
            .samples
            .iter()
            .map(|s| stacks.frame(s.stack).location)
            .collect(),
        _ => Vec::new(),
    };
    let source = RecordingSource {
        debug_dirs: args.debug_dir.clone(),
        ..RecordingSource::default()
    };
    let resolved = name_locations(recording, locations, Detail::Procedures, &source);
    for gap in symbol_gaps(recording, None, &resolved, false) {
        if !warnings.contains(&gap) {
            warnings.push(gap);
        }
    }
    let table = &resolved.table;
    let texts = SharedTexts::new(recording);
    for (sample, [count, weight, stack]) in group_rows(recording, table, has) {
        let stack = StackId(stack as u32);
        let location = recording.stacks.frame(stack).location;
        let image = location.image.0 as usize;
        let id = |id: Option<u32>| id.map_or(Value::Null, |id| integer_value(id.into()));
        let values = wanted.iter().map(|column| match name_of(column) {
            "epoch" => of[0].clone(),
            "host" => of[1].clone(),
            "event" => bound(texts.events.get(usize::from(sample.event.0))),
            "process" => bound(texts.names.get(sample.process.0 as usize)),
            "pid" => id(sample.pid),
            "tid" => id(sample.tid),
            "cgroup" => bound(sample.cgroup.and_then(|id| texts.names.get(id.0 as usize))),
            "labels" => bound(sample.labels.and_then(|id| texts.names.get(id.0 as usize))),
            "image" => bound(texts.images.get(image)),
            "build_id" => bound(texts.build_ids.get(image).and_then(Option::as_ref)),
            "offset" => integer_value(location.offset.0),
            "procedure" => procedure_name(table, location),
            "stack" => Value::Text(folded_stack(recording, table, stack)),
            "count" => integer_value(count),
            _ => integer_value(weight),
        });
        statement.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Texts that many rows share.
struct SharedTexts {
    events: Vec<Rc<str>>,
    names: Vec<Rc<str>>,
    images: Vec<Rc<str>>,
    build_ids: Vec<Option<Rc<str>>>,
}

impl SharedTexts {
    fn new(recording: &Recording) -> Self {
        let shared = |text: &str| -> Rc<str> { Rc::from(text) };
        let build_id = |image: &profile::Image| {
            let id = image.build_id.as_ref();
            id.map(|id| shared(&id.to_string()))
        };
        Self {
            events: recording.events.iter().map(|e| shared(&e.name)).collect(),
            names: recording.names.iter().map(shared).collect(),
            images: recording.images.iter().map(|i| shared(&i.path)).collect(),
            build_ids: recording.images.iter().map(build_id).collect(),
        }
    }
}

fn bound(text: Option<&Rc<str>>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_string()))
}

/// Sums up the samples that agree in all columns of the query (`has`): their count, their weight,
/// and a stack of one of them. A row is an aggregate, whatever its size.
fn group_rows(
    recording: &Recording,
    table: &SymbolTable,
    has: impl Fn(&str) -> bool,
) -> Vec<(Sample, [u64; 3])> {
    let mut rows: FxHashMap<Sample, [u64; 3]> = FxHashMap::default();
    let mut representatives = Representatives::default();
    let exact = has("offset") || has("stack");
    for sample in &recording.samples {
        let location = recording.stacks.frame(sample.stack).location;
        let key = Sample {
            cgroup: sample.cgroup.filter(|_| has("cgroup")),
            labels: sample.labels.filter(|_| has("labels")),
            event: if has("event") {
                sample.event
            } else {
                EventId(0)
            },
            process: if has("process") {
                sample.process
            } else {
                NameId(0)
            },
            pid: sample.pid.filter(|_| has("pid")),
            tid: sample.tid.filter(|_| has("tid")),
            stack: match () {
                () if exact => sample.stack,
                () if has("procedure") => {
                    representatives.of(table.procedure(location), location.image, sample.stack)
                }
                () if has("image") || has("build_id") => StackId(location.image.0),
                () => StackId(0),
            },
            slice: None,
            waker: None,
            count: 0,
            weight: 0,
        };
        let row = rows.entry(key).or_insert([0, 0, sample.stack.0.into()]);
        row[0] = row[0].saturating_add(sample.count);
        let units = recording.event(sample.event).units_of_weight(sample.weight);
        row[1] = row[1].saturating_add(units);
    }
    let mut rows: Vec<(Sample, [u64; 3])> = rows.into_iter().collect();
    rows.sort_unstable();
    rows
}

/// Representative stack of each procedure of an image, and of the image's other code.
#[derive(Default)]
struct Representatives<'a>(FxHashMap<(ImageId, Option<&'a str>), StackId>);

impl<'a> Representatives<'a> {
    fn of(&mut self, procedure: Option<&'a Procedure>, image: ImageId, stack: StackId) -> StackId {
        let name = procedure.map(|procedure| &*procedure.name);
        *self.0.entry((image, name)).or_insert(stack)
    }
}

fn procedure_name(table: &SymbolTable, location: profile::Location) -> Value {
    let procedure = table.procedure(location);
    procedure.map_or(Value::Null, |procedure| text_value(&procedure.name))
}

/// Returns the procedures of a stack, outermost first, in the form of flame graphs.
fn folded_stack(recording: &Recording, table: &SymbolTable, stack: profile::StackId) -> String {
    let frame = |location| match table.procedure(location) {
        Some(procedure) => procedure.name.replace(';', ":"),
        None => format!("[{}]", recording.image(location.image).path),
    };
    let mut frames: Vec<String> = recording.stacks.locations(stack).map(frame).collect();
    frames.reverse();
    frames.join(";")
}

fn fill_rest(
    statements: [&mut rusqlite::Statement<'_>; 4],
    recording: &Recording,
    of: &Of,
    open: bool,
    words: &[String],
) -> rusqlite::Result<()> {
    let [threads, events, images, described] = statements;
    let row = |values: Vec<Value>| params_from_iter(of.iter().cloned().chain(values));
    if names_word(words, THREADS.name) {
        for thread in &recording.threads {
            threads.execute(row(vec![
                text_value(&recording.event(thread.event).name),
                text_value(recording.names.get(thread.process)),
                integer_value(thread.pid.into()),
                integer_value(thread.tid.into()),
                thread
                    .cgroup
                    .map_or(Value::Null, |id| text_value(recording.names.get(id))),
                integer_value(thread.count),
                integer_value(recording.event(thread.event).units_of_weight(thread.weight)),
            ]))?;
        }
    }
    for event in &recording.events {
        events.execute(row(vec![
            text_value(&event.name),
            text_value(match event.unit {
                Unit::Samples => "samples",
                Unit::Nanoseconds => "nanoseconds",
            }),
            integer_value(event.period),
            event.frequency.map_or(Value::Null, Value::Real),
            Value::Real(event.multiplex_scale),
            integer_value(event.taken),
            integer_value(event.stored),
            integer_value(event.dropped),
            integer_value(event.lost),
        ]))?;
    }
    let spelled = |value: serde_json::Result<serde_json::Value>| {
        let value = value.unwrap_or_default();
        value.as_str().map_or(Value::Null, text_value)
    };
    if names_word(words, IMAGES.name) {
        for image in &recording.images {
            images.execute(row(vec![
                text_value(&image.path),
                spelled(serde_json::to_value(image.kind)),
                image
                    .build_id
                    .as_ref()
                    .map_or(Value::Null, |id| text_value(&id.to_string())),
                integer_value(image.gone.into()),
            ]))?;
        }
    }
    described.execute(row(vec![
        integer_value(recording.start_unix_ns),
        integer_value(recording.duration_ns),
        spelled(serde_json::to_value(recording.collector)),
        spelled(serde_json::to_value(recording.call_graph)),
        integer_value(
            recording
                .samples
                .iter()
                .map(|s| s.count)
                .fold(0, u64::saturating_add),
        ),
        integer_value(open.into()),
    ]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_query() {
        let found = lower_words("SELECT sum(Count) FROM \"samples\" -- x.y");
        for word in ["select", "count", "samples", "y"] {
            assert!(names_word(&found, word), "{word}");
        }
        assert!(!names_word(&found, "sample"));
    }
}
