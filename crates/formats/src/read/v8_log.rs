//! V8's log, as `node --prof` writes it: places of code, and ticks with the addresses of a stack.

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::lines::LineReader;
use super::options::ReadOptions;
use super::skipped::Skipped;
use crate::frame::base_of_path;
use profile::{MethodId, ValueType};
use std::collections::BTreeMap;

/// Returns whether a text is such a log.
pub(crate) fn detect_v8_log(text: &str) -> bool {
    text.starts_with("v8-version,")
}

/// Code in memory.
#[derive(Clone, Copy)]
struct LoggedCode {
    end: u64,
    method: MethodId,
    is_function: bool,
}

struct LogReader<'o> {
    draft: TreeDraft,
    options: &'o ReadOptions,
    /// Code by start.
    codes: BTreeMap<u64, LoggedCode>,
    libraries: BTreeMap<u64, LoggedCode>,
    /// The previous tick, which lasts until the next: its time and node.
    last: Option<(f64, profile::DraftNode)>,
    unnamed: u64,
}

/// Approximate memory of a code entry.
const CODE_BYTES: u64 = 64;

pub(crate) fn read_v8_log(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let value_type = |name: &str, unit: &str| ValueType {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    let types = vec![
        value_type("samples", "samples"),
        value_type("time", "nanoseconds"),
    ];
    let mut reader = LogReader {
        draft: TreeDraft::new(types, options),
        options,
        codes: BTreeMap::new(),
        libraries: BTreeMap::new(),
        last: None,
        unnamed: 0,
    };
    let (mut skipped, mut read) = (Skipped::new("lines"), 0);
    let mut lines = LineReader::new(input);
    while let Some((at, line)) = lines.next_line()? {
        if line.is_empty() {
            continue;
        }
        match reader.read_line(&line, at)? {
            Some(()) => read += 1,
            None => skipped.skip_part("its fields make no sense", at),
        }
    }
    let unnamed = reader.unnamed;
    let mut draft = reader.draft;
    skipped.note_skipped(read, &mut draft)?;
    if unnamed > 0 {
        draft.add_note(format!(
            "{unnamed} frames are in no code that the log names"
        ));
    }
    draft.add_note("code of libraries and of node itself goes by the name of the file: the log has no symbols of it");
    Ok(draft)
}

impl LogReader<'_> {
    /// Reads a line; `None` if it is invalid.
    fn read_line(&mut self, line: &str, at: FilePosition) -> Result<Option<()>, ReadFault> {
        let fields = split_fields(line);
        let field = |index: usize| fields.get(index).map_or("", String::as_str);
        match field(0) {
            "code-creation" => self.code_creation(&fields, at),
            "code-move" => {
                let (Some(from), Some(to)) = (parse_address(field(1)), parse_address(field(2)))
                else {
                    return Ok(None);
                };
                if let Some(code) = self.codes.remove(&from) {
                    let length = code.end.wrapping_sub(from);
                    self.add_code(to, length, code.method, code.is_function, at)?;
                }
                Ok(Some(()))
            }
            "code-delete" => {
                let removed = parse_address(field(1)).map(|from| self.codes.remove(&from));
                Ok(removed.map(|_| ()))
            }
            "shared-library" => {
                let (Some(start), Some(end)) = (parse_address(field(2)), parse_address(field(3)))
                else {
                    return Ok(None);
                };
                let name = base_of_path(field(1));
                let method = self.draft.intern_method(name, name)?;
                self.draft.charge_memory(CODE_BYTES, at)?;
                let code = LoggedCode {
                    end,
                    method,
                    is_function: false,
                };
                self.libraries.insert(start, code);
                Ok(Some(()))
            }
            "tick" => self.read_tick(&fields, at),
            // Other events of the engine are not code and take no time of their own.
            _ => Ok(Some(())),
        }
    }

    /// Reads `code-creation,type,kind,[time,]address,size,name[,function,state]`.
    fn code_creation(
        &mut self,
        fields: &[String],
        at: FilePosition,
    ) -> Result<Option<()>, ReadFault> {
        let field = |index: usize| fields.get(index).map_or("", String::as_str);
        // Old versions have no time.
        let first = if field(3).starts_with("0x") { 3 } else { 4 };
        let (Some(start), Some(size)) =
            (parse_address(field(first)), parse_number(field(first + 1)))
        else {
            return Ok(None);
        };
        let (kind, name) = (field(1), field(first + 2));
        let is_function = !field(first + 3).is_empty();
        let (name, module) = self.name_of_code(kind, name, is_function);
        let method = self.draft.intern_method(&name, &module)?;
        self.add_code(start, size as u64, method, is_function, at)?;
        Ok(Some(()))
    }

    /// Returns name and module of `function /file.js:10:5`.
    fn name_of_code(&self, kind: &str, text: &str, is_function: bool) -> (String, String) {
        let place = text
            .rsplit_once(' ')
            .or_else(|| text.contains(':').then_some(("", text)));
        if is_function
            && let Some((name, place)) = place
            && let Some((file, line)) = split_place(place)
        {
            let module = file.strip_prefix("file://").unwrap_or(file);
            let name = match (name.is_empty(), self.options.lines) {
                (true, _) => format!("(anonymous):{line}"),
                (false, true) => format!("{name}:{line}"),
                (false, false) => name.to_owned(),
            };
            return (name, module.to_owned());
        }
        let text = if text.is_empty() { "(anonymous)" } else { text };
        let name = if is_function {
            text.to_owned()
        } else {
            format!("{kind}: {text}")
        };
        (name, String::new())
    }

    fn add_code(
        &mut self,
        start: u64,
        size: u64,
        method: MethodId,
        is_function: bool,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        self.draft.charge_memory(CODE_BYTES, at)?;
        let end = start.saturating_add(size);
        // Overwritten code is gone.
        if let Some((before, code)) = self.codes.range(..start).next_back()
            && code.end > start
        {
            let before = *before;
            self.codes.remove(&before);
        }
        while let Some((covered, _)) = self.codes.range(start..end.max(start)).next() {
            let covered = *covered;
            self.codes.remove(&covered);
        }
        let code = LoggedCode {
            end,
            method,
            is_function,
        };
        self.codes.insert(start, code);
        Ok(())
    }

    fn code_at(&self, address: u64) -> Option<LoggedCode> {
        let within = |codes: &BTreeMap<u64, LoggedCode>| {
            let (_, code) = codes.range(..=address).next_back()?;
            (address < code.end).then_some(*code)
        };
        within(&self.codes).or_else(|| within(&self.libraries))
    }

    /// Reads `tick,pc,time,is external,top of the stack or external function,state,frames…`.
    fn read_tick(&mut self, fields: &[String], at: FilePosition) -> Result<Option<()>, ReadFault> {
        let field = |index: usize| fields.get(index).map_or("", String::as_str);
        let (Some(mut pc), Some(time), Some(top)) = (
            parse_address(field(1)),
            parse_number(field(2)),
            parse_address(field(4)),
        ) else {
            return Ok(None);
        };
        let mut addresses = Vec::new();
        let mut before = pc;
        if field(3) == "1" {
            // An external function, called by the first frame.
            pc = top;
        } else if let Some(code) = self.code_at(top)
            && code.is_function
        {
            addresses.push(top);
        }
        for frame in fields.iter().skip(6) {
            let offset = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let next = if let Some(by) = frame.strip_prefix('+') {
                offset(by).map(|by| before.wrapping_add(by))
            } else if let Some(by) = frame.strip_prefix('-') {
                offset(by).map(|by| before.wrapping_sub(by))
            } else if frame.starts_with('o') {
                // More frames than V8 keeps.
                continue;
            } else {
                parse_address(frame)
            };
            let Some(next) = next else { return Ok(None) };
            before = next;
            addresses.push(next);
        }
        let mut node = self.draft.group_node(&Owner::default(), at)?;
        for address in addresses.iter().rev() {
            match self.code_at(*address) {
                Some(code) => node = self.draft.child_node(node, code.method, at)?,
                None => self.unnamed += 1,
            }
        }
        let method = match self.code_at(pc) {
            Some(code) => code.method,
            None => self.draft.intern_method("[unknown]", "")?,
        };
        node = self.draft.child_node(node, method, at)?;
        self.draft.add_cost(0, node, 1);
        if let Some((start, last)) = self.last.replace((time, node)) {
            let microseconds = (time - start).max(0.0);
            self.draft
                .add_cost(1, last, (microseconds * 1000.0).round() as i64);
        }
        Ok(Some(()))
    }
}

/// Splits a line into fields; quoted ones may have commas, and escapes like `\x2C`.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut signs = line.chars().peekable();
    while let Some(c) = signs.next() {
        let Some(field) = fields.last_mut() else {
            break;
        };
        match c {
            '"' if quoted && signs.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            '\\' => {
                let digits = match signs.next() {
                    Some('x') => 2,
                    Some('u') => 4,
                    Some('n') => {
                        field.push(' ');
                        continue;
                    }
                    Some(other) => {
                        field.push(other);
                        continue;
                    }
                    None => continue,
                };
                let code: String = signs.by_ref().take(digits).collect();
                let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                field.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            c => field.push(c),
        }
    }
    fields
}

fn parse_address(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

/// Returns file and line of `/file.js:10:5`.
fn split_place(text: &str) -> Option<(&str, u32)> {
    let (rest, last) = text.rsplit_once(':')?;
    last.parse::<u32>().ok()?;
    match rest
        .rsplit_once(':')
        .map(|(file, line)| (file, line.parse()))
    {
        Some((file, Ok(line))) => Some((file, line)),
        _ => Some((rest, last.parse().ok()?)),
    }
}
