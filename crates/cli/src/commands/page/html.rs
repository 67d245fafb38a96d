//! `vitalfew html`.

use super::args::Html;
use super::stub::warn_of_stub_page;
use crate::output::{format_bytes, group_digits, write_file};
use crate::screen::tell_user;
use crate::source::accept_recording;
use orchestration::{PageContent, gather_content};
use results::failure_refusal;
use std::process::ExitCode;

/// Least shares of the cost that a calling context needs to be kept. They are tried in order until
/// the page is small enough.
const SHARES: [f64; 8] = [1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2];

/// Runs the command.
pub fn run(args: &Html) -> anyhow::Result<ExitCode> {
    let mut content = gather_content(
        &args.shown.files,
        &args.shown.debug_dir,
        false,
        accept_recording,
    )?;
    let (page, left_out) = fit_page(&mut content, args.max_size)?;
    write_file(&args.output, |out| Ok(out.write_all(page.as_bytes())?))?;
    warn_of_stub_page();
    tell_user(&format!(
        "{}: {}",
        args.output.display(),
        format_bytes(page.len() as u64)
    ));
    for what in left_out {
        tell_user(&format!("left out for --max-size: {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the page, no larger than `most`, and descriptions of the parts that were left out.
fn fit_page(content: &mut PageContent, most: u64) -> anyhow::Result<(String, Vec<String>)> {
    let page = |content: &PageContent| -> anyhow::Result<String> {
        Ok(server::page_with_data(&server::compress_data(
            &content.to_json()?,
        )?))
    };
    let fits = |page: &String| page.len() as u64 <= most;
    let mut made = page(content)?;
    let mut left_out = Vec::new();
    if !fits(&made) {
        content.leave_out_sources();
        left_out.push("the text of sources".to_owned());
        made = page(content)?;
    }
    let mut shares = SHARES.iter();
    while !fits(&made) {
        let Some(share) = shares.next() else {
            let message = format!(
                "the page takes {} at least: allow more by --max-size",
                format_bytes(made.len() as u64)
            );
            return Err(failure_refusal(message));
        };
        let nodes = content.leave_out(*share);
        left_out.truncate(1);
        left_out.push(format!(
            "{} calling contexts with less than {:.4} % of the cost each, which counts as their callers'",
            group_digits(nodes as u64),
            100.0 * share
        ));
        made = page(content)?;
    }
    Ok((made, left_out))
}
