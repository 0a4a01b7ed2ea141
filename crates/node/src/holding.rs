//! Taking snapshots and records of the catalog from a coordinator, and reading them to one.
//!
//! A sender begins with what the pieces are that follow. A snapshot is whole when it is followed by a further beginning, of
//! records: a stream that merely ends may have been broken off, which looks the same here.

use crate::clock::within;
use crate::store::{Held, HeldReader, RecordsWriter, SnapshotWriter, Store, StoreError};
use disk::DiskError;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use wire::codec::records::{Begin, Carried};

/// A sender that lives says something more often; its turn is up.
pub const SILENCE: Duration = Duration::from_secs(30);

/// Messages that may wait for the disk, or for a reader.
const AHEAD: usize = 4;

/// What a sender said.
enum Word {
    Carried(Carried),
    /// Nothing more. A sender that is given up says not even that.
    End,
}

/// What is being taken.
enum Taking {
    Snapshot(SnapshotWriter),
    Records(Box<RecordsWriter>),
}

/// Takes what comes, and says what is held then; `None` if nothing is. Who is silent for so long is given up.
pub async fn hold<S>(store: Store, messages: S, silence: Duration) -> Result<Option<Held>, Status>
where
    S: Stream<Item = Result<Carried, Status>> + Send + Unpin,
{
    let (words, mut said) = channel(AHEAD);
    let taking = tokio::task::spawn_blocking(move || take(&store, &mut said));
    let sent = send_on(messages, words, silence).await;
    let taken = taking.await.map_err(|error| Status::internal(error.to_string()))?;
    // Why the sender was given up says more than that it was.
    sent.and(taken)
}

/// Hands on what comes, until it ends or nobody wants more.
async fn send_on<S>(mut messages: S, words: Sender<Word>, silence: Duration) -> Result<(), Status>
where
    S: Stream<Item = Result<Carried, Status>> + Unpin,
{
    loop {
        let message = tokio::select! {
            message = within(silence, messages.next()) => message,
            () = words.closed() => return Ok(()),
        };
        let word = match message {
            None => return Err(Status::deadline_exceeded("whoever sends records says nothing any more")),
            Some(Some(carried)) => Word::Carried(carried?),
            Some(None) => Word::End,
        };
        let is_end = matches!(word, Word::End);
        if words.send(word).await.is_err() || is_end {
            return Ok(());
        }
    }
}

fn take(store: &Store, said: &mut Receiver<Word>) -> Result<Option<Held>, Status> {
    let Some(Word::Carried(Carried::Begin(begin))) = said.blocking_recv() else {
        return Err(Status::invalid_argument("records begin with what they are"));
    };
    let Some(mut taking) = begun(store, &begin)? else { return Ok(store.held()) };
    while let Some(word) = said.blocking_recv() {
        // Another life of a coordinator may have been met since.
        store.obey(begin.by).map_err(status)?;
        taking = match (word, taking) {
            (Word::Carried(Carried::Piece(piece)), mut taking) => {
                match &mut taking {
                    Taking::Snapshot(snapshot) => snapshot.write(&piece),
                    Taking::Records(records) => records.write(&piece),
                }
                .map_err(status)?;
                taking
            }
            (Word::Carried(Carried::Begin(next)), Taking::Snapshot(snapshot)) => {
                if next != (Begin { at: snapshot.at(), snapshot: false, by: next.by, ..begin }) {
                    return Err(Status::invalid_argument("what follows a snapshot are its records"));
                }
                snapshot.finish().map_err(status)?;
                let Some(records) = begun(store, &next)? else { return Ok(store.held()) };
                records
            }
            (Word::Carried(Carried::Begin(_)), Taking::Records(_)) => {
                return Err(Status::invalid_argument("nothing follows records"));
            }
            (Word::End, Taking::Snapshot(_)) => {
                return Err(Status::invalid_argument("the snapshot is not said to be whole"));
            }
            (Word::End, Taking::Records(records)) => return records.finish().map(Some).map_err(status),
        };
    }
    Err(Status::cancelled("whoever sent records is gone"))
}

