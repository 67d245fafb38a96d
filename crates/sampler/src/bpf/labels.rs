//! Files of the labels in stacks, in a table that can be pinned. A daemon that takes over from a
//! killed one needs them for the stacks that are left in the kernel.

use crate::Error;
use crate::bpf::frame_words::FIRST_LABEL;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use profile::FileIdentity;
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum number of files that a permanent collector labels. A machine that builds programs and
/// runs them meets new files all the time; when no label is left, the daemon starts a new
/// collector.
pub(crate) const MOST_FILES: u32 = 1 << 15;

/// The table. For each file: inode, generation, and the two parts of the device.
pub(crate) struct ImageLabels(MapHandle);

impl ImageLabels {
    /// Creates an empty table.
    pub fn create() -> Result<Self, Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_NO_PREALLOC,
            ..Default::default()
        };
        MapHandle::create(
            MapType::Hash,
            Some("vf_labels"),
            4,
            24,
            MOST_FILES,
            &options,
        )
        .map(Self)
        .map_err(Error::bpf("making a table for labels of images"))
    }

    /// Opens a pinned table.
    pub fn of_map(map: MapHandle) -> Self {
        Self(map)
    }

    /// Records the file of a label; false if there is no room.
    pub fn set_file(&self, label: u32, file: FileIdentity) -> bool {
        let mut value = file.inode.to_ne_bytes().to_vec();
        value.extend(file.generation.to_ne_bytes());
        value.extend(file.major.to_ne_bytes());
        value.extend(file.minor.to_ne_bytes());
        let key = label.to_ne_bytes();
        self.0.update(&key, &value, MapFlags::ANY).is_ok()
    }

    /// Returns the files by label, from the first label on.
    pub fn read_files(&self) -> Vec<FileIdentity> {
        let labels = FIRST_LABEL..FIRST_LABEL + MOST_FILES;
        let read = |label: u32| {
            let value = self.0.lookup(&label.to_ne_bytes(), MapFlags::ANY);
            file_of_value(&value.ok()??)
        };
        labels.map_while(read).collect()
    }
}

impl AsFd for ImageLabels {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn file_of_value(value: &[u8]) -> Option<FileIdentity> {
    let (inode, rest) = value.split_first_chunk::<8>()?;
    let (generation, rest) = rest.split_first_chunk::<8>()?;
    let (major, minor) = rest.split_first_chunk::<4>()?;
    Some(FileIdentity {
        major: u32::from_ne_bytes(*major),
        minor: u32::from_ne_bytes(minor.try_into().ok()?),
        inode: u64::from_ne_bytes(*inode),
        generation: u64::from_ne_bytes(*generation),
    })
}
