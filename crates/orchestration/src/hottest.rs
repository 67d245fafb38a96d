//! Code of the hottest procedures, if a recording's samples can be assigned to single instructions.

use crate::skid;
use profile::{Finding, Recording, Unit};
use results::annotation::{AnnotationOptions, AnnotationSetting, Annotator, SampleSelection};
use results::page::PageCode;
use results::{RecordingSource, event_named, inconclusive_refusal};
use sampler::skid::Skid;

/// Returns the number of instructions by which samples may be late. Warns if that is not known.
///
/// # Errors
/// If samples say nothing about single instructions.
pub fn refuse_late_samples(
    recording: &Recording,
    setting: &AnnotationSetting,
    warn: &dyn Fn(&str),
) -> anyhow::Result<usize> {
    match skid::of_recording(&recording.host, &setting.event) {
        Some(skid) => late_instructions(&skid, setting).ok_or_else(|| inconclusive_refusal(format!(
            "on this machine samples of {} do not fall right after the slow instruction (only {}), so that nothing can be said \
             about single ones",
            setting.event,
            skid::describe_skid(&skid)
        ))),
        None => {
            warn(&format!(
                "this machine cannot tell where {} samples fall on {}; run vitalfew doctor on that machine",
                setting.event, recording.host.name
            ));
            Ok(0)
        }
    }
}

/// Returns the code of the hottest procedures. If it cannot be analysed, the notes give the
/// reasons.
pub(crate) fn hottest_code(recording: &Recording, source: &RecordingSource) -> PageCode {
    let nothing = |why: String| PageCode {
        notes: vec![why],
        ..PageCode::default()
    };
    let event = match event_named(recording, None) {
        Ok(event) if recording.event(event).unit == Unit::Samples => event,
        Ok(_) => return nothing("there are no time samples".to_owned()),
        Err(error) => return nothing(format!("{error:#}")),
    };
    let options = AnnotationOptions::default();
    let mut setting = match AnnotationSetting::new(&options, source, recording, event) {
        Ok(setting) => setting,
        Err(error) => return nothing(format!("{error:#}")),
    };
    let selection = SampleSelection::new(recording, event, None);
    setting.total = selection.total;
    let late = skid::of_recording(&recording.host, &setting.event)
        .map(|skid| late_instructions(&skid, &setting));
    setting.late = late.flatten().unwrap_or(0);
    let annotator = Annotator {
        recording,
        setting: &setting,
        selection: &selection,
    };
    let mut code = PageCode::of_hottest(&annotator, late.flatten().is_some());
    match late {
        Some(Some(_)) => {}
        Some(None) => code.notes.push(format!(
            "samples of {} do not fall right after the slow instruction on that machine: no cycles are given",
            setting.event
        )),
        None => code.notes.push(format!(
            "this machine cannot tell where {} samples fall on {}: no cycles are given",
            setting.event, recording.host.name
        )),
    }
    code
}

/// Returns the number of instructions by which samples may be late. `None` if samples say nothing
/// about single instructions.
fn late_instructions(skid: &Skid, setting: &AnnotationSetting) -> Option<usize> {
    match skid.is_one_instruction() {
        true if skid.is_sharp() => Some(0),
        true => Some(setting.model.processor().width as usize),
        false => None,
    }
}

/// Returns the stalls of the hottest procedures of a recording.
///
/// # Errors
/// As [`refuse_late_samples`].
pub(crate) fn hottest_stalls(
    recording: &Recording,
    warn: &dyn Fn(&str),
) -> anyhow::Result<Vec<Finding>> {
    let event = event_named(recording, None)?;
    if recording.event(event).unit != Unit::Samples {
        return Err(inconclusive_refusal("there are no time samples".to_owned()));
    }
    let source = RecordingSource::default();
    let options = AnnotationOptions::default();
    let mut setting = AnnotationSetting::new(&options, &source, recording, event)?;
    let selection = SampleSelection::new(recording, event, None);
    setting.total = selection.total;
    setting.late = refuse_late_samples(recording, &setting, warn)?;
    let annotator = Annotator {
        recording,
        setting: &setting,
        selection: &selection,
    };
    Ok(annotator.hottest_stalls())
}
