//! Compiles `proto/` to Rust with a compiler written in Rust, so that building needs no `protoc`.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 3] =
    ["tensorflow_serving/prediction_service.proto", "tensorflow_serving/model_service.proto", "grpc/health.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    // Asked when run, not when compiled: a shared target directory may serve several checkouts.
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    prost_build::Config::new()
        .btree_map(["."]) // one order of map entries, so that equal answers are equal bytes
        .bytes(["."])
        .compile_well_known_types() // instead of depending on a crate for Any and Int64Value
        .include_file("proto.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
