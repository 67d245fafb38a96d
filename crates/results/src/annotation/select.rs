//! Selection of samples, and of a procedure.

use crate::refusal::{inconclusive_refusal, usage_refusal};
use crate::report::sample_amount;
use crate::source::{RecordingSource, name_locations};
use analysis::stall::culprits::Cause;
use profile::{EventId, ImageId, ImageKind, ImageOffset, Location, Recording};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use symbols::Detail;

type ByOffset = FxHashMap<ImageOffset, f64>;

/// The samples of a recording, by image.
pub struct SampleSelection<'a> {
    recording: &'a Recording,
    /// All samples of the event in the selected images.
    pub total: f64,
    /// All samples of the event, including other images and the kernel.
    pub everywhere: f64,
    /// All samples of the event in the kernel.
    pub kernel: f64,
    images: BTreeMap<ImageId, ByOffset>,
    events: FxHashMap<ImageId, Vec<(Cause, ByOffset)>>,
    /// Samples of the instruction event, and the number of instructions for each sample.
    instructions: FxHashMap<ImageId, ByOffset>,
    each: f64,
}

/// A selected procedure.
#[derive(Clone, Debug)]
pub struct ChosenProcedure {
    /// Its image.
    pub image: ImageId,
    /// Its name, demangled.
    pub name: String,
    /// Start offset, in the image.
    pub start: ImageOffset,
    /// Its size in bytes.
    pub size: u64,
    /// Its samples.
    pub samples: f64,
}

/// A procedure selected among those of its name.
pub struct ChosenAmong {
    /// The procedure of this name with most samples.
    pub chosen: ChosenProcedure,
    /// Some of the others.
    pub others: Vec<ChosenProcedure>,
}

/// The functions that a name stands for.
pub enum NamedFunctions {
    /// A procedure with machine code.
    Compiled(ChosenAmong),
    /// Full names of functions that an interpreter runs, which have no machine code in a file.
    Scripts(Vec<String>),
}

/// Maximum number of other procedures of the same name that are mentioned.
const MOST_OTHERS: usize = 4;

/// Returns the cause that an event indicates; `None` for other events.
fn cause_of_event(name: &str) -> Option<Cause> {
    Some(match name.split(':').next()? {
        "L1-icache-load-misses" => Cause::InstructionCache,
        "iTLB-load-misses" => Cause::InstructionTlb,
        "L1-dcache-load-misses" => Cause::DataCache,
        "dTLB-load-misses" => Cause::DataTlb,
        "branch-misses" => Cause::Mispredict,
        "page-faults" | "minor-faults" => Cause::PageFault,
        _ => return None,
    })
}

impl<'a> SampleSelection<'a> {
    /// Selects the samples of an event, in images with a text in their path.
    pub fn new(recording: &'a Recording, event: EventId, image: Option<&str>) -> Self {
        let mut selection = Self {
            recording,
            total: 0.0,
            everywhere: 0.0,
            kernel: 0.0,
            images: BTreeMap::new(),
            events: FxHashMap::default(),
            instructions: FxHashMap::default(),
            each: 0.0,
        };
        for sample in &recording.samples {
            let location = recording.stacks.frame(sample.stack).location;
            let weight = sample_amount(recording, sample);
            let described = recording.event(sample.event);
            if sample.event != event {
                if described.name.split(':').next() == Some("instructions") {
                    selection.each = described.period as f64;
                    let counts = selection.instructions.entry(location.image).or_default();
                    *counts.entry(location.offset).or_default() += weight;
                }
                if let Some(cause) = cause_of_event(&described.name) {
                    let all = selection.events.entry(location.image).or_default();
                    let place = all.iter().position(|(one, _)| *one == cause);
                    let place = place.unwrap_or_else(|| {
                        all.push((cause, ByOffset::default()));
                        all.len() - 1
                    });
                    let counts = &mut all[place].1;
                    *counts.entry(location.offset).or_default() += weight * described.period as f64;
                }
                continue;
            }
            selection.everywhere += weight;
            let file = recording.image(location.image);
            if matches!(file.kind, ImageKind::Kernel | ImageKind::KernelModule) {
                selection.kernel += weight;
            }
            if image.is_none_or(|part| file.path.contains(part)) {
                selection.total += weight;
                let samples = selection.images.entry(location.image).or_default();
                *samples.entry(location.offset).or_default() += weight;
            }
        }
        // An event that was recorded and never seen in an image rules out its cause as well.
        for described in &recording.events {
            let Some(cause) = cause_of_event(&described.name) else {
                continue;
            };
            for image in selection.images.keys() {
                let all = selection.events.entry(*image).or_default();
                if !all.iter().any(|(one, _)| *one == cause) {
                    all.push((cause, ByOffset::default()));
                }
            }
        }
        selection
    }

