//! Decodes the members of a container into a recording. A checksum proves that nothing was damaged,
//! not that the writer was honest: every value of a row is checked.

use crate::accesses::{self, decode_accesses, decode_places};
use crate::branches::{decode_branches, decode_stretches};
use crate::container::Container;
use crate::error::{StoreError, TableFault};
use crate::image_columns::KINDS;
use crate::manifest::Manifest;
use crate::row_check::{Check, Read};
use crate::table::{
    ACCESSES, BRANCHES, IMAGES, PLACES, SAMPLES, STACKS, STRETCHES, SYMBOLS, THREADS, TableColumn,
};
use crate::table_reader::{ParquetTable, Texts};
use profile::{
    BuildId, EmbeddedSymbol, EventId, FileIdentity, Image, ImageId, ImageOffset, Location, NameId,
    NameSet, Recording, Sample, StackId, ThreadCount, Waker,
};

/// Columns that a reader of sums needs. The others are summed over while the samples are read,
/// which for a large database is most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Names of processes.
    pub processes: bool,
    /// Control groups of samples.
    pub cgroups: bool,
    /// Process and thread ids of samples.
    pub ids: bool,
    /// The callers, and the threads that ended waits.
    pub callers: bool,
    /// The threads' own counts.
    pub threads: bool,
}

impl Wanted {
    /// All columns.
    pub const ALL: Self = Self {
        processes: true,
        cgroups: true,
        ids: true,
        callers: true,
        threads: true,
    };

    /// Only the places of samples.
    pub const PLACES: Self = Self {
        processes: false,
        cgroups: false,
        ids: false,
        callers: false,
        threads: false,
    };
}

/// The sum of an event's samples in a place, in the processes of a name and a control group.
pub(crate) struct SampleSum {
    pub image: ImageId,
    pub offset: ImageOffset,
    pub event: EventId,
    pub process: NameId,
    pub cgroup: Option<NameId>,
    pub count: u64,
    pub weight: u64,
}

impl SampleSum {
    pub fn new(recording: &Recording, sample: &Sample) -> Self {
        let Location { image, offset } = recording.stacks.frame(sample.stack).location;
        Self {
            image,
            offset,
            event: sample.event,
            process: sample.process,
            cgroup: sample.cgroup,
            count: sample.count,
            weight: sample.weight,
        }
    }

    pub fn sort_key(&self) -> (ImageId, ImageOffset, EventId, NameId, Option<NameId>) {
        (
            self.image,
            self.offset,
            self.event,
            self.process,
            self.cgroup,
        )
    }
}

/// Reads the recording of a container.
pub(crate) fn decode_recording(source: &Container) -> Result<Recording, StoreError> {
    let members = Members::new(source)?;
    let mut recording = members.manifest.clone().into_recording();
    let mut callers = Vec::new();
    members.read_table("images", IMAGES, &mut |t| decode_images(t, &mut recording))?;
    if has_callers(&members.manifest) {
        let read = &mut |t: &ParquetTable<'_>| decode_stacks(t, &mut recording, &mut callers);
        members.read_table("stacks", STACKS, read)?;
    }
    let read = &mut |t: &ParquetTable<'_>| decode_samples(t, &mut recording, &callers);
    members.read_table("samples", SAMPLES, read)?;
    members.read_table("threads", THREADS, &mut |t| {
        decode_threads(t, &mut recording)
    })?;
    members.read_table("symbols", SYMBOLS, &mut |t| {
        decode_symbols(t, &mut recording)
    })?;
    if members.manifest.members.contains_key("branches.parquet") {
        let read = &mut |t: &ParquetTable<'_>| decode_branches(t, &mut recording);
        members.read_table("branches", BRANCHES, read)?;
    }
    if members.manifest.members.contains_key("stretches.parquet") {
        let read = &mut |t: &ParquetTable<'_>| decode_stretches(t, &mut recording);
        members.read_table("stretches", STRETCHES, read)?;
    }
    let mut found = accesses::Found::default();
    if members.manifest.members.contains_key("accesses.parquet") {
        let read = &mut |t: &ParquetTable<'_>| decode_accesses(t, &recording, &mut found);
        members.read_table("accesses", ACCESSES, read)?;
    }
    if members.manifest.members.contains_key("places.parquet") {
        let read = &mut |t: &ParquetTable<'_>| decode_places(t, &recording, &mut found);
        members.read_table("places", PLACES, read)?;
    }
    accesses::attach_accesses(found, &mut recording);
    Ok(recording)
}

