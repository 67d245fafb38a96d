//! Reader of the names of functions of JavaScript.

use super::engine::V8Layout;
use super::heap::{Characters, Heap, Object, ReadMemory, small_integer};
use crate::read_budget::ReadBudget;
use std::collections::HashMap;
use std::rc::Rc;

/// Offset of the script's first line, minus one.
const SCRIPT_LINE: u64 = 24;
/// Words of a scope: the flags, and the number of its named variables.
const SCOPE_FLAGS: u64 = 8;
const SCOPE_VARIABLES: u64 = 24;
/// Bits of the flags, the same in all tested versions.
const SCOPE_KIND: u32 = 15;
const HAS_CLASS_VARIABLE: u32 = 1 << 10;
const HAS_NAME: u32 = 3 << 12;
const HAS_INFERRED_NAME: u32 = 1 << 14;
/// Number of variables from which on their names are in a table (unknown for V8 10.2).
const MOST_VARIABLES: i32 = 75;
/// Maximum length of a source whose lines are counted, in characters, and the number read at once.
const LONGEST_SOURCE: u64 = 1 << 26;
const PIECE: usize = 1 << 16;
/// Maximum number of line ends that are kept, and of those of one script.
const MOST_KEPT: usize = 1 << 22;
/// Maximum number of scripts whose line ends are kept.
const MOST_SCRIPTS: usize = 4096;

/// A function of JavaScript.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsFunction {
    /// Its name; `(anonymous)` if it has none.
    pub name: String,
    /// The file of its script.
    pub file: String,
    /// The line on which it begins.
    pub first_line: u32,
}

impl JsFunction {
    /// Returns its name in reports: `handle (server.js:12)`.
    pub fn display_name(&self) -> String {
        // Many packages have an `index.js`.
        let file = match self.file.rsplit_once("/node_modules/") {
            Some((_, in_package)) => in_package,
            None if self.file.starts_with("node:") => self.file.as_str(),
            None => self.file.rsplit('/').next().unwrap_or_default(),
        };
        format!("{} ({file}:{})", self.name, self.first_line)
    }
}

/// Addresses that the kernel half saw of a function, with their tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFunction {
    /// The part that its closures share.
    pub shared: u64,
    /// Its name or scope.
    pub name: u64,
    /// Its script.
    pub script: u64,
}

/// The ends of the lines of a script; `None` if they could not be read.
type LineEnds = Option<Rc<[u32]>>;

/// Reads names of functions from the memory of their processes.
#[derive(Default)]
pub struct FunctionReader {
    /// Ends of lines by process, script and source.
    lines: HashMap<(u32, Object, Object), LineEnds>,
    kept: usize,
    /// Budget of source characters.
    budget: ReadBudget,
}

impl FunctionReader {
    /// Returns the name of a function of a process, from its memory; `None` if it is gone.
    pub fn read_function(
        &mut self,
        process: u32,
        layout: &V8Layout,
        function: SharedFunction,
        read: &ReadMemory<'_>,
    ) -> Option<JsFunction> {
        let heap = Heap { read };
        let shared = Object::of_word(function.shared)?;
        let is_same = heap.type_of(shared)? == layout.shared_type
            && heap.word(shared.at(layout.shared_name.into()))? == function.name
            && heap.word(shared.at(layout.shared_script.into()))? == function.script;
        let script = Object::of_word(function.script).filter(|_| is_same)?;
        if heap.type_of(script)? != layout.script_type {
            return None;
        }
        let named = Object::of_word(function.name)?;
        let (name, start) = if heap.type_of(named)? == layout.scope_type {
            read_scope(&heap, layout, named)?
        } else {
            (heap.text(named), None)
        };
        let anonymous = || "(anonymous)".to_owned();
        let name = name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(anonymous);
        let file = heap
            .object(script.at(layout.script_name.into()))
            .and_then(|file| heap.text(file))
            .filter(|file| !file.is_empty());
        let line = start.and_then(|start| self.line_at(process, layout, script, start, &heap));
        Some(JsFunction {
            name,
            file: file.map_or_else(|| "[evaluated]".to_owned(), |file| path_of(&file)),
            first_line: line.unwrap_or(0),
        })
    }

    /// Returns the line at a place in the source of a script.
    fn line_at(
        &mut self,
        process: u32,
        layout: &V8Layout,
        script: Object,
        place: u32,
        heap: &Heap<'_>,
    ) -> Option<u32> {
        let source = heap.object(script.at(layout.script_source.into()))?;
        let key = (process, script, source);
        if self.kept > MOST_KEPT || self.lines.len() > MOST_SCRIPTS {
            self.lines.clear();
            self.kept = 0;
        }
        let ends = match self.lines.get(&key) {
            Some(ends) => ends.clone(),
            None => {
                let ends = self.read_ends(heap, layout, script, source);
                let ends: LineEnds = ends.map(Rc::from);
                self.kept += ends.as_ref().map_or(0, |ends| ends.len());
                self.lines.insert(key, ends.clone());
                ends
            }
        };
        let before = ends?.partition_point(|end| *end < place);
        let first = small_integer(heap.word(script.at(SCRIPT_LINE))?).unwrap_or(0);
        u32::try_from(first.max(0) as usize + before + 1).ok()
    }

