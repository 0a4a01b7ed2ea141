//! For whom blocks of a DataNode are read: the plugin is played here.

use crate::datanode::{Datanode, POOL, STAMP};
use exec::BlockStore;
use flow::bound::BlockRead;
use model::hdfs::{Permit, PoolMark};
use model::{Cause, Fault, FlowId, StoredCopy};
use node::hdfs::HdfsStore;
use node::hdfs::folders::Folders;
use node::hdfs::tokens::{Asking, BlockTokens, SOCKET};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

const BLOCK: i64 = -9_223_372_036_854_775_792;

const FLOW: FlowId = FlowId(7);

/// What is asked without a permit: what stands before the pool, it, the block, the flow, and two lengths.
const QUESTION_BYTES: usize = 10 + 2 + POOL.len() + 8 + 16 + 2 + 2;

/// Answers each of these to one question, whose bytes come back; then it is gone, and its socket stays.
fn plugin(socket: &Path, answers: Vec<&'static [u8]>, question_bytes: usize) -> JoinHandle<Vec<Vec<u8>>> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let answer = |answer: &[u8]| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = vec![0; question_bytes];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(answer).unwrap();
            question
        };
        answers.into_iter().map(answer).collect()
    })
}

fn read(permit: Option<Permit>) -> BlockRead {
    let block = PoolMark::of(POOL).block(BLOCK);
    BlockRead { permit, ..StoredCopy { block, generation: STAMP, stored_bytes: 5 }.into() }
}

fn folder() -> Datanode {
    let datanode = Datanode::new(1);
    datanode.put(BLOCK, b"bytes");
    datanode
}

fn asking(tokens: &BlockTokens, folders: &[PathBuf]) -> Asking {
    Asking::of(tokens, folders).unwrap().unwrap()
}

fn store(datanode: &Datanode, asking: Option<Asking>) -> HdfsStore {
    HdfsStore::new(Folders::at(&[datanode.path()]).unwrap(), asking)
}

fn refused(store: &HdfsStore, permit: Option<Permit>) -> Fault {
    let fault = store.open(&read(permit), FLOW).err().unwrap();
    assert_eq!((fault.cause, fault.block), (Cause::Denied, Some(PoolMark::of(POOL).block(BLOCK))), "{fault}");
    fault
}

#[test]
fn a_block_is_read_if_its_datanode_says_so_and_is_asked_about_all_that_matters() {
    let datanode = folder();
    let socket = datanode.path().join(SOCKET);
    let store = store(&datanode, Some(asking(&BlockTokens::AskDatanode, &[datanode.path()])));
    let permit = Permit { identifier: b"identifier".to_vec(), proof: [9; 32] };
    let told = plugin(&socket, vec![&[1, 0, 0]], QUESTION_BYTES + 10 + 32);
    let mut bytes = [0; 5];
    store
        .open(&read(Some(permit.clone())), FLOW)
        .unwrap_or_else(|fault| panic!("{fault}"))
        .read_at(0, &mut bytes)
        .unwrap();
    assert_eq!(&bytes, b"bytes");
    let question = told.join().unwrap().remove(0);
    for part in [POOL.as_bytes(), &BLOCK.to_be_bytes(), &FLOW.to_vec(), b"identifier", &[9; 32]] {
        assert!(question.windows(part.len()).any(|at| at == part), "{part:?}");
    }
    fs::remove_file(&socket).unwrap();
    let told = plugin(&socket, vec![b"\x02\x00\x03why"], QUESTION_BYTES);
    assert!(refused(&store, None).detail.ends_with("its DataNode says no: why"));
    told.join().unwrap();
    assert_eq!(store.corrupt(), 0, "a block that may not be read is not a bad one");
}

#[test]
fn where_nobody_answers_nothing_is_read() {
    let datanode = folder();
    let socket = datanode.path().join(SOCKET);
    let store = store(&datanode, Some(asking(&BlockTokens::AskDatanode, &[datanode.path()])));
    assert!(refused(&store, None).detail.contains("nobody says whether"), "no plugin");
    for answer in [&b""[..], b"\x01", b"\x01\x00", b"\x00\x00\x00", b"\x03\x00\x00", b"\x01\x00\x0bit breaks"]
    {
        let told = plugin(&socket, vec![answer], QUESTION_BYTES);
        refused(&store, None);
        told.join().unwrap();
        // Nobody listens any more.
        refused(&store, None);
        fs::remove_file(&socket).unwrap();
    }
    fs::write(&socket, "no socket").unwrap();
    refused(&store, None);
}

#[test]
fn whoever_else_listens_there_is_not_asked() {
    let datanode = folder();
    let socket = datanode.path().join("elsewhere.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let at = BlockTokens::AskAt(socket);
    let another = asking(&at, &[datanode.path()]).of_user(12_345);
    let fault = refused(&store(&datanode, Some(another)), None);
    assert!(fault.detail.contains("the data folders are those of user 12345"), "{fault}");
    drop(listener);
    assert!(Asking::of(&BlockTokens::Off, &[datanode.path()]).unwrap().is_none());
}

#[test]
fn the_folder_of_the_socket_may_be_any_and_who_may_not_read_hears_nothing_of_the_block() {
    let (first, second) = (folder(), Datanode::new(1));
    let socket = second.path().join(SOCKET);
    let store = store(&first, Some(asking(&BlockTokens::AskDatanode, &[first.path(), second.path()])));
    let told = plugin(&socket, vec![&[1, 0, 0], &[2, 0, 0], &[2, 0, 0]], QUESTION_BYTES);
    assert!(store.open(&read(None), FLOW).is_ok());
    refused(&store, None);
    let absent = StoredCopy { block: PoolMark::of(POOL).block(BLOCK + 1), ..read(None).copy };
    assert_eq!(store.open(&absent.into(), FLOW).err().unwrap().cause, Cause::Denied);
    told.join().unwrap();
}
