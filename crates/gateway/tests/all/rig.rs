//! A block group over DataNodes' folders, a helper beside each, a coordinator, a gateway, and whoever asks it.

use crate::datanode::{Datanode, POOL, STAMP, internal_blocks};
use codes::Code;
use disk::{CrashDisk, PowerSwitch};
use exec::{Injection, Throttle};
use gateway::Gateway;
use gateway::protocol::{DATA_BYTES, FRAME_HEAD_BYTES, REQUEST_HEAD_BYTES};
use model::hdfs::Layout;
use node::hdfs::tokens::BlockTokens;
use node::hdfs::{Config, Lender};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::frame::crc32c;

/// The group's id: that of its first block.
pub const GROUP: i64 = -9_223_372_036_854_775_792;

/// Whatever is asked for is answered long before, if only with an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A helper is known within this time.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

/// A code of HDFS: codec, k, m.
pub type Policy = (&'static str, u16, u16);

pub struct Rig {
    pub policy: Policy,
    pub layout: Layout,
    pub blocks: Vec<Vec<u8>>,
    pub datanodes: Vec<Datanode>,
    /// `None`: it was ended.
    pub helpers: Vec<Option<Lender>>,
    pub injections: Vec<Arc<Injection>>,
    pub throttles: Vec<Arc<Throttle>>,
    pub coordinator: Option<coordinator::Coordinator>,
    pub gateway: Gateway,
}

/// What comes back.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// Bytes of each member.
    Bytes(Vec<Vec<u8>>),
    /// The code of an error, its sentence, and how many bytes of each came before it.
    Refused(u16, String, usize),
}

/// What is asked for.
#[derive(Clone)]
pub struct Wish {
    pub wanted: Vec<u16>,
    pub range: Range<u64>,
    pub scheme: &'static str,
    /// Members that DataNodes have, as far as HDFS knows.
    pub living: Vec<u16>,
    /// They have them as blocks of a replicated file, from this id on.
    pub replicas: Option<i64>,
    /// They will be written again.
    pub rebuilds: bool,
}

pub fn name_of(policy: Policy) -> String {
    match policy {
        ("rs", k, m) => format!("rs-cauchy-{k}+{m}"),
        (codec, k, m) => format!("{codec}-{k}+{m}"),
    }
}

impl Rig {
    /// One DataNode for each member; those without bytes are stored nowhere.
    pub async fn new(policy: Policy, cell_bytes: u64, data_bytes: u64) -> Rig {
        let code = Code::parse(&name_of(policy)).unwrap();
        let layout = Layout { k: policy.1, cell_bytes, data_bytes };
        let blocks = internal_blocks(&code, layout);
        let disk = CrashDisk::new(&PowerSwitch::new());
        let mut config = coordinator::Config::new(([127, 0, 0, 1], 0).into(), Arc::new(disk));
        config.heartbeat_ms = 100;
        let coordinator = coordinator::start(config).await.unwrap();
        let address = coordinator.local_addr().to_string();
        let gateway =
            gateway::start(([127, 0, 0, 1], 0).into(), address.clone(), Arc::default()).await.unwrap();
        let mut rig = Rig {
            policy,
            layout,
            datanodes: (0..blocks.len() as u128).map(Datanode::new).collect(),
            helpers: Vec::new(),
            injections: Vec::new(),
            throttles: Vec::new(),
            blocks,
            coordinator: Some(coordinator),
            gateway,
        };
        for (member, datanode) in rig.datanodes.iter().enumerate() {
            if !rig.blocks[member].is_empty() {
                datanode.put(GROUP + member as i64, &rig.blocks[member]);
            }
            let mut config = Config::new(vec![datanode.path()], address.clone());
            config.injection = Arc::default();
            config.block_tokens = BlockTokens::Off;
            rig.injections.push(Arc::clone(&config.injection));
            rig.throttles.push(Arc::clone(&config.throttle));
            rig.helpers.push(Some(node::hdfs::start(config).await.unwrap()));
        }
        rig.until_known().await;
        rig
    }

