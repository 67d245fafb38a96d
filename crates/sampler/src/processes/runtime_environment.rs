//! Environment variables that make runtimes publish the names of generated code: set for commands
//! that start such a runtime.

use super::command_files::{find_program, script_interpreter};
use profile::known_code::{KnownCode, NODE};
use std::ffi::OsString;

/// A runtime that reads a variable.
struct Publisher {
    /// Its name in the catalogue.
    name: &'static str,
    variable: &'static str,
    asks: Asks,
    /// True if walks by tables read its functions (crate languages).
    is_read: bool,
}

/// The way in which a variable requests names.
#[derive(Clone, Copy)]
enum Asks {
    /// Options, each of which must be in the variable.
    Options(&'static [&'static str]),
    /// A value, unless the variable has one already.
    Value(&'static str),
}

/// Options that request names from V8. The first one makes it open a log, too.
const NODE_OPTIONS: [&str; 2] = ["--perf-basic-prof", "--interpreted-frames-native-stack"];

const PUBLISHERS: [Publisher; 3] = [
    Publisher {
        name: NODE,
        variable: "NODE_OPTIONS",
        asks: Asks::Options(&NODE_OPTIONS),
        is_read: cfg!(target_arch = "x86_64"),
    },
    Publisher {
        name: ".NET",
        variable: "DOTNET_PerfMapEnabled",
        asks: Asks::Value("1"),
        is_read: false,
    },
    // The name before .NET 6, which later versions read if the other is not set.
    Publisher {
        name: ".NET",
        variable: "COMPlus_PerfMapEnabled",
        asks: Asks::Value("1"),
        is_read: false,
    },
];

/// Returns the variables for a command, each with its current value; none for other programs, nor,
/// with `by_tables`, for those whose functions are read from their memory.
pub(crate) fn runtime_environment(
    command: &[OsString],
    reads_functions: bool,
) -> Vec<(&'static str, OsString)> {
    let Some(program) = command.first() else {
        return Vec::new();
    };
    let script = find_program(program).and_then(|path| script_interpreter(&path));
    let words = script.as_deref().unwrap_or_default().split_whitespace();
    // `#!/usr/bin/env node`
    let program = program.to_string_lossy();
    let starts: Vec<&str> = std::iter::once(&*program).chain(words).collect();
    let is_started = |publisher: &&Publisher| {
        starts
            .iter()
            .any(|word| KnownCode::is_started_by(publisher.name, word))
    };
    PUBLISHERS
        .iter()
        .filter(|publisher| !(reads_functions && publisher.is_read))
        .filter(is_started)
        .map(|publisher| {
            let given = std::env::var_os(publisher.variable).unwrap_or_default();
            let asked = match publisher.asks {
                Asks::Options(options) => add_options(given, options),
                Asks::Value(value) if given.is_empty() => value.into(),
                Asks::Value(_) => given,
            };
            (publisher.variable, asked)
        })
        .collect()
}

/// Removes the logs that V8 opened in the command's directory because of these options: the user
/// did not ask for the logs. Logs of other processes stay. So do all if these variables do not
/// cause them, or the user's own did.
pub(crate) fn remove_unasked_logs(command: &[OsString], variables: &[&str], processes: &[u32]) {
    let [names, _] = NODE_OPTIONS;
    let before = std::env::var_os(PUBLISHERS[0].variable).unwrap_or_default();
    let before =
        before.to_string_lossy().contains(names) || command.iter().any(|word| word == names);
    if before || !variables.contains(&PUBLISHERS[0].variable) {
        return;
    }
    for entry in std::fs::read_dir(".").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(process_of_log);
        if process.is_some_and(|process| processes.contains(&process)) {
            // A failure to remove does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns the process that wrote a log of V8 of this name: `isolate-0x2f4e8c90-1234-v8.log`.
fn process_of_log(name: &str) -> Option<u32> {
    let middle = name.strip_prefix("isolate-0x")?.strip_suffix("-v8.log")?;
    middle.rsplit_once('-')?.1.parse().ok()
}

/// Appends options to the given ones, except those that are among them.
fn add_options(mut given: OsString, options: &[&str]) -> OsString {
    for option in options {
        let known = given.to_string_lossy();
        if known.split_whitespace().any(|word| word == *option) {
            continue;
        }
        if !given.is_empty() {
            given.push(" ");
        }
        given.push(option);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_a_runtime_get_its_variable() {
        let variables = |program: &str| -> Vec<&str> {
            let set = runtime_environment(&[program, "x"].map(OsString::from), false);
            set.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(variables("/opt/none/node"), ["NODE_OPTIONS"]);
        let dotnet = ["DOTNET_PerfMapEnabled", "COMPlus_PerfMapEnabled"];
        assert_eq!(variables("/opt/none/dotnet"), dotnet);
        assert_eq!(variables("/opt/none/nodemon"), [""; 0]);
        assert!(runtime_environment(&[], false).is_empty());
        let read = runtime_environment(&["/opt/none/node".into()], true);
        assert_eq!(read.is_empty(), cfg!(target_arch = "x86_64"));
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/usr/bin/env node\n1\n").unwrap();
        let path = script.path().to_str().unwrap();
        assert_eq!(variables(path), ["NODE_OPTIONS"]);
    }

    #[test]
    fn logs_name_their_process() {
        assert_eq!(process_of_log("isolate-0x2f4e8c90-1234-v8.log"), Some(1234));
        for other in ["isolate-0x1-v8.log", "isolate-0x1-x-v8.log", "app-v8.log"] {
            assert_eq!(process_of_log(other), None);
        }
    }

    #[test]
    fn options_that_are_given_stay_and_are_not_repeated() {
        let options = &NODE_OPTIONS;
        let given = "--max-old-space-size=99 --perf-basic-prof";
        let expected = format!("{given} --interpreted-frames-native-stack");
        assert_eq!(add_options(given.into(), options), *expected);
        assert_eq!(add_options(OsString::new(), options), *options.join(" "));
    }
}
