//! The output of a get: bytes of several reads, put in order by one thread.

use crate::options::Progress;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Bytes that wait for the writer, for each read: some milliseconds of a fast network.
const WAITING_BYTES: usize = 4 << 20;

/// One read's end of the queue: its bytes, in order.
pub(crate) type Pieces = SyncSender<Vec<u8>>;

/// The writing thread. Reads are written in the order in which [`Writer::queue`] made their queues.
pub(crate) struct Writer<W> {
    queues: mpsc::Sender<Queue>,
    pieces_waiting: usize,
    thread: JoinHandle<(io::Result<Written>, W)>,
}

struct Queue {
    pieces: Receiver<Vec<u8>>,
    /// Bytes that the read has in all.
    bytes: u64,
}

/// What went out.
pub(crate) struct Written {
    pub bytes: u64,
    pub digest: blake3::Hash,
}

impl<W: Write + Send + 'static> Writer<W> {
    /// Starts to write to `output`; `total` bytes are expected, of which `progress` is told. Pieces have up to
    /// `piece_bytes` each.
    pub fn start(output: W, total: u64, piece_bytes: usize, progress: Option<Progress>) -> Self {
        // The writer's read, and the next one: whoever reads further ahead waits.
        let (queues, incoming) = mpsc::channel(1);
        let thread = tokio::task::spawn_blocking(move || write_all(output, incoming, total, progress));
        let pieces_waiting = (WAITING_BYTES / piece_bytes.max(1)).max(1);
        Writer { queues, pieces_waiting, thread }
    }

    /// A queue for the next read, of so many bytes; `None` when the writer has given up.
    pub async fn queue(&self, bytes: u64) -> Option<Pieces> {
        let (sender, pieces) = sync_channel(self.pieces_waiting);
        self.queues.send(Queue { pieces, bytes }).await.ok().map(|()| sender)
    }

    /// Waits until all is written. The output comes back even after an error.
    pub async fn finish(self) -> Result<(io::Result<Written>, W), tokio::task::JoinError> {
        drop(self.queues);
        self.thread.await
    }
}

fn write_all<W: Write>(
    mut output: W,
    mut incoming: mpsc::Receiver<Queue>,
    total: u64,
    progress: Option<Progress>,
) -> (io::Result<Written>, W) {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    // `incoming` ends with the last queue, a queue with the read that fills it: dropping either end stops the other.
    while let Some(Queue { pieces, bytes: expected }) = incoming.blocking_recv() {
        let end = bytes + expected;
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
        // A read that broke off: nothing of what follows it may go out.
        if bytes != end {
            break;
        }
    }
    (output.flush().map(|()| Written { bytes, digest: hasher.finalize() }), output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_come_out_in_order_however_they_come_in() {
        let writer = Writer::start(Vec::new(), 6, 1, None);
        let first = writer.queue(3).await.unwrap();
        let second = writer.queue(3).await.unwrap();
        second.send(b"def".to_vec()).unwrap();
        first.send(b"ab".to_vec()).unwrap();
        first.send(b"c".to_vec()).unwrap();
        drop((first, second));
        let (written, output) = writer.finish().await.unwrap();
        let written = written.unwrap();
        assert_eq!((written.bytes, output.as_slice()), (6, &b"abcdef"[..]));
        assert_eq!(written.digest, blake3::hash(b"abcdef"));
    }

    #[tokio::test]
    async fn nothing_follows_a_read_that_broke_off() {
        let writer = Writer::start(Vec::new(), 6, 1, None);
        let first = writer.queue(3).await.unwrap();
        let second = writer.queue(3).await.unwrap();
        second.send(b"def".to_vec()).unwrap();
        first.send(b"ab".to_vec()).unwrap();
        drop((first, second));
        let (written, output) = writer.finish().await.unwrap();
        assert_eq!((written.unwrap().bytes, output.as_slice()), (2, &b"ab"[..]));
    }

    /// Takes a few bytes and then fails, as a full disk does.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_output_that_fails_ends_the_reads() {
        let writer = Writer::start(Full(4), 1 << 30, 1 << 20, None);
        let pieces = writer.queue(1 << 30).await.unwrap();
        let read = tokio::task::spawn_blocking(move || while pieces.send(vec![0; 3]).is_ok() {});
        read.await.unwrap();
        assert!(writer.finish().await.unwrap().0.is_err());
    }
}
