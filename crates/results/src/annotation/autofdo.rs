//! Execution counts as a sample profile for a compiler (§7).

use super::procedure::{AnnotatedProcedure, FrequencyBasis};
use super::setting::AnnotationSetting;
use formats::write::autofdo::{
    AutofdoCount, AutofdoFunction, AutofdoPlace, decode_discriminator, is_name,
};
use machine::Flow;
use profile::ImageAddress;
use std::collections::BTreeMap;
use symbols::{DebugInfo, ImageSymbols, Site};

/// Scale of execution counts if the clock is unknown.
const CYCLES: f64 = 1e6;

/// Fewest samples of a usable procedure: with fewer, most of its blocks have none, and a compiler
/// would take these for cold.
const LEAST_SAMPLES: f64 = 20.0;

/// Returns the reason to omit a procedure from the profile, or `None` if its counts are reliable
/// enough. A compiler assumes that code without a count does not run.
pub fn omission_reason(analysed: &AnnotatedProcedure) -> Option<&'static str> {
    if analysed.basis == FrequencyBasis::Counts {
        return None;
    }
    if analysed.graph.misses_edges() {
        return Some("jumps that are not understood");
    }
    (analysed.total_samples() < LEAST_SAMPLES).then_some("too few samples")
}

/// The functions of an image.
#[derive(Default)]
pub struct SampleProfile {
    /// Functions by linkage name.
    pub functions: BTreeMap<String, AutofdoFunction>,
    /// Samples at places that the debug information names.
    pub named: f64,
}

impl SampleProfile {
    /// Adds a procedure.
    ///
    /// # Errors
    /// If the debug information is damaged.
    pub fn add_procedure(
        &mut self,
        analysed: &AnnotatedProcedure,
        code: &ImageSymbols,
        debug: &DebugInfo,
        setting: &AnnotationSetting,
    ) -> anyhow::Result<()> {
        let scale = setting.period.unwrap_or(CYCLES);
        let graph = &analysed.graph;
        for (block, frequency) in graph.blocks.iter().zip(&analysed.frequencies.blocks) {
            let Some(frequency) = frequency else { continue };
            let count = (frequency.frequency * scale).round() as u64;
            for at in block.instructions.clone() {
                let Some(instruction) = graph.instructions.get(at) else {
                    continue;
                };
                let sites = debug.sites(instruction.address)?;
                let Some(placed) = Placed::of(&sites) else {
                    continue;
                };
                self.named += analysed.samples.get(at).copied().unwrap_or(0.0);
                let function = self.functions.entry(placed.function).or_default();
                if instruction.address == graph.start && placed.calls.is_empty() {
                    function.head = function.head.max(count);
                }
                let copies = u64::from(placed.copies);
                let count = count.saturating_mul(copies);
                let inner = function.inlined_function(&placed.calls);
                inner.record_execution(placed.place, count);
                let direct = match instruction.flow {
                    Flow::Call(target) => Some((target, 1.0)),
                    _ => None,
                };
                let indirect = analysed.callees.get(&at).into_iter().flatten().copied();
                for (target, share) in direct.into_iter().chain(indirect) {
                    let times = (share * count as f64).round() as u64;
                    if let Some(callee) = callee_name(code, target)
                        && let Some(AutofdoCount { callees, .. }) =
                            inner.body.get_mut(&placed.place)
                        && times > 0
                    {
                        let calls = callees.entry(callee).or_default();
                        *calls = times.max(*calls);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Source position of an instruction.
struct Placed {
    function: String,
    calls: Vec<(AutofdoPlace, String)>,
    place: AutofdoPlace,
    /// Number of copies by unrolling.
    copies: u32,
}

impl Placed {
    fn of(sites: &[Site]) -> Option<Self> {
        if !sites.iter().all(|site| is_name(&site.function)) {
            return None;
        }
        let place = |site: &Site| {
            let (discriminator, copies) = decode_discriminator(site.discriminator);
            let offset = site.offset;
            (
                AutofdoPlace {
                    offset,
                    discriminator,
                },
                copies,
            )
        };
        let calls = sites
            .windows(2)
            .filter_map(|pair| Some((place(pair.first()?).0, pair.get(1)?.function.to_string())));
        let (place, copies) = place(sites.last()?);
        Some(Self {
            function: sites.first()?.function.to_string(),
            calls: calls.collect(),
            place,
            copies,
        })
    }
}

/// Returns the linkage name of a callee.
fn callee_name(code: &ImageSymbols, target: ImageAddress) -> Option<String> {
    let procedure = code.procedure_at(code.offset_of(target)?)?;
    let name = String::from_utf8_lossy(procedure.name).into_owned();
    // Called through the linkage table: `write@plt`.
    let name = name.split('@').next().unwrap_or_default().to_owned();
    is_name(&name).then_some(name)
}
