//! Result of a query, as a table, separated values or JSON.

use crate::args::Query as Args;
use crate::output::{Align, Table, clean_name, write_json};
use crate::screen::Screen;
use results::{Refusal, RefusalReason, usage_refusal};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use std::io::Write;

pub fn answer_query(connection: &Connection, args: &Args) -> anyhow::Result<()> {
    let wrong = |error: rusqlite::Error| Refusal {
        reason: RefusalReason::Usage,
        message: format!("the query: {error}"),
    };
    if args.sql.trim().is_empty() {
        let message = "the query is empty".to_owned();
        return Err(usage_refusal(message));
    }
    let mut statement = connection.prepare(&args.sql).map_err(wrong)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([]).map_err(wrong)?;
    let mut table: Vec<Vec<Value>> = Vec::new();
    while let Some(row) = rows.next().map_err(wrong)? {
        let value = |index| row.get_ref(index).map(own_value);
        let cells = (0..columns.len())
            .map(value)
            .collect::<rusqlite::Result<_>>();
        table.push(cells.map_err(wrong)?);
    }
    let mut out = if args.csv {
        Screen::data_output()
    } else {
        Screen::open_output(args.json)
    };
    if args.json {
        let object = |row: &Vec<Value>| {
            let pairs = columns.iter().cloned().zip(row.iter().map(json_value));
            serde_json::Value::Object(pairs.collect())
        };
        let rows: Vec<serde_json::Value> = table.iter().map(object).collect();
        write_json(&mut out, &rows)?;
    } else if args.csv {
        let line = |cells: Vec<String>| cells.join(",");
        writeln!(
            out,
            "{}",
            line(columns.iter().map(|name| csv_field(name)).collect())
        )?;
        for row in &table {
            writeln!(
                out,
                "{}",
                line(row.iter().map(|v| csv_field(&plain_text(v))).collect())
            )?;
        }
    } else {
        write!(out, "{}", result_table(columns, &table).render())?;
    }
    out.flush()?;
    Ok(())
}

fn own_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        other => plain_text(other).into(),
    }
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn result_table(columns: Vec<String>, rows: &[Vec<Value>]) -> Table {
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
        (clean_name(&name), align)
    });
    let mut table = Table::new(aligned.collect());
    for row in rows {
        table.add_row(
            row.iter()
                .map(|value| clean_name(&plain_text(value)))
                .collect(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separated_values_are_quoted() {
        assert_eq!(csv_field("a"), "a");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
