//! Requests that the server answers, and requests that it refuses, written byte by byte as no
//! well-behaved client would.

use bytes::Bytes;
use server::{PageData, PageServer, compress_data};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

struct Running {
    port: u16,
    token: String,
}

fn start() -> Running {
    let server = PageServer::bind(41_000).expect("a port");
    let port = server.port();
    let token = server
        .url()
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .expect("a token")
        .to_owned();
    let compressed = Bytes::from(compress_data(b"{\"schema\":1}").expect("memory"));
    let data = move || {
        Ok(PageData {
            compressed: compressed.clone(),
            tag: "one".to_owned(),
        })
    };
    std::thread::spawn(move || server.run(Arc::new(data)));
    Running { port, token }
}

impl Running {
    /// Sends raw bytes, and returns the answer up to the end of the connection.
    fn send(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        // The server may have answered and closed before all is written.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        String::from_utf8_lossy(&self.send(request.as_bytes())).into_owned()
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\n", self.port)
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn the_page_and_its_data_are_for_who_knows_the_token() {
    let server = start();
    let (token, host) = (&server.token, server.host());
    let page = server.get(&format!("/{token}/"), &host);
    assert_eq!(status(&page), "200");
    assert!(
        page.contains("content-security-policy: default-src 'none'"),
        "{page}"
    );
    assert!(page.contains("id=\"vitalfew-data\""));
    let data = server.get(&format!("/{token}/data.json"), &host);
    assert_eq!(status(&data), "200");
    assert!(
        data.contains("content-encoding: gzip") && data.contains("etag: \"one\""),
        "{data}"
    );
    let known = server.get(
        &format!("/{token}/data.json"),
        &format!("{host}If-None-Match: \"one\"\r\n"),
    );
    assert_eq!(status(&known), "304");
    let wrong = format!("{}0", &token[..31]);
    let wrong = if wrong == *token {
        format!("{}1", &token[..31])
    } else {
        wrong
    };
    for path in [
        "/",
        "/data.json",
        &format!("/{wrong}/"),
        &format!("/{}/", &token[..8]),
        "//",
        "*",
    ] {
        let answer = server.get(path, &host);
        assert!(matches!(status(&answer), "404" | "400"), "{path}: {answer}");
        assert!(!answer.contains("vitalfew-data"));
    }
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let server = start();
    let path = format!("/{}/", server.token);
    let (host, port) = (server.host(), server.port);
    for headers in [
        String::new(),
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1:{}\r\n", port ^ 1),
        format!("{host}Host: evil.example\r\n"),
        format!("{host}Origin: http://evil.example\r\n"),
        format!("{host}Origin: null\r\n"),
        format!("{host}Origin: https://127.0.0.1:{port}\r\n"),
    ] {
        let answer = server.get(&path, &headers);
        assert!(
            matches!(status(&answer), "403" | "400"),
            "{headers}: {answer}"
        );
        assert!(!answer.contains("vitalfew-data"), "{headers}");
    }
    let own = format!("{host}Origin: http://127.0.0.1:{port}\r\n");
    assert_eq!(status(&server.get(&path, &own)), "200");
    assert_eq!(
        status(&server.get(&path, &format!("Host: localhost:{port}\r\n"))),
        "200"
    );
}

#[test]
fn no_path_leads_out_and_no_method_writes() {
    let server = start();
    let (token, host) = (&server.token, server.host());
    for path in [
        "../Cargo.toml",
        "..%2f..%2fetc/passwd",
        "/etc/passwd",
        "%2e%2e/",
        "data.json/..",
        "\\..\\x",
        "data.json%00",
    ] {
        assert!(
            matches!(
                status(&server.get(&format!("/{token}/{path}"), &host)),
                "404" | "400"
            ),
            "{path}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let request = format!("{method} /{token}/ HTTP/1.1\r\nConnection: close\r\n{host}\r\n");
        let answer = String::from_utf8_lossy(&server.send(request.as_bytes())).into_owned();
        assert_eq!(status(&answer), "405", "{method}");
    }
}

#[test]
fn huge_requests_are_refused_and_slow_clients_do_not_block_others() {
    let server = start();
    let (token, host) = (&server.token, server.host());
    // Clients that begin a request and never finish it.
    let slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connected");
            stream.write_all(b"GET / HT").expect("written");
            stream
        })
        .collect();
    let path = "x".repeat(1 << 20);
    let answer = server.get(&format!("/{path}"), &host);
    assert!(
        matches!(status(&answer), "414" | "431" | "none"),
        "{answer}"
    );
    let answer = server.get(&format!("/{token}/"), &format!("{host}X: {path}\r\n"));
    assert!(matches!(status(&answer), "431" | "none"), "{answer}");
    let many = "X: y\r\n".repeat(1000);
    let answer = server.get(&format!("/{token}/"), &format!("{host}{many}"));
    assert!(matches!(status(&answer), "431" | "none"), "{answer}");
    let body = format!(
        "GET /{token}/ HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: 99999999999\r\n\r\n"
    );
    let answer = String::from_utf8_lossy(&server.send(body.as_bytes())).into_owned();
    assert_eq!(status(&answer), "413", "{answer}");
    assert_eq!(status(&server.get(&format!("/{token}/"), &host)), "200");
    // The server cuts off the slow clients.
    for mut stream in slow {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let reset = ended.as_ref().err().map(std::io::Error::kind);
        assert!(
            ended.is_ok() || reset == Some(std::io::ErrorKind::ConnectionReset),
            "{ended:?}"
        );
    }
}
