//! Settings as the data plane sees them. Python owns their defaults and documentation: every field here has a
//! twin of the same name in `poise/config.py`, and a missing or unknown one is refused.

use std::time::Duration;

use serde::Deserialize;

/// The longest time that a setting may mean: a week, as in `poise/config.py`.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A setting in seconds as a time. Python refuses what is none; whatever comes through all the same is brought within
/// bounds rather than believed.
pub fn seconds(setting: f64) -> Duration {
    let clamped = setting.clamp(0.0, LONGEST.as_secs_f64());
    Duration::try_from_secs_f64(clamped).unwrap_or(LONGEST)
}

/// How the server listens and what it bounds for every client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// `HOST:PORT` of the gRPC listener; `None` for no listener. Port 0 takes a free one.
    pub grpc: Option<String>,
    /// `HOST:PORT` of the HTTP listener.
    pub http: Option<String>,
    /// Path of a Unix socket that speaks gRPC too.
    pub grpc_socket: Option<String>,
    /// PEM, or the path of a PEM file: the server's certificates, its own first. `None` for no TLS.
    pub tls_cert: Option<String>,
    /// The same of its private key.
    pub tls_key: Option<String>,
    /// The same of the authorities of client certificates, which are then asked for.
    pub tls_client_ca: Option<String>,
    /// Whether HTTP has TLS as well.
    pub tls_http: bool,
    /// Threads that move bytes.
    pub io_threads: usize,
    /// Largest request body.
    pub max_message_bytes: usize,
    /// Bytes of request bodies held at once, over all connections.
    pub max_body_bytes_held: usize,
    /// Connections open at once, over both listeners; further ones are closed on arrival.
    pub max_connections: usize,
    /// Requests under way on one HTTP/2 connection.
    pub max_concurrent_streams: u32,
    /// Time a client has to send a whole request, and to take a whole answer.
    pub client_timeout_s: f64,
    /// Time limit of a request whose client names none; 0 for no limit.
    pub default_timeout_s: f64,
    /// The same over REST; `None` for `default_timeout_s`.
    pub rest_timeout_s: Option<f64>,
    /// Let pages of any origin call the REST API.
    pub cors: bool,
    /// Answer tensors as raw `tensor_content` instead of typed fields.
    pub tensor_content: bool,
    /// Whether clients may change what is served.
    pub admin: bool,
    /// Whether clients may ask which gRPC services and messages there are.
    pub reflection: bool,
    /// Whether histograms and counters are kept.
    pub metrics: bool,
    /// Whether they are kept under TensorFlow Serving's names too.
    pub tfs_metrics: bool,
    /// Where they are answered in Prometheus' older text format; `None` for nowhere.
    pub monitoring_path: Option<String>,
}

/// How one endpoint forms batches. Names and meanings are TensorFlow Serving's where it has them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSettings {
    /// Run the rows of several requests together; unset, each request runs alone.
    pub enable_batching: bool,
    /// Most rows of one batch (and of one request, unless large requests are split).
    pub max_batch_size: usize,
    /// How long the oldest row may wait for company once a worker is free.
    pub batch_timeout_micros: u64,
    /// Sizes that the model may be run at, ascending; empty for any.
    pub allowed_batch_sizes: Vec<usize>,
    /// Queued batches per signature before requests are refused.
    pub max_enqueued_batches: usize,
    /// Queued bytes per version before requests are refused.
    pub max_enqueued_bytes: usize,
    /// Pad dimensions that differ between requests, and crop the outputs back.
    pub pad_variable_length_inputs: bool,
    /// Cut requests larger than a batch into slices.
    pub enable_large_batch_splitting: bool,
    /// Most rows of one executed batch when splitting; 0 for `max_batch_size`.
    pub max_execution_batch_size: usize,
    /// Run the parts of a failed batch again to find the request at fault.
    pub isolate_failures: bool,
    /// Run a batch once more when its worker died under it.
    pub retry_lost_batches: bool,
    /// Longest run of one batch; a worker that takes longer is replaced.
    pub max_run_s: f64,
}

impl BatchSettings {
    /// Most rows that one executed batch may hold.
    pub fn execution_size(&self) -> usize {
        match self.max_execution_batch_size {
            0 => self.max_batch_size,
            size => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_stay_within_bounds() {
        let table = [(0.25, 0.25), (0.0, 0.0), (-1.0, 0.0), (1e300, 604_800.0), (f64::INFINITY, 604_800.0)];
        for (setting, expected) in table {
            assert_eq!(seconds(setting), Duration::from_secs_f64(expected), "{setting}");
        }
        assert_eq!(seconds(f64::NAN), LONGEST);
    }
}
