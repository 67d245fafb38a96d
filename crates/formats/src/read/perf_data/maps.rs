//! Mappings of processes, and names of threads, at any time.

use super::wire::ProcessChange;
use profile::{BuildId, Image, ImageId, ImageKind, ImageOffset, Location};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// `pid` of the kernel's own mappings.
const KERNEL: u32 = u32::MAX;
/// Number of address spaces in the cache.
const SPACES: usize = 256;
/// Maximum number of forks followed from a process to its ancestors.
const ANCESTORS: usize = 64;

/// A mapping of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerfMapping {
    pub end: u64,
    pub image: ImageId,
    /// Offset in the image of the first byte.
    pub offset: u64,
}

/// The mappings of a process at a time, by their start.
#[derive(Default)]
pub(super) struct Space {
    pub mappings: BTreeMap<u64, PerfMapping>,
    /// Number that identifies the space.
    pub number: u64,
}

impl Space {
    pub fn mapping_at(&self, address: u64) -> Option<(u64, PerfMapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some((*start, *mapping))
    }

    /// Inserts a mapping and replaces those it overlaps.
    fn insert_mapping(&mut self, start: u64, mapping: PerfMapping) {
        let before = self
            .mappings
            .range(..start)
            .next_back()
            .map(|(s, m)| (*s, *m));
        if let Some((other, old)) = before.filter(|(_, old)| old.end > start) {
            self.mappings
                .insert(other, PerfMapping { end: start, ..old });
            if old.end > mapping.end {
                self.keep_rest(other, old, mapping.end);
            }
        }
        let covered: Vec<u64> = self
            .mappings
            .range(start..mapping.end)
            .map(|(s, _)| *s)
            .collect();
        for other in covered {
            if let Some(old) = self.mappings.remove(&other)
                && old.end > mapping.end
            {
                self.keep_rest(other, old, mapping.end);
            }
        }
        self.mappings.insert(start, mapping);
    }

    fn keep_rest(&mut self, start: u64, old: PerfMapping, from: u64) {
        let offset = old.offset.wrapping_add(from.wrapping_sub(start));
        self.mappings.insert(from, PerfMapping { offset, ..old });
    }
}

enum SpaceStep {
    Map(u64, PerfMapping),
    Exec,
    /// Begins with the mappings of this process.
    Fork(u32),
}

/// All mappings and names of the file.
#[derive(Default)]
pub(super) struct Maps {
    pub images: Vec<Image>,
    by_path: FxHashMap<(String, Option<Vec<u8>>), ImageId>,
    /// Steps by process, in order of time once [`sort`](Self::sort_changes)ed.
    steps: FxHashMap<u32, Vec<(u64, SpaceStep)>>,
    /// Names by thread.
    names: FxHashMap<u32, Vec<(u64, Rc<str>)>>,
    /// Spaces by process and number of completed steps.
    spaces: FxHashMap<(u32, usize), Rc<Space>>,
    made: u64,
    pub lost: u64,
    /// Approximate size in bytes.
    pub size: u64,
}

impl Maps {
    pub fn new() -> Self {
        let mut maps = Self::default();
        maps.images.push(Image::unknown());
        maps
    }

