//! Carries `object_store`'s requests by `ureq`, which asks debuginfod servers, too.
//!
//! A call blocks its thread: each call of `Bucket` has a runtime of its own that does nothing else.

use crate::Patience;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Method, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Limit on the length of an answer that is not an object: a list of 1,000 keys.
const MOST_ANSWER: u64 = 8 << 20;

/// Limit on the time to reach the machine's metadata service, which is a hop away or not there.
const METADATA_SILENCE: Duration = Duration::from_secs(1);

/// Limit on the length of the answer to a request, in its extensions.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub u64);

/// Error of a body that exceeds its limit.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too long")]
pub(crate) struct BodyTooLong;

/// Makes HTTP clients.
#[derive(Clone, Debug)]
pub(crate) struct UreqConnector {
    service: Arc<UreqService>,
}

#[derive(Debug)]
struct UreqService {
    agent: Agent,
    /// For the metadata service: without proxy, and with little patience.
    metadata: Agent,
}

impl UreqConnector {
    /// Makes a connector that trusts the certificates of the usual authorities, or those of the
    /// file that `AWS_CA_BUNDLE` or `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// A sentence, if that file cannot be used.
    pub(crate) fn new(patience: Patience) -> Result<Self, String> {
        let base = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("vitalfew/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(patience.silence))
            .timeout_recv_response(Some(patience.silence))
            .timeout_per_read(Some(patience.silence))
            .timeout_per_write(Some(patience.silence))
            .timeout_global(Some(patience.whole));
        let roots = match own_authorities()? {
            None => RootCerts::WebPki,
            Some(own) => RootCerts::Specific(Arc::new(own)),
        };
        let base = base.tls_config(TlsConfig::builder().root_certs(roots).build());
        let metadata = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(METADATA_SILENCE));
        Ok(Self {
            service: Arc::new(UreqService {
                agent: base.build().new_agent(),
                metadata: metadata.build().new_agent(),
            }),
        })
    }
}

fn own_authorities() -> Result<Option<Vec<Certificate<'static>>>, String> {
    let named = ["AWS_CA_BUNDLE", "SSL_CERT_FILE"].into_iter();
    let Some(path) = named
        .filter_map(std::env::var_os)
        .find(|path| !path.is_empty())
    else {
        return Ok(None);
    };
    let shown = std::path::Path::new(&path).display().to_string();
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut found = Vec::new();
    for item in parse_pem(&bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(_) => return Err(format!("{shown} is damaged: it is not in PEM form")),
        }
    }
    if found.is_empty() {
        return Err(format!("{shown} has no certificate"));
    }
    Ok(Some(found))
}

impl HttpConnector for UreqConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for UreqConnector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let limit = request.extensions().get::<BodyLimit>();
        let limit = limit.map_or(MOST_ANSWER, |limit| limit.0);
        let (parts, body) = request.into_parts();
        let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
        let is_head = parts.method == Method::HEAD;
        let is_metadata = parts
            .uri
            .host()
            .is_some_and(|host| host.starts_with("169.254."));
        let agent = if is_metadata {
            &self.service.metadata
        } else {
            &self.service.agent
        };
        let carries = !body.is_empty() || matches!(parts.method, Method::PUT | Method::POST);
        let answer = if carries {
            agent.run(ureq::http::Request::from_parts(parts, body.as_ref()))
        } else {
            agent.run(ureq::http::Request::from_parts(parts, ()))
        };
        let (mut parts, body) = answer.map_err(http_error)?.into_parts();
        let bytes = if is_head {
            Vec::new()
        } else {
            read_body(body, limit)?
        };
        let failed = parts.status.is_client_error() || parts.status.is_server_error();
        let bytes = if failed && !is_head {
            // The length is of the text that is not passed on.
            parts.headers.remove(ureq::http::header::CONTENT_LENGTH);
            scrubbed_failure(&bytes)
        } else {
            bytes
        };
        Ok(Response::from_parts(parts, bytes.into()))
    }
}

fn read_body(body: Body, limit: u64) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::new();
    let reader = body.into_with_config().limit(u64::MAX).reader();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                _ => HttpErrorKind::Interrupted,
            };
            HttpError::new(kind, error)
        })?;
    if bytes.len() as u64 > limit {
        return Err(HttpError::new(HttpErrorKind::Decode, BodyTooLong));
    }
    Ok(bytes)
}

/// Returns the code in a server's answer to a request that failed, and nothing else of it: servers
/// repeat the key id and what was signed.
fn scrubbed_failure(answer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(answer);
    match failure_code(&text) {
        Some(code) => format!("<Code>{code}</Code>").into_bytes(),
        None => Vec::new(),
    }
}

/// Returns the code of a failure in the text of an answer or an error.
pub(crate) fn failure_code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = !code.is_empty() && code.len() < 64;
    (is_word && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')).then_some(code)
}

fn http_error(error: ureq::Error) -> HttpError {
    let kind = match &error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_a_failure_is_passed_on() {
        let answer = "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIA</AWSAccessKeyId><StringToSign>s</StringToSign></Error>";
        let passed = String::from_utf8(scrubbed_failure(answer.as_bytes())).unwrap();
        assert_eq!(passed, "<Code>SignatureDoesNotMatch</Code>");
        assert_eq!(scrubbed_failure(b"AKIA secret"), b"");
        assert_eq!(scrubbed_failure(b"<Code>AKIA secret</Code>"), b"");
    }
}
