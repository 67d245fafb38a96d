//! `tables x86_64|aarch64 > crates/machine/tables/….txt`: makes the tables of the pipeline models
//! offline, with LLVM's machine code analyser (`llvm-mc-22` and `llvm-mca-22` of Debian's
//! `llvm-22`).
//!
//! Every instruction form that our decoder distinguishes is encoded once, disassembled by LLVM, and
//! looked up in the scheduling model of each processor. The output are numbers from LLVM's models,
//! which are under Apache-2.0 WITH LLVM-exception.

use machine::{Architecture, Instruction, InstructionDecoder, InstructionForm, PROCESSORS};
use profile::ImageAddress;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// A marker instruction between the others, to show where each begins: its bytes, and LLVM's text
/// for it.
const X86_MARK: (&[u8], &str) = (
    &[0x0f, 0x1f, 0x80, 0x44, 0x33, 0x22, 0x11],
    "nopl\t287454020(%rax)",
);
const A64_MARK: (&[u8], &str) = (&[0xe0, 0xff, 0x3f, 0xd4], "brk\t#0xffff");

/// Maximum number of encodings of a form that are tried.
const TRIES: usize = 4;

struct Sample {
    name: String,
    instruction: Instruction,
    bytes: Vec<u8>,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let architecture = std::env::args().nth(1).unwrap_or_default();
    let (samples, executed, mark, triple) = match architecture.as_str() {
        "x86_64" => (x86_forms(), Architecture::X86_64, X86_MARK, "x86_64"),
        "aarch64" => (aarch64_forms(), Architecture::Aarch64, A64_MARK, "aarch64"),
        _ => return Err("tables x86_64|aarch64".into()),
    };
    let samples = disassemble(samples, triple, mark)?;
    let mut out = String::from(
        "# Made by crates/machine/examples/tables.rs out of the scheduling models of LLVM 22.1.8,\n\
         # which are under Apache-2.0 WITH LLVM-exception. See there.\n",
    );
    let mut classes_of: Vec<Vec<Option<usize>>> = vec![Vec::new(); samples.len()];
    for processor in PROCESSORS.iter().filter(|one| one.architecture == executed) {
        let table = Table::of(&samples, triple, processor.llvm, mark.1)?;
        let mut classes: Vec<String> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for (sample, (row, classes_of)) in
            samples.iter().zip(table.rows.iter().zip(&mut classes_of))
        {
            classes_of.push(row.as_ref().map(|row| {
                let class = row.class(sample, processor.llvm_splits_fused);
                *numbers.entry(class.clone()).or_insert_with(|| {
                    classes.push(class);
                    classes.len() - 1
                })
            }));
        }
        writeln!(out, "m {}", processor.name)?;
        for (resource, units) in &table.resources {
            writeln!(out, "r {resource} {units}")?;
        }
        for class in classes {
            writeln!(out, "c {class}")?;
        }
    }
    // Forms with the same costs on all processors share a line.
    let mut alike: BTreeMap<Vec<Option<usize>>, Vec<&str>> = BTreeMap::new();
    for (sample, classes) in samples.iter().zip(classes_of) {
        if classes.iter().any(Option::is_some) {
            alike.entry(classes).or_default().push(&sample.name);
        }
    }
    for (classes, names) in alike {
        let classes: Vec<String> = classes
            .iter()
            .map(|class| class.map_or("-".to_owned(), |class| class.to_string()))
            .collect();
        writeln!(out, "f {} {}", classes.join(","), names.join(" "))?;
    }
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

/// Returns one encoding of each form of x86-64, found by trying prefixes, opcodes and operands.
fn x86_forms() -> Vec<Sample> {
    let legacy: &[&[u8]] = &[
        &[],
        &[0x66],
        &[0xf2],
        &[0xf3],
        &[0x48],
        &[0x66, 0x48],
        &[0xf2, 0x48],
        &[0xf3, 0x48],
    ];
    let maps: &[&[u8]] = &[&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let mut heads: Vec<Vec<u8>> = Vec::new();
    for prefix in legacy {
        heads.extend(maps.iter().map(|map| [*prefix, *map].concat()));
    }
    for map in 1..4_u8 {
        for last in 0..16_u8 {
            // W, L and pp, with the second source in register 5 or none.
            let last = (last & 8) << 4 | last & 7;
            heads.extend([0x50, 0x78].map(|vvvv| vec![0xc4, 0xe0 | map, last | vvvv]));
        }
    }
    for map in [1, 2, 3, 5, 6_u8] {
        for pp_w in 0..8_u8 {
            let second = 4 | pp_w & 3 | (pp_w & 4) << 5;
            for length in 0..3_u8 {
                for (vvvv, third) in [(0x50, 8), (0x78, 8), (0x50, 9), (0x78, 9)] {
                    heads.push(vec![0x62, 0xf0 | map, second | vvvv, third | length << 5]);
                }
            }
        }
    }
    let mut decoder = InstructionDecoder::new(Architecture::X86_64);
    let mut found: HashMap<InstructionForm, usize> = HashMap::new();
    let mut samples = Vec::new();
    for head in heads {
        for opcode in 0..=255_u8 {
            for field in 0..8_u8 {
                let register = 0xc0 | field << 3 | if field == 3 { 2 } else { 3 };
                let memory = [
                    vec![field << 3 | 3],
                    vec![field << 3 | 4, 0x0b],
                    vec![0x40 | field << 3 | 4, 0x0b, 0x10],
                ];
                for operands in memory.into_iter().chain([vec![register]]) {
                    let tail = [1_u8, 0, 0, 0, 0, 0, 0, 0];
                    let bytes = [&head[..], &[opcode], &operands, &tail].concat();
                    let Ok(one) = decoder.decode(ImageAddress(0), &bytes) else {
                        continue;
                    };
                    let tries = found.entry(one.form).or_default();
                    if *tries < TRIES {
                        *tries += 1;
                        samples.push(Sample {
                            name: one.form.name(Architecture::X86_64),
                            instruction: one,
                            bytes: bytes[..one.length.into()].to_vec(),
                            text: String::new(),
                        });
                    }
                }
            }
        }
    }
    samples
}

/// Returns some encodings of each form of AArch64, from random words.
fn aarch64_forms() -> Vec<Sample> {
    const WORDS: u64 = 20_000_000;
    // Words that random search does not find: `nop`, `ret`, `isb`, `dmb ish`, `dsb ish`, `svc`,
    // `yield`.
    let known = [
        0xd503_201f,
        0xd65f_03c0,
        0xd503_3fdf,
        0xd503_3bbf,
        0xd503_3b9f,
        0xd400_0001,
        0xd503_203f,
        0xd503_233f,
        0xd503_23bf,
        0xd503_245f,
        0xd65f_0bff,
        0xd53b_d040,
        0xd53b_e040,
    ];
    let mut state = 1_u64;
    let random = (0..WORDS).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    });
    let mut decoder = InstructionDecoder::new(Architecture::Aarch64);
    let mut found: HashMap<InstructionForm, usize> = HashMap::new();
    let mut samples = Vec::new();
    for word in known.into_iter().chain(random) {
        let bytes = word.to_le_bytes();
        let Ok(one) = decoder.decode(ImageAddress(0), &bytes) else {
            continue;
        };
        let tries = found.entry(one.form).or_default();
        if *tries < TRIES {
            *tries += 1;
            samples.push(Sample {
                name: one.form.name(Architecture::Aarch64),
                instruction: one,
                bytes: bytes.to_vec(),
                text: String::new(),
            });
        }
    }
    samples
}

