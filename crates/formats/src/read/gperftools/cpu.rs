//! CPU profiles: words of four or eight bytes. First a header of five words, then stacks: count,
//! number of addresses, addresses; then the mappings as text, or the names of Java's methods.

use super::legacy::LegacyProfile;
use super::text::read_tail;
use crate::read::error::{FilePosition, ReadFault};
use rustc_hash::FxHashMap;

/// The width and byte order of a file's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuWords {
    width: usize,
    big_endian: bool,
}

/// The header's words after the format's own: whether the profile is of Java, and the period.
struct CpuHeader {
    java: bool,
    period_us: u64,
}

const HEADER_WORDS: usize = 5;
/// One in this many stacks may have an innermost caller other than the signal's handler.
const HANDLER_SHARE: usize = 32;

impl CpuWords {
    /// Returns the form of the words, if `head` begins with the header of a CPU profile.
    pub fn detect_words(head: &[u8]) -> Option<Self> {
        [(4, false), (4, true), (8, false), (8, true)]
            .into_iter()
            .map(|(width, big_endian)| Self { width, big_endian })
            .find(|words| words.parse_header(head).is_some())
    }

    fn parse_header(self, bytes: &[u8]) -> Option<CpuHeader> {
        let word = |index| self.word_at(bytes, index * self.width);
        let is_header = word(0)? == 0 && word(1)? == 3 && word(2)? <= 1 && word(4)? == 0;
        let period_us = word(3)?;
        (is_header && period_us > 0).then_some(CpuHeader {
            java: word(2)? == 1,
            period_us,
        })
    }

    fn word_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(self.width)?)?;
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    }
}

pub(super) fn read_cpu_profile(
    bytes: &[u8],
    base: u64,
    profile: &mut LegacyProfile,
) -> Result<(), ReadFault> {
    let place = |at: usize| FilePosition::Offset(base + at as u64);
    let words = CpuWords::detect_words(bytes);
    let Some((words, header)) = words.and_then(|words| Some((words, words.parse_header(bytes)?)))
    else {
        return Err(ReadFault::damaged("no header of a CPU profile", place(0)));
    };
    profile.value_types = vec![("samples", "count"), ("cpu", "nanoseconds")];
    let period = header.period_us.saturating_mul(1000);
    let mut at = HEADER_WORDS * words.width;
    let mut stack = Vec::new();
    let mut ended = false;
    while at < bytes.len() {
        let word = |index: usize| words.word_at(bytes, at + index * words.width);
        let (Some(count), Some(depth)) = (word(0), word(1)) else {
            return Err(ReadFault::damaged("cut short in a stack", place(at)));
        };
        let left = (bytes.len() - at) / words.width;
        if depth > left.saturating_sub(2) as u64 {
            let what = format!("a stack of {depth} addresses, beyond the end of the file");
            return Err(ReadFault::damaged(what, place(at)));
        }
        let depth = depth as usize;
        stack.clear();
        stack.extend((2..depth + 2).filter_map(word));
        at += (depth + 2) * words.width;
        if count == 0 && stack == [0] {
            ended = true;
            break;
        }
        if !header.java {
            // Callers are return addresses; the call is before them.
            for address in stack.iter_mut().skip(1) {
                *address = address.wrapping_sub(1);
            }
        }
        let (Ok(count), Ok(time)) = (
            i64::try_from(count),
            i64::try_from(count.saturating_mul(period)),
        ) else {
            return Err(ReadFault::damaged(
                format!("{count} samples of one stack"),
                place(at),
            ));
        };
        profile.add_stack(&stack, [count, time, 0, 0]);
    }
    if !ended {
        let note = "the profile has no end: the program may have been killed";
        profile.notes.push(note.to_owned());
    }
    if !header.java {
        remove_handler(profile);
        remove_handler(profile);
        remove_doubled_leaves(profile);
    }
    let tail = bytes.get(at..).unwrap_or_default();
    read_tail(&String::from_utf8_lossy(tail), header.java, profile);
    Ok(())
}

/// Removes the frame above the innermost one if nearly all stacks have the same: that of the
/// sampling signal.
fn remove_handler(profile: &mut LegacyProfile) {
    let mut callers: FxHashMap<u64, usize> = FxHashMap::default();
    for stack in &profile.stacks {
        if let Some(caller) = profile.stack_frames(stack).get(1) {
            *callers.entry(*caller).or_default() += 1;
        }
    }
    let least = profile.stacks.len() - profile.stacks.len() / HANDLER_SHARE;
    let handler = callers.iter().find(|(_, count)| **count >= least);
    if let Some(handler) = handler.map(|(address, _)| *address) {
        remove_second(profile, |_, second| second == handler);
    }
}

/// Removes the second innermost frame if it repeats the first: the signal's context and the
/// unwinder both yield it, the latter minus one.
fn remove_doubled_leaves(profile: &mut LegacyProfile) {
    remove_second(profile, |first, second| first == second.wrapping_add(1));
}

/// Removes the second frame of the stacks whose first two frames `is_wrong` accepts.
fn remove_second(profile: &mut LegacyProfile, is_wrong: impl Fn(u64, u64) -> bool) {
    let LegacyProfile {
        stacks, addresses, ..
    } = profile;
    for stack in stacks {
        if let Some([first, second, ..]) = addresses.get_mut(stack.frames.clone())
            && is_wrong(*first, *second)
        {
            *second = *first;
            stack.frames.start += 1;
        }
    }
}
