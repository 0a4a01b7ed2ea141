//! kill −9 of any process at any moment: nothing that was acknowledged is lost, nothing half-written gets a name, nothing
//! hangs.
//!
//! Clients put, overwrite, get, archive, repair and delete without a pause. Meanwhile one process after the other, nodes
//! and coordinator, is killed and started again. What must be stored is known at every moment: for each name the digest
//! of what was acknowledged last, or several while the fate of an unacknowledged change is open.

use super::rig::{Rig, content};
use client::{Client, ClientError, GetOptions, PutOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;
use wire::proto::{ArchiveRequest, RepairRequest};

/// Replays a run's choices, as far as the machine's timing lets it.
const SEED_ENV: &str = "STRIPELINE_TEST_SEED";

/// Another number of kills, for longer runs.
const KILLS_ENV: &str = "STRIPELINE_TEST_KILLS";

const KILLS: u64 = 100;

const NODES: u64 = 8;

const CLIENTS: u64 = 3;

/// Few, so that every object sees many changes.
const OBJECTS: usize = 10;

/// Up to seven blocks of 64 KiB: two stripes.
const MAX_OBJECT_BYTES: usize = 450_000;

const CODE: &str = "rs-4+2";

/// What a client does ends within this time, well or badly.
const PATIENCE: Duration = Duration::from_secs(60);

/// An acknowledged object is back within this time, whatever is being killed.
const READ_PATIENCE: Duration = Duration::from_secs(30);

/// For so long the coordinator keeps what was given up, unless it is told otherwise.
const GRACE: Duration = Duration::from_secs(60);

/// A node that stays away this long is dead to the coordinator (5 s of silence), and its blocks are repaired elsewhere.
const ABSENCE: Duration = Duration::from_secs(6);

/// Between kills at which all objects are read.
const CHECK_EVERY: u64 = 20;

/// What a name may stand for: the digest of a content, or nothing. One entry once all is acknowledged.
type Expected = Vec<Option<blake3::Hash>>;

struct World {
    rig: Rig,
    objects: Vec<tokio::sync::Mutex<Expected>>,
    /// Held by everyone who works; taken whole by who wants silence.
    working: RwLock<()>,
    ended: AtomicBool,
    /// What was done and how often, and with what outcome.
    tally: Mutex<BTreeMap<String, u64>>,
}

#[test]
fn a_hundred_kills_lose_nothing() {
    let seed = from_env(SEED_ENV).unwrap_or_else(rand::random::<u64>);
    let kills = from_env(KILLS_ENV).unwrap_or(KILLS);
    eprintln!("{kills} kills, seed {seed}: {SEED_ENV}={seed} replays it");
    let world = Arc::new(World {
        rig: Rig::up(NODES as u32),
        objects: (0..OBJECTS).map(|_| tokio::sync::Mutex::new(vec![None])).collect(),
        working: RwLock::new(()),
        ended: AtomicBool::new(false),
        tally: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS)
        .map(|client| runtime.spawn(Arc::clone(&world).work(StdRng::seed_from_u64(seed ^ (client + 1)))))
        .collect();

    let started = Instant::now();
    let mut killer = Killer { world: &world, random: StdRng::seed_from_u64(seed), absent: None };
    for kill in 1..=kills {
        runtime.block_on(killer.strike());
        assert!(clients.iter().all(|client| !client.is_finished()), "a client found something wrong");
        if kill % CHECK_EVERY == 0 {
            runtime.block_on(world.check_everything());
        }
    }
    world.ended.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| runtime.block_on(client).unwrap());
    world.rig.ok(&["cluster", "up"]);
    runtime.block_on(world.settle());
    world.inspect();
    eprintln!("{:.1} s; {}", started.elapsed().as_secs_f64(), world.tallied());
    for indispensable in ["put", "get", "archive", "delete", "repair", "kill node", "kill coordinator"] {
        assert!(world.tally.lock().unwrap().contains_key(indispensable), "no {indispensable} went well");
    }
}

/// Kills and revives.
struct Killer<'a> {
    world: &'a World,
    random: StdRng,
    /// A node that stays away for a while.
    absent: Option<(u64, Instant)>,
}

