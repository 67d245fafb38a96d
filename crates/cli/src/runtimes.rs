//! Code that language runtimes generate or interpret: the runtime, and the way to get the names of
//! its functions.

use profile::known_code::{KNOWN_CODE, KnownCode};
use profile::{CallGraph, EventId, Image, ImageId, ImageKind, Location, Recording, SymbolTable};
use rustc_hash::FxHashSet;

/// Advice for code of no known runtime, such as WebAssembly's.
const GENERATED_CODE: &str = "code that was generated while the program ran, and has no names here: have what generates it write /tmp/perf-PID.map or a jitdump (wasmtime: --profile=perfmap)";

/// Least share of samples without names of a runtime's functions that earns a line.
const WORTH_A_LINE: f64 = 0.2;

/// Returns advice on names for code of language runtimes, if that took much of the event: one line
/// for each runtime.
pub fn runtime_advice(recording: &Recording, table: &SymbolTable, event: EventId) -> Vec<String> {
    let amounts = Amounts::of(recording, table, event);
    let found = KNOWN_CODE.iter().zip(&amounts.interpreted);
    let found = found.filter_map(|(runtime, amount)| {
        let advice = runtime.naming.as_ref()?;
        (amounts.has_image(recording, runtime)).then_some((runtime, advice, *amount))
    });
    let found: Vec<_> = found.collect();
    // Generated code is attributed to the runtime that generates code, if there is exactly one.
    let generators = found.iter().any(|(runtime, ..)| !runtime.is_interpreted());
    let mut lines = Vec::new();
    let mut is_explained = false;
    for (runtime, naming, mut amount) in found {
        if !runtime.is_interpreted() || !generators && naming.compiles {
            amount += amounts.generated;
            is_explained = true;
        }
        if amount > 0 && amount as f64 >= WORTH_A_LINE * amounts.total as f64 {
            let with_stacks = naming.with_stacks;
            let with_stacks = with_stacks.filter(|_| recording.call_graph == CallGraph::Tables);
            lines.push(format!(
                "{:.0}% is code of {} whose functions have no names here: {}",
                100.0 * amount as f64 / amounts.total as f64,
                runtime.name,
                with_stacks.unwrap_or(naming.advice)
            ));
        }
    }
    let generated = amounts.generated as f64 / amounts.total.max(1) as f64;
    if !is_explained && generated >= WORTH_A_LINE {
        lines.push(format!("{:.0}% is {GENERATED_CODE}", 100.0 * generated));
    }
    lines
}

/// Amounts of an event.
struct Amounts {
    total: u64,
    /// In generated code without names.
    generated: u64,
    /// In or below the interpreter of each row of the catalogue, without functions of its language.
    interpreted: Vec<u64>,
    /// The images that have samples.
    images: FxHashSet<ImageId>,
}

impl Amounts {
    fn of(recording: &Recording, table: &SymbolTable, event: EventId) -> Self {
        let mut amounts = Self {
            total: 0,
            generated: 0,
            interpreted: vec![0; KNOWN_CODE.len()],
            images: FxHashSet::default(),
        };
        let on_stacks = languages_on_stacks(recording, table);
        for sample in recording.samples.iter().filter(|s| s.event == event) {
            amounts.total += sample.weight;
            let location = recording.stacks.frame(sample.stack).location;
            amounts.images.insert(location.image);
            if is_generated(recording.image(location.image)) && table.procedure(location).is_none()
            {
                amounts.generated += sample.weight;
                continue;
            }
            let on_stack = on_stacks[sample.stack.0 as usize];
            for (number, amount) in amounts.interpreted.iter_mut().enumerate() {
                if on_stack & (HAS_FUNCTION | 1 << number) == 1 << number {
                    *amount += sample.weight;
                }
            }
        }
        amounts
    }

    fn has_image(&self, recording: &Recording, runtime: &KnownCode) -> bool {
        self.images.iter().any(|image| {
            let image = recording.image(*image);
            image.kind == ImageKind::File && runtime.has_file(&image.path)
        })
    }
}

/// A bit of [`languages_on_stacks`].
const HAS_FUNCTION: u64 = 1 << 63;

