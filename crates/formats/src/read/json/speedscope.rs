//! speedscope's own file format: `sampled` and `evented` profiles.

use super::value::{JsonColumn, JsonText, Scalar, value_type};
use crate::read::draft::{Owner, TreeDraft};
use crate::read::error::{FilePosition, ReadFault};
use crate::read::options::ReadOptions;
use crate::read::time_axis::TimeRange;
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
    start_value: Option<f64>,
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

/// Returns name and unit, and the factor from the file's unit to it.
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

impl JsonProfile {
    /// Returns whether the values are times.
    fn is_timed(&self) -> bool {
        parse_unit(self.unit.as_text()).0.unit == "nanoseconds"
    }

    /// Widens the range to the times of the first and last event, in nanoseconds.
    fn widen_range(&self, range: &mut TimeRange) {
        let (_, factor) = parse_unit(self.unit.as_text());
        let start = self.start_value.unwrap_or(0.0);
        range.add_time(start * factor);
        let last = self.events.0.iter().map(|event| event.at);
        let last = last.chain(self.end_value).fold(start, f64::max);
        let sampled = start + self.weights.0.iter().sum::<f64>();
        range.add_time(last.max(sampled) * factor);
    }
}

/// An open frame.
struct OpenFrame {
    frame: u32,
    method: MethodId,
    node: DraftNode,
}

/// State of one profile while it is read: the place of its costs, and its current time.
struct ProfileWalk<'d> {
    owner: Owner<'d>,
    /// Index of the value type.
    value: usize,
    /// The factor from the file's unit to the value type's.
    factor: f64,
    at: FilePosition,
    /// The node under which stacks begin, and its slice of time.
    root: DraftNode,
    slice: Option<u32>,
    open: Vec<OpenFrame>,
    /// The last time, in the file's unit.
    last: Option<f64>,
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
    if profiles.iter().all(JsonProfile::is_timed) {
        let mut range = TimeRange::default();
        profiles
            .iter()
            .for_each(|profile| profile.widen_range(&mut range));
        let samples = profiles.iter().map(|profile| profile.samples.0.len());
        let samples = samples.sum::<usize>();
        draft.set_time_axis(range.slices_for(samples));
    }
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
        let mut walk = ProfileWalk {
            root: reader.draft.group_node(&owner, at)?,
            owner,
            value,
            factor,
            at,
            slice: None,
            open: Vec::new(),
            last: None,
        };
        let JsonText(kind) = &profile.r#type;
        match kind.as_str() {
            "sampled" => reader.read_sampled(profile, &mut walk)?,
            "evented" => reader.read_evented(profile, &mut walk)?,
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
        walk: &mut ProfileWalk<'_>,
    ) -> Result<(), ReadFault> {
        let (samples, weights) = (&profile.samples.0, &profile.weights.0);
        if samples.len() != weights.len() {
            let what = format!("{} samples and {} weights", samples.len(), weights.len());
            return Err(ReadFault::damaged(what, walk.at));
        }
        let mut now = profile.start_value.unwrap_or(0.0);
        for (stack, weight) in samples.iter().zip(weights) {
            self.enter_slice(walk, now)?;
            let mut node = walk.root;
            for frame in &stack.0 {
                let method = self.frame_method(*frame, walk.at)?;
                node = self.draft.child_node(node, method, walk.at)?;
            }
            self.add_amount(walk.value, node, weight * walk.factor);
            now += weight;
        }
        Ok(())
    }

    fn read_evented(
        &mut self,
        profile: &JsonProfile,
        walk: &mut ProfileWalk<'_>,
    ) -> Result<(), ReadFault> {
        for event in &profile.events.0 {
            self.pass_time(walk, event.at)?;
            match event.r#type {
                ProfileKind::Open => {
                    let (frame, method) = (event.frame, self.frame_method(event.frame, walk.at)?);
                    let top = walk.open.last().map_or(walk.root, |open| open.node);
                    let node = self.draft.child_node(top, method, walk.at)?;
                    walk.open.push(OpenFrame {
                        frame,
                        method,
                        node,
                    });
                }
                ProfileKind::Close => match walk.open.pop() {
                    Some(open) if open.frame == event.frame => {}
                    _ => {
                        let what = format!(
                            "frame {} is left at {}, but it is not the innermost",
                            event.frame, event.at
                        );
                        return Err(ReadFault::damaged(what, walk.at));
                    }
                },
            }
        }
        if let (false, Some(end)) = (walk.open.is_empty(), profile.end_value) {
            self.pass_time(walk, end)?;
            self.draft
                .add_note("some frames were never left; they end with the profile");
        }
        Ok(())
    }

    /// Adds the time since the last event to the innermost frame, divided among the slices.
    fn pass_time(&mut self, walk: &mut ProfileWalk<'_>, now: f64) -> Result<(), ReadFault> {
        // Time outside of all frames belongs to no frame.
        let start = walk.last.unwrap_or(now);
        walk.last = Some(start.max(now));
        if now < start {
            self.backwards += 1;
            return Ok(());
        }
        if walk.open.is_empty() || now == start {
            return Ok(());
        }
        let mut left = (now - start) * walk.factor;
        if let Some(axis) = self.draft.time_axis() {
            let last = axis.slice_at(now * walk.factor);
            for (slice, ns) in axis.parts_between(start * walk.factor, now * walk.factor) {
                self.move_to_slice(walk, slice)?;
                // The last slice gets the remainder of rounding.
                let part = if slice == last {
                    left
                } else {
                    ns.round().min(left)
                };
                self.add_to_top(walk, part);
                left -= part;
            }
        } else {
            self.add_to_top(walk, left);
        }
        Ok(())
    }

    fn add_to_top(&mut self, walk: &ProfileWalk<'_>, amount: f64) {
        if let Some(top) = walk.open.last() {
            self.add_amount(walk.value, top.node, amount);
        }
    }

    /// Moves the start of stacks to the slice of a time.
    fn enter_slice(&mut self, walk: &mut ProfileWalk<'_>, now: f64) -> Result<(), ReadFault> {
        match self.draft.time_axis() {
            Some(axis) => self.move_to_slice(walk, axis.slice_at(now * walk.factor)),
            None => Ok(()),
        }
    }

    /// Continues in a slice of time, with the open frames.
    fn move_to_slice(&mut self, walk: &mut ProfileWalk<'_>, slice: u32) -> Result<(), ReadFault> {
        if walk.slice == Some(slice) {
            return Ok(());
        }
        walk.slice = Some(slice);
        let owner = Owner {
            slice: walk.slice,
            ..walk.owner
        };
        walk.root = self.draft.group_node(&owner, walk.at)?;
        let mut node = walk.root;
        for open in &mut walk.open {
            node = self.draft.child_node(node, open.method, walk.at)?;
            open.node = node;
        }
        Ok(())
    }

    fn add_amount(&mut self, value: usize, node: DraftNode, amount: f64) {
        let rounded = amount.round();
        // Losses below a nanosecond are not reported.
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