    /// Returns the samples of an image.
    pub fn image_samples(&self, image: ImageId) -> &ByOffset {
        static NONE: std::sync::LazyLock<ByOffset> = std::sync::LazyLock::new(ByOffset::default);
        self.images.get(&image).unwrap_or(&NONE)
    }

    /// Returns the other events of an image.
    pub fn image_events(&self, image: ImageId) -> &[(Cause, ByOffset)] {
        self.events.get(&image).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of instructions that a procedure executed, estimated from samples of that
    /// event, and the number of these samples.
    pub fn instructions_executed(&self, chosen: &ChosenProcedure) -> (f64, f64) {
        let counts = self.instructions.get(&chosen.image);
        let own = counts
            .into_iter()
            .flatten()
            .filter(|(at, _)| at.0.wrapping_sub(chosen.start.0) < chosen.size);
        let samples: f64 = own.map(|(_, weight)| weight).sum();
        (samples * self.each, samples)
    }

    /// Returns all procedures with samples, by image and the most sampled first.
    pub fn by_image(&self) -> BTreeMap<ImageId, Vec<ChosenProcedure>> {
        let mut all: BTreeMap<ImageId, Vec<ChosenProcedure>> = BTreeMap::new();
        for chosen in self.all_procedures(&[]) {
            all.entry(chosen.image).or_default().push(chosen);
        }
        all
    }

    fn all_procedures(&self, debug_dirs: &[PathBuf]) -> Vec<ChosenProcedure> {
        let source = RecordingSource {
            debug_dirs: debug_dirs.to_vec(),
            ..RecordingSource::default()
        };
        let places = self.images.iter().flat_map(|(image, samples)| {
            samples.keys().map(|offset| Location {
                image: *image,
                offset: *offset,
            })
        });
        let places: Vec<Location> = places.collect();
        let resolved = name_locations(
            self.recording,
            places.iter().copied(),
            Detail::Procedures,
            &source,
        );
        let mut found: FxHashMap<(ImageId, ImageOffset), ChosenProcedure> = FxHashMap::default();
        for place in places {
            let Some(procedure) = resolved.table.procedure(place) else {
                continue;
            };
            let samples = self.image_samples(place.image).get(&place.offset).copied();
            let chosen = found
                .entry((place.image, procedure.start))
                .or_insert_with(|| ChosenProcedure {
                    image: place.image,
                    name: procedure.name.to_string(),
                    start: procedure.start,
                    size: procedure.size,
                    samples: 0.0,
                });
            chosen.samples += samples.unwrap_or(0.0);
        }
        let mut all: Vec<ChosenProcedure> = found.into_values().collect();
        all.sort_by(|a, b| b.samples.total_cmp(&a.samples).then(a.name.cmp(&b.name)));
        all
    }

    /// Finds the requested procedure; if several have this name, the one with most samples. A whole
    /// name comes before a part of one, and machine code before scripts.
    ///
    /// # Errors
    /// If no procedure of this name, or this range of an image, has samples.
    pub fn choose_procedure(
        &self,
        wanted: &str,
        debug_dirs: &[PathBuf],
    ) -> anyhow::Result<NamedFunctions> {
        if let Some((start, end)) = parse_range(wanted) {
            return Ok(NamedFunctions::Compiled(ChosenAmong {
                chosen: self.by_range(wanted, start, end)?,
                others: Vec::new(),
            }));
        }
        let all = self.all_procedures(debug_dirs);
        let exact = |one: &&ChosenProcedure| {
            one.name == wanted || one.name.split('(').next() == Some(wanted)
        };
        let mut named: Vec<&ChosenProcedure> = all.iter().filter(exact).collect();
        let mut scripts = Vec::new();
        if named.is_empty() {
            scripts = self.script_functions(|name| is_name_of_script(name, wanted));
        }
        if named.is_empty() && scripts.is_empty() {
            named = all.iter().filter(|one| one.name.contains(wanted)).collect();
        }
        if named.is_empty() && scripts.is_empty() {
            scripts = self.script_functions(|name| name.contains(wanted));
        }
        if !scripts.is_empty() {
            return Ok(NamedFunctions::Scripts(scripts));
        }
        let Some(chosen) = named.first() else {
            let most: Vec<String> = all.iter().take(5).map(|one| one.name.clone()).collect();
            return Err(inconclusive_refusal(if most.is_empty() {
                "no sample is in a procedure with a name; give START..END with --image".to_owned()
            } else {
                format!(
                    "no sample is in a procedure '{}'; most are in: {}",
                    wanted,
                    most.join(", ")
                )
            }));
        };
        let others = named.iter().skip(1).take(MOST_OTHERS);
        Ok(NamedFunctions::Compiled(ChosenAmong {
            chosen: (*chosen).clone(),
            others: others.map(|other| (*other).clone()).collect(),
        }))
    }

    /// Returns the names of interpreted functions that are wanted.
    fn script_functions(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let is_script = |image| self.recording.image(image).kind == ImageKind::Script;
        let symbols = self.recording.symbols.iter();
        let scripts = symbols.filter(|symbol| is_script(symbol.image) && is_wanted(&symbol.name));
        let names: BTreeSet<&str> = scripts.map(|symbol| &*symbol.name).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn by_range(&self, wanted: &str, start: u64, end: u64) -> anyhow::Result<ChosenProcedure> {
        let mut images = self.images.keys();
        let (Some(image), None) = (images.next(), images.next()) else {
            return Err(usage_refusal(format!(
                "{wanted} is of which image? --image TEXT names one"
            )));
        };
        let within = |offset: &ImageOffset| (start..end).contains(&offset.0);
        let samples = self.image_samples(*image).iter();
        Ok(ChosenProcedure {
            image: *image,
            name: wanted.to_owned(),
            start: ImageOffset(start),
            size: end.saturating_sub(start),
            samples: samples
                .filter(|(offset, _)| within(offset))
                .map(|(_, weight)| weight)
                .sum(),
        })
    }
}

/// Returns whether a script's function has this name, with or without its module or class:
/// `module.Class.name (file.py:12)`.
fn is_name_of_script(function: &str, wanted: &str) -> bool {
    let path = function.split(" (").next().unwrap_or(function);
    let before = path.strip_suffix(wanted);
    before.is_some_and(|before| before.is_empty() || before.ends_with(['.', '#', ':']))
}

/// Parses `START..END` in hexadecimal.
fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (start, end) = text.split_once("..")?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let (start, end) = number(start).zip(number(end))?;
    (start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_a_script_is_named_without_its_module() {
        for (function, wanted, is_name) in [
            ("fib.Tree.walk (fib.py:2)", "walk", true),
            ("fib.Tree.walk (fib.py:2)", "Tree.walk", true),
            ("fib.Tree.walk (fib.py:2)", "fib.Tree.walk", true),
            ("fib.Tree.sidewalk (fib.py:2)", "walk", false),
            ("Tree#walk (fib.rb:2)", "walk", true),
            ("walk (fib.js:2)", "fib", false),
        ] {
            assert_eq!(
                is_name_of_script(function, wanted),
                is_name,
                "{function} {wanted}"
            );
        }
    }
}