/// Reads the sums of a container, and the recording without its samples.
pub(crate) fn decode_sums(
    source: &Container,
    wanted: Wanted,
) -> Result<(Recording, Vec<SampleSum>), StoreError> {
    let members = Members::new(source)?;
    let mut recording = members.manifest.clone().into_recording();
    let mut sums = Vec::new();
    members.read_table("images", IMAGES, &mut |t| decode_images(t, &mut recording))?;
    members.read_table("samples", SAMPLES, &mut |t| {
        sums.reserve(t.row_count());
        sampled_places(t, &mut recording, &mut sums, wanted)
    })?;
    if wanted.threads {
        members.read_table("threads", THREADS, &mut |t| {
            decode_threads(t, &mut recording)
        })?;
    }
    members.read_table("symbols", SYMBOLS, &mut |t| {
        decode_symbols(t, &mut recording)
    })?;
    Ok((recording, sums))
}

/// Returns whether [`decode_sums`] reads a table.
pub(crate) fn is_for_sums(table: &str, wanted: Wanted) -> bool {
    match table {
        "images.parquet" | "samples.parquet" | "symbols.parquet" => true,
        "threads.parquet" => wanted.threads,
        _ => false,
    }
}

fn has_callers(manifest: &Manifest) -> bool {
    manifest.members.contains_key("stacks.parquet")
}

/// Returns whether the sums of a container suffice for all that is wanted.
pub(crate) fn sums_do(source: &Container, wanted: Wanted) -> Result<bool, StoreError> {
    let callers = wanted.callers && has_callers(&source.read_manifest()?);
    Ok(!wanted.ids && !callers)
}

/// The members of a container.
struct Members<'a> {
    source: &'a Container,
    manifest: Manifest,
}

impl<'a> Members<'a> {
    fn new(source: &'a Container) -> Result<Self, StoreError> {
        let manifest = source.read_manifest()?;
        Ok(Self { source, manifest })
    }

    fn read_table(
        &self,
        name: &str,
        columns: &'static [TableColumn],
        read: &mut dyn FnMut(&ParquetTable<'_>) -> Read,
    ) -> Result<(), StoreError> {
        let name = format!("{name}.parquet");
        let bytes = self.source.read_table(&self.manifest, &name)?;
        let read = ParquetTable::open(&bytes, columns).and_then(|table| read(&table));
        read.map_err(|fault| fault.in_member(self.source.path(), &name))
    }
}

/// The names of a column, interned in the names of the recording.
struct NameColumn {
    ids: Vec<NameId>,
    texts: Texts,
}

impl NameColumn {
    fn new(texts: Texts, names: &mut NameSet) -> Self {
        Self {
            ids: texts
                .distinct
                .iter()
                .map(|text| names.intern(text))
                .collect(),
            texts,
        }
    }

    fn get(&self, row: usize) -> Option<NameId> {
        let index = (*self.texts.rows.get(row)?)?;
        self.ids.get(index as usize).copied()
    }
}

fn decode_images(table: &ParquetTable<'_>, recording: &mut Recording) -> Read {
    for rows in table.row_groups() {
        let (ids, gone) = (rows.read_ints("id")?, rows.read_ints("gone")?);
        let (kinds, paths) = (rows.read_texts("kind")?, rows.read_texts("path")?);
        let build_ids = rows.read_texts("build_id")?;
        let (majors, minors) = (rows.optional_ints("major")?, rows.optional_ints("minor")?);
        let inodes = rows.optional_ints("inode")?;
        let generations = rows.optional_ints("generation")?;
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            check.own_number(ids[i])?;
            let kind = KINDS
                .iter()
                .find(|(_, text)| Some(*text) == kinds.text_at(i));
            let build_id = match build_ids.text_at(i) {
                None => None,
                Some(hex) => {
                    let id = BuildId::from_hex(hex);
                    Some(id.ok_or_else(|| check.fault_here("the build-id is not hexadecimal"))?)
                }
            };
            let file = match (majors[i], minors[i], inodes[i], generations[i]) {
                (None, None, None, None) => None,
                (Some(major), Some(minor), Some(inode), Some(generation)) => Some(FileIdentity {
                    major: check.id32(major)?,
                    minor: check.id32(minor)?,
                    inode: inode.cast_unsigned(),
                    generation: generation.cast_unsigned(),
                }),
                _ => return Err(check.fault_here("half an identity of a file")),
            };
            let path = owned_text(table, paths.text_at(i))?;
            recording.images.push(Image {
                kind: kind
                    .ok_or_else(|| check.fault_here("an unknown kind of image"))?
                    .0,
                path: path.ok_or_else(|| check.fault_here("no path"))?,
                build_id,
                file,
                gone: check.check_flag(gone[i])?,
            });
        }
    }
    Ok(())
}

