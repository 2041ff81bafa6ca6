//! One error for everything a client can be told, and one table from it to each wire.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// The canonical status codes of gRPC (and of TensorFlow Serving), less `OK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in numeric order.
    pub const ALL: [Code; 16] = [
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// The code with this gRPC number, if there is one.
    pub fn from_number(number: u8) -> Option<Code> {
        Self::ALL.into_iter().find(|code| *code as u8 == number)
    }

    /// The name as the wire's documentation spells it, e.g. `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        match self {
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The HTTP status that TensorFlow Serving's REST API answers for this code.
    pub fn http_status(self) -> u16 {
        match self {
            Code::Cancelled => 499,
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
            Code::Unauthenticated => 401,
            Code::PermissionDenied => 403,
            Code::NotFound => 404,
            Code::AlreadyExists | Code::Aborted => 409,
            Code::ResourceExhausted => 429,
            Code::Unimplemented => 501,
            Code::Unavailable => 503,
            Code::DeadlineExceeded => 504,
            Code::Unknown | Code::Internal | Code::DataLoss => 500,
        }
    }
}

/// Why a request was not answered, for people, metrics and clients that want to react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    BadInput,
    NotFound,
    NotReady,
    QueueFull,
    Deadline,
    Cancelled,
    ModelFailed,
    ModelOutput,
    WorkerLost,
    WorkerHung,
    TooLarge,
    Unsupported,
    /// The body is in a form that nobody here can read.
    Coding,
    Internal,
}

impl Reason {
    /// The stable label used in metrics and in the `reason` field of an error body.
    pub fn label(self) -> &'static str {
        match self {
            Reason::BadInput => "bad_input",
            Reason::NotFound => "not_found",
            Reason::NotReady => "not_ready",
            Reason::QueueFull => "queue_full",
            Reason::Deadline => "deadline",
            Reason::Cancelled => "cancelled",
            Reason::ModelFailed => "model_failed",
            Reason::ModelOutput => "model_output",
            Reason::WorkerLost => "worker_lost",
            Reason::WorkerHung => "worker_hung",
            Reason::TooLarge => "too_large",
            Reason::Unsupported => "unsupported",
            Reason::Coding => "unsupported_coding",
            Reason::Internal => "internal",
        }
    }
}

/// What a client is told when it gets no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub reason: Reason,
    pub message: Cow<'static, str>,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
}

impl Error {
    pub fn new(code: Code, reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    /// The client sent something that no retry will mend.
    pub fn bad_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, Reason::BadInput, message)
    }

    /// A fault of the server's own.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, Reason::Internal, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_grpc_in_order() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, index + 1);
            assert_eq!(Code::from_number(code as u8), Some(code));
        }
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(17), None);
    }
}
