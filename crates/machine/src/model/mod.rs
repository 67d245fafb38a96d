//! A processor's best case, as data: for each form of instruction its micro-operations, its latency
//! and the units that it occupies.
//!
//! The tables are made offline (`examples/tables.rs`) from LLVM's scheduling models, which are
//! under Apache-2.0 WITH LLVM-exception. They are corrected where `benches/latencies.c` showed
//! errors: register renaming alone takes no unit and no time, and Zen divides faster.

mod bounds;
mod processors;
mod schedule;

pub use bounds::{Bounds, Limit};
pub use processors::{Machines, PROCESSORS, Processor, taken_branches_event};
pub use schedule::{Held, Scheduled};

use crate::{Architecture, Instruction, InstructionForm, x86_64};
use rustc_hash::FxHashMap;

const X86_64: &str = include_str!("../../tables/x86_64.txt");
const AARCH64: &str = include_str!("../../tables/aarch64.txt");

/// Least cycles of Zen's divider: measured on Zen 3 for one-digit results. LLVM's model has the
/// longest time.
const SHORT_DIVISION: u16 = 6;

/// An execution unit, or several equal ones, or any set of units that some operations can choose
/// from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name in LLVM's model.
    pub name: &'static str,
    /// Number of units.
    pub units: u32,
}

/// The cost of an instruction without stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionCost<'a> {
    /// Micro-operations that are issued; fused parts count once.
    pub uops: u32,
    /// Cycles until its result can be used; loads hit the first-level cache.
    pub latency: u32,
    /// Cycles for which it occupies one unit of a [`Resource`], by index. Sets of units that
    /// include a smaller set have its cycles too.
    pub units: &'a [(u16, u16)],
    /// True if the tables contain this form. Otherwise the costs are those of the simplest form.
    pub known: bool,
}

#[derive(Clone, Debug, Default)]
struct CostClass {
    uops: u32,
    latency: u32,
    units: Vec<(u16, u16)>,
}

/// The model of one processor.
#[derive(Clone, Debug)]
pub struct ProcessorModel {
    processor: &'static Processor,
    resources: Vec<Resource>,
    classes: Vec<CostClass>,
    forms: FxHashMap<InstructionForm, u16>,
}

impl ProcessorModel {
    /// Makes the model of a processor.
    pub fn new(processor: &'static Processor) -> Self {
        let mut model = Self {
            processor,
            resources: Vec::new(),
            classes: Vec::new(),
            forms: FxHashMap::default(),
        };
        let architecture = processor.architecture;
        let text = match architecture {
            Architecture::X86_64 => X86_64,
            Architecture::Aarch64 => AARCH64,
        };
        let names: FxHashMap<String, InstructionForm> = match architecture {
            Architecture::X86_64 => x86_64::all_forms().collect(),
            Architecture::Aarch64 => FxHashMap::default(),
        };
        let form = |name: &str| match architecture {
            Architecture::X86_64 => names.get(name).copied(),
            Architecture::Aarch64 => u32::from_str_radix(name, 16).ok().map(InstructionForm),
        };
        let (mut columns, mut column, mut ours) = (0, 0, false);
        for line in text.lines() {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            match what {
                "m" => {
                    ours = rest == processor.name;
                    column = if ours { columns } else { column };
                    columns += 1;
                }
                "r" if ours => model.resources.extend(parse_resource(rest)),
                "c" if ours => model.classes.extend(parse_class(rest)),
                "f" => {
                    let mut words = rest.split(' ');
                    let classes = words.next().unwrap_or_default();
                    if let Some(Ok(class)) = classes.split(',').nth(column).map(str::parse) {
                        model
                            .forms
                            .extend(words.filter_map(form).map(|form| (form, class)));
                    }
                }
                _ => {}
            }
        }
        if processor.name.starts_with("zen") {
            let divides = |name: &str| name.starts_with("Div_") || name.starts_with("Idiv_");
            let forms = names
                .iter()
                .filter(|(name, _)| divides(name))
                .map(|(_, form)| form);
            let classes: Vec<u16> = forms
                .filter_map(|form| model.forms.get(form))
                .copied()
                .collect();
            for class in classes {
                model.shorten_division(class);
            }
        }
        model
    }

    /// Gives a division of small numbers its measured time.
    fn shorten_division(&mut self, class: u16) {
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            class
                .units
                .iter_mut()
                .for_each(|(_, cycles)| *cycles = SHORT_DIVISION.min(*cycles));
        }
    }

    /// Returns the processor.
    pub fn processor(&self) -> &'static Processor {
        self.processor
    }

    /// Returns its units.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Returns the cost of an instruction.
    pub fn cost(&self, instruction: &Instruction) -> InstructionCost<'_> {
        let class = self.forms.get(&instruction.form);
        let class = class.and_then(|class| self.classes.get(usize::from(*class)));
        match class {
            // LLVM's models of Alder Lake and Sapphire Rapids lack it.
            Some(_) if instruction.kind.renamed && !self.processor.in_order => InstructionCost {
                uops: 1,
                latency: 0,
                units: &[],
                known: true,
            },
            Some(class) => InstructionCost {
                uops: class.uops,
                latency: class.latency,
                units: &class.units,
                known: true,
            },
            None => InstructionCost {
                uops: 1,
                latency: 1,
                units: &[],
                known: false,
            },
        }
    }
}