    /// Returns the ends of the lines of a script, unless the budget is spent.
    fn read_ends(
        &mut self,
        heap: &Heap<'_>,
        layout: &V8Layout,
        script: Object,
        source: Object,
    ) -> Option<Vec<u32>> {
        if !self.budget.has_left() {
            return None;
        }
        if let Some(ends) = kept_ends(heap, layout, script) {
            self.budget.spend(8 * ends.len() as u64);
            return Some(ends);
        }
        let source = heap.flat_characters(source)?;
        self.budget.spend(source.count.min(LONGEST_SOURCE));
        count_ends(heap, source)
    }
}

/// Reads the name of a function and its place in the source, from its scope.
fn read_scope(
    heap: &Heap<'_>,
    layout: &V8Layout,
    scope: Object,
) -> Option<(Option<String>, Option<u32>)> {
    let early = layout.scope_names == 5;
    let word = |index: u64| heap.word(scope.at(8 * index));
    let flags = heap.word(scope.at(SCOPE_FLAGS))?;
    // The kind of a function's scope is 2 or 4; a module's is the next one.
    let (flags, module) = if early {
        (flags as u32, 5)
    } else {
        ((flags >> 32) as u32, 3)
    };
    let variables = small_integer(heap.word(scope.at(SCOPE_VARIABLES))?)?;
    let names = if variables < MOST_VARIABLES {
        variables
    } else {
        1
    };
    let mut next = 1 + u64::from(layout.scope_names);
    next += u64::from(flags & SCOPE_KIND == module);
    next += u64::try_from(names.checked_add(variables)?).ok()?;
    next += u64::from(flags & HAS_CLASS_VARIABLE != 0);
    let mut name = None;
    if flags & HAS_NAME != 0 {
        name = Object::of_word(word(next)?).and_then(|name| heap.text(name));
        next += 2;
    }
    if flags & HAS_INFERRED_NAME != 0 {
        if name.as_ref().is_none_or(String::is_empty) {
            name = Object::of_word(word(next)?).and_then(|name| heap.text(name));
        }
        next += 1;
    }
    let start = small_integer(word(if early { 4 } else { next })?);
    Some((name, start.and_then(|start| u32::try_from(start).ok())))
}

/// Returns the ends of the lines of a script, if V8 has computed them.
fn kept_ends(heap: &Heap<'_>, layout: &V8Layout, script: Object) -> Option<Vec<u32>> {
    let array = heap.object(script.at(layout.script_line_ends.into()))?;
    if heap.type_of(array)? != layout.array_type {
        return None;
    }
    let count = small_integer(heap.word(array.at(8))?)?;
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= MOST_KEPT)?;
    let mut bytes = vec![0; 8 * count];
    (heap.read)(array.at(16), &mut bytes).then_some(())?;
    let words = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
    let ends: Option<Vec<u32>> = words
        .map(|word| u32::try_from(small_integer(word)?).ok())
        .collect();
    ends.filter(|ends| ends.is_sorted())
}

/// Returns the ends of the lines, counted in the source itself.
fn count_ends(heap: &Heap<'_>, source: Characters) -> Option<Vec<u32>> {
    let Characters {
        address,
        count,
        is_one_byte,
    } = source;
    if count > LONGEST_SOURCE {
        return None;
    }
    let size: usize = if is_one_byte { 1 } else { 2 };
    let total = usize::try_from(count).ok()? * size;
    let mut ends = Vec::new();
    let mut piece = vec![0; PIECE.min(total)];
    let (mut at, mut after_return) = (0, false);
    while at < total {
        let bytes = piece.get_mut(..PIECE.min(total - at))?;
        (heap.read)(address.wrapping_add(at as u64), bytes).then_some(())?;
        for (index, unit) in bytes.chunks_exact(size).enumerate() {
            let place = (at / size + index) as u32;
            let unit = unit
                .iter()
                .rev()
                .fold(0_u16, |all, byte| all << 8 | u16::from(*byte));
            // The two characters of a Windows line end count as one.
            if after_return && unit == u16::from(b'\n') {
                ends.pop();
            }
            after_return = unit == u16::from(b'\r');
            if matches!(unit, 10 | 13 | 0x2028 | 0x2029) {
                ends.push(place);
            }
        }
        at += bytes.len();
    }
    (ends.len() <= MOST_KEPT).then_some(ends)
}

/// Returns the path in a script's name: modules have a URL.
fn path_of(name: &str) -> String {
    let Some(path) = name.strip_prefix("file://") else {
        return name.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let coded = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() {
            &behind[2..]
        } else {
            behind
        };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}
