//! The control-flow graph of a procedure, as Graphviz's dot or as SVG.

use super::cycles::amount_text;
use crate::output::{clean_name, group_digits, shorten_middle, write_file};
use crate::svg::{escape_xml, write_head};
use machine::{Edge, EdgeKind};
use results::annotation::AnnotatedProcedure;
use results::usage_refusal;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// Maximum number of drawn blocks; of more, those with the most samples.
const MOST: usize = 1000;

/// Maximum number of shown instructions of a block.
const SHOWN: usize = 12;

/// Writes the graph in the format given by the file's suffix.
pub fn write_graph(path: &Path, analysed: &AnnotatedProcedure) -> anyhow::Result<()> {
    let drawing = Drawing::new(analysed);
    let write = match path.extension().and_then(OsStr::to_str) {
        Some("dot") => Drawing::write_dot,
        Some("svg") => Drawing::write_svg,
        _ => {
            let path = path.display();
            let refused = format!("{path}: write to a name that ends in .svg or .dot");
            return Err(usage_refusal(refused));
        }
    };
    write_file(path, |out| Ok(write(&drawing, out)?))
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

    /// Returns the edges between drawn blocks, with the positions of their ends.
    fn drawn_edges(&self) -> impl Iterator<Item = (&'a Edge, usize, usize, Option<f64>)> + '_ {
        let place = |block: usize| self.blocks.binary_search(&block).ok();
        let frequencies = &self.analysed.frequencies.edges;
        self.analysed
            .graph
            .edges
            .iter()
            .zip(frequencies)
            .filter_map(move |(edge, often)| {
                let is_known = self.analysed.trust[edge.from?].is_known();
                let often = often.filter(|_| is_known).map(|one| one.frequency);
                Some((edge, place(edge.from?)?, place(edge.to?)?, often))
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
            let (from, to) = (self.blocks[from], self.blocks[to]);
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

    /// Writes blocks below each other by address; jumps down on the right, up on the left.
    fn write_svg(&self, out: &mut dyn Write) -> io::Result<()> {
        const LINE: usize = 15;
        const WIDTH: usize = 560;
        const MARGIN: usize = 160;
        let texts: Vec<Vec<String>> = self
            .blocks
            .iter()
            .map(|block| self.block_lines(*block))
            .collect();
        let mut tops = Vec::with_capacity(texts.len());
        let mut top = 20;
        for text in &texts {
            tops.push(top);
            top += text.len() * LINE + 34;
        }
        let font = r#"font-family="monospace" font-size="12""#;
        let width = WIDTH + 2 * MARGIN;
        write_head(width as f64, top as f64, font, out)?;
        writeln!(
            out,
            "<title>{}</title>\n<defs><marker id=\"a\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">\
             <path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>",
            escape_xml(&self.analysed.name)
        )?;
        for ((block, text), top) in self.blocks.iter().zip(&texts).zip(&tops) {
            let cold = (255.0 * (1.0 - self.block_heat(*block))) as u8;
            let height = text.len() * LINE + 8;
            writeln!(
                out,
                "<rect x=\"{MARGIN}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" fill=\"rgb(255,{cold},{cold})\" stroke=\"black\"/>"
            )?;
            for (row, line) in text.iter().enumerate() {
                writeln!(
                    out,
                    "<text x=\"{}\" y=\"{}\">{}</text>",
                    MARGIN + 6,
                    top + (row + 1) * LINE,
                    escape_xml(line)
                )?;
            }
        }
        let bottom = |place: usize| tops[place] + texts[place].len() * LINE + 8;
        for (_, from, to, often) in self.drawn_edges() {
            let (start, end) = (bottom(from), tops[to]);
            let path = if to == from + 1 {
                let middle = MARGIN + WIDTH / 2;
                format!("M{middle},{start} L{middle},{end}")
            } else {
                // Longer jumps are drawn further out.
                let out = 20 + (from.abs_diff(to) * 6).min(MARGIN - 30);
                let (side, bend) = if to > from {
                    (MARGIN + WIDTH, MARGIN + WIDTH + out)
                } else {
                    (MARGIN, MARGIN - out)
                };
                let (start, end) = (start - 6, end + 6);
                format!("M{side},{start} C{bend},{start} {bend},{end} {side},{end}")
            };
            let title = often.map_or(String::new(), |often| format!("<title>{often:.0}</title>"));
            writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"black\" marker-end=\"url(#a)\">{title}</path>"
            )?;
        }
        writeln!(out, "</svg>")
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
