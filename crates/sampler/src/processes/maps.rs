//! Mappings of images in processes over time (DCPI section 4.3.2).

use crate::events::records::{Body, Record};
use crate::processes::images::{ImageTable, UNKNOWN, open_mapped};
use crate::processes::threads::{has_running_threads, numbers_in, process_file, process_name};
use profile::{
    BuildId, FileIdentity, ImageId, ImageKind, ImageOffset, Location, MapsLine, ProcessAddress,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fs::File;
use std::rc::Rc;

/// An executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub end: u64,
    pub file_offset: u64,
    pub image: ImageId,
}

/// The mappings by their start address. Shared between a process and its children until one
/// changes.
pub(crate) type Mappings = Rc<BTreeMap<u64, Mapping>>;

/// Program that a process has run since some time.
struct Program {
    from: u64,
    /// Current mappings.
    mappings: Mappings,
    /// Mappings that were replaced since, in order of the times of replacement.
    replaced: Vec<ReplacedMapping>,
    /// Changes whenever the mappings do; unique among all programs.
    version: u64,
}

/// A mapping that was replaced at `until`.
struct ReplacedMapping {
    until: u64,
    start: u64,
    mapping: Mapping,
}

impl Program {
    /// Returns the mapping of an address at a time, with its start. Samples are processed some time
    /// later, when another library may be mapped at the address.
    fn mapping_at(&self, time: u64, address: u64) -> Option<(u64, Mapping)> {
        let later = self.replaced.partition_point(|old| old.until <= time);
        let holds = |old: &&ReplacedMapping| (old.start..old.mapping.end).contains(&address);
        match self.replaced[later..].iter().find(holds) {
            Some(old) => Some((old.start, old.mapping)),
            None => find_mapping(&self.mappings, address),
        }
    }
}

/// The executable mappings of all processes seen.
#[derive(Default)]
pub(crate) struct ProcessMaps {
    /// The programs of a process id, in order of time.
    processes: FxHashMap<u32, Vec<Program>>,
    ended: Vec<(u32, u64)>,
    /// Processes whose first thread has ended while others run.
    leaderless: FxHashSet<u32>,
    /// Last names of processes: those of their first threads.
    names: FxHashMap<u32, String>,
    /// Build-ids that came before the record that names their file.
    early_build_ids: FxHashMap<(u32, u64), BuildId>,
    /// Files in which a process describes the code it generates (`jit-PID.dump`).
    jitdumps: FxHashMap<u32, String>,
    versions: u64,
}

impl ProcessMaps {
    /// Applies a record.
    pub fn apply_record(&mut self, record: Record, images: &mut ImageTable) {
        let pid = record.pid;
        match record.body {
            Body::Mmap {
                start,
                length,
                file_offset,
                file,
                build_id,
                path,
            } => {
                if let Some(build_id) = build_id {
                    self.build_id(pid, start, build_id, images);
                    return;
                }
                let file = file.filter(|_| !is_shared_memory(&path));
                let image = image_of(images, pid, file, &path);
                if let Some(build_id) = self.early_build_ids.remove(&(pid, start)) {
                    images.set_build_id(image, build_id);
                }
                if file.is_some() {
                    images.hold_file(image, pid, Some(start..start.saturating_add(length)));
                }
                if path.ends_with(&format!("/jit-{pid}.dump")) {
                    self.jitdumps.insert(pid, path);
                }
                let mapping = Mapping {
                    end: start.saturating_add(length),
                    file_offset,
                    image,
                };
                let program = self.current_program(pid, record.time);
                let replaced = insert_mapping(&mut program.mappings, start, mapping);
                let replaced = replaced
                    .into_iter()
                    .map(|(start, mapping)| ReplacedMapping {
                        until: record.time,
                        start,
                        mapping,
                    });
                program.replaced.extend(replaced);
            }
            Body::Comm { name, exec } => {
                if exec {
                    self.begin_program(pid, record.time, Mappings::default());
                }
                // The thread that executes a program becomes the first one.
                if exec || record.tid == pid {
                    self.names.insert(pid, name);
                }
            }
            Body::Fork { parent } if parent != pid => {
                let mappings = self
                    .processes
                    .get(&parent)
                    .and_then(|programs| programs.last())
                    .map_or_else(Mappings::default, |program| program.mappings.clone());
                self.begin_program(pid, record.time, mappings);
                if let Some(name) = self.names.get(&parent).cloned() {
                    self.names.insert(pid, name);
                }
            }
            Body::Exit => self.end_thread(pid, record.tid, record.time),
            _ => {}
        }
    }

