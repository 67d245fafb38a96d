//! The members of a container as a recording. A checksum says that nothing was damaged, not that
//! the writer meant well: whatever a row says is checked.

use crate::accesses::{self, decode_accesses, decode_places};
use crate::branches::{decode_branches, decode_stretches};
use crate::container::Source;
use crate::error::{Error, Fault};
use crate::image_columns::KINDS;
use crate::manifest::Manifest;
use crate::row_check::{Check, Read};
use crate::table::{
    ACCESSES, BRANCHES, Column, IMAGES, PLACES, SAMPLES, STACKS, STRETCHES, SYMBOLS, THREADS,
};
use crate::table_reader::{Table, Texts};
use profile::{
    BuildId, EmbeddedSymbol, EventId, FileIdentity, Image, ImageId, ImageOffset, Location, NameId,
    Names, Recording, Sample, StackId, ThreadCount, Waker,
};

/// What is wanted of a database of which only the sums matter. What is not wanted is added up while
/// the samples are read, which for a large database is most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Names of processes.
    pub processes: bool,
    /// Process and thread ids of samples.
    pub ids: bool,
    /// Who called, and who ended a wait.
    pub callers: bool,
    /// The threads' own counts.
    pub threads: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self {
        processes: true,
        ids: true,
        callers: true,
        threads: true,
    };

    /// Where samples landed, and nothing else.
    pub const PLACES: Self = Self {
        processes: false,
        ids: false,
        callers: false,
        threads: false,
    };
}

/// The samples of an event in a place, in the processes of a name.
pub(crate) struct Sum {
    pub image: ImageId,
    pub offset: ImageOffset,
    pub event: EventId,
    pub process: NameId,
    pub count: u64,
    pub weight: u64,
}

impl Sum {
    pub fn new(recording: &Recording, sample: &Sample) -> Self {
        let Location { image, offset } = recording.stacks.frame(sample.stack).location;
        Self {
            image,
            offset,
            event: sample.event,
            process: sample.process,
            count: sample.count,
            weight: sample.weight,
        }
    }

    pub fn key(&self) -> (ImageId, ImageOffset, EventId, NameId) {
        (self.image, self.offset, self.event, self.process)
    }
}

/// Reads the recording of a container.
pub(crate) fn decode(source: &Source) -> Result<Recording, Error> {
    let members = Members::new(source)?;
    let mut recording = members.manifest.clone().into_recording();
    let mut callers = Vec::new();
    members.table("images", IMAGES, &mut |t| images(t, &mut recording))?;
    if has_callers(&members.manifest) {
        let read = &mut |t: &Table<'_>| stacks(t, &mut recording, &mut callers);
        members.table("stacks", STACKS, read)?;
    }
    let read = &mut |t: &Table<'_>| samples(t, &mut recording, &callers);
    members.table("samples", SAMPLES, read)?;
    members.table("threads", THREADS, &mut |t| threads(t, &mut recording))?;
    members.table("symbols", SYMBOLS, &mut |t| symbols(t, &mut recording))?;
    if members.manifest.members.contains_key("branches.parquet") {
        let read = &mut |t: &Table<'_>| decode_branches(t, &mut recording);
        members.table("branches", BRANCHES, read)?;
    }
    if members.manifest.members.contains_key("stretches.parquet") {
        let read = &mut |t: &Table<'_>| decode_stretches(t, &mut recording);
        members.table("stretches", STRETCHES, read)?;
    }
    let mut found = accesses::Found::default();
    if members.manifest.members.contains_key("accesses.parquet") {
        let read = &mut |t: &Table<'_>| decode_accesses(t, &recording, &mut found);
        members.table("accesses", ACCESSES, read)?;
    }
    if members.manifest.members.contains_key("places.parquet") {
        let read = &mut |t: &Table<'_>| decode_places(t, &recording, &mut found);
        members.table("places", PLACES, read)?;
    }
    accesses::finish(found, &mut recording);
    Ok(recording)
}

/// Reads the sums of a container, and the recording without its samples.
pub(crate) fn decode_sums(source: &Source, wanted: Wanted) -> Result<(Recording, Vec<Sum>), Error> {
    let members = Members::new(source)?;
    let mut recording = members.manifest.clone().into_recording();
    let mut sums = Vec::new();
    members.table("images", IMAGES, &mut |t| images(t, &mut recording))?;
    members.table("samples", SAMPLES, &mut |t| {
        sums.reserve(t.rows());
        sampled_places(t, &mut recording, &mut sums, wanted.processes)
    })?;
    if wanted.threads {
        members.table("threads", THREADS, &mut |t| threads(t, &mut recording))?;
    }
    members.table("symbols", SYMBOLS, &mut |t| symbols(t, &mut recording))?;
    Ok((recording, sums))
}

