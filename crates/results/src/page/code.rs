//! The hottest procedures as code: instructions with their samples, cycles and culprits, and the
//! graph of their blocks.

use crate::annotation::{
    AnnotatedProcedure, Annotator, ChosenProcedure, basis_name, confidence_name, doubt_name,
};
use analysis::stall::CycleTrust;
use analysis::stall::culprits::Culprit;
use profile::ImageKind;
use serde::Serialize;
use symbols::ImageSymbols;

/// Least share of the samples with which a procedure is in the data.
const LEAST_SHARE: f64 = 0.01;
/// Maximum number of procedures in the data.
const MOST: usize = 12;
/// Maximum number of instructions of a procedure in the data: the graph of a longer one would be
/// unreadable.
const MOST_INSTRUCTIONS: usize = 6000;

/// Code of the hottest procedures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageCode {
    /// The procedures, the hottest first.
    pub procedures: Vec<PageProcedure>,
    /// Reasons why cycles or procedures are missing: each a sentence.
    pub notes: Vec<String>,
}

/// An annotated procedure.
#[derive(Clone, Debug, Serialize)]
pub struct PageProcedure {
    /// Its name.
    pub name: String,
    /// The path of its image.
    pub image: String,
    /// The model of the processor.
    pub model: &'static str,
    /// Source of the frequencies.
    pub frequencies: &'static str,
    /// Cycles between samples, if the clock is known.
    pub cycles_per_sample: Option<f64>,
    /// True if some jumps are not understood, so that paths through it are missing.
    pub misses_edges: bool,
    /// Sum of its samples.
    pub samples: f64,
    /// Paths of the source files of its instructions.
    pub files: Vec<String>,
    /// Its blocks.
    pub blocks: PageBlocks,
    /// The edges between blocks.
    pub edges: PageEdges,
    /// Its instructions, by address.
    pub instructions: PageInstructions,
}

/// Basic blocks, column by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageBlocks {
    /// Position of the first instruction.
    pub first: Vec<usize>,
    /// Position after the last instruction.
    pub end: Vec<usize>,
    /// Executions divided by the cycles between samples; null if unknown.
    pub frequency: Vec<Option<f64>>,
    /// Confidence of the frequency; null if the frequency is unknown.
    pub confidence: Vec<Option<&'static str>>,
    /// Reason why the block's cycles are unknown; null if they are known.
    pub doubt: Vec<Option<&'static str>>,
}

/// Edges of the control-flow graph, column by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageEdges {
    /// The block that it leaves; null at the procedure's entry.
    pub from: Vec<Option<usize>>,
    /// The block that it enters; null at the procedure's exit.
    pub to: Vec<Option<usize>>,
    /// Kind of the edge, as in `annotate --json`.
    pub kind: Vec<String>,
    /// Executions of the edge, in the unit of the blocks' frequencies; null if unknown.
    pub frequency: Vec<Option<f64>>,
}

/// Instructions, column by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageInstructions {
    /// Addresses in the image.
    pub address: Vec<u64>,
    /// Assembly.
    pub text: Vec<String>,
    /// Samples.
    pub samples: Vec<f64>,
    /// Position of the source file; null if unknown.
    pub file: Vec<Option<usize>>,
    /// The source line.
    pub line: Vec<Option<u32>>,
    /// Cycles of one execution; null if unknown.
    pub cycles: Vec<Option<f64>>,
    /// Cycles in the best case.
    pub best: Vec<f64>,
    /// Cycles beyond the best case and sampling error; null if unknown.
    pub stall: Vec<Option<f64>>,
    /// Causes of its possible waits, the likeliest first.
    pub culprits: Vec<Vec<PageCulprit>>,
}

/// A cause that was not ruled out.
#[derive(Clone, Debug, Serialize)]
pub struct PageCulprit {
    /// Its name.
    pub cause: &'static str,
    /// Its letter in listings.
    pub letter: char,
    /// Positions of the instructions that may be responsible.
    pub at: Vec<usize>,
    /// The most cycles that it can have cost each time; null if unknown.
    pub most: Option<f64>,
}

impl PageCode {
    /// Annotates the procedures with most samples. Without `exact`, samples do not fall right after
    /// the slow instruction, and the data have no cycles and no culprits.
    pub fn of_hottest(annotator: &Annotator<'_>, exact: bool) -> Self {
        let recording = annotator.recording;
        // Functions that an interpreter executes have no instructions.
        let compiled = |one: &ChosenProcedure| recording.image(one.image).kind != ImageKind::Script;
        let chosen = annotator.selection.by_image().into_values().flatten();
        let chosen = chosen.filter(compiled);
        let least = LEAST_SHARE * annotator.selection.total;
        let mut chosen: Vec<ChosenProcedure> = chosen.filter(|one| one.samples >= least).collect();
        chosen.sort_by(|a, b| b.samples.total_cmp(&a.samples));
        chosen.truncate(MOST);
        let mut code = Self::default();
        for one in &chosen {
            match page_procedure(annotator, one, exact) {
                Ok(Some(procedure)) => code.procedures.push(procedure),
                Ok(None) => {}
                Err(error) => {
                    let note = format!("{}: {error:#}", one.name);
                    code.notes.push(note);
                }
            }
        }
        code
    }
}

