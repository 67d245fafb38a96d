//! An interactive search: commands in, text or JSON out.

use super::args::{Bottlenecks, OwnSuggester};
use super::auto;
use super::command::{self, ChosenSuggester, Command, Setting};
use super::{json, own_suggester, text};
use crate::output::clean_name;
use analysis::bottleneck::auto::Options;
use analysis::bottleneck::forest::{CallSequence, Forest};
use analysis::bottleneck::interface::{Metric, Profile, Step};
use analysis::bottleneck::search::{Details, Listing, Relation, Search};
use analysis::bottleneck::suggesters::{SUGGESTERS, Suggester};
use anyhow::bail;
use std::io::{self, Write};

/// A search and its style of output.
pub struct Console<'f> {
    pub search: Search<'f, Forest>,
    suggester: ChosenSuggester,
    /// The external suggesters, by their numbers.
    own: Vec<OwnSuggester>,
    options: Options,
    style: Style,
}

/// The style of results.
#[derive(Clone, Copy)]
pub struct Style {
    pub json: bool,
    pub wide: bool,
}

impl<'f> Console<'f> {
    pub fn new(forest: &'f Forest, args: &Bottlenecks) -> anyhow::Result<Self> {
        let mut search = Search::new(forest);
        search.set_cutoff(args.cutoff)?;
        Ok(Self {
            search,
            suggester: ChosenSuggester::BuiltIn(&SUGGESTERS[0]),
            own: args.suggester.clone(),
            options: Options {
                count: args.count.get(),
                coverage: args.coverage / 100.0,
                cutoff: args.cutoff,
            },
            style: Style {
                json: args.json,
                wide: args.wide,
            },
        })
    }

    /// Prints the subject of the search.
    pub fn print_head(&self) -> anyhow::Result<()> {
        if self.style.json {
            Ok(())
        } else {
            self.print(&text::head_text(self.search.profile()))
        }
    }

    /// Prints a command of a script before its result.
    pub fn echo_command(&self, line: &str) -> anyhow::Result<()> {
        if self.style.json {
            Ok(())
        } else {
            self.print(&format!("\n> {}\n", clean_name(line)))
        }
    }

    /// Executes a line; returns whether to go on.
    pub fn execute_line(&mut self, line: &str) -> anyhow::Result<bool> {
        match command::parse(line)? {
            Command::Set(setting) => self.change_setting(setting)?,
            Command::Suggest => self.suggest()?,
            Command::Select(number) => {
                let details = self.search.select(number)?;
                self.print_details(&details)?;
            }
            Command::Show => {
                let details = self.search.details()?;
                self.print_details(&details)?;
            }
            Command::Back => {
                let details = self.search.back()?;
                self.print_details(&details)?;
            }
            Command::Go(names) => self.go_to_path(&names)?,
            Command::Find(regex) => {
                let forest = self.search.profile();
                let listing = self
                    .search
                    .find(|step| regex.is_match(forest.step_name(step)));
                self.print_listing(&listing)?;
            }
            Command::Label(name) => self.search.label(&name)?,
            Command::Unlabel(name) => self.search.unlabel(&name)?,
            Command::Labels => self.print_labels()?,
            Command::Auto(count) => drop(self.search_alone(count)?),
            Command::Help(about) => self.print_help(about.as_deref())?,
            Command::Quit => return Ok(false),
        }
        io::stdout().flush()?;
        Ok(true)
    }

    fn change_setting(&mut self, setting: Setting) -> anyhow::Result<()> {
        match setting {
            Setting::Suggester(chosen) => {
                self.suggester = ChosenSuggester::BuiltIn(chosen);
                if let Some(ranking) = chosen.ranking {
                    self.search.ranking = ranking;
                }
            }
            Setting::OwnSuggester(name) => {
                let same = |own: &OwnSuggester| own.name.eq_ignore_ascii_case(&name);
                let Some(number) = self.own.iter().position(same) else {
                    let built_in = SUGGESTERS.iter().map(|one| one.name);
                    let names: Vec<&str> = built_in.chain(self.own_suggesters()).collect();
                    bail!("no suggester '{name}'; there are {}", names.join(", "));
                };
                self.suggester = ChosenSuggester::Own(number);
            }
            Setting::Cutoff(cutoff) => {
                self.search.set_cutoff(cutoff)?;
                self.options.cutoff = cutoff;
            }
            Setting::Zoom(on) => self.search.zooming = on,
            Setting::Limit(limit) => self.search.limit = limit,
        }
        Ok(())
    }

