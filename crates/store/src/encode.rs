//! Encodes a recording into the members of a container.

use crate::accesses::{are_storable, encode_accesses, encode_places};
use crate::branches::{encode_branches, encode_stretches};
use crate::container::Encoded;
use crate::error::StoreError;
use crate::image_columns::{KINDS, SharedTexts, image_columns};
use crate::manifest::{MAX_EVENTS, Manifest, ManifestMember};
use crate::table::{IMAGES, ROW_GROUP, SAMPLES, STACKS, SYMBOLS, THREADS};
use crate::table_writer::{TableWriter, shared_text};
use profile::{
    EmbeddedSymbol, EventId, Image, ImageId, NameId, Recording, Sample, StackId, StretchCount,
};
use std::num::NonZeroU32;

/// Encodes a recording. Equal recordings give equal bytes, in any order of their samples.
pub(crate) fn encode_recording(recording: &Recording) -> Result<Encoded, StoreError> {
    check_storable(recording)?;
    let texts = SharedTexts::new(recording)?;
    let callers = Callers::new(recording);
    let mut tables = vec![(
        "samples.parquet",
        encode_samples(recording, &texts, &callers)?,
    )];
    if !callers.frames.is_empty() {
        let stacks = encode_stacks(recording, &callers, &texts)?;
        tables.push(("stacks.parquet", stacks));
    }
    tables.push(("threads.parquet", encode_threads(recording, &texts)?));
    tables.push(("images.parquet", encode_images(recording, &texts)?));
    tables.push(("symbols.parquet", encode_symbols(recording, &texts)?));
    if !recording.branches.is_empty() {
        tables.push(("branches.parquet", encode_branches(recording, &texts)?));
    }
    if !recording.stretches.is_empty() {
        tables.push(("stretches.parquet", encode_stretches(recording, &texts)?));
    }
    if !recording.accesses.is_empty() {
        tables.push(("accesses.parquet", encode_accesses(recording, &texts)?));
        tables.push(("places.parquet", encode_places(recording, &texts)?));
    }
    let describe = |(name, bytes): &(&str, Vec<u8>)| {
        let member = ManifestMember {
            bytes: bytes.len() as u64,
            crc32: crc32fast::hash(bytes),
        };
        ((*name).to_owned(), member)
    };
    let manifest = Manifest::new(recording, tables.iter().map(describe).collect());
    let mut members = vec![(crate::manifest::NAME, manifest.to_bytes()?)];
    members.append(&mut tables);
    Ok(Encoded { members })
}

fn require(good: bool, what: &str) -> Result<(), StoreError> {
    if good {
        Ok(())
    } else {
        Err(StoreError::unstorable(what))
    }
}

fn storable(number: u64) -> bool {
    i64::try_from(number).is_ok()
}

/// Refuses samples and threads that refer to missing entries of the recording.
fn check_samples(recording: &Recording) -> Result<(), StoreError> {
    let (names, stacks) = (recording.names.iter().len(), recording.stacks.len());
    let has_event = |event: EventId| usize::from(event.0) < recording.events.len();
    let has_name = |name: NameId| (name.0 as usize) < names;
    let has_stack = |stack: StackId| (stack.0 as usize) < stacks;
    for sample in &recording.samples {
        let waker = sample.waker;
        let known = has_event(sample.event)
            && has_name(sample.process)
            && sample.cgroup.is_none_or(has_name)
            && sample.labels.is_none_or(has_name)
            && has_stack(sample.stack)
            && waker.is_none_or(|waker| has_name(waker.process))
            && waker.and_then(|w| w.stack).is_none_or(has_stack);
        require(known, "a sample refers to what it does not have")?;
        let counts = storable(sample.count) && storable(sample.weight);
        require(counts, "a count or weight exceeds 63 bits")?;
    }
    for thread in &recording.threads {
        let known = has_event(thread.event)
            && has_name(thread.process)
            && thread.cgroup.is_none_or(has_name);
        require(known, "a thread refers to what it does not have")?;
        let counts = storable(thread.count) && storable(thread.weight);
        require(counts, "a count or weight exceeds 63 bits")?;
    }
    Ok(())
}