    /// Ends a thread. A process has ended when no thread is left, whether or not the first one is
    /// the last.
    fn end_thread(&mut self, pid: u32, tid: u32, time: u64) {
        if tid != pid && !self.leaderless.contains(&pid) {
            return;
        }
        if has_running_threads(pid) {
            self.leaderless.insert(pid);
        } else {
            self.leaderless.remove(&pid);
            self.ended.push((pid, time));
        }
    }

    /// Returns the last name of a process, if it is known.
    pub fn name_of_process(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    fn build_id(&mut self, pid: u32, start: u64, build_id: BuildId, images: &mut ImageTable) {
        let mapped = self
            .processes
            .get(&pid)
            .and_then(|programs| programs.last()?.mappings.get(&start));
        match mapped {
            // For each mapping the kernel writes a record with the inode and one with the build-id;
            // this record can only be about an image without a build-id.
            Some(mapping) if images.get(mapping.image).build_id.is_none() => {
                images.set_build_id(mapping.image, build_id);
            }
            Some(mapping) if images.get(mapping.image).build_id.as_ref() == Some(&build_id) => {}
            _ => {
                self.early_build_ids.insert((pid, start), build_id);
            }
        }
    }

    fn begin_program(&mut self, pid: u32, from: u64, mappings: Mappings) -> &mut Program {
        self.versions += 1;
        let programs = self.processes.entry(pid).or_default();
        programs.push(Program {
            from,
            mappings,
            replaced: Vec::new(),
            version: self.versions,
        });
        let last = programs.len() - 1;
        &mut programs[last]
    }

    /// Returns the current program of a process, to change its mappings.
    fn current_program(&mut self, pid: u32, time: u64) -> &mut Program {
        if self.processes.get(&pid).is_none_or(Vec::is_empty) {
            return self.begin_program(pid, time, Mappings::default());
        }
        self.versions += 1;
        let programs = self.processes.entry(pid).or_default();
        let last = programs.len() - 1;
        programs[last].version = self.versions;
        &mut programs[last]
    }

    /// Reads the mappings of a process that ran before the recording.
    pub fn scan_process(&mut self, pid: u32, images: &mut ImageTable) {
        let Some(text) = read_maps(pid) else {
            return; // it has ended, or belongs to another user
        };
        let mappings = parse_mappings(pid, &text, images);
        self.names.extend(process_name(pid).map(|name| (pid, name)));
        self.processes.remove(&pid);
        self.begin_program(pid, 0, Rc::new(mappings.into_iter().collect()));
    }

    /// Reads the mappings of every running process that is not known.
    pub fn scan_all(&mut self, images: &mut ImageTable) {
        for pid in numbers_in("/proc") {
            if !self.processes.contains_key(&pid) {
                self.scan_process(pid, images);
            }
        }
    }

    /// Reads the mappings of every running process again, because records were lost.
    pub fn scan_again(&mut self, images: &mut ImageTable) {
        for pid in numbers_in("/proc") {
            if let Some(text) = read_maps(pid) {
                self.add_lost_mappings(pid, &text, images);
            }
        }
    }

    /// Adds the mappings of a process from `/proc` for which no record came. Their start is
    /// unknown: they count for all of the current program's time.
    fn add_lost_mappings(&mut self, pid: u32, text: &str, images: &mut ImageTable) {
        let mappings = parse_mappings(pid, text, images);
        if !self.processes.contains_key(&pid) {
            self.names.extend(process_name(pid).map(|name| (pid, name)));
        }
        let program = self.current_program(pid, 0);
        for (start, mapping) in mappings {
            if program.mappings.get(&start) != Some(&mapping) {
                insert_mapping(&mut program.mappings, start, mapping);
            }
        }
    }

    /// Returns the jitdumps that processes announced.
    pub fn jitdumps(&self) -> &FxHashMap<u32, String> {
        &self.jitdumps
    }

    /// Returns the number of remembered processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Returns how many of them have ended.
    pub fn ended_count(&self) -> usize {
        self.ended.len()
    }

    /// Returns the images that are mapped somewhere.
    pub fn used_images(&self) -> FxHashSet<ImageId> {
        let programs = self.processes.values().flatten();
        let mappings = programs.flat_map(|program| program.mappings.values());
        mappings.map(|mapping| mapping.image).collect()
    }

    /// Returns the living processes that have one of these images mapped.
    pub fn processes_with(&self, images: &FxHashSet<ImageId>) -> FxHashSet<u32> {
        let ended: FxHashSet<u32> = self.ended.iter().map(|(pid, _)| *pid).collect();
        let has = |programs: &Vec<Program>| {
            let mut mappings = programs.iter().next_back().map(|p| p.mappings.values());
            mappings
                .iter_mut()
                .flatten()
                .any(|mapping| images.contains(&mapping.image))
        };
        let running = self
            .processes
            .iter()
            .filter(|(pid, _)| !ended.contains(pid));
        running
            .filter(|(_, programs)| has(programs))
            .map(|(pid, _)| *pid)
            .collect()
    }

    /// Opens the file of an image by its mapping in a living process.
    pub fn open_mapped(&self, image: ImageId, identity: FileIdentity) -> Option<File> {
        self.processes.iter().find_map(|(pid, programs)| {
            let mut mappings = programs.last()?.mappings.iter();
            let (start, mapping) = mappings.find(|(_, mapping)| mapping.image == image)?;
            open_mapped(*pid, *start..mapping.end, identity)
        })
    }

    /// Returns the program that a process ran at a time.
    fn program_at(&self, pid: u32, time: u64) -> Option<&Program> {
        let programs = self.processes.get(&pid)?;
        let mut latest_first = programs.iter().rev();
        latest_first
            .find(|program| program.from <= time)
            .or(programs.first())
    }

    /// Returns the mappings of the program that a process ran at a time, and their version, without
    /// replaced mappings: callers that process samples and mappings in order of time need none.
    pub fn mappings_at(&self, pid: u32, time: u64) -> Option<(&Mappings, u64)> {
        let program = self.program_at(pid, time)?;
        Some((&program.mappings, program.version))
    }

    /// Returns the location of an address of a process at a time.
    pub fn locate_address(
        &self,
        pid: u32,
        time: u64,
        address: ProcessAddress,
        images: &mut ImageTable,
    ) -> Location {
        let mapping = self
            .program_at(pid, time)
            .and_then(|program| program.mapping_at(time, address.0));
        let Some((start, mapping)) = mapping else {
            return Location {
                image: UNKNOWN,
                offset: ImageOffset(address.0),
            };
        };
        let by_address = matches!(
            images.get(mapping.image).kind,
            ImageKind::Anonymous | ImageKind::Unknown
        );
        let offset = if by_address {
            address.0
        } else {
            (address.0 - start).wrapping_add(mapping.file_offset)
        };
        Location {
            image: mapping.image,
            offset: ImageOffset(offset),
        }
    }

    /// Forgets processes that ended before `time`, all of whose samples were processed.
    pub fn forget_ended(&mut self, time: u64) {
        let processes = &mut self.processes;
        let early = &mut self.early_build_ids;
        let jitdumps = &mut self.jitdumps;
        let names = &mut self.names;
        self.ended.retain(|&(pid, ended)| {
            if ended >= time {
                return true;
            }
            if let Some(programs) = processes.get_mut(&pid) {
                programs.retain(|program| program.from > ended); // the id was reused
                if programs.is_empty() {
                    processes.remove(&pid);
                }
            }
            early.retain(|key, _| key.0 != pid);
            if !processes.contains_key(&pid) {
                jitdumps.remove(&pid);
                names.remove(&pid);
            }
            false
        });
        for programs in processes.values_mut() {
            // Programs that were replaced before `time`.
            let current = programs.iter().rposition(|program| program.from <= time);
            programs.drain(..current.unwrap_or(0));
            for program in programs {
                let late = program.replaced.partition_point(|old| old.until <= time);
                program.replaced.drain(..late);
            }
        }
    }
}

/// Reads the text of `/proc/PID/maps`.
fn read_maps(pid: u32) -> Option<String> {
    let text = std::fs::read(process_file(pid, "maps")).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the executable mappings of a process, with their starts, from the text of its `maps`.
fn parse_mappings(pid: u32, text: &str, images: &mut ImageTable) -> Vec<(u64, Mapping)> {
    let mut mappings = Vec::new();
    for line in MapsLine::parse_all(text).filter(|line| line.executable) {
        let file = line.file.filter(|_| !is_shared_memory(line.path));
        let image = match file {
            Some(file) => images.file_of_any_generation(file, line.path),
            None => image_of(images, pid, None, line.path),
        };
        let (start, end) = (line.addresses.start, line.addresses.end);
        if file.is_some() {
            images.hold_file(image, pid, Some(line.addresses));
        }
        let mapping = Mapping {
            end,
            file_offset: line.file_offset,
            image,
        };
        mappings.push((start, mapping));
    }
    mappings
}

/// Returns the mapping of an address, with its start.
pub(crate) fn find_mapping(
    mappings: &BTreeMap<u64, Mapping>,
    address: u64,
) -> Option<(u64, Mapping)> {
    let (start, mapping) = mappings.range(..=address).next_back()?;
    (address < mapping.end).then_some((*start, *mapping))
}

/// Names of shared memory, or of memory that is mapped twice: PHP puts generated code into the
/// first kind, .NET into the second. The kernel half knows the same names (`is_shared_memory` in
/// bpf/identity.h).
const SHARED_MEMORY: [&str; 2] = ["/dev/zero", "/memfd:doublemap"];

/// Returns whether a mapping with this path is shared memory, and no image.
fn is_shared_memory(path: &str) -> bool {
    SHARED_MEMORY.iter().any(|memory| path.starts_with(memory))
}

fn image_of(images: &mut ImageTable, pid: u32, file: Option<FileIdentity>, path: &str) -> ImageId {
    match file {
        Some(file) => images.file_image(file, path),
        _ if path == "[vdso]" => images.named_image(ImageKind::Vdso, path),
        _ if path == "[vsyscall]" => images.named_image(ImageKind::Unknown, path),
        _ => images.anonymous_image(pid),
    }
}

/// Adds a mapping and cuts those that it overlaps, as mmap(2) does. Returns the overlapped ones
/// that mapped another image or another part of it.
fn insert_mapping(mappings: &mut Mappings, start: u64, mapping: Mapping) -> Vec<(u64, Mapping)> {
    let mut replaced = Vec::new();
    let mappings = Rc::make_mut(mappings);
    let end = mapping.end;
    let overlapped: Vec<u64> = mappings
        .range(..end)
        .rev()
        .take_while(|(_, old)| old.end > start)
        .map(|(old_start, _)| *old_start)
        .collect();
    for old_start in overlapped {
        let Some(old) = mappings.remove(&old_start) else {
            continue;
        };
        let same_place =
            old.file_offset.wrapping_sub(old_start) == mapping.file_offset.wrapping_sub(start);
        if old.image != mapping.image || !same_place {
            replaced.push((old_start, old));
        }
        if old_start < start {
            mappings.insert(old_start, Mapping { end: start, ..old });
        }
        if old.end > end {
            let file_offset = old.file_offset.wrapping_add(end - old_start);
            mappings.insert(end, Mapping { file_offset, ..old });
        }
    }
    mappings.insert(start, mapping);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32, time: u64, body: Body) -> Record {
        Record {
            time,
            pid,
            tid: pid,
            id: 0,
            body,
        }
    }

    fn mmap(start: u64, length: u64, inode: u64) -> Body {
        Body::Mmap {
            start,
            length,
            file_offset: 0x1000,
            file: Some(FileIdentity {
                major: 8,
                minor: 1,
                inode,
                generation: 1,
            }),
            build_id: None,
            path: format!("/bin/{inode}"),
        }
    }

    fn at(maps: &ProcessMaps, images: &mut ImageTable, pid: u32, time: u64, ip: u64) -> String {
        let location = maps.locate_address(pid, time, ProcessAddress(ip), images);
        format!(
            "{}+{:#x}",
            images.get(location.image).path,
            location.offset.0
        )
    }

    #[test]
    fn time_tells_the_programs_of_a_process_apart() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        let exec = || Body::Comm {
            name: "x".into(),
            exec: true,
        };
        maps.apply_record(record(1, 10, mmap(0x1000, 0x1000, 5)), &mut images);
        maps.apply_record(record(2, 20, Body::Fork { parent: 1 }), &mut images);
        maps.apply_record(record(2, 30, exec()), &mut images);
        maps.apply_record(record(2, 31, mmap(0x1000, 0x1000, 6)), &mut images);
        assert_eq!(at(&maps, &mut images, 2, 25, 0x1010), "/bin/5+0x1010");
        assert_eq!(at(&maps, &mut images, 2, 40, 0x1010), "/bin/6+0x1010");
        assert_eq!(at(&maps, &mut images, 1, 40, 0x1010), "/bin/5+0x1010");
        assert_eq!(at(&maps, &mut images, 1, 40, 0x5000), "[unknown]+0x5000");
        maps.apply_record(record(2, 50, Body::Exit), &mut images);
        maps.forget_ended(45);
        assert_eq!(at(&maps, &mut images, 2, 49, 0x1010), "/bin/6+0x1010");
        maps.forget_ended(60);
        assert_eq!(at(&maps, &mut images, 2, 49, 0x1010), "[unknown]+0x1010");
    }

