//! Code that language runtimes generate or interpret: which runtime it is, and how to get the names of its
//! functions.

use profile::{
    CallGraph, EventId, Image, ImageId, ImageKind, Location, Recording, SymbolTable,
    has_program_name,
};
use rustc_hash::FxHashSet;

/// A runtime whose functions the kernel and symbol tables do not know.
struct Runtime {
    name: &'static str,
    /// Prefixes of the file names of its images.
    images: &'static [&'static str],
    /// Its interpreter's main functions (`*`: all that begin so), or where these have no names any code of its images; without
    /// one its code is generated.
    interpreter: &'static [&'static str],
    advice: &'static str,
    /// The same for recordings with stacks, where these could have had the names.
    with_stacks: Option<&'static str>,
}

impl Runtime {
    /// Returns whether a procedure of its images is one of its interpreter's main functions.
    fn executes_in(&self, procedure: &str) -> bool {
        self.interpreter
            .iter()
            .any(|function| match function.strip_suffix('*') {
                Some(start) => procedure.starts_with(start),
                None => procedure == *function,
            })
    }

    /// Returns whether it generates code.
    fn has_compiler(&self) -> bool {
        !ONLY_INTERPRETED.contains(&self.name)
    }
}

/// Each was tried with the runtime that Debian 12 has, but those of .NET, Bun and Deno (not in Debian).
const RUNTIMES: [Runtime; 13] = [
    Runtime {
        name: "Java",
        images: &["libjvm.so"],
        interpreter: &[],
        advice: "with stacks record reads them itself, of JDK 11 to 25; without, it asks JDK 17 and later when it has run for a second (not with --no-attach); java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit … writes all at its end",
        with_stacks: None,
    },
    Runtime {
        name: "Node.js",
        images: &["node", "nodejs", "libnode.so"],
        interpreter: &[],
        advice: NODE_ADVICE,
        with_stacks: Some(NODE_AGAIN),
    },
    Runtime {
        name: "Deno",
        images: &["deno"],
        interpreter: &[],
        advice: "run deno with --v8-flags=--perf-basic-prof",
        with_stacks: None,
    },
    Runtime {
        name: "Bun",
        images: &["bun"],
        interpreter: &[],
        advice: "it publishes none; its own profiler (--cpu-prof, where it has that) names them",
        with_stacks: None,
    },
    Runtime {
        name: "PyPy",
        images: &["pypy", "libpypy"],
        interpreter: &[],
        advice: "it publishes none; where the program runs with CPython, record names them",
        with_stacks: None,
    },
    Runtime {
        name: ".NET",
        images: &["libcoreclr.so", "libclrjit.so"],
        interpreter: &[],
        advice: "record -- dotnet … names them itself (not with --no-attach); one that others start: DOTNET_PerfMapEnabled=1 (COMPlus_PerfMapEnabled=1 before .NET 6) in its environment",
        with_stacks: None,
    },
    Runtime {
        name: "Erlang",
        images: &["beam.smp"],
        interpreter: &[],
        advice: "run erl +JPperf true …",
        with_stacks: None,
    },
    Runtime {
        name: "LuaJIT",
        images: &["luajit", "libluajit"],
        interpreter: &["[no symbol]"],
        advice: "run luajit -jp=G,out.folded …; vitalfew bottlenecks out.folded reads that",
        with_stacks: None,
    },
    Runtime {
        name: "Python",
        images: &["python", "libpython"],
        interpreter: &["_PyEval_EvalFrameDefault"],
        advice: PYTHON_ADVICE,
        with_stacks: Some(PYTHON_AGAIN),
    },
    Runtime {
        name: "Ruby",
        images: &["ruby", "libruby"],
        interpreter: &["[no symbol]", "vm_exec_core", "rb_vm_exec"],
        advice: RUBY_ADVICE,
        with_stacks: Some(RUBY_AGAIN),
    },
    Runtime {
        name: "PHP",
        images: &["php", "libphp"],
        interpreter: &["execute_ex"],
        advice: "php -d opcache.jit_debug=16 … names what its JIT compiled, and the extension excimer (formatCollapsed) writes the stacks for vitalfew bottlenecks",
        with_stacks: None,
    },
    Runtime {
        name: "Perl",
        images: &["perl", "libperl"],
        interpreter: &["Perl_*"],
        advice: "run perl -d:NYTProf …, then nytprofcg --out out.callgrind; vitalfew bottlenecks out.callgrind reads that",
        with_stacks: None,
    },
    Runtime {
        name: "Lua",
        images: &["lua", "liblua"],
        interpreter: &["[no symbol]", "luaV_execute"],
        advice: "it publishes nothing; where the program runs with LuaJIT, luajit -jp=G,out.folded …, and vitalfew bottlenecks out.folded reads that",
        with_stacks: None,
    },
];

/// Advice for recordings without stacks.
const PYTHON_ADVICE: &str =
    "record it with stacks (without --no-stacks), which name them (CPython 3.8 to 3.14)";

/// Advice for recordings with stacks: the first one of an interpreter may end before its unwind tables are made.
const PYTHON_AGAIN: &str = "record it again, as the unwind tables of its interpreter may be ready only now (CPython 3.8 to 3.14)";

