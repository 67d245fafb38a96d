//! Findings in the JSON of every command whose method makes them.

use profile::{FINDING_SCHEMA, Finding};
use serde::Serialize;

/// A finding, with its sentence for people.
#[derive(Serialize)]
pub struct JsonClaim {
    sentence: String,
    #[serde(flatten)]
    finding: Finding,
}

/// The part of a report's JSON that is the same for all methods; see `docs/finding.md`.
#[derive(Serialize)]
pub struct JsonClaims {
    schema: &'static str,
    list: Vec<JsonClaim>,
}

impl JsonClaims {
    /// Those of a report, in its order.
    pub fn of_findings(findings: Vec<Finding>) -> Self {
        let claim = |finding: Finding| JsonClaim {
            sentence: finding.sentence(),
            finding,
        };
        Self {
            schema: FINDING_SCHEMA,
            list: findings.into_iter().map(claim).collect(),
        }
    }
}
