//! `vitalfew query`: SQL over a database.
//!
//! The engine is SQLite, in memory: the tables (and, of the samples, the columns) that the query
//! names are filled from the epochs, and the query runs on them.

use crate::args::Query as Args;
use crate::exit::{self, Coded, USAGE};
use crate::output::{Align, Table, printable};
use crate::screen::{Screen, warn_user};
use crate::source;
use profile::{EventId, ImageId, NameId, Procedure, Recording, Sample, StackId, SymbolTable, Unit};
use results::{RecordingSource, symbol_gaps, symbolize};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use rustc_hash::FxHashMap;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use store::{Epoch, Wanted};
use symbols::Detail;

/// The name of a column that is declared so.
fn name_of(column: &str) -> &str {
    column.split(' ').next().unwrap_or_default()
}

/// A table: its name and columns.
struct Shape {
    name: &'static str,
    columns: &'static [&'static str],
}

const SAMPLES: Shape = Shape {
    name: "samples",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "event TEXT",
        "process TEXT",
        "pid INTEGER",
        "tid INTEGER",
        "image TEXT",
        "build_id TEXT",
        "offset INTEGER",
        "procedure TEXT",
        "stack TEXT",
        "count INTEGER",
        "weight INTEGER",
    ],
};

const THREADS: Shape = Shape {
    name: "threads",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "event TEXT",
        "process TEXT",
        "pid INTEGER",
        "tid INTEGER",
        "count INTEGER",
        "weight INTEGER",
    ],
};

const EVENTS: Shape = Shape {
    name: "events",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "event TEXT",
        "unit TEXT",
        "period INTEGER",
        "frequency REAL",
        "multiplex_scale REAL",
        "taken INTEGER",
        "stored INTEGER",
        "dropped INTEGER",
        "lost INTEGER",
    ],
};

const IMAGES: Shape = Shape {
    name: "images",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "path TEXT",
        "kind TEXT",
        "build_id TEXT",
        "gone INTEGER",
    ],
};

const EPOCHS: Shape = Shape {
    name: "epochs",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "start_unix_ns INTEGER",
        "duration_ns INTEGER",
        "collector TEXT",
        "call_graph TEXT",
        "samples INTEGER",
        "open INTEGER",
    ],
};

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let epochs = source::choose(&args.chosen)?;
    let words = words(&args.sql);
    let mut connection = Connection::open_in_memory()?;
    let mut warnings = Vec::new();
    fill(&mut connection, &epochs, args, &words, &mut warnings)?;
    connection.pragma_update(None, "query_only", true)?;
    answer(&connection, args)?;
    for warning in warnings {
        warn_user(&warning);
    }
    Ok(ExitCode::SUCCESS)
}

