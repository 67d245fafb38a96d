//! Access rules, checked before any answer.

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{Method, StatusCode};

/// The resource of an admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The page.
    Page,
    /// Its data.
    Data,
}

/// Decides by method, path and headers.
///
/// Another site's page in the same browser can send requests here. If its name resolves to
/// 127.0.0.1 (DNS rebinding), it can even read the answers. Such a page does not know the token,
/// but tokens leak, so `Host` and `Origin` must be this server's, too.
pub(crate) fn admit(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    token: &str,
    port: u16,
) -> Result<Asked, StatusCode> {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let mut named = headers.get_all(HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok());
    if named.next().is_some() || !host.is_some_and(|host| hosts.iter().any(|own| own == host)) {
        return Err(StatusCode::FORBIDDEN);
    }
    for origin in headers.get_all(ORIGIN) {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|origin| hosts.iter().any(|own| own == origin)) {
            return Err(StatusCode::FORBIDDEN);
        }
    }
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (given, asked) = rest.split_once('/').unwrap_or((rest, ""));
    if !same_secret(given, token) {
        return Err(StatusCode::NOT_FOUND);
    }
    if method != Method::GET && method != Method::HEAD {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    match asked {
        "" => Ok(Asked::Page),
        "data.json" => Ok(Asked::Data),
        _ => Err(StatusCode::NOT_FOUND),
    }
}

/// Compares in constant time, which does not tell how much is right.
fn same_secret(given: &str, token: &str) -> bool {
    let differs = given
        .bytes()
        .zip(token.bytes())
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    given.len() == token.len() && differs == 0
}
