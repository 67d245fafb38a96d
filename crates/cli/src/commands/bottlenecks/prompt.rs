//! The search at a terminal: line editing, history, completion.

use super::command::{HELP, SETTINGS};
use super::console::Console;
use crate::output::clean_name;
use analysis::bottleneck::interface::Profile;
use analysis::bottleneck::suggesters::SUGGESTERS;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::path::PathBuf;

/// Reads and executes commands until the end of the input.
pub fn run(console: &mut Console<'_>) -> anyhow::Result<()> {
    // As in a shell: the common prefix of all candidates, then a list of them.
    let config = Config::builder().completion_type(CompletionType::List);
    let mut editor: Editor<Words, DefaultHistory> = Editor::with_config(config.build())?;
    editor.set_helper(Some(Words::of(console)));
    let history = history_file();
    if let Some(file) = &history {
        let _ = editor.load_history(file);
    }
    console.print_head()?;
    println!("help lists the commands; suggest is a good start\n");
    loop {
        match editor.readline("bottlenecks> ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                let _ = editor.add_history_entry(line.trim());
                match console.execute_line(&line) {
                    Ok(true) => println!(),
                    Ok(false) => break,
                    Err(error) => eprintln!("{}", clean_name(&format!("{error:#}"))),
                }
                if let Some(words) = editor.helper_mut() {
                    words.update_labels(console);
                }
            }
            // Ctrl-C abandons a line, Ctrl-D ends.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(file) = &history {
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = editor.save_history(file);
    }
    Ok(())
}

fn history_file() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(absolute);
    let state =
        state.or_else(|| Some(std::env::home_dir().filter(absolute)?.join(".local/state")))?;
    Some(state.join("vitalfew").join("bottlenecks-history"))
}

/// The words that can be completed.
struct Words {
    methods: Vec<String>,
    labels: Vec<String>,
    suggesters: Vec<String>,
}

/// Maximum number of candidates listed for one word. The line editor would show more through a
/// pager, which takes the next keys.
const MOST: usize = 12;

impl Words {
    fn of(console: &Console<'_>) -> Self {
        let forest = console.search.profile();
        let initial = forest.initial().iter();
        let names = initial
            .flat_map(|s| forest.path_of(s))
            .map(|step| forest.step_name(*step));
        let mut methods: Vec<String> = names.map(str::to_owned).collect();
        // In the form in which they can be typed and shown; `go` finds them by that.
        for name in &mut methods {
            *name = clean_name(name);
        }
        methods.sort();
        methods.dedup();
        Self {
            methods,
            labels: Vec::new(),
            suggesters: console.own_suggesters().map(clean_name).collect(),
        }
    }

    fn update_labels(&mut self, console: &Console<'_>) {
        let labels = console.search.labelled_summaries().into_iter();
        self.labels = labels.map(|(name, _)| clean_name(name)).collect();
        self.labels.dedup();
    }

    fn completion_candidates(&self, command: &str, start: &str) -> Vec<String> {
        let pick = |words: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            let fits = |word: &&str| {
                let head = word.get(..start.len());
                head.is_some_and(|head| head.eq_ignore_ascii_case(start))
            };
            limit_candidates(words.filter(fits).collect())
        };
        match command {
            "" => pick(&mut HELP.iter().map(|entry| entry.0)),
            "help" => pick(&mut HELP.iter().map(|entry| entry.0)),
            "set" => pick(&mut SETTINGS.iter().copied()),
            "set suggester" => {
                let own = self.suggesters.iter().map(String::as_str);
                pick(&mut SUGGESTERS.iter().map(|one| one.name).chain(own))
            }
            "set zoom" => pick(&mut ["on", "off"].into_iter()),
            "find" | "go" => pick(&mut self.methods.iter().map(String::as_str)),
            "label" | "unlabel" => pick(&mut self.labels.iter().map(String::as_str)),
            _ => Vec::new(),
        }
    }
}

/// Returns at most [`MOST`] of these words, among them the first and the last of the sorted words:
/// their common prefix is that of all words, so the line editor completes the line as far as all of
/// them agree.
fn limit_candidates(mut words: Vec<&str>) -> Vec<String> {
    if words.len() > MOST {
        words.sort_unstable();
        let last = words.len() - 1;
        let chosen = (0..MOST).map(|at| words[at * last / (MOST - 1)]);
        return chosen.map(str::to_owned).collect();
    }
    words.into_iter().map(str::to_owned).collect()
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}
impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (command, start) = split_at_word(&line[..position]);
        let candidates = self.completion_candidates(command, start).into_iter();
        let pair = |word: String| Pair {
            display: word.clone(),
            replacement: word,
        };
        Ok((position - start.len(), candidates.map(pair).collect()))
    }
}

/// Splits a line into the command and the start of the word to complete. Names contain spaces.
fn split_at_word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let Some((command, rest)) = line.split_once(' ') else {
        return ("", line);
    };
    match (command, rest.rsplit_once(" ; "), rest.split_once(' ')) {
        ("go", Some((_, last)), _) => (command, last),
        ("set", _, Some((what, value))) => (&line[..command.len() + 1 + what.len()], value),
        _ => (command, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_at_the_end_is_completed() {
        assert_eq!(split_at_word("su"), ("", "su"));
        assert_eq!(split_at_word("set su"), ("set", "su"));
        assert_eq!(split_at_word("set suggester Hi"), ("set suggester", "Hi"));
        assert_eq!(split_at_word("go std::map<int, int> ; ma"), ("go", "ma"));
        let words = Words {
            methods: vec!["main".into(), "Map".into(), "é".into()],
            labels: vec!["lock".into()],
            suggesters: vec!["Locks".into()],
        };
        assert_eq!(words.completion_candidates("go", "ma"), ["main", "Map"]);
        assert_eq!(words.completion_candidates("label", ""), ["lock"]);
        assert_eq!(
            words.completion_candidates("set suggester", "highb"),
            ["HighBase"]
        );
        assert_eq!(
            words.completion_candidates("set suggester", "lo"),
            ["Locks"]
        );
    }

    #[test]
    fn many_candidates_are_thinned_out_to_what_fits_without_a_pager() {
        let names: Vec<String> = (0..5000).map(|n| format!("step{n:04}")).collect();
        let chosen = limit_candidates(names.iter().map(String::as_str).collect());
        assert_eq!(chosen.len(), MOST);
        // The common prefix of the chosen words is that of all.
        assert_eq!(
            (chosen[0].as_str(), chosen[MOST - 1].as_str()),
            ("step0000", "step4999")
        );
    }
}
