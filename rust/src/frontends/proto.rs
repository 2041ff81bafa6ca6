//! Messages of the wire protocols, generated from `proto/` at build time. Predict's own messages are read and
//! written by [`super::tfs::wire`] instead, which shares the bytes of tensors.

// Generated: neither its comments nor its style are ours to mend.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));