/// Refuses recordings that could not be read back, or would differ.
pub(crate) fn check_storable(recording: &Recording) -> Result<(), StoreError> {
    let (events, images) = (recording.events.len(), recording.images.len());
    require(events <= MAX_EVENTS, "it has more than 65536 events")?;
    for event in &recording.events {
        let finite =
            event.frequency.is_none_or(f64::is_finite) && event.multiplex_scale.is_finite();
        require(finite, "a frequency or scale of an event is not finite")?;
    }
    let frames = recording.stacks.frames().iter();
    let located = |image: ImageId| (image.0 as usize) < images;
    require(
        frames.clone().all(|frame| located(frame.location.image)),
        "a stack is in an image that it does not have",
    )?;
    check_samples(recording)?;
    for branch in &recording.branches {
        require(
            located(branch.image),
            "a branch is in an image that it does not have",
        )?;
        let counts = storable(branch.observed) && storable(branch.walked);
        require(counts, "a count or weight exceeds 63 bits")?;
    }
    for StretchCount { image, seen, .. } in &recording.stretches {
        require(
            located(*image),
            "code between branches is in an image that it does not have",
        )?;
        let counts = [seen.times, seen.judged, seen.mispredicted];
        require(
            counts.into_iter().all(storable),
            "a count or weight exceeds 63 bits",
        )?;
    }
    for one in &recording.accesses {
        require(
            located(one.image),
            "data addresses are of an image that it does not have",
        )?;
        require(
            are_storable(one, storable),
            "a count or weight exceeds 63 bits",
        )?;
    }
    let mut symbols = recording.symbols.iter();
    let known = symbols.all(|symbol| located(symbol.image));
    require(known, "a symbol is of an image that it does not have")
}

/// Frames that called others, and frames of wakers: the only ones with an id. The innermost frame
/// of a sample is in its row. Stored by index: a recording can have millions of frames.
struct Callers {
    frames: Vec<u32>,
    /// 1 + the id of each frame that has one.
    ids: Vec<Option<NonZeroU32>>,
}

impl Callers {
    fn new(recording: &Recording) -> Self {
        let table = &recording.stacks;
        let mut used = vec![false; table.len()];
        for sample in &recording.samples {
            let mut waker = sample.waker.and_then(|waker| waker.stack);
            let mut caller = table.frame(sample.stack).caller;
            for next in [&mut waker, &mut caller] {
                while let Some(id) = *next {
                    if std::mem::replace(&mut used[id.0 as usize], true) {
                        break;
                    }
                    *next = table.frame(id).caller;
                }
            }
        }
        let numbered = (0u32..).zip(used);
        let frames = numbered.filter_map(|(position, used)| used.then_some(position));
        let mut callers = Self {
            frames: frames.collect(),
            ids: vec![None; table.len()],
        };
        for (id, position) in (1u32..).zip(&callers.frames) {
            callers.ids[*position as usize] = NonZeroU32::new(id);
        }
        callers
    }

    fn stack_number(&self, stack: Option<StackId>) -> Option<i64> {
        let id = self.ids[stack?.0 as usize]?;
        Some(i64::from(id.get()) - 1)
    }
}

/// Key of a sample in the order of the rows: by image and ascending offset, so that a difference
/// takes a byte or two. Rows are not copied for sorting, to keep a daemon small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    event: u16,
    image: u32,
    offset: u64,
    process: u32,
    /// Index in the recording, by which equal keys are compared further.
    sample: u32,
}

/// The fields of a sample that are compared if places and processes are equal.
type Rest = (
    Option<u32>,
    Option<u32>,
    (Option<u32>, Option<u32>, Option<u32>),
    Option<i64>,
    Option<(u32, u32, Option<i64>)>,
    u64,
    u64,
);

