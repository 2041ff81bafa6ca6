//! The labels of every series. Their values come from fixed lists and from what is configured, never from clients.

use prometheus_client::encoding::EncodeLabelSet;

/// Labels of one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VersionLabels {
    pub model: String,
    pub version: i64,
}

/// Labels of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndpointLabels {
    pub model: String,
    pub version: i64,
    pub signature: String,
}

/// Labels of one outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub model: String,
    pub version: i64,
    pub signature: String,
    pub api: String,
    pub code: String,
}

impl RequestLabels {
    pub fn new(labels: &EndpointLabels, api: Api, code: &str) -> Self {
        let EndpointLabels { model, version, signature } = labels.clone();
        Self { model, version, signature, api: api.name().into(), code: code.into() }
    }
}

/// Labels of what never reached an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    pub api: String,
    pub code: String,
    pub reason: String,
}

/// Which wire a request came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Api {
    TfsGrpc = 0,
    TfsRest = 1,
}

impl Api {
    pub const ALL: [Api; 2] = [Api::TfsGrpc, Api::TfsRest];

    pub fn name(self) -> &'static str {
        match self {
            Api::TfsGrpc => "tfs_grpc",
            Api::TfsRest => "tfs_rest",
        }
    }
}
