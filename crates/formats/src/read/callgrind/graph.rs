//! Parses the file: functions with their own costs, and calls with theirs.

use crate::frame::base_of_path;
use crate::read::error::{FilePosition, ReadFault};
use rustc_hash::FxHashMap;

/// Maximum number of rounds in which contradictory costs are reconciled.
const ROUNDS: usize = 100;

/// Numbers of names: `(12) name` at the first use, `(12)` later, or only the name.
#[derive(Default)]
struct NameTable {
    names: Vec<String>,
    by_number: FxHashMap<u64, u32>,
    by_name: FxHashMap<String, u32>,
    bytes: u64,
    /// Number of numbers used without a name.
    unnamed: u64,
}

impl NameTable {
    fn resolve_name(&mut self, text: &str) -> u32 {
        let text = text.trim();
        let numbered = text.strip_prefix('(').and_then(|rest| {
            let (number, name) = rest.split_once(')')?;
            Some((number.parse::<u64>().ok()?, name.trim()))
        });
        let Some((number, name)) = numbered else {
            return self.intern_name(text);
        };
        if name.is_empty()
            && let Some(index) = self.by_number.get(&number)
        {
            return *index;
        }
        // Some files use a number that they never define.
        self.unnamed += u64::from(name.is_empty());
        let index = match name {
            "" => self.push_name(&format!("({number})")),
            name => self.push_name(name),
        };
        self.by_number.insert(number, index);
        index
    }

    fn intern_name(&mut self, name: &str) -> u32 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let index = self.push_name(name);
        self.by_name.insert(name.to_owned(), index);
        index
    }

    fn push_name(&mut self, name: &str) -> u32 {
        self.bytes += 100 + 2 * name.len() as u64;
        self.names.push(name.to_owned());
        // Each takes a line, so the number fits.
        (self.names.len() - 1) as u32
    }
}

/// A function of the graph; with `--separate-callers`, in one of its contexts.
pub(crate) struct GraphFunction {
    /// Indices of names: object and function.
    object: u32,
    name: u32,
    /// Its own costs by event.
    pub own: Vec<i64>,
    /// Costs by event of calls to other functions.
    pub calls: Vec<(u32, Vec<i64>)>,
}

/// The subject of the next cost line.
enum Next {
    Own,
    Call(u32),
}

/// The call graph of a program, with costs by event.
pub(crate) struct CostGraph {
    events: Vec<String>,
    /// Number of positions at the start of a cost line.
    positions: usize,
    objects: NameTable,
    names: NameTable,
    /// Functions by object and name.
    index: FxHashMap<(u32, u32), u32>,
    pub functions: Vec<GraphFunction>,
    /// Index of a call in its caller's list.
    edges: FxHashMap<(u32, u32), u32>,
    object: u32,
    function: Option<u32>,
    callee_object: Option<u32>,
    callee_name: Option<u32>,
    next: Next,
    /// Costs of the last cost line, to which others may be relative.
    last_costs: Vec<i64>,
    /// True if names are kept unchanged, without removing the callers that `--separate-callers`
    /// adds.
    keeps_names: bool,
    memory: u64,
}

impl CostGraph {
    pub fn new(memory: u64) -> Self {
        let mut objects = NameTable::default();
        let object = objects.push_name("");
        Self {
            events: Vec::new(),
            positions: 1,
            objects,
            names: NameTable::default(),
            index: FxHashMap::default(),
            functions: Vec::new(),
            edges: FxHashMap::default(),
            object,
            function: None,
            callee_object: None,
            callee_name: None,
            next: Next::Own,
            last_costs: Vec::new(),
            keeps_names: false,
            memory,
        }
    }

    pub fn event_names(&self) -> &[String] {
        &self.events
    }

    pub fn memory_size(&self) -> u64 {
        let each = 48 + 16 * self.events.len() as u64;
        let entries = (self.functions.len() + self.edges.len()) as u64;
        self.objects.bytes + self.names.bytes + 2 * each * entries
    }

    /// Sets the events, for formats that name them differently.
    pub fn set_events(&mut self, names: &[&str]) {
        self.events = names.iter().map(|name| (*name).to_owned()).collect();
        self.keeps_names = true;
    }

    /// Returns the function of this name in `object`; a new one has no costs yet.
    pub fn add_function(
        &mut self,
        object: &str,
        name: &str,
        at: FilePosition,
    ) -> Result<u32, ReadFault> {
        let object = self.objects.intern_name(object);
        let name = self.names.intern_name(name);
        self.function_index(object, name, at)
    }

    /// Adds a cost of the first event to a function itself, or to its calls of `callee`.
    pub fn add_cost(
        &mut self,
        function: u32,
        callee: Option<u32>,
        cost: i64,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        self.add_costs(function, callee, vec![cost], at)
    }

    /// Returns the number of names that the file uses but does not define.
    pub fn unnamed(&self) -> u64 {
        self.objects.unnamed + self.names.unnamed
    }

