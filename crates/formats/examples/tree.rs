//! Reads a profile as a call tree and prints its contents: `cargo run --example tree -- FILE`.

use formats::read::{ReadOptions, read_profile};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: tree FILE");
        return ExitCode::from(2);
    };
    match read_profile(path.as_ref(), &ReadOptions::default()) {
        Ok(profile) => {
            let tree = &profile.tree;
            let (nodes, methods) = (tree.len(), tree.methods().len());
            println!("{}: {nodes} nodes, {methods} methods", profile.format);
            for (value, value_type) in tree.value_types().iter().enumerate() {
                println!(
                    "{} {} {}",
                    value_type.name,
                    tree.total(value),
                    value_type.unit
                );
            }
            for note in &profile.notes {
                println!("note: {note}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
