//! `vitalfew interference report --json`; the schema is documented in docs/json.md.

use super::shown_report::ShownBlocks;
use crate::claims::JsonClaims;
use profile::Interference;
use results::command_words;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    confidence: f64,
    findings_total: usize,
    claims: JsonClaims,
    #[serde(flatten)]
    result: &'a Interference,
}

/// Writes the documented form.
pub fn write(report: &ShownBlocks<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let mut result = report.result.clone();
    result.findings.truncate(report.shown.len());
    let mut next = vec!["interference", "report", "--all"];
    next.extend((!report.file.is_empty()).then_some(report.file.as_str()));
    let claims = analysis::interference::findings(report.shown, &command_words(&next));
    let json = Json {
        schema: "vitalfew.interference/1",
        confidence: 0.95,
        findings_total: report.result.findings.len(),
        claims: JsonClaims::of_findings(claims),
        result: &result,
    };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}
