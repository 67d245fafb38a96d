//! Fixture images.
#![allow(dead_code)]

use machine::{Architecture, FlowGraph, LoadedImage, is_never_returning};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use profile::ImageAddress;
use std::path::Path;

pub struct Fixture {
    bytes: Vec<u8>,
}

pub struct Symbol {
    pub name: String,
    pub start: u64,
    pub size: u64,
}

impl Fixture {
    pub fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        let bytes =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { bytes }
    }

    pub fn file(&self) -> object::File<'_> {
        object::File::parse(&*self.bytes).expect("an ELF file")
    }

    pub fn architecture(&self) -> Architecture {
        match self.file().architecture() {
            object::Architecture::X86_64 => Architecture::X86_64,
            object::Architecture::Aarch64 => Architecture::Aarch64,
            other => panic!("{other:?}"),
        }
    }

    pub fn procedures(&self) -> Vec<Symbol> {
        self.file()
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| Symbol {
                name: symbol.name().expect("a name").to_owned(),
                start: symbol.address(),
                size: symbol.size(),
            })
            .collect()
    }

    pub fn code(&self, symbol: &Symbol) -> Vec<u8> {
        let mut code = vec![0; symbol.size as usize];
        assert!(self.read_loaded(ImageAddress(symbol.start), &mut code));
        code
    }

    pub fn graph(&self, name: &str) -> FlowGraph {
        let procedures = self.procedures();
        let symbol = procedures.iter().find(|symbol| symbol.name == name);
        let symbol = symbol.unwrap_or_else(|| panic!("no {name}"));
        let start = ImageAddress(symbol.start);
        FlowGraph::new(self.architecture(), start, &self.code(symbol), self)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl LoadedImage for Fixture {
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        self.file().segments().any(|segment| {
            let data = segment
                .data_range(address.0, buffer.len() as u64)
                .ok()
                .flatten();
            data.is_some_and(|data| {
                buffer.copy_from_slice(data);
                true
            })
        })
    }

    fn never_returns(&self, target: ImageAddress) -> bool {
        self.procedures().iter().any(|symbol| {
            symbol.start == target.0
                && (symbol.name == "give_up" || is_never_returning(&symbol.name))
        })
    }
}
