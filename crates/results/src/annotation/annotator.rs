//! The procedures of a recording, one by one or together.

use super::autofdo::{SampleProfile, omission_reason};
use super::code::ProcedureCode;
use super::counts::CountedLines;
use super::evidence::ProcedureEvidence;
use super::procedure::{AnnotatedProcedure, FrequencyBasis, analyse_procedure, plan_procedure};
use super::select::{ChosenProcedure, SampleSelection};
use super::setting::AnnotationSetting;
use crate::refusal::{inconclusive_refusal, usage_refusal};
use analysis::stall::CountPlan;
use analysis::stall::culprits::Summary;
use machine::ProcessorModel;
use profile::{ImageOffset, Recording, Stretch, StretchSightings};
use symbols::ImageSymbols;

/// Least share of a whole profile's samples with which a procedure is analysed.
const LEAST_SHARE: f64 = 0.001;

/// The input of annotations.
pub struct Annotator<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Setting of all its procedures.
    pub setting: &'a AnnotationSetting,
    /// Its samples.
    pub selection: &'a SampleSelection<'a>,
}

/// Cycles of a whole profile, by cause.
pub struct WholeSummary {
    /// All procedures together.
    pub summary: Summary,
    /// The number of procedures.
    pub procedures: usize,
    /// Basis of the first procedure's frequencies, and number of stretches between branch records
    /// in all procedures.
    pub basis: Option<(FrequencyBasis, u64)>,
    /// Procedures and images that could not be analysed: a sentence for each.
    pub failures: Vec<String>,
}

/// A procedure that a profile for a compiler leaves out.
pub struct OmittedProcedure {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: f64,
    /// Reason for leaving it out.
    pub reason: &'static str,
}

/// A profile of an image for a compiler.
pub struct CompilerProfile {
    /// Its path.
    pub image: String,
    /// The execution counts.
    pub profile: SampleProfile,
    /// The procedures that are left out.
    pub omitted: Vec<OmittedProcedure>,
    /// Procedures that could not be analysed: a sentence for each.
    pub failures: Vec<String>,
}

