//! Cleans up stacks taken in the scheduler's tracepoints.
//!
//! The innermost frames are vitalfew's programs, the kernel's functions that call them, and the
//! scheduler. They are the same for every wait, and are removed.
//!
//! A timer or a device wakes a thread in the context of an unrelated thread on that CPU. Such a
//! kernel stack shows the interrupt's entry, and the frames outside of it are removed.

use profile::{ImageKind, Location, NameId, Recording, Sample, StackId, Waker};
use rustc_hash::FxHashMap;

/// Returns whether a kernel procedure is an interrupt's entry, on x86-64 and AArch64.
fn is_interrupt_entry(name: &str) -> bool {
    name.starts_with("asm_sysvec_")
        || matches!(
            name,
            "asm_common_interrupt"
                | "common_interrupt_return"
                | "el1h_64_irq"
                | "el0t_64_irq"
                | "call_on_irq_stack"
                | "do_softirq_own_stack"
                | "handle_softirqs"
                | "__do_softirq"
        )
}

/// vitalfew's programs, by the end of the names that the kernel gives them.
const OUR_PROGRAMS: &[&str] = &["_on_switch", "_on_waking", "_on_tracepoint"];

/// Returns whether the kernel uses this function to run programs at tracepoints.
fn is_tracing(name: &str) -> bool {
    [
        "bpf_",
        "__bpf_",
        "__traceiter_",
        "trace_",
        "__perf_",
        "perf_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// Functions by which the kernel gives up the CPU. Their caller is the function that waits (the
/// "wait channel").
const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "schedule_preempt_disabled",
    "io_schedule",
    "io_schedule_timeout",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "__cond_resched",
];

/// Removes the frames of vitalfew's programs from the stacks taken in them.
pub(crate) fn drop_own_frames(recording: &mut Recording) {
    let mut samples = std::mem::take(&mut recording.samples);
    let mut seen: FxHashMap<StackId, StackId> = FxHashMap::default();
    let mut without = |stack: &mut StackId| {
        *stack = *seen
            .entry(*stack)
            .or_insert_with_key(|stack| below_own_frames(recording, *stack));
    };
    for sample in &mut samples {
        without(&mut sample.stack);
        if let Some(stack) = sample.waker.as_mut().and_then(|waker| waker.stack.as_mut()) {
            without(stack);
        }
    }
    recording.samples = samples;
    merge_equal(recording);
}

fn below_own_frames(recording: &Recording, stack: StackId) -> StackId {
    let name = |stack: StackId| {
        let location = recording.stacks.frame(stack).location;
        kernel_procedure(recording, location)
    };
    let ours = |name: &str| OUR_PROGRAMS.iter().any(|end| name.ends_with(end));
    if !name(stack).is_some_and(ours) {
        return stack;
    }
    let mut kept = stack;
    while let Some(caller) = recording.stacks.frame(kept).caller {
        kept = caller;
        if !name(kept).is_some_and(|name| is_tracing(name) || SCHEDULER.contains(&name)) {
            break;
        }
    }
    kept
}

/// Renames wakers that are interrupts to `[interrupt]`, and cuts their stacks at the entry.
pub(crate) fn name_interrupts(recording: &mut Recording) {
    let wakers: Vec<StackId> = recording
        .samples
        .iter()
        .filter_map(|sample| sample.waker?.stack)
        .collect();
    if wakers.is_empty() {
        return;
    }
    let interrupt = recording.names.intern("[interrupt]");
    let mut cut: FxHashMap<StackId, Option<StackId>> = FxHashMap::default();
    for stack in wakers {
        cut.entry(stack).or_insert_with(|| {
            let inside = interrupt_part(recording, stack)?;
            recording.stacks.intern_stack(&inside)
        });
    }
    for sample in &mut recording.samples {
        if let Some(waker) = &mut sample.waker
            && let Some(stack) = waker.stack
            && let Some(Some(inside)) = cut.get(&stack)
        {
            *waker = by_interrupt(interrupt, *inside);
        }
    }
    merge_equal(recording);
}

fn by_interrupt(name: NameId, stack: StackId) -> Waker {
    Waker {
        process: name,
        tid: 0,
        stack: Some(stack),
    }
}

/// Returns the frames up to the entry of the interrupt, innermost first; `None` if there was none.
fn interrupt_part(recording: &Recording, stack: StackId) -> Option<Vec<Location>> {
    let mut frames = Vec::new();
    let mut end = None;
    for location in recording.stacks.locations(stack) {
        if recording.image(location.image).kind != ImageKind::Kernel {
            break;
        }
        frames.push(location);
        if kernel_procedure(recording, location).is_some_and(is_interrupt_entry) {
            end = Some(frames.len()); // of nested interrupts the outer one
        }
    }
    frames.truncate(end?);
    Some(frames)
}

fn kernel_procedure(recording: &Recording, location: Location) -> Option<&str> {
    let symbols = &recording.symbols;
    let after =
        symbols.partition_point(|s| (s.image, s.start) <= (location.image, location.offset));
    let symbol = symbols.get(after.checked_sub(1)?)?;
    let covers = location.offset < symbol.end || symbol.end == symbol.start; // or: size unknown
    (symbol.image == location.image && covers).then_some(&symbol.name)
}

/// Merges samples that have become equal.
fn merge_equal(recording: &mut Recording) {
    recording.samples.sort_unstable();
    recording.samples.dedup_by(|later, kept| {
        let (count, weight) = (kept.count, kept.weight);
        let same = Sample {
            count,
            weight,
            ..*later
        } == *kept;
        if same {
            kept.count += later.count;
            kept.weight += later.weight;
        }
        same
    });
}