    /// Applies a record of this time.
    pub fn apply_change(&mut self, time: u64, change: ProcessChange) {
        self.size += 128;
        match change {
            ProcessChange::Map {
                pid,
                start,
                length,
                file_offset,
                build_id,
                path,
            } => {
                self.size += path.len() as u64;
                let kernel = pid == KERNEL;
                let (kind, path) = kind_of(&path, kernel, pid);
                let offset = match kind {
                    // There it is the address of `_text`, to which offsets are relative.
                    ImageKind::Kernel => start.wrapping_sub(file_offset),
                    ImageKind::File => file_offset,
                    ImageKind::Jit | ImageKind::Anonymous | ImageKind::Unknown => start,
                    ImageKind::KernelModule | ImageKind::Vdso | ImageKind::Script => 0,
                };
                let image = self.image_id(kind, path, build_id);
                let end = start.saturating_add(length);
                let mapping = PerfMapping { end, image, offset };
                if end > start {
                    self.add_step(pid, time, SpaceStep::Map(start, mapping));
                }
            }
            ProcessChange::Comm {
                pid,
                tid,
                name,
                exec,
            } => {
                if exec {
                    self.add_step(pid, time, SpaceStep::Exec);
                }
                self.names.entry(tid).or_default().push((time, name.into()));
            }
            ProcessChange::Fork {
                pid,
                parent,
                tid,
                parent_tid,
                time,
            } => {
                if pid != parent {
                    self.add_step(pid, time, SpaceStep::Fork(parent));
                }
                let name = self.thread_name(parent_tid, time);
                if let Some(name) = name {
                    self.names.entry(tid).or_default().push((time, name));
                }
            }
            ProcessChange::Lost(count) => self.lost = self.lost.saturating_add(count),
        }
    }

    fn add_step(&mut self, pid: u32, time: u64, step: SpaceStep) {
        self.steps.entry(pid).or_default().push((time, step));
    }

    fn image_id(&mut self, kind: ImageKind, path: String, build_id: Option<Vec<u8>>) -> ImageId {
        let key = (path, build_id);
        if let Some(id) = self.by_path.get(&key) {
            return *id;
        }
        let id = ImageId(self.images.len() as u32);
        self.images.push(Image {
            kind,
            path: key.0.clone(),
            build_id: key.1.as_deref().and_then(BuildId::new),
            file: None,
            gone: false,
        });
        self.size += 256 + key.0.len() as u64;
        self.by_path.insert(key, id);
        id
    }

    /// Sorts all changes, once all records were read. Records of several CPUs come one CPU after
    /// the other.
    pub fn sort_changes(&mut self, build_ids: &FxHashMap<String, Vec<u8>>) {
        for steps in self.steps.values_mut() {
            steps.sort_by_key(|(time, _)| *time);
        }
        for names in self.names.values_mut() {
            names.sort_by_key(|(time, _)| *time);
        }
        for image in &mut self.images {
            if image.build_id.is_none() {
                image.build_id = build_ids.get(&image.path).and_then(|id| BuildId::new(id));
            }
        }
    }

    /// Returns the name of a thread at a time.
    pub fn thread_name(&self, tid: u32, time: u64) -> Option<Rc<str>> {
        let names = self.names.get(&tid)?;
        let over = names.partition_point(|(t, _)| *t <= time);
        // Records about earlier threads have the time of the recording's start, not 0.
        let (_, name) = names.get(over.saturating_sub(1))?;
        Some(name.clone())
    }

    /// Returns the mappings of a process at a time.
    pub fn space_at(&mut self, pid: u32, time: u64) -> Rc<Space> {
        let over = self.steps_before(pid, time);
        if let Some(space) = self.spaces.get(&(pid, over)) {
            return space.clone();
        }
        // From the process back to the start of its mappings, then forwards again.
        let mut lives = vec![(pid, over)];
        while let Some((pid, over)) = lives.last().copied()
            && lives.len() < ANCESTORS
        {
            let steps = self
                .steps
                .get(&pid)
                .and_then(|s| s.get(..over))
                .unwrap_or_default();
            let origin = steps
                .iter()
                .rev()
                .find(|(_, s)| matches!(s, SpaceStep::Fork(_) | SpaceStep::Exec));
            let Some((time, SpaceStep::Fork(parent))) = origin else {
                break;
            };
            lives.push((*parent, self.steps_before(*parent, *time)));
        }
        self.made += 1;
        let mut space = Space {
            number: self.made,
            ..Space::default()
        };
        for (pid, over) in lives.into_iter().rev() {
            for (_, step) in self
                .steps
                .get(&pid)
                .and_then(|s| s.get(..over))
                .unwrap_or_default()
            {
                match step {
                    SpaceStep::Map(start, mapping) => space.insert_mapping(*start, *mapping),
                    SpaceStep::Exec => space.mappings.clear(),
                    SpaceStep::Fork(_) => {}
                }
            }
        }
        if self.spaces.len() >= SPACES {
            self.spaces.clear();
        }
        let space = Rc::new(space);
        self.spaces.insert((pid, over), space.clone());
        space
    }

