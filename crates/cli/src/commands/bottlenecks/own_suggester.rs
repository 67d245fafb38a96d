//! External suggesters (§2.3: an analyst may add suggesters): commands that rank methods.
//!
//! The command gets a line of JSON for each method, and prints a line `NUMBER SCORE` for each one
//! that it suggests. It may be a filter of `jq`, a script, anything; it is only run if the user
//! named it on the command line.

use super::args::OwnSuggester;
use analysis::bottleneck::forest::{CallSequence, Forest};
use analysis::bottleneck::interface::Profile;
use analysis::bottleneck::search::Search;
use anyhow::{Context, bail};
use serde_json::json;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// Maximum length of an answer.
const LONGEST: u64 = 64 << 20;

/// Runs the command and returns the methods that it suggests, by descending score.
pub fn ask_suggester(
    own: &OwnSuggester,
    search: &Search<'_, Forest>,
) -> anyhow::Result<Vec<CallSequence>> {
    let answer = run_suggester(own, &method_lines(search)?)
        .with_context(|| format!("suggester {}", own.name))?;
    let initial = search.profile().initial();
    let ranked = parse_answer(&answer, initial.len());
    let ranked = ranked.with_context(|| format!("suggester {}", own.name))?;
    Ok(ranked.into_iter().map(|at| initial[at].clone()).collect())
}

/// Returns one line for each method.
fn method_lines(search: &Search<'_, Forest>) -> anyhow::Result<Vec<u8>> {
    let forest = search.profile();
    let mut text = Vec::new();
    for (number, summary) in forest.initial().iter().enumerate() {
        let method = forest.method(forest.path_of(summary)[0]);
        let metrics = forest.metrics_of(summary);
        let line = json!({
            "number": number,
            "name": method.name,
            "module": method.module,
            "base": metrics.base,
            "cum": metrics.cum,
            "new": search.new_cum(summary),
            "contexts": forest.context_count(summary),
            "whole": forest.whole(),
        });
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    Ok(text)
}

fn run_suggester(own: &OwnSuggester, question: &[u8]) -> anyhow::Result<String> {
    let mut child = Command::new("sh")
        .args(["-c", &own.command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("sh")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let answer = std::thread::scope(|scope| {
        // A command may answer before it has read all, or never read to the end: that is no error.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(question)));
        let mut answer = String::new();
        let read = stdout.map_or(Ok(0), |out| out.take(LONGEST).read_to_string(&mut answer));
        read.map(|_| answer)
    });
    let status = child.wait()?;
    if !status.success() {
        bail!("{:?} ended with {status}", own.command);
    }
    answer.context("its answer")
}

/// Parses the numbers, by descending score and, for equal scores, in the order of the lines.
fn parse_answer(answer: &str, count: usize) -> anyhow::Result<Vec<usize>> {
    let mut ranked: Vec<(f64, usize)> = Vec::new();
    for (at, line) in answer.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(number) = words.next() else { continue };
        let score = words.next().and_then(|score| score.parse::<f64>().ok());
        match (number.parse::<usize>(), score) {
            (Ok(number), Some(score)) if number < count && !score.is_nan() => {
                ranked.push((score, number))
            }
            _ => bail!(
                "line {} of its answer is not NUMBER SCORE: {line:?}",
                at + 1
            ),
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(ranked.into_iter().map(|(_, number)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_ranked_or_refused() {
        assert_eq!(
            parse_answer("0 1\n\n2 7.5\n1 1 comment\n", 3).unwrap(),
            [2, 0, 1]
        );
        for bad in ["3 1", "x 1", "1", "1 NaN", "-1 1"] {
            assert!(parse_answer(bad, 3).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_that_does_not_read_is_heard_and_one_that_fails_is_said() {
        let own = |command: &str| OwnSuggester {
            name: "Mine".into(),
            command: command.into(),
        };
        let question = vec![b'x'; 1 << 20];
        assert_eq!(run_suggester(&own("echo 0 1"), &question).unwrap(), "0 1\n");
        let error = run_suggester(&own("exit 3"), &question).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }
}