impl Annotator<'_> {
    /// Opens an image for the model's processor.
    ///
    /// # Errors
    /// If its file is gone, replaced, or of another processor.
    pub fn open_image(&self, chosen: &ChosenProcedure) -> anyhow::Result<ImageSymbols> {
        let code = open_image(self.recording, chosen, &self.setting.options)?;
        check_processor(&code, &self.setting.model)?;
        Ok(code)
    }

    /// Annotates a procedure of an opened image.
    ///
    /// # Errors
    /// If its code cannot be read or decoded, or it has no samples.
    pub fn annotate_procedure(
        &self,
        chosen: &ChosenProcedure,
        code: &ImageSymbols,
    ) -> anyhow::Result<AnnotatedProcedure> {
        let lines = self.setting.counted_lines(code)?;
        let evidence = evidence_of(self, chosen, code, lines.as_ref())?;
        let annotated = analyse_procedure(&evidence, &self.setting.model)?;
        if annotated.total_samples() <= 0.0 {
            return Err(inconclusive_refusal(format!(
                "no sample is in {}",
                annotated.name
            )));
        }
        Ok(annotated)
    }

    /// Plans which places of a procedure to count, and returns their offsets in the image.
    ///
    /// # Errors
    /// If its code cannot be read or decoded, or the clock is not known.
    pub fn plan_count(
        &self,
        chosen: &ChosenProcedure,
        code: &ImageSymbols,
    ) -> anyhow::Result<(CountPlan, Vec<ImageOffset>)> {
        if self.setting.period.is_none() {
            return Err(usage_refusal(
                "counts compare with time only if the clock is known: --clock GHZ".to_owned(),
            ));
        }
        let lines = self.setting.counted_lines(code)?;
        let evidence = evidence_of(self, chosen, code, lines.as_ref())?;
        plan_procedure(&evidence, &self.setting.model)
    }

    /// Annotates procedures of one image. Returns a sentence for each that could not be annotated.
    fn annotate_each(
        &self,
        code: &ImageSymbols,
        chosen: &[ChosenProcedure],
        mut visit: impl FnMut(&AnnotatedProcedure) -> anyhow::Result<()>,
    ) -> Vec<String> {
        let mut failures = Vec::new();
        let lines = self.setting.counted_lines(code).unwrap_or_else(|error| {
            failures.push(error.to_string());
            None
        });
        for one in chosen {
            let annotated = evidence_of(self, one, code, lines.as_ref())
                .and_then(|evidence| analyse_procedure(&evidence, &self.setting.model))
                .and_then(|annotated| visit(&annotated));
            failures.extend(annotated.err().map(|error| error.to_string()));
        }
        failures
    }

    /// Sums up the cycles of all procedures by cause.
    ///
    /// # Errors
    /// If none of them can be analysed.
    pub fn summarize_procedures(&self) -> anyhow::Result<WholeSummary> {
        let mut whole = WholeSummary {
            summary: Summary::new(),
            procedures: 0,
            basis: None,
            failures: Vec::new(),
        };
        let (mut basis, mut records) = (None, 0);
        for (_, mut chosen) in self.selection.by_image() {
            chosen.retain(|one| one.samples >= LEAST_SHARE * self.selection.total);
            let Some(first) = chosen.first() else {
                continue;
            };
            let code = match self.open_image(first) {
                Ok(code) => code,
                Err(error) => {
                    whole.failures.push(error.to_string());
                    continue;
                }
            };
            let failures = self.annotate_each(&code, &chosen, |annotated| {
                basis = basis.or(Some(annotated.basis));
                whole.procedures += 1;
                records += annotated.contradictions.1;
                whole.summary.join(&annotated.cycle_summary());
                Ok(())
            });
            whole.failures.extend(failures);
        }
        let outside = self.selection.total - whole.summary.samples;
        whole.summary.samples += outside;
        whole.summary.unknown += outside;
        if whole.procedures == 0 {
            let why = whole.failures.first();
            let why = why.map_or("no procedure is known", String::as_str);
            return Err(inconclusive_refusal(format!("nothing can be said: {why}")));
        }
        whole.basis = basis.map(|basis| (basis, records));
        Ok(whole)
    }

    /// Makes a sample profile for a compiler, for the image with most samples.
    ///
    /// # Errors
    /// If there is no such image, it has no debug information, or none of its counts is reliable
    /// enough.
    pub fn compiler_profile(&self) -> anyhow::Result<CompilerProfile> {
        let samples =
            |chosen: &[ChosenProcedure]| chosen.iter().map(|one| one.samples).sum::<f64>();
        let images = self.selection.by_image().into_iter();
        let files = images.filter(|(image, _)| self.recording.image(*image).is_file());
        let most = files.max_by(|a, b| samples(&a.1).total_cmp(&samples(&b.1)));
        let Some((image, chosen)) = most else {
            return Err(inconclusive_refusal(
                "no sample is in a procedure of a file".to_owned(),
            ));
        };
        let image = self.recording.image(image).path.clone();
        let code = self.open_image(&chosen[0])?;
        let debug = code.debug_info()?.ok_or_else(|| {
            inconclusive_refusal(format!(
                "{image}: no debug information; compile it with -g1 -fdebug-info-for-profiling, and record again"
            ))
        })?;
        let mut profile = SampleProfile::default();
        let mut omitted = Vec::new();
        let failures = self.annotate_each(&code, &chosen, |annotated| {
            match omission_reason(annotated) {
                Some(reason) => omitted.push(OmittedProcedure {
                    name: annotated.name.clone(),
                    samples: annotated.total_samples(),
                    reason,
                }),
                None => profile.add_procedure(annotated, &code, &debug, self.setting)?,
            }
            Ok(())
        });
        if profile.functions.is_empty() {
            let why = failures.into_iter().next();
            let why = why.or_else(|| describe_omitted(&omitted));
            let why = why
                .unwrap_or_else(|| "the debug information names no place with samples".to_owned());
            return Err(inconclusive_refusal(format!("{image}: {why}")));
        }
        Ok(CompilerProfile {
            image,
            profile,
            omitted,
            failures,
        })
    }
}

/// Returns why a profile would have no procedure, by the procedures with most samples.
fn describe_omitted(omitted: &[OmittedProcedure]) -> Option<String> {
    const NAMED: usize = 3;
    let mut largest: Vec<&OmittedProcedure> = omitted.iter().collect();
    largest.sort_by(|a, b| b.samples.total_cmp(&a.samples));
    let named = largest.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|one| format!("{} has {}", one.name, one.reason))
        .collect();
    (!named.is_empty()).then(|| {
        let named = named.join(", ");
        format!("no procedure is known well enough for a compiler: {named}; exact counts (--counts) would do")
    })
}

