//! The call tree of one event of a recording, and that of the callers of a procedure.

use crate::place_names::PlaceMethods;
use crate::selection::SampleFilter;
use crate::wanted::WantedSamples;
use profile::ProcessNames;
use profile::{
    CallTree, CallTreeBuilder, CallTreeError, DraftNode, Event, EventId, Location, MethodId,
    Recording, Sample, StackId, SymbolTable, Unit, ValueType,
};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Returns the amount of an event for each unit of a cost: trees have samples or nanoseconds.
pub fn amount_of_cost(event: &Event) -> f64 {
    match event.unit {
        Unit::Samples => event.multiplex_scale / event.sample_weight(),
        Unit::Nanoseconds => 1.0,
    }
}

/// Returns the call tree of an event from the outermost frames down, by process, procedure, and
/// with `inlined` by inlined call.
///
/// # Errors
/// If the costs do not fit in 63 bits.
pub fn call_tree(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    event: EventId,
    inlined: bool,
) -> Result<CallTree, CallTreeError> {
    let mut draft = EventTree::new(recording, table, event, inlined);
    let mut locations: Vec<Location> = Vec::new();
    for sample in draft.wanted_samples(filter) {
        let process = draft.process_method(sample)?;
        let mut node = draft.builder.child(DraftNode::ROOT, process)?;
        locations.clear();
        locations.extend(recording.stacks.locations(sample.stack));
        for location in locations.iter().rev() {
            for method in draft.methods.at(&mut draft.builder, *location)? {
                node = draft.builder.child(node, *method)?;
            }
        }
        draft.builder.add(0, node, draft.cost_of(sample));
    }
    draft.builder.finish()
}

/// Returns the callers of `procedure`, outwards. If no procedure has exactly this name, all
/// procedures whose names contain it count. A recursive procedure counts once, at its outermost
/// call. The root's own cost is that of all other samples.
///
/// Paths outwards share little. So callers with less than `least_share` of the procedure's cost are
/// left out while the tree grows, and their cost goes to their callee's node.
///
/// # Errors
/// If the costs do not fit in 63 bits.
pub fn callers_tree(
    recording: &Recording,
    table: &SymbolTable,
    filter: &SampleFilter,
    event: EventId,
    inlined: bool,
    procedure: &str,
    least_share: f64,
) -> Result<CallTree, CallTreeError> {
    let mut draft = EventTree::new(recording, table, event, inlined);
    let meant = draft.meant_methods(procedure)?;
    let (mut cursors, mut whole) = (Vec::new(), 0_i64);
    for sample in draft.wanted_samples(filter) {
        let cost = draft.cost_of(sample);
        match draft.outermost_of(sample, &meant)? {
            Some((frame, index)) => {
                whole = whole.saturating_add(cost);
                cursors.push(CallerCursor {
                    at: CallerPlace::Frame(frame, index),
                    process: draft.process_method(sample)?,
                    cost,
                });
            }
            None => draft.builder.add(0, DraftNode::ROOT, cost),
        }
    }
    let least = (least_share * whole as f64).ceil() as i64;
    let mut open = vec![(DraftNode::ROOT, cursors)];
    while let Some((node, cursors)) = open.pop() {
        for (method, mut cursors) in draft.by_method(cursors)? {
            let cost = cursors
                .iter()
                .map(|one| one.cost)
                .fold(0, i64::saturating_add);
            if cost < least && node != DraftNode::ROOT {
                draft.builder.add(0, node, cost);
                continue;
            }
            let child = draft.builder.child(node, method)?;
            let mut ended = 0_i64;
            for cursor in &mut cursors {
                if !draft.go_outwards(cursor)? {
                    ended = ended.saturating_add(cursor.cost);
                }
            }
            draft.builder.add(0, child, ended);
            cursors.retain(|cursor| !matches!(cursor.at, CallerPlace::Above));
            if !cursors.is_empty() {
                open.push((child, cursors));
            }
        }
    }
    draft.builder.finish()
}

/// Position of a sample on the path from a procedure outwards.
struct CallerCursor {
    at: CallerPlace,
    /// The method that stands for its process.
    process: MethodId,
    cost: i64,
}

/// A function of a stack, or a level above the stack.
enum CallerPlace {
    /// A frame, and the position among its functions: inlined calls share a frame.
    Frame(StackId, usize),
    Process,
    Above,
}

/// A tree of one event under construction.
struct EventTree<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    event: EventId,
    processes: ProcessNames,
    methods: PlaceMethods<'a>,
    builder: CallTreeBuilder,
}

impl<'a> EventTree<'a> {
    fn new(
        recording: &'a Recording,
        table: &'a SymbolTable,
        event: EventId,
        inlined: bool,
    ) -> Self {
        let value = recording.event(event);
        let unit = match value.unit {
            Unit::Samples => "samples",
            Unit::Nanoseconds => "nanoseconds",
        };
        Self {
            recording,
            table,
            event,
            processes: ProcessNames::of_recording(recording),
            methods: PlaceMethods::new(recording, table, inlined),
            builder: CallTreeBuilder::new(vec![ValueType {
                name: value.name.clone(),
                unit: unit.to_owned(),
            }]),
        }
    }