fn run(program: &str, arguments: &[&str], input: String) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no input")?;
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "the writer failed")??;
    Ok(String::from_utf8(output.stdout)?)
}

/// Keeps samples that LLVM disassembles as one instruction, the first of each form.
fn disassemble(
    samples: Vec<Sample>,
    triple: &str,
    mark: (&[u8], &str),
) -> Result<Vec<Sample>, Box<dyn Error>> {
    let hex =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("0x{byte:02x} ")).collect() };
    // Bytes that are no instruction to LLVM may swallow bytes after them.
    let padding: &[u8] = if triple == "x86_64" { &[0x90; 15] } else { &[] };
    let mut input = String::new();
    for sample in &samples {
        writeln!(
            input,
            "{}\n{}{}",
            hex(&sample.bytes),
            hex(padding),
            hex(mark.0)
        )?;
    }
    let triple = format!("-triple={triple}");
    let mut arguments = vec!["--disassemble", triple.as_str()];
    if triple.contains("aarch64") {
        arguments.push("-mattr=+all");
    }
    let output = run("llvm-mc-22", &arguments, input)?;
    let lines: Vec<&str> = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('.'))
        .collect();
    let mut groups = lines.split(|line| *line == mark.1);
    let mut kept: Vec<Sample> = Vec::new();
    let mut seen = HashMap::new();
    for mut sample in samples {
        let group = groups
            .next()
            .ok_or("the marks are not written as expected")?;
        let Some((text, rest)) = group.split_first() else {
            continue;
        };
        if rest.len() == padding.len()
            && rest.iter().all(|line| *line == "nop")
            && seen.insert(sample.name.clone(), ()).is_none()
        {
            sample.text = (*text).to_owned();
            kept.push(sample);
        }
    }
    eprintln!("{} forms", kept.len());
    Ok(kept)
}

struct Row {
    uops: u32,
    latency: u32,
    resources: Vec<(usize, u32)>,
}