    /// Waits until the coordinator plans with all helpers: a read that needs nobody in particular is planned.
    pub async fn until_known(&self) {
        let k = usize::from(self.policy.1);
        for member in 0..self.blocks.len() {
            let others = (0..self.blocks.len()).filter(|&other| other != member);
            // As many as are needed, and this one among them.
            let mut living: Vec<u16> = others.map(|other| other as u16).collect();
            let wanted = living.pop().unwrap();
            living.truncate(k - 1);
            living.push(member as u16);
            let wish = Wish {
                wanted: vec![wanted],
                range: 0..1,
                scheme: "",
                living,
                replicas: None,
                rebuilds: false,
            };
            let deadline = tokio::time::Instant::now() + KNOWN_WITHIN;
            while let Answer::Refused(code, why, _) = self.ask(&wish).await {
                assert!(tokio::time::Instant::now() < deadline, "helper {member}: {code}, {why}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// All of `wanted`, while nobody has them.
    pub fn all_of(&self, wanted: &[u16]) -> Wish {
        let is_there = |member: &u16| !wanted.contains(member) && self.layout.stored_bytes(*member) > 0;
        Wish {
            wanted: wanted.to_vec(),
            range: 0..self.layout.block_bytes(),
            scheme: "",
            living: (0..self.blocks.len() as u16).filter(is_there).collect(),
            replicas: None,
            rebuilds: false,
        }
    }

    /// What `wish` should bring.
    pub fn expected(&self, wish: &Wish) -> Answer {
        let part = |&member: &u16| {
            let mut block = self.blocks[usize::from(member)].clone();
            block.resize(self.layout.block_bytes() as usize, 0);
            block[wish.range.start as usize..wish.range.end as usize].to_vec()
        };
        Answer::Bytes(wish.wanted.iter().map(part).collect())
    }

    pub async fn brings(&self, wish: &Wish) {
        let (answer, expected) = (self.ask(wish).await, self.expected(wish));
        // Not assert_eq: nobody wants to read both.
        if answer != expected {
            let what = match answer {
                Answer::Bytes(_) => "other bytes".to_owned(),
                Answer::Refused(code, why, came) => format!("error {code} after {came} bytes: {why}"),
            };
            let (policy, layout) = (self.policy, self.layout);
            panic!(
                "{policy:?}, {layout:?}, {:?} of {:?} by {:?}: {what}",
                wish.range, wish.wanted, wish.scheme
            );
        }
    }

    /// Asks as Java does.
    pub async fn ask(&self, wish: &Wish) -> Answer {
        self.ask_for_all(wish).await.0
    }

    /// The same, and which members are said to be corrupt.
    pub async fn ask_for_all(&self, wish: &Wish) -> (Answer, Vec<u16>) {
        let mut stream = TcpStream::connect(self.gateway.addr()).await.unwrap();
        stream.write_all(&self.request(wish)).await.unwrap();
        let come = vec![Vec::new(); wish.wanted.len()];
        tokio::time::timeout(PATIENCE, all_of_an_answer(stream, come, wish.range.start)).await.unwrap()
    }

    pub fn request(&self, wish: &Wish) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
        let (codec, k, m) = self.policy;
        let Layout { cell_bytes, data_bytes, .. } = self.layout;
        let kind = match (wish.replicas, wish.rebuilds) {
            (Some(_), _) => 2,
            (None, true) => 3,
            (None, false) => 1,
        };
        let mut body = vec![kind];
        body.extend(text(POOL));
        body.extend(GROUP.to_be_bytes());
        body.extend(STAMP.to_be_bytes());
        body.extend(text(codec));
        body.extend([k.to_be_bytes(), m.to_be_bytes()].concat());
        body.extend((cell_bytes as u32).to_be_bytes());
        body.extend(data_bytes.to_be_bytes());
        body.extend(
            [wish.range.start.to_be_bytes(), (wish.range.end - wish.range.start).to_be_bytes()].concat(),
        );
        body.extend(text(wish.scheme));
        body.extend((wish.wanted.len() as u16).to_be_bytes());
        wish.wanted.iter().for_each(|member| body.extend(member.to_be_bytes()));
        body.extend((wish.living.len() as u16).to_be_bytes());
        for member in &wish.living {
            let digits = self.datanodes[usize::from(*member)].uuid.replace('-', "");
            body.extend(member.to_be_bytes());
            body.extend(u128::from_str_radix(&digits, 16).unwrap().to_be_bytes());
            body.extend(text(if member % 2 == 0 { "/rack-a" } else { "/rack-b" }));
            if let Some(first) = wish.replicas {
                body.extend((first + i64::from(*member)).to_be_bytes());
                body.extend(STAMP.to_be_bytes());
            }
            body.extend([0; 4]);
        }
        let mut request = [&b"SLGR"[..], &[0, 2, 0, 0], &(body.len() as u32).to_be_bytes()].concat();
        request.extend(crc32c(&body).to_be_bytes());
        assert_eq!(request.len(), REQUEST_HEAD_BYTES);
        request.extend(body);
        request
    }
}

/// All frames, to the last, after what has come already.
pub async fn answer(stream: TcpStream, come: Vec<Vec<u8>>, start: u64) -> Answer {
    all_of_an_answer(stream, come, start).await.0
}

async fn all_of_an_answer(mut stream: TcpStream, mut come: Vec<Vec<u8>>, start: u64) -> (Answer, Vec<u16>) {
    let (members, mut corrupt) = (come.len(), Vec::new());
    loop {
        let (kind, payload) = frame(&mut stream).await;
        let number = |range: Range<usize>| payload[range].iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        match kind {
            1 => {
                let (offset, each) = (number(0..8), number(8..12) as usize);
                assert!(each * members <= DATA_BYTES);
                assert_eq!((offset, payload.len()), (start + come[0].len() as u64, 12 + each * members));
                come.iter_mut().zip(payload[12..].chunks(each)).for_each(|(to, bytes)| to.extend(bytes));
            }
            2 => {
                assert_eq!(number(0..8), come[0].len() as u64);
                return (Answer::Bytes(come), corrupt);
            }
            3 => {
                let sentence = String::from_utf8(payload[4..].to_vec()).unwrap();
                return (Answer::Refused(number(0..2) as u16, sentence, come[0].len()), corrupt);
            }
            4 => {
                assert_eq!(payload.len() as u64, 2 + 2 * number(0..2));
                corrupt =
                    payload[2..].chunks(2).map(|member| u16::from_be_bytes([member[0], member[1]])).collect();
            }
            other => panic!("a frame of kind {other}"),
        }
    }
}

pub async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; FRAME_HEAD_BYTES];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[1..4], [0, 0, 1]);
    let number = |range: Range<usize>| u32::from_be_bytes(head[range].try_into().unwrap());
    let mut payload = vec![0; number(4..8) as usize];
    stream.read_exact(&mut payload).await.unwrap();
    assert_eq!(crc32c(&payload), number(8..12));
    (head[0], payload)
}
