//! Names of addresses: from the profile itself, from the mapped files, or from the file and the
//! offset.

use crate::frame::{Namer, base_of_path};
use crate::read::options::ReadOptions;
use crate::write::WriteOptions;
use profile::{
    CallGraph, Collector, Host, Image, ImageId, ImageKind, ImageOffset, Location, Recording,
    SymbolTable, Target,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use symbols::Detail;

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileMapping {
    pub start: u64,
    pub end: u64,
    /// File offset of the first byte.
    pub offset: u64,
    pub path: String,
}

/// Names of addresses in a profile.
#[derive(Default)]
pub(super) struct AddressNames {
    /// Functions at an address, innermost first.
    functions: FxHashMap<u64, Vec<String>>,
    /// Mappings by start.
    mappings: BTreeMap<u64, FileMapping>,
}

impl AddressNames {
    /// Adds the name of an address, unless it has one.
    pub fn add_name(&mut self, address: u64, functions: Vec<String>) {
        self.functions.entry(address).or_insert(functions);
    }

    pub fn add_mapping(&mut self, mapping: FileMapping) {
        self.mappings.entry(mapping.start).or_insert(mapping);
    }

    /// Looks up the addresses without a name in the profile.
    pub fn resolve_addresses(&self, addresses: &[u64], options: &ReadOptions) -> ResolvedNames<'_> {
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Import,
            CallGraph::None,
        );
        recording.images = vec![Image::unknown()];
        let mut images: FxHashMap<&str, ImageId> = FxHashMap::default();
        let mut locations = FxHashMap::default();
        for address in addresses {
            if self.functions_at(*address).is_some() {
                continue;
            }
            let Some(mapping) = self.mapping_of(*address) else {
                continue;
            };
            let image = *images.entry(&mapping.path).or_insert_with(|| {
                recording.images.push(Image {
                    kind: image_kind(&mapping.path),
                    path: mapping.path.clone(),
                    build_id: None,
                    file: None,
                    gone: false,
                });
                ImageId(recording.images.len() as u32 - 1)
            });
            let offset = (*address - mapping.start).wrapping_add(mapping.offset);
            let location = Location {
                image,
                offset: ImageOffset(offset),
            };
            locations.insert(*address, location);
        }
        let mut symbol_options = symbols::SymbolOptions::default();
        let debug_dirs = options.debug_dirs.iter().cloned();
        symbol_options.debug_dirs.splice(0..0, debug_dirs);
        let detail = if options.inline || options.lines {
            Detail::Lines
        } else {
            Detail::Procedures
        };
        let mut looked_up: Vec<Location> = locations.values().copied().collect();
        looked_up.sort_unstable();
        let resolved = symbols::resolve(&recording, looked_up, detail, &symbol_options);
        let mut notes: Vec<String> = resolved.warnings.iter().map(ToString::to_string).collect();
        if locations.values().any(|l| resolved.table.get(*l).is_some()) {
            let note = "functions were named by the files that are at these paths now: the profile has no build-ids";
            notes.push(note.to_owned());
        }
        ResolvedNames {
            names: self,
            recording,
            table: resolved.table,
            locations,
            options: WriteOptions {
                inline: options.inline,
                ..WriteOptions::default()
            },
            lines: options.lines,
            notes,
        }
    }

    /// Returns the functions at an address. Callers' addresses were moved into the call by one
    /// byte; names may belong to either address.
    fn functions_at(&self, address: u64) -> Option<&Vec<String>> {
        let at = |address| self.functions.get(&address);
        at(address).or_else(|| at(address.wrapping_add(1)))
    }

    fn mapping_of(&self, address: u64) -> Option<&FileMapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end && !mapping.path.is_empty()).then_some(mapping)
    }
}

fn image_kind(path: &str) -> ImageKind {
    match path {
        "[vdso]" | "[vsyscall]" => ImageKind::Vdso,
        path if path.starts_with('/') => ImageKind::File,
        _ => ImageKind::Anonymous,
    }
}

/// The names of the looked-up addresses.
pub(super) struct ResolvedNames<'n> {
    names: &'n AddressNames,
    recording: Recording,
    table: SymbolTable,
    locations: FxHashMap<u64, Location>,
    options: WriteOptions,
    lines: bool,
    pub notes: Vec<String>,
}

/// The functions at an address.
pub(super) struct AddressFunctions {
    /// Innermost first; at least one.
    pub names: Vec<String>,
    pub module: String,
    pub is_known: bool,
}

impl ResolvedNames<'_> {
    pub fn functions_at(&self, address: u64) -> AddressFunctions {
        let mapping = self.names.mapping_of(address);
        let module = mapping.map_or_else(String::new, |m| base_of_path(&m.path).to_owned());
        if let Some(names) = self.names.functions_at(address) {
            return AddressFunctions {
                names: names.clone(),
                module,
                is_known: true,
            };
        }
        let Some(location) = self.locations.get(&address) else {
            return AddressFunctions {
                names: vec![format!("{address:#x}")],
                module,
                is_known: false,
            };
        };
        let namer = Namer::new(&self.recording, &self.table, &self.options);
        let functions = namer
            .functions_at(*location)
            .map(|function| match function.line {
                Some(line) if self.lines => format!("{}:{line}", function.name),
                _ => function.name.into_owned(),
            });
        AddressFunctions {
            names: functions.collect(),
            module,
            is_known: namer.knows_location(*location),
        }
    }
}
