//! Words that encode the frames of stacks walked by unwind tables.

use super::python::ScriptFrame;
use profile::ImageOffset;

/// `IMAGE_WORD`, `IMAGE_OFFSET_BITS` and `LABEL_VDSO` of unwind_tables.h.
const IMAGE_WORD: u64 = 1 << 62;
const OFFSET_BITS: u32 = 40;
pub(crate) const VDSO_LABEL: u32 = 1;
/// The first label of a file.
pub(crate) const FIRST_LABEL: u32 = 2;
/// Upper bound of labels. Frames of further images are addresses.
pub(crate) const MOST_LABELS: u32 = 1 << 20;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameWord {
    Script(ScriptFrame),
    /// A place in the image with this label.
    Image {
        label: u32,
        offset: ImageOffset,
    },
    /// An address, which has a meaning only in its process.
    Address(u64),
}

impl FrameWord {
    /// Returns whether a frame means the same in every process.
    pub fn is_place(word: u64) -> bool {
        word & (IMAGE_WORD | 1 << 63) != 0
    }

    /// Decodes the frame at `depth` callers above the innermost. A caller's place is its call
    /// instruction, not the return address.
    pub fn at_depth(word: u64, depth: usize) -> Self {
        let behind = u64::from(depth > 0);
        if let Some(frame) = ScriptFrame::of_word(word) {
            return Self::Script(frame);
        }
        if word & IMAGE_WORD == 0 {
            return Self::Address(word.saturating_sub(behind));
        }
        let offset = word & ((1 << OFFSET_BITS) - 1);
        Self::Image {
            label: ((word & !IMAGE_WORD) >> OFFSET_BITS) as u32,
            offset: ImageOffset(offset.saturating_sub(behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_addresses_places_or_functions() {
        let at = |word, depth| FrameWord::at_depth(word, depth);
        assert_eq!(at(0x7fff_0000, 0), FrameWord::Address(0x7fff_0000));
        assert_eq!(at(0x7fff_0000, 1), FrameWord::Address(0x7ffe_ffff));
        let place = |offset| FrameWord::Image {
            label: 7,
            offset: ImageOffset(offset),
        };
        let word = IMAGE_WORD | 7 << OFFSET_BITS | 0x1234;
        assert_eq!(at(word, 0), place(0x1234));
        assert_eq!(at(word, 3), place(0x1233));
        // A return address at the start of an image does not belong to the image before it.
        assert_eq!(at(IMAGE_WORD | 7 << OFFSET_BITS, 3), place(0));
        assert!(matches!(at(1 << 63 | 5 << 20, 2), FrameWord::Script(_)));
        let last = IMAGE_WORD | u64::from(MOST_LABELS - 1) << OFFSET_BITS;
        assert!(matches!(at(last, 0), FrameWord::Image { label, .. } if label == MOST_LABELS - 1));
    }
}
