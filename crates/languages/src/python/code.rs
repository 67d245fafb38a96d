//! Code objects, and the names of their functions.

use super::lines::line_at;
use super::offsets::Version;

/// A string of the interpreter, in its memory form.
#[derive(Clone, Copy, Debug)]
pub struct CodeText<'a> {
    /// Bytes of a character: 1, 2 or 4.
    pub kind: u8,
    /// The characters.
    pub bytes: &'a [u8],
}

impl CodeText<'_> {
    /// Returns the text, with replacements for invalid characters.
    pub fn to_text(self) -> String {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        let characters = self.bytes.chunks_exact(usize::from(self.kind.max(1)));
        let text = characters.map(|one| char::from_u32(number(one)));
        text.map(|one| one.filter(|c| !c.is_control()).unwrap_or('\u{fffd}'))
            .collect()
    }
}

/// A function (or the body of a module or class), from its code object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeObject {
    /// The version of its interpreter.
    pub version: Version,
    /// Its file.
    pub file: String,
    /// Its name; before 3.11 without the class and function around it.
    pub name: String,
    /// Its first line.
    pub first_line: u32,
    /// Its table of lines, or the start of it.
    pub lines: Vec<u8>,
}

impl CodeObject {
    /// Returns the line of an instruction; the first line of the function if the table lacks it.
    pub fn line(&self, index: u32) -> u32 {
        line_at(self.version, &self.lines, self.first_line, index).unwrap_or(self.first_line)
    }

    /// Returns the function's name in reports: `module.qualified.name (file.py:12)`.
    pub fn display_name(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        let module = module_of(&self.file);
        let dot = if module.is_empty() { "" } else { "." };
        format!("{module}{dot}{} ({file}:{})", self.name, self.first_line)
    }
}

/// Returns the module of a file, by the directories of libraries, else by the name of the file.
fn module_of(file: &str) -> String {
    if let Some(frozen) = file.strip_prefix("<frozen ") {
        return frozen.trim_end_matches('>').to_owned();
    }
    if file.starts_with('<') {
        return file.to_owned();
    }
    let Some(path) = file.strip_suffix(".py") else {
        return file.rsplit('/').next().unwrap_or_default().to_owned();
    };
    let inside = ["/site-packages/", "/dist-packages/"]
        .iter()
        .find_map(|mark| Some(path.rsplit_once(mark)?.1))
        .or_else(|| {
            let (_, rest) = path.rsplit_once("/lib/python3")?;
            Some(rest.split_once('/')?.1)
        })
        .or_else(|| path.rsplit('/').next());
    let module = inside.unwrap_or(path).replace('/', ".");
    module
        .strip_suffix(".__init__")
        .map_or_else(|| module.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_as_they_are_imported() {
        for (file, module) in [
            ("/usr/lib/python3.11/json/decoder.py", "json.decoder"),
            ("/usr/lib/python3/dist-packages/apt/__init__.py", "apt"),
            (
                "/v/lib/python3.12/site-packages/django/db/models/query.py",
                "django.db.models.query",
            ),
            ("/srv/app/views.py", "views"),
            ("manage", "manage"),
            ("<frozen importlib._bootstrap>", "importlib._bootstrap"),
            ("<string>", "<string>"),
        ] {
            assert_eq!(module_of(file), module, "{file}");
        }
    }

    #[test]
    fn names_have_module_file_and_line() {
        let code = CodeObject {
            version: Version {
                major: 3,
                minor: 11,
            },
            file: "/usr/lib/python3.11/json/decoder.py".into(),
            name: "JSONDecoder.decode".into(),
            first_line: 332,
            lines: Vec::new(),
        };
        let name = "json.decoder.JSONDecoder.decode (decoder.py:332)";
        assert_eq!(code.display_name(), name);
        assert_eq!(code.line(7), 332);
    }

    #[test]
    fn characters_of_every_width_are_read() {
        let text = |kind, bytes| CodeText { kind, bytes }.to_text();
        assert_eq!(text(1, b"caf\xe9"), "caf\u{e9}");
        assert_eq!(text(2, &[0x3b, 0x04, 0x41]), "\u{43b}", "half a character");
        assert_eq!(text(4, &[0, 0xd8, 0, 0, 10, 0, 0, 0]), "\u{fffd}\u{fffd}");
    }
}
