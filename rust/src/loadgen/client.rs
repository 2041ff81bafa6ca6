//! Single calls: one connection, one request, one answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, TE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};

use super::answer::{frame, grpc_failure, grpc_message, grpc_trailers, unframe};
use super::link::{Answer, MAX_ANSWER, connect};
use super::target::{Protocol, Target};
use super::{CallError, CallResult};
use crate::frontends::tfs::wire::{self, Elements, Frame, Named, PredictResponse, Spec};

/// The method that [`predict`] calls, and the load generator as well.
pub const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";

/// What is sent.
pub struct Call<'a> {
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    pub body: Bytes,
}

/// Asks a gRPC server for one prediction.
pub fn predict(
    target: &Target,
    model: &Spec<'_>,
    inputs: &[Named<'_>],
    limit: Duration,
) -> CallResult<PredictResponse> {
    let message = wire::encode_request(model, inputs, &[], Elements::Content, Frame::Bare)
        .map_err(|error| CallError::Usage(error.message.into_owned()))?;
    let answer = call_grpc(target, PREDICT, &message.concat(), &HeaderMap::new(), limit)?;
    wire::decode_response(&answer, MAX_ANSWER)
        .map_err(|error| CallError::Transport(format!("the answer cannot be read: {}", error.message)))
}

/// Header fields, or metadata over gRPC, beside those of the protocol.
pub fn fields(pairs: &[(String, String)]) -> CallResult<HeaderMap> {
    let field = |(name, value): &(String, String)| {
        let parsed = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
        // The value may be a secret.
        parsed
            .ok_or_else(|| CallError::Usage(format!("header {name:?} has a name or a value that HTTP does not allow")))
    };
    pairs.iter().map(field).collect()
}

/// Calls a unary gRPC method and returns its answer's message.
pub fn call_grpc(
    target: &Target,
    path: &str,
    message: &[u8],
    fields: &HeaderMap,
    limit: Duration,
) -> CallResult<Bytes> {
    if target.protocol != Protocol::Grpc {
        return Err(CallError::Usage("this call needs a target grpc://HOST:PORT or grpcs://HOST:PORT".into()));
    }
    let answer = exchange(target, &Call { method: Method::POST, path, body: frame(message) }, fields, limit)?;
    let trailers = grpc_trailers(&answer);
    match grpc_failure(answer.status, trailers) {
        Some(code) => Err(CallError::Refused { code: code.into_owned(), message: grpc_message(trailers) }),
        None => unframe(&answer.body())
            .ok_or_else(|| CallError::Transport("the answer is not exactly one uncompressed message".into())),
    }
}

/// Calls an HTTP server; any status is an answer.
pub fn call_http(
    target: &Target,
    call: &Call<'_>,
    fields: &HeaderMap,
    limit: Duration,
) -> CallResult<(StatusCode, Bytes)> {
    if target.protocol != Protocol::Http {
        return Err(CallError::Usage("this call needs a target http://HOST:PORT or https://HOST:PORT".into()));
    }
    exchange(target, call, fields, limit).map(|answer| (answer.status, answer.body()))
}

fn exchange(target: &Target, call: &Call<'_>, fields: &HeaderMap, limit: Duration) -> CallResult<Answer> {
    let mut request = request(target, call)?;
    request.headers_mut().extend(fields.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CallError::Transport(format!("cannot start a client: {error}")))?;
    runtime
        .block_on(async { tokio::time::timeout(limit, send(target, request)).await })
        .map_err(|_| CallError::Timeout(limit))?
}

async fn send(target: &Target, request: Request<Bytes>) -> CallResult<Answer> {
    let mut sender = connect(target).await?;
    sender
        .exchange(request)
        .await
        .map_err(|why| CallError::Transport(format!("the connection to {} was lost: {why}", target.authority)))
}

/// A request as the target's protocol wants it.
pub(super) fn request(target: &Target, call: &Call<'_>) -> CallResult<Request<Bytes>> {
    let uri = match target.protocol {
        Protocol::Grpc => format!("{}://{}{}", if target.tls { "https" } else { "http" }, target.authority, call.path),
        Protocol::Http => call.path.to_owned(),
    };
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(uri)
        .body(call.body.clone())
        .map_err(|error| CallError::Usage(format!("{:?} is no path of a request: {error}", call.path)))?;
    *request.headers_mut() = headers(target)?;
    Ok(request)
}

fn headers(target: &Target) -> CallResult<HeaderMap> {
    let fixed = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let agent = fixed(USER_AGENT, concat!("poise/", env!("CARGO_PKG_VERSION")));
    if target.protocol == Protocol::Grpc {
        return Ok([fixed(CONTENT_TYPE, "application/grpc"), fixed(TE, "trailers"), agent].into_iter().collect());
    }
    let host = HeaderValue::from_str(&target.authority)
        .map_err(|_| CallError::Usage(format!("{:?} is no host", target.authority)))?;
    Ok([fixed(CONTENT_TYPE, "application/json"), (HOST, host), agent].into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::test_server::{Behaviour, TestServer};
    use crate::tensor::{DType, Tensor};

    const LIMIT: Duration = Duration::from_secs(5);

    fn target(server: &TestServer) -> Target {
        Target::parse(&server.target()).unwrap()
    }

    #[test]
    fn a_prediction_comes_back_as_tensors() {
        // The server gives back what it got: of a request without a model, the answer with the same numbers.
        let server = TestServer::start(Protocol::Grpc, Behaviour::Predict);
        let x = Tensor::fixed(DType::Float, [1][..].into(), Bytes::from_static(&[0, 0, 0, 64])).unwrap();
        let spec = Spec { name: "m", version: Some(2), ..Spec::default() };
        let answer = predict(&target(&server), &spec, &[("x", &x)], LIMIT).unwrap();
        assert_eq!((answer.model.version, answer.outputs), (Some(2), vec![("x".to_owned(), x)]));
    }

    #[test]
    fn refusals_carry_code_and_message() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Refuse);
        let refused = call_grpc(&target(&server), PREDICT, b"", &HeaderMap::new(), LIMIT).unwrap_err();
        let expected = CallError::Refused { code: "UNAVAILABLE".into(), message: "not now, später".into() };
        assert_eq!(refused, expected);
        let server = TestServer::start(Protocol::Http, Behaviour::Refuse);
        let call = Call { method: Method::GET, path: "/v1/models/m", body: Bytes::new() };
        let (status, body) = call_http(&target(&server), &call, &HeaderMap::new(), LIMIT).unwrap();
        assert_eq!((status.as_u16(), &body[..]), (503, &b"not now"[..]));
    }

    #[test]
    fn silence_ends_at_the_time_limit() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Silent);
        let limit = Duration::from_millis(50);
        assert_eq!(call_grpc(&target(&server), PREDICT, b"", &HeaderMap::new(), limit), Err(CallError::Timeout(limit)));
    }

    #[test]
    fn a_target_of_the_other_protocol_is_refused() {
        let target = Target::parse("http://localhost:1").unwrap();
        assert!(matches!(call_grpc(&target, PREDICT, b"", &HeaderMap::new(), LIMIT), Err(CallError::Usage(_))));
    }

    #[test]
    fn headers_must_be_what_http_allows_and_values_are_kept_secret() {
        let pairs = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        let found = fields(&pairs("Authorization", "Bearer k")).unwrap();
        assert_eq!(found.get("authorization").unwrap(), "Bearer k");
        for (name, value) in [("a b", "v"), ("", "v"), ("a", "secret\n")] {
            let error = fields(&pairs(name, value)).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && !error.contains("secret"), "{error}");
        }
    }
}
