//! Records in their file: each in a frame, appended and read.

use super::{Counting, FOLDER, Held, Turn, records_path};
use crate::store::{Result, StoreError};
use disk::{Disk, DiskError, DiskFile, SyncPoint};
use model::{Position, RECORD_HEAD_BYTES, RecordHead};
use std::path::Path;
use wire::frame::crc32c;

/// A longer record is refused. A record is one transaction of the catalog, the largest of which are some 100 MB; it is whole
/// in memory while it is checked, of one sender at a time.
pub const MAX_RECORD_BYTES: u64 = 256 << 20;

const LENGTH_BYTES: usize = 8;
const HEADER_BYTES: usize = LENGTH_BYTES + 4;

/// Complete frames are written once they are so many bytes together: one call for many small records.
const FLUSH_BYTES: usize = 1 << 20;

/// Read ahead where records are small.
const WINDOW_BYTES: usize = 1 << 20;

/// How far a copy of the catalog that is at `last` has come with that record; or why it does not follow.
fn successor(last: &Position, record: &[u8]) -> std::result::Result<Position, &'static str> {
    let (head, _) = RecordHead::of(record).ok_or("it is none, or of a version that is not known here")?;
    if head.before != last.hash {
        return Err("it does not follow the one before");
    }
    if head.stamp <= last.stamp {
        return Err("it was made before the one before");
    }
    Ok(Position { stamp: head.stamp, hash: *blake3::hash(record).as_bytes() })
}

/// The records of a file, one after another.
#[derive(Debug)]
pub(super) struct Frames {
    file: Box<dyn DiskFile>,
    /// Of the next frame.
    at: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Frames {
    pub(super) fn new(file: Box<dyn DiskFile>, end: u64) -> Frames {
        Frames { file, at: 0, end, window: Vec::new(), window_at: 0 }
    }

    /// Whether no frame is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// The next record whose frame holds; `None` where none does.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        let Some(header) = self.look(HEADER_BYTES)? else { return Ok(None) };
        let Some((length, crc)) = header.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let crc = crc.to_vec();
        let bytes = u64::from_le_bytes(*length);
        if bytes > MAX_RECORD_BYTES {
            return Ok(None);
        }
        let frame_bytes = HEADER_BYTES + bytes as usize;
        match self.look(frame_bytes)? {
            Some(frame) if crc32c(&frame[HEADER_BYTES..]).to_le_bytes().as_slice() == crc => {}
            _ => return Ok(None),
        }
        let from = (self.at - self.window_at) as usize;
        self.at += frame_bytes as u64;
        Ok(Some(&self.window[from + HEADER_BYTES..from + frame_bytes]))
    }

    /// The next bytes, if there are so many.
    fn look(&mut self, bytes: usize) -> Result<Option<&[u8]>> {
        let left = self.end.saturating_sub(self.at);
        if left < bytes as u64 {
            return Ok(None);
        }
        let mut from = (self.at - self.window_at) as usize;
        if self.window.len() < from + bytes {
            self.window.resize(left.min(bytes.max(WINDOW_BYTES) as u64) as usize, 0);
            self.file.read_exact_at(self.at, &mut self.window)?;
            (self.window_at, from) = (self.at, 0);
        }
        Ok(Some(&self.window[from..from + bytes]))
    }
}

/// What is held with a snapshot: the records that follow it, made durable. No more than `durable` bytes of them count, if
/// that is given.
pub(super) fn follow(
    disk: &dyn Disk,
    number: u64,
    snapshot: Position,
    snapshot_bytes: u64,
    durable: Option<u64>,
) -> Result<Counting> {
    let mut held = Held { snapshot, last: snapshot, snapshot_bytes, record_bytes: 0 };
    let file = match disk.open(&records_path(number)) {
        Err(DiskError::NotFound { .. }) => return Ok(Counting { number, held, end: 0, is_named: false }),
        opened => opened?,
    };
    // An earlier process may have died, without a power cut, before it did so.
    file.sync(SyncPoint::HeldRecords)?;
    let bytes = file.len()?;
    let mut frames = Frames::new(file, durable.map_or(bytes, |durable| durable.min(bytes)));
    let mut end = 0;
    while let Some(record) = frames.next()?
        && let Ok(last) = successor(&held.last, record)
    {
        held.last = last;
        held.record_bytes += record.len() as u64;
        end = frames.at;
    }
    if end < bytes {
        let torn_bytes = bytes - end;
        tracing::warn!(number, torn_bytes, "what follows the last record of the catalog is none");
    }
    Ok(Counting { number, held, end, is_named: true })
}

/// Records that are being appended. Dropping it leaves what was held.
#[derive(Debug)]
pub struct RecordsWriter {
    turn: Turn,
    /// What is held until all is durable.
    counting: Counting,
    file: Option<Box<dyn DiskFile>>,
    /// Where in the file the next frames go.
    at: u64,
    /// What is held with the records that came.
    held: Held,
    /// Complete frames, and what came of the next one.
    pending: Vec<u8>,
    /// Where in `pending` that begins.
    begun_at: usize,
    /// Its length, once that has come.
    frame_bytes: Option<usize>,
    is_done: bool,
}

