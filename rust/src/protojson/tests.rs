use proptest::prelude::*;
use prost::{Message, encoding::encode_varint};
use serde_json::{Value, json};

use super::*;

const CONFIG: &str = "tensorflow.serving.ModelServerConfig";
const BATCHING: &str = "tensorflow.serving.BatchingParameters";

fn of_text(message: &str, text: &str) -> Value {
    let json = text_to_json(message, text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    serde_json::from_str(&json).unwrap()
}

fn refusal(message: &str, text: &str) -> String {
    text_to_json(message, text).unwrap_err()
}

#[test]
fn every_way_of_writing_a_list_of_models_means_the_same() {
    let expected = json!({"model_config_list": {"config": [
        {"name": "a", "base_path": "/m/a", "model_platform": "tensorflow"},
        {"name": "b", "base_path": "/m/b"},
    ]}});
    let ways = [
        "model_config_list { config { name: 'a' base_path: '/m/a' model_platform: 'tensorflow' } config { name: 'b' base_path: '/m/b' } }",
        "model_config_list: {\n config: {\n name: \"a\",\n base_path: \"/m/a\",\n model_platform: \"tensorflow\"\n },\n config: { name: \"b\"; base_path: \"/m/b\"; }\n}",
        "# two models\r\nmodel_config_list < config < name: 'a' # the first }\r\n base_path: '/m/' 'a' model_platform: 'tensorflow' > config < name: 'b' base_path: '/m/b' > >",
        "model_config_list { config: [ { name: 'a', base_path: '/m/a', model_platform: 'tensorflow' }, { name: 'b', base_path: '/m/b' } ] }",
        "\u{feff}model_config_list{config[{name:'a'base_path:'/m/a'model_platform:'tensorflow'},{name:'b'base_path:'/m/b'}]}",
    ];
    for way in ways {
        assert_eq!(of_text(CONFIG, way), expected, "{way}");
    }
}

#[test]
fn policies_and_labels_keep_what_was_set_even_when_it_is_empty() {
    let text = "model_config_list { config { name: 'a' model_version_policy { specific { versions: [1, 0x10] versions: 42 } }
        version_labels { key: 'stable' value: 9007199254740993 } version_labels: { key: 'canary', value: 2 } }
        config { model_version_policy { all {} } model_type: TENSORFLOW } config { model_version_policy: { latest { num_versions: 2 } } } }";
    let expected = json!({"model_config_list": {"config": [
        {"name": "a", "model_version_policy": {"specific": {"versions": [1, 16, 42]}},
         "version_labels": {"canary": 2, "stable": 9_007_199_254_740_993_i64}},
        {"model_version_policy": {"all": {}}, "model_type": "TENSORFLOW"},
        {"model_version_policy": {"latest": {"num_versions": 2}}},
    ]}});
    assert_eq!(of_text(CONFIG, text), expected);
    assert_eq!(of_text(CONFIG, " # nothing\n"), json!({}));
}

#[test]
fn wrapper_messages_are_their_values() {
    let text = "max_batch_size { value: 128 } batch_timeout_micros { } num_batch_threads: { value : 4 }
        thread_pool_name { value: 'pool' } allowed_batch_sizes: 32 allowed_batch_sizes: [64, 128]
        pad_variable_length_inputs: true enable_large_batch_splitting { value: False }";
    let expected = json!({"max_batch_size": 128, "batch_timeout_micros": 0, "num_batch_threads": 4,
        "thread_pool_name": "pool", "allowed_batch_sizes": [32, 64, 128], "pad_variable_length_inputs": true,
        "enable_large_batch_splitting": false});
    assert_eq!(of_text(BATCHING, text), expected);
    let wrapped = format!("dynamic_batching {{ {text} }}");
    assert_eq!(of_text(BATCHING, &wrapped), json!({ "dynamic_batching": expected }));
}

#[test]
fn an_any_is_opened_when_its_type_is_known() {
    let text = "platform_configs { key: 'tensorflow' value { source_adapter_config {
        [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
          legacy_config { session_config { gpu_options { per_process_gpu_memory_fraction: 0.5 allow_growth: true }
            graph_options { optimizer_options { global_jit_level: ON_1 } } }
            batching_parameters { max_batch_size { value: 8 } } enable_model_warmup: true saved_model_tags: 'serve' } } } } }";
    let legacy = json!({"session_config": {"gpu_options": {"per_process_gpu_memory_fraction": 0.5, "allow_growth": true},
        "graph_options": {"optimizer_options": {"global_jit_level": "ON_1"}}},
        "batching_parameters": {"max_batch_size": 8}, "enable_model_warmup": true, "saved_model_tags": ["serve"]});
    let any = json!({"@type": "type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig",
        "legacy_config": legacy});
    // The order of fields is that of their numbers; JSON does not mind.
    let expected = json!({"platform_configs": {"tensorflow": {"source_adapter_config": any}}});
    assert_eq!(of_text("tensorflow.serving.PlatformConfigMap", text), expected);

    let foreign = "custom_model_config { type_url: 'example.com/theirs.Message' value: '\\001\\x02' }";
    let expected = json!({"custom_model_config": {"@type": "example.com/theirs.Message", "value": "AQI="}});
    assert_eq!(of_text(CONFIG, foreign), expected);
}