    /// Returns the names of the external suggesters.
    pub fn own_suggesters(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|own| own.name.as_str())
    }

    fn suggest(&mut self) -> anyhow::Result<()> {
        let listing = match self.suggester {
            ChosenSuggester::BuiltIn(Suggester {
                ranking: Some(_), ..
            }) => self.search.suggest(),
            ChosenSuggester::BuiltIn(_) => {
                self.search_alone(None)?;
                return Ok(());
            }
            ChosenSuggester::Own(number) => {
                let ranked = own_suggester::ask_suggester(&self.own[number], &self.search)?;
                let starts = ranked.into_iter().map(|s| (Relation::Start, s));
                self.search.list(starts, Metric::Cum)
            }
        };
        self.print_listing(&listing)
    }

    /// Searches automatically, and lists the findings; returns their number.
    pub fn search_alone(&mut self, count: Option<usize>) -> anyhow::Result<usize> {
        let forest = self.search.profile();
        let mut options = self.options;
        options.count = count.unwrap_or(options.count);
        let found = analysis::bottleneck::auto::search_causes(forest, &options)?;
        let sequences = found
            .bottlenecks
            .iter()
            .map(|b| (Relation::Start, b.sequence.clone()));
        let limit = std::mem::replace(&mut self.search.limit, usize::MAX);
        let listing = self.search.list(sequences, Metric::Cum);
        self.search.limit = limit;
        let report = auto::AutoReport {
            forest,
            found: &found,
            rows: &listing.rows,
        };
        if self.style.json {
            self.print_json(&json::report_json(&report))?
        } else {
            self.print(&auto::report_text(&report, self.style.wide))?
        }
        Ok(found.bottlenecks.len())
    }

    fn go_to_path(&mut self, names: &[String]) -> anyhow::Result<()> {
        let forest = self.search.profile();
        let mut path = Vec::new();
        for name in names {
            let steps = (0..forest.methods().len() as u32).map(Step);
            // Names are shown cleaned for the terminal, and typed as they are shown.
            let is_named = |shown: &str| shown == name || clean_name(shown) == *name;
            let mut same = steps.filter(|s| is_named(forest.step_name(*s)));
            match same.next() {
                Some(step) => path.push(step),
                None => bail!("no method is called '{name}'; find REGEX lists methods"),
            }
        }
        let Some(summary) = forest.summary_of(&path) else {
            bail!("this call sequence does not occur");
        };
        let details = self.search.go_to(summary);
        self.print_details(&details)
    }

    fn print_labels(&mut self) -> anyhow::Result<()> {
        let (listing, total) = self.search.list_labels();
        if self.style.json {
            return self.print_json(&json::labels_json(self.search.profile(), &listing, total));
        }
        let text = text::labels_text(self.search.profile(), &listing, total, self.style.wide);
        self.print(&text)
    }

    fn print_listing(&self, listing: &Listing<CallSequence>) -> anyhow::Result<()> {
        let forest = self.search.profile();
        if self.style.json {
            self.print_json(&json::listing_json(forest, listing))
        } else {
            self.print(&text::listing_text(forest, listing, None, self.style.wide))
        }
    }

    fn print_details(&self, details: &Details<CallSequence>) -> anyhow::Result<()> {
        let forest = self.search.profile();
        if self.style.json {
            self.print_json(&json::details_json(forest, details))
        } else {
            self.print(&text::details_text(forest, details, self.style.wide))
        }
    }

    fn print_help(&self, about: Option<&str>) -> anyhow::Result<()> {
        let Some(about) = about else {
            return self.print(&text::help_text());
        };
        match command::HELP.iter().find(|entry| entry.0 == about) {
            Some((_, usage, what, "")) => self.print(&format!("{usage}: {what}\n")),
            Some((_, usage, what, more)) => {
                let more = more.replace("{suggesters}", &command::suggester_lines());
                self.print(&format!("{usage}: {what}\n{more}\n"))
            }
            None => bail!("no command '{about}'; help lists them"),
        }
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    fn print_json(&self, value: &serde_json::Value) -> anyhow::Result<()> {
        writeln!(io::stdout(), "{value}")?;
        Ok(())
    }
}