    /// Returns the sum of each function's own costs and those of its calls, by event.
    pub fn passed_costs(&self, at: FilePosition) -> Result<Vec<Vec<i64>>, ReadFault> {
        let overflow = || ReadFault::damaged("the costs add up to more than 63 bits", at);
        let mut all = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let mut passed = vec![0_i64; self.events.len()];
            for costs in std::iter::once(&function.own).chain(function.calls.iter().map(|c| &c.1)) {
                for (sum, cost) in passed.iter_mut().zip(costs) {
                    *sum = sum.checked_add(*cost).ok_or_else(overflow)?;
                }
            }
            all.push(passed);
        }
        Ok(all)
    }

    /// Returns the sum of the costs that callers paid for each function, by event.
    fn received_costs(&self) -> Vec<Vec<i64>> {
        let mut all = vec![vec![0_i64; self.events.len()]; self.functions.len()];
        for (callee, costs) in self.functions.iter().flat_map(|function| &function.calls) {
            let received = all.get_mut(*callee as usize).into_iter().flatten();
            for (sum, cost) in received.zip(costs) {
                *sum = sum.saturating_add(*cost);
            }
        }
        all
    }

    /// Scales calls down if a function's callers paid more than it passed on. With recursion, for
    /// instance, the outer call contains the inner call's cost: the call paths would cost more than
    /// the program. Returns whether more than rounding was removed.
    pub fn reconcile_calls(&mut self, at: FilePosition) -> Result<bool, ReadFault> {
        let mut is_changed = false;
        for _ in 0..ROUNDS {
            let (passed, received) = (self.passed_costs(at)?, self.received_costs());
            let mut again = false;
            let calls = self.functions.iter_mut().flat_map(|f| &mut f.calls);
            for (callee, costs) in calls {
                let callee = *callee as usize;
                let (Some(passed), Some(received)) = (passed.get(callee), received.get(callee))
                else {
                    continue;
                };
                // For a function missing from the file, only calls are known.
                if passed.iter().all(|passed| *passed == 0) {
                    continue;
                }
                for ((cost, passed), received) in costs.iter_mut().zip(passed).zip(received) {
                    if received > passed && *cost > 0 {
                        again = true;
                        is_changed |= received - passed > passed / 100;
                        let scaled =
                            i128::from(*cost) * i128::from(*passed) / i128::from(*received);
                        *cost = scaled as i64;
                    }
                }
            }
            if !again {
                break;
            }
        }
        Ok(is_changed)
    }

    /// Returns the method's name and module.
    pub fn function_label(&self, function: &GraphFunction) -> (&str, &str) {
        let name = self.names.names.get(function.name as usize);
        let object = self.objects.names.get(function.object as usize);
        let object = object.map_or("", |object| match object.as_str() {
            "" | "???" => "",
            path => base_of_path(path),
        });
        let name = name.map_or("", |name| {
            if self.keeps_names {
                name
            } else {
                without_callers(name)
            }
        });
        (name, object)
    }

    pub fn read_line(&mut self, line: &str, at: FilePosition) -> Result<(), ReadFault> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            return self.read_cost(line, at);
        }
        let separator = line.find(['=', ':']);
        let Some((key, rest)) = separator.and_then(|s| line.split_at_checked(s)) else {
            return Err(ReadFault::damaged("neither a cost nor a specification", at));
        };
        let value = rest.get(1..).unwrap_or_default().trim();
        if rest.starts_with(':') {
            return self.read_header(key, value, at);
        }
        match key {
            "ob" => self.object = self.objects.resolve_name(value),
            "fn" => {
                let name = self.names.resolve_name(value);
                self.function = Some(self.function_index(self.object, name, at)?);
                self.next = Next::Own;
            }
            "cob" => self.callee_object = Some(self.objects.resolve_name(value)),
            "cfn" => self.callee_name = Some(self.names.resolve_name(value)),
            "calls" => {
                let object = self.callee_object.take().unwrap_or(self.object);
                let Some(name) = self.callee_name.take() else {
                    return Err(ReadFault::damaged("a call of no function (cfn=)", at));
                };
                self.next = Next::Call(self.function_index(object, name, at)?);
            }
            // Source files do not separate functions; jumps cost nothing.
            "fl" | "fi" | "fe" | "cfi" | "cfl" | "jfi" | "jump" | "jcnd" | "rcalls" | "frfn" => {}
            _ => {
                return Err(ReadFault::damaged(
                    format!("an unknown specification {key:?}"),
                    at,
                ));
            }
        }
        Ok(())
    }

    fn read_header(&mut self, key: &str, value: &str, at: FilePosition) -> Result<(), ReadFault> {
        match key {
            "events" => {
                let events: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                if events.is_empty() || events.len() > 1000 {
                    let what = format!("{} events", events.len());
                    return Err(ReadFault::damaged(what, at));
                }
                if !self.events.is_empty() && self.events != events {
                    let what = "other events than in the part before";
                    return Err(ReadFault::damaged(what, at));
                }
                self.events = events;
            }
            "positions" => self.positions = value.split_whitespace().count().clamp(1, 4),
            _ => {}
        }
        Ok(())
    }

    fn function_index(
        &mut self,
        object: u32,
        name: u32,
        at: FilePosition,
    ) -> Result<u32, ReadFault> {
        if let Some(index) = self.index.get(&(object, name)) {
            return Ok(*index);
        }
        if self.memory_size() > self.memory {
            let what = format!(
                "its functions need more than {} MiB of memory",
                self.memory >> 20
            );
            return Err(ReadFault::too_large(what, at));
        }
        let index = self.functions.len() as u32;
        self.functions.push(GraphFunction {
            object,
            name,
            own: vec![0; self.events.len()],
            calls: Vec::new(),
        });
        self.index.insert((object, name), index);
        Ok(index)
    }

    fn read_cost(&mut self, line: &str, at: FilePosition) -> Result<(), ReadFault> {
        let mut costs = vec![0; self.events.len()];
        let numbers = line.split_whitespace().skip(self.positions);
        for (index, number) in numbers.enumerate() {
            let before = self.last_costs.get(index).copied().unwrap_or(0);
            let (Some(cost), Some(value)) = (costs.get_mut(index), parse_cost(number, before))
            else {
                let what = format!(
                    "{number:?} is no cost of one of {} events",
                    self.events.len()
                );
                return Err(ReadFault::damaged(what, at));
            };
            if value < 0 {
                return Err(ReadFault::damaged("a negative cost", at));
            }
            *cost = value;
        }
        self.last_costs.clone_from(&costs);
        let Some(current) = self.function else {
            return Err(ReadFault::damaged("a cost of no function (fn=)", at));
        };
        let callee = match std::mem::replace(&mut self.next, Next::Own) {
            Next::Own => None,
            Next::Call(callee) => Some(callee),
        };
        self.add_costs(current, callee, costs, at)
    }

    fn add_costs(
        &mut self,
        current: u32,
        callee: Option<u32>,
        costs: Vec<i64>,
        at: FilePosition,
    ) -> Result<(), ReadFault> {
        let call = match callee {
            None => None,
            Some(callee) => Some((callee, self.edge_index(current, callee, at)?)),
        };
        let Some(function) = self.functions.get_mut(current as usize) else {
            return Ok(());
        };
        let sums = match call {
            None => &mut function.own,
            Some((callee, edge)) => {
                if edge as usize == function.calls.len() {
                    function.calls.push((callee, vec![0; costs.len()]));
                }
                let Some((_, sums)) = function.calls.get_mut(edge as usize) else {
                    return Ok(());
                };
                sums
            }
        };
        // A function may precede the list of events.
        sums.resize(costs.len(), 0);
        for (sum, cost) in sums.iter_mut().zip(costs) {
            *sum = sum.checked_add(cost).ok_or_else(|| {
                ReadFault::damaged("the costs of a function add up to more than 63 bits", at)
            })?;
        }
        Ok(())
    }

    fn edge_index(&mut self, caller: u32, callee: u32, at: FilePosition) -> Result<u32, ReadFault> {
        if self.memory_size() > self.memory {
            let what = format!(
                "its calls need more than {} MiB of memory",
                self.memory >> 20
            );
            return Err(ReadFault::too_large(what, at));
        }
        let known = self
            .functions
            .get(caller as usize)
            .map_or(0, |f| f.calls.len());
        Ok(*self.edges.entry((caller, callee)).or_insert(known as u32))
    }
}

