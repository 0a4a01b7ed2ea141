//! The output of a get: bytes of several reads, put in order by one thread.

use crate::get::Progress;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::task::JoinHandle;

/// Pieces that wait for the writer, for each read. A piece is a slice or less.
const PIECES_WAITING: usize = 64;

/// One read's end of the queue: its bytes, in order.
pub(crate) type Pieces = SyncSender<Vec<u8>>;

/// The writing thread. Reads are written in the order in which [`Writer::queue`] made their queues.
pub(crate) struct Writer<W> {
    queues: SyncSender<Receiver<Vec<u8>>>,
    thread: JoinHandle<(io::Result<Written>, W)>,
}

/// What went out.
pub(crate) struct Written {
    pub bytes: u64,
    pub digest: blake3::Hash,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// Starts to write to `output`; `total` bytes are expected, of which `progress` is told.
    pub fn start(output: W, total: u64, reads_in_flight: usize, progress: Option<Progress>) -> Self {
        let (queues, incoming) = sync_channel(reads_in_flight);
        let thread = tokio::task::spawn_blocking(move || write_all(output, &incoming, total, progress));
        Writer { queues, thread }
    }

    /// A queue for the next read; `None` when the writer has given up. Never waits if no more than `reads_in_flight`
    /// queues are unfinished.
    pub fn queue(&self) -> Option<Pieces> {
        let (pieces, receiver) = sync_channel(PIECES_WAITING);
        self.queues.try_send(receiver).ok().map(|()| pieces)
    }

    /// Waits until all is written. The output comes back even after an error.
    pub async fn finish(self) -> Result<(io::Result<Written>, W), tokio::task::JoinError> {
        drop(self.queues);
        self.thread.await
    }
}

fn write_all<W: Write>(
    mut output: W,
    incoming: &Receiver<Receiver<Vec<u8>>>,
    total: u64,
    progress: Option<Progress>,
) -> (io::Result<Written>, W) {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    // `incoming` ends with the last queue, a queue with the read that fills it: dropping either end stops the other.
    for pieces in incoming {
        for piece in pieces {
            if let Err(error) = output.write_all(&piece) {
                return (Err(error), output);
            }
            hasher.update(&piece);
            bytes += piece.len() as u64;
            if let Some(progress) = &progress {
                progress(bytes, Some(total));
            }
        }
    }
    (output.flush().map(|()| Written { bytes, digest: hasher.finalize() }), output)
}
