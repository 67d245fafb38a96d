//! Heap, growth, contention and thread profiles, and Go's counts: one stack a line, then the
//! mappings.

use super::addresses::FileMapping;
use super::legacy::LegacyProfile;
use crate::read::error::{FilePosition, ReadFault};
use crate::read::skipped::Skipped;

/// The sampling period of Java's heap profiles, which do not contain it.
const JAVA_HEAP_RATE: i64 = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// gperftools' and Go's heap profiles.
    Heap,
    /// jemalloc's.
    Jemalloc,
    Contention,
    Threads,
    /// Go's counts: `goroutine profile: total 7`.
    Count,
    JavaHeap,
    JavaContention,
}

/// Returns the kind of a text, if it is one of these.
pub(super) fn kind_of(text: &str) -> Option<TextKind> {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let mut rest = lines.take(4);
    let mut java = || rest.any(|line| line.replace(' ', "") == "format=java");
    if first.starts_with("heap profile:") && first.contains('@') {
        return Some(TextKind::Heap);
    }
    if first.starts_with("heap_v2/") {
        return Some(TextKind::Jemalloc);
    }
    if first.starts_with("--- contentionz ") {
        return Some(if java() {
            TextKind::JavaContention
        } else {
            TextKind::Contention
        });
    }
    if first.starts_with("--- mutex:") || first.starts_with("--- contention:") {
        return Some(TextKind::Contention);
    }
    if first.starts_with("--- heapz ") && java() {
        return Some(TextKind::JavaHeap);
    }
    if first.starts_with("--- threadz ") || thread_header(first) {
        return Some(TextKind::Threads);
    }
    let (name, total) = first.split_once(" profile: total ")?;
    let is_count = !name.contains(char::is_whitespace) && total.parse::<u64>().is_ok();
    is_count.then_some(TextKind::Count)
}

fn thread_header(line: &str) -> bool {
    line.starts_with("--- Thread ") && line.ends_with("stack: ---")
}

/// Reads a whole text; returns the skipped lines.
pub(super) fn read_text_profile(
    text: &str,
    profile: &mut LegacyProfile,
) -> Result<Skipped, ReadFault> {
    let Some(kind) = kind_of(text) else {
        let what = "neither CPU samples nor a heap, contention or thread profile";
        return Err(ReadFault::damaged(what, FilePosition::Offset(0)));
    };
    let mut reader = TextReader {
        profile,
        kind,
        header: TextHeader::default(),
        named: Vec::new(),
        pending: Vec::new(),
        skipped: Skipped::new("lines"),
    };
    reader.read_header(text);
    let mut rest = text;
    let mut number = 0;
    while let Some((line, after)) = next_line(rest) {
        number += 1;
        if is_tail(line, kind) {
            break;
        }
        rest = after;
        reader.read_line(line.trim(), FilePosition::Line(number));
    }
    reader.end_names();
    reader.end_thread();
    let skipped = reader.skipped;
    let java = matches!(kind, TextKind::JavaHeap | TextKind::JavaContention);
    read_tail(rest, java, profile);
    Ok(skipped)
}

/// Splits a text into its first line and the rest.
fn next_line(text: &str) -> Option<(&str, &str)> {
    match text.split_once('\n') {
        Some(lines) => Some(lines),
        None if text.is_empty() => None,
        None => Some((text, "")),
    }
}

/// Returns whether the part after the stacks begins with this line.
fn is_tail(line: &str, kind: TextKind) -> bool {
    let java = matches!(kind, TextKind::JavaHeap | TextKind::JavaContention);
    line.contains("--- Memory map: ---")
        || line.contains("MAPPED_LIBRARIES:")
        || java && java_location(line).is_some()
}

/// The header above the stacks.
struct TextHeader {
    /// Bytes for each sample of the heap; 0 and 1 if all allocations were counted.
    rate: i64,
    has_allocated: bool,
    is_sampled: bool,
    cycles_per_second: f64,
    period: i64,
}

impl Default for TextHeader {
    fn default() -> Self {
        Self {
            rate: 0,
            has_allocated: false,
            is_sampled: false,
            cycles_per_second: 0.0,
            period: 1,
        }
    }
}

struct TextReader<'p> {
    profile: &'p mut LegacyProfile,
    kind: TextKind,
    header: TextHeader,
    /// Functions that comments name for the previous stack.
    named: Vec<(u64, String)>,
    /// Addresses of a stack whose costs, or further addresses, follow.
    pending: Vec<u64>,
    skipped: Skipped,
}