    fn steps_before(&self, pid: u32, time: u64) -> usize {
        let steps = self.steps.get(&pid).map_or(&[][..], |s| s);
        steps.partition_point(|(t, _)| *t <= time)
    }

    /// Returns the location of an address of the process or, with `kernel`, of the kernel.
    pub fn locate_address(&mut self, space: &Space, address: u64, kernel: bool) -> Location {
        let found = if kernel {
            self.space_at(KERNEL, u64::MAX).mapping_at(address)
        } else {
            space.mapping_at(address)
        };
        match found {
            Some((start, mapping)) => Location {
                image: mapping.image,
                offset: ImageOffset(mapping.offset.wrapping_add(address - start)),
            },
            None => Location {
                image: ImageId(0),
                offset: ImageOffset(address),
            },
        }
    }
}

/// Returns the kind of the image mapped under a name, and the image's name.
fn kind_of(path: &str, kernel: bool, pid: u32) -> (ImageKind, String) {
    if kernel {
        if path.starts_with("[kernel") || path.starts_with("[guest.kernel") {
            return (ImageKind::Kernel, "[kernel]".to_owned());
        }
        let base = path.rsplit('/').next().unwrap_or(path);
        let name = base
            .split(".ko")
            .next()
            .unwrap_or(base)
            .trim_matches(['[', ']']);
        return (ImageKind::KernelModule, format!("[{name}]"));
    }
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    match path {
        "[vdso]" | "[vsyscall]" => (ImageKind::Vdso, path.to_owned()),
        _ if path.starts_with("//anon")
            || path.starts_with("/memfd:")
            || path.starts_with("/dev/zero")
            || path.starts_with('[')
            || path.starts_with("anon_inode:")
            || path.is_empty() =>
        {
            (ImageKind::Jit, format!("[jit {pid}]"))
        }
        _ => (ImageKind::File, path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pid: u32, start: u64, length: u64, path: &str) -> ProcessChange {
        ProcessChange::Map {
            pid,
            start,
            length,
            file_offset: 0x1000,
            build_id: None,
            path: path.to_owned(),
        }
    }

    #[test]
    fn processes_have_what_was_mapped_by_then() {
        let mut maps = Maps::new();
        maps.apply_change(1, map(1, 0x1000, 0x3000, "/a"));
        maps.apply_change(3, map(1, 0x2000, 0x1000, "/b"));
        let fork = ProcessChange::Fork {
            pid: 2,
            parent: 1,
            tid: 2,
            parent_tid: 1,
            time: 2,
        };
        maps.apply_change(2, fork);
        maps.apply_change(
            5,
            ProcessChange::Comm {
                pid: 2,
                tid: 2,
                name: "x".into(),
                exec: true,
            },
        );
        maps.apply_change(6, map(2, 0x9000, 0x1000, "/c"));
        maps.sort_changes(&FxHashMap::default());
        let mut at = |pid, time, address| {
            let space = maps.space_at(pid, time);
            let location = maps.locate_address(&space, address, false);
            (
                maps.images[location.image.0 as usize].path.clone(),
                location.offset.0,
            )
        };
        let place = |path: &str, offset| (path.to_owned(), offset);
        assert_eq!(at(1, 1, 0x2800), place("/a", 0x2800));
        assert_eq!(at(1, 3, 0x2800), place("/b", 0x1800));
        assert_eq!(at(1, 3, 0x3800), place("/a", 0x3800));
        assert_eq!(at(1, 3, 0x1800), place("/a", 0x1800));
        assert_eq!(at(2, 4, 0x2800), place("/a", 0x2800));
        assert_eq!(at(2, 6, 0x2800), place("[unknown]", 0x2800));
        assert_eq!(at(2, 6, 0x9800), place("/c", 0x1800));
        assert_eq!(maps.thread_name(2, 9).as_deref(), Some("x"));
    }
}
