//! One image of a recording: its file, and the symbols of its locations.

use crate::debug_info::{DebugInfo, DebugProcedure};
use crate::demangle::demangle_name;
use crate::detail::{Detail, Warning};
use crate::error::Error;
use crate::image::{ImageSymbols, RawProcedure};

use crate::search::SymbolOptions;
use profile::{
    EmbeddedSymbol, Image, ImageId, ImageKind, ImageOffset, Location, Procedure, Resolution,
    SourceFrame, UNNAMED_PROCEDURE,
};
use rustc_hash::FxHashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The locations of one image.
pub(crate) struct Job<'a> {
    pub id: ImageId,
    pub image: &'a Image,
    /// End of the recording, in nanoseconds since 1970; 0 if unknown.
    pub end_unix_ns: u64,
    pub embedded: &'a [EmbeddedSymbol],
    /// Sorted offsets, so that those of one unit are adjacent.
    pub offsets: Vec<ImageOffset>,
}

#[derive(Default)]
pub(crate) struct Done {
    pub resolutions: Vec<(Location, Resolution)>,
    pub warnings: Vec<Warning>,
}

impl Job<'_> {
    pub fn resolve_image(&self, detail: Detail, options: &SymbolOptions) -> Done {
        let mut done = Done::default();
        let file = match self.image.kind {
            ImageKind::File => self.find_file(detail, options, &mut done),
            _ => None,
        };
        match file {
            Some(file) => self.use_file(&file, detail, options, &mut done),
            None => self.use_embedded(&mut done),
        }
        done
    }

    fn add_warning(&self, done: &mut Done, what: String, advice: impl Into<String>) {
        done.warnings.push(Warning {
            image: self.id,
            what,
            advice: advice.into(),
        });
    }

    /// Finds the recorded file.
    fn find_file(
        &self,
        detail: Detail,
        options: &SymbolOptions,
        done: &mut Done,
    ) -> Option<ImageSymbols> {
        // If the recording contains the requested names, servers need not send the image.
        let is_named = detail == Detail::Procedures && !self.embedded.is_empty();
        let opened = if is_named {
            ImageSymbols::of_this_machine(self.image, options)
        } else {
            ImageSymbols::of_recording(self.image, options)
        };
        match opened {
            Ok(file) => {
                if self.image.build_id.is_some() {
                    return Some(file);
                }
                let newer = self.is_newer(file.path());
                if newer && !self.embedded.is_empty() {
                    // A later build: the names from the time of the recording are right.
                    self.warn_of_lines(detail, file.path(), done);
                    return None;
                }
                if newer {
                    self.warn_of_age(file.path(), done);
                }
                Some(file)
            }
            Err(error) => {
                let path = options.path_of(&self.image.path);
                if self.embedded.is_empty() {
                    self.warn_unusable(&path, error, done);
                } else {
                    self.warn_of_lines(detail, &path, done);
                }
                None
            }
        }
    }

    /// Returns whether a file was written after the recording. Without a build-id, only its age
    /// shows a later build.
    fn is_newer(&self, path: &Path) -> bool {
        let modified = path.metadata().map_or(0, |metadata| {
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
        });
        self.end_unix_ns > 0 && modified > i128::from(self.end_unix_ns)
    }

    fn warn_of_age(&self, path: &Path, done: &mut Done) {
        self.add_warning(
            done,
            format!(
                "{} has no build-id and was written after the recording; its names may be wrong",
                path.display()
            ),
            "link with -Wl,--build-id and record again",
        );
    }

    /// Warns of missing lines: names of procedures are in the recording, but lines only in the
    /// file.
    fn warn_of_lines(&self, detail: Detail, path: &Path, done: &mut Done) {
        if detail == Detail::Lines {
            self.add_warning(
                done,
                format!(
                    "{} is not the file that was recorded; no lines and no inlined calls",
                    path.display()
                ),
                "put the recorded file back, or record with --keep-images",
            );
        }
    }

    fn warn_unusable(&self, path: &Path, error: Error, done: &mut Done) {
        let shown = path.display();
        let id = self.image.build_id.as_ref();
        let keep =
            id.map(|id| format!("put the recorded file (build-id {id}) back, or record again"));
        let keep = keep.unwrap_or_else(|| "record again".to_owned());
        match error {
            Error::Gone { .. } => self.add_warning(
                done,
                format!("{shown} was gone when the recording ended; no names for its procedures"),
                keep,
            ),
            Error::Replaced { .. } => self.add_warning(
                done,
                format!("{shown} was replaced since the recording; no names for its procedures"),
                keep,
            ),
            Error::Io { source, .. } => {
                let advice = match source.kind() {
                    std::io::ErrorKind::PermissionDenied => {
                        "run as a user who may read it".to_owned()
                    }
                    _ => keep,
                };
                let what =
                    format!("{shown} cannot be read ({source}); no names for its procedures");
                self.add_warning(done, what, advice);
            }
            error => {
                self.add_warning(done, format!("{error}; no names for its procedures"), keep);
            }
        }
    }

    fn use_file(
        &self,
        file: &ImageSymbols,
        detail: Detail,
        options: &SymbolOptions,
        done: &mut Done,
    ) {
        let mut names = ProcedureNames::default();
        let mut found: Vec<Resolution> = self
            .offsets
            .iter()
            .map(|offset| Resolution {
                procedure: file
                    .procedure_at(*offset)
                    .map(|raw| names.intern_procedure(raw)),
                inlined: Vec::new(),
            })
            .collect();
        // Debug information also names procedures that the symbol table lacks.
        let unnamed = found
            .iter()
            .any(|resolution| resolution.procedure.is_none());
        if detail == Detail::Lines || (unnamed && !file.is_complete()) {
            match file.debug_info() {
                Ok(Some(debug)) => self.add_debug_info(file, &debug, detail, &mut found, done),
                Ok(None) if file.has_go_functions() => {
                    for (offset, resolution) in self.offsets.iter().zip(&mut found) {
                        resolution.inlined = file.go_frames(*offset);
                    }
                }
                Ok(None) => self.warn_stripped(file, detail, options, done),
                Err(error) => self.add_warning(done, format!("{error}; no lines"), "rebuild it"),
            }
        }
        found.iter_mut().for_each(name_by_symbol);
        let known = |resolution: &Resolution| {
            resolution.procedure.is_some() || !resolution.inlined.is_empty()
        };
        for (offset, mut resolution) in self.offsets.iter().zip(found) {
            if !known(&resolution) {
                let by_unwinding = || file.unwind_procedure(*offset);
                resolution.procedure = self.embedded_at(*offset).or_else(by_unwinding);
            }
            if known(&resolution) {
                done.resolutions
                    .push((self.location_at(*offset), resolution));
            }
        }
    }

    fn add_debug_info(
        &self,
        file: &ImageSymbols,
        debug: &DebugInfo,
        detail: Detail,
        found: &mut [Resolution],
        done: &mut Done,
    ) {
        let mut failure = None;
        for (offset, resolution) in self.offsets.iter().zip(found) {
            let Some(address) = file.address_of(*offset) else {
                continue;
            };
            if resolution.procedure.is_none() {
                match debug.procedure_at(address) {
                    Ok(Some(DebugProcedure { name, range })) => {
                        let start = file.offset_of(range.start);
                        let size = range.end.0 - range.start.0;
                        resolution.procedure = start.map(|start| Procedure { name, start, size });
                    }
                    Ok(None) => {}
                    Err(error) => failure = Some(error),
                }
            }
            if detail == Detail::Lines {
                let name = resolution
                    .procedure
                    .as_ref()
                    .map(|procedure| &procedure.name);
                match debug.source_frames(address, name) {
                    Ok(frames) => resolution.inlined = frames,
                    Err(error) => failure = Some(error),
                }
            }
        }
        if let Some(error) = failure {
            self.add_warning(
                done,
                format!("{error}; some lines are missing"),
                "rebuild it",
            );
        }
        let missing = debug.missing_split_files();
        if let Some(first) = missing.first() {
            self.add_warning(
                done,
                format!(
                    "{} of {} not found ({} in all); no lines for what they describe",
                    first.display(),
                    self.image.path,
                    missing.len()
                ),
                "keep the .dwo files of the build, or pack them into a .dwp file beside the program",
            );
        }
    }

    fn warn_stripped(
        &self,
        file: &ImageSymbols,
        detail: Detail,
        options: &SymbolOptions,
        done: &mut Done,
    ) {
        let lost = match (detail, file.is_complete()) {
            (Detail::Lines, true) => "has no debug information; no lines and no inlined calls",
            (Detail::Lines, false) => {
                "is stripped; names of exported procedures only, no lines and no inlined calls"
            }
            (Detail::Procedures, _) => {
                "is stripped; only exported procedures have names, others their address"
            }
        };
        let place = file
            .build_id()
            .zip(options.debug_dirs.first())
            .map(|(id, dir)| {
                let (id, dir) = (id.to_string(), dir.display());
                let (head, tail) = id.split_at(2);
                format!(", or put its debug file at {dir}/.build-id/{head}/{tail}.debug")
            });
        self.add_warning(
            done,
            format!("{} {lost}", self.image.path),
            format!(
                "build it with -g, or install its debug package{}",
                place.unwrap_or_default()
            ),
        );
    }

    fn use_embedded(&self, done: &mut Done) {
        for offset in &self.offsets {
            if let Some(procedure) = self.embedded_at(*offset) {
                let resolution = Resolution {
                    inlined: self.script_line(*offset, &procedure),
                    procedure: Some(procedure),
                };
                done.resolutions
                    .push((self.location_at(*offset), resolution));
            }
        }
        let lost = match self.image.kind {
            ImageKind::Kernel | ImageKind::KernelModule => self.embedded.is_empty(),
            _ => false,
        };
        if lost {
            self.add_warning(
                done,
                format!(
                    "{} was recorded without symbols; no names for its procedures",
                    self.image.path
                ),
                "record as root, or after `sudo sysctl kernel.kptr_restrict=0`",
            );
        }
    }

    /// Returns the line of a function in another language, which is in the offset.
    fn script_line(&self, offset: ImageOffset, procedure: &Procedure) -> Vec<SourceFrame> {
        if self.image.kind != ImageKind::Script {
            return Vec::new();
        }
        let line = (offset.0 & 0xff_ffff) as u32;
        vec![SourceFrame {
            function: procedure.name.clone(),
            file: Some(self.image.path.as_str().into()),
            line: Some(line).filter(|line| *line > 0),
        }]
    }

    fn embedded_at(&self, offset: ImageOffset) -> Option<Procedure> {
        let index = self
            .embedded
            .partition_point(|symbol| symbol.start <= offset);
        let symbol = self.embedded.get(index.checked_sub(1)?)?;
        // If the size is unknown, up to the next one.
        let holds = symbol.end <= symbol.start || offset < symbol.end;
        holds.then(|| Procedure {
            name: demangle_name(&symbol.name).into(),
            start: symbol.start,
            size: symbol.end.0.saturating_sub(symbol.start.0),
        })
    }

    fn location_at(&self, offset: ImageOffset) -> Location {
        Location {
            image: self.id,
            offset,
        }
    }
}

