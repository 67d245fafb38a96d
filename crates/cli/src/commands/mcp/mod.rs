//! `vitalfew mcp`: serves vitalfew's results to programs by the Model Context Protocol.
//!
//! `tools` has a function for each tool, with the parameters of a call in `parameters`. `permits`
//! checks whether the command or file is allowed. `own_command` runs `vitalfew … --json` as a child
//! process: a call can be cancelled, and each command has only one entry point. `answers` shortens
//! the JSON.

mod answers;
pub mod args;
mod own_command;
mod parameters;
mod permits;
mod tools;

use anyhow::Context;
use args::Mcp;
use own_command::OwnCommand;
use permits::Permits;
use rmcp::ServiceExt;
use std::process::ExitCode;
use tools::Tools;

/// Serves until standard input ends.
///
/// # Errors
/// If a permitted program does not exist, a directory cannot be used, or the other side does not
/// speak the protocol.
pub fn run(args: &Mcp) -> anyhow::Result<ExitCode> {
    let permits = Permits::new(&args.allowed, &args.folder)?;
    let mut temporary = None;
    let keep = match &args.keep {
        Some(keep) => {
            std::fs::create_dir_all(keep)
                .with_context(|| format!("cannot make {}", keep.display()))?;
            keep.canonicalize()?
        }
        None => {
            let directory = tempfile::Builder::new().prefix("vitalfew-mcp-").tempdir()?;
            temporary.insert(directory).path().to_owned()
        }
    };
    let own = OwnCommand::new(permits.folder(), args.longest)?;
    let most = usize::try_from(args.answer).unwrap_or(usize::MAX);
    let tools = Tools::new(permits, own, keep, most);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let service = tools.serve(rmcp::transport::stdio()).await;
        let service = service
            .context("no program that speaks the Model Context Protocol is at standard input")?;
        service.waiting().await?;
        anyhow::Ok(())
    })?;
    // A read of standard input may be in progress, which nothing interrupts.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
