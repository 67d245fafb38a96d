//! Lookup of V8 in an image, by the constants that Node.js exports for debuggers (`v8dbg_…`).

use crate::elf_image::ElfImage;
use crate::{LanguageRuntime, NotSupported};
use object::{Object, ReadRef};

/// Versions of V8 whose functions were tested: those of Node.js 18, 20, 22 and 24.
const TRIED: [(u32, u32); 4] = [(10, 2), (11, 3), (12, 4), (13, 6)];
/// Number of words of a layout.
const WORDS: usize = 14;
/// Bytes of the beginning of an object that the kernel half reads.
const HEAD: u16 = 64;

/// V8 in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V8Engine {
    /// Layout of its objects.
    pub layout: V8Layout,
}

/// Offsets of fields in bytes, from the start of an object, and numbers of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V8Layout {
    /// Distance from the frame pointer down to the context of the frame's function.
    pub frame_context: u16,
    /// Distance from the frame pointer down to the function.
    pub frame_function: u16,
    /// Offset in a function of the part shared by all its closures (`SharedFunctionInfo`).
    pub function_shared: u16,
    /// Offset in the shared part of its name, or of the scope with the name.
    pub shared_name: u16,
    /// Offset in the shared part of its script.
    pub shared_script: u16,
    /// Offset in a script of its source.
    pub script_source: u16,
    /// Offset in a script of its name.
    pub script_name: u16,
    /// Offset in a script of the ends of its lines, which V8 fills in on the first request.
    pub script_line_ends: u16,
    /// The first type of functions.
    pub function_type: u16,
    /// The type of the shared part.
    pub shared_type: u16,
    /// The type of scripts.
    pub script_type: u16,
    /// The type of scopes.
    pub scope_type: u16,
    /// The type of arrays.
    pub array_type: u16,
    /// The word of a scope, without its map, at which the names of its variables begin: 5 if its
    /// place in the source precedes them, else 3.
    pub scope_names: u16,
}

impl V8Layout {
    /// Returns it as words, which the kernel half hands back.
    pub fn to_words(self) -> [u16; WORDS] {
        [
            self.frame_context,
            self.frame_function,
            self.function_shared,
            self.shared_name,
            self.shared_script,
            self.script_source,
            self.script_name,
            self.script_line_ends,
            self.function_type,
            self.shared_type,
            self.script_type,
            self.scope_type,
            self.array_type,
            self.scope_names,
        ]
    }

    /// Returns the layout in these words.
    pub fn from_words(words: [u16; WORDS]) -> Self {
        let [
            frame_context,
            frame_function,
            function_shared,
            shared_name,
            shared_script,
            script_source,
            script_name,
            script_line_ends,
            function_type,
            shared_type,
            script_type,
            scope_type,
            array_type,
            scope_names,
        ] = words;
        Self {
            frame_context,
            frame_function,
            function_shared,
            shared_name,
            shared_script,
            script_source,
            script_name,
            script_line_ends,
            function_type,
            shared_type,
            script_type,
            scope_type,
            array_type,
            scope_names,
        }
    }