const NODE_ADVICE: &str = "record it with stacks (without --no-stacks), which name them (Node.js 18, 20, 22 and 24); of other versions, run it with NODE_OPTIONS=--perf-basic-prof";
const NODE_AGAIN: &str = "where record gave no reason, record it again, as the unwind table of node may be ready only now (Node.js 18, 20, 22 and 24); of other versions, run it with NODE_OPTIONS=--perf-basic-prof";

const RUBY_ADVICE: &str =
    "record it with stacks (without --no-stacks), which name them (Ruby 3.1 and 3.3)";
const RUBY_AGAIN: &str = "where record gave no reason, record it again, as the unwind tables of its interpreter may be ready only now (Ruby 3.1 and 3.3); of others, stackprof --stackcollapse writes the stacks for vitalfew bottlenecks";

/// Advice for code that no known runtime generated, as that of WebAssembly.
const GENERATED_CODE: &str = "code that was generated while the program ran, and has no names here: have what generates it write /tmp/perf-PID.map or a jitdump (wasmtime: --profile=perfmap)";

/// Interpreted languages whose usual runtime compiles nothing.
const ONLY_INTERPRETED: [&str; 3] = ["Python", "Perl", "Lua"];

/// Less than this share of the samples without the names of a runtime's functions is not worth a
/// line.
const WORTH_A_LINE: f64 = 0.2;

/// Says how to get names for code of language runtimes, where that took much of the event: a
/// line for each runtime.
pub fn runtime_advice(recording: &Recording, table: &SymbolTable, event: EventId) -> Vec<String> {
    let amounts = Amounts::of(recording, table, event);
    let present = |(runtime, _): &(&Runtime, &u64)| amounts.has_image(recording, runtime);
    let found = RUNTIMES.iter().zip(&amounts.interpreted);
    let found: Vec<(&Runtime, &u64)> = found.filter(present).collect();
    // Generated code belongs to whichever runtime generates code, where there is one of them.
    let generators = found
        .iter()
        .any(|(runtime, _)| runtime.interpreter.is_empty());
    let mut lines = Vec::new();
    let mut is_explained = false;
    for (runtime, interpreted) in found {
        let mut amount = *interpreted;
        if runtime.interpreter.is_empty() || !generators && runtime.has_compiler() {
            amount += amounts.generated;
            is_explained = true;
        }
        if amount > 0 && amount as f64 >= WORTH_A_LINE * amounts.total as f64 {
            let with_stacks = runtime.with_stacks;
            let with_stacks = with_stacks.filter(|_| recording.call_graph == CallGraph::Tables);
            let advice = with_stacks.unwrap_or(runtime.advice);
            lines.push(format!(
                "{:.0}% is code of {} whose functions have no names here: {}",
                100.0 * amount as f64 / amounts.total as f64,
                runtime.name,
                advice
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
    /// In or below the interpreter of each of [`RUNTIMES`], without functions of its language.
    interpreted: [u64; RUNTIMES.len()],
    /// The images that have samples.
    images: FxHashSet<ImageId>,
}

impl Amounts {
    fn of(recording: &Recording, table: &SymbolTable, event: EventId) -> Self {
        let mut amounts = Self {
            total: 0,
            generated: 0,
            interpreted: [0; RUNTIMES.len()],
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

    fn has_image(&self, recording: &Recording, runtime: &Runtime) -> bool {
        self.images.iter().any(|image| {
            let image = recording.image(*image);
            image.kind == ImageKind::File && has_program_name(file_name(image), runtime.images)
        })
    }
}

/// A bit of [`languages_on_stacks`].
const HAS_FUNCTION: u32 = 1 << 31;

/// For each stack, by its innermost frame: a bit for each of [`RUNTIMES`] whose interpreter is on it, and one if a function of an interpreted language is.
fn languages_on_stacks(recording: &Recording, table: &SymbolTable) -> Vec<u32> {
    let frames = recording.stacks.frames();
    let names_callers = frames
        .iter()
        .any(|frame| is_python_function(table, frame.location));
    let mut on_stacks: Vec<u32> = Vec::with_capacity(frames.len());
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

fn interpreters_at(image: &Image, table: &SymbolTable, location: Location) -> u32 {
    let file = file_name(image);
    let name = table
        .procedure(location)
        .map_or("[no symbol]", |p| &*p.name);
    let is_unnamed = name.starts_with(profile::UNNAMED_PROCEDURE);
    let name = if is_unnamed { "[no symbol]" } else { name };
    let runtimes = RUNTIMES.iter().enumerate();
    let here = runtimes
        .filter(|(_, runtime)| has_program_name(file, runtime.images) && runtime.executes_in(name));
    here.fold(0, |bits, (number, _)| bits | 1 << number)
}

fn is_generated(image: &Image) -> bool {
    image.kind == ImageKind::Anonymous
        || image.path.starts_with("/memfd:")
        || image.path.starts_with("/dev/zero")
}

fn file_name(image: &Image) -> &str {
    image.path.rsplit('/').next().unwrap_or_default()
}

/// Returns whether a frame is one of `python3 -X perf`: then the interpreter's callers have names.
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

    /// Samples in these images, of these procedures where they have a name.
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
        for runtime in &RUNTIMES {
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

    /// Code that an interpreter calls counts as the interpreter's, where no function of its language is on the stack.
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
