//! Epochs as JSON; the form is documented in docs/json.md.

use serde::Serialize;
use store::{Epoch, RecordingSummary};

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    epochs: Vec<JsonEpoch<'a>>,
}

#[derive(Serialize)]
struct JsonEpoch<'a> {
    epoch: String,
    path: String,
    open: bool,
    #[serde(flatten)]
    summary: Option<&'a RecordingSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
}

/// Returns what `epochs --json` says.
pub fn epochs_json(epochs: &[Epoch]) -> impl Serialize {
    Json {
        schema: "vitalfew.epochs/1",
        epochs: epochs.iter().map(json_epoch).collect(),
    }
}

fn json_epoch(epoch: &Epoch) -> JsonEpoch<'_> {
    JsonEpoch {
        epoch: epoch.name(),
        path: store::with_addresses(&epoch.path.display().to_string()).into_owned(),
        open: epoch.open,
        summary: epoch.summary.as_ref().ok(),
        error: epoch.summary.as_ref().err().map(ToString::to_string),
        damaged: epoch.damaged.iter().map(ToString::to_string).collect(),
    }
}
