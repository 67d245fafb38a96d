//! The control-flow graph of a procedure, for Graphviz's dot.

use super::cycles::amount_text;
use crate::output::{clean_name, group_digits, shorten_middle, write_file};
use machine::{Edge, EdgeKind};
use results::annotation::AnnotatedProcedure;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// Maximum number of drawn blocks; of more, those with the most samples.
const MOST: usize = 1000;

/// Maximum number of shown instructions of a block.
const SHOWN: usize = 12;

/// Writes the graph.
pub fn write_graph(path: &Path, analysed: &AnnotatedProcedure) -> anyhow::Result<()> {
    let drawing = Drawing::new(analysed);
    write_file(path, |out| Ok(drawing.write_dot(out)?))
}

struct Drawing<'a> {
    analysed: &'a AnnotatedProcedure,
    /// The drawn blocks, by address.
    blocks: Vec<usize>,
}

impl<'a> Drawing<'a> {
    fn new(analysed: &'a AnnotatedProcedure) -> Self {
        let mut blocks: Vec<usize> = (0..analysed.graph.blocks.len()).collect();
        if blocks.len() > MOST {
            blocks.sort_by(|a, b| {
                block_samples(analysed, *b).total_cmp(&block_samples(analysed, *a))
            });
            blocks.truncate(MOST);
            blocks.sort_unstable();
        }
        Self { analysed, blocks }
    }

    /// Returns how hot a block is, from 0 to 1.
    fn block_heat(&self, block: usize) -> f64 {
        (block_samples(self.analysed, block) / self.analysed.total_samples().max(f64::MIN_POSITIVE))
            .sqrt()
    }

    fn block_lines(&self, block: usize) -> Vec<String> {
        let analysed = self.analysed;
        let one = &analysed.graph.blocks[block];
        let sum = block_samples(analysed, block);
        let count = one.instructions.len().max(1) as f64;
        let best: f64 = analysed.expected[one.instructions.clone()]
            .iter()
            .map(|one| one.minimum)
            .sum();
        let frequency = analysed.frequencies.blocks[block].map_or(0.0, |one| one.frequency);
        let actual = if analysed.trust[block].is_known() {
            amount_text(sum, frequency * count, 0.0, 2)
        } else {
            "not known".to_owned()
        };
        let mut lines = vec![format!(
            "{block}: {:x}  {:.1}%  best {:.2} actual {actual} CPI",
            one.start.0,
            100.0 * sum / analysed.total_samples().max(f64::MIN_POSITIVE),
            best / count
        )];
        let shown = hottest_places(&analysed.samples, one.instructions.clone());
        let mut next = one.instructions.start;
        for place in shown {
            lines.extend(gap_text(next..place));
            next = place + 1;
            lines.push(self.instruction_line(place));
        }
        lines.extend(gap_text(next..one.instructions.end));
        lines
    }

    fn instruction_line(&self, place: usize) -> String {
        let analysed = self.analysed;
        let known = analysed.accounts[place].iter();
        let known = known.flat_map(|account| &account.culprits);
        let all = known.chain(&analysed.suspects[place]);
        let letters: String = all.map(|one| one.cause.letter()).collect();
        format!(
            "{:x} {}  {} {letters}",
            analysed.graph.instructions[place].address.0,
            shorten_middle(&clean_name(&analysed.texts[place].replace('\t', " ")), 36),
            group_digits(analysed.samples[place].round() as u64)
        )
    }

    /// Returns the edges between drawn blocks, with their ends and frequencies.
    fn drawn_edges(&self) -> impl Iterator<Item = (&'a Edge, usize, usize, Option<f64>)> + '_ {
        let is_drawn = |block: &usize| self.blocks.binary_search(block).is_ok();
        let frequencies = &self.analysed.frequencies.edges;
        let edges = self.analysed.graph.edges.iter().zip(frequencies);
        edges.filter_map(move |(edge, often)| {
            let (from, to) = (edge.from.filter(is_drawn)?, edge.to.filter(is_drawn)?);
            let is_known = self.analysed.trust[from].is_known();
            let often = often.filter(|_| is_known).map(|one| one.frequency);
            Some((edge, from, to, often))
        })
    }

    fn write_dot(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "digraph procedure {{\n  node [shape=box fontname=monospace style=filled];"
        )?;
        for block in &self.blocks {
            let text: String = self
                .block_lines(*block)
                .iter()
                .map(|line| quote_dot(line) + "\\l")
                .collect();
            writeln!(
                out,
                "  b{block} [label=\"{text}\" fillcolor=\"0.05 {:.2} 1.0\"];",
                self.block_heat(*block)
            )?;
        }
        for (edge, from, to, often) in self.drawn_edges() {
            let label = often.map_or(String::new(), |often| format!(" [label=\"{often:.0}\"]"));
            let style = if edge.kind == EdgeKind::Fall {
                ""
            } else {
                " [style=bold]"
            };
            writeln!(out, "  b{from} -> b{to}{label}{style};")?;
        }
        writeln!(out, "}}")
    }
}

/// Returns the shown instructions of a block, in their order: those with the most samples, and of
/// equals the first.
fn hottest_places(samples: &[f64], block: Range<usize>) -> Vec<usize> {
    let mut places: Vec<usize> = block.collect();
    places.sort_by(|a, b| samples[*b].total_cmp(&samples[*a]));
    places.truncate(SHOWN);
    places.sort_unstable();
    places
}

/// Returns the placeholder of instructions that are not shown.
fn gap_text(places: Range<usize>) -> Option<String> {
    let count = places.len();
    (count > 0).then(|| format!("... {count} more"))
}

fn block_samples(analysed: &AnnotatedProcedure, block: usize) -> f64 {
    let range = analysed.graph.blocks[block].instructions.clone();
    analysed.samples[range].iter().sum()
}

fn quote_dot(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_block_keeps_its_hottest_instructions() {
        let mut samples = vec![1.0; 40];
        (samples[25], samples[38]) = (900.0, 50.0);
        let shown = hottest_places(&samples, 5..40);
        assert_eq!(shown, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 25, 38]);
        assert_eq!(hottest_places(&samples, 5..8), [5, 6, 7]);
        assert_eq!(gap_text(15..25).as_deref(), Some("... 10 more"));
        assert_eq!(gap_text(5..5), None);
    }
}
