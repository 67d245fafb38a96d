//! Events by name, as a user types them after `-e`.

use crate::Error;
use crate::events::spec::EventKind::{self, Clock, Cycles, Hardware, Software};
use crate::events::spec::EventSpec;
use perf_event_open_sys::bindings::*;
use std::path::{Path, PathBuf};

/// Name, kind, type, config. A later name for the same event is an alias.
const NAMED: &[(&str, EventKind, u32, u32)] = &[
    (
        "cpu-clock",
        Clock,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_CPU_CLOCK,
    ),
    (
        "task-clock",
        Clock,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_TASK_CLOCK,
    ),
    (
        "page-faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_PAGE_FAULTS,
    ),
    (
        "faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_PAGE_FAULTS,
    ),
    (
        "minor-faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_PAGE_FAULTS_MIN,
    ),
    (
        "major-faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    ),
    (
        "context-switches",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_CONTEXT_SWITCHES,
    ),
    (
        "cs",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_CONTEXT_SWITCHES,
    ),
    (
        "cpu-migrations",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_CPU_MIGRATIONS,
    ),
    (
        "migrations",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_CPU_MIGRATIONS,
    ),
    (
        "alignment-faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_ALIGNMENT_FAULTS,
    ),
    (
        "emulation-faults",
        Software,
        PERF_TYPE_SOFTWARE,
        PERF_COUNT_SW_EMULATION_FAULTS,
    ),
    (
        "cycles",
        Cycles,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_CPU_CYCLES,
    ),
    (
        "cpu-cycles",
        Cycles,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_CPU_CYCLES,
    ),
    (
        "ref-cycles",
        Cycles,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_REF_CPU_CYCLES,
    ),
    (
        "instructions",
        Cycles,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_INSTRUCTIONS,
    ),
    (
        "cache-references",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_CACHE_REFERENCES,
    ),
    (
        "cache-misses",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_CACHE_MISSES,
    ),
    (
        "branch-instructions",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
    ),
    (
        "branches",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
    ),
    (
        "branch-misses",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_BRANCH_MISSES,
    ),
    (
        "bus-cycles",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_BUS_CYCLES,
    ),
    (
        "stalled-cycles-frontend",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    ),
    (
        "stalled-cycles-backend",
        Hardware,
        PERF_TYPE_HARDWARE,
        PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    ),
    (
        "L1-dcache-loads",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(0, 0, 0),
    ),
    (
        "L1-dcache-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(0, 0, 1),
    ),
    (
        "L1-dcache-stores",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(0, 1, 0),
    ),
    (
        "L1-icache-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(1, 0, 1),
    ),
    (
        "LLC-loads",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(2, 0, 0),
    ),
    (
        "LLC-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(2, 0, 1),
    ),
    (
        "LLC-store-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(2, 1, 1),
    ),
    (
        "dTLB-loads",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(3, 0, 0),
    ),
    (
        "dTLB-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(3, 0, 1),
    ),
    (
        "dTLB-store-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(3, 1, 1),
    ),
    (
        "iTLB-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(4, 0, 1),
    ),
    (
        "node-loads",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(6, 0, 0),
    ),
    (
        "node-load-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(6, 0, 1),
    ),
    (
        "node-stores",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(6, 1, 0),
    ),
    (
        "node-store-misses",
        Hardware,
        PERF_TYPE_HW_CACHE,
        cache_config(6, 1, 1),
    ),
];

/// Returns the `PERF_TYPE_HW_CACHE` config: cache, operation (0 read, 1 write), result (0 access, 1
/// miss).
const fn cache_config(cache: u32, operation: u32, result: u32) -> u32 {
    cache | operation << 8 | result << 16
}

impl EventSpec {
    /// Parses `NAME[:MODIFIERS][:PERIOD]`; NAME is one of the kernel's events, `CATEGORY:NAME` of a
    /// tracepoint, or `rHEX` for a raw event. Modifiers: `u` user mode only, `k` kernel only, `p`
    /// more precise, `b` with the last branches.
    ///
    /// # Errors
    /// [`Error::UnknownEvent`] with names of similar spelling, [`Error::EventSyntax`], and
    /// [`Error::Refused`] where tracepoints cannot be read.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let syntax = |reason: &str| Error::EventSyntax {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let mut parts: Vec<&str> = text.split(':').collect();
        let mut period = None;
        if parts.len() > 1
            && let Some(last) = parts.last()
            && last.bytes().all(|b| b.is_ascii_digit())
            && !last.is_empty()
        {
            let value: u64 = last
                .parse()
                .map_err(|_| syntax("the period is too large"))?;
            if value == 0 {
                return Err(syntax("the period must be at least 1"));
            }
            period = Some(value);
            parts.pop();
        }
        let mut modifiers = "";
        if parts.len() > 1
            && let Some(last) = parts.last()
            && !last.is_empty()
            && last.bytes().all(|b| b"ukpb".contains(&b))
        {
            modifiers = last;
            parts.pop();
        }
        let mut spec = match parts[..] {
            [""] => return Err(syntax("the name is empty")),
            [name] => Self::named_event(name)?,
            [category, name] => Self::tracepoint_event(category, name)?,
            _ => {
                return Err(syntax(
                    "expected NAME, CATEGORY:NAME or either with :PERIOD",
                ));
            }
        };
        spec.period = period;
        if !modifiers.is_empty() {
            let user = modifiers.contains('u');
            let kernel = modifiers.contains('k');
            spec.exclude_user = kernel && !user;
            spec.exclude_kernel = user && !kernel;
            spec.precise = modifiers.bytes().filter(|b| *b == b'p').count().min(3) as u8;
            spec.branches = modifiers.contains('b');
            spec.name = format!("{}:{modifiers}", spec.name);
        }
        Ok(spec)
    }

    fn named_event(name: &str) -> Result<Self, Error> {
        if let Some((_, kind, perf_type, config)) = NAMED.iter().find(|event| event.0 == name) {
            // An alias gets the first name of its event.
            let canonical = NAMED
                .iter()
                .find(|event| event.2 == *perf_type && event.3 == *config)
                .map_or(name, |event| event.0);
            return Ok(Self::new(canonical, *kind, *perf_type, (*config).into()));
        }
        if let Some(hex) = name.strip_prefix('r')
            && let Ok(config) = u64::from_str_radix(hex, 16)
        {
            return Ok(Self::new(name, Hardware, PERF_TYPE_RAW, config));
        }
        Err(Error::UnknownEvent {
            name: name.to_owned(),
            near: nearest_names(name, NAMED.iter().map(|event| event.0.to_owned())),
        })
    }

    fn tracepoint_event(category: &str, name: &str) -> Result<Self, Error> {
        let text = format!("{category}:{name}");
        let valid = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !valid(category) || !valid(name) {
            return Err(Error::EventSyntax {
                text,
                reason: "a tracepoint is CATEGORY:NAME, in letters, digits and underscores".into(),
            });
        }
        let events = tracefs_directory()?.join("events");
        let id = std::fs::read_to_string(events.join(category).join(name).join("id"));
        let Some(config) = id.ok().and_then(|id| id.trim().parse().ok()) else {
            return Err(Error::UnknownEvent {
                near: nearest_names(&text, all_tracepoints(&events)),
                name: text,
            });
        };
        let mut spec = Self::new(&text, EventKind::Tracepoint, PERF_TYPE_TRACEPOINT, config);
        spec.tracepoint = Some((category.to_owned(), name.to_owned()));
        Ok(spec)
    }

    /// Returns the names of all events except tracepoints.
    pub fn event_names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|event| event.0)
    }
}

