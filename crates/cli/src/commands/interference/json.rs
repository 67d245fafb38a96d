//! `vitalfew interference report --json`; the schema is documented in docs/interference.md.

use super::report::Report;
use profile::Interference;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    confidence: f64,
    findings_total: usize,
    #[serde(flatten)]
    result: &'a Interference,
}

/// Writes the documented form.
pub fn write(report: &Report<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let mut result = report.result.clone();
    result.findings.truncate(report.shown.len());
    let json = Json {
        schema: "vitalfew.interference/1",
        confidence: 0.95,
        findings_total: report.result.findings.len(),
        result: &result,
    };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}
