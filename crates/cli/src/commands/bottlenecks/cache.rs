//! Cached trees in their memory layout, so that a second search begins at once.
//!
//! A file is only trusted as far as its checksum and [`CallTree::new`] confirm it: on any fault the
//! profile is read again. Nothing here can fail a command.

use bytemuck::{cast_slice, cast_slice_mut};
use formats::read::{ReadOptions, TreeProfile};
use profile::{CallTree, Method, NodeId, ValueType};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use whole_file::WholeFile;

/// First bytes of a file, with the version of the form.
const MAGIC: &[u8; 8] = b"VFTREE01";
/// Least number of nodes of a cached tree: a smaller one is read as fast from the profile.
const SMALLEST: usize = 20_000;
/// Limit on the size of all files together; the least recently used are removed first.
const LARGEST: u64 = 2 << 30;
/// Limit on the size of a header.
const LARGEST_HEADER: u64 = 1 << 30;
/// Formats whose readers also read files other than the profile: changes of these would go
/// unnoticed.
const UNCACHED: &[&str] = &["perf.data"];

/// A directory of trees.
pub struct Cache {
    directory: PathBuf,
    limit: u64,
}

/// The place of one profile's tree.
pub struct Entry {
    cache: Cache,
    file: PathBuf,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    key: String,
    format: String,
    default_value: usize,
    notes: Vec<String>,
    value_types: Vec<ValueType>,
    methods: Vec<Method>,
    nodes: usize,
}

impl Cache {
    /// Returns the user's cache; `None` if there is no directory for it.
    pub fn of_user() -> Option<Self> {
        Some(Self {
            directory: store::cache_directory()?.join("trees"),
            limit: LARGEST,
        })
    }

    /// Returns the place of the current profile at `path`, read by `options`; `None` if it is no
    /// file.
    pub fn entry(self, path: &Path, options: &ReadOptions) -> Option<Entry> {
        let path = path.canonicalize().ok()?;
        let meta = path.metadata().ok().filter(fs::Metadata::is_file)?;
        let version = env!("CARGO_PKG_VERSION");
        let (size, inode, seconds, nanos) =
            (meta.len(), meta.ino(), meta.mtime(), meta.mtime_nsec());
        let key = format!("{version} {path:?} {size} {inode} {seconds}.{nanos} {options:?}");
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        format!("{options:?}").hash(&mut hasher);
        let file = self
            .directory
            .join(format!("{:016x}.tree", hasher.finish()));
        Some(Entry {
            cache: self,
            file,
            key,
        })
    }

    /// Removes the longest unused files until `more` bytes fit in.
    fn make_room(&self, more: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            files.push((meta.modified()?, meta.len(), entry.path()));
        }
        files.sort();
        let mut used: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if used + more <= self.limit {
                break;
            }
            fs::remove_file(path)?;
            used -= size;
        }
        Ok(())
    }
}

impl Entry {
    /// Returns the tree, if it was cached, is undamaged, and belongs to the current profile.
    pub fn read(&self) -> Option<TreeProfile> {
        let file = File::open(&self.file).ok()?;
        let profile = decode_tree(&file, &self.key);
        match profile {
            // Records the use of the file.
            Some(_) => drop(file.set_modified(SystemTime::now())),
            None => drop(fs::remove_file(&self.file)),
        }
        profile
    }

    /// Caches the tree, if possible.
    pub fn write(&self, profile: &TreeProfile) {
        let tree = &profile.tree;
        let size = tree.len() as u64 * (8 + 8 * tree.value_types().len() as u64);
        let large = tree.len() < SMALLEST || size > self.cache.limit / 2;
        if !large && !UNCACHED.contains(&profile.format) {
            // A full disk or a read-only home is no reason to stop.
            let _ = self.try_write(profile, size);
        }
    }

    fn try_write(&self, profile: &TreeProfile, size: u64) -> io::Result<()> {
        fs::create_dir_all(&self.cache.directory)?;
        self.cache.make_room(size)?;
        let mut file = WholeFile::create_private(&self.file)?;
        encode_tree(profile, &self.key, file.file_mut())?;
        file.commit_cached()
    }
}

