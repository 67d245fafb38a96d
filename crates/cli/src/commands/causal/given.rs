//! Reconstructs the options of a command line.

use super::args::{CausalBy, CausalRunArgs};
use profile::AskedExperiments;
use results::causal::typed_time;
use std::time::Duration;

/// Default length of the shortest experiment.
const SHORTEST: Duration = Duration::from_millis(500);

/// Returns the request of a `causal run`, which its profile keeps.
pub fn asked_experiments(args: &CausalRunArgs) -> AskedExperiments {
    AskedExperiments {
        options: given_options(args),
        time_ns: args.duration.map(|time| time.as_nanos() as u64),
        process: args.pid,
    }
}

/// Returns the options of `causal run` that select the target and the place of the results.
fn given_options(args: &CausalRunArgs) -> Vec<String> {
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
        say("--experiment", &[&typed_time(args.experiment)]);
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
        ("--db", &args.database.db),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::shell_words;
    use clap::Parser;
    use profile::CausalRun;
    use results::causal::run_again;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        run: CausalRunArgs,
    }

    fn typed(words: &[&str]) -> CausalRunArgs {
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

    /// A run of a command, or of a process, that was asked for so and began then.
    fn run_of(words: &[&str], command: &[&str], start_unix_ns: u64) -> CausalRun {
        let run = serde_json::json!({
            "command": command, "host": sampler::read_host(), "collector": "vitalfew", "start_unix_ns": start_unix_ns,
            "duration_ns": 0, "undelayed_ns": 0, "end": "stopped", "images": [], "points": [], "fragments": [],
            "experiments": [], "warnings": [], "settings": {
                "by": "line", "sample_period_ns": 0, "batch": 1, "cooloff_ns": 0, "end_to_end": false,
                "scope": [], "fixed_fragments": [], "fixed_speedups": []
            }
        });
        CausalRun {
            asked: asked_experiments(&typed(words)),
            // As files of before have it, without what was asked for.
            ..serde_json::from_value(run).expect("a run")
        }
    }

    fn again(run: &CausalRun, line: Option<&str>, at_least: Option<u64>) -> Option<String> {
        let words = run_again(run, line, at_least.map(Duration::from_secs));
        words.map(|words| shell_words(&words))
    }

    #[test]
    fn a_command_is_named_by_its_words() {
        let command = ["./my app"];
        let run = run_of(&["--for", "1500ms", "--", "./my app"], &command, 0);
        assert_eq!(
            again(&run, None, Some(1)).as_deref(),
            Some("vitalfew causal run --for 1500ms -- './my app'")
        );
        let run = run_of(&["--lock", "queue", "--", "./my app"], &command, 0);
        assert_eq!(
            again(&run, Some("a.c:1"), Some(60)).as_deref(),
            Some("vitalfew causal run --for 60s --lock queue -- './my app'")
        );
        // Profiles of other tools know no command.
        assert_eq!(
            again(&run_of(&["--", "./my app"], &[], 0), None, None),
            None
        );
    }

    #[test]
    fn a_process_is_named_by_its_number_while_it_runs() {
        let own = std::process::id().to_string();
        let asked = ["-p", &own, "--progress", "function:a b", "--for", "90s"];
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("after 1970").as_nanos() as u64;
        assert_eq!(
            again(&run_of(&asked, &["sh", "-x"], now), Some("a.c:1"), None),
            Some(format!(
                "vitalfew causal run --for 90s --fixed-line a.c:1 --progress 'function:a b' -p {own}"
            ))
        );
        // A process of this number that began after the run is another one.
        assert_eq!(
            again(&run_of(&asked, &["sh", "-x"], 1), None, None).as_deref(),
            Some("vitalfew causal run --for 90s --progress 'function:a b' -- sh -x")
        );
        let title = ["server: worker process"];
        assert_eq!(again(&run_of(&asked, &title, 1), None, None), None);
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
