//! The parts of HTTP/1.1 that a scrape needs: the head of a request, and the response.

use crate::policy::HTTP_HEADERS_MAX;

/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The page of a request, and the kind of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    page: Page,
    /// Whether the method is HEAD, so that the response has no body.
    is_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    /// A page that does not exist.
    Other,
    /// A page that is requested by a method other than GET and HEAD.
    Method,
    /// No page: the request is malformed, or too long.
    Malformed,
}

impl Asked {
    /// A request that is too long.
    pub(super) const TOO_LONG: Asked = Asked { page: Page::Malformed, is_head: false };

    /// Returns the whole response. `text` returns the metrics.
    pub(super) fn answer(self, text: impl FnOnce() -> String) -> String {
        let (status, text) = match self.page {
            Page::Metrics => return made("200 OK", METRICS, "", &text(), self.is_head),
            Page::Other => ("404 Not Found", "the metrics are at /metrics\n"),
            Page::Method => ("405 Method Not Allowed", "only GET and HEAD are answered\n"),
            Page::Malformed => ("400 Bad Request", "that is no request of HTTP, or too long\n"),
        };
        let more = if self.page == Page::Method { "Allow: GET, HEAD\r\n" } else { "" };
        made(status, PLAIN, more, text, self.is_head)
    }
}

/// Returns a response without metrics.
pub(super) fn plain(status: &str, text: &str) -> String {
    made(status, PLAIN, "", text, false)
}

fn made(status: &str, kind: &str, more: &str, text: &str, is_head: bool) -> String {
    let bytes = text.len();
    let body = if is_head { "" } else { text };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n{more}\
         Connection: close\r\n\r\n{body}"
    )
}

/// Parses a request. Returns `None` if the request's head is incomplete.
pub(super) fn parse(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Err(_) => return Some(Asked { page: Page::Malformed, is_head: false }),
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
    }
    let target = request.path.unwrap_or("");
    // A client that uses a proxy sends a whole URL as the target.
    let path = match target.strip_prefix("http://").map(|rest| rest.split_once('/')) {
        Some(Some((_, path))) => path,
        Some(None) => "",
        None => target.strip_prefix('/').unwrap_or(target),
    };
    let page = match (request.method, path.split('?').next()) {
        (Some("GET" | "HEAD"), Some("metrics")) => Page::Metrics,
        (Some("GET" | "HEAD"), _) => Page::Other,
        _ => Page::Method,
    };
    Some(Asked { page, is_head: request.method == Some("HEAD") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let page = |text: &str| parse(text.as_bytes()).map(|asked| (asked.page, asked.is_head));
        for (text, asked) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some((Page::Metrics, false))),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some((Page::Metrics, false))),
            ("GET http://a:1/metrics?x HTTP/1.1\r\n\r\n", Some((Page::Metrics, false))),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Some((Page::Metrics, true))),
            ("HEAD / HTTP/1.1\r\n\r\n", Some((Page::Other, true))),
            ("GET / HTTP/1.1\r\n\r\n", Some((Page::Other, false))),
            ("GET http://a HTTP/1.1\r\n\r\n", Some((Page::Other, false))),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some((Page::Method, false))),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", None),
            ("GET", None),
            ("\0\0", Some((Page::Malformed, false))),
        ] {
            assert_eq!(page(text), asked, "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HTTP_HEADERS_MAX + 1));
        assert_eq!(page(&many), Some((Page::Malformed, false)));
    }
}
