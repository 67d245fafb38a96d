//! `vitalfew interference report --json`; the schema is documented in docs/json.md.

use crate::claims::JsonClaims;
use profile::Interference;
use results::command_words;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    confidence: f64,
    functions_total: usize,
    claims: JsonClaims,
    #[serde(flatten)]
    result: &'a Interference,
}

/// Writes the documented form, of a result in the file `file` if it has a name for the reader.
pub fn write(
    result: &Interference,
    count: usize,
    file: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let functions_total = result.functions.len();
    let mut result = result.clone();
    result.functions.truncate(count);
    let mut next = vec!["interference", "report", "--all"];
    next.extend((!file.is_empty()).then_some(file));
    let claims = analysis::interference::findings(&result, &command_words(&next));
    let json = Json {
        schema: "vitalfew.interference/2",
        confidence: 0.95,
        functions_total,
        claims: JsonClaims::of_findings(claims),
        result: &result,
    };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}
