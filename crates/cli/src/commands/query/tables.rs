//! The tables that a query can name.

use rusqlite::Connection;

/// Returns the name in a column's declaration.
pub fn name_of(column: &str) -> &str {
    column.split(' ').next().unwrap_or_default()
}

/// A table: its name and columns.
pub struct TableShape {
    /// Its name.
    pub name: &'static str,
    /// Its columns, each with its type.
    pub columns: &'static [&'static str],
}

pub const SAMPLES: TableShape = TableShape {
    name: "samples",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "event TEXT",
        "process TEXT",
        "pid INTEGER",
        "tid INTEGER",
        "cgroup TEXT",
        "labels TEXT",
        "image TEXT",
        "build_id TEXT",
        "offset INTEGER",
        "procedure TEXT",
        "stack TEXT",
        "count INTEGER",
        "weight INTEGER",
    ],
};

pub const THREADS: TableShape = TableShape {
    name: "threads",
    columns: &[
        "epoch TEXT",
        "host TEXT",
        "event TEXT",
        "process TEXT",
        "pid INTEGER",
        "tid INTEGER",
        "cgroup TEXT",
        "count INTEGER",
        "weight INTEGER",
    ],
};

pub const EVENTS: TableShape = TableShape {
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

pub const IMAGES: TableShape = TableShape {
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

pub const EPOCHS: TableShape = TableShape {
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

pub fn create_tables(
    connection: &Connection,
    shape: &TableShape,
    columns: &[&str],
) -> rusqlite::Result<String> {
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
