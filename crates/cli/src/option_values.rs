//! Arguments shared by several commands.

use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// Returns the parser of a path that may also be an address in a bucket.
pub fn place_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| store::local_place(path.as_ref()))
}

/// Location of the database.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DatabaseArg {
    /// The database directory, or s3://BUCKET/PREFIX (default: $VITALFEW_DB, else
    /// ~/.local/share/vitalfew)
    #[arg(long, value_name = "DIR", value_parser = place_parser())]
    pub db: Option<PathBuf>,
}

/// The command that another command runs.
#[derive(Clone, Debug, clap::Args)]
pub struct WrappedCommand {
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// The command that another command runs, unless it is told of a process that runs already.
#[derive(Clone, Debug, clap::Args)]
pub struct AttachableCommand {
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required_unless_present = "pid",
        conflicts_with = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// A command in one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(pub Vec<OsString>);

/// Parses a command as a shell quotes it; variables, globs and operators have no meaning here.
pub fn parse_command(text: &OsStr) -> Result<CommandLine, String> {
    let (mut words, mut word) = (Vec::new(), None::<Vec<u8>>);
    let mut letters = text.as_bytes().iter().copied();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, b' ' | b'\t' | b'\n') => words.extend(word.take()),
            (None, b'\'' | b'"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if letter == open => quote = None,
            (None | Some(b'"'), b'\\') => {
                let next = letters.next().ok_or("it ends within an escape")?;
                // Between double quotes, other escapes are two characters.
                if quote.is_some() && !matches!(next, b'"' | b'\\' | b'$' | b'`') {
                    word.get_or_insert_default().push(b'\\');
                }
                word.get_or_insert_default().push(next);
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(format!("a {} is not closed", char::from(quote))),
        None if words.is_empty() => Err("there is no command in it".to_owned()),
        None => Ok(CommandLine(
            words.into_iter().map(OsString::from_vec).collect(),
        )),
    }
}

/// Parses a percentage above 0.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value),
        _ => Err("expected a percentage above 0 and up to 100".into()),
    }
}

/// Parses a time such as 30s.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("expected a time such as 500ms, 30s, 5m or 1h".into()),
    };
    match digits.parse::<f64>() {
        Ok(value) if value > 0.0 && value * seconds < 1e9 => {
            Ok(Duration::from_secs_f64(value * seconds))
        }
        _ => Err("expected a time such as 500ms, 30s, 5m or 1h".into()),
    }
}

/// Parses a number of bytes such as 500M.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => 1.0,
        "k" | "kB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        _ => return Err("expected a size such as 500M or 2G".into()),
    };
    match digits.parse::<f64>() {
        Ok(value) if value > 0.0 && value * unit < 1e18 => Ok((value * unit) as u64),
        _ => Err("expected a size such as 500M or 2G".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_as_a_shell_quotes_it() {
        let words = |text: &str| parse_command(text.as_ref()).map(|command| command.0);
        assert_eq!(words("./a  b"), Ok(vec!["./a".into(), "b".into()]));
        let quoted = words(r#"a 'b "c' "d\"e\f" g\ h '' "#).expect("words");
        let bytes = parse_command(OsStr::from_bytes(b"a '\xff \xfe'"));
        let expected = ["a".into(), OsString::from_vec(b"\xff \xfe".to_vec())];
        assert_eq!(bytes, Ok(CommandLine(expected.to_vec())));
        assert_eq!(quoted, ["a", "b \"c", "d\"e\\f", "g h", ""]);
        for wrong in ["", " ", "a 'b", "a \\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