/// Parses a cost. Some writers abbreviate costs as the format allows for positions: `*` is the cost
/// of the previous line, `+3` and `-3` are relative to it.
fn parse_cost(number: &str, before: i64) -> Option<i64> {
    match number.strip_prefix('*') {
        Some("") => Some(before),
        Some(_) => None,
        None if number.starts_with(['+', '-']) => before.checked_add(number.parse().ok()?),
        None => number.parse().ok(),
    }
}

/// Returns `leaf` of `leaf'left'main`, the form of `--separate-callers` and `--separate-recs`.
/// Rust's lifetimes, which have apostrophes too, are in brackets or after `&`.
fn without_callers(name: &str) -> &str {
    let mut depth = 0_u32;
    let mut before = None;
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == Some('-') => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\'' if depth == 0 && at > 0 && !matches!(before, Some('&' | ' ')) => {
                return name.get(..at).unwrap_or(name);
            }
            _ => {}
        }
        before = Some(c);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::without_callers;

    #[test]
    fn names_lose_their_callers() {
        for (name, expected) in [
            ("leaf", "leaf"),
            ("leaf'left'main", "leaf"),
            ("recurse'2", "recurse"),
            ("<&'a T as Debug>::fmt", "<&'a T as Debug>::fmt"),
            ("f(char)'main", "f(char)"),
            ("operator->'main", "operator->"),
            ("(below main)", "(below main)"),
        ] {
            assert_eq!(without_callers(name), expected, "{name}");
        }
    }
}
