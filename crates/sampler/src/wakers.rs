//! Waits that an interrupt ended.
//!
//! A thread that a timer or a device wakes is woken in the context of whatever ran there. That
//! thread did nothing for it: the kernel stack shows the interrupt's entry, and what lies outside
//! of it goes.

use profile::{ImageKind, Location, NameId, Recording, StackId, Waker};
use rustc_hash::FxHashMap;

/// Kernel procedures by which interrupts are entered, on x86-64 and AArch64.
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

/// Renames the wakers that are interrupts to `[interrupt]`, and cuts their stacks at its entry.
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
        if !cut.contains_key(&stack) {
            let inside = interrupt_part(recording, stack)
                .and_then(|locations| recording.stacks.intern_stack(&locations));
            cut.insert(stack, inside);
        }
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

/// The frames up to the entry of the interrupt, innermost first; `None` if there was none.
fn interrupt_part(recording: &Recording, stack: StackId) -> Option<Vec<Location>> {
    let mut frames = Vec::new();
    let mut end = None;
    for location in recording.stacks.locations(stack) {
        if recording.image(location.image).kind != ImageKind::Kernel {
            break;
        }
        frames.push(location);
        if kernel_procedure(recording, location).is_some_and(is_interrupt_entry) {
            end = Some(frames.len()); // an interrupt within an interrupt: the outer one
        }
    }
    frames.truncate(end?);
    Some(frames)
}

fn kernel_procedure(recording: &Recording, location: Location) -> Option<&str> {
    let symbols = &recording.symbols;
    let after = symbols.partition_point(|s| (s.image, s.start) <= (location.image, location.offset));
    let symbol = symbols.get(after.checked_sub(1)?)?;
    (symbol.image == location.image && location.offset < symbol.end).then_some(&symbol.name)
}

/// Samples that have become equal are counted together.
fn merge_equal(recording: &mut Recording) {
    recording.samples.sort_unstable();
    recording.samples.dedup_by(|later, kept| {
        let same = (later.event, later.process, later.pid, later.tid, later.stack, later.waker)
            == (kept.event, kept.process, kept.pid, kept.tid, kept.stack, kept.waker);
        if same {
            kept.count += later.count;
            kept.weight += later.weight;
        }
        same
    });
}