/// Returns the mount point of tracefs; mounts it if that is allowed.
///
/// # Errors
/// [`Error::Refused`] if it is not readable.
pub fn tracefs_directory() -> Result<PathBuf, Error> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let usable = |place: &Path| place.join("events/sched").is_dir();
    if let Some(place) = places.iter().map(Path::new).find(|place| usable(place)) {
        return Ok(place.to_owned());
    }
    // SAFETY: the strings are terminated; mount(2) does not keep them.
    unsafe {
        libc::mount(
            c"tracefs".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            0,
            std::ptr::null(),
        );
    }
    if usable(Path::new(places[0])) {
        return Ok(PathBuf::from(places[0]));
    }
    Err(Error::Refused {
        what: "tracepoints".into(),
        reason: match crate::capabilities::probe_machine()
            .get(crate::capabilities::Question::Tracepoints)
        {
            Err(gap) => format!("{}; {}", gap.missing, gap.fix),
            Ok(()) => "tracefs cannot be read".to_owned(),
        },
    })
}

fn all_tracepoints(events: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for category in std::fs::read_dir(events).into_iter().flatten().flatten() {
        for event in std::fs::read_dir(category.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            if event.path().join("id").exists() {
                names.push(format!(
                    "{}:{}",
                    category.file_name().to_string_lossy(),
                    event.file_name().to_string_lossy()
                ));
            }
        }
    }
    names
}

/// Returns at most three names of similar spelling.
fn nearest_names(name: &str, candidates: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut scored: Vec<(f64, String)> = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, &candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_modifiers_and_periods() {
        let spec = EventSpec::parse("faults:u:100").unwrap();
        assert_eq!(spec.name, "page-faults:u");
        assert_eq!(spec.period, Some(100));
        assert!(spec.exclude_kernel && !spec.exclude_user);
        assert_eq!(EventSpec::parse("cycles:ppk").unwrap().precise, 2);
        let with_branches = EventSpec::parse("r20c4:ub:100003").unwrap();
        assert!(with_branches.branches && with_branches.exclude_kernel);
        assert!(!spec.branches);
        assert_eq!(EventSpec::parse("r01c2").unwrap().config, 0x1c2);
        let both = EventSpec::parse("cpu-clock:uk").unwrap();
        assert!(!both.exclude_kernel && !both.exclude_user);
    }

    #[test]
    fn wrong_names_are_answered_with_near_ones() {
        let Err(Error::UnknownEvent { near, .. }) = EventSpec::parse("page-fault") else {
            panic!()
        };
        assert_eq!(near[0], "page-faults");
        for bad in ["", ":", "cycles:0", "a:b:c:d", "x:../..", "cycles:"] {
            assert!(EventSpec::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn branch_records_are_what_their_name_says() {
        let event = EventSpec::branch_records();
        let parsed = EventSpec::parse(&event.name).unwrap();
        assert_eq!(
            (parsed.perf_type, parsed.config),
            (event.perf_type, event.config)
        );
        assert!(parsed.branches && parsed.exclude_kernel);
    }

    #[test]
    fn periods_follow_the_rate() {
        assert_eq!(EventSpec::cpu_clock().period_at(5000), 200_000);
        let faults = EventSpec::parse("page-faults").unwrap();
        assert_eq!(faults.period_at(5000), 1);
        let asked = EventSpec::parse("cpu-clock:1000000").unwrap();
        assert_eq!(asked.period_at(5000), 1_000_000);
    }
}
