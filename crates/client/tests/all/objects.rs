//! Objects as their users see them: put, get, ranges, overwrite, list, delete; and nodes that die meanwhile.

use crate::rig::{BLOCK, Output, Rig, Settings, content, eventually};
use client::{ClientError, GetOptions, PutOptions};
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::sync::mpsc;
use std::time::Duration;
use wire::proto::LookupRequest;
use wire::proto::coordinator_client::CoordinatorClient;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_length_comes_back() {
    let rig = Rig::new(3).await;
    for bytes in [0, 1, 777, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK + 4_321] {
        let name = format!("of {bytes} bytes");
        let put = rig.put(&name, &content(bytes as u64, bytes)).await.unwrap();
        assert_eq!((put.object_bytes, put.block_count), (bytes as u64, bytes.div_ceil(BLOCK).max(1) as u64));
        assert_eq!(rig.get(&name).await.unwrap(), content(bytes as u64, bytes), "{name}");
        let info = rig.client.lookup(&name, true).await.unwrap();
        assert_eq!(info.code, "rep-3");
        assert!(info.blocks.iter().all(|b| b.living_nodes.iter().collect::<BTreeSet<_>>().len() == 3));
    }
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_edge_of_a_range() {
    let rig = Rig::new(3).await;
    let bytes = content(1, 2 * BLOCK + 100);
    rig.put("a", &bytes).await.unwrap();
    let edges = [0, 1, 32_767, 32_768, 32_769, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, bytes.len() - 1];
    for first in edges {
        for last in edges.into_iter().filter(|&last| last >= first) {
            let got = rig.range("a", &format!("{first}-{last}")).await.unwrap();
            assert!(got == bytes[first..=last], "{first}-{last}: {} bytes", got.len());
        }
    }
    assert_eq!(rig.range("a", &format!("{}-", BLOCK + 5)).await.unwrap(), bytes[BLOCK + 5..]);
    assert_eq!(rig.range("a", "-101").await.unwrap(), bytes[2 * BLOCK - 1..]);
    assert_eq!(rig.range("a", "0-99999999").await.unwrap(), bytes);
    let outside = rig.range("a", &format!("{}-", bytes.len())).await.unwrap_err();
    assert!(matches!(outside, ClientError::RangeOutside { .. }), "{outside}");
    rig.put("empty", b"").await.unwrap();
    assert!(matches!(rig.range("empty", "0-").await, Err(ClientError::RangeOutside { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_overwritten_listed_and_removed() {
    let rig = Rig::new(3).await;
    for (name, seed) in [("x/1", 1), ("x/2", 2), ("y", 3), ("x/1", 4), ("x/ü", 5)] {
        rig.put(name, &content(seed, BLOCK + 9)).await.unwrap();
    }
    assert_eq!(rig.get("x/1").await.unwrap(), content(4, BLOCK + 9));
    let names = async |prefix| -> Vec<String> {
        rig.client.list(prefix).await.unwrap().into_iter().map(|o| o.name).collect()
    };
    assert_eq!(names("").await, ["x/1", "x/2", "x/ü", "y"]);
    assert_eq!(names("x/").await, ["x/1", "x/2", "x/ü"]);
    assert_eq!(names("z").await, [""; 0]);
    rig.client.delete("x/1").await.unwrap();
    assert_eq!(names("x/").await, ["x/2", "x/ü"]);
    for error in [
        rig.get("x/1").await.unwrap_err(),
        rig.client.delete("x/1").await.unwrap_err(),
        rig.client.lookup("nobody", false).await.unwrap_err(),
        rig.archive("nobody", "rs-2+1").await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, ClientError::NotFound(text) if text.contains("there is no object")),
            "{error}"
        );
    }
    rig.no_garbage().await;
    let kept: usize = (1..=3).map(|node| rig.stored(node).len()).sum();
    assert_eq!(kept, 3 * 3 * 2, "three objects of two blocks, three copies each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_request_is_refused_in_one_sentence_and_changes_nothing() {
    let rig = Rig::new(3).await;
    for (name, word) in [("", "name"), ("a\nb", "control character"), (&*"n".repeat(1_025), "name")] {
        let refused = rig.put(name, b"bytes").await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused(text) if text.contains(word)), "{refused}");
    }
    for (options, word) in [
        (PutOptions { replicas: 17, ..Default::default() }, "replicas"),
        (PutOptions { block_bytes: 5 << 30, ..Default::default() }, "at most"),
        (PutOptions { block_bytes: 3, ..Default::default() }, "at least"),
    ] {
        let refused = rig.client.put("a", Cursor::new(b"bytes"), options).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused(text) if text.contains(word)), "{refused}");
    }
    rig.put(&"n".repeat(1_024), b"bytes").await.unwrap();
    assert_eq!(rig.status().await.objects, 1);
}

/// Yields one and a half blocks, then an error.
pub struct Breaks(pub usize);

impl Read for Breaks {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(3 * BLOCK / 2 - self.0);
        if n == 0 {
            return Err(std::io::Error::other("the tape tore"));
        }
        out[..n].fill(7);
        self.0 += n;
        Ok(n)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_fails_leaves_nothing() {
    let rig = Rig::new(3).await;
    let broken = rig.client.put("a", Breaks(0), PutOptions::default()).await.unwrap_err();
    assert!(matches!(&broken, ClientError::Input(e) if e.to_string().contains("the tape tore")), "{broken}");
    assert!(matches!(rig.get("a").await, Err(ClientError::NotFound(_))));
    rig.no_garbage().await;
    assert_eq!((1..=3).map(|node| rig.stored(node).len()).sum::<usize>(), 0);
}

/// Yields its bytes, but asks before each block after the first, and waits for the answer.
pub struct Asks {
    pub bytes: Cursor<Vec<u8>>,
    pub asked: mpsc::Sender<()>,
    pub answered: mpsc::Receiver<()>,
}

impl Read for Asks {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let at = self.bytes.position() as usize;
        if at > 0 && at.is_multiple_of(BLOCK) {
            let _ = self.asked.send(());
            let _ = self.answered.recv();
        }
        let room = out.len().min(BLOCK - at % BLOCK);
        self.bytes.read(&mut out[..room])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_between_blocks_of_a_put_costs_nothing() {
    let mut rig = Rig::new(5).await;
    let bytes = content(1, 6 * BLOCK);
    let (asked, asks) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let input = Asks { bytes: Cursor::new(bytes.clone()), asked, answered };
    let client = rig.client.clone();
    let put = tokio::spawn(async move { client.put("a", input, PutOptions::default()).await });
    tokio::task::block_in_place(|| asks.recv()).unwrap();
    rig.kill(2);
    drop(answer);
    put.await.unwrap().unwrap();
    // At once, while the coordinator may still think that the node lives.
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    rig.all_live().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    assert!(info.blocks.iter().all(|b| b.living_nodes.len() >= 2), "{info:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_puts_the_one_that_began_last_stays() {
    let rig = Rig::new(3).await;
    let (asked, asks) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let input = Asks { bytes: Cursor::new(content(1, 2 * BLOCK)), asked, answered };
    let client = rig.client.clone();
    let earlier = tokio::spawn(async move { client.put("a", input, PutOptions::default()).await });
    tokio::task::block_in_place(|| asks.recv()).unwrap();
    let later = rig.put("a", b"later").await.unwrap();
    drop(answer);
    let earlier = earlier.await.unwrap().unwrap();
    assert!(earlier.version < later.version);
    assert_eq!(rig.get("a").await.unwrap(), b"later");
    rig.no_garbage().await;
    assert_eq!((1..=3).map(|node| rig.stored(node).len()).sum::<usize>(), 3);
}

/// So slow that a test can look on, fast enough to end.
const SLOW: u64 = 400_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_while_it_writes_is_gone_around() {
    let mut rig = Rig::with(Settings { block_bytes: 1 << 20, ..Settings::nodes(5) }).await;
    let bytes = content(2, 1 << 20);
    rig.client.throttle(SLOW, SLOW).await.unwrap();
    let (client, input) = (rig.client.clone(), Cursor::new(bytes.clone()));
    let put = tokio::spawn(async move { client.put("a", input, PutOptions::default()).await });
    let victim = busy_node(&rig).await;
    rig.kill(victim);
    rig.client.throttle(0, 0).await.ok();
    put.await.unwrap().unwrap();
    lift_limits(&rig).await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let nodes = &info.blocks[0].nodes;
    assert!(!nodes.contains(&victim) && nodes.len() >= 2, "{nodes:?} without node-{victim}");
    for &node in nodes {
        assert_eq!(rig.damage(node, model::BlockId::from_slice(&info.blocks[0].block).unwrap()), None);
    }
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    // What the broken attempt left is collected, on the victim too.
    rig.bring_back([victim]).await;
    rig.no_garbage().await;
    let copies: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(copies, nodes.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_while_it_is_read_is_replaced_by_another() {
    let mut rig = Rig::with(Settings { block_bytes: 1 << 20, ..Settings::nodes(3) }).await;
    let bytes = content(3, (1 << 20) + 5);
    rig.put("a", &bytes).await.unwrap();
    rig.client.throttle(SLOW, SLOW).await.unwrap();
    let (client, output) = (rig.client.clone(), Output::default());
    let written = output.clone();
    let get = tokio::spawn(async move { client.get("a", written, GetOptions::default()).await });
    eventually("the first bytes", async || !output.bytes().is_empty()).await;
    let victim = busy_node(&rig).await;
    rig.kill(victim);
    lift_limits(&rig).await;
    let report = get.await.unwrap().unwrap();
    assert!(output.bytes() == bytes && report.digest_checked, "{report:?}");
}

/// A reader sees one version: all of it, or an error that says why not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_replaced_while_it_is_read_is_never_a_mixture() {
    let rig = Rig::new(3).await;
    let old = content(4, 8 * BLOCK);
    rig.put("a", &old).await.unwrap();
    rig.client.throttle(SLOW, SLOW).await.unwrap();
    let (client, output) = (rig.client.clone(), Output::default());
    let written = output.clone();
    let get = tokio::spawn(async move { client.get("a", written, GetOptions::default()).await });
    eventually("the first bytes", async || !output.bytes().is_empty()).await;
    rig.put("a", &content(5, 100)).await.unwrap();
    rig.no_garbage().await;
    let changed = get.await.unwrap().unwrap_err();
    assert!(matches!(changed, ClientError::Changed(_)), "{changed}");
    assert!(old.starts_with(&output.bytes()));
    assert_eq!(rig.get("a").await.unwrap(), content(5, 100));
}

/// A node that carries a flow right now.
async fn busy_node(rig: &Rig) -> u32 {
    let busy = || rig.running().into_iter().find(|&n| rig.node(n).engine().running_stages() > 0);
    eventually("a flow runs", async || busy().is_some()).await;
    // Well into the flow, not at its beginning.
    tokio::time::sleep(Duration::from_millis(200)).await;
    busy().unwrap()
}

async fn lift_limits(rig: &Rig) {
    rig.client.throttle(0, 0).await.unwrap();
}

/// A file has its name only once all of it is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_that_fails_leaves_the_file_as_it_was() {
    let mut rig = Rig::new(3).await;
    let bytes = content(6, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let get = async |rig: &Rig| rig.client.get_to_file("a", &file, GetOptions::default()).await;
    assert!(get(&rig).await.unwrap().digest_checked);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    rig.lose([1, 2, 3]).await;
    assert!(get(&rig).await.is_err());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_nodes_are_an_error_and_not_a_risk() {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    rig.lose([1, 2]).await;
    let refused = rig.put("a", b"other").await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::Refused(text) if text.contains("1 nodes are alive")),
        "{refused}"
    );
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
    rig.lose([3]).await;
    let gone = rig.get("a").await.unwrap_err();
    assert!(matches!(&gone, ClientError::NotNow(text) if text.contains("cannot be recovered now")), "{gone}");
    rig.bring_back([2]).await;
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}

/// Of a large object no message holds all blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_that_takes_several_answers_has_all_blocks() {
    let rig = Rig::with(Settings { lookup_bytes: Some(600), ..Settings::nodes(6) }).await;
    let bytes = content(6, 9 * BLOCK - 1);
    rig.put("a", &bytes).await.unwrap();
    for code in ["rep-3", "rs-3+2"] {
        if code != "rep-3" {
            rig.archive("a", code).await.unwrap();
        }
        let object = rig.client.lookup("a", true).await.unwrap();
        assert_eq!((object.block_count, object.code.as_str()), (9, code));
        let places: Vec<(u64, u64)> = object.blocks.iter().map(|block| (block.index, block.offset)).collect();
        assert_eq!(places, (0..9).map(|index| (index, index * BLOCK as u64)).collect::<Vec<_>>());
        let members =
            |block: &wire::proto::BlockInfo| block.stripe.as_ref().map(|stripe| stripe.members.len());
        let expected = (code != "rep-3").then_some(5);
        assert!(object.blocks.iter().all(|block| members(block) == expected));
        assert_eq!(rig.get("a").await.unwrap(), bytes);
        assert_eq!(rig.range("a", "640000-").await.unwrap(), bytes[640_000..]);
    }
    let mut coordinator = CoordinatorClient::connect(format!("http://{}", rig.address())).await.unwrap();
    let mut first_block = 0;
    let mut answers = 0;
    while first_block < 9 {
        let request =
            LookupRequest { name: "a".to_owned(), with_blocks: true, first_block, ..Default::default() };
        first_block += coordinator.lookup(request).await.unwrap().into_inner().blocks.len() as u64;
        answers += 1;
    }
    assert!((3..=9).contains(&answers), "{answers}");
}