impl RecordsWriter {
    pub(super) fn begin(turn: Turn, counting: Counting) -> Self {
        Self {
            turn,
            counting,
            file: None,
            at: counting.end,
            held: counting.held,
            pending: Vec::new(),
            begun_at: 0,
            frame_bytes: None,
            is_done: false,
        }
    }

    /// The next bytes, wherever they are cut: each record behind its length (8 bytes, little-endian).
    ///
    /// Errors: [`StoreError::BadRecord`]; the disk's. Nothing of what came is held then, and it cannot be gone on with.
    pub fn write(&mut self, mut piece: &[u8]) -> Result<()> {
        while !piece.is_empty() {
            let wanted = self.begun_at + self.frame_bytes.unwrap_or(LENGTH_BYTES) - self.pending.len();
            let (now, rest) = piece.split_at(wanted.min(piece.len()));
            self.pending.extend_from_slice(now);
            piece = rest;
            if now.len() == wanted {
                match self.frame_bytes {
                    None => self.begin_frame()?,
                    Some(_) => self.end_frame()?,
                }
            }
        }
        Ok(())
    }

    /// The length has come.
    fn begin_frame(&mut self) -> Result<()> {
        let Some(length) = self.pending.last_chunk::<LENGTH_BYTES>() else { return Ok(()) };
        let bytes = u64::from_le_bytes(*length);
        if !(RECORD_HEAD_BYTES as u64..=MAX_RECORD_BYTES).contains(&bytes) {
            return Err(StoreError::BadRecord { why: "none has such a length" });
        }
        // Its checksum, once it is known.
        self.pending.resize(self.begun_at + HEADER_BYTES, 0);
        self.frame_bytes = Some(HEADER_BYTES + bytes as usize);
        Ok(())
    }

    /// The record has come.
    fn end_frame(&mut self) -> Result<()> {
        let (header, record) = self.pending[self.begun_at..].split_at_mut(HEADER_BYTES);
        self.held.last = successor(&self.held.last, record).map_err(|why| StoreError::BadRecord { why })?;
        self.held.record_bytes += record.len() as u64;
        header[LENGTH_BYTES..].copy_from_slice(&crc32c(record).to_le_bytes());
        (self.begun_at, self.frame_bytes) = (self.pending.len(), None);
        if self.pending.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the complete frames; there is nothing else.
    fn flush(&mut self) -> Result<()> {
        let written = self.write_pending();
        self.doubt_unless(written)?;
        self.pending.clear();
        self.begun_at = 0;
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let written = file.write_at(self.at, &self.pending);
        // Also if it failed: the tail is cut off then.
        self.file = Some(file);
        written?;
        self.at += self.pending.len() as u64;
        Ok(())
    }

    /// Opens the file and cuts off a torn tail, so that no rest of it follows what is written now.
    fn open(&self) -> Result<Box<dyn DiskFile>> {
        let (path, disk) = (records_path(self.counting.number), self.turn.disk());
        let file = match disk.open_write(&path) {
            Err(DiskError::NotFound { .. }) => disk.create_new(&path)?,
            opened => opened?,
        };
        let (bytes, end) = (file.len()?, self.counting.end);
        if bytes < end {
            return Err(StoreError::HeldDamaged { why: "its file has become shorter" });
        }
        if bytes > end {
            file.set_len(end)?;
        }
        Ok(file)
    }

    /// All have come: they are held from now on, durably.
    ///
    /// Errors: [`StoreError::BadRecord`] if the last one is cut off; the disk's. Nothing of what came is held then.
    pub fn finish(mut self) -> Result<Held> {
        if self.pending.len() > self.begun_at {
            return Err(StoreError::BadRecord { why: "it is cut off" });
        }
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let synced = self.sync();
        self.doubt_unless(synced)?;
        let (held, end) = (self.held, self.at);
        let is_named = self.counting.is_named || self.file.is_some();
        self.turn.counts(Some(Counting { held, end, is_named, ..self.counting }));
        self.is_done = true;
        Ok(held)
    }

    fn sync(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync(SyncPoint::HeldRecords)?;
        if !self.counting.is_named {
            self.turn.disk().sync_folder(Path::new(FOLDER), SyncPoint::HeldFolder)?;
        }
        Ok(())
    }

    fn doubt_unless<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.turn.doubt();
        }
        result
    }
}

impl Drop for RecordsWriter {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.is_done)
            && let Err(error) = file.set_len(self.counting.end)
        {
            // The next append cuts it off.
            tracing::debug!(%error, "what was not acknowledged of the catalog's records stays behind them");
        }
    }
}
