//! Where the members of a recording lie: files in a directory, or entries of an archive.

use crate::error::{Error, Fault};
use crate::manifest::{self, Manifest};
use crate::sniff;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// What the container itself is called in errors.
const ARCHIVE: &str = "archive";

/// A recording has six members; a later one may have more.
const MAX_ENTRIES: usize = 64;

/// The members of a recording: `recording.json` first, then the tables.
#[derive(Clone)]
pub(crate) struct Encoded {
    pub members: Vec<(&'static str, Vec<u8>)>,
}

impl Encoded {
    /// The length of all members, in bytes.
    pub fn len(&self) -> u64 {
        self.members
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum()
    }
}

/// A container that is open for reading.
pub(crate) struct Source {
    path: PathBuf,
    place: Place,
}

enum Place {
    Directory,
    /// The archive, and where in it each member lies: its entries are not compressed.
    Archive(File, BTreeMap<String, Extent>),
}

#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    len: u64,
}

impl Source {
    /// Opens the recording at `path`: a file, or the directory of an epoch.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let kind = fs::metadata(path).map_err(Error::io("read", path))?;
        let not_a_recording = |looks_like| Error::NotARecording {
            path: path.to_owned(),
            looks_like,
        };
        if kind.is_dir() {
            if !path.join(manifest::NAME).exists() {
                return Err(not_a_recording("a directory without a recording.json"));
            }
            return Ok(Self {
                path: path.to_owned(),
                place: Place::Directory,
            });
        }
        if !kind.is_file() {
            return Err(not_a_recording("neither a file nor a directory"));
        }
        let file = File::open(path).map_err(Error::io("read", path))?;
        if let Some(looks_like) = sniff::foreign(&file).map_err(Error::io("read", path))? {
            return Err(not_a_recording(looks_like));
        }
        let extents = extents(&file, kind.len(), path)?;
        Ok(Self {
            path: path.to_owned(),
            place: Place::Archive(file, extents),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `recording.json`.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        let (reader, len) = self.member(manifest::NAME, 0)?;
        if len > manifest::MAX_LEN {
            let what = format!("it is {len} bytes long");
            return Err(Fault::at_offset(0, what).of(&self.path, manifest::NAME));
        }
        Manifest::from_bytes(&self.bytes(&reader, manifest::NAME, len)?, &self.path)
    }

    /// Reads a table and checks that it is the one that was written.
    pub fn table(&self, manifest: &Manifest, name: &str) -> Result<Vec<u8>, Error> {
        let member = manifest.members.get(name).ok_or_else(|| {
            let what = format!("it does not list {name}");
            Fault::at_offset(0, what).of(&self.path, manifest::NAME)
        })?;
        let (reader, len) = self.member(name, member.bytes)?;
        let truncated = |found| Error::Truncated {
            path: self.path.clone(),
            member: name.to_owned(),
            expected: member.bytes,
            found,
        };
        if len != member.bytes {
            return Err(truncated(len));
        }
        let bytes = self.bytes(&reader, name, len)?;
        let found = crc32fast::hash(&bytes);
        if found != member.crc32 {
            return Err(Error::Checksum {
                path: self.path.clone(),
                member: name.to_owned(),
                expected: member.crc32,
                found,
            });
        }
        Ok(bytes)
    }

    /// The file that a member is in, and where. `expected` is only for the error.
    fn member(&self, name: &str, expected: u64) -> Result<(Reader, u64), Error> {
        let missing = || Error::Truncated {
            path: self.path.clone(),
            member: name.to_owned(),
            expected,
            found: 0,
        };
        match &self.place {
            Place::Directory => {
                let path = self.path.join(name);
                let file = match File::open(&path) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing()),
                    file => file.map_err(Error::io("read", &path))?,
                };
                let len = file.metadata().map_err(Error::io("read", &path))?.len();
                Ok((Reader { file, start: 0 }, len))
            }
            Place::Archive(file, extents) => {
                let extent = extents.get(name).ok_or_else(missing)?;
                let file = file.try_clone().map_err(Error::io("read", &self.path))?;
                let start = extent.start;
                Ok((Reader { file, start }, extent.len))
            }
        }
    }

    /// `len` is no more than a file has: nothing is allocated on the word of a header.
    fn bytes(&self, reader: &Reader, name: &str, len: u64) -> Result<Vec<u8>, Error> {
        let too_long = || Fault::at_offset(0, "it does not fit into memory").of(&self.path, name);
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| too_long())?];
        let read = reader.file.read_exact_at(&mut bytes, reader.start);
        read.map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }
}

struct Reader {
    file: File,
    start: u64,
}

/// The extents of the entries of an archive of `len` bytes.
fn extents(file: &File, len: u64, path: &Path) -> Result<BTreeMap<String, Extent>, Error> {
    let fault = |what: String| Fault::at_offset(0, what).of(path, ARCHIVE);
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
        extents.insert(name, Extent { start, len: size });
    }
    if !extents.contains_key(manifest::NAME) {
        return Err(Error::NotARecording {
            path: path.to_owned(),
            looks_like: "a zip archive of something else",
        });
    }
    Ok(extents)
}

/// The members as one archive.
pub(crate) fn archive(encoded: &Encoded) -> Result<Vec<u8>, Error> {
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
    // Written to memory: nothing can fail but the size.
    write().map_err(|e| Error::unstorable(e.to_string()))
}

/// Writes the members as files into the directory `path`, and both to stable storage.
pub(crate) fn write_directory(encoded: &Encoded, path: &Path) -> Result<(), Error> {
    for (name, bytes) in &encoded.members {
        let member = path.join(name);
        let mut file = File::create_new(&member).map_err(Error::io("create", &member))?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(Error::io("write", &member))?;
    }
    sync_directory(path)
}

/// Brings the entries of a directory to stable storage: a rename is safe only after this.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(Error::io("write", path))
}
