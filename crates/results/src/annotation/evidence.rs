//! Input of a procedure's analysis.

use super::code::ProcedureCode;
use super::counts::CountedLines;
use analysis::stall::CountPlan;
use formats::counts::callgrind::CallgrindCounts;
use profile::{
    AccessCount, BranchCount, ExecutionCounts, ImageId, ImageOffset, Stretch, StretchSightings,
};
use rustc_hash::FxHashMap;

/// Input of a procedure's analysis.
pub struct ProcedureEvidence<'a> {
    /// Its name, demangled.
    pub name: String,
    /// The path of its image, as recorded.
    pub image: String,
    /// Its image.
    pub code: ProcedureCode<'a>,
    /// Start offset, in the image.
    pub start: ImageOffset,
    /// Size in bytes.
    pub size: usize,
    /// Its time samples, by place.
    pub samples: &'a FxHashMap<ImageOffset, f64>,
    /// Samples of other events, times their periods.
    pub events: &'a [(
        analysis::stall::culprits::Cause,
        FxHashMap<ImageOffset, f64>,
    )],
    /// Observed branches of the image.
    pub branches: Vec<&'a BranchCount>,
    /// Stretches between branch records, and how often each was seen.
    pub stretches: Vec<(Stretch, StretchSightings)>,
    /// Memory accesses of its instructions.
    pub accesses: Vec<&'a AccessCount>,
    /// All samples of the event, in any code, if kernel samples were recorded too.
    pub everywhere: Option<f64>,
    /// Exact counts.
    pub counts: Option<&'a CallgrindCounts>,
    /// Counts of source lines.
    pub lines: Option<&'a CountedLines>,
    /// Instructions that the procedure executed, estimated from samples of that event, and the
    /// number of these samples.
    pub instructions: (f64, f64),
    /// Cycles between samples, if known.
    pub period: Option<f64>,
    /// Nanoseconds between samples, if known.
    pub sample_ns: Option<f64>,
    /// Its executions counted in bursts.
    pub measured: Option<&'a MeasuredCounts>,
    /// Samples in the kernel.
    pub kernel: Option<f64>,
    /// Number of instructions by which samples may come late.
    pub late: usize,
    /// True if other threads may write the memory that it accesses.
    pub shared: bool,
}

/// Executions of a procedure, counted in bursts.
pub struct MeasuredCounts {
    /// Its image.
    pub image: ImageId,
    /// Its start, in the image.
    pub start: ImageOffset,
    /// What was counted.
    pub plan: CountPlan,
    /// The counts.
    pub counts: ExecutionCounts,
}
