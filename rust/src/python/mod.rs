//! The border to Python: the only folder that knows an interpreter exists. Python calls in; nothing here calls out, and
//! no Python object is kept.

mod batch;
mod buffer;
mod errors;
mod infer;
mod known;
mod load_generator;
mod loadgen;
mod messages;
mod server;
mod warmup;
mod worker;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("build_profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    module.add_class::<server::Server>()?;
    module.add_class::<worker::Worker>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<buffer::Buffer>()?;
    infer::register(module)?;
    module.add_class::<known::KnownServer>()?;
    load_generator::register(module)?;
    loadgen::register(module)?;
    messages::register(module)?;
    warmup::register(module)
}
