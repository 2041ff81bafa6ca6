//! The messages of a channel. Each fits one packet; tensors are named by where they lie in a segment.

/// Longest message in bytes.
pub const LONGEST: usize = 192 * 1024;

/// A tensor in a segment. Strings lie as a table of u64 lengths followed by their bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorPlace {
    /// Position in the signature's inputs or outputs.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// TensorFlow's number of the element type.
    #[prost(uint32, tag = "2")]
    pub dtype: u32,
    #[prost(uint64, repeated, tag = "3")]
    pub shape: Vec<u64>,
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    #[prost(uint64, tag = "5")]
    pub len: u64,
}

/// Run this.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Run {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Which of the two segments the inputs lie in; a descriptor beside the message replaces that segment.
    #[prost(uint32, tag = "2")]
    pub slot: u32,
    /// Position of the signature in what the worker sent when it was ready.
    #[prost(uint32, tag = "3")]
    pub endpoint: u32,
    /// Rows, padding included.
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    #[prost(uint32, repeated, tag = "5")]
    pub wanted: Vec<u32>,
    #[prost(message, repeated, tag = "6")]
    pub inputs: Vec<TensorPlace>,
}

/// There will be no more batches.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Close {}

/// The model is loaded; its signatures as JSON.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ready {
    #[prost(string, tag = "1")]
    pub signatures: String,
    /// The worker's process; the server's own when it is a thread.
    #[prost(uint32, tag = "2")]
    pub pid: u32,
}

/// The model did not load.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LoadFailed {
    #[prost(string, tag = "1")]
    pub message: String,
}

/// The process is alive.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Beat {}

/// A batch has outputs, in the segment of the same slot; a descriptor beside the message replaces that segment.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Done {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(message, repeated, tag = "2")]
    pub outputs: Vec<TensorPlace>,
    #[prost(uint64, tag = "3")]
    pub interpreter_wait_ns: u64,
}

/// A batch failed in the model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Failed {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint32, tag = "2")]
    pub code: u32,
    #[prost(string, tag = "3")]
    pub message: String,
    /// Rows at fault, where the model knows them.
    #[prost(uint64, repeated, tag = "4")]
    pub rows: Vec<u64>,
    /// Whether the worker lost hold of the batch instead of ending it.
    #[prost(bool, tag = "5")]
    pub dropped: bool,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ServerSays {
    #[prost(message, tag = "1")]
    Run(Run),
    #[prost(message, tag = "2")]
    Close(Close),
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum WorkerSays {
    #[prost(message, tag = "1")]
    Ready(Ready),
    #[prost(message, tag = "2")]
    LoadFailed(LoadFailed),
    #[prost(message, tag = "3")]
    Beat(Beat),
    #[prost(message, tag = "4")]
    Done(Done),
    #[prost(message, tag = "5")]
    Failed(Failed),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct FromServer {
    #[prost(oneof = "ServerSays", tags = "1, 2")]
    pub says: Option<ServerSays>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct FromWorker {
    #[prost(oneof = "WorkerSays", tags = "1, 2, 3, 4, 5")]
    pub says: Option<WorkerSays>,
}
