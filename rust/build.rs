//! Compiles `proto/` to Rust with a compiler written in Rust, so that building needs no `protoc`. The descriptors are
//! kept beside it, for messages that are read by name (`src/protojson`).

use std::error::Error;
use std::fs;
use std::path::Path;

use protox::prost_reflect::prost::Message as _;

const FILES: [&str; 11] = [
    "grpc/health.proto",
    "grpc/reflection.proto",
    "grpc/reflection_v1alpha.proto",
    "inference/grpc_service.proto",
    "tensorflow/saved_model.proto",
    "tensorflow_serving/model_server_config.proto",
    "tensorflow_serving/model_service.proto",
    "tensorflow_serving/prediction_log.proto",
    "tensorflow_serving/prediction_service.proto",
    "tensorflow_serving/server_config.proto",
    "tensorflow_serving/session_bundle_config.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    // Asked when run, not when compiled: a shared target directory may serve several checkouts.
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut descriptors = protox::compile(FILES, [&root])?;
    let kept = Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin");
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(kept, descriptors.encode_to_vec())?;
    prost_build::Config::new()
        .btree_map(["."]) // one order of map entries, so that equal answers are equal bytes
        .bytes(["."])
        .compile_well_known_types() // instead of depending on a crate for Any and Int64Value
        .include_file("proto.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
