//! The commands of a search, as the user types them (§2.3).

use analysis::bottleneck::suggesters::{SUGGESTERS, Suggester};
use regex::Regex;
use std::num::NonZeroUsize;

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    Set(Setting),
    Suggest,
    Select(usize),
    Show,
    Back,
    Go(Vec<String>),
    Find(Regex),
    Label(String),
    Unlabel(String),
    Labels,
    Auto(Option<usize>),
    Help(Option<String>),
    Quit,
}

/// A setting of the `set` command.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    Suggester(&'static Suggester),
    /// An external suggester.
    OwnSuggester(String),
    Cutoff(f64),
    Zoom(bool),
    Limit(usize),
}

/// The chosen suggester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenSuggester {
    /// A built-in suggester.
    BuiltIn(&'static Suggester),
    /// The external suggester with this number, by `--suggester`.
    Own(usize),
}

/// The names of the settings.
pub const SETTINGS: &[&str] = &["suggester", "cutoff", "zoom", "limit"];

/// Returns one line for each built-in suggester.
pub fn suggester_lines() -> String {
    let lines = SUGGESTERS
        .iter()
        .map(|one| format!("{:<9} {}", one.name, one.description));
    lines.collect::<Vec<_>>().join("\n")
}

/// Help: each command with its syntax, a summary, and details.
pub const HELP: &[(&str, &str, &str, &str)] = &[
    (
        "set",
        "set suggester NAME",
        "choose where to start",
        "\
{suggesters}
and those that --suggester NAME=COMMAND adds
set cutoff RATIO   extensions shown when zooming have RATIO of the summary's cum (0.95)
set zoom on|off    show what matters by zooming, or all extensions by one method
set limit N        rows of one kind that are listed (20)",
    ),
    ("suggest", "suggest", "list the suggester's summaries", ""),
    (
        "select",
        "select N, or N",
        "go to summary N of the last list",
        "\
Shows its labels, base, cum, overlap with each label, path, and what is near:
  above      longer by callers             below       longer by callees
  trim top   without outermost methods     trim bottom without innermost methods",
    ),
    ("show", "show", "the current summary again", ""),
    ("back", "back", "the summary before", ""),
    (
        "go",
        "go NAME ; NAME ; …",
        "go to a call sequence by its methods' names",
        "",
    ),
    ("find", "find REGEX", "list methods by name", ""),
    (
        "label",
        "label NAME",
        "label the current summary",
        "\
A label means what you want it to; several summaries can have the same one.",
    ),
    (
        "unlabel",
        "unlabel NAME",
        "take a label away from all its summaries",
        "",
    ),
    (
        "labels",
        "labels",
        "list what is labelled, and its total",
        "",
    ),
    (
        "auto",
        "auto [N]",
        "find at most N call sequences that cover much",
        "",
    ),
    ("help", "help [COMMAND]", "this, or more of a command", ""),
    ("quit", "quit", "end", ""),
];

/// Reason that a line is not a command.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Mistake {
    #[error("no command '{0}'{1}; help lists them")]
    Unknown(String, String),
    #[error("usage: {0}")]
    Usage(&'static str),
    #[error("'{0}' is no regular expression: {1}")]
    Regex(String, String),
}

/// Parses a line.
pub fn parse(line: &str) -> Result<Command, Mistake> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    if let Ok(number) = word.parse()
        && rest.is_empty()
    {
        return Ok(Command::Select(number));
    }
    let usage = || {
        let entry = HELP.iter().find(|entry| entry.0 == word);
        Mistake::Usage(entry.map_or("", |entry| entry.1))
    };
    let alone = |command| {
        if rest.is_empty() {
            Ok(command)
        } else {
            Err(usage())
        }
    };
    let named = |make: fn(String) -> Command| match unquoted(rest) {
        "" => Err(usage()),
        name => Ok(make(name.to_owned())),
    };
    match word {
        "set" => parse_setting(rest).map(Command::Set),
        "suggest" => alone(Command::Suggest),
        "select" => rest.parse().map(Command::Select).map_err(|_| usage()),
        "show" => alone(Command::Show),
        "back" => alone(Command::Back),
        "go" if !rest.is_empty() => {
            let names = rest.split(" ; ").map(|name| name.trim().to_owned());
            Ok(Command::Go(names.collect()))
        }
        "find" if !rest.is_empty() => Regex::new(rest)
            .map(Command::Find)
            .map_err(|error| bad_regex(rest, &error)),
        "label" => named(Command::Label),
        "unlabel" => named(Command::Unlabel),
        "labels" => alone(Command::Labels),
        "auto" if rest.is_empty() => Ok(Command::Auto(None)),
        "auto" => rest
            .parse()
            .map(|n: NonZeroUsize| Command::Auto(Some(n.get())))
            .map_err(|_| usage()),
        "help" => Ok(Command::Help((!rest.is_empty()).then(|| rest.to_owned()))),
        "quit" | "exit" => alone(Command::Quit),
        "go" | "find" => Err(usage()),
        _ => Err(unknown_command(word)),
    }
}