fn page_procedure(
    annotator: &Annotator<'_>,
    chosen: &ChosenProcedure,
    exact: bool,
) -> anyhow::Result<Option<PageProcedure>> {
    let symbols = annotator.open_image(chosen)?;
    let annotated = annotator.annotate_procedure(chosen, &symbols)?;
    if annotated.graph.instructions.len() > MOST_INSTRUCTIONS {
        return Ok(None);
    }
    let mut procedure = PageProcedure {
        name: annotated.name.clone(),
        image: annotated.image.clone(),
        model: annotator.setting.model.processor().name,
        frequencies: basis_name(annotated.basis),
        cycles_per_sample: annotated.cycles_per_sample,
        misses_edges: annotated.graph.misses_edges(),
        samples: annotated.total_samples(),
        files: Vec::new(),
        blocks: page_blocks(&annotated),
        edges: page_edges(&annotated),
        instructions: page_instructions(&annotated, exact),
    };
    procedure.add_lines(&annotated, &symbols);
    Ok(Some(procedure))
}

fn page_blocks(annotated: &AnnotatedProcedure) -> PageBlocks {
    let mut blocks = PageBlocks::default();
    for (index, block) in annotated.graph.blocks.iter().enumerate() {
        let estimate = annotated.frequencies.blocks[index];
        blocks.first.push(block.instructions.start);
        blocks.end.push(block.instructions.end);
        blocks.frequency.push(estimate.map(|one| one.frequency));
        let confidence = estimate.map(|one| confidence_name(one.confidence));
        blocks.confidence.push(confidence);
        blocks.doubt.push(match annotated.trust[index] {
            CycleTrust::Unknown(doubt) => Some(doubt_name(doubt)),
            _ => None,
        });
    }
    blocks
}

fn page_edges(annotated: &AnnotatedProcedure) -> PageEdges {
    let mut edges = PageEdges::default();
    let found = annotated.graph.edges.iter();
    for (edge, often) in found.zip(&annotated.frequencies.edges) {
        edges.from.push(edge.from);
        edges.to.push(edge.to);
        edges.kind.push(format!("{:?}", edge.kind));
        edges.frequency.push(often.map(|one| one.frequency));
    }
    edges
}

fn page_instructions(annotated: &AnnotatedProcedure, exact: bool) -> PageInstructions {
    let mut instructions = PageInstructions {
        address: (annotated.graph.instructions.iter())
            .map(|one| one.address.0)
            .collect(),
        text: annotated.texts.clone(),
        samples: annotated.samples.clone(),
        best: annotated.expected.iter().map(|one| one.minimum).collect(),
        ..PageInstructions::default()
    };
    for (account, suspects) in annotated.accounts.iter().zip(&annotated.suspects) {
        let account = account.as_ref().filter(|_| exact);
        instructions.cycles.push(account.map(|one| one.cycles));
        instructions.stall.push(account.map(|one| one.stall));
        instructions.culprits.push(match account {
            _ if !exact => Vec::new(),
            Some(account) => (account.culprits.iter())
                .map(|one| page_culprit(one, Some(one.most)))
                .collect(),
            None => suspects.iter().map(|one| page_culprit(one, None)).collect(),
        });
    }
    instructions
}

fn page_culprit(culprit: &Culprit, most: Option<f64>) -> PageCulprit {
    PageCulprit {
        cause: culprit.cause.name(),
        letter: culprit.cause.letter(),
        at: culprit.at.clone(),
        most,
    }
}

impl PageProcedure {
    /// Adds the source line of each instruction, if the debug information has it.
    fn add_lines(&mut self, annotated: &AnnotatedProcedure, symbols: &ImageSymbols) {
        // Without debug information, only the assembly is shown.
        let debug = symbols.debug_info().ok().flatten();
        for instruction in &annotated.graph.instructions {
            let frames = debug
                .as_ref()
                .and_then(|debug| debug.source_frames(instruction.address, None).ok());
            let frame = frames.and_then(|frames| frames.into_iter().next());
            let place = frame.and_then(|frame| frame.file.zip(frame.line));
            let file = place.as_ref().map(|(file, _)| {
                let known = self.files.iter().position(|one| **one == **file);
                known.unwrap_or_else(|| {
                    self.files.push(file.to_string());
                    self.files.len() - 1
                })
            });
            self.instructions.file.push(file);
            self.instructions.line.push(place.map(|(_, line)| line));
        }
    }

    /// Returns the source lines of instructions with samples: path and number.
    pub(super) fn sampled_lines(&self) -> impl Iterator<Item = (&str, u32)> {
        let instructions = &self.instructions;
        let places = instructions.file.iter().zip(&instructions.line);
        let sampled = places.zip(&instructions.samples);
        sampled.filter_map(|((file, line), samples)| {
            let path = self.files.get((*file)?)?;
            line.filter(|_| *samples > 0.0).map(|line| (&**path, line))
        })
    }
}
