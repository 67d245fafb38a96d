//! `vitalfew export`.

use crate::args::{Export, Format};
use crate::exit::INCONCLUSIVE;
use crate::output::{write_all, write_file};
use crate::screen::{Screen, tell_user};
use crate::source;
use formats::coz;
use results::{event_named, name_locations};
use std::io::Write;
use std::process::ExitCode;
use store::Wanted;
use symbols::Detail;

/// Runs the command.
pub fn run(args: &Export) -> anyhow::Result<ExitCode> {
    match args.format {
        Format::Coz => return export_causal(args, coz::CozForm::Tabbed),
        Format::CozJsonl => return export_causal(args, coz::CozForm::JsonLines),
        _ => {}
    }
    let mut recording = source::open_source(&args.source, Wanted::ALL)?;
    if !args.runtime_frames {
        profile::fold_interpreter_frames(&mut recording);
    }
    let locations = recording.stacks.frames().iter().map(|frame| frame.location);
    let detail = if args.no_inline && args.format == Format::Folded {
        Detail::Procedures
    } else {
        Detail::Lines
    };
    let resolved = name_locations(
        &recording,
        locations,
        detail,
        &args.source.recording_source(),
    );
    let options = formats::write::WriteOptions {
        event: event_named(&recording, args.event.as_deref())?,
        inline: !args.no_inline,
        wakers: args.wakers,
        mark_kernel: args.mark_kernel,
        gzip: args
            .output
            .as_ref()
            .is_some_and(|path| path.extension().is_some_and(|e| e == "gz")),
    };
    let write = |out: &mut dyn Write| -> anyhow::Result<()> {
        let table = &resolved.table;
        match args.format {
            Format::Folded => {
                formats::write::folded::write_folded(&recording, table, &options, out)?
            }
            Format::Pprof => formats::write::pprof::write_pprof(&recording, table, &options, out)?,
            Format::Firefox => {
                formats::write::firefox::write_firefox(&recording, table, &options, out)?
            }
            Format::Speedscope => {
                formats::write::speedscope::write_speedscope(&recording, table, &options, out)?
            }
            // Written above, from a causal profile.
            Format::Coz | Format::CozJsonl => {}
        }
        Ok(())
    };
    write_output(args, write)?;
    let mut samples = recording.samples.iter();
    if !samples.any(|sample| sample.event == options.event) {
        tell_user(
            "the profile has no time and no sample of this event: what was exported is empty",
        );
        return Ok(ExitCode::from(INCONCLUSIVE));
    }
    source::warn_of_gaps(&recording, options.event, &resolved, false);
    Ok(ExitCode::SUCCESS)
}

/// Writes a causal profile in Coz's form.
fn export_causal(args: &Export, form: coz::CozForm) -> anyhow::Result<ExitCode> {
    let files = args.source.path.as_slice();
    let profile = results::causal::load_profiles(files)?;
    write_output(args, |out| Ok(coz::write_coz(&profile, form, out)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to the requested output.
fn write_output(
    args: &Export,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match &args.output {
        None => write_all(&mut Screen::data_output(), write),
        Some(path) => write_file(path, write),
    }
}
