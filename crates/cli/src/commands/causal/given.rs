//! The options of a command line, as they are typed again.

use super::args::{CausalBy, Run};
use std::time::Duration;

/// The shortest experiment where nothing is said.
const SHORTEST: Duration = Duration::from_millis(500);

/// Returns the options of `causal run` that say what is measured and where it is kept.
pub fn given_options(args: &Run) -> Vec<String> {
    let mut words = Vec::new();
    let mut say = |option: &str, values: &[&str]| {
        words.push(option.to_owned());
        words.extend(values.iter().map(|value| (*value).to_owned()));
    };
    for pattern in &args.scope {
        say("--scope", &[pattern]);
    }
    for point in &args.progress {
        say("--progress", &[point]);
    }
    for pair in args.latency.chunks_exact(2) {
        let pair: Vec<&str> = pair.iter().map(String::as_str).collect();
        say("--latency", &pair);
    }
    if args.end_to_end {
        say("--end-to-end", &[]);
    }
    for (option, set) in [("--sequence", &args.sequence), ("--lock", &args.lock)] {
        if let Some(set) = set {
            say(option, &[set]);
        }
    }
    if let Some(percent) = args.fixed_speedup {
        say("--fixed-speedup", &[&percent.to_string()]);
    }
    match args.by {
        Some(CausalBy::Function) => say("--by", &["function"]),
        Some(CausalBy::Line) => say("--by", &["line"]),
        None => {}
    }
    if args.experiment != SHORTEST {
        let ms = format!("{}ms", args.experiment.as_millis());
        say("--experiment", &[&ms]);
    }
    if let Some(percent) = args.max_delay {
        say("--max-delay", &[&percent.to_string()]);
    }
    if args.real_clocks {
        say("--real-clocks", &[]);
    }
    if args.no_waits {
        say("--no-waits", &[]);
    }
    for (option, path) in [("--output", &args.output), ("--db", &args.db)] {
        if let Some(path) = path {
            say(option, &[&path.display().to_string()]);
        }
    }
    words
}

/// Puts words together for a shell.
pub fn shell_words(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    quoted.join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        run: Run,
    }

    fn typed(words: &[&str]) -> Run {
        let line = std::iter::once(&"run").chain(words);
        Typed::parse_from(line).run
    }

    #[test]
    fn all_that_was_given_is_given_again() {
        let line = [
            "--scope",
            "my lib*",
            "--progress",
            "a.c:1",
            "--latency",
            "function:a",
            "function:b",
            "--fixed-speedup",
            "50",
            "--by",
            "function",
            "--experiment",
            "250ms",
            "--max-delay",
            "5",
            "--real-clocks",
            "--no-waits",
            "--output",
            "it's.json",
            "--",
            "./app",
        ];
        let options = given_options(&typed(&line));
        let (given, _) = line.split_at(line.len() - 2);
        assert_eq!(options, given);
        let again: Vec<&str> = options
            .iter()
            .map(String::as_str)
            .chain(["--", "./app"])
            .collect();
        assert_eq!(given_options(&typed(&again)), options);
        assert_eq!(given_options(&typed(&["--", "./app"])), [""; 0]);
    }

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = ["./my app", "$x", "a'b", "", "plain-1.2", "*"].map(str::to_owned);
        let script = format!("printf '%s\\n' {}", shell_words(&words));
        let said = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("a shell");
        let said = String::from_utf8(said.stdout).expect("text");
        assert_eq!(said.lines().collect::<Vec<_>>(), words);
    }
}
