//! Findings in the JSON of every command whose method makes them.

use crate::phrases::{claim_sentence, doubt_lines, evidence_lines, rank_line, speedup_line};
use profile::{FINDING_SCHEMA, Finding};
use serde::{Deserialize, Serialize};

/// A finding, with its sentences.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JsonClaim {
    /// The claim.
    pub sentence: String,
    /// Effect of a speedup of the place, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speedup: Option<String>,
    /// Evidence for the claim, the strongest first.
    pub lines: Vec<String>,
    /// Reasons for which the claim may be wrong.
    pub doubt_lines: Vec<String>,
    /// Why the finding stands where it stands in the order of `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// The finding as data.
    #[serde(flatten)]
    pub finding: Finding,
}

impl From<Finding> for JsonClaim {
    fn from(finding: Finding) -> Self {
        Self {
            sentence: claim_sentence(&finding),
            speedup: speedup_line(&finding),
            lines: evidence_lines(&finding),
            doubt_lines: doubt_lines(&finding),
            rank: rank_line(&finding),
            finding,
        }
    }
}

/// The part of a report's JSON common to all methods; see `docs/json.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JsonClaims {
    schema: String,
    /// The claims, in the report's order.
    pub list: Vec<JsonClaim>,
}

impl JsonClaims {
    /// Makes the claims of a report, in its order.
    pub fn of_findings(findings: Vec<Finding>) -> Self {
        Self {
            schema: FINDING_SCHEMA.to_owned(),
            list: findings.into_iter().map(JsonClaim::from).collect(),
        }
    }

    /// Returns the findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter().map(|claim| &claim.finding)
    }
}