/// Returns the keys in the order of the rows, which does not depend on that of the samples.
fn sorted_keys(
    recording: &Recording,
    texts: &SharedTexts,
    callers: &Callers,
) -> Result<Vec<Key>, StoreError> {
    if u32::try_from(recording.samples.len()).is_err() {
        return Err(StoreError::unstorable("it has more than 2^32 rows"));
    }
    let key = |(number, sample): (u32, &Sample)| {
        let location = recording.stacks.frame(sample.stack).location;
        Key {
            event: sample.event.0,
            image: location.image.0,
            offset: location.offset.0,
            process: texts.name_rank(sample.process),
            sample: number,
        }
    };
    let rest = |key: &Key| -> Rest {
        let sample = &recording.samples[key.sample as usize];
        let waker = sample.waker.map(|w| {
            (
                texts.name_rank(w.process),
                w.tid,
                callers.stack_number(w.stack),
            )
        });
        let caller = callers.stack_number(recording.stacks.frame(sample.stack).caller);
        let (count, weight) = (sample.count, sample.weight);
        let cgroup = sample.cgroup.map(|cgroup| texts.name_rank(cgroup));
        let labels = sample.labels.map(|labels| texts.name_rank(labels));
        let groups = (cgroup, labels, sample.slice);
        (sample.pid, sample.tid, groups, caller, waker, count, weight)
    };
    let mut keys: Vec<Key> = (0..).zip(&recording.samples).map(key).collect();
    keys.sort_unstable_by(|a, b| {
        let place = |key: &Key| (key.event, key.image, key.offset, key.process);
        place(a).cmp(&place(b)).then_with(|| rest(a).cmp(&rest(b)))
    });
    Ok(keys)
}

fn encode_samples(
    recording: &Recording,
    texts: &SharedTexts,
    callers: &Callers,
) -> Result<Vec<u8>, StoreError> {
    let keys = sorted_keys(recording, texts, callers)?;
    let sample = |key: &Key| &recording.samples[key.sample as usize];
    let caller = |stack: StackId| callers.stack_number(recording.stacks.frame(stack).caller);
    let mut table = TableWriter::new(SAMPLES)?;
    for keys in keys.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        let samples = || keys.iter().map(sample);
        out.write_ints("event_id", keys.iter().map(|key| key.event.into()))?;
        out.write_texts(
            "event",
            keys.iter().map(|key| &texts.events[usize::from(key.event)]),
        )?;
        out.write_texts("process", samples().map(|s| texts.name_text(s.process)))?;
        out.optional_ints("pid", samples().map(|s| s.pid.map(i64::from)))?;
        out.optional_ints("tid", samples().map(|s| s.tid.map(i64::from)))?;
        image_columns(&mut out, texts, || {
            keys.iter().map(|key| ImageId(key.image))
        })?;
        out.write_ints("offset", keys.iter().map(|key| key.offset.cast_signed()))?;
        out.optional_ints("caller", samples().map(|s| caller(s.stack)))?;
        let wakers = || samples().map(|s| s.waker);
        out.optional_texts(
            "waker_process",
            wakers().map(|w| Some(texts.name_text(w?.process))),
        )?;
        out.optional_ints("waker_tid", wakers().map(|w| Some(i64::from(w?.tid))))?;
        out.optional_ints(
            "waker_stack",
            wakers().map(|w| callers.stack_number(w?.stack)),
        )?;
        out.write_ints("count", samples().map(|s| s.count.cast_signed()))?;
        out.optional_ints(
            "weight",
            samples().map(|s| stored_weight(s.count, s.weight)),
        )?;
        let cgroups = samples().map(|s| Some(texts.name_text(s.cgroup?)));
        out.optional_texts("cgroup", cgroups)?;
        out.optional_ints("slice", samples().map(|s| s.slice.map(i64::from)))?;
        let labels = samples().map(|s| Some(texts.name_text(s.labels?)));
        out.optional_texts("labels", labels)?;
        out.finish_rows()?;
    }
    table.finish_table()
}

/// Returns the weight of a row; null if it equals the count, which mostly saves the column.
fn stored_weight(count: u64, weight: u64) -> Option<i64> {
    (weight != count).then_some(weight.cast_signed())
}

fn encode_stacks(
    recording: &Recording,
    callers: &Callers,
    texts: &SharedTexts,
) -> Result<Vec<u8>, StoreError> {
    let mut table = TableWriter::new(STACKS)?;
    let mut ids = 0i64..;
    for rows in callers.frames.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        let frames = || {
            let positions = rows.iter().copied().map(StackId);
            positions.map(|position| recording.stacks.frame(position))
        };
        let images = || frames().map(|frame| frame.location.image);
        let offsets = frames().map(|frame| frame.location.offset.0);
        let numbers = frames().map(|frame| callers.stack_number(frame.caller));
        out.write_ints("id", ids.by_ref().take(rows.len()))?;
        out.optional_ints("caller", numbers)?;
        image_columns(&mut out, texts, images)?;
        out.write_ints("offset", offsets.map(u64::cast_signed))?;
        out.finish_rows()?;
    }
    table.finish_table()
}

