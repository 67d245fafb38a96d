//! Results as JSON (docs/json.md).

use super::auto::AutoReport;
use analysis::bottleneck::forest::{CallSequence, Forest, Whole};
use analysis::bottleneck::interface::{Metrics, Profile};
use analysis::bottleneck::search::{Details, Listing, Relation, Row};
use analysis::statistics::Interval;
use results::JsonClaims;
use results::command_words;
use serde_json::{Map, Value, json};

const SCHEMA: &str = "vitalfew.bottlenecks/1";

fn result_json(forest: &Forest, kind: &str, fields: Value) -> Value {
    let mut object = Map::new();
    object.insert("schema".into(), SCHEMA.into());
    object.insert("kind".into(), kind.into());
    object.insert("value".into(), json!(forest.value_type()));
    object.insert("whole".into(), json!(forest.whole()));
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    Value::Object(object)
}

fn path_json(forest: &Forest, summary: &CallSequence) -> Value {
    let steps = forest.path_of(summary).iter();
    steps.map(|step| json!(forest.method(*step))).collect()
}

fn metrics_json(metrics: Metrics) -> Value {
    json!({ "base": metrics.base, "cum": metrics.cum })
}

fn interval_json(interval: Option<Interval>) -> Value {
    interval.map_or(
        Value::Null,
        |i| json!({ "low": i.low, "high": i.high, "p": i.p }),
    )
}

fn row_json(forest: &Forest, number: usize, row: &Row<CallSequence>) -> Value {
    let (relation, label) = match &row.relation {
        Relation::Start => ("start", None),
        Relation::Above => ("above", None),
        Relation::Below => ("below", None),
        Relation::TrimTop => ("trim_top", None),
        Relation::TrimBottom => ("trim_bottom", None),
        Relation::Label(label) => ("label", Some(label)),
    };
    json!({
        "number": number,
        "relation": relation,
        "label": label,
        "path": path_json(forest, &row.summary),
        "base": row.metrics.base,
        "cum": row.metrics.cum,
        "new": row.new,
        "interval": interval_json(row.interval),
        "contexts": forest.context_count(&row.summary),
    })
}

fn rows_json(forest: &Forest, list: &Listing<CallSequence>) -> Value {
    let rows = list.rows.iter().enumerate();
    rows.map(|(number, r)| row_json(forest, number, r))
        .collect()
}

/// Returns the JSON of `suggest` and `find`.
pub fn listing_json(forest: &Forest, list: &Listing<CallSequence>) -> Value {
    let more: usize = list.more.iter().map(|(_, count)| count).sum();
    let fields = json!({ "rows": rows_json(forest, list), "more": more, "noise": list.noise });
    result_json(forest, "list", fields)
}

/// Returns the JSON of `labels`.
pub fn labels_json(forest: &Forest, list: &Listing<CallSequence>, total: Metrics) -> Value {
    let fields = json!({ "rows": rows_json(forest, list), "total": metrics_json(total) });
    result_json(forest, "labels", fields)
}

/// Returns the JSON of `select`, `show`, `back` and `go`.
pub fn details_json(forest: &Forest, details: &Details<CallSequence>) -> Value {
    let overlap = |(label, shared): &(String, Metrics)| json!({ "label": label, "base": shared.base, "cum": shared.cum });
    let overlaps: Vec<Value> = details.overlaps.iter().map(overlap).collect();
    let fields = json!({
        "path": path_json(forest, &details.summary),
        "labels": details.labels,
        "base": details.metrics.base,
        "cum": details.metrics.cum,
        "base_interval": interval_json(details.intervals.0),
        "cum_interval": interval_json(details.intervals.1),
        "contexts": forest.context_count(&details.summary),
        "overlaps": overlaps,
        "labelled": details.labelled.map(metrics_json),
        "nearby": rows_json(forest, &details.nearby),
    });
    result_json(forest, "summary", fields)
}

/// Returns the command of an interactive search of the same profiles.
fn next(forest: &Forest) -> Vec<String> {
    let mut words = command_words(&["bottlenecks"]);
    let members = forest.members();
    let (first, second): (Vec<_>, Vec<_>) = members.into_iter().partition(|m| m.first_side);
    words.extend(first.into_iter().map(|member| member.name));
    if !second.is_empty() {
        words.push("--against".to_owned());
        words.extend(second.into_iter().map(|member| member.name));
    }
    words
}

/// Returns the JSON of `auto`.
pub fn report_json(report: &AutoReport<'_>) -> Value {
    let AutoReport {
        forest,
        found,
        rows,
    } = report;
    let whole = found.whole;
    let bottleneck = |(number, row): (usize, &Row<CallSequence>)| {
        let mut value = self::row_json(forest, number, row);
        if let Value::Object(fields) = &mut value {
            let bottleneck = &found.bottlenecks[number];
            fields.insert("cost".into(), json!(bottleneck.cost));
            fields.insert("new".into(), json!(bottleneck.new));
            fields.insert("cost_share".into(), json!(bottleneck.cost / whole));
            fields.insert("new_share".into(), json!(bottleneck.new / whole));
            fields.insert("interval".into(), interval_json(bottleneck.interval));
        }
        value
    };
    let bottlenecks: Vec<Value> = rows.iter().enumerate().map(bottleneck).collect();
    let member = |m: analysis::bottleneck::forest::MemberInfo| {
        json!({
            "name": m.name,
            "side": if m.first_side { "a" } else { "b" },
            "total": m.total,
            "factor": m.factor,
            "nodes": m.nodes,
        })
    };
    let profiles: Vec<Value> = forest.members().into_iter().map(member).collect();
    let whole_is = match forest.whole_kind() {
        Whole::Total => "total",
        Whole::Difference => "difference",
        Whole::FirstTotal => "first_total",
    };
    let fields = json!({
        "profiles": profiles,
        "whole_is": whole_is,
        "shares_of": whole,
        "total": forest.total(),
        "bottlenecks": bottlenecks,
        "claims": JsonClaims::of_findings(found.as_findings(forest, &next(forest))),
        "covered": found.covered,
        "covered_share": found.covered / whole,
        "notable_share": found.notable,
        "cheaper": found.cheaper,
    });
    result_json(forest, "auto", fields)
}
