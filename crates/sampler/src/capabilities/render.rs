//! The report of `vitalfew doctor` as text.

use super::{Capabilities, Gap, Limits, Linking, Probe, Program};
use std::fmt::Write;

/// Renders the capabilities, one line for each question. Below each gap it states what is missing,
/// what is lost, and the remedy. Gaps with the same remedy are listed together.
pub fn render_capabilities(capabilities: &Capabilities, unicode: bool) -> String {
    let marks = Marks::new(unicode);
    let mut text = header_text(capabilities);
    text.push('\n');
    let usable = capabilities
        .probes
        .iter()
        .filter(|probe| probe.gap.is_none());
    for probe in usable {
        let _ = writeln!(text, "{} {}", marks.yes, probe.question);
    }
    let mut rest: Vec<(&Probe, &Gap)> = capabilities
        .probes
        .iter()
        .filter_map(|probe| Some((probe, probe.gap.as_ref()?)))
        .collect();
    while let Some((_, first)) = rest.first().copied() {
        let same = |(_, gap): &(&Probe, &Gap)| gap.fix == first.fix;
        let (group, others) = rest.into_iter().partition::<Vec<_>, _>(same);
        rest = others;
        for (probe, _) in &group {
            let _ = writeln!(text, "{} {}", marks.no, probe.question);
        }
        list_lines(
            &mut text,
            "missing",
            group.iter().map(|(_, gap)| &gap.missing),
        );
        list_lines(
            &mut text,
            "you lose",
            group.iter().map(|(_, gap)| &gap.lose),
        );
        let _ = writeln!(text, "    fix       {}", first.fix);
    }
    text
}

/// Lists lines under one label, each line once.
fn list_lines<'a>(text: &mut String, mut label: &str, lines: impl Iterator<Item = &'a String>) {
    let mut told = Vec::new();
    for line in lines {
        if !told.contains(&line) {
            let _ = writeln!(text, "    {label:9} {line}");
            told.push(line);
            label = "";
        }
    }
}

struct Marks {
    yes: &'static str,
    no: &'static str,
}

impl Marks {
    fn new(unicode: bool) -> Self {
        let (yes, no) = if unicode {
            ("✓", "✗")
        } else {
            ("ok", "--")
        };
        Self { yes, no }
    }
}

fn header_text(capabilities: &Capabilities) -> String {
    let (machine, user) = (&capabilities.machine, &capabilities.user);
    let cpus = if machine.cpus == 1 { "CPU" } else { "CPUs" };
    let mut text = format!(
        "Linux {} on {}, {} {cpus}",
        machine.kernel, machine.architecture, machine.cpus
    );
    if machine.hypervisor {
        text.push_str(", virtual machine");
    }
    if let Some(container) = &user.container {
        let _ = write!(text, ", container: {container}");
    }
    let who = if user.uid == 0 {
        "root".to_owned()
    } else {
        format!("user {}", user.uid)
    };
    let _ = write!(text, "\nYou are {who}, ");
    match &user.capabilities[..] {
        [] => text.push_str("with no special rights."),
        rights => {
            let _ = write!(text, "with {}.", rights.join(", "));
        }
    }
    text.push('\n');
    write_limits(&mut text, &capabilities.limits);
    text
}

fn write_limits(text: &mut String, limits: &Limits) {
    let mut parts = Vec::new();
    let mut add = |value: Option<i64>, before: &str, after: &str| {
        parts.extend(value.map(|value| format!("{before}{value}{after}")));
    };
    add(limits.max_sample_rate, "", " samples/s a CPU");
    add(
        limits.cpu_time_max_percent.filter(|p| (1..100).contains(p)),
        "",
        " % of CPU time",
    );
    add(limits.max_stack, "", " frames by frame pointers");
    add(limits.perf_event_paranoid, "perf_event_paranoid ", "");
    add(limits.kptr_restrict, "kptr_restrict ", "");
    add(limits.ptrace_scope, "ptrace_scope ", "");
    if !parts.is_empty() {
        let _ = writeln!(text, "Limits: {}.", parts.join(", "));
    }
}

/// Renders the properties of a program in the same form.
pub fn render_program(program: &Program, unicode: bool) -> String {
    let marks = Marks::new(unicode);
    let mut text = format!(
        "{}: {}\n",
        program.path.display(),
        linking_words(program.linking)
    );
    let mut line = |good: bool, what: &str| {
        let mark = if good { marks.yes } else { marks.no };
        let _ = writeln!(text, "{mark} {what}");
    };
    match &program.build_id {
        Some(id) => line(true, &format!("build-id {id}")),
        None => line(
            false,
            "no build-id: link with -Wl,--build-id, or builds are told apart by path only",
        ),
    }
    line(
        program.all_names,
        match (program.all_names, program.stripped) {
            (true, false) => "names of all functions",
            (true, true) => "names of all functions, from a symbol table found apart",
            (false, _) => {
                "stripped: only exported functions have names; keep its symbol table, or install its debug package"
            }
        },
    );
    match (&program.debug_info, &program.debug_problem) {
        (Some(found), _) => {
            let version = found
                .dwarf
                .map_or(String::new(), |version| format!(" (DWARF {version})"));
            let place = found
                .file
                .as_ref()
                .map_or(String::new(), |file| format!(", in {}", file.display()));
            line(
                true,
                &format!("lines and inlined functions{version}{place}"),
            );
        }
        (None, Some(problem)) => line(
            false,
            &format!("its debug information cannot be used: {problem}"),
        ),
        (None, None) => line(
            false,
            "no debug information: compile with -g for lines and inlined functions",
        ),
    }
    if let Some(guess) = program.frame_pointers {
        let (good, what) = match guess.share {
            0.7.. => (true, "frame pointers, as it seems"),
            0.2.. => (
                false,
                "frame pointers in a part of its functions, as it seems: use --call-graph dwarf",
            ),
            _ => (
                false,
                "no frame pointers, as it seems: use --call-graph dwarf, or compile with -fno-omit-frame-pointer",
            ),
        };
        line(
            good,
            &format!("{what} (a guess from {} functions)", guess.functions),
        );
    }
    if matches!(
        program.linking,
        Linking::Static | Linking::StaticPositionIndependent
    ) {
        line(
            false,
            "static: nothing can be preloaded, so no virtual speedups and no function tracing",
        );
    }
    if program.privileged {
        line(
            false,
            "set-user-id or with file capabilities: nothing can be preloaded, and unless you are root the kernel stops sampling at its exec",
        );
    }
    text
}

fn linking_words(linking: Linking) -> &'static str {
    match linking {
        Linking::PositionIndependent => "executable, position-independent",
        Linking::Fixed => "executable, at a fixed address",
        Linking::StaticPositionIndependent => "static executable, position-independent",
        Linking::Static => "static executable",
        Linking::SharedLibrary => "shared library",
    }
}
