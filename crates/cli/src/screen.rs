//! The only access to standard output and standard error: as wide as the terminal, coloured and
//! paged as in git, and without characters that control the terminal, even if a caller forgot to
//! clean a name.

use crate::printable::{clean_name, is_deceptive};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Stdout, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Output settings of the whole process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScreenSettings {
    /// The use of colour.
    pub color: ColorChoice,
    /// True to never use a pager.
    pub no_pager: bool,
    /// True for full names, however wide the terminal is.
    pub wide: bool,
}

static SETTINGS: OnceLock<ScreenSettings> = OnceLock::new();

/// Sets the output settings; the first call counts.
pub fn configure(settings: ScreenSettings) {
    let _ = SETTINGS.set(settings);
}

fn settings() -> ScreenSettings {
    SETTINGS.get().copied().unwrap_or_default()
}

/// Returns the terminal's width, if standard output is one and lines should fit it.
pub fn terminal_width() -> Option<usize> {
    if settings().wide || !io::stdout().is_terminal() {
        return None;
    }
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0).max(20))
}

/// The emphasis of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// No emphasis.
    Plain,
    /// A heading.
    Strong,
    /// A large share.
    Hot,
    /// A small share.
    Faint,
    /// A warning.
    Warning,
}

const RESET: &str = "\x1b[0m";

fn start_of(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::Plain => "",
        Emphasis::Strong => "\x1b[1m",
        Emphasis::Hot => "\x1b[31m",
        Emphasis::Faint => "\x1b[2m",
        Emphasis::Warning => "\x1b[33m",
    }
}

/// All sequences that [`paint`] can write.
const ESCAPES: [&str; 5] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"];

/// Colours a text for standard output, if colour is enabled there.
pub fn paint(emphasis: Emphasis, text: &str) -> Cow<'_, str> {
    paint_if(is_colored(io::stdout().is_terminal()), emphasis, text)
}

fn paint_if(colored: bool, emphasis: Emphasis, text: &str) -> Cow<'_, str> {
    if !colored || emphasis == Emphasis::Plain || text.is_empty() {
        return text.into();
    }
    format!("{}{text}{RESET}", start_of(emphasis)).into()
}

/// Returns whether standard output has colour.
pub fn is_output_colored() -> bool {
    is_colored(io::stdout().is_terminal())
}

fn is_colored(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match settings().color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// Prints a warning for the reader of the result on standard error. Equal warnings are printed
/// once.
pub fn warn_user(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(|lock| lock.into_inner());
    if said.insert(text.to_owned()) {
        let warning = paint_if(
            is_colored(io::stderr().is_terminal()),
            Emphasis::Warning,
            "warning:",
        );
        print_wrapped(&format!("vitalfew: {warning} "), text);
    }
}

/// Prints a message on standard error.
pub fn tell_user(text: &str) {
    print_wrapped("vitalfew: ", text);
}

/// Messages held back while a pager has the terminal, on whose page they would appear.
static HELD_BACK: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn held_back() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD_BACK.lock().unwrap_or_else(|lock| lock.into_inner())
}