    /// Returns the layout, from the constants by name, each without `v8dbg_`.
    fn by_constants(constant: &dyn Fn(&str) -> Option<i64>) -> Option<Self> {
        let small = |name: &str| u16::try_from(constant(name)?).ok();
        let below = |name: &str| u16::try_from(-constant(name)?).ok();
        // Their names contain the type of a field, which differs between versions.
        let any = |names: &[&str]| names.iter().find_map(|name| small(name));
        let is_read = |at: &u16| *at < HEAD && at.is_multiple_of(8);
        Some(Self {
            frame_context: below("off_fp_context")?,
            frame_function: below("off_fp_function")?,
            function_shared: small("class_JSFunction__shared__SharedFunctionInfo")
                .filter(is_read)?,
            shared_name: any(&[
                "class_SharedFunctionInfo__name_or_scope_info__Object",
                "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
                "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
            ])
            .filter(is_read)?,
            shared_script: any(&[
                "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
                "class_SharedFunctionInfo__script__Tagged_HeapObject_",
            ])
            .filter(is_read)?,
            script_source: small("class_Script__source__Object")?,
            script_name: small("class_Script__name__Object")?,
            script_line_ends: small("class_Script__line_ends__Object")?,
            function_type: small("type_JSFunction__JS_FUNCTION_TYPE")?,
            shared_type: small("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            script_type: small("type_Script__SCRIPT_TYPE")?,
            scope_type: small("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            array_type: small("type_FixedArray__FIXED_ARRAY_TYPE")?,
            scope_names: small("scopeinfo_idx_first_vars").filter(|word| matches!(word, 3 | 5))?,
        })
    }
}

/// Values that all readers of objects rely on: the tags of pointers, small integers in the upper
/// half of a word, the length and the characters of strings, the place of the type in a map.
const TAKEN_FOR_GRANTED: [(&str, i64); 12] = [
    ("HeapObjectTag", 1),
    ("SmiTag", 0),
    ("SmiShiftSize", 31),
    ("StringEncodingMask", 8),
    ("StringRepresentationMask", 7),
    ("FirstNonstringType", 128),
    ("class_HeapObject__map__Map", 0),
    ("class_Map__instance_type__uint16_t", 12),
    ("class_String__length__int32_t", 12),
    ("class_SeqOneByteString__chars__char", 16),
    ("class_ConsString__first__String", 16),
    ("class_FixedArray__data__uintptr_t", 16),
];

impl LanguageRuntime for V8Engine {
    const LOST: &'static str =
        "its functions are not named, but with --perf-basic-prof in NODE_OPTIONS";

    fn find_in_image<'data, R: ReadRef<'data>>(
        _name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported> {
        let Some(_) = image.exported_symbol("v8dbg_off_fp_function") else {
            return Ok(None);
        };
        let number = |symbol: &str| -> Option<i64> {
            let (address, _) = image.exported_symbol(symbol)?;
            // Data without bytes in the file are zero.
            let bytes = image.bytes(address, 4).unwrap_or(&[0; 4]);
            Some(i64::from(i32::from_le_bytes(*bytes.first_chunk()?)))
        };
        let version = |part: &str| {
            let symbol = format!("_ZN2v88internal7Version6{part}_E");
            number(&symbol).and_then(|number| u32::try_from(number).ok())
        };
        let (Some(major), Some(minor)) = (version("major"), version("minor")) else {
            return Err(NotSupported(
                "does not say which version of V8 it is".to_owned(),
            ));
        };
        if !TRIED.contains(&(major, minor)) {
            return Err(NotSupported(format!(
                "is V8 {major}.{minor}, which was never tried (10.2, 11.3, 12.4 and 13.6 were: Node.js 18, 20, 22, 24)"
            )));
        }
        if image.elf.architecture() != object::Architecture::X86_64 {
            return Err(NotSupported(
                "is V8 for another processor than x86-64".to_owned(),
            ));
        }
        let constant = |name: &str| number(&format!("v8dbg_{name}"));
        let other = |(name, value): &&(&str, i64)| constant(name) != Some(*value);
        if let Some((name_of_other, _)) = TAKEN_FOR_GRANTED.iter().find(other) {
            return Err(NotSupported(format!(
                "is a build of V8 {major}.{minor} with another {name_of_other} than was tried"
            )));
        }
        let layout = V8Layout::by_constants(&constant).ok_or_else(|| {
            NotSupported(format!(
                "is a build of V8 {major}.{minor} that does not say where its objects have what"
            ))
        })?;
        Ok(Some(Self { layout }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a constant as Node.js 24 exports it.
    fn constant(name: &str) -> Option<i64> {
        Some(match name {
            "off_fp_context" => -8,
            "off_fp_function" => -16,
            "class_JSFunction__shared__SharedFunctionInfo" => 32,
            "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_" => 24,
            "class_SharedFunctionInfo__script__Tagged_HeapObject_" => 40,
            "class_Script__source__Object" => 8,
            "class_Script__name__Object" => 16,
            "class_Script__line_ends__Object" => 56,
            "type_JSFunction__JS_FUNCTION_TYPE" => 2065,
            "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE" => 282,
            "type_Script__SCRIPT_TYPE" => 167,
            "type_ScopeInfo__SCOPE_INFO_TYPE" => 280,
            "type_FixedArray__FIXED_ARRAY_TYPE" => 205,
            "scopeinfo_idx_first_vars" => 5,
            _ => return None,
        })
    }

    #[test]
    fn a_layout_is_made_of_what_is_exported() {
        let layout = V8Layout::by_constants(&constant).unwrap();
        assert_eq!((layout.frame_function, layout.shared_name), (16, 24));
        assert_eq!(V8Layout::from_words(layout.to_words()), layout);
    }

    #[test]
    fn what_the_kernel_half_would_not_read_is_refused() {
        for (changed, value) in [
            ("class_JSFunction__shared__SharedFunctionInfo", 64),
            ("class_JSFunction__shared__SharedFunctionInfo", 12),
            ("off_fp_function", 16),
            ("scopeinfo_idx_first_vars", 4),
            ("type_Script__SCRIPT_TYPE", 70_000),
        ] {
            let with = |name: &str| {
                if name == changed {
                    Some(value)
                } else {
                    constant(name)
                }
            };
            assert_eq!(V8Layout::by_constants(&with), None, "{changed}");
        }
    }

    #[test]
    fn other_images_have_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = ElfImage::parse(&own[..]).unwrap();
        assert_eq!(V8Engine::find_in_image("node", &own), Ok(None));
    }
}
