//! Layout of the interpreter's structures, by version.

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3.
    pub major: u8,
    /// 8 to 14.
    pub minor: u8,
}

/// The number of functions in one call of the evaluation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameCalls {
    /// One function (3.8 to 3.10).
    One = 1,
    /// All functions up to and including the one that is marked as an entry (3.11).
    ToEntry = 2,
    /// All functions up to a frame that is no function (3.12 and later).
    ToShim = 3,
}

/// Offsets of fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The runtime's first interpreter.
    pub interpreters_head: u32,
    /// An interpreter's successor in the list.
    pub interpreter_next: u32,
    /// An interpreter's first thread.
    pub interpreter_threads: u32,
    /// A thread's successor in the list.
    pub thread_next: u16,
    /// A thread's `pthread_t`.
    pub thread_id: u16,
    /// A thread's frame, or the structure that holds it.
    pub thread_frame: u16,
    /// The frame's place in the holding structure, if there is one.
    pub holder_frame: Option<u16>,
    /// Bytes of a frame that contain all fields that are read.
    pub frame_size: u16,
    /// A frame's code object.
    pub frame_code: u16,
    /// A frame's caller.
    pub frame_previous: u16,
    /// A frame's instruction.
    pub frame_instruction: u16,
    /// The mark on a frame that ends a call of the evaluation function.
    pub frame_mark: u16,
    /// A code object's first line.
    pub code_first_line: u16,
    /// A code object's file.
    pub code_file: u16,
    /// A code object's (qualified) name.
    pub code_name: u16,
    /// A code object's table of lines.
    pub code_lines: u16,
    /// A code object's instructions, if frames point to one of them.
    pub code_instructions: Option<u16>,
    /// A string's characters, if all are ASCII.
    pub ascii_data: u16,
    /// A string's characters, if not all are ASCII.
    pub text_data: u16,
    /// A bytes object's bytes.
    pub bytes_data: u16,
    /// The relation of functions to calls of the evaluation function.
    pub calls: FrameCalls,
    /// The mark's lowest value, for [`FrameCalls::ToShim`].
    pub mark: u8,
}

const V3_8: Offsets = Offsets {
    interpreters_head: 32,
    interpreter_next: 0,
    interpreter_threads: 8,
    thread_next: 8,
    thread_id: 176,
    thread_frame: 24,
    holder_frame: None,
    frame_size: 112,
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: 104,
    frame_mark: 0,
    code_first_line: 40,
    code_file: 104,
    code_name: 112,
    code_lines: 120,
    code_instructions: None,
    ascii_data: 48,
    text_data: 72,
    bytes_data: 32,
    calls: FrameCalls::One,
    mark: 0,
};
const V3_10: Offsets = Offsets {
    frame_instruction: 96,
    ..V3_8
};
const V3_11: Offsets = Offsets {
    interpreters_head: 40,
    interpreter_next: 0,
    interpreter_threads: 16,
    thread_next: 8,
    thread_id: 152,
    thread_frame: 56,
    holder_frame: Some(8),
    frame_size: 72,
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    frame_mark: 68,
    code_first_line: 72,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    code_instructions: Some(184),
    calls: FrameCalls::ToEntry,
    ..V3_8
};
const V3_12: Offsets = Offsets {
    interpreter_threads: 72,
    thread_id: 136,
    holder_frame: Some(0),
    frame_code: 0,
    frame_previous: 8,
    frame_mark: 70,
    code_first_line: 68,
    code_instructions: Some(192),
    ascii_data: 40,
    text_data: 56,
    calls: FrameCalls::ToShim,
    mark: 3,
    ..V3_11
};

impl Offsets {
    /// Returns the offsets of a version that does not publish them.
    pub fn of_version(version: Version) -> Option<Self> {
        match (version.major, version.minor) {
            (3, 8 | 9) => Some(V3_8),
            (3, 10) => Some(V3_10),
            (3, 11) => Some(V3_11),
            (3, 12) => Some(V3_12),
            _ => None,
        }
    }

