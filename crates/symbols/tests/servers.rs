//! Debug files from servers that the tests start.

use profile::{
    BuildId, CallGraph, Collector, Host, Image, ImageId, ImageKind, ImageOffset, Location,
    Recording, Target,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use symbols::{
    DebuginfodClient, Detail, ImageSymbols, Resolved, SymbolOptions, build_id_of_file, resolve,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Answer of a server to a path.
#[derive(Clone)]
enum Answer {
    File(PathBuf),
    Status(u16),
    /// No answer, ever.
    Silence,
}

/// A server, with the paths of its requests.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answers: HashMap<String, Answer>, others: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        // The thread ends with the test; nothing waits for it.
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let path = requested_path(&stream);
                let answer = answers.get(&path).unwrap_or(&others).clone();
                log.lock().unwrap().push(path);
                match answer {
                    Answer::File(path) => respond(&stream, 200, &fs::read(path).unwrap()),
                    Answer::Status(status) => respond(&stream, status, b""),
                    Answer::Silence => silent.push(stream),
                }
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn requested_path(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    request.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn respond(mut stream: &TcpStream, status: u16, body: &[u8]) {
    let length = body.len();
    // A client that disconnects is no failure of the server.
    let _ = write!(
        stream,
        "HTTP/1.1 {status} -\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .and_then(|()| stream.write_all(body));
}

/// A stripped program far from its debug file, and a cache.
struct Stage {
    directory: tempfile::TempDir,
    program: PathBuf,
    id: BuildId,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::copy(fixture("stripped"), &program).unwrap();
        let id = build_id_of_file(&program).unwrap().unwrap();
        Self {
            directory,
            program,
            id,
        }
    }

    fn client(&self, variables: &[(&str, &str)]) -> Option<DebuginfodClient> {
        DebuginfodClient::of_variables(|name| {
            let cache = self.directory.path().join("cache");
            let given = variables.iter().find(|(variable, _)| *variable == name);
            given
                .map(|(_, value)| OsString::from(value))
                .or_else(|| (name == "DEBUGINFOD_CACHE_PATH").then(|| cache.into()))
        })
    }

    /// Returns the name at `local_only` of the program.
    fn name(&self, detail: Detail, variables: &[(&str, &str)]) -> (Option<String>, Resolved) {
        let options = SymbolOptions {
            debug_dirs: Vec::new(),
            root: None,
            debuginfod: self.client(variables).map(Arc::new),
        };
        let mut recording = Recording::new(
            Host::default(),
            Target::Machine,
            Collector::Bpf,
            CallGraph::None,
        );
        recording.images = vec![Image {
            kind: ImageKind::File,
            path: self.program.to_str().unwrap().to_owned(),
            build_id: Some(self.id.clone()),
            file: None,
            gone: false,
        }];
        let place = Location {
            image: ImageId(0),
            offset: local_only(),
        };
        let resolved = resolve(&recording, [place], detail, &options);
        let procedure = resolved.table.procedure(place);
        (procedure.map(|p| p.name.to_string()), resolved)
    }

    fn path_of(&self, kind: &str) -> String {
        format!("/buildid/{}/{kind}", self.id)
    }
}

fn local_only() -> ImageOffset {
    let options = SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: None,
    };
    let image = ImageSymbols::open_image(&fixture("dwarf5"), &options).unwrap();
    let found = image.all_procedures().find(|p| p.name == b"local_only");
    found.unwrap().start
}

fn offering(stage: &Stage, kind: &str, file: &str) -> Server {
    let answers = HashMap::from([(stage.path_of(kind), Answer::File(fixture(file)))]);
    Server::start(answers, Answer::Status(404))
}

#[test]
fn a_debug_file_is_fetched_once_and_kept() {
    let stage = Stage::new();
    let without = Server::start(HashMap::new(), Answer::Status(404));
    let with = offering(&stage, "debuginfo", "stripped.debug");
    let urls = format!("{} {}/", without.url, with.url);
    let (name, resolved) = stage.name(Detail::Procedures, &[("DEBUGINFOD_URLS", &urls)]);
    assert_eq!(name.as_deref(), Some("local_only"));
    assert_eq!(resolved.warnings, []);
    assert_eq!(resolved.server_note, None);
    assert_eq!(without.asked(), [stage.path_of("debuginfo")]);
    assert_eq!(with.asked(), [stage.path_of("debuginfo")]);

    // It is in the cache of other clients, and no server is asked again.
    let kept = format!("cache/{}/debuginfo", stage.id);
    let kept = fs::read(stage.directory.path().join(kept)).unwrap();
    assert_eq!(kept, fs::read(fixture("stripped.debug")).unwrap());
    let (name, resolved) = stage.name(Detail::Lines, &[("DEBUGINFOD_URLS", &urls)]);
    assert_eq!(name.as_deref(), Some("local_only"));
    assert_eq!(resolved.warnings, []);
    assert_eq!(with.asked().len(), 1);
}

#[test]
fn nobody_is_asked_unless_the_variable_is_set() {
    let stage = Stage::new();
    for variables in [
        &[][..],
        &[("DEBUGINFOD_URLS", "")],
        &[("DEBUGINFOD_URLS", "  ")],
        &[("DEBUGINFOD_URLS", "ftp://127.0.0.1/")],
    ] {
        assert!(stage.client(variables).is_none(), "{variables:?}");
    }
    // Local files need no server.
    let server = Server::start(HashMap::new(), Answer::Status(404));
    fs::copy(
        fixture("stripped.debug"),
        stage.directory.path().join("stripped.debug"),
    )
    .unwrap();
    let (name, _) = stage.name(Detail::Lines, &[("DEBUGINFOD_URLS", &server.url)]);
    assert_eq!(name.as_deref(), Some("local_only"));
    assert_eq!(server.asked(), [""; 0]);
}

#[test]
fn that_no_server_has_a_file_is_remembered() {
    let stage = Stage::new();
    let server = Server::start(HashMap::new(), Answer::Status(404));
    for _ in 0..2 {
        let (name, resolved) = stage.name(Detail::Procedures, &[("DEBUGINFOD_URLS", &server.url)]);
        assert_eq!(name, None);
        assert_eq!(resolved.server_note, None);
        assert!(resolved.warnings[0].what.contains("stripped"));
    }
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_server_that_fails_is_said_once_and_not_asked_again() {
    let stage = Stage::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let broken = Server::start(HashMap::new(), Answer::Status(500));
    let silent = Server::start(HashMap::new(), Answer::Silence);
    let other = offering(&stage, "debuginfo", "shapes");
    let html = offering(&stage, "debuginfo", "build.sh");
    let large = offering(&stage, "debuginfo", "stripped.debug");
    for (url, reason) in [
        (&unreachable, "refused"),
        (&broken.url, "status 500"),
        (&silent.url, "timeout"),
        (&other.url, "another file"),
        (&html.url, "another file"),
        (&large.url, "more than 1000 bytes"),
    ] {
        let limit = match reason {
            "timeout" => ("DEBUGINFOD_TIMEOUT", "1"),
            "more than 1000 bytes" => ("DEBUGINFOD_MAXSIZE", "1000"),
            _ => ("", ""),
        };
        let variables = [("DEBUGINFOD_URLS", url.as_str()), limit];
        let (name, resolved) = stage.name(Detail::Procedures, &variables);
        assert_eq!(name, None, "{reason}");
        let note = resolved.server_note.unwrap();
        assert!(note.contains(reason) && note.contains(url), "{note}");
        assert!(note.contains("without 1 debug file,"), "{note}");
    }
    assert_eq!(broken.asked().len(), 1);
    // Nothing of it is kept, and a working server gets its turn.
    let with = offering(&stage, "debuginfo", "stripped.debug");
    let urls = format!("{unreachable} {} {}", other.url, with.url);
    let (name, resolved) = stage.name(Detail::Procedures, &[("DEBUGINFOD_URLS", &urls)]);
    assert_eq!(name.as_deref(), Some("local_only"));
    assert!(
        resolved
            .server_note
            .is_some_and(|note| note.contains("refused"))
    );
}

#[test]
fn the_image_itself_is_fetched_when_it_was_replaced() {
    let stage = Stage::new();
    fs::copy(fixture("shapes"), &stage.program).unwrap();
    let server = offering(&stage, "executable", "dwarf5");
    let (name, resolved) = stage.name(Detail::Lines, &[("DEBUGINFOD_URLS", &server.url)]);
    assert_eq!(name.as_deref(), Some("local_only"));
    assert_eq!(resolved.warnings, []);
    assert_eq!(server.asked(), [stage.path_of("executable")]);
}

#[test]
fn what_debug_files_share_is_fetched_too() {
    let stage = Stage::new();
    let shared = build_id_of_file(&fixture("twin5.shared")).unwrap().unwrap();
    let program = stage.directory.path().join("twin");
    fs::copy(fixture("twin5"), &program).unwrap();
    let path = format!("/buildid/{shared}/debuginfo");
    let answers = HashMap::from([(path.clone(), Answer::File(fixture("twin5.shared")))]);
    let server = Server::start(answers, Answer::Status(404));
    let options = SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: stage
            .client(&[("DEBUGINFOD_URLS", &server.url)])
            .map(Arc::new),
    };
    let image = ImageSymbols::open_image(&program, &options).unwrap();
    let debug = image.debug_info().unwrap().unwrap();
    let address = image.address_of(local_only()).unwrap();
    let frames = debug.source_frames(address, None).unwrap();
    assert_eq!(frames[0].function.as_ref(), "local_only");
    assert_eq!(server.asked(), [path]);
}
