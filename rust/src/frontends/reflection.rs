//! gRPC server reflection: what tools such as grpcurl ask before they can ask anything else. A conversation on one
//! stream, bounded in the length of a question and in the wait for the next.

use std::collections::HashSet;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use prost_reflect::FileDescriptor;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::body::Source;
use super::grpc::frame;
use super::proto::grpc::reflection::v1::server_reflection_request::MessageRequest as Question;
use super::proto::grpc::reflection::v1::server_reflection_response::MessageResponse as Answer;
use super::proto::grpc::reflection::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use crate::error::{Code, Error, Reason, Result};
use crate::protojson::descriptors;

/// The messages of both packages are the same.
pub const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Longest question: it holds one name.
const LONGEST: usize = 16 * 1024;

/// Answers the questions in `body`, one after another, until it ends or the next does not come in time.
pub fn converse(body: impl Source + Send + 'static, patience: Duration) -> mpsc::Receiver<Bytes> {
    let (messages, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut questions = Questions { body, buffer: BytesMut::new() };
        while let Ok(Some(question)) = timeout(patience, questions.next()).await {
            let (last, answer) = (question.is_err(), response(question));
            let sent = messages.send(frame(&answer).into_iter().next().unwrap_or_default()).await;
            if last || sent.is_err() {
                return;
            }
        }
    });
    stream
}

/// The messages of a request's body, as they come.
struct Questions<S> {
    body: S,
    buffer: BytesMut,
}

impl<S: Source> Questions<S> {
    async fn next(&mut self) -> Option<Result<ServerReflectionRequest>> {
        loop {
            match self.whole() {
                Ok(None) => {}
                Ok(Some(message)) => {
                    let decoded = ServerReflectionRequest::decode(message);
                    return Some(decoded.map_err(|error| Error::bad_input(format!("malformed message: {error}"))));
                }
                Err(error) => return Some(Err(error)),
            }
            self.buffer.extend_from_slice(&self.body.next().await?.ok()?);
        }
    }

    /// The next message, once all of it has come.
    fn whole(&mut self) -> Result<Option<Bytes>> {
        let Some(head) = self.buffer.first_chunk::<5>() else { return Ok(None) };
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] != 0 {
            let message = "compressed questions are not taken: send with grpc-encoding identity";
            return Err(Error::new(Code::Unimplemented, Reason::Unsupported, message));
        }
        if len > LONGEST {
            let message = format!("a question of {len} bytes; expected at most {LONGEST}");
            return Err(Error::new(Code::ResourceExhausted, Reason::TooLarge, message));
        }
        if self.buffer.len() < 5 + len {
            return Ok(None);
        }
        self.buffer.advance(5);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }
}

fn response(question: Result<ServerReflectionRequest>) -> ServerReflectionResponse {
    let (original, answer) = match question {
        Ok(request) => (Some(request.clone()), answer(request.message_request)),
        Err(error) => (None, Err(error)),
    };
    let refused = |error: Error| {
        Answer::ErrorResponse(ErrorResponse { error_code: error.code as i32, error_message: error.message.into() })
    };
    ServerReflectionResponse {
        valid_host: original.as_ref().map(|request| request.host.clone()).unwrap_or_default(),
        original_request: original,
        message_response: Some(answer.unwrap_or_else(refused)),
    }
}

fn answer(question: Option<Question>) -> Result<Answer> {
    match question {
        Some(Question::ListServices(_)) => Ok(Answer::ListServicesResponse(services())),
        Some(Question::FileByFilename(name)) => {
            let file = descriptors().get_file_by_name(&name).ok_or_else(|| unknown("file", &name))?;
            Ok(Answer::FileDescriptorResponse(with_imports(file)))
        }
        Some(Question::FileContainingSymbol(name)) => {
            let file = file_of(&name).ok_or_else(|| unknown("symbol", &name))?;
            Ok(Answer::FileDescriptorResponse(with_imports(file)))
        }
        Some(Question::AllExtensionNumbersOfType(name)) => {
            descriptors().get_message_by_name(&name).ok_or_else(|| unknown("message", &name))?;
            let none = ExtensionNumberResponse { base_type_name: name, extension_number: Vec::new() };
            Ok(Answer::AllExtensionNumbersResponse(none))
        }
        Some(Question::FileContainingExtension(extension)) => Err(unknown("extension of", &extension.containing_type)),
        None => {
            Err(Error::bad_input("a question needs one of list_services, file_by_filename, file_containing_symbol"))
        }
    }
}

fn unknown(kind: &str, name: &str) -> Error {
    Error::new(Code::NotFound, Reason::NotFound, format!("no {kind} {name} is known here"))
}

fn services() -> ListServiceResponse {
    let mut names: Vec<String> = descriptors().services().map(|service| service.full_name().to_owned()).collect();
    names.sort();
    ListServiceResponse { service: names.into_iter().map(|name| ServiceResponse { name }).collect() }
}

/// Where a message, an enum, a service, or a field or method of one, is declared.
fn file_of(symbol: &str) -> Option<FileDescriptor> {
    let pool = descriptors();
    let message = |name: &str| pool.get_message_by_name(name);
    let service = |name: &str| pool.get_service_by_name(name);
    let itself = message(symbol)
        .map(|found| found.parent_file())
        .or_else(|| service(symbol).map(|found| found.parent_file()))
        .or_else(|| pool.get_enum_by_name(symbol).map(|found| found.parent_file()));
    itself.or_else(|| {
        let (owner, name) = symbol.rsplit_once('.')?;
        let of_message = message(owner).filter(|found| found.get_field_by_name(name).is_some());
        let of_service = service(owner).filter(|found| found.methods().any(|method| method.name() == name));
        of_message.map(|found| found.parent_file()).or_else(|| of_service.map(|found| found.parent_file()))
    })
}

/// The file itself, then all that it imports, each once.
fn with_imports(file: FileDescriptor) -> FileDescriptorResponse {
    let mut seen = HashSet::from([file.name().to_owned()]);
    let mut files = vec![file];
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        files.extend(file.dependencies().filter(|import| seen.insert(import.name().to_owned())));
        next += 1;
    }
    FileDescriptorResponse { file_descriptor_proto: files.iter().map(|file| file.encode_to_vec().into()).collect() }
}

#[cfg(test)]
#[path = "reflection_tests.rs"]
mod tests;