impl Row {
    fn class(&self, sample: &Sample, fuses: bool) -> String {
        let kind = sample.instruction.kind;
        // LLVM counts the parts of fused micro-operations, while the whole is issued as one.
        let uops = match (fuses, kind.load, kind.store) {
            (true, true, true) => self.uops.saturating_sub(2).max(2.min(self.uops)),
            (true, true, false) | (true, false, true) => self.uops.saturating_sub(1).max(1),
            _ => self.uops,
        };
        let mut class = format!("{uops} {}", self.latency);
        for (resource, cycles) in &self.resources {
            let _ = write!(class, " {resource}:{cycles}");
        }
        class
    }
}

struct Table {
    resources: Vec<(String, u32)>,
    rows: Vec<Option<Row>>,
}

impl Table {
    fn of(samples: &[Sample], triple: &str, cpu: &str, mark: &str) -> Result<Self, Box<dyn Error>> {
        let mut whole = Self {
            resources: Vec::new(),
            rows: Vec::new(),
        };
        // The analyser itself fails on some instructions: a failing list is halved.
        let mut work = vec![samples];
        while let Some(samples) = work.pop() {
            match Self::ask(samples, triple, cpu, mark)? {
                Some(part) => {
                    whole.resources = part.resources;
                    whole.rows.extend(part.rows);
                }
                None if samples.len() == 1 => whole.rows.push(None),
                None => {
                    let (first, second) = samples.split_at(samples.len() / 2);
                    work.extend([second, first]);
                }
            }
        }
        eprintln!("{cpu}: {} known", whole.rows.iter().flatten().count());
        Ok(whole)
    }

    /// Returns the analyser's output; `None` if it fails.
    fn ask(
        samples: &[Sample],
        triple: &str,
        cpu: &str,
        mark: &str,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let mut input = String::new();
        for sample in samples {
            writeln!(input, "{}\n{mark}", sample.text)?;
        }
        let (triple, cpu_option) = (format!("-mtriple={triple}"), format!("-mcpu={cpu}"));
        let mut arguments = vec![
            triple.as_str(),
            cpu_option.as_str(),
            "-instruction-tables=full",
            "-skip-unsupported-instructions=any",
            "-resource-pressure=false",
        ];
        if triple.contains("aarch64") {
            arguments.push("-mattr=+all");
        }
        let Ok(output) = run("llvm-mca-22", &arguments, input) else {
            return Ok(None);
        };
        let mut resources = Vec::new();
        let mut groups: Vec<Vec<Row>> = vec![Vec::new()];
        let mut in_rows = false;
        for line in output.lines() {
            if let Some((_, rest)) = line
                .strip_prefix('[')
                .and_then(|line| line.split_once("- "))
                && let Some((name, units)) =
                    rest.split_whitespace().next().unwrap_or("").split_once(':')
                && let Ok(units) = units.parse()
                && !in_rows
            {
                resources.push((name.to_owned(), units));
            }
            if line.starts_with("[1] ") && line.contains("Instructions:") {
                in_rows = true;
            } else if in_rows && !line.trim().is_empty() {
                if line.replace(' ', "").contains(&mark.replace(' ', "")) {
                    groups.push(Vec::new());
                } else if let (Some(row), Some(last)) = (row(line, &resources), groups.last_mut()) {
                    last.push(row);
                }
            }
        }
        if groups.len() != samples.len() + 1 {
            return Ok(None);
        }
        let rows: Vec<Option<Row>> = groups
            .into_iter()
            .take(samples.len())
            .map(|mut group| if group.len() == 1 { group.pop() } else { None })
            .collect();
        Ok(Some(Self { resources, rows }))
    }
}

/// Parses `uops latency throughput flags… bypass resource,resource[cycles] NAME text`.
fn row(line: &str, resources: &[(String, u32)]) -> Option<Row> {
    let uops = line.get(..7)?.trim().parse().ok()?;
    let latency = line.get(7..14)?.trim().parse().ok()?;
    // The columns of flags have a fixed width.
    let rest: Vec<&str> = line.get(42..)?.split_whitespace().collect();
    let named = rest.get(1)?;
    let mut used = Vec::new();
    for part in split_resources(named) {
        let (name, cycles) = part.split_once('[').unwrap_or((part, "1"));
        let Some(index) = resources.iter().position(|resource| resource.0 == name) else {
            // Without resources: this is the name of the instruction.
            return Some(Row {
                uops,
                latency,
                resources: Vec::new(),
            });
        };
        let cycles = cycles.trim_end_matches(']');
        let cycles: u32 = match cycles.split_once(',') {
            Some((from, to)) => to.parse::<u32>().ok()?.saturating_sub(from.parse().ok()?),
            None => cycles.parse().ok()?,
        };
        if cycles > 0 {
            used.push((index, cycles));
        }
    }
    Some(Row {
        uops,
        latency,
        resources: used,
    })
}

/// Splits a text at the commas outside brackets.
fn split_resources(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}
