//! Search for the owner of a sample among the functions of a thread's stack, innermost first.

use crate::stack_memory;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::selection::{CodeSet, REST, SELECTED, Steps};
use runtime_abi::{Page, Place, Rule, Thread, UNKNOWN};

/// Maximum number of frames searched.
const FRAMES: usize = 64;

/// Registers of an interrupted thread.
pub struct Frame {
    pub pc: u64,
    pub sp: u64,
    fp: u64,
    lr: u64,
}

impl Frame {
    /// Makes a frame from its registers; `lr`: the link register, on processors that keep the
    /// return address in one.
    pub fn new(pc: u64, sp: u64, fp: u64, lr: u64) -> Self {
        Frame { pc, sp, fp, lr }
    }
}

/// The owner of a sample.
#[derive(Clone, Copy)]
pub enum Owner {
    /// The sample belongs to this fragment.
    Fragment(u32),
    /// Nothing in the call chain is in scope.
    OutOfScope,
    /// The owner is not resolved yet.
    Unknown,
}

/// Returns the owner of a sample: the first frame in scope (section 3.4.2), or whether the sample
/// is in the selected set.
pub fn owning_fragment(page: &Page, thread: &Thread, frame: Frame) -> Owner {
    match page.selection.selected_set() {
        None => walk_stack(page, thread, frame, |place, _| match place {
            Place::Fragment(fragment) => Some(fragment),
            _ => None,
        }),
        Some(CodeSet::Lock) if thread.holds.load(Relaxed) > 0 => Owner::Fragment(SELECTED),
        Some(CodeSet::Lock) => Owner::Fragment(REST),
        Some(CodeSet::Sequence(length)) => {
            let mut state = 0;
            let owner = walk_stack(page, thread, frame, |_, steps| {
                state = steps.next_state(state);
                (state == length).then_some(SELECTED)
            });
            match owner {
                Owner::OutOfScope => Owner::Fragment(REST),
                other => other,
            }
        }
    }
}

/// Walks the frames until `find` knows the owner. For each place the controller has recorded its
/// meaning and the rule that finds its caller. An unknown place is queued for the controller, and
/// the sample has no owner.
fn walk_stack(
    page: &Page,
    thread: &Thread,
    mut frame: Frame,
    mut find: impl FnMut(Place, Steps) -> Option<u32>,
) -> Owner {
    let low = thread.stack_low.load(Relaxed);
    let high = thread.stack_high.load(Relaxed);
    let word = |at: u64| -> Option<u64> {
        let on_stack = at >= low && at < high.saturating_sub(7) && at.is_multiple_of(8);
        on_stack.then(|| stack_memory::read_word(at)).flatten()
    };
    let mut address = frame.pc;
    for _ in 0..FRAMES {
        let Some((place, steps)) = page.place_with_steps(address) else {
            request_lookup(page, address);
            return Owner::Unknown;
        };
        if let Some(fragment) = find(place, steps) {
            return Owner::Fragment(fragment);
        }
        let Place::Caller(rule) = place else {
            break;
        };
        if frame.sp < low || frame.sp >= high {
            break; // a stack of unknown bounds: a coroutine's, or a signal's
        }
        match caller_frame(&rule, &frame, word) {
            Some(next) => frame = next,
            None => break,
        }
        // An address inside the call instruction.
        address = frame.pc.wrapping_sub(1);
    }
    Owner::OutOfScope
}

fn caller_frame(rule: &Rule, frame: &Frame, word: impl Fn(u64) -> Option<u64>) -> Option<Frame> {
    let base = if rule.from_frame_pointer {
        frame.fp
    } else {
        frame.sp
    };
    let cfa = base.checked_add(rule.cfa.into())?;
    let saved = |offset: i16| {
        let at = cfa.checked_add_signed(offset.into())?;
        // Below the stack pointer the stack may not be mapped.
        (at >= frame.sp).then(|| word(at)).flatten()
    };
    // A caller's frame lies above; otherwise the rule is wrong or the stack is damaged.
    if cfa < frame.sp {
        return None;
    }
    Some(Frame {
        pc: match rule.return_address {
            Some(offset) => saved(offset)?,
            None => frame.lr,
        },
        sp: cfa,
        fp: match rule.frame_pointer {
            Some(offset) => saved(offset)?,
            None => frame.fp,
        },
        lr: 0,
    })
}

/// Asks the controller to resolve a place. The controller polls each few milliseconds: in large
/// programs waking it each time would take longer than the sample.
fn request_lookup(page: &Page, address: u64) {
    page.misses.fetch_add(1, Relaxed);
    let at = page.unknown_head.0.fetch_add(1, Relaxed) as usize & (UNKNOWN - 1);
    if let Some(entry) = page.unknown.get(at) {
        entry.store(address, Relaxed);
    }
}
