//! Findings in the JSON of every command whose method makes them.

use profile::{FINDING_SCHEMA, Finding};
use serde::{Deserialize, Serialize};

/// A finding, with its sentence for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JsonClaim {
    sentence: String,
    #[serde(flatten)]
    pub finding: Finding,
}

/// The part of a report's JSON that is the same for all methods; see `docs/json.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JsonClaims {
    schema: String,
    pub list: Vec<JsonClaim>,
}

impl JsonClaims {
    /// Makes the claims of a report, in its order.
    pub fn of_findings(findings: Vec<Finding>) -> Self {
        let claim = |finding: Finding| JsonClaim {
            sentence: finding.sentence(),
            finding,
        };
        Self {
            schema: FINDING_SCHEMA.to_owned(),
            list: findings.into_iter().map(claim).collect(),
        }
    }

    /// The findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter().map(|claim| &claim.finding)
    }
}
