//! A server of buckets, and commands that use it.

use super::VITALFEW;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Secrets, which no output may contain.
pub const KEY: &str = "AKIATESTKEYOFOURS";
pub const SECRET: &str = "verysecretaccesskeyofthetests";

/// Header that makes a request the owner's: the server does not check signatures.
const OWNER: &str = "Authorization: AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// A server, which ends with the test.
pub struct S3Server {
    child: Child,
    port: u16,
    home: tempfile::TempDir,
}

impl S3Server {
    /// Starts a server with the bucket `fleet`; `None` where Python's moto is missing, which
    /// `packaging/setup.sh test` installs.
    pub fn start() -> Option<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut child = Command::new("python3")
            .env("PYTHONPATH", here.join("../../target/s3-server"))
            .arg(here.join("tests/s3_server.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("text");
        let Ok(port) = line.trim().parse() else {
            let code = child.wait().expect("waited").code();
            let required = std::env::var_os("REQUIRE_LIVE").is_some_and(|required| required == "1");
            assert!(
                code == Some(77) && !required,
                "the S3 server of the tests does not start: packaging/setup.sh test"
            );
            eprintln!("skipped: Python's moto[server] is needed: packaging/setup.sh test");
            return None;
        };
        let server = Self {
            child,
            port,
            home: tempfile::tempdir().expect("a directory"),
        };
        assert!(server.ask("PUT", "/fleet", "").contains("200 OK"));
        Some(server)
    }

    /// Returns a directory that ends with the test.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Sends a request of the bucket's owner, and returns the answer with its head.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{OWNER}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Lets it do something wrong with requests of a method whose path or query contains a text.
    pub fn set_fault(&self, method: &str, part: &str, fault: &str) {
        let faults = serde_json::json!([{"method": method, "match": part, "do": fault}]);
        self.ask("POST", "/_faults", &faults.to_string());
    }

    /// Lets it do all right again.
    pub fn mend_faults(&self) {
        self.ask("POST", "/_faults", "[]");
    }

    /// Returns the requests so far, as `METHOD path?query`.
    pub fn requests_so_far(&self) -> Vec<String> {
        let answer = self.ask("GET", "/_log", "");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("JSON")
    }

    /// Returns the number of requests of a method whose path contains a text.
    pub fn count(&self, method: &str, part: &str) -> usize {
        let all = self.requests_so_far();
        let these = all
            .iter()
            .filter(|one| one.starts_with(method) && one.contains(part));
        these.count()
    }

    /// Returns a command of vitalfew with credentials of the server.
    pub fn command(&self) -> Command {
        let mut command = Command::new(VITALFEW);
        for name in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "VITALFEW_DB"] {
            command.env_remove(name);
        }
        command
            .env("HOME", self.home.path())
            .env("XDG_CACHE_HOME", self.directory("cache"))
            .env("XDG_DATA_HOME", self.directory("data"))
            .env(
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.port),
            )
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "us-east-1")
            .stdin(Stdio::null());
        command
    }

    /// Runs vitalfew; no secret may be in what it says.
    pub fn run(&self, args: &[&str]) -> Output {
        Self::run_command(self.command().args(args))
    }

    /// Runs a command; no secret may be in what it says.
    pub fn run_command(command: &mut Command) -> Output {
        let output = command.output().expect("vitalfew runs");
        for said in [&output.stdout, &output.stderr] {
            let said = String::from_utf8_lossy(said);
            for secret in [KEY, SECRET, "StringToSign", "AWS4-HMAC"] {
                assert!(!said.contains(secret), "{said}");
            }
        }
        output
    }

    /// Runs vitalfew from an empty cache, as on another machine.
    pub fn run_anew(&self, args: &[&str]) -> Output {
        let _ = std::fs::remove_dir_all(self.directory("cache"));
        self.run(args)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
