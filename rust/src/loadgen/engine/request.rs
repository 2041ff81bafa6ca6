//! Requests as bytes, made once and sent many times.

use bytes::Bytes;

use super::super::answer::frame;
use super::super::plan::{Plan, WireRequest};
use super::super::target::{Protocol, Target};
use super::super::{CallError, CallResult};
use super::frames::MAX_PAYLOAD;
use super::hpack::Block;

/// One request, as its protocol wants it.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP/2: the header block.
    pub block: Block,
    /// HTTP/1.1: request line and fields.
    pub head: Bytes,
    pub body: Bytes,
    /// Whether the answer has no body whatever it says (HEAD).
    pub bodiless: bool,
}

/// All requests of a plan.
#[derive(Debug)]
pub struct Requests {
    pub all: Vec<Request>,
    /// Whether they all have the same fields, so that the peer may be made to remember them.
    pub same_fields: bool,
}

const AGENT: &str = concat!("poise/", env!("CARGO_PKG_VERSION"));

impl Requests {
    /// Pairs each request with its body. Fails for what no request may look like.
    pub fn new(plan: &Plan, target: &Target, bodies: &[Bytes]) -> CallResult<Requests> {
        if bodies.is_empty() || bodies.len() != plan.requests.len() {
            return Err(CallError::Usage(format!(
                "a plan has one body for each request and at least one, got {} requests and {} bodies",
                plan.requests.len(),
                bodies.len()
            )));
        }
        let same = |other: &WireRequest| *other == plan.requests[0];
        let same_fields = plan.requests.iter().all(same);
        let all = plan.requests.iter().zip(bodies).map(|(request, body)| {
            check(request)?;
            Ok(match target.protocol {
                Protocol::Grpc => grpc(request, target, body, same_fields),
                Protocol::Http => http1(request, target, body),
            })
        });
        let all = all.collect::<CallResult<Vec<_>>>()?;
        match all.iter().any(|request| request.block.first.len() > MAX_PAYLOAD) {
            true => Err(CallError::Usage(format!("the headers of a request are longer than {MAX_PAYLOAD} bytes"))),
            false => Ok(Requests { all, same_fields }),
        }
    }
}

fn check(request: &WireRequest) -> CallResult<()> {
    let problem = if !request.path.starts_with('/') || !request.path.bytes().all(|byte| byte.is_ascii_graphic()) {
        format!("path {:?} is no path of a request: it starts with / and has no spaces", request.path)
    } else if http::Method::from_bytes(request.method.as_bytes()).is_err() {
        format!("method {:?} is none of HTTP's", request.method)
    } else if let Some((name, _)) = request.headers.iter().find(|(name, _)| !is_name(name)) {
        format!("header {name:?} has no usable name: write it in lower case, without colon")
    } else if let Some((name, value)) = request.headers.iter().find(|(_, value)| !is_value(value)) {
        format!("header {name} has a value that cannot be sent: {value:?}")
    } else {
        return Ok(());
    };
    Err(CallError::Usage(problem))
}

fn is_name(name: &str) -> bool {
    http::HeaderName::from_lowercase(name.as_bytes()).is_ok()
}

fn is_value(value: &str) -> bool {
    http::HeaderValue::from_str(value).is_ok()
}

/// The caller's fields, and ours unless the caller gave them.
fn fields(request: &WireRequest, ours: &[(&str, &str)]) -> Vec<(String, String)> {
    let given = |name: &str| request.headers.iter().any(|(given, _)| given == name);
    let ours = ours.iter().filter(|(name, _)| !given(name));
    let ours = ours.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ours.chain(request.headers.iter().cloned()).collect()
}

fn grpc(request: &WireRequest, target: &Target, body: &Bytes, same_fields: bool) -> Request {
    let scheme = if target.tls { "https" } else { "http" };
    let pseudo =
        [(":method", "POST"), (":scheme", scheme), (":path", &request.path), (":authority", &target.authority)];
    let mut all: Vec<_> = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    all.extend(fields(request, &[("content-type", "application/grpc"), ("te", "trailers"), ("user-agent", AGENT)]));
    let block = Block::new(&all, same_fields);
    Request { block, head: Bytes::new(), body: frame(body), bodiless: false }
}

fn http1(request: &WireRequest, target: &Target, body: &Bytes) -> Request {
    let length = body.len().to_string();
    let mut ours = vec![("host", target.authority.as_str()), ("user-agent", AGENT)];
    if !body.is_empty() || request.method == "POST" {
        ours.extend([("content-type", "application/json"), ("content-length", length.as_str())]);
    }
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in fields(request, &ours) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Request { block: Block::new(&[], false), head: head.into(), body: body.clone(), bodiless: request.method == "HEAD" }
}
