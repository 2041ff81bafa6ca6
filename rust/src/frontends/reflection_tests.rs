use std::collections::VecDeque;

use super::*;
use crate::frontends::proto::grpc::reflection::v1::ExtensionRequest;

/// A body that comes in these pieces.
struct Pieces(VecDeque<Bytes>);

impl Source for Pieces {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        self.0.pop_front().map(Ok)
    }

    fn ended(&self) -> bool {
        self.0.is_empty()
    }
}

fn asking(question: Question) -> Bytes {
    let request = ServerReflectionRequest { host: "here".into(), message_request: Some(question) };
    frame(&request).concat().into()
}

async fn answers(pieces: impl IntoIterator<Item = Bytes>) -> Vec<ServerReflectionResponse> {
    let mut stream = converse(Pieces(pieces.into_iter().collect()), Duration::from_secs(5));
    let mut found = Vec::new();
    while let Some(message) = stream.recv().await {
        found.push(ServerReflectionResponse::decode(&message[5..]).unwrap());
    }
    found
}

fn refusal(response: &ServerReflectionResponse) -> (i32, &str) {
    match &response.message_response {
        Some(Answer::ErrorResponse(error)) => (error.error_code, &error.error_message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn questions_are_answered_in_order_however_they_are_cut() {
    let both =
        [asking(Question::ListServices(String::new())), asking(Question::FileByFilename("nowhere.proto".into()))];
    let found = answers(both.concat().chunks(3).map(Bytes::copy_from_slice)).await;
    let Some(Answer::ListServicesResponse(list)) = &found[0].message_response else { panic!("services") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "tensorflow.serving.ModelService",
            "tensorflow.serving.PredictionService",
        ]
    );
    assert_eq!(found[0].valid_host, "here");
    assert_eq!(refusal(&found[1]), (5, "no file nowhere.proto is known here"));
    assert_eq!(found.len(), 2);
}

#[test]
fn symbols_of_every_kind_lead_to_their_file_and_its_imports() {
    for symbol in [
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.PredictionService.Predict",
        "tensorflow.serving.PredictRequest",
        "tensorflow.serving.PredictRequest.inputs",
        "tensorflow.DataType",
    ] {
        let Ok(Answer::FileDescriptorResponse(files)) = answer(Some(Question::FileContainingSymbol(symbol.into())))
        else {
            panic!("{symbol}");
        };
        // All that is needed is there: the files make a pool by themselves.
        let set = files.file_descriptor_proto.iter().flat_map(|file| {
            let mut entry = vec![0x0a];
            prost::encoding::encode_varint(file.len() as u64, &mut entry);
            entry.extend_from_slice(file);
            entry
        });
        let set: Vec<u8> = set.collect();
        assert!(prost_reflect::DescriptorPool::decode(&set[..]).is_ok(), "{symbol}");
    }
    for symbol in
        ["", "tensorflow", "tensorflow.serving.PredictionService.Dance", "tensorflow.serving.PredictRequest.x"]
    {
        assert_eq!(answer(Some(Question::FileContainingSymbol(symbol.into()))).unwrap_err().code, Code::NotFound);
    }
}

#[test]
fn there_are_no_extensions() {
    let type_name = "tensorflow.serving.PredictRequest".to_owned();
    let numbers = answer(Some(Question::AllExtensionNumbersOfType(type_name.clone()))).unwrap();
    assert!(matches!(numbers, Answer::AllExtensionNumbersResponse(found) if found.extension_number.is_empty()));
    let extension = ExtensionRequest { containing_type: type_name, extension_number: 7 };
    assert_eq!(answer(Some(Question::FileContainingExtension(extension))).unwrap_err().code, Code::NotFound);
    assert_eq!(answer(None).unwrap_err().code, Code::InvalidArgument);
}

#[tokio::test]
async fn a_question_that_is_wrong_ends_the_conversation() {
    let good = || asking(Question::ListServices(String::new()));
    let table = [
        (&b"\x01\0\0\0\0"[..], Code::Unimplemented, "compressed questions are not taken"),
        (b"\0\x7f\0\0\0", Code::ResourceExhausted, "expected at most 16384"),
        (b"\0\0\0\0\x01\xff", Code::InvalidArgument, "malformed message"),
    ];
    for (bad, code, text) in table {
        let found = answers([Bytes::copy_from_slice(bad), good()]).await;
        let (got, message) = refusal(&found[0]);
        assert_eq!((got, found.len()), (code as i32, 1));
        assert!(message.contains(text), "{message}");
    }
    assert!(answers([good().slice(..4)]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_nothing_more_is_left() {
    struct Silent;
    impl Source for Silent {
        async fn next(&mut self) -> Option<Result<Bytes, String>> {
            std::future::pending().await
        }

        fn ended(&self) -> bool {
            false
        }
    }
    assert_eq!(converse(Silent, Duration::from_secs(60)).recv().await, None);
}
