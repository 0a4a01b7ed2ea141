//! Whether bytes of a put move: only then its lease is renewed.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether bytes of a put have moved lately: only then its lease is renewed.
#[derive(Clone, Default)]
pub(crate) struct Moved(Arc<AtomicBool>);

impl Moved {
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they have since this was asked last.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// An input whose bytes are noted as they come: whoever waits for a slow one is not stuck.
pub(crate) struct Noted<R>(pub R, pub Moved);

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out)?;
        if read > 0 {
            self.1.note();
        }
        Ok(read)
    }
}
