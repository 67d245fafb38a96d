//! Setting of all procedures of a recording.

use super::counts::{CountedLines, GivenCounts};
use super::evidence::MeasuredCounts;
use crate::kept::symbol_options;
use crate::refusal::usage_refusal;
use crate::source::RecordingSource;
use machine::{PROCESSORS, Processor, ProcessorModel};
use profile::{EventId, Recording};
use std::path::PathBuf;
use symbols::ImageSymbols;

/// The user's statements about the machine and the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotationOptions<'a> {
    /// The name of the processor's model; `None` for the recording's processor.
    pub processor: Option<&'a str>,
    /// The clock in GHz; `None` for the recording's clock.
    pub clock_ghz: Option<f64>,
    /// Files with counts of other tools.
    pub counts: &'a [PathBuf],
}

/// Setting of all procedures of a recording.
pub struct AnnotationSetting {
    /// The model of the processor.
    pub model: ProcessorModel,
    /// The name of the time event.
    pub event: String,
    /// Cycles between samples, if the clock is known.
    pub period: Option<f64>,
    /// Nanoseconds of CPU time between samples, if the clock is known.
    pub sample_ns: Option<f64>,
    /// A procedure's executions, counted in bursts.
    pub measured: Option<MeasuredCounts>,
    /// All samples of the event.
    pub total: f64,
    /// Counts of other tools.
    pub counts: GivenCounts,
    /// True if there are branch records, recorded or given.
    pub records: bool,
    /// Number of instructions by which its samples may come late on this machine.
    pub late: usize,
    /// Directories with debug information.
    pub(super) options: symbols::SymbolOptions,
}

impl AnnotationSetting {
    /// Finds the model of the processor, and reads the counts of other tools.
    ///
    /// # Errors
    /// If the processor has no model, or counts cannot be read or compared.
    pub fn new(
        options: &AnnotationOptions<'_>,
        source: &RecordingSource,
        recording: &Recording,
        event: EventId,
    ) -> anyhow::Result<Self> {
        let event = recording.event(event);
        let host = &recording.host;
        let names = || {
            PROCESSORS
                .iter()
                .map(|one| one.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let processor = match (options.processor, &host.cpu_id) {
        (Some(name), _) => Processor::named(name).ok_or_else(|| {
            usage_refusal(format!("there is no model of '{name}'; there are: {}", names()))
        })?,
        (None, Some(id)) => Processor::of_machine(id).ok_or_else(|| {
            usage_refusal(format!(
                "there is no model of the recording's processor ({}); choose the nearest with --cpu: {}",
                id,
                names()
            ))
        })?,
        (None, None) => {
            return Err(usage_refusal(format!(
                "the recording does not say which processor it is of; say it with --cpu: {}",
                names()
            )));
        }
    };
        let clock = options
            .clock_ghz
            .map(|clock| clock * 1e9)
            .or(host.clock_hz.map(|hz| hz as f64));
        let period = match event.name.split(':').next() {
            Some("cpu-clock" | "task-clock") => clock.map(|hz| event.period as f64 * hz / 1e9),
            Some("cycles" | "cpu-cycles") => Some(event.period as f64),
            _ => None,
        };
        let sample_ns = match event.name.split(':').next() {
            Some("cpu-clock" | "task-clock") => Some(event.period as f64),
            _ => period.zip(clock).map(|(cycles, hz)| 1e9 * cycles / hz),
        };
        let counts = GivenCounts::read_files(options.counts)?;
        if counts.has_executions() && period.is_none() {
            return Err(usage_refusal(
                "counts compare with time only if the clock is known: --clock GHZ".to_owned(),
            ));
        }
        Ok(Self {
            model: ProcessorModel::new(processor),
            event: event.name.clone(),
            period: period.filter(|period| *period > 0.0),
            sample_ns,
            measured: None,
            total: 0.0,
            records: counts.branches.is_some() || !recording.stretches.is_empty(),
            counts,
            late: 0,
            options: symbol_options(&source.path_or_default(), &source.debug_dirs),
        })
    }

    /// Joins the counted lines with an image, if lines were counted.
    pub(super) fn counted_lines(
        &self,
        code: &ImageSymbols,
    ) -> anyhow::Result<Option<CountedLines>> {
        let counts = self.counts.lines.as_ref();
        counts
            .map(|counts| CountedLines::new(code, counts))
            .transpose()
    }
}