    fn wanted_samples(
        &self,
        filter: &'a SampleFilter,
    ) -> impl Iterator<Item = &'a Sample> + use<'a> {
        let wanted = WantedSamples::new(self.recording, self.table, filter);
        let event = self.event;
        let samples = self.recording.samples.iter();
        samples.filter(move |sample| sample.event == event && wanted.has_sample(sample))
    }

    fn cost_of(&self, sample: &Sample) -> i64 {
        i64::try_from(sample.weight).unwrap_or(i64::MAX)
    }

    fn process_method(&mut self, sample: &Sample) -> Result<MethodId, CallTreeError> {
        let name = self.processes.name_of_sample(sample);
        let name = self.recording.names.get(name);
        self.builder.method(&format!("process {name}"), "")
    }

    /// Returns the methods that a name selects.
    fn meant_methods(&mut self, procedure: &str) -> Result<FxHashSet<MethodId>, CallTreeError> {
        for frame in self.recording.stacks.frames() {
            self.methods.at(&mut self.builder, frame.location)?;
        }
        let names = || self.builder.methods().iter().zip(0..);
        let is_exact = names().any(|(method, _)| method.name == procedure);
        let meant = names().filter(|(method, _)| {
            if is_exact {
                method.name == procedure
            } else {
                method.name.contains(procedure)
            }
        });
        Ok(meant.map(|(_, number)| MethodId(number)).collect())
    }

    /// Returns the outermost selected function of a stack: its frame, and its position in that.
    fn outermost_of(
        &mut self,
        sample: &Sample,
        meant: &FxHashSet<MethodId>,
    ) -> Result<Option<(StackId, usize)>, CallTreeError> {
        let (mut found, mut next) = (None, Some(sample.stack));
        while let Some(id) = next {
            let frame = self.recording.stacks.frame(id);
            let here = self.methods.at(&mut self.builder, frame.location)?;
            let index = here.iter().position(|method| meant.contains(method));
            found = index.map(|index| (id, index)).or(found);
            next = frame.caller;
        }
        Ok(found)
    }

    /// Groups cursors by their current function.
    fn by_method(
        &mut self,
        cursors: Vec<CallerCursor>,
    ) -> Result<BTreeMap<MethodId, Vec<CallerCursor>>, CallTreeError> {
        let mut groups: BTreeMap<MethodId, Vec<CallerCursor>> = BTreeMap::new();
        for cursor in cursors {
            let method = match cursor.at {
                CallerPlace::Frame(id, index) => {
                    let location = self.recording.stacks.frame(id).location;
                    self.methods.at(&mut self.builder, location)?[index]
                }
                CallerPlace::Process | CallerPlace::Above => cursor.process,
            };
            groups.entry(method).or_default().push(cursor);
        }
        Ok(groups)
    }