impl TextReader<'_> {
    fn read_header(&mut self, text: &str) {
        let first = text
            .lines()
            .find(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let first = first.unwrap_or_default().trim();
        let header = &mut self.header;
        let rate = first
            .rsplit_once('/')
            .and_then(|(_, rate)| rate.trim().parse().ok());
        match self.kind {
            TextKind::Heap => {
                let (counts, how) = first.rsplit_once('@').unwrap_or((first, ""));
                let how = how.trim().split('/').next().unwrap_or_default();
                header.rate = match how {
                    // Go writes twice the period.
                    "heap" => rate.unwrap_or(0) / 2,
                    _ => rate.unwrap_or(0),
                };
                header.is_sampled = matches!(how, "heap" | "heap_v2" | "heapz_v2");
                let growth = how.starts_with("growth") || how.starts_with("fragmentation");
                if let Some([in_use, in_use_bytes, all, all_bytes]) = four_numbers(counts) {
                    header.has_allocated = !growth
                        && ((all != in_use && all != 0)
                            || (all_bytes != in_use_bytes && all_bytes != 0));
                }
            }
            TextKind::Jemalloc => {
                header.rate = rate.unwrap_or(0);
                header.is_sampled = true;
            }
            TextKind::JavaHeap => {
                header.rate = JAVA_HEAP_RATE;
                header.is_sampled = true;
            }
            _ => {}
        }
        let count_name: &'static str = match first.split(' ').next() {
            Some("threadcreate") => "threadcreate",
            Some("goroutine") => "goroutine",
            _ => "count",
        };
        self.profile.value_types = match self.kind {
            TextKind::Heap if self.header.has_allocated => vec![
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            TextKind::Heap | TextKind::Jemalloc => vec![("objects", "count"), ("space", "bytes")],
            TextKind::JavaHeap => vec![("inuse_objects", "count"), ("inuse_space", "bytes")],
            TextKind::Contention => vec![("contentions", "count"), ("delay", "nanoseconds")],
            TextKind::JavaContention => vec![("contentions", "count"), ("delay", java_unit(text))],
            TextKind::Threads => vec![("thread", "count")],
            TextKind::Count => vec![(count_name, "count")],
        };
    }

    fn read_line(&mut self, line: &str, at: FilePosition) {
        if let Some(comment) = line.strip_prefix('#') {
            self.read_comment(comment);
            return;
        }
        self.end_names();
        if line.is_empty() {
            return;
        }
        let understood = match self.kind {
            TextKind::Heap => self.heap_line(line),
            TextKind::Jemalloc => self.jemalloc_line(line),
            TextKind::Contention | TextKind::JavaContention | TextKind::JavaHeap => {
                self.two_numbers_line(line)
            }
            TextKind::Threads => self.thread_line(line),
            TextKind::Count => self.count_line(line),
        };
        if understood.is_none() {
            self.skipped.skip_part("not a stack with its costs", at);
        }
    }

    /// Reads `0x44cb3 runtime.gopark+0x73 /proc.go:304`, which Go writes below a stack.
    fn read_comment(&mut self, comment: &str) {
        let mut words = comment.split_whitespace();
        let address = words.next().and_then(|word| word.strip_prefix("0x"));
        let Some(address) = address.and_then(|a| u64::from_str_radix(a, 16).ok()) else {
            return;
        };
        let Some(name) = words.next() else { return };
        let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
        self.named.push((address, name.to_owned()));
    }

    /// Adopts the names below a stack: functions at one address follow each other.
    fn end_names(&mut self) {
        for functions in self.named.chunk_by(|a, b| a.0 == b.0) {
            if let Some((address, _)) = functions.first() {
                let names = functions.iter().map(|(_, name)| name.clone()).collect();
                self.profile.names.add_name(*address, names);
            }
        }
        self.named.clear();
    }

    /// Adds a stack of return addresses, each moved into its call.
    fn add_stack(&mut self, mut addresses: Vec<u64>, values: [i64; 4]) {
        for address in &mut addresses {
            *address = address.wrapping_sub(1);
        }
        self.profile.add_stack(&addresses, values);
    }

    /// Reads `in use: bytes [allocated: bytes] @ addresses`.
    fn heap_line(&mut self, line: &str) -> Option<()> {
        if line.starts_with("heap profile:") {
            return Some(());
        }
        let (counts, addresses) = line.split_once('@')?;
        let [in_use, in_use_bytes, all, all_bytes] = four_numbers(counts)?;
        let in_use = self.scale_unsampled(in_use, in_use_bytes)?;
        let values = if self.header.has_allocated {
            let all = self.scale_unsampled(all, all_bytes)?;
            [all.0, all.1, in_use.0, in_use.1]
        } else {
            [in_use.0, in_use.1, 0, 0]
        };
        self.add_stack(hex_addresses(addresses)?, values);
        Some(())
    }

    /// Reads `@ addresses`, then `t*: in use: bytes [allocated: bytes]`, then the same for each
    /// thread.
    fn jemalloc_line(&mut self, line: &str) -> Option<()> {
        if let Some(addresses) = line.strip_prefix('@') {
            self.pending = hex_addresses(addresses)?;
            return Some(());
        }
        if line.starts_with("heap_v2/") {
            return Some(());
        }
        let (thread, counts) = line.split_once(':')?;
        let [in_use, bytes, ..] = four_numbers(counts)?;
        // The totals of the file stand above the first stack.
        if thread == "t*" && !self.pending.is_empty() {
            let (in_use, bytes) = self.scale_unsampled(in_use, bytes)?;
            let addresses = std::mem::take(&mut self.pending);
            self.add_stack(addresses, [in_use, bytes, 0, 0]);
        }
        Some(())
    }

    /// Reads `delay count @ addresses`, or bytes in place of the delay; above them, `attribute =
    /// value`.
    fn two_numbers_line(&mut self, line: &str) -> Option<()> {
        if line.starts_with("---") {
            return Some(());
        }
        let Some((numbers, addresses)) = line.split_once('@') else {
            let (key, value) = line.split_once('=')?;
            let value = value.trim();
            match key.trim() {
                "cycles/second" => self.header.cycles_per_second = value.parse().ok()?,
                "sampling period" => self.header.period = value.parse().ok()?,
                _ => {}
            }
            return Some(());
        };
        let mut numbers = numbers.split_whitespace().map(str::parse::<i64>);
        let (amount, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let mut addresses = hex_addresses(addresses)?;
        let period = self.header.period;
        if self.kind == TextKind::JavaHeap {
            let (count, amount) = self.scale_unsampled(count, amount)?;
            self.profile.add_stack(&addresses, [count, amount, 0, 0]);
            return Some(());
        }
        let (count, amount) = match self.kind {
            _ if period <= 0 => (count, amount),
            TextKind::Contention if self.header.cycles_per_second > 0.0 => {
                let delay = amount as f64 * period as f64 / (self.header.cycles_per_second / 1e9);
                (count.checked_mul(period)?, delay as i64)
            }
            TextKind::Contention => (count.checked_mul(period)?, amount),
            _ => (count.checked_mul(period)?, amount.checked_mul(period)?),
        };
        if self.kind == TextKind::Contention {
            for address in &mut addresses {
                *address = address.wrapping_sub(1);
            }
        }
        self.profile.add_stack(&addresses, [count, amount, 0, 0]);
        Some(())
    }

    /// Reads `--- Thread 7f79 (name: main/1) stack: ---`, then one line for each address, with or
    /// without names.
    fn thread_line(&mut self, line: &str) -> Option<()> {
        if line.starts_with("---") {
            self.end_thread();
            return Some(());
        }
        if line.contains("same as previous thread") {
            if let Some(stack) = self.profile.stacks.last_mut() {
                stack.values[0] = stack.values[0].saturating_add(1);
            }
            return Some(());
        }
        let line = line.strip_prefix("PC:").unwrap_or(line).trim();
        match line.split_once(": ") {
            Some((address, name)) if !address.contains(' ') => {
                let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
                self.profile
                    .names
                    .add_name(address, vec![name.trim().to_owned()]);
                self.pending.push(address);
            }
            _ => {
                let found = hex_addresses(line)?;
                if found.is_empty() && !line.ends_with(':') {
                    return None;
                }
                self.pending.extend(found);
            }
        }
        Some(())
    }

    fn end_thread(&mut self) {
        if self.kind != TextKind::Threads || self.pending.is_empty() {
            return;
        }
        let mut addresses = std::mem::take(&mut self.pending);
        for address in addresses.iter_mut().skip(1) {
            *address = address.wrapping_sub(1);
        }
        // The innermost frame is doubled, as in CPU samples.
        if let [first, second, ..] = addresses.as_slice()
            && *first == second.wrapping_add(1)
        {
            addresses.remove(1);
        }
        self.profile.add_stack(&addresses, [1, 0, 0, 0]);
    }

    /// Reads `count @ addresses`.
    fn count_line(&mut self, line: &str) -> Option<()> {
        let Some((count, addresses)) = line.split_once('@') else {
            return line.contains(" profile: total ").then_some(());
        };
        let count = count.trim().parse().ok()?;
        let addresses = hex_addresses(addresses)?;
        self.add_stack(addresses, [count, 0, 0, 0]);
        Some(())
    }

    /// Returns the estimated allocations from the sampled ones: an allocation of `S` bytes is
    /// sampled with probability `1 - exp(-S / rate)`.
    fn scale_unsampled(&self, count: i64, bytes: i64) -> Option<(i64, i64)> {
        let rate = self.header.rate;
        if !self.header.is_sampled {
            return Some((count, bytes));
        }
        if count == 0 || bytes == 0 {
            return Some((0, 0));
        }
        if rate <= 1 {
            return Some((count, bytes));
        }
        let size = bytes as f64 / count as f64;
        let scale = 1.0 / (1.0 - (-size / rate as f64).exp());
        let scaled = |value: i64| {
            let value = value as f64 * scale;
            (value.abs() < i64::MAX as f64).then_some(value as i64)
        };
        Some((scaled(count)?, scaled(bytes)?))
    }
}

/// Returns the numbers of `1: 2 [3: 4]`.
fn four_numbers(text: &str) -> Option<[i64; 4]> {
    let text = text.trim_start_matches("heap profile:");
    let mut numbers = text
        .split([':', '[', ']', ' ', '\t'])
        .filter(|part| !part.is_empty())
        .map(str::parse);
    let four = [
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ];
    numbers.next().is_none().then_some(four)
}

/// Returns the addresses in a text: all words that begin with `0x`.
fn hex_addresses(text: &str) -> Option<Vec<u64>> {
    let words = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("0x"));
    words
        .map(|word| u64::from_str_radix(word, 16).ok())
        .collect()
}