    /// A sample names its image by device, inode and generation before any record does.
    #[test]
    fn mappings_whose_records_were_lost_are_read_again() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        let identity = |inode| FileIdentity {
            major: 8,
            minor: 1,
            inode,
            generation: 1,
        };
        maps.apply_record(record(1, 10, mmap(0x1000, 0x1000, 5)), &mut images);
        maps.apply_record(record(2, 20, Body::Fork { parent: 1 }), &mut images);
        // It has executed another program, for which no record came.
        let seen = images.file_without_path(identity(6));
        let text = "1000-3000 r-xp 00002000 08:01 6 /bin/lost\n\
                    9000-a000 r-xp 00000000 00:00 0\n\
                    b000-c000 rw-p 00000000 08:01 7 /bin/data\n";
        maps.add_lost_mappings(2, text, &mut images);
        maps.add_lost_mappings(3, text, &mut images);
        for pid in [2, 3] {
            for time in [25, 40] {
                let found = at(&maps, &mut images, pid, time, 0x1010);
                assert_eq!(found, "/bin/lost+0x2010", "{pid} at {time}");
            }
            assert_eq!(at(&maps, &mut images, pid, 40, 0xb010), "[unknown]+0xb010");
        }
        assert_eq!(at(&maps, &mut images, 2, 40, 0x9010), "[anon 2]+0x9010");
        assert_eq!(at(&maps, &mut images, 1, 40, 0x1010), "/bin/5+0x1010");
        assert_eq!(images.get(seen).path, "/bin/lost");
        assert!(!images.has_nameless());
    }

    #[test]
    fn a_process_is_named_as_its_first_thread() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        let comm = |tid, name: &str, exec| Record {
            tid,
            ..record(
                7,
                1,
                Body::Comm {
                    name: name.into(),
                    exec,
                },
            )
        };
        maps.apply_record(comm(7, "sh", true), &mut images);
        maps.apply_record(record(8, 2, Body::Fork { parent: 7 }), &mut images);
        maps.apply_record(comm(9, "worker", false), &mut images);
        assert_eq!(maps.name_of_process(7), Some("sh"));
        maps.apply_record(comm(7, "renamed", false), &mut images);
        assert_eq!(maps.name_of_process(7), Some("renamed"));
        maps.apply_record(comm(9, "server", true), &mut images);
        assert_eq!(maps.name_of_process(7), Some("server"));
        assert_eq!(maps.name_of_process(8), Some("sh"));
        assert_eq!(maps.name_of_process(9), None);
        maps.apply_record(record(7, 3, Body::Exit), &mut images);
        maps.forget_ended(4);
        assert_eq!(maps.name_of_process(7), None);
    }

    #[test]
    fn a_process_goes_on_without_its_first_thread() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        let own = std::process::id();
        maps.scan_process(own, &mut images);
        // The test runs in a thread that is not the first.
        maps.apply_record(record(own, 1, Body::Exit), &mut images);
        assert_eq!((maps.ended_count(), maps.len()), (0, 1));
        let of_thread = |pid| Record {
            tid: pid + 1,
            ..record(pid, 2, Body::Exit)
        };
        maps.apply_record(of_thread(own), &mut images);
        assert_eq!(maps.ended_count(), 0);
        maps.leaderless.insert(u32::MAX - 1);
        maps.apply_record(of_thread(u32::MAX - 1), &mut images);
        assert_eq!(maps.ended_count(), 1, "the last thread");
        maps.apply_record(of_thread(u32::MAX - 1), &mut images);
        assert_eq!(maps.ended_count(), 1);
    }

    #[test]
    fn time_tells_apart_what_was_mapped_at_the_same_address() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        maps.apply_record(record(1, 10, mmap(0x1000, 0x3000, 5)), &mut images);
        maps.apply_record(record(1, 20, mmap(0x1000, 0x3000, 6)), &mut images);
        maps.apply_record(record(1, 30, mmap(0x2000, 0x1000, 5)), &mut images);
        let mut names = |time: u64| {
            [0x1010, 0x2010, 0x3010].map(|ip| at(&maps, &mut images, 1, time, ip)[..6].to_owned())
        };
        assert_eq!(names(15), ["/bin/5"; 3]);
        assert_eq!(names(25), ["/bin/6"; 3]);
        assert_eq!(names(35), ["/bin/6", "/bin/5", "/bin/6"]);
        maps.forget_ended(26);
        let mut at = |time: u64| at(&maps, &mut images, 1, time, 0x2010);
        assert_eq!(at(27), "/bin/6+0x2010");
        assert_eq!(at(31), "/bin/5+0x1010");
    }

    #[test]
    fn a_mapping_over_another_cuts_it() {
        let mut images = ImageTable::new();
        let mut maps = ProcessMaps::default();
        maps.apply_record(record(1, 1, mmap(0x1000, 0x3000, 5)), &mut images);
        maps.apply_record(record(1, 2, mmap(0x2000, 0x1000, 6)), &mut images);
        assert_eq!(at(&maps, &mut images, 1, 3, 0x1fff), "/bin/5+0x1fff");
        assert_eq!(at(&maps, &mut images, 1, 3, 0x2000), "/bin/6+0x1000");
        assert_eq!(at(&maps, &mut images, 1, 3, 0x3000), "/bin/5+0x3000");
    }

    #[test]
    fn build_ids_find_their_mapping_before_or_after_it() {
        let id = BuildId::new(&[1, 2]).unwrap();
        let with_id = |start| Body::Mmap {
            start,
            length: 0x1000,
            file_offset: 0,
            file: None,
            build_id: Some(id.clone()),
            path: "/bin/5".into(),
        };
        for early in [true, false] {
            let mut images = ImageTable::new();
            let mut maps = ProcessMaps::default();
            let mut bodies = vec![mmap(0x1000, 0x1000, 5), with_id(0x1000)];
            if early {
                bodies.reverse();
            }
            for (time, body) in bodies.into_iter().enumerate() {
                maps.apply_record(record(1, time as u64, body), &mut images);
            }
            let location = maps.locate_address(1, 9, ProcessAddress(0x1000), &mut images);
            assert_eq!(images.get(location.image).build_id, Some(id.clone()));
        }
    }
}
