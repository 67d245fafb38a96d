//! Profiles as gperftools, jemalloc and Go wrote them before pprof's protobuf: CPU samples in
//! machine words; heap, growth, contention and thread profiles as text. The mappings of the process
//! come last, so a file is read whole.

mod addresses;
mod cpu;
mod legacy;
mod text;

use super::draft::{Owner, TreeDraft};
use super::error::{FilePosition, ReadFault};
use super::input::ProfileInput;
use super::options::ReadOptions;
use addresses::AddressNames;
use legacy::LegacyProfile;
use profile::ValueType;
use rustc_hash::FxHashMap;

pub(crate) const NAME: &str = "gperftools profile";
/// A file needs several times its size while it is read.
const MEMORY_FOR_BYTE: u64 = 16;

/// Returns whether a text is one of these profiles.
pub(crate) fn detect_text(text: &str) -> bool {
    text::kind_of(text).is_some() || text.starts_with("--- symbol\n")
}

/// Returns whether bytes begin with the header of a CPU profile.
pub(crate) fn detect_binary(head: &[u8]) -> bool {
    cpu::CpuWords::detect_words(head).is_some() || head.starts_with(b"--- symbol\n")
}

pub(crate) fn read_gperftools(
    input: &mut ProfileInput,
    options: &ReadOptions,
) -> Result<TreeDraft, ReadFault> {
    let bytes = input.read_whole(options.limits.memory / MEMORY_FOR_BYTE)?;
    let mut profile = LegacyProfile::default();
    let body = symbol_section(&bytes, &mut profile.names);
    let base = (bytes.len() - body.len()) as u64;
    let mut draft = if cpu::CpuWords::detect_words(body).is_some() {
        cpu::read_cpu_profile(body, base, &mut profile)?;
        TreeDraft::new(value_types(&profile), options)
    } else {
        let text = String::from_utf8_lossy(body);
        let skipped = text::read_text_profile(&text, &mut profile)?;
        let mut draft = TreeDraft::new(value_types(&profile), options);
        skipped.note_skipped(profile.stacks.len() as u64, &mut draft)?;
        draft
    };
    draft.charge_memory(
        bytes.len() as u64 * MEMORY_FOR_BYTE,
        FilePosition::Offset(0),
    )?;
    drop(bytes);
    // As in pprof: bytes rather than objects, current memory rather than all allocations.
    draft.default_value = profile.value_types.len().saturating_sub(1);
    for note in std::mem::take(&mut profile.notes) {
        draft.add_note(note);
    }
    fill_draft(&mut draft, &profile, options)?;
    Ok(draft)
}

fn value_types(profile: &LegacyProfile) -> Vec<ValueType> {
    let types = profile.value_types.iter();
    types
        .map(|(name, unit)| ValueType {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
        })
        .collect()
}

/// Reads the names that `pprof --raw` puts in front of a profile; returns the rest.
fn symbol_section<'b>(bytes: &'b [u8], names: &mut AddressNames) -> &'b [u8] {
    if !bytes.starts_with(b"--- symbol\n") {
        return bytes;
    }
    let mut rest = bytes;
    let mut is_first = true;
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        match line.strip_prefix("---") {
            // The name of the section, or the end of one.
            Some(" symbol") if is_first => {}
            Some("") => {}
            // The header of the profile itself is not a section name.
            Some(_) => return rest,
            None => {
                let symbol = line
                    .strip_prefix("0x")
                    .and_then(|line| line.split_once(' '));
                if let Some((address, functions)) = symbol
                    && let Ok(address) = u64::from_str_radix(address, 16)
                {
                    names.add_name(address, functions.split("--").map(str::to_owned).collect());
                }
            }
        }
        is_first = false;
    }
    rest
}

fn fill_draft(
    draft: &mut TreeDraft,
    profile: &LegacyProfile,
    options: &ReadOptions,
) -> Result<(), ReadFault> {
    let mut used = profile.addresses.clone();
    used.sort_unstable();
    used.dedup();
    let named = profile.names.resolve_addresses(&used, options);
    let mut methods = FxHashMap::default();
    let mut unnamed = 0_u64;
    for address in used {
        let at = FilePosition::Offset(0);
        let functions = named.functions_at(address);
        unnamed += u64::from(!functions.is_known);
        let mut ids = Vec::with_capacity(functions.names.len());
        for name in &functions.names {
            ids.push(draft.intern_method(name, &functions.module)?);
        }
        draft.charge_memory(64 + 8 * ids.len() as u64, at)?;
        methods.insert(address, ids);
    }
    for note in &named.notes {
        draft.add_note(note.clone());
    }
    if unnamed > 0 {
        draft.add_note(format!("{unnamed} places have no symbol"));
    }
    for (row, stack) in profile.stacks.iter().enumerate() {
        let at = FilePosition::Row {
            table: "stack",
            row: row as u64,
        };
        let mut node = draft.group_node(&Owner::default(), at)?;
        for address in profile.stack_frames(stack).iter().rev() {
            // The functions at an address are innermost first, too.
            for method in methods.get(address).into_iter().flatten().rev() {
                node = draft.child_node(node, *method, at)?;
            }
        }
        for (value, cost) in stack
            .values
            .iter()
            .enumerate()
            .take(profile.value_types.len())
        {
            draft.add_cost(value, node, *cost);
        }
    }
    Ok(())
}
