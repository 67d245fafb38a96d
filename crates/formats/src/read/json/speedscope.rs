//! speedscope's own file format: `sampled` and `evented` profiles.

use super::value::{JsonColumn, JsonText, Scalar, value_type};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use profile::{DraftNode, MethodId, ValueType};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct JsonFrame {
    name: JsonText,
    #[serde(default)]
    file: Scalar,
    #[serde(default)]
    line: Scalar,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonProfile {
    r#type: JsonText,
    #[serde(default)]
    name: Scalar,
    #[serde(default)]
    unit: Scalar,
    #[serde(default)]
    end_value: Option<f64>,
    #[serde(default)]
    samples: JsonColumn<JsonColumn<u32>>,
    #[serde(default)]
    weights: JsonColumn<f64>,
    #[serde(default)]
    events: JsonColumn<FrameEvent>,
}

#[derive(Clone, Copy, Deserialize)]
struct FrameEvent {
    r#type: ProfileKind,
    frame: u32,
    at: f64,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum ProfileKind {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

/// Name, unit, and how many of it the file's unit is.
fn parse_unit(unit: Option<&str>) -> (ValueType, f64) {
    let factor = match unit {
        Some("nanoseconds") => 1.0,
        Some("microseconds") => 1e3,
        Some("milliseconds") => 1e6,
        Some("seconds") => 1e9,
        Some("bytes") => return (value_type("bytes", "bytes"), 1.0),
        _ => return (value_type("weight", "count"), 1.0),
    };
    (value_type("time", "nanoseconds"), factor)
}

struct SpeedscopeReader<'d> {
    draft: TreeDraft,
    frames: &'d [JsonFrame],
    methods: Vec<Option<MethodId>>,
    lines: bool,
    rounded: bool,
    backwards: u64,
}

pub(super) fn read_speedscope(
    profiles: &[JsonProfile],
    frames: &[JsonFrame],
    options: &ReadOptions,
    used: u64,
) -> Result<TreeDraft, ReadFault> {
    let mut value_types: Vec<ValueType> = Vec::new();
    for profile in profiles {
        let (value_type, _) = parse_unit(profile.unit.as_text());
        if !value_types.contains(&value_type) {
            value_types.push(value_type);
        }
    }
    let mut draft = TreeDraft::new(value_types.clone(), options);
    draft.charge_memory(used, FilePosition::Offset(0))?;
    let mut reader = SpeedscopeReader {
        draft,
        frames,
        methods: vec![None; frames.len()],
        lines: options.lines,
        rounded: false,
        backwards: 0,
    };
    for (index, profile) in profiles.iter().enumerate() {
        let at = FilePosition::Row {
            table: "profile",
            row: index as u64,
        };
        let (value_type, factor) = parse_unit(profile.unit.as_text());
        let value = value_types
            .iter()
            .position(|v| *v == value_type)
            .unwrap_or(0);
        let owner = Owner {
            thread: profile.name.as_text(),
            ..Owner::default()
        };
        let root = reader.draft.group_node(&owner, at)?;
        let JsonText(kind) = &profile.r#type;
        match kind.as_str() {
            "sampled" => reader.read_sampled(profile, root, value, factor, at)?,
            "evented" => reader.read_evented(profile, root, value, factor, at)?,
            other => {
                let what = format!("a profile of type {other:?}, not sampled or evented");
                return Err(ReadFault::damaged(what, at));
            }
        }
    }
    let mut draft = reader.draft;
    if reader.rounded {
        draft.add_note("some weights were not whole numbers and were rounded");
    }
    if reader.backwards > 0 {
        draft.add_note(format!(
            "{} events are earlier than the one before; the time between was taken as 0",
            reader.backwards
        ));
    }
    Ok(draft)
}

impl SpeedscopeReader<'_> {
    fn read_sampled(
        &mut self,
        profile: &JsonProfile,
        root: DraftNode,
        value: usize,
        factor: f64,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let (samples, weights) = (&profile.samples.0, &profile.weights.0);
        if samples.len() != weights.len() {
            let what = format!("{} samples and {} weights", samples.len(), weights.len());
            return Err(ReadFault::damaged(what, at));
        }
        for (stack, weight) in samples.iter().zip(weights) {
            let mut node = root;
            for frame in &stack.0 {
                let method = self.frame_method(*frame, at)?;
                node = self.draft.child_node(node, method, at)?;
            }
            self.add_amount(value, node, weight * factor);
        }
        Ok(())
    }

    fn read_evented(
        &mut self,
        profile: &JsonProfile,
        root: DraftNode,
        value: usize,
        factor: f64,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let mut stack: Vec<(u32, DraftNode)> = Vec::new();
        let mut last: Option<f64> = None;
        for event in &profile.events.0 {
            let top = stack.last().map_or(root, |(_, node)| *node);
            self.pass_time(&mut last, event.at, value, top, factor);
            match event.r#type {
                ProfileKind::Open => {
                    let method = self.frame_method(event.frame, at)?;
                    stack.push((event.frame, self.draft.child_node(top, method, at)?));
                }
                ProfileKind::Close => match stack.pop() {
                    Some((frame, _)) if frame == event.frame => {}
                    _ => {
                        let what = format!(
                            "frame {} is left at {}, but it is not the innermost",
                            event.frame, event.at
                        );
                        return Err(ReadFault::damaged(what, at));
                    }
                },
            }
        }
        if let (Some((_, top)), Some(end)) = (stack.last(), profile.end_value) {
            self.pass_time(&mut last, end, value, *top, factor);
            self.draft
                .add_note("some frames were never left; they end with the profile");
        }
        Ok(())
    }

    /// Gives the time since the last event to the innermost frame.
    fn pass_time(
        &mut self,
        last: &mut Option<f64>,
        now: f64,
        value: usize,
        top: DraftNode,
        factor: f64,
    ) {
        // Time before the first frame is nobody's.
        let passed = last.map_or(0.0, |last| now - last);
        if passed < 0.0 {
            self.backwards += 1;
        } else if top != DraftNode::ROOT && passed > 0.0 {
            self.add_amount(value, top, passed * factor);
        }
        *last = Some(last.map_or(now, |last| last.max(now)));
    }

    fn add_amount(&mut self, value: usize, node: DraftNode, amount: f64) {
        let rounded = amount.round();
        // What is lost below a nanosecond is not worth saying.
        self.rounded |= (amount - rounded).abs() > 1e-3 && rounded.abs() < 1e6;
        self.draft.add_cost(value, node, rounded as i64);
    }

    fn frame_method(&mut self, frame: u32, at: FilePosition) -> Result<MethodId, ReadFault> {
        let index = frame as usize;
        if let Some(Some(method)) = self.methods.get(index) {
            return Ok(*method);
        }
        let Some(known) = self.frames.get(index) else {
            let what = format!("frame {frame} of {} is referred to", self.frames.len());
            return Err(ReadFault::damaged(what, at));
        };
        let JsonText(name) = &known.name;
        let file = known.file.as_text().unwrap_or_default();
        let method = match known
            .line
            .as_integer()
            .filter(|line| self.lines && *line > 0)
        {
            Some(line) => self.draft.intern_method(&format!("{name}:{line}"), file)?,
            None => self.draft.intern_method(name, file)?,
        };
        if let Some(entry) = self.methods.get_mut(index) {
            *entry = Some(method);
        }
        Ok(method)
    }
}