fn java_unit(text: &str) -> &'static str {
    let unit = text
        .lines()
        .take(10)
        .find_map(|line| line.trim().strip_prefix("resolution"));
    match unit.map(|unit| unit.trim_start_matches([' ', '=']).trim()) {
        Some("milliseconds") => "milliseconds",
        Some("nanoseconds") => "nanoseconds",
        _ => "microseconds",
    }
}

/// Parses `0x0000006 com.example.function06 (source.java:06)`.
fn java_location(line: &str) -> Option<(u64, &str)> {
    let (address, name) = line
        .trim()
        .strip_prefix("0x")?
        .split_once(char::is_whitespace)?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((address, name.trim()))
}

/// Reads the part after the stacks: mappings, or Java's methods.
pub(super) fn read_tail(text: &str, java: bool, profile: &mut LegacyProfile) {
    let mut attributes: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if java {
            if let Some((address, name)) = java_location(line) {
                let name = match name.rsplit_once(" (") {
                    Some((name, _)) if name.contains(char::is_alphabetic) => name,
                    _ => name,
                };
                profile.names.add_name(address, vec![name.to_owned()]);
            }
            continue;
        }
        if let Some(mapping) = file_mapping(line, &attributes) {
            profile.names.add_mapping(mapping);
        } else if let Some((key, value)) = line.split_once('=') {
            attributes.push((format!("${}", key.trim()), value.trim().to_owned()));
            // Each attribute is searched in each mapping.
            attributes.truncate(16);
        }
    }
}

/// Parses a mapping: `400000-fcb000 r-xp 00000000 00:00 12 /path`, or `400000-fcb000: /path
/// (@1000)`.
fn file_mapping(line: &str, attributes: &[(String, String)]) -> Option<FileMapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.trim_end_matches(':').split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let mut words = words.peekable();
    let permissions = words.next_if(|w| w.len() >= 3 && w.chars().all(|c| "rwxsp-".contains(c)));
    if permissions.is_some_and(|p| !p.contains('x')) {
        return None;
    }
    let mut offset = 0;
    if permissions.is_some() {
        offset = hex(words.next()?)?;
        // The device and the inode.
        words.next();
        words.next();
    }
    let rest: Vec<&str> = words.collect();
    let mut path = rest.join(" ");
    if let Some((before, at)) = path.rsplit_once(" (@")
        && let Some(at) = at.strip_suffix(')').and_then(hex)
    {
        offset = at;
        path = before.to_owned();
    }
    if let Some((key, value)) = attributes.iter().find(|(key, _)| path.starts_with(key)) {
        path.replace_range(..key.len(), value);
    }
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned();
    Some(FileMapping {
        start,
        end,
        offset,
        path,
    })
}
