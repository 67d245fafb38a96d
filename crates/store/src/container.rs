//! Container of the members of a recording: files in a directory, or entries of an archive.

use crate::error::{StoreError, TableFault};
use crate::manifest::{self, Manifest, ManifestMember};
use crate::remote;
use crate::sniff;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The container's name in errors.
const ARCHIVE: &str = "archive";

/// Limit on the number of members, far above that of any recording.
const MAX_ENTRIES: usize = 64;

/// The members of a recording: `recording.json` first, then the tables.
#[derive(Clone)]
pub(crate) struct Encoded {
    pub members: Vec<(&'static str, Vec<u8>)>,
}

impl Encoded {
    /// Returns the length of all members, in bytes.
    pub fn len(&self) -> u64 {
        self.members
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum()
    }
}

/// A container open for reading.
pub(crate) struct Container {
    path: PathBuf,
    place: MemberPlace,
}

enum MemberPlace {
    Directory,
    /// The archive, with the place of each member in it: entries are not compressed.
    Archive(File, BTreeMap<String, MemberExtent>),
}

#[derive(Clone, Copy)]
struct MemberExtent {
    start: u64,
    len: u64,
}

impl Container {
    /// Opens the recording at `path`: a file, or the directory of an epoch.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if fs::metadata(path.join(manifest::NAME)).is_err() {
            remote::fetch_manifest(path)?;
        }
        let kind = fs::metadata(path).map_err(StoreError::wrap_io("read", path))?;
        let not_a_recording = |looks_like| StoreError::NotARecording {
            path: path.to_owned(),
            looks_like,
        };
        if kind.is_dir() {
            if !path.join(manifest::NAME).exists() {
                return Err(not_a_recording("a directory without a recording.json"));
            }
            return Ok(Self {
                path: path.to_owned(),
                place: MemberPlace::Directory,
            });
        }
        if !kind.is_file() {
            return Err(not_a_recording("neither a file nor a directory"));
        }
        let file = File::open(path).map_err(StoreError::wrap_io("read", path))?;
        if let Some(looks_like) =
            sniff::foreign_format(&file).map_err(StoreError::wrap_io("read", path))?
        {
            return Err(not_a_recording(looks_like));
        }
        let extents = entry_extents(&file, kind.len(), path)?;
        Ok(Self {
            path: path.to_owned(),
            place: MemberPlace::Archive(file, extents),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `recording.json`.
    pub fn read_manifest(&self) -> Result<Manifest, StoreError> {
        let (reader, len) = self.open_member(manifest::NAME, 0)?;
        if len > manifest::MAX_LEN {
            let what = format!("it is {len} bytes long");
            return Err(TableFault::at_offset(0, what).in_member(&self.path, manifest::NAME));
        }
        Manifest::from_bytes(&self.read_bytes(&reader, manifest::NAME, len)?, &self.path)
    }

    /// Reads a table and checks that its bytes are the ones written.
    pub fn read_table(&self, manifest: &Manifest, name: &str) -> Result<Vec<u8>, StoreError> {
        let member = manifest.members.get(name).ok_or_else(|| {
            let what = format!("it does not list {name}");
            TableFault::at_offset(0, what).in_member(&self.path, manifest::NAME)
        })?;
        match self.read_checked(name, member) {
            // In the mirror of a bucket: not fetched yet, or damaged since.
            Err(_) if remote::fetch_table(&self.path, name, member)? => {
                self.read_checked(name, member)
            }
            read => read,
        }
    }

    fn read_checked(&self, name: &str, member: &ManifestMember) -> Result<Vec<u8>, StoreError> {
        let (reader, len) = self.open_member(name, member.bytes)?;
        let truncated = |found| StoreError::Truncated {
            path: self.path.clone(),
            member: name.to_owned(),
            expected: member.bytes,
            found,
        };
        if len != member.bytes {
            return Err(truncated(len));
        }
        let bytes = self.read_bytes(&reader, name, len)?;
        let found = crc32fast::hash(&bytes);
        if found != member.crc32 {
            return Err(StoreError::Checksum {
                path: self.path.clone(),
                member: name.to_owned(),
                expected: member.crc32,
                found,
            });
        }
        Ok(bytes)
    }

    /// Opens the file of a member, and returns the member's place in it. `expected` is only for the
    /// error.
    fn open_member(&self, name: &str, expected: u64) -> Result<(MemberReader, u64), StoreError> {
        let missing = || StoreError::Truncated {
            path: self.path.clone(),
            member: name.to_owned(),
            expected,
            found: 0,
        };
        match &self.place {
            MemberPlace::Directory => {
                let path = self.path.join(name);
                let file = match File::open(&path) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing()),
                    file => file.map_err(StoreError::wrap_io("read", &path))?,
                };
                let len = file
                    .metadata()
                    .map_err(StoreError::wrap_io("read", &path))?
                    .len();
                Ok((MemberReader { file, start: 0 }, len))
            }
            MemberPlace::Archive(file, extents) => {
                let extent = extents.get(name).ok_or_else(missing)?;
                let file = file
                    .try_clone()
                    .map_err(StoreError::wrap_io("read", &self.path))?;
                let start = extent.start;
                Ok((MemberReader { file, start }, extent.len))
            }
        }
    }

