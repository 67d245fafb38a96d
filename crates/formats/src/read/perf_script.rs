//! The text that `perf script` prints: one line for each sample, and one line for each frame under
//! it.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use crate::frame::base_of_path;
use profile::{MethodId, ValueType};

/// The indexes of an event's two value types.
#[derive(Clone)]
struct ScriptEvent {
    name: String,
    samples: usize,
    period: usize,
}

/// The first line of a sample.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptHeader<'l> {
    comm: &'l str,
    /// `None` if there is only one number: it is the thread's.
    pid: Option<i64>,
    tid: i64,
    period: Option<i64>,
    event: &'l str,
    /// The text after the event: the place, if there is no call stack.
    rest: &'l str,
    timed: bool,
}

impl<'l> ScriptHeader<'l> {
    /// Parses `comm pid/tid [cpu] time period: event: place`. Parts that may be missing: pid, cpu,
    /// time, period, place.
    pub fn parse_header(line: &'l str) -> Option<Self> {
        let mut best = None;
        // A comm may have spaces and digits, so the id is the first number after which the rest
        // parses.
        let mut from = 0;
        while let Some(token) = next_token(line, from) {
            if !line.get(..token.start)?.trim().is_empty()
                && let Some((pid, tid)) = parse_ids(token.text)
            {
                best = Self::parse_after_ids(line, token, pid, tid);
            }
            if best.is_some() {
                break;
            }
            from = token.end;
        }
        best
    }

    fn parse_after_ids(
        line: &'l str,
        number: Token<'l>,
        pid: Option<i64>,
        tid: i64,
    ) -> Option<Self> {
        let comm = line.get(..number.start)?.trim();
        let mut token = next_token(line, number.end)?;
        if token.text.starts_with('[') && token.text.ends_with(']') {
            token = next_token(line, token.end)?;
        }
        let mut timed = false;
        if is_time(token.text) {
            timed = true;
            token = next_token(line, token.end)?;
        }
        let period = token.text.parse().ok();
        if period.is_some() {
            token = next_token(line, token.end)?;
        }
        let event = token
            .text
            .strip_suffix(':')
            .filter(|event| !event.is_empty())?;
        let rest = line.get(token.end..)?.trim();
        // Without time and period, little is left, which must not match other text.
        let bare = !timed && period.is_none();
        if is_time(token.text) || bare && !(is_event_name(event) && rest.is_empty()) {
            return None;
        }
        Some(Self {
            comm,
            pid,
            tid,
            period,
            event,
            rest,
            timed,
        })
    }

    /// Returns whether there is neither a time nor a period, so that it may be any text.
    fn is_bare(&self) -> bool {
        !self.timed && self.period.is_none()
    }

    /// Parses a line where a frame is possible too: as a header only if it has a time.
    fn parse_within_stack(line: &'l str) -> Option<Self> {
        // A quick test that excludes most frames.
        if !line.contains(": ") && !line.ends_with(':') {
            return None;
        }
        Self::parse_header(line).filter(|header| header.timed)
    }
}

fn is_event_name(text: &str) -> bool {
    let sign = |c: char| c.is_ascii_alphanumeric() || "-_:/.,=@~+".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(sign)
}

/// Returns whether a text is of this format: by its header, or by a sample among its first lines.
pub(crate) fn detect_perf_script(text: &str) -> bool {
    if has_file_header(text) {
        return true;
    }
    let mut lines = text
        .lines()
        .take(1000)
        .filter(|line| !line.trim().is_empty());
    let mut bare = false;
    lines.any(|line| match ScriptHeader::parse_header(line) {
        Some(header) if header.is_bare() => {
            bare = true;
            false
        }
        Some(_) => true,
        None => {
            // The next line decides.
            let after_bare = std::mem::take(&mut bare);
            after_bare
                && ScriptFrame::parse_frame(line).is_some_and(|frame| !frame.image.is_empty())
        }
    })
}

/// Returns whether a text begins with the header of `perf script --header`.
fn has_file_header(text: &str) -> bool {
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.starts_with("# ====="))
        && lines
            .next()
            .is_some_and(|line| line.starts_with("# captured on"))
}

#[derive(Clone, Copy)]
struct Token<'l> {
    text: &'l str,
    start: usize,
    end: usize,
}

fn next_token(line: &str, from: usize) -> Option<Token<'_>> {
    let rest = line.get(from..)?;
    let start = from + rest.find(|c: char| !c.is_whitespace())?;
    let word = line.get(start..)?;
    let end = start + word.find(char::is_whitespace).unwrap_or(word.len());
    Some(Token {
        text: line.get(start..end)?,
        start,
        end,
    })
}