#[test]
fn errors_say_where_and_what_instead() {
    let cases = [
        (
            CONFIG,
            "model_config_list {\n  config {\n    base_pth: '/m'\n  }\n}",
            "line 3, column 5",
            "base_pth",
            "did you mean base_path?",
        ),
        (CONFIG, "models { }", "line 1, column 1", "models", "expected one of model_config_list, custom_model_config"),
        (
            CONFIG,
            "model_config_list { config { model_type: TENSORFLOV } }",
            "line 1, column 42",
            "TENSORFLOV",
            "did you mean TENSORFLOW?",
        ),
        (CONFIG, "model_config_list {", "line 1, column 20", "end of input", "expected"),
        (CONFIG, "model_config_list { config { name: 'a\n' } }", "line 1", "invalid string", ""),
        (
            CONFIG,
            "model_config_list { config { version_labels { key: 'a' value: 9223372036854775808 } } }",
            "line 1",
            "out of range",
            "",
        ),
        (CONFIG, "model_config_list { config { name: 7 } }", "line 1, column 36", "expected a string", "'7'"),
        (BATCHING, "max_batch_size: 8", "line 1, column 17", "braces", "`name { value: 1 }`"),
        (BATCHING, "pad_variable_length_inputs: 'yes'", "line 1, column 29", "'true' or 'false'", ""),
        (BATCHING, "max_batch_size { value: 1 } max_batch_size { value: 2 }", "line 1", "already set", ""),
        (CONFIG, "custom_model_config { [type.googleapis.com/no.Such] {} }", "line 1", "no.Such", ""),
    ];
    for (message, text, line, what, instead) in cases {
        let error = refusal(message, text);
        assert!(error.starts_with(&format!("Error parsing text-format {message}: {line}")), "{error}");
        assert!(error.contains(what) && error.contains(instead), "{error}");
    }
    assert!(refusal("tensorflow.serving.Nothing", "").contains("tensorflow.serving.Nothing"));
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = "dynamic_batching {".repeat(100_000);
    assert!(refusal(BATCHING, &deep).contains("more than 64 deep"));
    let deep = format!("{}{}", "dynamic_batching {".repeat(60), "}".repeat(60));
    assert!(text_to_json(BATCHING, &deep).is_ok());
    assert!(refusal(BATCHING, &" ".repeat(LONGEST_TEXT + 1)).contains("at most"));
    let brackets = format!("# {}\nthread_pool_name {{ value: '{}' }}", "{".repeat(100), "[<{".repeat(100));
    assert!(text_to_json(BATCHING, &brackets).is_ok(), "comments and strings have no depth");
}

/// One field of a serialized message that holds a message or text.
fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(number << 3 | 2, &mut bytes);
    encode_varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

#[test]
fn binary_messages_are_bounded_likewise() {
    let nested = (0..200).fold(Vec::new(), |inner, _| field(1000, &inner));
    assert!(binary_to_json(BATCHING, &nested).is_err());

    let url = format!("type.googleapis.com/{CONFIG}");
    let any = |inner: Vec<u8>, _| field(2, &[field(1, url.as_bytes()), field(2, &inner)].concat());
    assert!(binary_to_json(CONFIG, &(0..10_000).fold(Vec::new(), any)).unwrap_err().contains("deep"));
    assert!(binary_to_json(CONFIG, &(0..20).fold(Vec::new(), any)).is_ok());
    assert!(binary_to_json(CONFIG, b"\xff\xff").unwrap_err().starts_with("2 bytes are no tensorflow"));
}

#[test]
fn a_saved_model_shows_tags_and_signatures() {
    let text = "saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: 'serve' } signature_def {
        key: 'serving_default' value { inputs { key: 'x' value { name: 'x:0' dtype: DT_FLOAT } }
        method_name: 'tensorflow/serving/predict' defaults { key: 'x' value { dtype: DT_FLOAT float_val: nan } } } } }";
    let model = text::parse(descriptor("tensorflow.SavedModel").unwrap(), text).unwrap();
    let mut bytes = model.encode_to_vec();
    bytes.extend(b"\x7a\x02hi"); // a field that nobody knows
    let json: Value = serde_json::from_str(&binary_to_json("tensorflow.SavedModel", &bytes).unwrap()).unwrap();
    let expected = json!({"saved_model_schema_version": 1, "meta_graphs": [{
        "meta_info_def": {"tags": ["serve"]},
        "signature_def": {"serving_default": {
            "inputs": {"x": {"name": "x:0", "dtype": "DT_FLOAT"}},
            "method_name": "tensorflow/serving/predict",
            "defaults": {"x": {"dtype": "DT_FLOAT", "float_val": ["NaN"]}},
        }},
    }]});
    assert_eq!(json, expected);
}

proptest! {
    #[test]
    fn nothing_makes_the_readers_panic(
        text in r#"([a-z_]{1,8}|model_config_list|config|name|\{|\}|<|>|\[|\]|:|,|;|'|"|\\|#|\n| |[0-9.ex]{1,5}|-|inf|.){0,40}"#,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = text_to_json(CONFIG, &text);
        let _ = text_to_json(BATCHING, &text);
        let _ = binary_to_json(CONFIG, &bytes);
        let _ = binary_to_json("tensorflow.SavedModel", &bytes);
    }
}
