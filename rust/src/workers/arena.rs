//! Memory files that two processes map. Each side owns the segments that it writes and hands out their descriptors.
//!
//! A worker is not trusted: a segment that comes from one must be sealed against shrinking, or reading it could kill
//! the server, and nothing is read from it but by bounds-checked copies.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Smallest segment, so that small batches of varying size share one.
const SMALLEST: usize = 64 * 1024;
/// Largest segment that a peer may hand over.
pub const LARGEST: usize = 16 << 30;

/// A mapped memory file.
///
/// Invariant: `start..start+len` is mapped readable and writable until drop, and the file cannot shrink.
#[derive(Debug)]
pub struct Segment {
    start: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: the mapping is plain memory that any thread may copy from or to; no reference into it is ever formed.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new segment with room for `len` bytes.
    pub fn create(len: usize) -> io::Result<Arc<Self>> {
        let len = len.max(SMALLEST).checked_next_power_of_two().filter(|len| *len <= LARGEST);
        let len = len.ok_or_else(|| io::Error::other("a batch is larger than the largest memory segment"))?;
        let file = memfd_create("poise-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file, len)
    }

    /// Maps a segment that the other side made.
    pub fn open(file: OwnedFd) -> io::Result<Arc<Self>> {
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("a memory segment is not sealed against shrinking"));
        }
        let len = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if len == 0 || len > LARGEST {
            return Err(io::Error::other(format!("a memory segment of {len} bytes")));
        }
        Self::map(file, len)
    }

    fn map(file: OwnedFd, len: usize) -> io::Result<Arc<Self>> {
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Arc::new(Self { start, len, file }))
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The descriptor to hand to the other side.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Address of a range, for the buffer protocol. `None` when the range is not inside the segment.
    pub fn address(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        // SAFETY: `offset <= end <= self.len`, so the result is inside the mapping or one past its end.
        (end <= self.len).then(|| unsafe { self.start.add(offset) })
    }

    /// Copies a range out. `None` when it is not inside the segment.
    pub fn read(&self, offset: usize, len: usize) -> Option<Vec<u8>> {
        let from = self.address(offset, len)?;
        let mut bytes = Vec::with_capacity(len);
        // SAFETY: `from` is good for `len` bytes (checked by `address`), the vector has room for them and they do not
        // overlap. The other process may write meanwhile: then the bytes are stale or torn, which the copy allows
        // and every user of them checks.
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
        Some(bytes)
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When the range is not inside the segment: callers have planned it.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.address(offset, bytes.len()).expect("a planned range lies inside its segment");
        // SAFETY: `to` is good for `bytes.len()` bytes (checked by `address`); the slice is ours and elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies foreign memory in, without forming a reference to it (Python may write to it meanwhile).
    ///
    /// # Safety
    /// `from` must be good for reading `len` bytes.
    ///
    /// # Panics
    /// As [`Segment::write`].
    pub unsafe fn write_raw(&self, offset: usize, from: *const u8, len: usize) {
        let to = self.address(offset, len).expect("a planned range lies inside its segment");
        // SAFETY: by this function's contract and the check in `address`; `copy` allows overlap.
        unsafe { ptr::copy(from, to.as_ptr(), len) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and addresses given out are only used while the segment is held.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Keeps one segment and replaces it when it is too small.
#[derive(Debug, Default)]
pub struct Growing(Option<Arc<Segment>>);

impl Growing {
    /// A segment with room for `len` bytes, and whether it is new to the other side.
    pub fn reserve(&mut self, len: usize) -> io::Result<(Arc<Segment>, bool)> {
        if let Some(segment) = self.0.as_ref().filter(|segment| segment.len() >= len) {
            return Ok((Arc::clone(segment), false));
        }
        let segment = Segment::create(len)?;
        self.0 = Some(Arc::clone(&segment));
        Ok((segment, true))
    }
}

impl crate::batching::gather::Sink for &Segment {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.write(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let ours = Segment::create(10).unwrap();
        let theirs = Segment::open(ours.descriptor().try_clone_to_owned().unwrap()).unwrap();
        ours.write(5, b"hello");
        assert_eq!(theirs.read(5, 5).unwrap(), b"hello");
        assert_eq!(theirs.len(), SMALLEST);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let segment = Segment::create(1).unwrap();
        assert!(segment.read(SMALLEST - 1, 1).is_some());
        assert!(segment.read(SMALLEST, 1).is_none());
        assert!(segment.read(usize::MAX, 2).is_none());
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(Segment::open(file).is_err());
    }

    #[test]
    fn a_segment_is_kept_until_it_is_too_small() {
        let mut growing = Growing::default();
        assert!(growing.reserve(10).unwrap().1);
        assert!(!growing.reserve(SMALLEST).unwrap().1);
        assert!(growing.reserve(SMALLEST + 1).unwrap().1);
    }
}
