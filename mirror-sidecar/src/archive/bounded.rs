//! What an archive may grow to.

use std::io::{self, Read};

/// Reads at most so many bytes; more is an error, which an early end wouldn't be.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    left: u64,
}

/// There was more.
#[derive(Debug, thiserror::Error)]
#[error("it grows to more than is allowed")]
pub(super) struct Exceeded;

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, most: u64) -> Self {
        Self { inner, left: most }
    }

    /// Bytes that may still be read.
    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(Exceeded)),
        }
        Ok(read)
    }
}
