//! `vitalfew doctor`.

use crate::abandoned::describe_abandoned;
use crate::args::Doctor;
use crate::exit::FAILURE;
use crate::output::{clean_name, write_json};
use crate::screen::{Screen, tell_user};
use daemon::{Abandoned, abandoned_collectors};
use orchestration::skid;
use sampler::capabilities::{self, Capabilities, Program};
use sampler::skid::Skid;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The documented JSON form.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    capabilities: &'a Capabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a Program>,
    abandoned: Vec<Abandoned>,
    /// Skid of cpu-clock samples; null if it could not be measured.
    skid: Option<Skid>,
}

/// Runs the command.
pub fn run(args: &Doctor) -> anyhow::Result<ExitCode> {
    let capabilities = capabilities::probe_machine();
    let program = args
        .program
        .as_deref()
        .map(Program::inspect_program)
        .transpose();
    let skid = skid::of_this_machine(&sampler::read_host(), CLOCK);
    let mut out = Screen::open_output(args.json);
    if args.json {
        let program = program.as_ref().ok().and_then(Option::as_ref);
        let json = Json {
            capabilities: &capabilities,
            program,
            abandoned: abandoned_collectors(),
            skid,
        };
        write_json(&mut out, &json)?;
    } else {
        let unicode = std::io::stdout().is_terminal() && speaks_utf8();
        write!(
            out,
            "{}",
            capabilities::render_capabilities(&capabilities, unicode)
        )?;
        if let Some(skid) = &skid {
            write!(out, "{}", describe_precision(skid, unicode))?;
        }
        for collector in abandoned_collectors() {
            write!(out, "{}", abandoned_question(&collector))?;
        }
        if let Ok(Some(program)) = &program {
            write!(out, "\n{}", capabilities::render_program(program, unicode))?;
        }
    }
    if let Err(error) = program {
        tell_user(&error.to_string());
        return Ok(ExitCode::from(FAILURE));
    }
    Ok(ExitCode::SUCCESS)
}

/// The event that samples time everywhere.
const CLOCK: &str = "cpu-clock";

/// Describes whether samples say something about single instructions.
fn describe_precision(skid: &Skid, unicode: bool) -> String {
    let found = skid::describe_skid(skid);
    let right = if skid.is_sharp() {
        "single instructions: samples fall right after the slow one"
    } else {
        "single instructions: most samples fall right after the slow one, some later"
    };
    match (skid.is_one_instruction(), unicode) {
        (true, true) => format!("✓ {right} ({found})\n"),
        (true, false) => format!("ok {right} ({found})\n"),
        (false, _) => format!(
            "-- single instructions\n    missing   samples do not fall right after the slow one (only {found})\n    \
             you lose  annotate; elsewhere places are right to some instructions\n"
        ),
    }
}

/// Describes a daemon's collector without a reader.
fn abandoned_question(abandoned: &Abandoned) -> String {
    let directory = abandoned.directory.display();
    let (of, fix) = match &abandoned.database {
        Some(database) => {
            let gone = if database.is_dir() {
                ""
            } else {
                ", which is gone,"
            };
            let database = clean_name(&database.display().to_string());
            let fix =
                format!("vitalfew daemon run --db {database} stores what it counted, and goes on");
            (
                format!("{database}{gone}"),
                format!("{fix};\n              sudo rm -r {directory} drops it"),
            )
        }
        None => (
            "a database that is not known".to_owned(),
            format!("sudo rm -r {directory}"),
        ),
    };
    let loss = match abandoned.ceased_ago_ns {
        None => "the time that its samples take, on all CPUs, until it stops by itself",
        Some(_) => "its samples, and kernel memory, until a daemon stores them",
    };
    format!(
        "-- a collector of {of} {}\n    you lose  {loss}\n    fix       {fix}\n",
        describe_abandoned(abandoned)
    )
}

fn speaks_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|locale| locale.to_uppercase().replace('-', "").contains("UTF8"))
}