fn print_wrapped(prefix: &str, text: &str) {
    let line = format!("{prefix}{}\n", clean_name(&store::with_addresses(text)));
    match &mut *held_back() {
        Some(lines) => lines.push(line),
        // A failure to write to standard error cannot be reported.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Standard output for a result.
pub struct Screen {
    sink: Sink,
    /// Unfinished line that was not passed on yet.
    pending: Vec<u8>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text { colored: bool },
    Json,
    Data,
}

enum Sink {
    Direct(Stdout),
    Pager(Child),
}

/// Approximate size of the pieces of text that are passed on.
const PIECE: usize = 64 << 10;

impl Screen {
    /// Opens standard output for text: through a pager if it is a terminal.
    pub fn text_output() -> Self {
        let terminal = io::stdout().is_terminal();
        let pager = (terminal && !settings().no_pager)
            .then(start_pager)
            .flatten();
        let colored = is_colored(terminal);
        Self {
            sink: pager.map_or_else(|| Sink::Direct(io::stdout()), Sink::Pager),
            pending: Vec::new(),
            form: Form::Text { colored },
        }
    }

    /// Opens standard output for JSON.
    pub fn json_output() -> Self {
        Self {
            sink: Sink::Direct(io::stdout()),
            pending: Vec::new(),
            form: Form::Json,
        }
    }

    /// Opens standard output for data that are not text for people, unchanged unless it is a
    /// terminal.
    pub fn data_output() -> Self {
        let form = if io::stdout().is_terminal() {
            Form::Text { colored: false }
        } else {
            Form::Data
        };
        Self {
            sink: Sink::Direct(io::stdout()),
            pending: Vec::new(),
            form,
        }
    }

    /// Opens standard output for JSON or for text.
    pub fn open_output(json: bool) -> Self {
        if json {
            Self::json_output()
        } else {
            Self::text_output()
        }
    }

    /// Opens standard output for a result if that is a terminal or `is_ours`, else standard error:
    /// a measured program's output stays its own.
    pub fn beside_program(json: bool, is_ours: bool) -> Box<dyn Write> {
        if is_ours || io::stdout().is_terminal() {
            Box::new(Self::open_output(json))
        } else {
            Box::new(io::stderr())
        }
    }

    fn hand_on(&mut self, end: usize) -> io::Result<()> {
        let rest = self.pending.split_off(end);
        let lines = std::mem::replace(&mut self.pending, rest);
        let text = || String::from_utf8_lossy(&lines);
        let cleaned = match self.form {
            Form::Text { colored } => Some(cleaned_text(&text(), colored).into_owned()),
            Form::Json => Some(cleaned_json(&text()).into_owned()),
            Form::Data => None,
        };
        let bytes = cleaned.as_ref().map_or(&lines[..], |text| text.as_bytes());
        match &mut self.sink {
            Sink::Direct(out) => out.write_all(bytes),
            Sink::Pager(child) => match &mut child.stdin {
                Some(pipe) => pipe.write_all(bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PIECE
            && let Some(newline) = self.pending.iter().rposition(|byte| *byte == b'\n')
        {
            self.hand_on(newline + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on(self.pending.len())?;
        match &mut self.sink {
            Sink::Direct(out) => out.flush(),
            Sink::Pager(child) => child.stdin.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

impl Drop for Screen {
    /// Waits until the reader has left the pager, so that later output does not overwrite it.
    fn drop(&mut self) {
        let _ = self.flush();
        if let Sink::Pager(child) = &mut self.sink {
            drop(child.stdin.take());
            let _ = child.wait();
            for line in held_back().take().unwrap_or_default() {
                let _ = io::stderr().write_all(line.as_bytes());
            }
        }
    }
}

/// Starts the user's pager; `None` if the user wants none or it does not exist.
fn start_pager() -> Option<Child> {
    let set = |name: &str| std::env::var(name).ok();
    let chosen = set("VITALFEW_PAGER").or_else(|| set("PAGER"));
    let mut command = match chosen.as_deref().map(str::trim) {
        Some("" | "cat") => return None,
        Some(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        }
        None => Command::new("less"),
    };
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    if std::env::var_os("LV").is_none() {
        command.env("LV", "-c");
    }
    let child = command.stdin(Stdio::piped()).spawn().ok()?;
    *held_back() = Some(Vec::new());
    // Ctrl-C belongs to the pager: it would be left alone with the shell if this process ended.
    let ignored = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, ignored);
    Some(child)
}

/// Removes characters that control the terminal from text, except for lines, tabs and, with
/// `colored`, vitalfew's own colours.
fn cleaned_text(text: &str, colored: bool) -> Cow<'_, str> {
    let bad = |c: char| is_deceptive(c) && c != '\n' && c != '\t';
    if !text.contains(bad) {
        return text.into();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(bad) {
        let (before, after) = rest.split_at(at);
        cleaned.push_str(before);
        let ours = ESCAPES
            .iter()
            .find(|escape| colored && after.starts_with(**escape));
        let width = match ours {
            Some(escape) => {
                cleaned.push_str(escape);
                escape.len()
            }
            None => {
                cleaned.push('\u{fffd}');
                after.chars().next().map_or(1, char::len_utf8)
            }
        };
        rest = &after[width..];
    }
    cleaned.push_str(rest);
    cleaned.into()
}

/// Escapes the same characters in JSON: they only occur in strings, where the escape is equivalent.
fn cleaned_json(text: &str) -> Cow<'_, str> {
    let bad = |c: char| is_deceptive(c) && c != '\n';
    if !text.contains(bad) {
        return text.into();
    }
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        if !bad(c) {
            cleaned.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            cleaned += &format!("\\u{unit:04x}");
        }
    }
    cleaned.into()
}

/// Formats a paragraph with a hanging indent, in lines no longer than `width`.
pub fn wrap_paragraph(first: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        let length = line.chars().count() + word.chars().count() + 1;
        if !empty && length > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines + &line + "\n"
}

/// Wraps a sentence to the terminal's width; in one line elsewhere.
pub fn wrap_sentence(text: &str) -> String {
    wrap_paragraph("", text, terminal_width().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_reach_the_terminal() {
        let text = "a\x1b[31mb\x1b[0m\t\u{202e}c\x1b[2J\x07\r\n";
        assert_eq!(
            cleaned_text(text, true),
            "a\x1b[31mb\x1b[0m\t\u{fffd}c\u{fffd}[2J\u{fffd}\u{fffd}\n"
        );
        assert!(!cleaned_text(text, false).contains('\x1b'));
        assert_eq!(cleaned_text("é 語\n", false), "é 語\n");
    }

    #[test]
    fn all_colours_are_known_to_be_ours() {
        use Emphasis as E;
        for emphasis in [E::Plain, E::Strong, E::Hot, E::Faint, E::Warning] {
            let painted = paint_if(true, emphasis, "x");
            assert_eq!(cleaned_text(&painted, true), painted);
            assert_eq!(paint_if(false, emphasis, "x"), "x");
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{7f}\u{e0041}é"});
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let cleaned = cleaned_json(&text);
        assert!(!cleaned.contains('\u{202e}') && cleaned.contains("\\u202e"));
        let read: serde_json::Value = serde_json::from_str(&cleaned).expect("JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn paragraphs_hang() {
        assert_eq!(wrap_paragraph("- ", "aa bb cc", 7), "- aa bb\n  cc\n");
        assert_eq!(wrap_paragraph("", "aa bb", 2), "aa\nbb\n");
    }
}
