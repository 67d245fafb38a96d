//! `vitalfew export`.

use crate::args::{Export, Format};
use crate::source;
use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use store::Wanted;
use symbols::Detail;

/// Runs the command.
pub fn run(args: &Export) -> anyhow::Result<ExitCode> {
    let recording = source::open(&args.source, Wanted::ALL)?;
    let locations = recording.stacks.frames().iter().map(|frame| frame.location);
    let detail = if args.no_inline && args.format == Format::Folded {
        Detail::Procedures
    } else {
        Detail::Lines
    };
    let resolved = source::symbolize(&recording, locations, detail, &args.source);
    let options = formats::Options {
        event: source::event(&recording, args.event.as_deref())?,
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
            Format::Folded => formats::folded::write(&recording, table, &options, out)?,
            Format::Pprof => formats::pprof::write(&recording, table, &options, out)?,
            Format::Firefox => formats::firefox::write(&recording, table, &options, out)?,
            Format::Speedscope => formats::speedscope::write(&recording, table, &options, out)?,
        }
        out.flush()?;
        Ok(())
    };
    match &args.output {
        None => write(&mut BufWriter::new(std::io::stdout().lock()))?,
        Some(path) => {
            // Whole or not at all: beside the file, then in its place.
            let mut temporary = path.clone().into_os_string();
            temporary.push(format!(".{}", std::process::id()));
            let result = File::create(&temporary)
                .map_err(anyhow::Error::from)
                .and_then(|file| write(&mut BufWriter::new(file)))
                .and_then(|()| Ok(std::fs::rename(&temporary, path)?));
            if let Err(error) = result {
                let _ = std::fs::remove_file(&temporary);
                return Err(error).with_context(|| format!("writing {}", path.display()));
            }
        }
    }
    source::warn_of_gaps(&recording, options.event, &resolved, false);
    Ok(ExitCode::SUCCESS)
}
