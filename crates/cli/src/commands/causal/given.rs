//! The options of a command line, as they are typed again.

use super::args::{CausalBy, Run};
use std::time::Duration;

/// The shortest experiment where nothing is said.
const SHORTEST: Duration = Duration::from_millis(500);

/// A `causal run`, as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedRun {
    /// Its options, but for the time.
    options: Vec<String>,
    /// `--for`.
    time: Option<Duration>,
    /// `-p`.
    pid: Option<u32>,
}

impl TypedRun {
    /// Takes it from its arguments.
    pub fn of(args: &Run) -> Self {
        Self {
            options: given_options(args),
            time: args.duration,
            pid: args.pid,
        }
    }

    /// Returns the command line that does the same for so long, or for as long as was said; `None` if nothing says what is run.
    /// `line` is the line that it is about, where it was about all.
    pub fn again(
        &self,
        line: Option<&str>,
        at_least: Option<Duration>,
        command: &[String],
    ) -> Option<Vec<String>> {
        let mut words = ["vitalfew", "causal", "run"].map(str::to_owned).to_vec();
        if let Some(time) = self.time.max(at_least) {
            words.extend(["--for".to_owned(), in_words(time)]);
        }
        let names_code =
            |word: &String| ["--fixed-line", "--sequence", "--lock"].contains(&word.as_str());
        if let Some(line) = line.filter(|_| !self.options.iter().any(names_code)) {
            words.extend(["--fixed-line", line].map(str::to_owned));
        }
        words.extend(self.options.iter().cloned());
        match self.pid {
            Some(pid) => words.extend(["-p".to_owned(), pid.to_string()]),
            None if command.is_empty() => return None,
            None => {
                words.push("--".to_owned());
                words.extend(command.iter().cloned());
            }
        }
        Some(words)
    }
}

/// A time as it is typed.
fn in_words(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// Returns the options of `causal run` that say what is measured and where it is kept.
fn given_options(args: &Run) -> Vec<String> {
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
    if let Some(runs) = args.runs {
        say("--runs", &[&runs.to_string()]);
    }
    if args.end_to_end {
        say("--end-to-end", &[]);
    }
    for (option, set) in [
        ("--fixed-line", &args.fixed_line),
        ("--sequence", &args.sequence),
        ("--lock", &args.lock),
    ] {
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
        say("--experiment", &[&in_words(args.experiment)]);
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
    if args.no_hooks {
        say("--no-hooks", &[]);
    }
    for (option, path) in [
        ("--output", &args.output),
        ("--db", &args.db),
        ("--runtime", &args.runtime),
    ] {
        if let Some(path) = path {
            say(option, &[&path.display().to_string()]);
        }
    }
    if args.json {
        say("--json", &[]);
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
            "--runs",
            "3",
            "--fixed-line",
            "a.c:1",
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
            "--no-hooks",
            "--output",
            "it's.json",
            "--json",
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

    fn again(words: &[&str], line: Option<&str>, at_least: Option<u64>) -> Option<String> {
        let run = TypedRun::of(&typed(words));
        let at_least = at_least.map(Duration::from_secs);
        let command = ["./my app".to_owned()];
        run.again(line, at_least, &command)
            .map(|words| shell_words(&words))
    }

    #[test]
    fn a_process_is_named_by_its_number_and_a_command_by_its_words() {
        let process = ["-p", "12", "--progress", "function:a b", "--for", "90s"];
        assert_eq!(
            again(&process, Some("a.c:1"), None).as_deref(),
            Some(
                "vitalfew causal run --for 90s --fixed-line a.c:1 --progress 'function:a b' -p 12"
            )
        );
        assert_eq!(
            again(&["--for", "1500ms", "--", "./my app"], None, Some(1)).as_deref(),
            Some("vitalfew causal run --for 1500ms -- './my app'")
        );
        assert_eq!(
            again(
                &["--lock", "queue", "--", "./my app"],
                Some("a.c:1"),
                Some(60)
            )
            .as_deref(),
            Some("vitalfew causal run --for 60s --lock queue -- './my app'")
        );
        assert_eq!(TypedRun::default().again(None, None, &[]), None);
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
