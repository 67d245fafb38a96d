//! The documented JSON form of `annotate`.

use crate::output::write_json;
use analysis::stall::CycleTrust;
use analysis::stall::culprits::{Account, Cause, Culprit, Static, Summary};
use analysis::statistics::interval_of_count;
use machine::{Block, Limit};
use results::annotation::{
    AnnotatedProcedure, AnnotationSetting, basis_name, confidence_name, doubt_name, stall_findings,
};
use results::{JsonClaims, command_words};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Writes a procedure.
pub fn write_procedure(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
    recording: Option<&Path>,
) -> anyhow::Result<()> {
    let graph = &analysed.graph;
    let blocks: Vec<Value> = (graph.blocks.iter().enumerate())
        .map(|(index, block)| {
            let estimate = analysed.frequencies.blocks[index];
            let expected = &analysed.expected[block.instructions.clone()];
            let samples: f64 = analysed.samples[block.instructions.clone()].iter().sum();
            let doubt = match analysed.trust[index] {
                CycleTrust::Unknown(doubt) => Some(doubt_name(doubt)),
                _ => None,
            };
            json!({
                "start": block.start.0,
                "end": block.end.0,
                "samples": samples,
                "best_case_cycles": expected.iter().map(|one| one.minimum).sum::<f64>(),
                "bound": bound_name(setting, analysed, block),
                "frequency": estimate.map(|one| one.frequency),
                "frequency_deviation": estimate.filter(|_| doubt.is_none()).and_then(|one| one.deviation),
                "confidence": estimate.map(|one| confidence_name(one.confidence)),
                "cycles_not_known": doubt,
                "instructions": block.instructions.clone().map(|place| instruction_json(analysed, place)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let edges: Vec<Value> = (graph.edges.iter().zip(&analysed.frequencies.edges))
        .map(|(edge, often)| {
            json!({
                "from": edge.from,
                "to": edge.to,
                "kind": format!("{:?}", edge.kind),
                "frequency": often.map(|one| one.frequency),
            })
        })
        .collect();
    let mut next = command_words(&["annotate", &analysed.name]);
    next.extend(recording.map(|path| path.display().to_string()));
    let value = json!({
        "schema": "vitalfew.annotate/1",
        "procedure": analysed.name,
        "image": analysed.image,
        "event": setting.event,
        "model": setting.model.processor().name,
        "frequencies": basis_name(analysed.basis),
        "branch_records": analysed.contradictions.1,
        "cycles_per_sample": analysed.cycles_per_sample,
        "total_samples": setting.total,
        "samples": analysed.total_samples(),
        "misses_edges": graph.misses_edges(),
        "blocks": blocks,
        "edges": edges,
        "summary": summary_json(&analysed.cycle_summary()),
        "claims": JsonClaims::of_findings(stall_findings(analysed, &next)),
    });
    Ok(write_json(out, &value)?)
}

/// Writes the summary of a profile.
pub fn write_summary(
    out: &mut impl Write,
    setting: &AnnotationSetting,
    sum: &Summary,
    procedures: usize,
) -> anyhow::Result<()> {
    let value = json!({
        "schema": "vitalfew.annotate-summary/1",
        "event": setting.event,
        "model": setting.model.processor().name,
        "total_samples": setting.total,
        "procedures": procedures,
        "summary": summary_json(sum),
    });
    Ok(write_json(out, &value)?)
}

/// Returns the bound of a block's best case, unless it is the width of the processor.
fn bound_name(
    setting: &AnnotationSetting,
    analysed: &AnnotatedProcedure,
    block: &Block,
) -> Option<&'static str> {
    let model = &setting.model;
    let limit = model.bounds(analysed.graph.instructions_of(block)).limit();
    match limit {
        _ if model.processor().in_order => None,
        Limit::Issue => None,
        Limit::FrontEnd => Some(Static::FrontEnd.name()),
        Limit::Ports => Some(Static::Ports.name()),
    }
}

fn instruction_json(analysed: &AnnotatedProcedure, place: usize) -> Value {
    let address = |index: &usize| {
        analysed
            .graph
            .instructions
            .get(*index)
            .map(|one| one.address.0)
    };
    let culprit = |one: &Culprit| {
        json!({
            "cause": one.cause.name(),
            "letter": one.cause.letter().to_string(),
            "at": one.at.iter().filter_map(address).collect::<Vec<_>>(),
        })
    };
    let account = |account: &Account| {
        let bounded = account.culprits.iter().map(|one| {
            let mut value = culprit(one);
            value["most_cycles"] = json!(one.most);
            value
        });
        let culprits: Vec<Value> = bounded.collect();
        let (low, high) = interval_of_count(analysed.samples[place]);
        json!({
            "cycles": account.cycles,
            "cycles_range": [low / account.frequency, high / account.frequency],
            "best_case_cycles": account.minimum,
            "static_stall": account.static_stall.map(|(reason, cycles)| json!({
                "reason": reason.name(),
                "cycles": cycles,
            })),
            "dynamic_stall": account.stall,
            "culprits": culprits,
            "unexplained_stall": account.unexplained,
            "unexplained_gain": account.gain,
            "sampling_error": account.error,
        })
    };
    json!({
        "address": analysed.graph.instructions[place].address.0,
        "text": analysed.texts[place],
        "samples": analysed.samples[place],
        "data": analysed.accesses[place].as_ref().map(super::data::accesses_json),
        "account": analysed.accounts[place].as_ref().map(account),
        "suspects": analysed.suspects[place].iter().map(culprit).collect::<Vec<_>>(),
    })
}

fn summary_json(summary: &Summary) -> Value {
    let dynamic: serde_json::Map<String, Value> = (Cause::ALL.iter().zip(&summary.dynamic))
        .map(|(cause, line)| {
            let range = json!({"least": line.least, "most": line.most});
            (cause.name().to_owned(), range)
        })
        .collect();
    let statics: serde_json::Map<String, Value> = (Static::ALL.iter().zip(&summary.statics))
        .map(|(reason, part)| (reason.name().to_owned(), json!(part)))
        .collect();
    json!({
        "samples": summary.samples,
        "instructions": summary.executed,
        "best_case": summary.best,
        "dynamic": dynamic,
        "unexplained_stall": summary.unexplained_stall,
        "unexplained_gain": summary.unexplained_gain,
        "subtotal_dynamic": summary.subtotal_dynamic,
        "static": statics,
        "subtotal_static": summary.subtotal_static,
        "execution": summary.execution,
        "net_sampling_error": summary.error,
        "cycles_not_known": summary.unknown,
    })
}