impl Killer<'_> {
    async fn strike(&mut self) {
        let pause = Duration::from_millis(self.random.random_range(0..100));
        tokio::time::sleep(pause).await;
        if let Some((node, since)) = self.absent
            && since.elapsed() > ABSENCE
        {
            let repaired = self.world.rig.run(&["repair", "node", &node.to_string()]);
            self.world.count("repair node", &repaired.status.success().then_some(()).ok_or(repaired.stderr));
            self.world.rig.ok(&["node", "start", &node.to_string()]);
            self.absent = None;
        }
        if self.random.random_ratio(1, 8) { self.strike_coordinator() } else { self.strike_node().await }
    }

    fn strike_coordinator(&mut self) {
        let rig = &self.world.rig;
        rig.process("coordinator").kill();
        self.world.count("kill coordinator", &Ok::<_, ()>(()));
        // This also starts a node that is away.
        rig.ok(&["cluster", "up"]);
        self.absent = None;
    }

    async fn strike_node(&mut self) {
        let rig = &self.world.rig;
        let absent = self.absent.map(|(absent, _)| absent);
        let mut others = (1..=NODES).filter(|&node| absent != Some(node));
        let node = others.nth(self.random.random_range(0..NODES as usize - 1)).unwrap();
        rig.process(&format!("node-{node}")).kill();
        self.world.count("kill node", &Ok::<_, ()>(()));
        // What is acknowledged is there while the node is not.
        let object = self.random.random_range(0..OBJECTS);
        self.world.check(object).await;
        if self.absent.is_none() && self.random.random_ratio(1, 10) {
            self.absent = Some((node, Instant::now()));
        } else {
            rig.ok(&["node", "start", &node.to_string()]);
        }
    }
}

impl World {
    /// One client: a change or a look after the other.
    async fn work(self: Arc<Self>, mut random: StdRng) {
        while !self.ended.load(Ordering::SeqCst) {
            let _working = self.working.read().await;
            let object = random.random_range(0..OBJECTS);
            let choice = random.random_range(0..100);
            match choice {
                0..35 => {
                    let bytes = random.random_range(0..MAX_OBJECT_BYTES);
                    self.put(object, content(bytes, random.random())).await;
                }
                35..60 => self.check(object).await,
                60..80 => self.archive(object).await,
                80..92 => {
                    let index = random.random_range(0..7);
                    let scheme = ["auto", "conventional", "pipeline"][random.random_range(0..3)];
                    self.repair(object, index, scheme, random.random()).await;
                }
                _ => self.delete(object).await,
            }
        }
    }

    async fn put(&self, object: usize, bytes: Vec<u8>) {
        let mut expected = self.objects[object].lock().await;
        let digest = Some(blake3::hash(&bytes));
        let put = self.bounded("put", async |client| {
            client.put(&name(object), io::Cursor::new(bytes), PutOptions::default()).await
        });
        match put.await {
            Ok(_) => *expected = vec![digest],
            Err(_) => expected.push(digest),
        }
    }

    async fn delete(&self, object: usize) {
        let mut expected = self.objects[object].lock().await;
        match self.bounded("delete", async |client| client.delete(&name(object)).await).await {
            Ok(_) => *expected = vec![None],
            Err(ClientError::NotFound(why)) => {
                assert!(expected.contains(&None), "{} is lost: {why}", name(object));
                *expected = vec![None];
            }
            Err(_) => expected.push(None),
        }
    }

    async fn archive(&self, object: usize) {
        let expected = self.objects[object].lock().await;
        if *expected != [None] {
            let _ = self.try_archive(object).await;
        }
    }

    async fn try_archive(&self, object: usize) -> Result<(), ClientError> {
        let request = ArchiveRequest {
            name: name(object),
            code: CODE.to_owned(),
            slice_bytes: 0,
            short: true,
            ..Default::default()
        };
        let archive = async |client: Client| {
            let mut events = client.archive(request).await?;
            while events.next().await?.is_some() {}
            Ok(())
        };
        self.bounded("archive", archive).await
    }

    async fn repair(&self, object: usize, index: u64, scheme: &str, discard: bool) {
        let _whole = self.objects[object].lock().await;
        let request = RepairRequest {
            object: name(object),
            index,
            scheme: scheme.to_owned(),
            discard,
            ..Default::default()
        };
        let repair = async |client: Client| {
            let mut events = client.repair(request).await?;
            while events.next().await?.is_some() {}
            Ok(())
        };
        let _ = self.bounded("repair", repair).await;
    }