fn parse_ids(token: &str) -> Option<(Option<i64>, i64)> {
    match token.split_once('/') {
        Some((pid, tid)) => Some((Some(pid.parse().ok()?), tid.parse().ok()?)),
        None => Some((None, token.parse().ok()?)),
    }
}

fn is_time(token: &str) -> bool {
    let parts = token
        .strip_suffix(':')
        .and_then(|time| time.split_once('.'));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    parts.is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

/// A frame: `address symbol+offset (image)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptFrame<'l> {
    address: &'l str,
    symbol: &'l str,
    image: &'l str,
}

impl<'l> ScriptFrame<'l> {
    pub fn parse_frame(line: &'l str) -> Option<Self> {
        let (address, rest) = line
            .trim()
            .split_once([' ', '\t'])
            .unwrap_or((line.trim(), ""));
        if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let (symbol, image) = split_image(rest.trim())?;
        Some(Self {
            address,
            symbol,
            image,
        })
    }
}

/// Splits `symbol+offset (image)` into the symbol without its offset and the image; either may be
/// missing. Both may contain spaces and parentheses: `std::function<void (int)>`, `/opt/My App
/// (x86)/app (deleted)`.
fn split_image(text: &str) -> Option<(&str, &str)> {
    let Some(inner) = text.strip_suffix(')') else {
        // An unclosed image means a truncated frame.
        return (!text.contains(" (")).then_some((without_offset(text), ""));
    };
    let begin = if text.starts_with('(') {
        0
    } else {
        find_image(text)?
    };
    let symbol = text.get(..begin)?.trim();
    Some((
        without_offset(symbol),
        without_offset(inner.get(begin + 1..)?),
    ))
}

/// Returns the position of the parenthesis that begins the image. It follows the symbol's offset.
/// Without an offset it is the partner of the last parenthesis or, if the image has unpaired ones,
/// the first that begins a path.
fn find_image(text: &str) -> Option<usize> {
    let begins = || text.rmatch_indices(" (").map(|(at, _)| at);
    let behind_offset = begins().find(|at| {
        let symbol = text.get(..*at).unwrap_or_default();
        without_offset(symbol).len() < symbol.len()
    });
    let mut open = 0_i64;
    let partner = text.bytes().enumerate().rev().find(|(_, byte)| {
        open += i64::from(*byte == b')') - i64::from(*byte == b'(');
        open == 0
    });
    let partner = partner
        .and_then(|(at, _)| at.checked_sub(1))
        .filter(|at| text.as_bytes().get(*at) == Some(&b' '));
    let begin = behind_offset.or(partner);
    begin
        .or_else(|| text.find(" (/"))
        .or_else(|| begins().next())
        .map(|at| at + 1)
}

/// Returns a name without the `+0x…` that perf appends to symbols, and on request to images.
fn without_offset(text: &str) -> &str {
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match text.rsplit_once("+0x") {
        Some((name, offset)) if hex(offset) => name,
        _ => text,
    }
}

pub(crate) fn read_perf_script(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let mut script = Script {
        draft: TreeDraft::new(Vec::new(), options),
        options,
        events: Vec::new(),
        sample: None,
        frames: Vec::new(),
        unnamed: 0,
        placed: 0,
    };
    let mut lines = LineReader::new(input);
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let mut host = None;
    while let Some((at, line)) = lines.next_line()? {
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(name) = comment.trim().strip_prefix("hostname :") {
                host = Some(name.trim().to_owned());
            }
        } else if line.trim().is_empty() {
            script.end_sample(host.as_deref())?;
        } else {
            match script.read_line(&line, host.as_deref(), at)? {
                Ok(()) => read += 1,
                Err(what) => skipped.skip_part(what, at),
            }
        }
    }
    script.end_sample(host.as_deref())?;
    let mut draft = script.draft;
    skipped.note_skipped(read, &mut draft)?;
    if script.unnamed > 0 {
        draft.add_note(format!(
            "{} frames have no symbol and are named by their address",
            script.unnamed
        ));
    }
    if script.placed > 0 {
        draft.add_note(format!(
            "{} samples have no call stack, only a place",
            script.placed
        ));
    }
    Ok(draft)
}

/// Owner and event of a sample.
struct ScriptSample {
    comm: String,
    pid: Option<i64>,
    tid: i64,
    period: i64,
    event: ScriptEvent,
    at: FilePosition,
}

struct Script<'o> {
    draft: TreeDraft,
    options: &'o ReadOptions,
    events: Vec<ScriptEvent>,
    sample: Option<ScriptSample>,
    /// Innermost first; `None` for an inlined frame that is merged into its caller.
    frames: Vec<FrameName>,
    unnamed: u64,
    placed: u64,
}

struct FrameName {
    name: String,
    address: String,
    /// `None` for an inlined function, which is in the image of the next frame if that has the same
    /// address; perf does not always print that frame.
    module: Option<String>,
}

