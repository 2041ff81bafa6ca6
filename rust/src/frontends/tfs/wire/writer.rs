//! Bytes of a protobuf message whose lengths are known before they are written.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Chunks, Frame};

/// A payload of at least this many bytes becomes a chunk of its own.
const SHARED_FROM: usize = 16 * 1024;

/// Wire types of the two kinds of field that are written here.
const VARINT: u32 = 0;
const DELIMITED: u32 = 2;

/// Bytes that a varint takes.
pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes that a field with a payload of this length takes.
pub(super) fn delimited_len(number: u32, length: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(length as u64) + length
}

/// Bytes that a field with a varint takes.
pub(super) fn varint_field_len(number: u32, value: u64) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(value)
}

/// Collects one message: small things are copied into one buffer, large payloads stay where they are.
pub(super) struct Writer {
    done: Chunks,
    buffer: BytesMut,
}

impl Writer {
    /// A writer for a message of `length` bytes, of which `shared` will be chunks of their own.
    pub(super) fn new(frame: Frame, length: usize, shared: usize) -> Self {
        let prefix = if frame == Frame::Grpc { 5 } else { 0 };
        let mut buffer = BytesMut::with_capacity(prefix + length - shared);
        if frame == Frame::Grpc {
            buffer.put_u8(0);
            buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        }
        Self { done: Chunks::new(), buffer }
    }

    pub(super) fn finish(mut self) -> Chunks {
        if !self.buffer.is_empty() || self.done.is_empty() {
            self.done.push(self.buffer.freeze());
        }
        self.done
    }

    #[inline]
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.buffer.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    pub(super) fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number << 3 | VARINT));
        self.varint(value);
    }

    /// The tag and length of a field whose payload the caller writes next.
    pub(super) fn open(&mut self, number: u32, length: usize) {
        self.varint(u64::from(number << 3 | DELIMITED));
        self.varint(length as u64);
    }

    pub(super) fn text(&mut self, number: u32, text: &str) {
        self.open(number, text.len());
        self.buffer.put_slice(text.as_bytes());
    }

    /// A payload that may stay where it is.
    pub(super) fn payload(&mut self, payload: &Bytes) {
        if is_shared(payload.len()) {
            self.done.push(self.buffer.split().freeze());
            self.done.push(payload.clone());
        } else {
            self.buffer.put_slice(payload);
        }
    }
}

/// Whether a payload of this length stays where it is.
pub(super) fn is_shared(length: usize) -> bool {
    length >= SHARED_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_varints_are_those_written() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1] {
                let mut writer = Writer::new(Frame::Bare, 10, 0);
                writer.varint(value);
                assert_eq!(writer.finish()[0].len(), varint_len(value), "{value}");
            }
        }
    }
}
