//! Plans of every builder over several codes, and stripes to run them on.

use std::collections::BTreeMap;

use codes::Code;
use flow::{
    EncodeRequest, EncodeScheme, Flow, Geometry, Helper, Member, MultiBlockRequest, Output, Proved,
    RepairRequest, Scheme, Sink, Site, Symbol, build, copy, encode, interpret, multi_block, stored_bytes,
    write,
};

/// Numbers without a pattern, the same in every run (xorshift64, Marsaglia 2003).
pub struct Noise(pub u64);

impl Noise {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

pub struct Plan {
    pub label: String,
    pub code: Code,
    pub absent: Vec<Member>,
    pub flow: Proved,
}

pub fn code(name: &str) -> Code {
    Code::parse(name).unwrap()
}

pub fn geometry(code: &Code, block_bytes: u64, slice_bytes: u32) -> Geometry {
    Geometry { block_bytes, alpha: code.alpha() as u16, slice_bytes }
}

/// Helper blocks at sites of the same number.
pub fn helpers(members: impl IntoIterator<Item = u16>, stored_bytes: u64) -> Vec<Helper> {
    let helper = |m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes, cost: 1 };
    members.into_iter().map(helper).collect()
}

pub fn request<'a>(
    code: &'a Code,
    geometry: Geometry,
    lost: &[u16],
    helpers: &'a [Helper],
    absent: &'a [Member],
    sink: Sink,
) -> RepairRequest<'a> {
    let lost: Vec<Member> = lost.iter().map(|&m| Member(m)).collect();
    let wanted = RepairRequest::whole_blocks(code, &lost);
    RepairRequest { code, geometry, wanted, helpers, absent, empty: &[], requestor: Site(99), sink }
}

/// One of everything that can be built.
pub fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for name in ["rs-4+2", "rs-10+4", "lrc-4+2+2", "rotated-4+2-r4", "rs16-4+2", "rep-3", "random-a2-4+2-s1"]
    {
        let code = code(name);
        let g = geometry(&code, 1000, 64);
        let n = code.n() as u16;
        let mut add = |what: String, absent: &[Member], flow: Proved| {
            let label = format!("{name}: {what}");
            plans.push(Plan { label, code: code.clone(), absent: absent.to_vec(), flow });
        };
        let most = (code.n() - code.k()).min(2) as u16;
        for scheme in Scheme::all() {
            for lost in 1..=most {
                let all = helpers((lost..n).rev(), 1000);
                let lost: Vec<u16> = (0..lost).collect();
                let repair = request(&code, g, &lost, &all, &[], Sink::Write);
                add(format!("{scheme} of {lost:?}"), &[], build(scheme, &repair).unwrap());
            }
            let mut crowded = helpers(1..n, 1000);
            crowded[0].site = Site(99);
            crowded.iter_mut().skip(1).for_each(|helper| helper.site.0 /= 2);
            let repair = request(&code, g, &[0], &crowded, &[], Sink::Read);
            add(format!("{scheme}, crowded"), &[], build(scheme, &repair).unwrap());
            if code.k() > 2 {
                // Of the data only blocks 0, 1 and 2 exist.
                let k = code.k() as u16;
                let absent: Vec<Member> = (3..k).map(Member).collect();
                let rest = helpers([k + 1, k, 1, 0], 1000);
                let repair = request(&code, g, &[2], &rest, &absent, Sink::Read);
                add(format!("{scheme}, short stripe"), &absent, build(scheme, &repair).unwrap());
                let one = RepairRequest { wanted: repair.wanted[..1].to_vec(), ..repair };
                add(format!("{scheme}, one symbol"), &absent, build(scheme, &one).unwrap());
            }
        }
        for scheme in Scheme::all().filter(|&scheme| multi_block::repairs_several(scheme) && most > 1) {
            let all = helpers(2..n, 1000);
            // Two requestors, one for both, and one that is a helper too.
            for sites in [[98, 99], [99, 99], [98, 3]] {
                let targets = [(Member(0), Site(sites[0])), (Member(1), Site(sites[1]))];
                let request = MultiBlockRequest {
                    code: &code,
                    geometry: g,
                    targets: &targets,
                    helpers: &all,
                    absent: &[],
                    empty: &[],
                };
                let flow = multi_block::build(scheme, &request).unwrap();
                add(format!("{scheme} of two blocks at {sites:?}"), &[], flow);
            }
        }
        for (what, absent, flow) in encodings(&code, g) {
            add(what, &absent, flow);
        }
        let symbols = RepairRequest::whole_blocks(&code, &[Member(1)]);
        for (sink, to) in [(Sink::Write, 7), (Sink::Read, 7), (Sink::Read, 1)] {
            let copied = copy::copy(&code, g, &symbols, Site(1), Site(to), sink).unwrap();
            add(format!("copy to {to}"), &[], copied);
        }
        if code.k() == 1 {
            let replicas: Vec<(Member, Site)> = (0..n).map(|m| (Member(m), Site(u32::from(m)))).collect();
            add("write".to_owned(), &[], write::chain(&code, g, Site(99), &replicas).unwrap());
        }
    }
    plans
}