impl Script<'_> {
    fn in_stack(&self) -> bool {
        self.sample.is_some()
    }

    /// Reads a line of a sample; returns the fault of an invalid one.
    fn read_line(
        &mut self,
        line: &str,
        host: Option<&str>,
        at: FilePosition,
    ) -> Result<Result<(), &'static str>, ReadFault> {
        let indented = line.starts_with([' ', '\t']);
        let header = if indented {
            ScriptHeader::parse_within_stack(line)
        } else {
            ScriptHeader::parse_header(line)
        };
        if let Some(header) = header {
            self.end_sample(host)?;
            self.begin_sample(&header, at)?;
            return Ok(Ok(()));
        }
        // Some files have lost their indentation.
        let flush = || ScriptFrame::parse_frame(line).is_some_and(|frame| !frame.image.is_empty());
        if !indented && !flush() {
            // The following frames belong to an unknown sample.
            self.end_sample(host)?;
            return Ok(Err(
                "neither a sample (comm pid time: period event:) nor a frame of one",
            ));
        }
        if !self.in_stack() {
            return Ok(Err("a frame without a sample"));
        }
        if self.read_frame(line) {
            Ok(Ok(()))
        } else {
            Ok(Err("not a frame: address symbol (image)"))
        }
    }

    fn begin_sample(
        &mut self,
        header: &ScriptHeader<'_>,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let event = self.event_of(header.event);
        self.sample = Some(ScriptSample {
            comm: header.comm.to_owned(),
            pid: header.pid,
            tid: header.tid,
            period: header.period.unwrap_or(1),
            event,
            at,
        });
        if !header.rest.is_empty() {
            self.placed += 1;
            // A tracepoint has its fields there instead.
            if ScriptFrame::parse_frame(header.rest).is_some_and(|frame| !frame.symbol.is_empty()) {
                self.read_frame(header.rest);
            }
        }
        Ok(())
    }

    fn event_of(&mut self, name: &str) -> ScriptEvent {
        if let Some(event) = self.events.iter().find(|event| event.name == name) {
            return event.clone();
        }
        let [samples, period] = event_value_types(name);
        let event = ScriptEvent {
            name: name.to_owned(),
            samples: self.draft.add_value_type(samples),
            period: self.draft.add_value_type(period),
        };
        self.events.push(event.clone());
        event
    }

    /// Reads a frame of the sample; returns whether the line is one.
    fn read_frame(&mut self, line: &str) -> bool {
        let Some(frame) = ScriptFrame::parse_frame(line) else {
            // `perf script -F +srcline` prints the line under its frame.
            let number = line.trim().rsplit_once(':').map(|(_, number)| number);
            let is_line = number.is_some_and(|n| n.parse::<u32>().is_ok());
            return match (self.frames.last_mut(), number) {
                (Some(last), Some(number)) if is_line => {
                    if self.options.lines {
                        last.name = format!("{}:{number}", last.name);
                    }
                    true
                }
                _ => false,
            };
        };
        if frame.image == "inlined" {
            if self.options.inline {
                self.frames.push(FrameName {
                    name: frame.symbol.to_owned(),
                    address: frame.address.to_owned(),
                    module: None,
                });
            }
            return true;
        }
        let module = match frame.image {
            "" => "",
            path => base_of_path(path),
        };
        let unnamed = frame.symbol.is_empty() || frame.symbol == "[unknown]";
        self.unnamed += u64::from(unnamed);
        let name = match (unnamed, module) {
            (false, _) => frame.symbol.to_owned(),
            (true, "" | "[unknown]") => "[unknown]".to_owned(),
            (true, module) => format!("{module}+0x{}", frame.address.trim_start_matches('0')),
        };
        self.frames.push(FrameName {
            name,
            address: frame.address.to_owned(),
            module: Some(module.to_owned()),
        });
        true
    }

    fn end_sample(&mut self, host: Option<&str>) -> Result<(), ReadFault> {
        let Some(sample) = self.sample.take() else {
            return Ok(());
        };
        let owner = Owner {
            host,
            process: Some(&sample.comm),
            pid: sample.pid,
            thread: Some(&sample.comm),
            tid: Some(sample.tid),
            slice: None,
        };
        let mut node = self.draft.group_node(&owner, sample.at)?;
        let (mut address, mut module) = (String::new(), String::new());
        while let Some(frame) = self.frames.pop() {
            match frame.module {
                Some(own) => module = own,
                None if frame.address != address => module.clear(),
                None => {}
            }
            address = frame.address;
            let method: MethodId = self.draft.intern_method(&frame.name, &module)?;
            node = self.draft.child_node(node, method, sample.at)?;
        }
        self.draft.add_cost(sample.event.samples, node, 1);
        self.draft
            .add_cost(sample.event.period, node, sample.period);
        Ok(())
    }
}