/// Returns for each stack, by its innermost frame: a bit for each row of the catalogue whose
/// interpreter is on it, and one if a function of an interpreted language is.
fn languages_on_stacks(recording: &Recording, table: &SymbolTable) -> Vec<u64> {
    let frames = recording.stacks.frames();
    let names_callers = frames
        .iter()
        .any(|frame| is_python_function(table, frame.location));
    let mut on_stacks: Vec<u64> = Vec::with_capacity(frames.len());
    for frame in frames {
        let caller = frame
            .caller
            .map_or(0, |caller| on_stacks[caller.0 as usize]);
        let image = recording.image(frame.location.image);
        let own = match image.kind {
            ImageKind::Script | ImageKind::Jit => HAS_FUNCTION,
            ImageKind::File if !names_callers => interpreters_at(image, table, frame.location),
            _ => 0,
        };
        on_stacks.push(caller | own);
    }
    on_stacks
}

fn interpreters_at(image: &Image, table: &SymbolTable, location: Location) -> u64 {
    let name = table
        .procedure(location)
        .map_or("[no symbol]", |p| &*p.name);
    let is_unnamed = name.starts_with(profile::UNNAMED_PROCEDURE);
    let name = if is_unnamed { "[no symbol]" } else { name };
    let here = KNOWN_CODE
        .iter()
        .enumerate()
        .filter(|(_, runtime)| runtime.has_file(&image.path) && runtime.executes_in(name));
    here.fold(0, |bits, (number, _)| bits | 1 << number)
}

fn is_generated(image: &Image) -> bool {
    image.kind == ImageKind::Anonymous
        || image.path.starts_with("/memfd:")
        || image.path.starts_with("/dev/zero")
}

