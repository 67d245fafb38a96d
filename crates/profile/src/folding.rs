//! Taking the frames of interpreters out of stacks that have the functions they executed.

use crate::{ImageKind, Recording, StackId, StackTable};
use rustc_hash::FxHashMap;

/// Prefixes of interpreters' file names.
const INTERPRETERS: [&str; 4] = ["python", "libpython", "ruby", "libruby"];

/// Returns whether the last part of a path is one of these names, with a version or a suffix behind it: of `python`,
/// `/usr/bin/python3.12` is one, `pythonista` is not.
pub fn has_program_name(path: &str, names: &[&str]) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    names.iter().any(|name| {
        file.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    })
}

/// Returns whether a path is that of an interpreter whose functions are known as [`ImageKind::Script`].
fn is_interpreter(path: &str) -> bool {
    has_program_name(path, &INTERPRETERS)
}

/// Takes the interpreter's own frames out of all stacks that have functions that it executed: their time is that of
/// these functions. What the interpreter calls, as the kernel and other libraries, stays.
pub fn fold_interpreter_frames(recording: &mut Recording) {
    let is_script = |image: &crate::Image| image.kind == ImageKind::Script;
    if !recording.images.iter().any(is_script) {
        return;
    }
    let folded: Vec<(bool, bool)> = recording
        .images
        .iter()
        .map(|image| {
            (
                is_script(image),
                image.is_file() && is_interpreter(&image.path),
            )
        })
        .collect();
    let old = std::mem::take(&mut recording.stacks);
    let mut new = StackTable::new();
    let mut moved: FxHashMap<StackId, StackId> = FxHashMap::default();
    let mut fold = |id: StackId| {
        *moved.entry(id).or_insert_with(|| {
            let mut frames: Vec<_> = old.locations(id).collect();
            if frames.iter().any(|at| folded[at.image.0 as usize].0) {
                frames.retain(|at| !folded[at.image.0 as usize].1);
            }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallGraph, Collector, EventId, Host, Image, ImageId, ImageOffset, Location, Sample, Target,
    };

    fn at(image: u32) -> Location {
        Location {
            image: ImageId(image),
            offset: ImageOffset(1),
        }
    }

    #[test]
    fn the_interpreter_leaves_stacks_that_have_functions() {
        let (host, target) = (Host::default(), Target::Machine);
        let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::Tables);
        for (kind, path) in [
            (ImageKind::File, "/usr/bin/python3.11"),
            (ImageKind::Script, "/srv/app.py"),
            (ImageKind::File, "/lib/libc.so.6"),
        ] {
            let image = Image {
                kind,
                path: path.to_owned(),
                ..Image::unknown()
            };
            recording.images.push(image);
        }
        let process = recording.names.intern("python3");
        let stacks = [vec![at(2), at(0), at(1), at(0), at(2)], vec![at(0), at(2)]];
        for stack in &stacks {
            let stack = recording.stacks.intern_stack(stack).unwrap();
            recording
                .samples
                .push(Sample::new(EventId(0), process, stack, 1));
        }
        fold_interpreter_frames(&mut recording);
        let frames = |sample: usize| -> Vec<Location> {
            let stack = recording.samples[sample].stack;
            recording.stacks.locations(stack).collect()
        };
        assert_eq!(frames(0), [at(2), at(1), at(2)]);
        assert_eq!(frames(1), stacks[1], "no function of Python is known here");
    }

    #[test]
    fn interpreters_are_known_by_their_names() {
        assert!(is_interpreter("/usr/lib/libpython3.8.so.1.0"));
        assert!(is_interpreter("/usr/bin/python3"));
        assert!(!is_interpreter("/usr/bin/pythonista"));
        assert!(!is_interpreter("/usr/lib/libc.so.6"));
    }
}