    /// Moves a cursor to the caller; returns whether there is one.
    fn go_outwards(&mut self, cursor: &mut CallerCursor) -> Result<bool, CallTreeError> {
        cursor.at = match cursor.at {
            CallerPlace::Frame(id, index) if index > 0 => CallerPlace::Frame(id, index - 1),
            CallerPlace::Frame(id, _) => match self.recording.stacks.frame(id).caller {
                Some(caller) => {
                    let location = self.recording.stacks.frame(caller).location;
                    let functions = self.methods.at(&mut self.builder, location)?.len();
                    CallerPlace::Frame(caller, functions - 1)
                }
                None => CallerPlace::Process,
            },
            CallerPlace::Process | CallerPlace::Above => CallerPlace::Above,
        };
        Ok(!matches!(cursor.at, CallerPlace::Above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{
        CallGraph, Collector, Host, Image, ImageId, ImageOffset, NodeId, Procedure, Resolution,
        SourceFrame, Target, ThreadCount,
    };
    use std::sync::Arc;

    const CLOCK: EventId = EventId(0);

    /// Makes a recording of stacks, outermost function first. `a+b` is one place: `b` is inlined
    /// into `a`.
    fn recording_of(stacks: &[(&str, u64)]) -> (Recording, SymbolTable) {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        recording.images = vec![Image::unknown()];
        let process = recording.names.intern("x");
        let mut table = SymbolTable::new();
        let mut places: Vec<String> = Vec::new();
        for (stack, count) in stacks {
            let mut caller = None;
            for place in stack.split(' ') {
                let known = places.iter().position(|known| known == place);
                let number = known.unwrap_or(places.len());
                if known.is_none() {
                    places.push(place.to_owned());
                }
                let location = Location {
                    image: ImageId(0),
                    offset: ImageOffset(number as u64),
                };
                table.insert(location, resolution_of(place, location.offset));
                caller = Some(recording.stacks.intern(location, caller));
            }
            let sample = Sample::new(CLOCK, process, caller.expect("a frame"), *count);
            recording.samples.push(sample);
        }
        (recording, table)
    }

    fn resolution_of(place: &str, start: ImageOffset) -> Resolution {
        let frame = |function: &str| SourceFrame {
            function: Arc::from(function),
            file: None,
            line: None,
        };
        let outer = place.split('+').next().unwrap_or_default();
        Resolution {
            procedure: Some(Procedure {
                name: Arc::from(outer),
                start,
                size: 1,
            }),
            inlined: place.split('+').rev().map(frame).collect(),
        }
    }

    /// Returns the nodes of a tree: their paths, with their costs with and without callees.
    fn nodes(tree: &CallTree) -> Vec<(String, i64, i64)> {
        let path = |mut node: NodeId| {
            let mut names = Vec::new();
            while let Some(method) = tree.method(node) {
                names.push(tree.methods()[method.0 as usize].name.as_str());
                node = tree.parent(node).unwrap_or(NodeId::ROOT);
            }
            names.reverse();
            names.join(" ")
        };
        let all = (1..tree.len() as u32).map(NodeId);
        let mut nodes: Vec<_> = all
            .map(|node| (path(node), tree.cum_cost(0, node), tree.cost(0, node)))
            .collect();
        nodes.sort();
        nodes
    }

    fn node(path: &str, all: i64, own: i64) -> (String, i64, i64) {
        (path.to_owned(), all, own)
    }

    #[test]
    fn trees_have_inlined_calls_and_processes() {
        let (recording, table) = recording_of(&[("main f+g", 2), ("main f", 1), ("main", 4)]);
        let filter = SampleFilter::default();
        let tree = |inlined| {
            let tree = call_tree(&recording, &table, &filter, CLOCK, inlined);
            nodes(&tree.expect("small costs"))
        };
        let top = [node("process x", 7, 0), node("process x main", 7, 4)];
        let mut expected = top.to_vec();
        expected.push(node("process x main f", 3, 3));
        assert_eq!(tree(false), expected);
        expected.truncate(2);
        expected.push(node("process x main f", 3, 1));
        expected.push(node("process x main f g", 2, 2));
        assert_eq!(tree(true), expected);
    }

    #[test]
    fn a_thread_is_in_the_tree_of_its_process() {
        let (mut recording, table) = recording_of(&[("main", 1)]);
        let process = recording.names.intern("app");
        for (tid, process) in [(7, process), (8, recording.samples[0].process)] {
            recording.threads.push(ThreadCount {
                event: CLOCK,
                pid: 7,
                tid,
                process,
                cgroup: None,
                count: 1,
                weight: 1,
            });
        }
        let count = |process: Option<&str>, thread: Option<&str>| {
            let filter = SampleFilter {
                process: process.map(str::to_owned),
                thread: thread.map(str::to_owned),
                ..SampleFilter::default()
            };
            let tree = call_tree(&recording, &table, &filter, CLOCK, false).expect("a tree");
            nodes(&tree).into_iter().next()
        };
        assert_eq!(count(None, None), Some(node("process app", 1, 0)));
        assert_eq!(
            count(Some("app"), Some("x")),
            Some(node("process app", 1, 0))
        );
        assert_eq!(count(Some("x"), None), None);
        assert_eq!(count(None, Some("app")), None);
    }

    #[test]
    fn callers_are_of_the_outermost_call() {
        let (recording, table) = recording_of(&[
            ("main a f", 2),
            ("main b+f h", 3),
            ("main a f f", 1),
            ("main b", 4),
        ]);
        let filter = SampleFilter::default();
        let callers = |name| {
            callers_tree(&recording, &table, &filter, CLOCK, true, name, 0.0).expect("a tree")
        };
        let tree = callers("f");
        assert_eq!((tree.total(0), tree.cost(0, NodeId::ROOT)), (10, 4));
        assert_eq!(
            nodes(&tree),
            [
                node("f", 6, 0),
                node("f a", 3, 0),
                node("f a main", 3, 0),
                node("f a main process x", 3, 3),
                node("f b", 3, 0),
                node("f b main", 3, 0),
                node("f b main process x", 3, 3),
            ]
        );
        // No function has this exact name: all that contain it are selected.
        assert_eq!(callers("ai").total(0), 10);
        assert_eq!(nodes(&callers("none")), []);
    }

    #[test]
    fn many_paths_outwards_take_no_nodes() {
        let stacks: Vec<String> = (0..2000)
            .map(|number| format!("main p{} q{} r{} f", number, number % 40, number % 4))
            .collect();
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|stack| (stack.as_str(), 1)).collect();
        let (recording, table) = recording_of(&stacks);
        let filter = SampleFilter::default();
        let tree = callers_tree(&recording, &table, &filter, CLOCK, true, "f", 0.02);
        let tree = tree.expect("a tree");
        // Forty callers of two and a half hundredths each are below four; callers of these are
        // rare.
        let shown = nodes(&tree);
        assert_eq!(shown.len(), 1 + 4 + 40, "{shown:?}");
        assert!(shown.contains(&node("f r0", 500, 0)));
        assert!(shown.contains(&node("f r0 q0", 50, 50)));
    }
}
