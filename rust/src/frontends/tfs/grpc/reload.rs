//! `ModelService.HandleReloadConfigRequest`: another list of models while the server runs. Python carries it out.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::frontends::grpc::{Call, Reply, frame};
use crate::frontends::proto::tensorflow::serving as pb;
use crate::protojson;

/// Answers once the new models serve, or with what became of them.
pub async fn reload(call: Call) -> Reply {
    let body = json!({ "config": config(&call.message)?, "generation": null });
    call.state.ask("reload_config", None, body, call.asked).await?;
    let status = Some(pb::StatusProto::default());
    Ok(frame(&pb::ReloadConfigResponse { status, metric: Vec::new() }))
}

/// The list of models in a request, as JSON.
fn config(message: &Bytes) -> Result<Value> {
    let text = protojson::binary_to_json("tensorflow.serving.ReloadConfigRequest", message);
    let request: Value = text
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|why| Error::bad_input(format!("malformed message: {why}")))?;
    match request.get("config") {
        Some(config) if config.get("model_config_list").is_some() => Ok(config.clone()),
        _ => Err(Error::bad_input(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently \
             supported",
        )),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::frontends::proto::google::protobuf::Any;
    use crate::frontends::proto::tensorflow::serving::model_server_config::Config;

    fn request(config: Option<Config>) -> Bytes {
        let config = Some(pb::ModelServerConfig { config });
        pb::ReloadConfigRequest { config, metric_names: vec![] }.encode_to_vec().into()
    }

    #[test]
    fn a_list_is_taken_in_the_names_of_the_proto() {
        let model = pb::ModelConfig { name: "m".into(), base_path: "/models/m".into(), ..Default::default() };
        let list = Config::ModelConfigList(pb::ModelConfigList { config: vec![model] });
        let expected = json!({ "model_config_list": { "config": [{ "name": "m", "base_path": "/models/m" }] } });
        assert_eq!(config(&request(Some(list))).unwrap(), expected);
        let none = Config::ModelConfigList(pb::ModelConfigList::default());
        assert_eq!(config(&request(Some(none))).unwrap(), json!({ "model_config_list": {} }));
    }

    #[test]
    fn all_else_is_refused() {
        let other = Config::CustomModelConfig(Any::default());
        for message in [Bytes::new(), request(None), request(Some(other))] {
            assert!(config(&message).unwrap_err().message.starts_with("ServerModelConfig type not supported"));
        }
        assert!(config(&Bytes::from_static(b"\xff")).unwrap_err().message.starts_with("malformed message"));
    }
}