/// Returns a text owned by its row. Many rows can share a long text in the file, so its copy counts
/// against the budget.
fn owned_text(table: &ParquetTable<'_>, text: Option<&str>) -> Result<Option<String>, TableFault> {
    let len = text.map_or(0, str::len) as u64;
    table.budget.spend_bytes(len, 0)?;
    Ok(text.map(str::to_owned))
}

fn decode_stacks(
    table: &ParquetTable<'_>,
    recording: &mut Recording,
    ids: &mut Vec<StackId>,
) -> Read {
    for rows in table.row_groups() {
        let (own, images) = (rows.read_ints("id")?, rows.read_ints("image_id")?);
        let (callers, offsets) = (rows.optional_ints("caller")?, rows.read_ints("offset")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            check.own_number(own[i])?;
            // Only frames before this one exist, so a chain of callers ends.
            let caller = caller_of(&check, callers[i], ids)?;
            let location = Location {
                image: check.check_image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
            };
            ids.push(check.check_frame(&mut recording.stacks, location, caller)?);
        }
    }
    Ok(())
}

fn caller_of(
    check: &Check<'_>,
    id: Option<i64>,
    ids: &[StackId],
) -> Result<Option<StackId>, TableFault> {
    let Some(id) = id else { return Ok(None) };
    Ok(Some(
        ids[check.check_index(id, ids.len(), "stack")? as usize],
    ))
}

fn decode_samples(table: &ParquetTable<'_>, recording: &mut Recording, ids: &[StackId]) -> Read {
    recording.samples.reserve(table.row_count());
    for rows in table.row_groups() {
        let (events, images) = (rows.read_ints("event_id")?, rows.read_ints("image_id")?);
        let processes = NameColumn::new(rows.read_texts("process")?, &mut recording.names);
        let (pids, tids) = (rows.optional_ints("pid")?, rows.optional_ints("tid")?);
        let (offsets, callers) = (rows.read_ints("offset")?, rows.optional_ints("caller")?);
        let wakers = NameColumn::new(rows.read_texts("waker_process")?, &mut recording.names);
        let waker_tids = rows.optional_ints("waker_tid")?;
        let waker_stacks = rows.optional_ints("waker_stack")?;
        let (counts, weights) = (rows.read_ints("count")?, rows.optional_ints("weight")?);
        let cgroups = NameColumn::new(rows.later_texts("cgroup")?, &mut recording.names);
        let slices = rows.later_ints("slice")?;
        let labels = NameColumn::new(rows.later_texts("labels")?, &mut recording.names);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = processes.get(i);
            let location = Location {
                image: check.check_image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
            };
            let caller_id = caller_of(&check, callers[i], ids)?;
            let waker = match (wakers.get(i), waker_tids[i], waker_stacks[i]) {
                (None, None, None) => None,
                (Some(process), Some(tid), stack) => Some(Waker {
                    process,
                    tid: check.id32(tid)?,
                    stack: caller_of(&check, stack, ids)?,
                }),
                _ => return Err(check.fault_here("half a waker")),
            };
            let sample = Sample {
                event: check.check_event(events[i], recording)?,
                process: process.ok_or_else(|| check.fault_here("no process"))?,
                pid: pids[i].map(|pid| check.id32(pid)).transpose()?,
                tid: tids[i].map(|tid| check.id32(tid)).transpose()?,
                cgroup: cgroups.get(i),
                labels: labels.get(i),
                stack: check.check_frame(&mut recording.stacks, location, caller_id)?,
                slice: slices[i].map(|slice| check.id32(slice)).transpose()?,
                waker,
                count: check.check_count(counts[i])?,
                weight: check.check_count(weights[i].unwrap_or(counts[i]))?,
            };
            recording.samples.push(sample);
        }
    }
    Ok(())
}

