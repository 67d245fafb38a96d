//! Removal of interpreters' frames from stacks that have the functions they executed.

use crate::known_code::{CodeKind, FunctionRole, KnownCode, KnownOperation, PYTHON, has_role};
use crate::{
    EmbeddedSymbol, Image, ImageId, ImageKind, ImageOffset, Location, Recording, StackId,
    StackTable, plain_name,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The frame for a wait of a Python thread for the interpreter's lock.
pub const GIL_WAIT: &str = "[waits for the GIL]";
/// The file of HotSpot's own code.
const JVM_CODE: &str = "[jvm]";
/// The file of an interpreter's functions, and the offset of [`GIL_WAIT`] in it, which no script's
/// function has.
const INTERPRETER_FILE: &str = "[interpreter]";
const GIL_WAIT_PLACE: u64 = 1 << 61;

/// Removes the interpreter's own frames from all stacks that have functions that it executed: their
/// time belongs to these functions. Callees of the interpreter, such as the kernel and other
/// libraries, stay. A wait for the interpreter's lock becomes one frame, [`GIL_WAIT`], with its
/// callees. For V8 and HotSpot, callees of scripts' functions stay, except V8's own code. Returns
/// whether a place has a new name.
pub fn fold_interpreter_frames(recording: &mut Recording) -> bool {
    let is_script = |image: &Image| image.kind == ImageKind::Script;
    if !recording.images.iter().any(is_script) {
        return false;
    }
    let mut folder = FrameFolder::new(recording);
    let old = std::mem::take(&mut recording.stacks);
    let mut new = StackTable::new();
    let mut moved: FxHashMap<StackId, StackId> = FxHashMap::default();
    let mut fold = |id: StackId| {
        *moved.entry(id).or_insert_with(|| {
            let mut frames: Vec<_> = old.locations(id).collect();
            folder.fold_stack(&mut frames);
            // A stack has a frame, and a script's frame stays.
            new.intern_stack(&frames).unwrap_or(StackId(0))
        })
    };
    for sample in &mut recording.samples {
        sample.stack = fold(sample.stack);
        if let Some(waker) = &mut sample.waker {
            waker.stack = waker.stack.map(&mut fold);
        }
    }
    recording.stacks = new;
    folder.name_waits(recording);
    folder.has_waits
}

/// Returns the name that a recording carries for a place. Its symbols are sorted by image and
/// start.
fn embedded_name(recording: &Recording, at: Location) -> Option<&str> {
    let symbols = &recording.symbols;
    let behind = symbols.partition_point(|one| (one.image, one.start) <= (at.image, at.offset));
    let symbol = symbols.get(behind.checked_sub(1)?)?;
    let holds = symbol.image == at.image && (symbol.end <= symbol.start || at.offset < symbol.end);
    holds.then_some(&*symbol.name)
}

/// Decides which frames stay, by image and by name.
struct FrameFolder {
    scripts: Vec<bool>,
    interpreters: Vec<bool>,
    pythons: Vec<bool>,
    engines: Vec<bool>,
    jvm_code: Vec<bool>,
    /// Places in V8's own code.
    v8_code: FxHashSet<Location>,
    /// Places in functions that wait for a condition.
    conditions: FxHashSet<Location>,
    /// Places in the interpreter's function that waits for its lock, if names are known.
    takers: FxHashSet<Location>,
    wait: Location,
    has_waits: bool,
}

impl FrameFolder {
    fn new(recording: &Recording) -> Self {
        let images = &recording.images;
        let known = |image: &Image| KnownCode::of_file(&image.path).filter(|_| image.is_file());
        let known: Vec<_> = images.iter().map(known).collect();
        let marks = |is: &dyn Fn(&KnownCode) -> bool| -> Vec<bool> {
            known.iter().map(|code| code.is_some_and(is)).collect()
        };
        let scripts: Vec<bool> = images
            .iter()
            .map(|image| image.kind == ImageKind::Script)
            .collect();
        let of_jvm = |(image, is_script): (&Image, &bool)| *is_script && image.path == JVM_CODE;
        let jvm_code: Vec<bool> = images.iter().zip(&scripts).map(of_jvm).collect();
        let place = images
            .iter()
            .zip(&scripts)
            .position(|(image, script)| *script && image.path == INTERPRETER_FILE);
        let mut folder = Self {
            scripts,
            interpreters: marks(&|code| code.kind == CodeKind::Interpreter),
            pythons: marks(&|code| code.name == PYTHON),
            engines: marks(&|code| code.kind == CodeKind::Engine),
            jvm_code,
            v8_code: FxHashSet::default(),
            conditions: FxHashSet::default(),
            takers: FxHashSet::default(),
            wait: Location {
                image: ImageId(place.unwrap_or(images.len()) as u32),
                offset: ImageOffset(GIL_WAIT_PLACE),
            },
            has_waits: false,
        };
        if folder.pythons.contains(&true) || folder.engines.contains(&true) {
            folder.find_named(recording);
        }
        folder
    }

    /// Finds the places of waits and of V8's code by the names in the recording.
    fn find_named(&mut self, recording: &Recording) {
        for frame in recording.stacks.frames() {
            let at = frame.location;
            let Some(name) = embedded_name(recording, at) else {
                continue;
            };
            let plain = plain_name(name).trim_end_matches("64");
            // A Python thread waits for a condition only to get the interpreter's lock: its other
            // waits are semaphores.
            if KnownOperation::Condition.has_function(plain) {
                self.conditions.insert(at);
            } else if plain == "take_gil" && self.pythons[at.image.0 as usize] {
                self.takers.insert(at);
            } else if self.engines[at.image.0 as usize] && has_role(name, FunctionRole::Generated) {
                self.v8_code.insert(at);
            }
        }
    }

    fn fold_stack(&mut self, frames: &mut Vec<Location>) {
        let is = |marks: &[bool], at: &Location| marks[at.image.0 as usize];
        let is_python = |at: &Location| is(&self.pythons, at);
        let takes = frames.iter().rposition(|at| self.takers.contains(at));
        let waits = frames
            .windows(2)
            .rposition(|pair| self.conditions.contains(&pair[0]) && is_python(&pair[1]));
        if let Some(index) = takes.or(waits.map(|index| index + 1)) {
            frames.drain(..index);
            frames[0] = self.wait;
            self.has_waits = true;
        }
        let is_function =
            |at: &Location| *at != self.wait && is(&self.scripts, at) && !is(&self.jvm_code, at);
        if let Some(innermost) = frames.iter().position(is_function) {
            let mut index = 0;
            frames.retain(|at| {
                let calls_function = index > innermost;
                index += 1;
                // The wait is in no image that existed before.
                *at == self.wait
                    || !is(&self.interpreters, at)
                        && !(calls_function && (is(&self.engines, at) || is(&self.jvm_code, at)))
                        && !self.v8_code.contains(at)
            });
        }
    }

    /// Adds the name of the frame for waits, if there are any.
    fn name_waits(&self, recording: &mut Recording) {
        if !self.has_waits {
            return;
        }
        let image = self.wait.image;
        if image.0 as usize == recording.images.len() {
            recording.images.push(Image {
                kind: ImageKind::Script,
                path: INTERPRETER_FILE.to_owned(),
                ..Image::unknown()
            });
        }
        recording.symbols.push(EmbeddedSymbol {
            image,
            start: self.wait.offset,
            end: ImageOffset(self.wait.offset.0 + 1),
            name: GIL_WAIT.to_owned(),
        });
        recording.symbols.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallGraph, Collector, EventId, Host, Sample, Target};

    const WAIT: Location = Location {
        image: ImageId(2),
        offset: ImageOffset(64),
    };

    fn at(image: u32) -> Location {
        Location {
            image: ImageId(image),
            offset: ImageOffset(1),
        }
    }

    /// Makes a recording of the machine with only these images.
    fn recording_with(images: &[(ImageKind, &str)]) -> Recording {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        let images = images.iter().map(|(kind, path)| Image {
            kind: *kind,
            path: (*path).to_owned(),
            ..Image::unknown()
        });
        recording.images.extend(images);
        recording
    }

    /// Adds a sample of each stack, innermost frame first.
    fn add_samples(recording: &mut Recording, process: &str, stacks: &[&[Location]]) {
        let process = recording.names.intern(process);
        for stack in stacks {
            let stack = recording.stacks.intern_stack(stack).unwrap();
            let sample = Sample::new(EventId(0), process, stack, 1);
            recording.samples.push(sample);
        }
    }

    /// Returns the stack of a sample.
    fn frames_of(recording: &Recording, sample: usize) -> Vec<Location> {
        let stack = recording.samples[sample].stack;
        recording.stacks.locations(stack).collect()
    }

    #[test]
    fn the_interpreter_leaves_stacks_that_have_functions() {
        let mut recording = recording_with(&[
            (ImageKind::File, "/usr/bin/python3.11"),
            (ImageKind::Script, "/srv/app.py"),
            (ImageKind::File, "/lib/libc.so.6"),
            (ImageKind::Kernel, "[kernel]"),
        ]);
        let stacks = [
            vec![at(2), at(0), at(1), at(0), at(2)],
            vec![at(0), at(2)],
            // A wait for a condition: by the interpreter itself, and by a library.
            vec![at(3), at(2), WAIT, at(0), at(1)],
            vec![at(2), WAIT, at(2), at(0), at(1)],
        ];
        recording.symbols.push(EmbeddedSymbol {
            image: WAIT.image,
            start: WAIT.offset,
            end: ImageOffset(WAIT.offset.0 + 8),
            name: "___pthread_cond_timedwait64".to_owned(),
        });
        let each: Vec<&[Location]> = stacks.iter().map(Vec::as_slice).collect();
        add_samples(&mut recording, "python3", &each);
        fold_interpreter_frames(&mut recording);
        let frames = |sample| frames_of(&recording, sample);
        assert_eq!(frames(0), [at(2), at(1), at(2)]);
        assert_eq!(frames(1), stacks[1], "no function of Python is known here");
        let waits = frames(2);
        assert_eq!(waits[1..], [at(1)]);
        assert_eq!(embedded_name(&recording, waits[0]), Some(GIL_WAIT));
        assert_eq!(frames(3), [at(2), WAIT, at(2), at(1)]);
    }

    #[test]
    fn what_functions_of_v8_call_stays() {
        let mut recording = recording_with(&[
            (ImageKind::File, "/usr/bin/node"),
            (ImageKind::Script, "/srv/app.js"),
            (ImageKind::File, "/lib/libc.so.6"),
        ]);
        let entry = Location {
            image: ImageId(0),
            offset: ImageOffset(64),
        };
        recording.symbols.push(EmbeddedSymbol {
            image: entry.image,
            start: entry.offset,
            end: ImageOffset(entry.offset.0 + 8),
            name: "Builtins_JSEntry".to_owned(),
        });
        let called = [
            at(2),
            at(0),
            entry,
            at(1),
            entry,
            at(0),
            at(1),
            at(0),
            at(2),
        ];
        let alone = [entry, at(0), at(2)];
        add_samples(&mut recording, "node", &[&called, &alone]);
        fold_interpreter_frames(&mut recording);
        let frames = |sample| frames_of(&recording, sample);
        assert_eq!(frames(0), [at(2), at(0), at(1), at(1), at(2)]);
        assert_eq!(frames(1), alone, "no function of JavaScript is there");
    }

    #[test]
    fn what_methods_of_java_call_stays() {
        let mut recording = recording_with(&[
            (ImageKind::File, "/usr/lib/jvm/java-17/lib/server/libjvm.so"),
            (ImageKind::Script, "app/Main.java"),
            (ImageKind::Script, "[jvm]"),
            (ImageKind::File, "/lib/libc.so.6"),
        ]);
        // A method that a stub calls for the library, which allocates through both; and a thread
        // that compiles.
        let called = [
            at(3),
            at(0),
            at(2),
            at(1),
            at(2),
            at(0),
            at(1),
            at(0),
            at(3),
        ];
        let alone = [at(2), at(0), at(3)];
        add_samples(&mut recording, "java", &[&called, &alone]);
        fold_interpreter_frames(&mut recording);
        let frames = |sample| frames_of(&recording, sample);
        assert_eq!(frames(0), [at(3), at(0), at(2), at(1), at(1), at(3)]);
        assert_eq!(frames(1), alone, "no method is there");
    }
}