fn open_image(
    recording: &Recording,
    chosen: &ChosenProcedure,
    options: &symbols::SymbolOptions,
) -> anyhow::Result<ImageSymbols> {
    let image = recording.image(chosen.image);
    if !image.is_file() {
        return Err(inconclusive_refusal(format!(
            "{} is not a file: its code cannot be read",
            image.path
        )));
    }
    let keep = "put the recorded file back, or record again with --keep-images";
    let code = ImageSymbols::of_recording(image, options).map_err(|error| match error {
        symbols::Error::Replaced { .. } | symbols::Error::Gone { .. } => {
            let id = image.build_id.as_ref();
            let id = id.map_or(String::new(), |id| format!(" (build-id {id})"));
            anyhow::anyhow!("{error}{id}; its samples do not apply to another file: {keep}")
        }
        error => error.into(),
    })?;
    if !code.has_code() {
        anyhow::bail!("{}: a debug file without code", code.path().display());
    }
    Ok(code)
}

fn check_processor(code: &ImageSymbols, model: &ProcessorModel) -> anyhow::Result<()> {
    let processor = model.processor();
    match ProcedureCode(code).architecture() {
        Some(architecture) if architecture == processor.architecture => Ok(()),
        Some(_) => Err(usage_refusal(format!(
            "{} is not for {}: choose another with --cpu",
            code.path().display(),
            processor.name
        ))),
        None => anyhow::bail!(
            "{}: only x86-64 and AArch64 are decoded",
            code.path().display()
        ),
    }
}

fn evidence_of<'a>(
    annotator: &'a Annotator<'_>,
    chosen: &ChosenProcedure,
    code: &'a ImageSymbols,
    lines: Option<&'a CountedLines>,
) -> anyhow::Result<ProcedureEvidence<'a>> {
    let Annotator {
        recording,
        setting,
        selection,
    } = annotator;
    let size = usize::try_from(chosen.size).unwrap_or(usize::MAX);
    if size > machine::MAX_PROCEDURE {
        anyhow::bail!(
            "{}: {} is said to have {} bytes; at most {} are analysed",
            code.path().display(),
            chosen.name,
            chosen.size,
            machine::MAX_PROCEDURE
        );
    }
    if size == 0 {
        anyhow::bail!(
            "{}: the size of {} is not known; give START..END",
            code.path().display(),
            chosen.name
        );
    }
    let stacks = setting.counts.branches.as_ref();
    let image = recording.image(chosen.image);
    let within = |at: ImageOffset| (at.0.wrapping_sub(chosen.start.0)) < chosen.size;
    let own = recording.stretches.iter();
    let own = own.filter(|one| one.image == chosen.image);
    let own = own.map(|one| (one.stretch, one.seen));
    let given = stacks
        .into_iter()
        .flat_map(|stacks| stacks.stretches_in(image));
    let inside = |(one, _): &(Stretch, StretchSightings)| within(one.start) && within(one.branch);
    Ok(ProcedureEvidence {
        name: chosen.name.clone(),
        image: image.path.clone(),
        code: ProcedureCode(code),
        start: chosen.start,
        size,
        samples: selection.image_samples(chosen.image),
        events: selection.image_events(chosen.image),
        branches: recording
            .branches
            .iter()
            .filter(|one| one.image == chosen.image)
            .collect(),
        stretches: own.chain(given).filter(inside).collect(),
        accesses: recording
            .accesses
            .iter()
            .filter(|one| one.image == chosen.image && within(one.instruction))
            .collect(),
        everywhere: recording.kernel.then_some(selection.everywhere),
        counts: setting.counts.instructions.as_ref(),
        lines,
        instructions: selection.instructions_executed(chosen),
        period: setting.period,
        sample_ns: setting.sample_ns,
        measured: setting
            .measured
            .as_ref()
            .filter(|counted| (counted.image, counted.start) == (chosen.image, chosen.start)),
        kernel: recording.kernel.then_some(selection.kernel),
        late: setting.late,
        // Only a single thread is known to share nothing.
        shared: recording.task_times.and_then(|times| times.threads) != Some(1),
    })
}
