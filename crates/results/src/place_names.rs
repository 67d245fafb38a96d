//! Names of functions at places.

use crate::image_names::image_names;
use profile::{CallTreeBuilder, CallTreeError, Location, MethodId, Recording, SymbolTable};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Returns the name of the procedure at a place; empty if unknown.
pub(crate) fn procedure_name(table: &SymbolTable, location: Location) -> String {
    table
        .procedure(location)
        .map_or_else(String::new, |procedure| procedure.name.to_string())
}

/// Returns the functions at a place, outermost first: its procedure, and with `inlined` the calls
/// inlined into it.
fn functions_at(table: &SymbolTable, location: Location, inlined: bool) -> Vec<String> {
    let mut names = vec![match procedure_name(table, location) {
        name if name.is_empty() => "[no symbol]".to_owned(),
        name => name,
    }];
    if inlined && let Some(resolution) = table.get(location) {
        let calls = resolution.inlined.iter().rev().skip(1);
        names.extend(calls.map(|frame| frame.function.to_string()));
    }
    names
}

/// The functions at places as methods of a call tree, each place looked up once.
pub(crate) struct PlaceMethods<'a> {
    table: &'a SymbolTable,
    images: Vec<String>,
    inlined: bool,
    known: FxHashMap<Location, Box<[MethodId]>>,
}

impl<'a> PlaceMethods<'a> {
    pub fn new(recording: &Recording, table: &'a SymbolTable, inlined: bool) -> Self {
        Self {
            table,
            images: image_names(recording),
            inlined,
            known: FxHashMap::default(),
        }
    }

    /// Returns the methods at a place, outermost first: at least one.
    pub fn at(
        &mut self,
        builder: &mut CallTreeBuilder,
        location: Location,
    ) -> Result<&[MethodId], CallTreeError> {
        match self.known.entry(location) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let image = &self.images[location.image.0 as usize];
                let names = functions_at(self.table, location, self.inlined);
                let methods = names.iter().map(|name| builder.method(name, image));
                Ok(place.insert(methods.collect::<Result<_, _>>()?))
            }
        }
    }
}