/// The words of a query in lower case: what is not named need not be there.
fn words(sql: &str) -> Vec<String> {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = sql.split(word).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

fn names(words: &[String], name: &str) -> bool {
    words.iter().any(|word| word == name)
}

fn create(connection: &Connection, shape: &Shape, columns: &[&str]) -> rusqlite::Result<String> {
    let quoted: Vec<String> = columns
        .iter()
        .map(|column| {
            let (name, kind) = column.split_once(' ').unwrap_or((column, ""));
            format!("\"{name}\" {kind}")
        })
        .collect();
    let name = shape.name;
    connection.execute_batch(&format!("CREATE TABLE {name} ({})", quoted.join(", ")))?;
    let holes = vec!["?"; columns.len()].join(", ");
    Ok(format!("INSERT INTO {name} VALUES ({holes})"))
}

fn fill(
    connection: &mut Connection,
    epochs: &[Epoch],
    args: &Args,
    words: &[String],
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let transaction = connection.transaction()?;
    // `*` names every column but those that cost time.
    let all = args.sql.contains('*');
    let costly = |name: &str| matches!(name, "procedure" | "stack");
    let wanted: Vec<&'static str> = SAMPLES
        .columns
        .iter()
        .copied()
        .filter(|column| {
            let name = name_of(column);
            names(words, name) || (all && !costly(name)) || name == "count"
        })
        .collect();
    {
        let mut samples = transaction.prepare(&create(&transaction, &SAMPLES, &wanted)?)?;
        let insert = |shape: &Shape| -> rusqlite::Result<rusqlite::Statement<'_>> {
            transaction.prepare(&create(&transaction, shape, shape.columns)?)
        };
        let mut threads = insert(&THREADS)?;
        let mut events = insert(&EVENTS)?;
        let mut images = insert(&IMAGES)?;
        let mut described = insert(&EPOCHS)?;
        let tables = [SAMPLES, THREADS, EVENTS, IMAGES, EPOCHS];
        if !tables.iter().any(|table| names(words, table.name)) {
            return Ok(()); // no table is named: SQLite says what is wrong, if anything is
        }
        let named = |column: &str| wanted.iter().any(|wanted| name_of(wanted) == column);
        let parts = Wanted {
            processes: named("process"),
            ids: named("pid") || named("tid"),
            callers: named("stack"),
            threads: names(words, THREADS.name),
        };
        let others = [THREADS, EVENTS, IMAGES, EPOCHS];
        let apart =
            named("epoch") || named("host") || others.iter().any(|table| names(words, table.name));
        // Where nothing tells the epochs apart, they are read as one.
        for epochs in epochs.chunks(if apart { 1 } else { epochs.len().max(1) }) {
            let Some(epoch) = epochs.first() else {
                continue;
            };
            let recording = match source::read(epochs, parts) {
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
            let of: Of = [text(&epoch.name()), text(&recording.host.name)];
            if names(words, SAMPLES.name) {
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

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn whole(number: u64) -> Value {
    // As the tables on disk have it: what does not fit keeps its bits.
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
    let resolved = symbolize(recording, locations, Detail::Procedures, &source);
    for gap in symbol_gaps(recording, None, &resolved, false) {
        if !warnings.contains(&gap) {
            warnings.push(gap);
        }
    }
    let table = &resolved.table;
    // Texts are bound once for all rows that share them.
    let shared = |text: &str| -> Rc<str> { Rc::from(text) };
    let events: Vec<Rc<str>> = recording.events.iter().map(|e| shared(&e.name)).collect();
    let names: Vec<Rc<str>> = recording.names.iter().map(shared).collect();
    let images: Vec<Rc<str>> = recording.images.iter().map(|i| shared(&i.path)).collect();
    let build_ids: Vec<Option<Rc<str>>> = recording
        .images
        .iter()
        .map(|image| image.build_id.as_ref().map(|id| shared(&id.to_string())))
        .collect();
    let bound =
        |text: Option<&Rc<str>>| text.map_or(Value::Null, |text| Value::Text(text.to_string()));
    // Rows that agree in all columns of the query are one: a row is an aggregate, whatever its size.
    let mut rows: FxHashMap<Sample, [u64; 3]> = FxHashMap::default();
    let mut representatives = Representatives::default();
    let exact = has("offset") || has("stack");
    for sample in &recording.samples {
        let location = stacks.frame(sample.stack).location;
        let key = Sample {
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
            waker: None,
            count: 0,
            weight: 0,
        };
        let row = rows.entry(key).or_insert([0, 0, sample.stack.0.into()]);
        row[0] = row[0].saturating_add(sample.count);
        row[1] = row[1].saturating_add(sample.weight);
    }
    let mut rows: Vec<(Sample, [u64; 3])> = rows.into_iter().collect();
    rows.sort_unstable();
    for (sample, [count, weight, stack]) in rows {
        let stack = StackId(stack as u32);
        let location = stacks.frame(stack).location;
        let image = location.image.0 as usize;
        let values = wanted.iter().map(|column| match name_of(column) {
            "epoch" => of[0].clone(),
            "host" => of[1].clone(),
            "event" => bound(events.get(usize::from(sample.event.0))),
            "process" => bound(names.get(sample.process.0 as usize)),
            "pid" => sample.pid.map_or(Value::Null, |id| whole(id.into())),
            "tid" => sample.tid.map_or(Value::Null, |id| whole(id.into())),
            "image" => bound(images.get(image)),
            "build_id" => bound(build_ids.get(image).and_then(Option::as_ref)),
            "offset" => whole(location.offset.0),
            "procedure" => procedure(table, location),
            "stack" => Value::Text(folded(recording, table, stack)),
            "count" => whole(count),
            _ => whole(weight),
        });
        statement.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// For each procedure of an image, and for what is in none, a stack that stands for it.
#[derive(Default)]
struct Representatives<'a>(FxHashMap<(ImageId, Option<&'a str>), StackId>);

impl<'a> Representatives<'a> {
    fn of(&mut self, procedure: Option<&'a Procedure>, image: ImageId, stack: StackId) -> StackId {
        let name = procedure.map(|procedure| &*procedure.name);
        *self.0.entry((image, name)).or_insert(stack)
    }
}

fn procedure(table: &SymbolTable, location: profile::Location) -> Value {
    let procedure = table.procedure(location);
    procedure.map_or(Value::Null, |procedure| text(&procedure.name))
}

/// The procedures of a stack, outermost first, as flame graphs spell it.
fn folded(recording: &Recording, table: &SymbolTable, stack: profile::StackId) -> String {
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
    if names(words, THREADS.name) {
        for thread in &recording.threads {
            threads.execute(row(vec![
                text(&recording.event(thread.event).name),
                text(recording.names.get(thread.process)),
                whole(thread.pid.into()),
                whole(thread.tid.into()),
                whole(thread.count),
                whole(thread.weight),
            ]))?;
        }
    }
    for event in &recording.events {
        events.execute(row(vec![
            text(&event.name),
            text(match event.unit {
                Unit::Samples => "samples",
                Unit::Nanoseconds => "nanoseconds",
            }),
            whole(event.period),
            event.frequency.map_or(Value::Null, Value::Real),
            Value::Real(event.multiplex_scale),
            whole(event.taken),
            whole(event.stored),
            whole(event.dropped),
            whole(event.lost),
        ]))?;
    }
    let spelled = |value: serde_json::Result<serde_json::Value>| {
        let value = value.unwrap_or_default();
        value.as_str().map_or(Value::Null, text)
    };
    if names(words, IMAGES.name) {
        for image in &recording.images {
            images.execute(row(vec![
                text(&image.path),
                spelled(serde_json::to_value(image.kind)),
                image
                    .build_id
                    .as_ref()
                    .map_or(Value::Null, |id| text(&id.to_string())),
                whole(image.gone.into()),
            ]))?;
        }
    }
    described.execute(row(vec![
        whole(recording.start_unix_ns),
        whole(recording.duration_ns),
        spelled(serde_json::to_value(recording.collector)),
        spelled(serde_json::to_value(recording.call_graph)),
        whole(
            recording
                .samples
                .iter()
                .map(|s| s.count)
                .fold(0, u64::saturating_add),
        ),
        whole(open.into()),
    ]))?;
    Ok(())
}

fn answer(connection: &Connection, args: &Args) -> anyhow::Result<()> {
    let wrong = |error: rusqlite::Error| Coded {
        code: USAGE,
        message: format!("the query: {error}"),
    };
    if args.sql.trim().is_empty() {
        let message = "the query is empty".to_owned();
        return Err(Coded {
            code: USAGE,
            message,
        }
        .into());
    }
    let mut statement = connection.prepare(&args.sql).map_err(wrong)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([]).map_err(wrong)?;
    let mut table: Vec<Vec<Value>> = Vec::new();
    while let Some(row) = rows.next().map_err(wrong)? {
        let value = |index| row.get_ref(index).map(owned);
        let cells = (0..columns.len())
            .map(value)
            .collect::<rusqlite::Result<_>>();
        table.push(cells.map_err(wrong)?);
    }
    let mut out = if args.csv {
        Screen::data()
    } else {
        Screen::open(args.json)
    };
    if args.json {
        let object = |row: &Vec<Value>| {
            let pairs = columns.iter().cloned().zip(row.iter().map(json));
            serde_json::Value::Object(pairs.collect())
        };
        let rows: Vec<serde_json::Value> = table.iter().map(object).collect();
        serde_json::to_writer_pretty(&mut out, &rows).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else if args.csv {
        let line = |cells: Vec<String>| cells.join(",");
        writeln!(
            out,
            "{}",
            line(columns.iter().map(|name| csv(name)).collect())
        )?;
        for row in &table {
            writeln!(
                out,
                "{}",
                line(row.iter().map(|v| csv(&plain(v))).collect())
            )?;
        }
    } else {
        write!(out, "{}", rendered(columns, &table).render())?;
    }
    out.flush()?;
    Ok(())
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        other => plain(other).into(),
    }
}

fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn rendered(columns: Vec<String>, rows: &[Vec<Value>]) -> Table {
    let numeric = |index: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(index));
        cells.all(|cell| matches!(cell, Value::Integer(_) | Value::Real(_) | Value::Null))
    };
    let aligned = columns.into_iter().enumerate().map(|(index, name)| {
        let align = if numeric(index) {
            Align::Right
        } else {
            Align::Left
        };
        (printable(&name), align)
    });
    let mut table = Table::new(aligned.collect());
    for row in rows {
        table.row(row.iter().map(|value| printable(&plain(value))).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_query() {
        let found = words("SELECT sum(Count) FROM \"samples\" -- x.y");
        for word in ["select", "count", "samples", "y"] {
            assert!(names(&found, word), "{word}");
        }
        assert!(!names(&found, "sample"));
    }

    #[test]
    fn separated_values_are_quoted() {
        assert_eq!(csv("a"), "a");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