fn encode_tree(profile: &TreeProfile, key: &str, file: &mut File) -> io::Result<()> {
    let tree = &profile.tree;
    let header = serde_json::to_vec(&Header {
        key: key.to_owned(),
        format: profile.format.to_owned(),
        default_value: profile.default_value,
        notes: profile.notes.clone(),
        value_types: tree.value_types().to_vec(),
        methods: tree.methods().to_vec(),
        nodes: tree.len(),
    })?;
    let mut out = Summed {
        inner: BufWriter::new(file),
        sum: crc32fast::Hasher::new(),
    };
    out.write_all(MAGIC)?;
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let (method, parent, _) = tree.columns();
    out.write_all(cast_slice(method))?;
    out.write_all(cast_slice(parent))?;
    for value in 0..tree.value_types().len() {
        let mut costs = Vec::with_capacity(BLOCK);
        for start in (0..tree.len()).step_by(BLOCK) {
            costs.clear();
            let block = start..(start + BLOCK).min(tree.len());
            costs.extend(block.map(|node| tree.cost(value, NodeId(node as u32))));
            out.write_all(cast_slice::<i64, u8>(&costs))?;
        }
    }
    let sum = out.sum.finalize();
    out.inner.write_all(&sum.to_le_bytes())?;
    out.inner.flush()
}

/// Number of values in a block, which is written, or read and summed, at once.
const BLOCK: usize = 1 << 16;

fn decode_tree(file: &File, key: &str) -> Option<TreeProfile> {
    let size = file.metadata().ok()?.len();
    let mut input = Summed {
        inner: BufReader::new(file),
        sum: crc32fast::Hasher::new(),
    };
    let mut start = [0; 16];
    input.read_exact(&mut start).ok()?;
    let length = u64::from_le_bytes(start[8..].try_into().ok()?);
    if start[..8] != *MAGIC || length > size.min(LARGEST_HEADER) {
        return None;
    }
    let mut header = vec![0; usize::try_from(length).ok()?];
    input.read_exact(&mut header).ok()?;
    let header: Header = serde_json::from_slice(&header).ok()?;
    // Checked before memory is allocated for it.
    let nodes = header.nodes as u64;
    let columns = nodes.checked_mul(8 + 8 * header.value_types.len() as u64)?;
    if header.key != key || columns.checked_add(16 + length + 4)? != size {
        return None;
    }
    if header.default_value >= header.value_types.len() {
        return None;
    }
    let (mut method, mut parent) = (vec![0_u32; header.nodes], vec![0_u32; header.nodes]);
    input.read_exact(cast_slice_mut(&mut method)).ok()?;
    input.read_exact(cast_slice_mut(&mut parent)).ok()?;
    let mut costs = Vec::new();
    for _ in &header.value_types {
        let mut cost = vec![0_i64; header.nodes];
        input.read_exact(cast_slice_mut(&mut cost)).ok()?;
        costs.push(cost);
    }
    let sum = input.sum.clone().finalize();
    let mut expected = [0; 4];
    input.inner.read_exact(&mut expected).ok()?;
    if u32::from_le_bytes(expected) != sum {
        return None;
    }
    let tree = CallTree::new(header.methods, header.value_types, method, parent, costs).ok()?;
    Some(TreeProfile {
        tree,
        format: "a tree read before",
        default_value: header.default_value,
        // Trees are cached without times.
        time: None,
        notes: header.notes,
    })
}