    /// Reads a member. `len` is no more than the file has: nothing is allocated because a header
    /// claims it.
    fn read_bytes(
        &self,
        reader: &MemberReader,
        name: &str,
        len: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let too_long =
            || TableFault::at_offset(0, "it does not fit into memory").in_member(&self.path, name);
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| too_long())?];
        let read = reader.file.read_exact_at(&mut bytes, reader.start);
        read.map_err(StoreError::wrap_io("read", &self.path))?;
        Ok(bytes)
    }
}

struct MemberReader {
    file: File,
    start: u64,
}

/// Returns the extents of the entries of an archive of `len` bytes.
fn entry_extents(
    file: &File,
    len: u64,
    path: &Path,
) -> Result<BTreeMap<String, MemberExtent>, StoreError> {
    let fault = |what: String| TableFault::at_offset(0, what).in_member(path, ARCHIVE);
    let mut archive = ZipArchive::new(BufReader::new(file))
        .map_err(|e| fault(format!("it is damaged or was cut short: {e}")))?;
    if archive.len() > MAX_ENTRIES {
        return Err(fault(format!("it has {} entries", archive.len())));
    }
    let mut extents = BTreeMap::new();
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(|e| fault(e.to_string()))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let stored = entry.compression() == CompressionMethod::Stored && !entry.encrypted();
        let (start, size) = (entry.data_start().unwrap_or(len), entry.compressed_size());
        if !stored || start.checked_add(size).is_none_or(|end| end > len) {
            return Err(fault(format!("{name} is compressed or lies outside")));
        }
        extents.insert(name, MemberExtent { start, len: size });
    }
    if !extents.contains_key(manifest::NAME) {
        return Err(StoreError::NotARecording {
            path: path.to_owned(),
            looks_like: "a zip archive of something else",
        });
    }
    Ok(extents)
}

/// Writes the members as one archive.
pub(crate) fn write_archive(encoded: &Encoded) -> Result<Vec<u8>, StoreError> {
    let write = || -> Result<Vec<u8>, io::Error> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in &encoded.members {
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .large_file(u32::try_from(bytes.len()).is_err());
            archive.start_file(*name, options)?;
            archive.write_all(bytes)?;
        }
        Ok(archive.finish()?.into_inner())
    };
    // Writing to memory can only fail by size.
    write().map_err(|e| StoreError::unstorable(e.to_string()))
}

/// Writes the members as files into the directory `path`, and syncs files and directory to stable
/// storage.
pub(crate) fn write_directory(encoded: &Encoded, path: &Path) -> Result<(), StoreError> {
    for (name, bytes) in &encoded.members {
        let member = path.join(name);
        let mut file = File::create_new(&member).map_err(StoreError::wrap_io("create", &member))?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(StoreError::wrap_io("write", &member))?;
    }
    sync_directory(path)
}

/// Syncs the entries of a directory to stable storage: a rename is safe only after this.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(StoreError::wrap_io("write", path))
}
