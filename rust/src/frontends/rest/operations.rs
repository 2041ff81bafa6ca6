//! What operators and orchestrators ask: liveness, readiness, metrics.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};

use crate::frontends::body::Answer;
use crate::frontends::state::State;

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The answer at such a path; `None` at any other.
pub fn answer(state: &State, method: &Method, path: &str) -> Option<Response<Answer>> {
    let monitoring = state.settings.monitoring_path.as_deref() == Some(path);
    let known = monitoring || matches!(path, "/healthz" | "/readyz" | "/metrics");
    if known && !matches!(*method, Method::GET | Method::HEAD) {
        return Some(super::not_allowed(method, path));
    }
    match path {
        "/healthz" => Some(plain(StatusCode::OK, TEXT, "ok\n".into())),
        "/readyz" if *state.ready.borrow() => Some(plain(StatusCode::OK, TEXT, "ready\n".into())),
        "/readyz" => Some(plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n".into())),
        "/metrics" => Some(plain(StatusCode::OK, OPEN_METRICS, state.telemetry.text())),
        // For Prometheus' older format, with TensorFlow Serving's names, where its dashboards look for them.
        _ if monitoring => Some(plain(StatusCode::OK, "text/plain", state.telemetry.plain_text())),
        _ => None,
    }
}

fn plain(status: StatusCode, kind: &'static str, text: String) -> Response<Answer> {
    let mut response = Response::new(Answer::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