/// Reader or writer that adds the data to a checksum.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // In pieces that are still in the processor's cache when they are summed.
        let most = bytes.len().min(BLOCK);
        let count = self.inner.read(&mut bytes[..most])?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::read::ReadOptions;
    use proptest::prelude::*;
    use std::io::Seek;

    fn profile() -> TreeProfile {
        let value = |name: &str| ValueType {
            name: name.into(),
            unit: "samples".into(),
        };
        let mut builder = profile::CallTreeBuilder::new(vec![value("cpu"), value("wall")]);
        let mut node = profile::DraftNode::ROOT;
        for number in 0..SMALLEST {
            let method = builder.method(&format!("m{}", number % 9), "lib").unwrap();
            node = builder.child(node, method).unwrap();
            builder.add(number % 2, node, number as i64);
        }
        TreeProfile {
            tree: builder.finish().unwrap(),
            format: "pprof",
            default_value: 1,
            time: None,
            notes: vec!["a note".into()],
        }
    }

    struct Lab {
        directory: tempfile::TempDir,
        source: PathBuf,
    }

    impl Lab {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let source = directory.path().join("profile");
            fs::write(&source, "something").unwrap();
            Self { directory, source }
        }

        fn entry(&self, limit: u64) -> Entry {
            let directory = self.directory.path().join("trees");
            let cache = Cache { directory, limit };
            cache.entry(&self.source, &ReadOptions::default()).unwrap()
        }
    }

    #[test]
    fn a_tree_comes_back_as_it_was_until_its_profile_changes() {
        let lab = Lab::new();
        let profile = profile();
        assert!(lab.entry(LARGEST).read().is_none());
        lab.entry(LARGEST).write(&profile);
        let read = lab.entry(LARGEST).read().unwrap();
        assert_eq!((&read.tree, read.default_value), (&profile.tree, 1));
        assert_eq!(read.notes, profile.notes);
        fs::write(&lab.source, "something longer").unwrap();
        assert!(lab.entry(LARGEST).read().is_none());
        assert!(lab.entry(LARGEST).read().is_none());
    }

    /// Returns trees of every shape that can be cached, with values of every size and sign.
    fn any_profile() -> impl Strategy<Value = TreeProfile> {
        let stack = prop::collection::vec(("[a-c]{0,2}", "[xy]?"), 0..7);
        let stacks = prop::collection::vec((stack, -(1_i64 << 50)..1 << 50), 0..12);
        (stacks, 0..3_usize, prop::collection::vec(".{0,9}", 0..3)).prop_map(
            |(stacks, default_value, notes)| {
                let value = |number: usize| ValueType {
                    name: format!("value {number}"),
                    unit: String::new(),
                };
                let values = (0..=default_value).map(value).collect();
                let mut builder = profile::CallTreeBuilder::new(values);
                for (stack, cost) in stacks {
                    let mut node = profile::DraftNode::ROOT;
                    for (name, module) in stack {
                        let method = builder.method(&name, &module).unwrap();
                        node = builder.child(node, method).unwrap();
                    }
                    builder.add(default_value, node, cost);
                }
                TreeProfile {
                    tree: builder.finish().unwrap(),
                    format: "pprof",
                    default_value,
                    time: None,
                    notes,
                }
            },
        )
    }

    fn encoded(profile: &TreeProfile) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        encode_tree(profile, "key", &mut file).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn decoded(bytes: &[u8], key: &str) -> Option<TreeProfile> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        decode_tree(&file, key)
    }

    proptest! {
        #[test]
        fn what_was_kept_comes_back(profile in any_profile()) {
            let bytes = encoded(&profile);
            let read = decoded(&bytes, "key").unwrap();
            prop_assert_eq!(&read.tree, &profile.tree);
            prop_assert_eq!((read.default_value, &read.notes), (profile.default_value, &profile.notes));
            prop_assert!(decoded(&bytes, "another key").is_none());
        }

        /// Even with a matching checksum: the result is some tree, or none, and never a panic.
        #[test]
        fn a_forged_file_is_a_tree_or_none(
            profile in any_profile(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = encoded(&profile);
            bytes.truncate(bytes.len() - 4);
            let whole = bytes.clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let forged = |bytes: &[u8]| [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
            if let Some(read) = decoded(&forged(&bytes), "key") {
                prop_assert!(read.default_value < read.tree.value_types().len());
            }
            let cut = cut.index(whole.len());
            prop_assert!(decoded(&forged(&whole[..cut]), "key").is_none());
        }
    }

    #[test]
    fn damage_is_seen() {
        let lab = Lab::new();
        lab.entry(LARGEST).write(&profile());
        let file = lab.entry(LARGEST).file;
        let whole = fs::read(&file).unwrap();
        for length in (0..whole.len()).step_by(whole.len() / 97) {
            fs::write(&file, &whole[..length]).unwrap();
            assert!(lab.entry(LARGEST).read().is_none(), "cut to {length}");
            assert!(!file.exists());
        }
        for at in (0..whole.len()).step_by(whole.len() / 211).chain(0..200) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, &damaged).unwrap();
            assert!(lab.entry(LARGEST).read().is_none(), "bit of byte {at}");
        }
        fs::write(&file, [whole.as_slice(), b"x"].concat()).unwrap();
        assert!(lab.entry(LARGEST).read().is_none());
    }

    #[test]
    fn what_is_unused_makes_room() {
        let lab = Lab::new();
        let size = SMALLEST as u64 * 24;
        let limit = size * 5 / 2;
        let trees = lab.directory.path().join("trees");
        fs::create_dir_all(&trees).unwrap();
        for (age, name) in [(3, "old"), (2, "newer")] {
            let path = trees.join(name);
            fs::write(&path, vec![0; size as usize]).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(age * 1000);
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        lab.entry(limit).write(&profile());
        assert!(!trees.join("old").exists() && trees.join("newer").exists());
        assert!(lab.entry(limit).read().is_some());
        // A tree that would take more than half is not cached.
        let other = Lab::new();
        other.entry(size).write(&profile());
        assert!(other.entry(size).read().is_none());
    }
}