/// Encodings by every scheme: at the client, at a target, and elsewhere; of data blocks that share sites with each other and
/// with parities; and of a short stripe.
fn encodings(code: &Code, geometry: Geometry) -> Vec<(String, Vec<Member>, Proved)> {
    let (k, n) = (code.k() as u16, code.n() as u16);
    let apart = helpers(0..k, 1000);
    let mut crowded = apart.clone();
    crowded.iter_mut().for_each(|helper| helper.site.0 /= 2);
    let targets: Vec<(Member, Site)> = (k..n).map(|m| (Member(m), Site(u32::from(m).max(5)))).collect();
    // One site writes two parities, another one has data, too.
    let mixed: Vec<(Member, Site)> = (k..n).map(|m| (Member(m), Site(if m == k { 0 } else { 50 }))).collect();
    let absent: Vec<Member> = (k.div_ceil(2)..k).map(Member).collect();
    let there = k as usize - absent.len();
    let made = |targets: &[(Member, Site)]| -> Vec<(Member, Site)> {
        let is_there = |data: usize| data < there;
        targets.iter().copied().filter(|(member, _)| is_made(code, *member, is_there)).collect()
    };
    let none: &[Member] = &[];
    let shapes = [
        ("apart", &apart[..], &targets, none),
        ("crowded", &crowded[..], &targets, none),
        ("mixed", &apart[..], &mixed, none),
        ("crowded and mixed", &crowded[..], &mixed, none),
        ("short", &apart[..there], &made(&targets), &absent[..]),
        ("short and mixed", &crowded[..there], &made(&mixed), &absent[..]),
    ];
    let mut flows = Vec::new();
    for scheme in EncodeScheme::of(code) {
        for (shape, data, targets, absent) in shapes {
            // Only a star stands anywhere else for another archiver.
            let archivers = [Site(99), Site(0), targets[0].1];
            let count = if scheme == EncodeScheme::Star { archivers.len() } else { 1 };
            for &archiver in &archivers[..count] {
                let request = EncodeRequest { code, geometry, data, absent, empty: &[], archiver, targets };
                let flow = encode::build(scheme, &request).unwrap();
                flows.push((format!("encoding at {archiver} by {scheme}, {shape}"), absent.to_vec(), flow));
            }
        }
    }
    flows
}

/// Whether a member is made of any of the data blocks that are there.
pub fn is_made(code: &Code, member: Member, is_there: impl Fn(usize) -> bool) -> bool {
    let (generator, alpha) = (code.generator(), code.alpha());
    let mut rows = usize::from(member.0) * alpha..usize::from(member.0 + 1) * alpha;
    let takes = |row: usize| {
        let mut columns = 0..generator.cols();
        columns.any(|column| is_there(column / alpha) && generator.get(row, column) != 0)
    };
    rows.any(takes)
}

/// A stripe whose data blocks are stored in the given lengths.
pub struct Stripe {
    pub symbols: BTreeMap<Symbol, Vec<u8>>,
    /// Every block as it is stored.
    pub blocks: Vec<Vec<u8>>,
}

impl Stripe {
    pub fn new(code: &Code, geometry: Geometry, data_bytes: &[u64]) -> Self {
        let (alpha, bytes) = (geometry.alpha, geometry.symbol_bytes() as usize);
        let mut data: Vec<Vec<u8>> = Vec::new();
        for (member, &stored) in data_bytes.iter().enumerate() {
            for index in 0..alpha {
                let extent = geometry.symbol_extent(index, stored) as usize;
                let noise =
                    |i: usize| ((i * 7919 + member * 104_729 + usize::from(index) * 31) >> 3) as u8 | 1;
                data.push((0..extent).map(noise).collect());
            }
        }
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let row = |row: usize| interpret::combine(code.field(), code.generator().row(row), &data, bytes);
        let length = |member: Member| data_bytes[usize::from(member.0)];
        let (mut symbols, mut blocks) = (BTreeMap::new(), Vec::new());
        for member in (0..code.n() as u16).map(Member) {
            let all = (0..alpha).map(|index| Symbol { member, index });
            symbols.extend(all.clone().map(|s| (s, row(usize::from(s.member.0 * alpha + s.index)))));
            let mut block: Vec<u8> = all.flat_map(|symbol| symbols[&symbol].clone()).collect();
            block.truncate(stored_bytes(code, geometry, member, length).unwrap() as usize);
            blocks.push(block);
        }
        Stripe { symbols, blocks }
    }

    pub fn stored(&self, member: Member) -> u64 {
        self.blocks[usize::from(member.0)].len() as u64
    }

    pub fn block(&self, member: Member) -> Option<&[u8]> {
        self.blocks.get(usize::from(member.0)).map(Vec::as_slice)
    }

    /// Runs every lane over everything, and all together over their shares, and compares what comes out with the stripe.
    pub fn check(&self, flow: &Flow) {
        for lane in &flow.lanes {
            let all = 0..flow.geometry.symbol_bytes();
            for (symbol, bytes) in interpret::lane(flow, lane, all, |m| self.block(m)).unwrap().ends {
                assert!(bytes == self.symbols[&symbol], "{symbol}");
            }
        }
        let outcome = interpret::run(flow, 0..flow.geometry.slices(), |m| self.block(m)).unwrap();
        for (symbol, bytes) in &outcome.symbols {
            assert!(*bytes == self.symbols[symbol], "{symbol}, of all lanes");
        }
        for output in flow.lanes.iter().flat_map(|lane| &lane.stages).flat_map(|stage| &stage.outputs) {
            if let Output::Write { member } = *output {
                let block = outcome.block(member, self.stored(member)).unwrap();
                assert!(block == self.blocks[usize::from(member.0)], "{member}");
            }
        }
    }
}