/// Begins to take what a sender announces; `None` if its records do not follow what is held.
fn begun(store: &Store, begin: &Begin) -> Result<Option<Taking>, Status> {
    if store.identity().cluster != Some(begin.cluster) {
        return Err(Status::permission_denied(
            "only the coordinator of this node's cluster has records kept here",
        ));
    }
    store.obey(begin.by).map_err(status)?;
    match begin.snapshot {
        true => store.hold_snapshot(begin.cluster, begin.at).map(|taken| Some(Taking::Snapshot(taken))),
        false => {
            store.hold_records(begin.at).map(|taken| taken.map(|records| Taking::Records(Box::new(records))))
        }
    }
    .map_err(status)
}

fn status(error: StoreError) -> Status {
    let why = error.to_string();
    match error {
        StoreError::OlderTerm { .. } | StoreError::UnheardTerm { .. } => Status::failed_precondition(why),
        StoreError::BadRecord { .. } => Status::invalid_argument(why),
        StoreError::HeldDamaged { .. } => Status::data_loss(why),
        StoreError::Disk(DiskError::NoSpace { .. }) | StoreError::TakesNoWrites { .. } => {
            Status::resource_exhausted(why)
        }
        _ => Status::unavailable(why),
    }
}

/// What is held, as it was sent to be; nothing if nothing is. An error is the last of it.
pub fn read(store: Store) -> Receiver<Result<Carried, Status>> {
    let (carried, outgoing) = channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let send = |message| carried.blocking_send(message).is_ok();
        let given = match store.read_held() {
            Ok(Some(reader)) => give(&store, reader, &|message| send(Ok(message))),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = given {
            send(Err(status(error)));
        }
    });
    outgoing
}

/// Sends all, as long as somebody takes it.
fn give(store: &Store, mut reader: HeldReader, send: &dyn Fn(Carried) -> bool) -> Result<(), StoreError> {
    let Some(cluster) = store.identity().cluster else { return Ok(()) };
    let begin = Begin { cluster, by: store.heard(), at: reader.held().snapshot, snapshot: true };
    if !send(Carried::Begin(begin)) {
        return Ok(());
    }
    while let Some(piece) = reader.next_of_snapshot()? {
        if !send(Carried::Piece(piece)) {
            return Ok(());
        }
    }
    if !send(Carried::Begin(Begin { snapshot: false, ..begin })) {
        return Ok(());
    }
    while let Some(piece) = reader.next_of_records()? {
        if !send(Carried::Piece(piece)) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashDisk, Disk, PowerSwitch};
    use model::{ClusterId, NodeId, Position, Stamp, Term};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_sender_that_says_nothing_any_more_is_given_up_and_another_one_has_its_turn() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
        Store::format(&disk, NodeId(1)).unwrap();
        let store = Store::open(disk, NodeId(1), 0).unwrap();
        let (cluster, by) = (ClusterId(5), Stamp { term: Term { number: 1, word: 1 }, change: 1 });
        store.welcomed(cluster).unwrap();
        store.hear(by).unwrap();
        let begin = Begin { cluster, by, at: Position::default(), snapshot: true };
        let first = tokio_stream::iter([Carried::Begin(begin), Carried::Piece(vec![7; 100])].map(Ok));
        let silent = first.chain(tokio_stream::pending());
        let given_up = hold(store.clone(), silent, Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(given_up.code(), tonic::Code::DeadlineExceeded, "{given_up}");
        assert_eq!(store.held(), None);
        let whole = [Carried::Begin(begin), Carried::Begin(Begin { snapshot: false, ..begin })].map(Ok);
        let held = hold(store.clone(), tokio_stream::iter(whole), SILENCE).await.unwrap();
        assert_eq!((held, held.is_some()), (store.held(), true));
    }
}