fn parse_resource(line: &'static str) -> Option<Resource> {
    let (name, units) = line.split_once(' ')?;
    Some(Resource {
        name,
        units: units.parse().ok()?,
    })
}

fn parse_class(line: &str) -> Option<CostClass> {
    let mut words = line.split(' ');
    let uops = words.next()?.parse().ok()?;
    let latency = words.next()?.parse().ok()?;
    let units = words
        .map(|word| {
            let (resource, cycles) = word.split_once(':')?;
            Some((resource.parse().ok()?, cycles.parse().ok()?))
        })
        .collect::<Option<_>>()?;
    Some(CostClass {
        uops,
        latency,
        units,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstructionDecoder;
    use profile::ImageAddress;

    fn one(architecture: Architecture, bytes: &[u8]) -> Instruction {
        InstructionDecoder::new(architecture)
            .decode(ImageAddress(0), bytes)
            .expect("an instruction")
    }

    #[test]
    fn every_line_of_the_tables_is_used() {
        for processor in PROCESSORS {
            let model = ProcessorModel::new(processor);
            let text = match processor.architecture {
                Architecture::X86_64 => X86_64,
                Architecture::Aarch64 => AARCH64,
            };
            let (mut resources, mut classes, mut ours) = (0, 0, false);
            for line in text.lines() {
                if let Some(name) = line.strip_prefix("m ") {
                    ours = name == processor.name;
                }
                resources += usize::from(ours && line.starts_with("r "));
                classes += usize::from(ours && line.starts_with("c "));
            }
            assert!(resources > 0 && classes > 10, "{}", processor.name);
            assert_eq!(model.resources.len(), resources, "{}", processor.name);
            assert_eq!(model.classes.len(), classes, "{}", processor.name);
            assert!(model.forms.len() > 2000, "{}", processor.name);
            for class in &model.classes {
                assert!(
                    class
                        .units
                        .iter()
                        .all(|(at, _)| usize::from(*at) < resources)
                );
            }
            let named = model.forms.values().map(|class| usize::from(*class)).max();
            assert!(named < Some(classes));
        }
    }

    #[test]
    fn costs_are_those_of_the_makers() {
        // imul rbx,rax: one unit, three cycles, on all of them.
        let imul = one(Architecture::X86_64, &[0x48, 0x0f, 0xaf, 0xd8]);
        // mov rax,[rax]
        let load = one(Architecture::X86_64, &[0x48, 0x8b, 0x00]);
        // mov rbx,rax and xor ebx,ebx: renamed.
        let copy = one(Architecture::X86_64, &[0x48, 0x89, 0xc3]);
        let zero = one(Architecture::X86_64, &[0x31, 0xdb]);
        for name in ["skylake", "icelake", "sapphirerapids", "zen3", "zen4"] {
            let model = ProcessorModel::new(Processor::named(name).expect("there"));
            assert_eq!(model.cost(&imul).latency, 3, "{name}");
            assert!((4..=5).contains(&model.cost(&load).latency), "{name}");
            for renamed in [copy, zero] {
                assert_eq!(model.cost(&renamed).latency, 0, "{name}");
                assert!(model.cost(&renamed).units.is_empty(), "{name}");
            }
        }
        // add x0, x1, x2 and sdiv x0, x1, x2
        let add = one(Architecture::Aarch64, &0x8b02_0020_u32.to_le_bytes());
        let divide = one(Architecture::Aarch64, &0x9ac2_0c20_u32.to_le_bytes());
        let model = ProcessorModel::new(Processor::named("neoverse-n1").expect("there"));
        assert_eq!(model.cost(&add).latency, 1);
        assert!(model.cost(&divide).latency > 10);
    }

    #[test]
    fn machines_are_recognised() {
        let name = |id| Processor::of_machine(id).map(|one| one.name);
        assert_eq!(name("GenuineIntel-6-143"), Some("sapphirerapids"));
        assert_eq!(name("AuthenticAMD-25-1"), Some("zen3"));
        assert_eq!(name("AuthenticAMD-25-17"), Some("zen4"));
        assert_eq!(name("0x41-0xd0c"), Some("neoverse-n1"));
        for bad in [
            "",
            "-",
            "GenuineIntel",
            "GenuineIntel-6-x",
            "0x41",
            "0x42-0xd0c",
        ] {
            assert_eq!(name(bad), None);
        }
    }
}