fn has_callers(manifest: &Manifest) -> bool {
    manifest.members.contains_key("stacks.parquet")
}

/// Returns whether the sums alone have all that is wanted of a container.
pub(crate) fn sums_do(source: &Source, wanted: Wanted) -> Result<bool, Error> {
    let callers = wanted.callers && has_callers(&source.manifest()?);
    Ok(!wanted.ids && !callers)
}

/// The members of a container.
struct Members<'a> {
    source: &'a Source,
    manifest: Manifest,
}

impl<'a> Members<'a> {
    fn new(source: &'a Source) -> Result<Self, Error> {
        let manifest = source.manifest()?;
        Ok(Self { source, manifest })
    }

    fn table(
        &self,
        name: &str,
        columns: &'static [Column],
        read: &mut dyn FnMut(&Table<'_>) -> Read,
    ) -> Result<(), Error> {
        let name = format!("{name}.parquet");
        let bytes = self.source.table(&self.manifest, &name)?;
        let read = Table::open(&bytes, columns).and_then(|table| read(&table));
        read.map_err(|fault| fault.of(self.source.path(), &name))
    }
}

/// The names of a column, entered into the names of the recording.
struct NameColumn {
    ids: Vec<NameId>,
    texts: Texts,
}

impl NameColumn {
    fn new(texts: Texts, names: &mut Names) -> Self {
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

fn images(table: &Table<'_>, recording: &mut Recording) -> Read {
    for rows in table.groups() {
        let (ids, gone) = (rows.ints("id")?, rows.ints("gone")?);
        let (kinds, paths) = (rows.texts("kind")?, rows.texts("path")?);
        let build_ids = rows.texts("build_id")?;
        let (majors, minors) = (rows.optional_ints("major")?, rows.optional_ints("minor")?);
        let inodes = rows.optional_ints("inode")?;
        let generations = rows.optional_ints("generation")?;
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            check.own_number(ids[i])?;
            let kind = KINDS.iter().find(|(_, text)| Some(*text) == kinds.get(i));
            let build_id = match build_ids.get(i) {
                None => None,
                Some(hex) => {
                    let id = BuildId::from_hex(hex);
                    Some(id.ok_or_else(|| check.fault("the build-id is not hexadecimal"))?)
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
                _ => return Err(check.fault("half an identity of a file")),
            };
            let path = owned(table, paths.get(i))?;
            recording.images.push(Image {
                kind: kind
                    .ok_or_else(|| check.fault("an unknown kind of image"))?
                    .0,
                path: path.ok_or_else(|| check.fault("no path"))?,
                build_id,
                file,
                gone: check.flag(gone[i])?,
            });
        }
    }
    Ok(())
}

/// A text of its own for a row. Many rows can share a long one in the file, so it has its price.
fn owned(table: &Table<'_>, text: Option<&str>) -> Result<Option<String>, Fault> {
    let len = text.map_or(0, str::len) as u64;
    table.budget.spend(len, 0)?;
    Ok(text.map(str::to_owned))
}

fn stacks(table: &Table<'_>, recording: &mut Recording, ids: &mut Vec<StackId>) -> Read {
    for rows in table.groups() {
        let (own, images) = (rows.ints("id")?, rows.ints("image_id")?);
        let (callers, offsets) = (rows.optional_ints("caller")?, rows.ints("offset")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            check.own_number(own[i])?;
            // Only frames before this one exist: a chain of callers ends.
            let caller = caller(&check, callers[i], ids)?;
            let location = Location {
                image: check.image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
            };
            ids.push(check.frame(&mut recording.stacks, location, caller)?);
        }
    }
    Ok(())
}

fn caller(check: &Check<'_>, id: Option<i64>, ids: &[StackId]) -> Result<Option<StackId>, Fault> {
    let Some(id) = id else { return Ok(None) };
    Ok(Some(ids[check.index(id, ids.len(), "stack")? as usize]))
}

fn samples(table: &Table<'_>, recording: &mut Recording, ids: &[StackId]) -> Read {
    recording.samples.reserve(table.rows());
    for rows in table.groups() {
        let (events, images) = (rows.ints("event_id")?, rows.ints("image_id")?);
        let processes = NameColumn::new(rows.texts("process")?, &mut recording.names);
        let (pids, tids) = (rows.optional_ints("pid")?, rows.optional_ints("tid")?);
        let (offsets, callers) = (rows.ints("offset")?, rows.optional_ints("caller")?);
        let wakers = NameColumn::new(rows.texts("waker_process")?, &mut recording.names);
        let waker_tids = rows.optional_ints("waker_tid")?;
        let waker_stacks = rows.optional_ints("waker_stack")?;
        let (counts, weights) = (rows.ints("count")?, rows.optional_ints("weight")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = processes.get(i);
            let location = Location {
                image: check.image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
            };
            let caller_id = caller(&check, callers[i], ids)?;
            let waker = match (wakers.get(i), waker_tids[i], waker_stacks[i]) {
                (None, None, None) => None,
                (Some(process), Some(tid), stack) => Some(Waker {
                    process,
                    tid: check.id32(tid)?,
                    stack: caller(&check, stack, ids)?,
                }),
                _ => return Err(check.fault("half a waker")),
            };
            let sample = Sample {
                event: check.event(events[i], recording)?,
                process: process.ok_or_else(|| check.fault("no process"))?,
                pid: pids[i].map(|pid| check.id32(pid)).transpose()?,
                tid: tids[i].map(|tid| check.id32(tid)).transpose()?,
                stack: check.frame(&mut recording.stacks, location, caller_id)?,
                waker,
                count: check.count(counts[i])?,
                weight: check.count(weights[i].unwrap_or(counts[i]))?,
            };
            recording.samples.push(sample);
        }
    }
    Ok(())
}

/// The samples added up by event, place and, if these are wanted, process.
fn sampled_places(
    table: &Table<'_>,
    recording: &mut Recording,
    sums: &mut Vec<Sum>,
    with_processes: bool,
) -> Read {
    let nobody = recording.names.intern("");
    for rows in table.groups() {
        let (events, images) = (rows.ints("event_id")?, rows.ints("image_id")?);
        let processes = match with_processes {
            true => Some(NameColumn::new(
                rows.texts("process")?,
                &mut recording.names,
            )),
            false => None,
        };
        let offsets = rows.ints("offset")?;
        let (counts, weights) = (rows.ints("count")?, rows.optional_ints("weight")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = match &processes {
                Some(names) => names.get(i).ok_or_else(|| check.fault("no process"))?,
                None => nobody,
            };
            let sum = Sum {
                image: check.image(images[i], recording)?,
                offset: ImageOffset(offsets[i].cast_unsigned()),
                event: check.event(events[i], recording)?,
                process,
                count: check.count(counts[i])?,
                weight: check.count(weights[i].unwrap_or(counts[i]))?,
            };
            match sums.last_mut() {
                Some(last) if last.key() == sum.key() => {
                    last.count = last.count.saturating_add(sum.count);
                    last.weight = last.weight.saturating_add(sum.weight);
                }
                _ => sums.push(sum),
            }
        }
    }
    Ok(())
}

fn threads(table: &Table<'_>, recording: &mut Recording) -> Read {
    recording.threads.reserve(table.rows());
    for rows in table.groups() {
        let events = rows.ints("event_id")?;
        let processes = NameColumn::new(rows.texts("process")?, &mut recording.names);
        let (pids, tids) = (rows.ints("pid")?, rows.ints("tid")?);
        let (counts, weights) = (rows.ints("count")?, rows.optional_ints("weight")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let process = processes.get(i);
            let thread = ThreadCount {
                event: check.event(events[i], recording)?,
                pid: check.id32(pids[i])?,
                tid: check.id32(tids[i])?,
                process: process.ok_or_else(|| check.fault("no process"))?,
                count: check.count(counts[i])?,
                weight: check.count(weights[i].unwrap_or(counts[i]))?,
            };
            recording.threads.push(thread);
        }
    }
    Ok(())
}

fn symbols(table: &Table<'_>, recording: &mut Recording) -> Read {
    recording.symbols.reserve(table.rows());
    for rows in table.groups() {
        let (images, names) = (rows.ints("image_id")?, rows.texts("name")?);
        let (starts, ends) = (rows.ints("start")?, rows.ints("end")?);
        for i in 0..rows.len() {
            let check = Check(&rows, i);
            let name = owned(table, names.get(i))?;
            recording.symbols.push(EmbeddedSymbol {
                image: check.image(images[i], recording)?,
                start: ImageOffset(starts[i].cast_unsigned()),
                end: ImageOffset(ends[i].cast_unsigned()),
                name: name.ok_or_else(|| check.fault("no name"))?,
            });
        }
    }
    Ok(())
}