/// Returns the samples summed by event, place and, if wanted, process and control group.
fn sampled_places(
    table: &ParquetTable<'_>,
    recording: &mut Recording,
    sums: &mut Vec<SampleSum>,
    wanted: Wanted,
) -> Read {
    let nobody = recording.names.intern("");
    for rows in table.row_groups() {
        let (events, images) = (rows.read_ints("event_id")?, rows.read_ints("image_id")?);
        let processes = if wanted.processes {
            Some(NameColumn::new(
                rows.read_texts("process")?,
                &mut recording.names,
            ))
        } else {
            None
        };
        let cgroups = if wanted.cgroups {
            Some(NameColumn::new(
                rows.later_texts("cgroup")?,
                &mut recording.names,
            ))
        } else {
            None
        };
        let offsets = rows.read_ints("offset")?;
        let (counts, weights) = (rows.read_ints("count")?, rows.optional_ints("weight")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = match &processes {
                Some(names) => names.get(i).ok_or_else(|| check.fault_here("no process"))?,
                None => nobody,
            };
            let sum = SampleSum {
                image: check.check_image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
                event: check.check_event(events[i], recording)?,
                process,
                cgroup: cgroups.as_ref().and_then(|names| names.get(i)),
                count: check.check_count(counts[i])?,
                weight: check.check_count(weights[i].unwrap_or(counts[i]))?,
            };
            match sums.last_mut() {
                Some(last) if last.sort_key() == sum.sort_key() => {
                    last.count = last.count.saturating_add(sum.count);
                    last.weight = last.weight.saturating_add(sum.weight);
                }
                _ => sums.push(sum),
            }
        }
    }
    Ok(())
}

fn decode_threads(table: &ParquetTable<'_>, recording: &mut Recording) -> Read {
    recording.threads.reserve(table.row_count());
    for rows in table.row_groups() {
        let events = rows.read_ints("event_id")?;
        let processes = NameColumn::new(rows.read_texts("process")?, &mut recording.names);
        let (pids, tids) = (rows.read_ints("pid")?, rows.read_ints("tid")?);
        let (counts, weights) = (rows.read_ints("count")?, rows.optional_ints("weight")?);
        let cgroups = NameColumn::new(rows.later_texts("cgroup")?, &mut recording.names);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = processes.get(i);
            let thread = ThreadCount {
                event: check.check_event(events[i], recording)?,
                pid: check.id32(pids[i])?,
                tid: check.id32(tids[i])?,
                process: process.ok_or_else(|| check.fault_here("no process"))?,
                cgroup: cgroups.get(i),
                count: check.check_count(counts[i])?,
                weight: check.check_count(weights[i].unwrap_or(counts[i]))?,
            };
            recording.threads.push(thread);
        }
    }
    Ok(())
}

fn decode_symbols(table: &ParquetTable<'_>, recording: &mut Recording) -> Read {
    recording.symbols.reserve(table.row_count());
    for rows in table.row_groups() {
        let (images, names) = (rows.read_ints("image_id")?, rows.read_texts("name")?);
        let (starts, ends) = (rows.read_ints("start")?, rows.read_ints("end")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let name = owned_text(table, names.text_at(i))?;
            recording.symbols.push(EmbeddedSymbol {
                image: check.check_image(images[i], recording)?,
                start: ImageOffset(starts[i].cast_unsigned()),
                end: ImageOffset(ends[i].cast_unsigned()),
                name: name.ok_or_else(|| check.fault_here("no name"))?,
            });
        }
    }
    Ok(())
}
