//! The server: one page and its data, on the loopback interface.

use crate::guard::{Asked, admit};
use crate::page::PAGE;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The number of ports that are tried, from the requested one on.
const PORTS: u16 = 100;
/// Maximum number of connections at a time; a browser uses six.
const CONNECTIONS: usize = 32;
/// Time limit for a client to send its request.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// Time limit of a connection, however slowly the client reads.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// Maximum size of a request's line and headers, in bytes.
const HEADER_BYTES: usize = 16 << 10;

/// Permissions of the page: only to show its data. `CONTENT_POLICY` of the page's own `meta`
/// element also names its script by hash.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Reason that the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No port is free.
    #[error("no port of {first} to {last} on 127.0.0.1 can be used: {source}")]
    NoPort {
        /// The first port tried.
        first: u16,
        /// The last port tried.
        last: u16,
        /// The system's error for the last port.
        source: io::Error,
    },
    /// The system provides no random numbers.
    #[error("no random token: {0}")]
    NoRandom(getrandom::Error),
    /// The system refuses to serve.
    #[error("serving: {0}")]
    Serving(#[from] io::Error),
}

/// The data of the page: compressed JSON ([`compress_data`](crate::compress_data)), with a tag that
/// changes with the data.
#[derive(Clone, Debug)]
pub struct PageData {
    /// The compressed bytes, as sent.
    pub compressed: Bytes,
    /// The version of the data; ASCII without quotes.
    pub tag: String,
}

/// Source of the page's data. It is called for each request, on a thread that it may block; its
/// error is a sentence.
pub type DataSource = dyn Fn() -> Result<PageData, String> + Send + Sync;

/// A server bound to its port.
pub struct PageServer {
    listener: std::net::TcpListener,
    port: u16,
    token: String,
}

impl PageServer {
    /// Binds the first free port from `first` on.
    ///
    /// # Errors
    /// If there is none.
    pub fn bind(first: u16) -> Result<Self, ServerError> {
        let last = first.saturating_add(PORTS - 1);
        let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
        for port in first..=last {
            match std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
                Ok(listener) => {
                    let port = listener.local_addr()?.port();
                    listener.set_nonblocking(true)?;
                    let token = random_token().map_err(ServerError::NoRandom)?;
                    return Ok(Self {
                        listener,
                        port,
                        token,
                    });
                }
                Err(error) => refused = error,
            }
        }
        Err(ServerError::NoPort {
            first,
            last,
            source: refused,
        })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of the page with the token: whoever knows it can read the data.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn run(self, data: Arc<DataSource>) -> Result<(), ServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.accept(data))
    }

    async fn accept(self, data: Arc<DataSource>) -> Result<(), ServerError> {
        let listener = TcpListener::from_std(self.listener)?;
        let token: Arc<str> = self.token.into();
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // While all connections are busy, a client waits in the kernel's queue.
            let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
                return Ok(());
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // Errors such as too many open files pass; the pause avoids a busy loop.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (token, data, port) = (Arc::clone(&token), Arc::clone(&data), self.port);
            tokio::spawn(async move {
                let serve = serve_connection(stream, token, port, data);
                let _ = tokio::time::timeout(CONNECTION_TIME, serve).await;
                drop(permit);
            });
        }
    }
}

/// Answers one connection until it is closed. Errors of the connection are ignored.
async fn serve_connection(stream: TcpStream, token: Arc<str>, port: u16, data: Arc<DataSource>) {
    let service = service_fn(|request: Request<Incoming>| {
        let (token, data) = (Arc::clone(&token), Arc::clone(&data));
        async move { Ok::<_, Infallible>(answer(&request, &token, port, data).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

async fn answer(
    request: &Request<Incoming>,
    token: &str,
    port: u16,
    data: Arc<DataSource>,
) -> Response<Full<Bytes>> {
    let asked = admit(
        request.method(),
        request.uri().path(),
        request.headers(),
        token,
        port,
    );
    let mut response = match asked {
        _ if !request.body().is_end_stream() => plain(StatusCode::PAYLOAD_TOO_LARGE, String::new()),
        Err(status) => plain(status, String::new()),
        Ok(Asked::Page) => {
            let mut response = Response::new(Full::from(PAGE));
            set(
                &mut response,
                header::CONTENT_TYPE,
                "text/html; charset=utf-8",
            );
            response
        }
        Ok(Asked::Data) => match tokio::task::spawn_blocking(move || data()).await {
            Ok(Ok(data)) => data_response(request, data),
            Ok(Err(why)) => plain(StatusCode::INTERNAL_SERVER_ERROR, why),
            Err(_) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the data cannot be made".to_owned(),
            ),
        },
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        set(&mut response, name, value);
    }
    response
}

/// Returns the data, or "not modified" if the client has this version.
fn data_response(request: &Request<Incoming>, data: PageData) -> Response<Full<Bytes>> {
    let tag = format!("\"{}\"", data.tag);
    let known = request.headers().get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return plain(StatusCode::NOT_MODIFIED, String::new());
    }
    let mut response = Response::new(Full::from(data.compressed));
    set(&mut response, header::CONTENT_TYPE, "application/json");
    set(&mut response, header::CONTENT_ENCODING, "gzip");
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    set(
        &mut response,
        header::CONTENT_TYPE,
        "text/plain; charset=utf-8",
    );
    response
}

fn set(response: &mut Response<Full<Bytes>>, name: header::HeaderName, value: &'static str) {
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}

/// Returns 128 random bits as hexadecimal digits.
fn random_token() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
