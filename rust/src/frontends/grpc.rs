//! gRPC over HTTP/2: one message in, one out. Frames, status and deadlines; what a method means is its service's affair.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use super::body::{self, Answer, Content};
pub use super::frame::frame;
use super::frame::{self, Chunks, Unframed};
use super::state::{RequestTicket, State};
use super::timing::ServerTiming;
use super::{health, percent, reflection, tfs};
use crate::error::{Code, Error, Reason, Result};
use crate::telemetry::Api;

/// TensorFlow Serving cuts error texts at this length; so do we, or HTTP/2 header limits of clients would.
const LONGEST_MESSAGE: usize = 1024;

/// One call, as a service sees it.
pub struct Call {
    pub state: Arc<State>,
    pub message: Bytes,
    /// When the whole request had been read.
    pub arrived: Instant,
    pub deadline: Option<Instant>,
    /// The client's own deadline, where it named one.
    pub asked: Option<Instant>,
    /// Counts the request and the memory of its body until the call is answered.
    pub ticket: RequestTicket,
    pub timing: ServerTiming,
}

/// One message with its frame.
pub type Reply = Result<Chunks>;

/// Answers one request of a gRPC client.
pub async fn call(state: Arc<State>, request: Request<RecvStream>) -> Response<Answer> {
    match dispatch(state, request).await {
        Ok(response) => response,
        Err(error) => refusal(&error),
    }
}

async fn dispatch(state: Arc<State>, request: Request<RecvStream>) -> Result<Response<Answer>> {
    let began = Instant::now();
    let (head, incoming) = request.into_parts();
    let grpc = head.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    if !grpc || head.method != Method::POST {
        return Ok(not_grpc());
    }
    if state.settings.reflection && reflection::PATHS.contains(&head.uri.path()) {
        let answers = reflection::converse(incoming, state.client_timeout());
        return respond(Content::Stream(answers), false);
    }
    let asked = head.headers.get("grpc-timeout").map(parse_timeout).transpose()?;
    let mut ticket = state.admit();
    let body = body::read(&state, &mut ticket, incoming).await;
    let unpacked = body.and_then(|body| unpack(&state, &mut ticket, &head.headers, &body));
    let Unframed { message, compressed } =
        unpacked.inspect_err(|error| state.telemetry.refused(Api::TfsGrpc, "", error))?;
    let deadline = state.deadline(began, asked);
    let asked = asked.and(deadline);
    let timing = ServerTiming::of(&head.headers);
    let call = Call { state, message, arrived: Instant::now(), deadline, asked, ticket, timing: timing.clone() };
    let content = answer(head.uri.path(), call).await?;
    let mut response = respond(content, compressed && frame::takes_gzip(&head.headers))?;
    response.body_mut().trailers.iter_mut().for_each(|trailers| timing.tell(trailers));
    Ok(response)
}

fn unpack(state: &State, ticket: &mut RequestTicket, headers: &HeaderMap, body: &Bytes) -> Result<Unframed> {
    let mut unframed = frame::unframe(body)?;
    if unframed.compressed {
        unframed.message = frame::unpack(&unframed.message, headers, state.settings.max_message_bytes, ticket)?;
    }
    Ok(unframed)
}

async fn answer(path: &str, call: Call) -> Result<Content> {
    let reply = match path {
        "/tensorflow.serving.PredictionService/Predict" => tfs::grpc::predict(call).await,
        "/tensorflow.serving.PredictionService/Classify" => tfs::grpc::inference::classify(call).await,
        "/tensorflow.serving.PredictionService/Regress" => tfs::grpc::inference::regress(call).await,
        "/tensorflow.serving.PredictionService/MultiInference" => tfs::grpc::inference::multi(call).await,
        "/tensorflow.serving.PredictionService/GetModelMetadata" => tfs::grpc::metadata(&call),
        "/tensorflow.serving.ModelService/GetModelStatus" => tfs::grpc::status(&call),
        "/tensorflow.serving.ModelService/HandleReloadConfigRequest" => tfs::grpc::reload::reload(call).await,
        "/grpc.health.v1.Health/Check" => health::check(&call),
        "/grpc.health.v1.Health/Watch" => return health::watch(&call).map(Content::Stream),
        path => {
            let message = format!(
                "no method {path} here; this server answers TensorFlow Serving's PredictionService and ModelService, and \
                 grpc.health.v1"
            );
            Err(Error::new(Code::Unimplemented, Reason::Unsupported, message))
        }
    };
    reply.map(Content::Chunks)
}

fn respond(content: Content, gzip: bool) -> Result<Response<Answer>> {
    let packed = match &content {
        Content::Chunks(chunks) if gzip => frame::pack(chunks)?,
        _ => None,
    };
    let encoded = packed.is_some();
    let content = packed.map_or(content, Content::Chunks);
    let mut response = response(Answer { content, trailers: Some(status_ok()) });
    if encoded {
        response.headers_mut().insert("grpc-encoding", HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

fn response(answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn status_ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

fn not_grpc() -> Response<Answer> {
    let text = "this port speaks gRPC (POST with content-type application/grpc); REST is on the HTTP port\n";
    let mut response = Response::new(Answer::full(text));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// An error as a gRPC client sees it: headers only, no message.
pub fn refusal(error: &Error) -> Response<Answer> {
    let mut response = response(Answer::empty());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(error.code as u16));
    if let Ok(message) = HeaderValue::from_str(&percent_encode(&error.message)) {
        headers.insert("grpc-message", message);
    }
    headers.insert("poise-reason", HeaderValue::from_static(error.reason.label()));
    if error.code == Code::Unimplemented {
        headers.insert("grpc-accept-encoding", frame::ACCEPTED);
    }
    if let Some(after) = error.retry_after {
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from(after.as_millis() as u64));
    }
    response
}

/// `grpc-timeout`: at most eight digits and a unit.
fn parse_timeout(value: &HeaderValue) -> Result<Duration> {
    let parse = || {
        let text = value.to_str().ok()?;
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        Some(match unit {
            "H" => Duration::from_secs(count * 3600),
            "M" => Duration::from_secs(count * 60),
            "S" => Duration::from_secs(count),
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            "n" => Duration::from_nanos(count),
            _ => return None,
        })
    };
    parse()
        .ok_or_else(|| Error::bad_input(format!("grpc-timeout {value:?}: expected up to 8 digits and one of HMSmun")))
}

/// A message as gRPC asks for it in a header, cut when it is long.
fn percent_encode(message: &str) -> String {
    let cut = message.len().min(LONGEST_MESSAGE);
    let mut encoded = percent::encode(&message.as_bytes()[..cut]);
    if message.len() > LONGEST_MESSAGE {
        encoded.push_str("...TRUNCATED");
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_digits_and_a_unit() {
        let parse = |text: &'static str| parse_timeout(&HeaderValue::from_static(text)).ok();
        assert_eq!(parse("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse("99999999m"), Some(Duration::from_millis(99_999_999)));
        assert_eq!(parse("250u"), Some(Duration::from_micros(250)));
        for bad in ["", "S", "5", "5s", "-5S", "123456789S", "+1S"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn messages_are_percent_encoded_and_bounded() {
        assert_eq!(percent_encode("a%b\nü"), "a%25b%0A%C3%BC");
        assert_eq!(percent_encode(" a b "), "%20a b%20");
        assert_eq!(percent_encode(""), "");
        assert!(percent_encode(&"x".repeat(2000)).ends_with("...TRUNCATED"));
    }
}