    /// Returns the offsets that 3.13 and 3.14 publish at the start of their runtime
    /// (`_Py_DebugOffsets`); `None` if these bytes are something else, or come from a build without
    /// the global lock, which is untested.
    pub fn published(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..8)? != b"xdebugpy" {
            return None;
        }
        let word = |index: usize| -> Option<u64> {
            let bytes = bytes.get(8 * index..8 * index + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let near = |index: usize| u16::try_from(word(index)?).ok();
        let far = |index: usize| u32::try_from(word(index)?).ok();
        let groups = match word(1)? >> 16 {
            0x030d => PUBLISHED_3_13,
            0x030e => PUBLISHED_3_14,
            _ => return None,
        };
        if word(FREE_THREADED)? != 0 {
            return None;
        }
        let PublishedGroups {
            thread,
            frame,
            code,
            bytes: byte_string,
            text,
        } = groups;
        let ascii = near(text + 3)?;
        let frame_mark = near(frame + 5)?;
        Some(Self {
            interpreters_head: far(RUNTIME + 2)?,
            interpreter_next: far(INTERPRETER + 2)?,
            interpreter_threads: far(INTERPRETER + 3)?,
            thread_next: near(thread + 2)?,
            thread_frame: near(thread + 4)?,
            thread_id: near(thread + 5)?,
            holder_frame: None,
            frame_size: frame_mark.checked_add(1)?.checked_next_multiple_of(8)?,
            frame_previous: near(frame + 1)?,
            frame_code: near(frame + 2)?,
            frame_instruction: near(frame + 3)?,
            frame_mark,
            code_file: near(code + 1)?,
            code_name: near(code + 3)?,
            code_lines: near(code + 4)?,
            code_first_line: near(code + 5)?,
            code_instructions: Some(near(code + 9)?),
            ascii_data: ascii,
            text_data: ascii.checked_add(16)?,
            bytes_data: near(byte_string + 2)?,
            ..V3_12
        })
        .filter(Self::is_readable)
    }

    /// Returns whether all fields that are read are in the bytes that the kernel half reads at
    /// once.
    fn is_readable(&self) -> bool {
        let frame = [self.frame_code, self.frame_previous, self.frame_instruction];
        let code = [self.code_file, self.code_name, self.code_lines];
        let has_word = |size: u16| {
            move |at: &u16| at.checked_add(8).is_some_and(|end| end <= size) && at.is_multiple_of(8)
        };
        self.frame_size <= MOST_FRAME
            && frame.iter().all(has_word(self.frame_size))
            && self.frame_mark < self.frame_size
            && code.iter().all(has_word(CODE_HEAD))
            && self.code_first_line <= CODE_HEAD - 4
    }
}

/// Bytes of a frame, and of a code object, that the kernel half reads at once.
const MOST_FRAME: u16 = 128;
const CODE_HEAD: u16 = 144;

/// The first words of the groups of `_Py_DebugOffsets` that are the same in all versions.
const FREE_THREADED: usize = 2;
const RUNTIME: usize = 3;
const INTERPRETER: usize = 6;

/// The first words of its other groups.
struct PublishedGroups {
    thread: usize,
    frame: usize,
    code: usize,
    bytes: usize,
    text: usize,
}

const PUBLISHED_3_13: PublishedGroups = PublishedGroups {
    thread: 19,
    frame: 28,
    code: 34,
    bytes: 64,
    text: 67,
};
const PUBLISHED_3_14: PublishedGroups = PublishedGroups {
    thread: 22,
    frame: 31,
    code: 39,
    bytes: 74,
    text: 77,
};
/// Number of bytes of the published offsets that are read.
pub(super) const PUBLISHED: usize = 8 * 81;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_read_at_once() {
        for minor in 8..=12 {
            let offsets = Offsets::of_version(Version { major: 3, minor }).unwrap();
            assert!(offsets.is_readable(), "3.{minor}");
        }
        for minor in [7, 14] {
            assert_eq!(Offsets::of_version(Version { major: 3, minor }), None);
        }
    }

    /// Returns the bytes that a version publishes, with these words set.
    fn published(version: u64, words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; PUBLISHED];
        bytes[..8].copy_from_slice(b"xdebugpy");
        for (at, word) in [(1, version << 16 | 0x00f0)].iter().chain(words) {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn what_is_published_is_checked() {
        assert_eq!(Offsets::published(b"xdebug"), None);
        for (version, code) in [(0x030d, 30), (0x030e, 33)] {
            let calls =
                |words: &[_]| Offsets::published(&published(version, words)).map(|o| o.calls);
            let owner = (code + 3, 74);
            assert_eq!(calls(&[owner]), Some(FrameCalls::ToShim), "{version:x}");
            let behind = [owner, (code, 400)];
            assert_eq!(calls(&behind), None, "a code object behind the frame");
            assert_eq!(calls(&[owner, (FREE_THREADED, 1)]), None, "no global lock");
            for hostile in [0xfff0, 0xffff, u64::MAX] {
                for word in 0..PUBLISHED / 8 {
                    calls(&[owner, (word, hostile)]);
                }
            }
        }
        let unknown = published(0x030f, &[(36, 74)]);
        assert_eq!(Offsets::published(&unknown), None, "3.15");
    }

    /// Compares with Debian's 3.14.10 for x86-64.
    #[test]
    fn offsets_of_3_14_are_where_it_publishes_them() {
        let words = [
            (5, 808),
            (8, 7272),
            (9, 7344),
            (24, 8),
            (26, 72),
            (27, 152),
            (32, 8),
            (33, 0),
            (34, 56),
            (36, 74),
            (40, 112),
            (42, 128),
            (43, 136),
            (44, 68),
            (48, 208),
            (76, 32),
            (80, 40),
        ];
        let offsets = Offsets::published(&published(0x030e, &words)).unwrap();
        assert_eq!(offsets.interpreter_threads, 7344);
        assert_eq!((offsets.thread_frame, offsets.thread_id), (72, 152));
        assert_eq!((offsets.frame_mark, offsets.frame_size), (74, 80));
        assert_eq!((offsets.code_name, offsets.code_first_line), (128, 68));
        assert_eq!(offsets.code_instructions, Some(208));
        assert_eq!((offsets.bytes_data, offsets.text_data), (32, 56));
    }
}