/// Returns whether a frame is from `python3 -X perf`: then the interpreter's callers have names.
fn is_python_function(table: &SymbolTable, location: Location) -> bool {
    let procedure = table.procedure(location);
    procedure.is_some_and(|procedure| procedure.name.starts_with("py::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_belongs_to_runtimes_that_generate_code() {
        let advice = |program: &str| {
            let (recording, table) = recording(&[
                (program, ImageKind::File, Some("main"), 10),
                ("[anon 7]", ImageKind::Anonymous, None, 90),
            ]);
            runtime_advice(&recording, &table, EventId(0)).join("; ")
        };
        for (program, wanted) in [
            ("/usr/bin/python3.11", "90% is code that was generated"),
            ("/usr/bin/wasmtime", "90% is code that was generated"),
            ("/usr/bin/ruby3.1", "90% is code of Ruby "),
            ("/opt/bun", "90% is code of Bun "),
            ("/opt/deno", "90% is code of Deno "),
            ("/usr/lib/libpypy3.9-c.so", "90% is code of PyPy "),
        ] {
            let said = advice(program);
            assert!(said.starts_with(wanted), "{program}: {said}");
            assert!(
                !said.contains(';') || !said.contains("; 9"),
                "{program}: {said}"
            );
        }
    }

    use profile::{
        Collector, Event, Host, ImageOffset, Procedure, Resolution, Sample, StackId, Target, Unit,
    };

    /// Makes samples in these images, with these procedures if they have a name.
    fn recording(places: &[(&str, ImageKind, Option<&str>, u64)]) -> (Recording, SymbolTable) {
        let target = Target::Machine;
        let mut recording =
            Recording::new(Host::default(), target, Collector::Bpf, CallGraph::None);
        recording.events = vec![Event::new("cpu-clock", Unit::Samples, 1)];
        let process = recording.names.intern("x");
        let mut table = SymbolTable::default();
        for (number, (path, kind, name, count)) in places.iter().enumerate() {
            let image = ImageId(number as u32);
            recording.images.push(Image {
                kind: *kind,
                path: (*path).to_owned(),
                build_id: None,
                file: None,
                gone: false,
            });
            let location = Location {
                image,
                offset: ImageOffset(0),
            };
            if let Some(name) = name {
                let procedure = Procedure {
                    name: (*name).into(),
                    start: ImageOffset(0),
                    size: 1,
                };
                let resolution = Resolution {
                    procedure: Some(procedure),
                    inlined: Vec::new(),
                };
                table.extend([(location, resolution)]);
            }
            let stack = recording.stacks.intern(location, None);
            recording
                .samples
                .push(Sample::new(EventId(0), process, stack, *count));
        }
        (recording, table)
    }

    #[test]
    fn every_runtime_is_in_the_docs() {
        let docs = include_str!("../../../docs/languages.md");
        for runtime in KNOWN_CODE.iter().filter(|code| code.naming.is_some()) {
            assert!(docs.contains(runtime.name), "{}", runtime.name);
        }
    }

    fn advice(places: &[(&str, ImageKind, Option<&str>, u64)]) -> Vec<String> {
        let (recording, table) = recording(places);
        runtime_advice(&recording, &table, EventId(0))
    }

    #[test]
    fn each_runtime_has_its_line() {
        use ImageKind::{Anonymous, File};
        let java = advice(&[
            ("[anon 1]", Anonymous, None, 69),
            ("/usr/lib/jvm/lib/server/libjvm.so", File, Some("f"), 31),
        ]);
        assert_eq!(java.len(), 1);
        assert!(java[0].starts_with("69% is code of Java"), "{java:?}");
        let lua = advice(&[
            ("[anon 1]", Anonymous, None, 50),
            ("/usr/bin/luajit", File, None, 40),
        ]);
        assert!(lua[0].starts_with("100% is code of LuaJIT"), "{lua:?}");
        let perl = advice(&[("/usr/bin/perl", File, Some("Perl_pp_add"), 50)]);
        assert!(perl[0].contains("NYTProf"), "{perl:?}");
        let lua = advice(&[("/usr/bin/lua5.4", File, None, 50)]);
        assert!(lua[0].starts_with("100% is code of Lua "), "{lua:?}");
        let ruby = advice(&[("/lib/libruby-3.1.so.3.1.7", File, None, 50)]);
        assert!(ruby[0].contains("with stacks"), "{ruby:?}");
        let erlang = advice(&[
            ("/memfd:vmem (deleted)", File, None, 50),
            ("/usr/lib/erlang/erts-13/bin/beam.smp", File, Some("f"), 50),
        ]);
        assert!(erlang[0].contains("+JPperf true"), "{erlang:?}");
        let eval = Some("_PyEval_EvalFrameDefault");
        let python = advice(&[("/usr/bin/python3.12", File, eval, 60)]);
        assert!(python[0].contains("with stacks"), "{python:?}");
        let (mut stacks, table) = recording(&[("/usr/bin/python3.12", File, eval, 60)]);
        stacks.call_graph = CallGraph::Tables;
        let python = runtime_advice(&stacks, &table, EventId(0));
        assert!(python[0].contains("record it again"), "{python:?}");
    }

    /// Code that an interpreter calls counts as the interpreter's, if no function of its language
    /// is on the stack.
    #[test]
    fn time_below_an_interpreter_is_code_without_names() {
        use ImageKind::{File, Script};
        let (mut recording, table) = recording(&[
            ("/usr/bin/php8.2", File, Some("execute_ex"), 1),
            ("/usr/bin/php8.2", File, Some("zend_dtoa"), 1),
            ("/srv/app.rb", Script, Some("f"), 1),
        ]);
        let at = |recording: &Recording, sample: usize| {
            let stack = recording.samples[sample].stack;
            recording.stacks.frame(stack).location
        };
        let [execute, dtoa, script] = [0, 1, 2].map(|sample| at(&recording, sample));
        let below = recording.stacks.intern_stack(&[dtoa, execute]);
        let named = recording.stacks.intern_stack(&[dtoa, script, execute]);
        let mut advice_of = |stacks: [Option<StackId>; 2]| {
            for (sample, stack) in recording.samples.iter_mut().zip(stacks) {
                sample.stack = stack.expect("a stack");
            }
            recording.samples.truncate(2);
            runtime_advice(&recording, &table, EventId(0))
        };
        let lines = advice_of([below, named]);
        assert!(lines[0].starts_with("50% is code of PHP"), "{lines:?}");
        assert!(advice_of([named, named]).is_empty());
    }

    #[test]
    fn programs_without_a_runtime_and_named_code_need_no_advice() {
        use ImageKind::{Anonymous, File, Jit};
        assert!(advice(&[("/usr/bin/app", File, None, 100)]).is_empty());
        let generated = advice(&[("[anon 1]", Anonymous, None, 100)]);
        assert_eq!(generated.len(), 1, "{generated:?}");
        assert!(generated[0].starts_with("100% is code that was generated"));
        let named = advice(&[
            ("[jit 1]", Jit, Some("int W.fib(int)"), 90),
            ("/lib/libjvm.so", File, Some("f"), 10),
        ]);
        assert!(named.is_empty());
        let eval = Some("_PyEval_EvalFrameDefault");
        let traced = advice(&[
            ("/usr/bin/python3.12", File, eval, 60),
            ("[jit 1]", Jit, Some("py::f:/a.py"), 1),
        ]);
        assert!(traced.is_empty(), "{traced:?}");
        assert!(advice(&[("/usr/bin/nodemon", File, None, 9)]).is_empty());
    }
}