    /// Reads an object until it is there, and settles what it stands for.
    async fn check(&self, object: usize) {
        let mut expected = self.objects[object].lock().await;
        let (name, deadline) = (name(object), Instant::now() + READ_PATIENCE);
        loop {
            let output = Output::default();
            let get = async |client: Client| client.get(&name, output.clone(), GetOptions::default()).await;
            let found = match self.bounded("get", get).await {
                Ok(_) => Some(blake3::hash(&output.0.lock().unwrap())),
                Err(ClientError::NotFound(_)) => None,
                Err(error @ ClientError::WrongDigest { .. }) => panic!("{error}"),
                Err(error) => {
                    assert!(Instant::now() < deadline, "{name}: {error}\n{}", self.rig.last_words());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            assert!(expected.contains(&found), "{name} is {found:?}, not one of {expected:?}");
            *expected = vec![found];
            return;
        }
    }

    /// All of it, while nobody works and everything runs.
    async fn check_everything(&self) {
        let _silence =
            tokio::time::timeout(PATIENCE, self.working.write()).await.expect("clients come to an end");
        for object in 0..OBJECTS {
            self.check(object).await;
        }
    }

    /// What was interrupted can be done again, and then is.
    async fn settle(&self) {
        self.check_everything().await;
        for object in 0..OBJECTS {
            let there = *self.objects[object].lock().await != [None];
            let deadline = Instant::now() + READ_PATIENCE;
            while there && let Err(error) = self.try_archive(object).await {
                assert!(Instant::now() < deadline, "archive {}: {error}", name(object));
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        self.check_everything().await;
    }

    /// Every byte on every disk is sound, every name has both its files, nothing is missing.
    fn inspect(&self) {
        let rig = &self.rig;
        rig.until("every block has a living copy", || {
            let status = rig.json(&["cluster", "status"]);
            status["missing_blocks"] == 0 && status["unrecoverable_blocks"] == 0
        });
        let scrubbed = rig.ok(&["scrub"]);
        assert!(scrubbed.ends_with("all sound\n"), "{scrubbed}");
        // A node that was killed between the two names of a copy left one; it goes like every copy that was given up.
        let deadline = Instant::now() + GRACE + READ_PATIENCE;
        while let Some(alone) = self.alone() {
            assert!(Instant::now() < deadline, "{alone} stands alone");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// A file of a block without its other half.
    fn alone(&self) -> Option<String> {
        let folders = (1..=NODES).map(|node| self.rig.home().join(format!("node-{node}/data/blocks")));
        let folders = folders.flat_map(|folders| std::fs::read_dir(folders).unwrap());
        let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        files.find_map(|file| {
            let name = file.unwrap().path().to_str().unwrap().to_owned();
            let partner = name.strip_suffix(".meta").map_or(format!("{name}.meta"), str::to_owned);
            (!std::path::Path::new(&partner).exists()).then_some(name)
        })
    }

    /// Connects and does something, which must come to an end.
    async fn bounded<T>(
        &self,
        what: &str,
        work: impl AsyncFnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connected = async {
            // Between a kill and the next start nobody knows where the coordinator is.
            let address =
                self.rig.address("coordinator", "control").unwrap_or_else(|| "127.0.0.1:1".to_owned());
            work(Client::connect(&address).await?).await
        };
        let outcome = tokio::time::timeout(PATIENCE, connected).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("{what} hangs\n{}", self.rig.last_words()));
        if outcome.is_err() {
            // Nobody hammers at a door that is shut.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.count(what, &outcome);
        outcome
    }

    fn count<T, E>(&self, what: &str, outcome: &Result<T, E>) {
        let what = if outcome.is_ok() { what.to_owned() } else { format!("{what} failed") };
        *self.tally.lock().unwrap().entry(what).or_default() += 1;
    }

    fn tallied(&self) -> String {
        let tally = self.tally.lock().unwrap();
        tally.iter().map(|(what, times)| format!("{what}: {times}")).collect::<Vec<_>>().join(", ")
    }
}

/// Where a get writes to.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn name(object: usize) -> String {
    format!("object-{object}")
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