/// Procedures that were already demangled, because most samples are in few of them.
#[derive(Default)]
struct ProcedureNames(FxHashMap<ImageOffset, Procedure>);

impl ProcedureNames {
    fn intern_procedure(&mut self, raw: RawProcedure<'_>) -> Procedure {
        self.0
            .entry(raw.start)
            .or_insert_with(|| raw.demangle_procedure())
            .clone()
    }
}

/// Gives the outermost function the procedure's name, so that a place has one name in reports and
/// in trees. If a function has several symbols, debug information has the one of its source
/// (`__GI___libc_malloc`), and callers know another (`malloc`). Parts that a compiler split off
/// stay with their function.
fn name_by_symbol(resolution: &mut Resolution) {
    let (Some(procedure), Some(outermost)) = (&resolution.procedure, resolution.inlined.last_mut())
    else {
        return;
    };
    let rest = procedure.name.strip_prefix(&*outermost.function);
    let is_part = rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with(" [clone "));
    if !is_part && !procedure.name.starts_with(UNNAMED_PROCEDURE) {
        outermost.function = procedure.name.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_called_by_its_symbol() {
        let named = |symbol: &str, functions: &[&str]| {
            let frame = |function: &&str| SourceFrame {
                function: (*function).into(),
                file: None,
                line: None,
            };
            let mut resolution = Resolution {
                procedure: Some(Procedure {
                    name: symbol.into(),
                    start: ImageOffset(0),
                    size: 1,
                }),
                inlined: functions.iter().map(frame).collect(),
            };
            name_by_symbol(&mut resolution);
            let names = resolution
                .inlined
                .iter()
                .map(|one| one.function.to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named("malloc", &["__GI___libc_malloc"]), "malloc");
        assert_eq!(
            named("malloc", &["tcache_get", "__GI___libc_malloc"]),
            "tcache_get malloc"
        );
        assert_eq!(named("sort.cold", &["sort"]), "sort");
        assert_eq!(
            named("sort(int) [clone .part.0]", &["sort(int)"]),
            "sort(int)"
        );
        assert_eq!(named("[function at 0x1140 3fa2c18d]", &["sort"]), "sort");
        assert_eq!(named("sort", &[]), "");
    }
}
