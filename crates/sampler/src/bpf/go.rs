//! User half of go.h: passes the layout of Go's runtime to the kernel, and reads the records of
//! labels.

use crate::Error;
use languages::go::{GoLabelForm, GoProgram};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::rc::Rc;

/// `LABEL_KEY` and `LABEL_VALUE` of go.h.
const KEY: usize = 32;
const VALUE: usize = 96;
/// Bytes of `struct go_program`, and of `struct go_label`.
const PROGRAM: usize = 12;
const LABEL: usize = 8 + KEY + VALUE;

/// Returns `struct go_program`; all zero if there is no program.
pub(crate) fn program_bytes(program: Option<&GoProgram>) -> [u8; PROGRAM] {
    let mut bytes = [0; PROGRAM];
    if let Some(program) = program {
        bytes[..4].copy_from_slice(&program.goroutine.to_ne_bytes());
        bytes[4..6].copy_from_slice(&program.goroutine_thread.to_ne_bytes());
        bytes[6..8].copy_from_slice(&program.thread_goroutine.to_ne_bytes());
        bytes[8..10].copy_from_slice(&program.labels.to_ne_bytes());
        bytes[10] = match program.form {
            GoLabelForm::Map => 1,
            GoLabelForm::List => 2,
        };
    }
    bytes
}

/// Reads the records of labels that the kernel half sends.
pub(crate) struct LabelRecords {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<(u32, String)>>>,
}

impl LabelRecords {
    /// Reads the records of this ring buffer.
    pub fn new(map: &dyn MapCore) -> Result<Self, Error> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&read);
        let keep = move |bytes: &[u8]| {
            to.borrow_mut().extend(parse_labels(bytes));
            0
        };
        let what = "reading labels of goroutines";
        let mut builder = RingBufferBuilder::new();
        builder.add(map, keep).map_err(Error::bpf(what))?;
        let ring = builder.build().map_err(Error::bpf(what))?;
        Ok(Self { ring, read })
    }

    /// Returns the labels that have arrived since the last call, by number.
    pub fn take(&self) -> Vec<(u32, String)> {
        // Unreadable records stay for the next call.
        let _ = self.ring.consume();
        self.read.take()
    }
}

fn parse_labels(bytes: &[u8]) -> Option<(u32, String)> {
    let half = |bytes: &[u8], at: usize| {
        Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?) as usize)
    };
    let (number, count) = (half(bytes, 0)?, half(bytes, 4)?);
    let labels = bytes.get(8..)?.chunks_exact(LABEL).take(count);
    let mut labels: Vec<String> = labels
        .filter_map(|label| {
            let (key, value) = (half(label, 0)?, half(label, 4)?);
            let (key_text, value_text) = label.get(8..)?.split_at_checked(KEY)?;
            Some(format!(
                "{}={}",
                text_of(key_text, key),
                text_of(value_text, value)
            ))
        })
        .collect();
    labels.sort_unstable();
    Some((number as u32, labels.join(", ")))
}

/// Returns the text; it ends in "…" if it was cut short of its length.
fn text_of(bytes: &[u8], length: usize) -> String {
    let there = bytes.get(..length).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(there).into_owned();
    if length > bytes.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_say_where_they_are_cut() {
        let mut bytes = 7_u32.to_ne_bytes().to_vec();
        bytes.extend(2_u32.to_ne_bytes());
        for (key, value, length) in [("route", "/a", 2_u32), ("area", "x", 500)] {
            let mut label = (key.len() as u32).to_ne_bytes().to_vec();
            label.extend(length.to_ne_bytes());
            label.extend(key.as_bytes());
            label.resize(8 + KEY, 0);
            label.extend(value.repeat(VALUE).bytes().take(VALUE));
            bytes.extend(label);
        }
        let (number, text) = parse_labels(&bytes).unwrap();
        assert_eq!(number, 7);
        assert_eq!(text, format!("area={}…, route=/a", "x".repeat(VALUE)));
        assert_eq!(parse_labels(&bytes[..6]), None);
        assert_eq!(
            parse_labels(&bytes[..9]),
            Some((7, String::new())),
            "cut off"
        );
    }
}
