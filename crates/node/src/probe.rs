//! Finds copies that cannot be read at all. A worker lists the node's folders in turn and opens a few copies of each. If that fails, it opens all
//! copies of the folder, to find out soon how many cannot be read. It reads almost nothing and verifies no bytes; the scrub does that.

use crate::clock::Since;
use crate::flows::FlowStore;
use crate::store::{CopyId, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinError;
use worker::{Step, Task, Worker};

/// Name of the worker's task.
pub const PROBE: &str = "probe";

/// Pause between two folders: a round takes about a minute …
const PAUSE: Duration = Duration::from_millis(250);

/// … but only a few seconds after a start, or when something fails.
const HASTE: Duration = Duration::from_millis(20);

/// Rest after a look, as a multiple of its duration. It limits the worker to one percent of a core and of the disk for any number of blocks …
const REST: u32 = 100;

/// … and to ten percent while something fails: until each copy of a folder was tried, margins count those that cannot be read.
const HASTY_REST: u32 = 10;

/// Number of copies of a folder that one look opens.
const FEW: usize = 16;

/// Time after which a failed look is repeated.
const SECOND_TRY: Duration = Duration::from_millis(500);

/// See the module.
pub struct Prober {
    flows: Arc<FlowStore>,
    folder: u8,
    round: usize,
    /// Whether something failed in this round.
    fails: bool,
    /// Whether a folder out of its turn was next.
    is_urgent: bool,
}

/// Result of a look at a folder.
enum Looked {
    Unlisted(String),
    /// Copies that could not be opened, the reason for the first of them, and copies that look damaged.
    Listed {
        failing: Vec<CopyId>,
        why: Option<String>,
        damaged: Vec<CopyId>,
    },
}

impl Prober {
    /// Returns a worker for a store.
    pub fn new(flows: Arc<FlowStore>) -> Prober {
        Prober { flows, folder: 0, round: 0, fails: false, is_urgent: false }
    }

    fn next(&mut self) -> u8 {
        // Every second time, so that folders that keep failing do not keep the others from their turn.
        self.is_urgent = !self.is_urgent;
        let urgent = || self.flows.suspects.due_folder().or_else(|| self.flows.store.miscounted_folder());
        if let Some(folder) = self.is_urgent.then(urgent).flatten() {
            return folder;
        }
        let folder = self.folder;
        self.folder = folder.wrapping_add(1);
        if self.folder == 0 {
            (self.round, self.fails) = (self.round + 1, false);
        }
        folder
    }

    async fn look(&self, folder: u8, all: bool) -> Result<Looked, JoinError> {
        let (store, round) = (self.flows.store.clone(), self.round);
        tokio::task::spawn_blocking(move || {
            store.remove_one_left();
            look(&store, folder, round, all)
        })
        .await
    }

    /// Looks at a folder and reports what it finds. A failure counts only if it repeats, which is found out while other folders are
    /// looked at.
    async fn probe(&mut self, folder: u8) -> Result<(), JoinError> {
        let suspects = Arc::clone(&self.flows.suspects);
        let has_failed = match suspects.is_due(folder) {
            Some(false) => return Ok(()),
            due => due.is_some(),
        };
        match self.look(folder, has_failed).await? {
            Looked::Unlisted(why) => {
                self.fails = true;
                suspects.folder_failed(folder, &why);
            }
            Looked::Listed { failing, why, damaged } => {
                self.fails |= !failing.is_empty();
                damaged.into_iter().for_each(|copy| suspects.suspect(copy));
                match has_failed {
                    true => suspects.folder_looked_at(folder, &failing, why),
                    false if failing.is_empty() => {}
                    false => suspects.look_at(folder, SECOND_TRY),
                }
            }
        }
        Ok(())
    }
}

fn look(store: &Store, folder: u8, round: usize, all: bool) -> Looked {
    let copies = match store.list_folder(folder) {
        Ok(listing) => listing.copies,
        Err(error) => return Looked::Unlisted(error.to_string()),
    };
    // Each round tries the next few copies.
    let few = copies.chunks(FEW);
    let turn = round.checked_rem(few.len()).unwrap_or(0);
    let tried = if all { &copies[..] } else { few.into_iter().nth(turn).unwrap_or_default() };
    let (mut failing, mut why, mut damaged) = (Vec::new(), None, Vec::new());
    for copy in tried {
        match unreadable(store, *copy) {
            Some(StoreError::Corrupt { .. }) => damaged.push(*copy),
            Some(error) if error.says_nothing() => {
                why.get_or_insert_with(|| error.to_string());
                failing.push(*copy);
            }
            _ => {}
        }
    }
    Looked::Listed { failing, why, damaged }
}

/// Returns the error if the copy cannot be opened, or its first byte cannot be read.
fn unreadable(store: &Store, copy: CopyId) -> Option<StoreError> {
    let mut first = [0; 1];
    let read = store.reader(copy.block, copy.generation).and_then(|reader| match reader.stored_bytes() {
        0 => Ok(()),
        _ => reader.read_at(0, &mut first),
    });
    read.err()
}

impl Worker for Prober {
    type Error = JoinError;

    fn name(&self) -> &'static str {
        PROBE
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    async fn step(&mut self, task: &Task) -> Result<Step, JoinError> {
        let folder = self.next();
        let began = Since::default();
        self.probe(folder).await?;
        let took = Duration::from_millis(began.ms());
        let unread = self.flows.suspects.unread();
        task.note(|report| {
            report.done += 1;
            report.detail = match (unread.copies.len(), unread.folders.len()) {
                (0, 0) => String::new(),
                (copies, folders) => {
                    format!("{copies} copies and {folders} of 256 folders cannot be read: {}", unread.why)
                }
            };
        });
        let fails = self.fails || self.flows.suspects.due_folder().is_some();
        let (least, rest) = match (fails, self.round) {
            (true, _) => (HASTE, HASTY_REST),
            (false, 0) => (HASTE, REST),
            (false, _) => (PAUSE, REST),
        };
        Ok(Step::Wait(least.max(took * rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewBlock;
    use disk::{CrashDisk, Disk, PowerSwitch};
    use model::{BlockId, NodeId, Stamp};
    use std::path::Path;
    use worker::Tasks;

    #[tokio::test]
    async fn a_sidecar_of_an_unknown_version_is_found_within_a_round_and_counts_again_once_it_is_read() {
        let disk = CrashDisk::new(&PowerSwitch::new());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Store::format(&shared, NodeId(1)).unwrap();
        let store = Store::open(shared, NodeId(1), 0).unwrap();
        let copy = CopyId { block: BlockId(5), generation: 2 };
        let mut writer = store.writer(copy.block, copy.generation, 3).unwrap();
        writer.write(0, b"abc", None).unwrap();
        let (birth, part, note) = (Stamp::default(), None, Vec::new());
        let facts = NewBlock { birth, stored_bytes: 3, alpha: 1, symbol_bytes: 3, part, note };
        writer.finish(facts, None).unwrap();
        let flip = || {
            disk.damage(Path::new("blocks/00/00000000000000000000000000000005.2.meta"), |bytes| {
                bytes[9] ^= 0xff
            })
        };
        let flows = Arc::new(FlowStore::new(store, 0));
        let (mut prober, task) = (Prober::new(Arc::clone(&flows)), Tasks::default().add(PROBE));
        prober.step(&task).await.unwrap();
        assert!(flows.suspects.is_clear(copy));
        flip().unwrap();
        let began = Since::default();
        while flows.suspects.unread().copies.is_empty() && began.ms() < 5_000 {
            prober.step(&task).await.unwrap();
        }
        assert!(began.ms() >= SECOND_TRY.as_millis() as u64, "one failure is none");
        assert_eq!((flows.suspects.unread().copies, flows.suspects.corrupt()), (vec![copy], vec![]));
        assert!(flows.suspects.unread().why.contains("version"), "{}", flows.suspects.unread().why);
        flip().unwrap();
        while !flows.suspects.unread().copies.is_empty() && began.ms() < 10_000 {
            prober.step(&task).await.unwrap();
        }
        assert!(flows.suspects.is_clear(copy) && flows.suspects.unread().copies.is_empty());
    }
}