/// Takes the reason from the last line of the error's message. The lines before draw the position.
fn bad_regex(regex: &str, error: &regex::Error) -> Mistake {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let what = last.strip_prefix("error: ").unwrap_or(last);
    Mistake::Regex(regex.to_owned(), what.to_owned())
}

fn parse_setting(rest: &str) -> Result<Setting, Mistake> {
    let (what, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let value = value.trim();
    let usage = |text| Err(Mistake::Usage(text));
    match what {
        "suggester" => match Suggester::named(value) {
            Some(suggester) => Ok(Setting::Suggester(suggester)),
            None if value.is_empty() => usage("set suggester NAME"),
            None => Ok(Setting::OwnSuggester(value.to_owned())),
        },
        "cutoff" => match value.parse() {
            Ok(cutoff) => Ok(Setting::Cutoff(cutoff)),
            Err(_) => usage("set cutoff RATIO, such as 0.95"),
        },
        "zoom" => match value {
            "on" => Ok(Setting::Zoom(true)),
            "off" => Ok(Setting::Zoom(false)),
            _ => usage("set zoom on|off"),
        },
        "limit" => match value.parse() {
            Ok(limit) if limit > 0 => Ok(Setting::Limit(limit)),
            _ => usage("set limit N, from 1"),
        },
        _ => usage("set suggester NAME, set cutoff RATIO, set zoom on|off, set limit N"),
    }
}

/// Removes the quotes of the paper's form: ``label ``bottleneck''``.
fn unquoted(text: &str) -> &str {
    text.trim_matches(|c| matches!(c, '"' | '\'' | '`' | '“' | '”' | '‘' | '’'))
}

fn unknown_command(word: &str) -> Mistake {
    let near = HELP
        .iter()
        .map(|entry| entry.0)
        .find(|name| name.starts_with(word) || word.starts_with(name) || differ_by_one(name, word));
    let hint = near.map_or(String::new(), |name| format!(", do you mean '{name}'?"));
    Mistake::Unknown(word.to_owned(), hint)
}

/// Returns whether one letter is wrong, missing or superfluous.
fn differ_by_one(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail =
        |list: &[char], skip: usize| list.iter().skip(same + skip).copied().collect::<Vec<_>>();
    tail(&a, 1) == tail(&b, 1) || tail(&a, 1) == tail(&b, 0) || tail(&a, 0) == tail(&b, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        assert!(matches!(parse("select 3"), Ok(Command::Select(3))));
        assert!(matches!(parse(" 3 "), Ok(Command::Select(3))));
        assert!(
            matches!(parse("label ``bottleneck''"), Ok(Command::Label(l)) if l == "bottleneck")
        );
        let go = parse("go a<b;c> ; d").unwrap();
        assert!(matches!(go, Command::Go(names) if names == ["a<b;c>", "d"]));
        let set = parse("set suggester highbase").unwrap();
        assert!(matches!(set, Command::Set(Setting::Suggester(one)) if one.name == "HighBase"));
    }

    #[test]
    fn mistakes_are_explained() {
        let said = |line| parse(line).unwrap_err().to_string();
        assert_eq!(
            said("sugest"),
            "no command 'sugest', do you mean 'suggest'?; help lists them"
        );
        assert_eq!(said("select x"), "usage: select N, or N");
        assert_eq!(said("suggest it"), "usage: suggest");
        assert_eq!(said("label"), "usage: label NAME");
        assert_eq!(said("set suggester"), "usage: set suggester NAME");
        assert!(said("find (").contains("unclosed group"));
        assert_eq!(said("set limit 0"), "usage: set limit N, from 1");
    }

    #[test]
    fn the_help_knows_every_command() {
        for entry in HELP {
            let unknown = matches!(parse(entry.0), Err(Mistake::Unknown(..)));
            assert!(!unknown, "{}", entry.0);
        }
    }
}