/// Returns the value types of perf's samples of an event: their number, and the sum of their
/// periods.
pub(crate) fn event_value_types(name: &str) -> [ValueType; 2] {
    let base = name.split([':', '/']).next().unwrap_or(name);
    let unit = match base {
        "cpu-clock" | "task-clock" => "nanoseconds",
        _ => "count",
    };
    let value_type = |name: String, unit: &str| ValueType {
        name,
        unit: unit.to_owned(),
    };
    [
        value_type(name.to_owned(), "samples"),
        value_type(format!("{name}-period"), unit),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_from_what_is_around_them() {
        let parse = |line| {
            let h = ScriptHeader::parse_header(line)?;
            Some((h.comm, h.pid, h.tid, h.period, h.event, h.rest))
        };
        for (line, expected) in [
            (
                "work  7370 13478.995728:    2004008 cpu-clock: ",
                Some(("work", None, 7370, Some(2_004_008), "cpu-clock", "")),
            ),
            (
                "Web Content 12 7/8 [003] 1.5:  1 cycles:u: ",
                Some(("Web Content 12", Some(7), 8, Some(1), "cycles:u", "")),
            ),
            (
                "swapper     0 [000] 2.0: sched:sched_switch: prev_comm=a",
                Some((
                    "swapper",
                    None,
                    0,
                    None,
                    "sched:sched_switch",
                    "prev_comm=a",
                )),
            ),
            (
                "ls 3 1.0: 250000 cpu-clock:  ffffffff81 memset+0x1 ([kernel.kallsyms])",
                Some((
                    "ls",
                    None,
                    3,
                    Some(250_000),
                    "cpu-clock",
                    "ffffffff81 memset+0x1 ([kernel.kallsyms])",
                )),
            ),
            (
                "java  3244 cpu-clock: ",
                Some(("java", None, 3244, None, "cpu-clock", "")),
            ),
            (
                "java\t3244\t1.5:\t1 cycles:",
                Some(("java", None, 3244, Some(1), "cycles", "")),
            ),
            ("see line 12 there: no", None),
            ("main;f 12", None),
            ("a b c: 3", None),
            ("", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn frames_may_have_anything_for_a_name() {
        let parse = |line| {
            let f = ScriptFrame::parse_frame(line)?;
            Some((f.address, f.symbol, f.image))
        };
        for (line, expected) in [
            (
                "\t  114c leaf+0x23 (/usr/bin/a b)",
                Some(("114c", "leaf", "/usr/bin/a b")),
            ),
            ("\t  1 f(int) (/x)", Some(("1", "f(int)", "/x"))),
            ("\t  1 operator+0x (x)", Some(("1", "operator+0x", "x"))),
            (
                "\t  0 [unknown] ([unknown])",
                Some(("0", "[unknown]", "[unknown]")),
            ),
            ("\t  7f (/x)", Some(("7f", "", "/x"))),
            (
                "\t  1 f+0x6 (/lib/libssl.so.3 (deleted))",
                Some(("1", "f", "/lib/libssl.so.3 (deleted)")),
            ),
            (
                "\t  1 f (/memfd:doublemapper (deleted))",
                Some(("1", "f", "/memfd:doublemapper (deleted)")),
            ),
            (
                "\t  1 std::function<void (int)>::operator()(int) const+0x2 (/opt/My App (x86)/app)",
                Some((
                    "1",
                    "std::function<void (int)>::operator()(int) const",
                    "/opt/My App (x86)/app",
                )),
            ),
            (
                "\t  1 operator new (unsigned long) (/opt/My App (x86)/app (deleted))",
                Some((
                    "1",
                    "operator new (unsigned long)",
                    "/opt/My App (x86)/app (deleted)",
                )),
            ),
            (
                "\t  1 f+0x2 (/opt/a) (b/x)",
                Some(("1", "f", "/opt/a) (b/x")),
            ),
            ("\t  1 f (/opt/a :)/x)", Some(("1", "f", "/opt/a :)/x"))),
            ("\t  1 f (/opt/a(b/x)", Some(("1", "f", "/opt/a(b/x"))),
            (
                "\t  1 (/SYSV0 (deleted))",
                Some(("1", "", "/SYSV0 (deleted)")),
            ),
            ("\t  1 f+0x2 (/lib/x+0x1136)", Some(("1", "f", "/lib/x"))),
            (
                "\t  1 void ns::g(int) (inlined)",
                Some(("1", "void ns::g(int)", "inlined")),
            ),
            ("\t  1 f+0x6 (/lib/x", None),
            ("\t  7f", Some(("7f", "", ""))),
            ("\t  work.c:12", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