fn encode_threads(recording: &Recording, texts: &SharedTexts) -> Result<Vec<u8>, StoreError> {
    let mut threads = recording.threads.clone();
    threads.sort_unstable_by_key(|t| {
        (
            t.event,
            t.pid,
            t.tid,
            texts.name_rank(t.process),
            t.cgroup.map(|cgroup| texts.name_rank(cgroup)),
            t.count,
            t.weight,
        )
    });
    let mut table = TableWriter::new(THREADS)?;
    for rows in threads.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        out.write_ints("event_id", rows.iter().map(|row| row.event.0.into()))?;
        out.write_texts(
            "event",
            rows.iter()
                .map(|row| &texts.events[usize::from(row.event.0)]),
        )?;
        out.write_texts(
            "process",
            rows.iter().map(|row| texts.name_text(row.process)),
        )?;
        out.write_ints("pid", rows.iter().map(|row| row.pid.into()))?;
        out.write_ints("tid", rows.iter().map(|row| row.tid.into()))?;
        out.write_ints("count", rows.iter().map(|row| row.count.cast_signed()))?;
        out.optional_ints(
            "weight",
            rows.iter().map(|row| stored_weight(row.count, row.weight)),
        )?;
        let cgroups = rows.iter().map(|row| Some(texts.name_text(row.cgroup?)));
        out.optional_texts("cgroup", cgroups)?;
        out.finish_rows()?;
    }
    table.finish_table()
}

fn encode_images(recording: &Recording, texts: &SharedTexts) -> Result<Vec<u8>, StoreError> {
    let kinds = KINDS
        .iter()
        .map(|(kind, text)| Ok((*kind, shared_text(text)?)))
        .collect::<Result<Vec<_>, StoreError>>()?;
    let kind = |image: &Image| kinds.iter().find(|(kind, _)| *kind == image.kind);
    let mut table = TableWriter::new(IMAGES)?;
    let mut ids = (0..).map(ImageId);
    for rows in recording.images.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        let ids: Vec<ImageId> = ids.by_ref().take(rows.len()).collect();
        let files = || rows.iter().map(|image| image.file);
        out.write_ints("id", ids.iter().map(|id| id.0.into()))?;
        out.write_texts(
            "kind",
            rows.iter().filter_map(|image| Some(&kind(image)?.1)),
        )?;
        out.write_texts("path", ids.iter().map(|id| texts.path_text(*id)))?;
        out.optional_texts("build_id", ids.iter().map(|id| texts.build_id(*id)))?;
        out.optional_ints("major", files().map(|file| Some(file?.major.into())))?;
        out.optional_ints("minor", files().map(|file| Some(file?.minor.into())))?;
        out.optional_ints("inode", files().map(|file| Some(file?.inode.cast_signed())))?;
        let generations = files().map(|file| Some(file?.generation.cast_signed()));
        out.optional_ints("generation", generations)?;
        out.write_ints("gone", rows.iter().map(|image| image.gone.into()))?;
        out.finish_rows()?;
    }
    table.finish_table()
}

fn encode_symbols(recording: &Recording, texts: &SharedTexts) -> Result<Vec<u8>, StoreError> {
    let mut table = TableWriter::new(SYMBOLS)?;
    for rows in recording.symbols.chunks(ROW_GROUP) {
        let mut out = table.begin_rows()?;
        let name = |symbol: &EmbeddedSymbol| shared_text(&symbol.name);
        let names = rows.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        out.write_ints("image_id", rows.iter().map(|row| row.image.0.into()))?;
        out.write_texts("image", rows.iter().map(|row| texts.path_text(row.image)))?;
        out.write_ints("start", rows.iter().map(|row| row.start.0.cast_signed()))?;
        out.write_ints("end", rows.iter().map(|row| row.end.0.cast_signed()))?;
        out.write_texts("name", names.iter())?;
        out.finish_rows()?;
    }
    table.finish_table()
}
