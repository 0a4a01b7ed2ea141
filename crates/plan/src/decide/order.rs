//! Which helpers stand on a chain, and in which order: as they are preferred (RP §3.3), or as racks
//! (RP §4.2) or the weights of links (RP §4.3) want it; or on several chains at once (ours).
//!
//! A path planner chooses among all survivors. Where a code is not MDS not every choice decodes: then the equation
//! chooses the helpers, and the path planner only their order.

use super::{Result, World};
use crate::path::{
    Bandwidth, LinkMatrix, MAX_NODES, MultiPath, SEARCH_STEPS, WeightedPath, multi_path, rack_aware_path,
    weighted_path,
};
use crate::{LinkRates, PlanError, RackId, Topology};
use flow::{Helper, PathShare, Proved, RepairRequest, Scheme, Site};
use model::NodeId;

/// The rack of whoever stands in none that is known: a client.
const NO_RACK: RackId = RackId(u32::MAX);

/// Lanes of one repair: each is a thread and a connection at every helper, and by then more add little.
const MAX_LANES: usize = 16;

/// The fastest lane gets so many shares of the slices, another one as many fewer as it is slower.
const SHARES_OF_FASTEST: f64 = 1000.0;

/// What orders depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network<'a> {
    world: &'a World,
    /// The most preferred helpers are taken, as they are scheduled (RP §3.3), and weights only order them (RP §4.3,
    /// remarks).
    scheduled: bool,
}

impl<'a> Network<'a> {
    /// For one repair alone.
    pub fn of(world: &'a World) -> Network<'a> {
        Network { world, scheduled: false }
    }

    /// For one of many repairs, or one alone.
    pub fn scheduled(self, scheduled: bool) -> Network<'a> {
        Network { scheduled, ..self }
    }

    /// What is known of the links and disks, in Mb/s.
    pub fn rates(&self) -> &'a LinkRates {
        &self.world.links
    }

    /// The helpers of `request` as `scheme` wants them: those of its path first.
    ///
    /// `ends` are the requestors, the one of the request first. Several count as one big requestor, whose weight from a
    /// helper is that of all its links to them (RP §4.4, remarks), and whose rack is that of the first.
    pub fn ordered(&self, scheme: Scheme, request: &RepairRequest<'_>, ends: &[Site]) -> Result<Vec<Helper>> {
        if !matches!(scheme, Scheme::RackAware | Scheme::Weighted) {
            return Ok(request.helpers.to_vec());
        }
        let needed = request.needed()?;
        let stands = |helper: &Helper| !ends.contains(&helper.site) && helper.stored_bytes > 0;
        let fixed = sites(&needed, ends);
        let k = fixed.len();
        if k < 2 {
            return Ok(request.helpers.to_vec());
        }
        let choice = self.choice(request, ends, k);
        let path = self.path(scheme, &choice, k, ends)?;
        let free = along(request.helpers, request.requestor, &path);
        let chosen = RepairRequest { helpers: &free, ..request.clone() };
        if chosen.needed().is_ok_and(|used| used.iter().all(|h| !stands(h) || path.contains(&h.site))) {
            return Ok(free);
        }
        let path = self.path(scheme, &fixed, k, ends)?;
        Ok(along(&needed, request.requestor, &path))
    }

    /// Whether the search for the path of `scheme` ends at its limit, so that there may be a better one than it finds.
    pub fn is_cut_off(&self, scheme: Scheme, request: &RepairRequest<'_>, ends: &[Site]) -> bool {
        let Ok(needed) = request.needed() else { return false };
        let k = sites(&needed, ends).len();
        let choice = self.choice(request, ends, k);
        scheme == Scheme::Weighted && self.weighted(&choice, k, ends).is_ok_and(|(_, found)| !found.proven)
    }

    /// Several chains that fill the links to the requestor together, if anything is known that limits them: over any k
    /// helpers each, or, where not any k decode, over those of the one equation.
    ///
    /// # Errors
    /// As [`flow::build`].
    pub fn several(&self, request: &RepairRequest<'_>) -> Result<Option<Proved>> {
        let fixed = sites(&request.needed()?, &[request.requestor]);
        if fixed.len() < 2 {
            return Ok(None);
        }
        let choice = self.choice(request, &[request.requestor], fixed.len());
        for candidates in [&choice, &fixed] {
            let Some(paths) = self.paths_with_shares(candidates, fixed.len(), request.requestor)? else {
                return Ok(None);
            };
            if let Ok(flow) = flow::paths(request, &paths) {
                return Ok(Some(flow));
            }
        }
        Ok(None)
    }

    fn paths_with_shares(
        &self,
        candidates: &[NodeId],
        k: usize,
        requestor: Site,
    ) -> std::result::Result<Option<Vec<PathShare>>, PlanError> {
        let nodes: Vec<NodeId> = candidates.iter().copied().chain([NodeId(requestor.0)]).collect();
        let helpers: Vec<usize> = (0..candidates.len()).collect();
        let found = multi_path(&self.bandwidth(&nodes)?, &helpers, k, candidates.len(), MAX_LANES);
        let MultiPath { lanes, .. } = match found {
            Ok(found) => found,
            // Nothing limits it, or there is no way: one chain says so itself.
            Err(PlanError::NoLimit | PlanError::NoPath { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let fastest = lanes.iter().map(|lane| lane.rate).fold(0.0, f64::max);
        let shared = lanes.iter().map(|lane| {
            let helpers = lane.path.iter().filter_map(|&place| candidates.get(place));
            let share = (lane.rate / fastest * SHARES_OF_FASTEST).round() as u32;
            (helpers.map(|node| Site(node.0)).collect(), share)
        });
        Ok(Some(shared.filter(|(_, share)| *share > 0).collect()))
    }

    /// What the sides of these nodes carry, and the links between them where one is slower than its ends. Each helper of a chain
    /// reads what it sends, so a disk limits it as an uplink does.
    fn bandwidth(&self, nodes: &[NodeId]) -> std::result::Result<Bandwidth, PlanError> {
        let up = nodes.iter().map(|&node| self.rates().supply(node)).collect();
        let down = nodes.iter().map(|&node| self.rates().down(node)).collect();
        let sides = Bandwidth::of_nodes(up, down)?;
        let rate = |from: NodeId, to: NodeId| {
            if from == to { f64::INFINITY } else { self.rates().link(from, to) }
        };
        let slower = |from: NodeId, to: NodeId| {
            from != to && rate(from, to) < self.rates().up(from).min(self.rates().down(to))
        };
        if !nodes.iter().any(|&from| nodes.iter().any(|&to| slower(from, to))) {
            return Ok(sides);
        }
        let rows: Vec<Vec<f64>> =
            nodes.iter().map(|&from| nodes.iter().map(|&to| rate(from, to)).collect()).collect();
        sides.and_links(LinkMatrix::from_rows(&rows)?)
    }

    /// The nodes among which a path is looked for: not those of last resort, if there are `k` others.
    fn choice(&self, request: &RepairRequest<'_>, ends: &[Site], k: usize) -> Vec<NodeId> {
        let mut choice = sites(request.helpers, ends);
        let trusted: Vec<NodeId> =
            choice.iter().copied().filter(|node| !self.world.last_resort.contains(node)).collect();
        if trusted.len() >= k {
            choice = trusted;
        }
        choice.truncate(if self.scheduled { k } else { k.max(MAX_NODES - 1) });
        choice
    }

    fn path(
        &self,
        scheme: Scheme,
        choice: &[NodeId],
        k: usize,
        ends: &[Site],
    ) -> std::result::Result<Vec<Site>, PlanError> {
        let Some(end) = ends.first().map(|end| NodeId(end.0)) else { return Err(PlanError::NoHelpers) };
        let mut path = match scheme {
            Scheme::RackAware => {
                let mut topology = Topology::clone(&self.world.topology);
                for &node in choice.iter().chain([&end]) {
                    if topology.rack_of(node).is_err() {
                        topology.insert(node, NO_RACK);
                    }
                }
                rack_aware_path(&topology, choice, k, end)?.path
            }
            Scheme::Weighted => {
                let (nodes, found) = self.weighted(choice, k, ends)?;
                found.path.into_iter().map(|place| nodes[place]).collect()
            }
            _ => choice.iter().copied().take(k).chain([end]).collect(),
        };
        path.pop();
        Ok(path.into_iter().map(|node| Site(node.0)).collect())
    }
}

impl Network<'_> {
    /// `choice` and the requestor, and the path of k of them.
    fn weighted(
        &self,
        choice: &[NodeId],
        k: usize,
        ends: &[Site],
    ) -> std::result::Result<(Vec<NodeId>, WeightedPath), PlanError> {
        let end = ends.first().map(|end| NodeId(end.0));
        let nodes: Vec<NodeId> = choice.iter().copied().chain(end).collect();
        let helpers: Vec<usize> = (0..choice.len()).collect();
        let weights = self.weights(&nodes, ends)?;
        let found = weighted_path(&weights, &helpers, k, choice.len(), SEARCH_STEPS)?;
        Ok((nodes, found))
    }

    /// The time that each link, and the disk before it, takes for one slice of each of f blocks, for which a helper reads one; the
    /// last of `nodes` stands for all `ends`.
    fn weights(&self, nodes: &[NodeId], ends: &[Site]) -> std::result::Result<LinkMatrix, PlanError> {
        let f = ends.len() as f64;
        let weight = |from: NodeId, to: NodeId| match nodes.last() {
            _ if from == to => 0.0,
            Some(last) if *last == to => {
                let links = ends.iter().map(|end| self.rates().link(from, NodeId(end.0)).recip());
                links.fold(f / self.rates().up(from), f64::max)
            }
            _ => f / self.rates().link(from, to),
        };
        let disk = |from: NodeId, to: NodeId| if from == to { 0.0 } else { self.rates().disk(from).recip() };
        let weight = |from: NodeId, to: NodeId| weight(from, to).max(disk(from, to));
        let rows: Vec<Vec<f64>> =
            nodes.iter().map(|&from| nodes.iter().map(|&to| weight(from, to)).collect()).collect();
        LinkMatrix::from_rows(&rows)
    }

    /// The rack of a site; all sites that stand in none that is known have one.
    pub(super) fn rack_of(&self, site: Site) -> RackId {
        self.world.topology.rack_of(NodeId(site.0)).unwrap_or(NO_RACK)
    }
}

/// Where helpers stand that store something and are not among `ends`, each site once.
fn sites(helpers: &[Helper], ends: &[Site]) -> Vec<NodeId> {
    let mut sites = Vec::new();
    for helper in helpers.iter().filter(|h| !ends.contains(&h.site) && h.stored_bytes > 0) {
        let node = NodeId(helper.site.0);
        if !sites.contains(&node) {
            sites.push(node);
        }
    }
    sites
}

/// The helpers, those at the requestor first, as they cost nothing, then those of the path in its order, then the rest.
fn along(helpers: &[Helper], requestor: Site, path: &[Site]) -> Vec<Helper> {
    let mut ordered = helpers.to_vec();
    let place = |helper: &Helper| match path.iter().position(|&site| site == helper.site) {
        _ if helper.site == requestor => 0,
        Some(place) => 1 + place,
        None => 1 + path.len(),
    };
    ordered.sort_by_key(place);
    ordered
}

#[cfg(test)]
impl World {
    /// One of `nodes` nodes from 0, in no racks, with links of `rate` Mb/s.
    pub(super) fn rated(nodes: u32, rate: impl Fn(u32, u32) -> f64) -> World {
        let rows: Vec<Vec<Option<f64>>> =
            (0..nodes).map(|from| (0..nodes).map(|to| Some(rate(from, to))).collect()).collect();
        let nodes: Vec<NodeId> = (0..nodes).map(NodeId).collect();
        let links = LinkRates::new(&nodes, Some(&rows), None, None).unwrap().into();
        World { links, ..World::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draw;
    use codes::Code;
    use flow::{Geometry, Member, Proved, Sink};
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    const BLOCK: u64 = 1 << 20;

    /// Helper m at site m; site 0 is the requestor.
    fn flow_of(code: &str, network: Network<'_>, scheme: Scheme) -> Proved {
        let code = Code::parse(code).unwrap();
        let helpers: Vec<Helper> = (1..code.n() as u16)
            .map(|m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: BLOCK, cost: 1 })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes: BLOCK, alpha: code.alpha() as u16, slice_bytes: 32 << 10 },
            wanted: RepairRequest::whole_blocks(&code, &[Member(0)]),
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink: Sink::Write,
        };
        let ordered = network.ordered(scheme, &request, &[Site(0)]).unwrap();
        flow::build(scheme, &RepairRequest { helpers: &ordered, ..request }).unwrap()
    }

    fn racks(rack_of: &[u32]) -> World {
        let topology: Topology =
            (0..).zip(rack_of).map(|(node, &rack)| (NodeId(node), RackId(rack))).collect();
        World { topology: Arc::new(topology), ..World::default() }
    }

    /// Streams into and out of each rack, and bytes between racks.
    fn crossings(flow: &Proved, rack_of: &[u32]) -> (usize, u64) {
        let cost = flow::predict(flow, |_| BLOCK, None);
        let rack = |site: Site| rack_of[site.0 as usize];
        let (mut into, mut out) = (BTreeMap::<u32, usize>::new(), BTreeMap::<u32, usize>::new());
        for &(from, to) in cost.links.keys().filter(|(from, to)| rack(*from) != rack(*to)) {
            *out.entry(rack(from)).or_default() += 1;
            *into.entry(rack(to)).or_default() += 1;
        }
        (into.into_values().chain(out.into_values()).max().unwrap_or(0), cost.cross_rack_bytes(rack))
    }

    /// RP §4.2: one stream into and one out of each rack, and as few racks as hold k helpers.
    #[test]
    fn the_rack_aware_chain_crosses_racks_least() {
        // The requestor's rack has two helpers; of the others 4, 3, 2 and 2: two racks supply the other four.
        let rack_of = [0, 3, 4, 1, 2, 1, 3, 0, 2, 1, 4, 0, 2, 1];
        let world = racks(&rack_of);
        let network = Network::of(&world);
        let aware = flow_of("rs-6+8", network, Scheme::RackAware);
        assert_eq!(crossings(&aware, &rack_of), (1, BLOCK));
        let unaware = flow_of("rs-6+8", network, Scheme::Pipeline);
        assert!(crossings(&unaware, &rack_of).1 > 4 * BLOCK);
        let wide = flow_of("rs-10+4", network, Scheme::RackAware);
        assert_eq!(crossings(&wide, &rack_of), (1, 3 * BLOCK));
        assert_eq!(wide.sites().len(), 11);
    }

    /// The local group of an LRC decodes with six blocks where twelve others would be needed: its equation chooses, racks
    /// order.
    #[test]
    fn where_an_equation_chooses_the_path_only_orders() {
        let rack_of: Vec<u32> = (0..16).map(|node| node % 3).collect();
        let plain = flow_of("lrc-12+2+2", Network::of(&World::default()), Scheme::Pipeline);
        let aware = flow_of("lrc-12+2+2", Network::of(&racks(&rack_of)), Scheme::RackAware);
        assert_eq!(aware.sites(), plain.sites());
        assert_eq!(crossings(&aware, &rack_of), (1, 2 * BLOCK));
    }

    /// RP §4.3: of all survivors those on the path whose slowest link is fastest; scheduled helpers are only ordered.
    #[test]
    fn the_weighted_chain_goes_around_slow_links() {
        // Helper 1 sends slowly, helper 2 receives slowly, and into the requestor only 3 and 5 are fast.
        let rate = |from: u32, to: u32| match (from, to) {
            (1, _) => 5.0,
            (_, 2) => 10.0,
            (from, 0) if from != 3 && from != 5 => 20.0,
            _ => 100.0,
        };
        let world = World::rated(7, rate);
        let network = Network::of(&world);
        let slowest = |flow: &Proved| {
            let cost = flow::predict(flow, |_| BLOCK, None);
            cost.links.keys().map(|&(from, to)| rate(from.0, to.0)).fold(f64::INFINITY, f64::min)
        };
        let free = flow_of("rs-4+3", network, Scheme::Weighted);
        assert_eq!(slowest(&free), 100.0);
        assert!(!free.sites().contains(&Site(1)));
        assert_eq!(slowest(&flow_of("rs-4+3", network, Scheme::Pipeline)), 5.0);
        // Helpers 1 to 4 are scheduled: helper 1 sends whatever the order.
        let network = network.scheduled(true);
        let scheduled = flow_of("rs-4+3", network, Scheme::Weighted);
        assert_eq!(scheduled.sites().into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4].map(Site));
        assert_eq!(slowest(&scheduled), 5.0);
    }

    /// A disk that reads slowly holds up a chain as an uplink does: such a helper is passed over, and carries little of several.
    #[test]
    fn chains_go_around_slow_disks() {
        let (nodes, links): (Vec<NodeId>, _) = ((0..7).map(NodeId).collect(), [Some(100.0); 7]);
        let disks = [None, Some(5.0), None, Some(400.0), None, None, None];
        let rates = LinkRates::new(&nodes, None, Some(&links), Some(&links)).unwrap();
        let rates = rates.with_disks(&nodes, &disks).unwrap();
        let world = World { links: Arc::new(rates), ..World::default() };
        let network = Network::of(&world);
        let [free, plain] =
            [Scheme::Weighted, Scheme::Pipeline].map(|scheme| flow_of("rs-4+3", network, scheme));
        assert!(!free.sites().contains(&Site(1)));
        let time = |flow: &Proved| network.price(flow, |_| BLOCK, None).time.unwrap();
        let block = BLOCK as f64 / 125_000.0;
        // The disk of helper 3 is rated, and faster than links.
        assert_eq!(time(&free).disks, block / 400.0);
        assert!((1.0..1.2).contains(&(time(&free).links * 100.0 / block)), "{:?}", time(&free));
        assert_eq!(time(&plain).whole(), block / 5.0);
    }

    /// Where one helper sends slowly and another receives slowly, several chains carry more than the best one.
    #[test]
    fn several_chains_fill_what_one_leaves_idle() {
        let up = [100.0, 100.0, 40.0, 100.0, 100.0, 60.0, 100.0].map(Some);
        let down = [100.0, 30.0, 100.0, 100.0, 50.0, 100.0, 100.0].map(Some);
        let nodes: Vec<NodeId> = (0..7).map(NodeId).collect();
        let rates = LinkRates::new(&nodes, None, Some(&up), Some(&down)).unwrap();
        let world = World { links: Arc::new(rates), ..World::default() };
        let network = Network::of(&world);
        let code = Code::parse("rs-4+3").unwrap();
        let helpers: Vec<Helper> = (1..7)
            .map(|m| Helper {
                member: Member(m),
                site: Site(u32::from(m)),
                stored_bytes: 64 * BLOCK,
                cost: 1,
            })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes: 64 * BLOCK, alpha: 1, slice_bytes: 32 << 10 },
            wanted: RepairRequest::whole_blocks(&code, &[Member(0)]),
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink: Sink::Write,
        };
        let flow = network.several(&request).unwrap().unwrap();
        assert!(flow.lanes.len() > 1);
        let stored = |_| 64 * BLOCK;
        let seconds = |flow: &Proved| network.price(flow, stored, None).seconds().unwrap();
        let ordered = network.ordered(Scheme::Weighted, &request, &[Site(0)]).unwrap();
        let one =
            flow::build(Scheme::Weighted, &RepairRequest { helpers: &ordered, ..request.clone() }).unwrap();
        let bound = 64.0 * BLOCK as f64 / (100.0 * 125_000.0);
        assert!(seconds(&flow) < 0.85 * seconds(&one), "{} against {}", seconds(&flow), seconds(&one));
        assert!(seconds(&flow) < 1.06 * bound, "{} against {bound}", seconds(&flow));
        // Where nothing limits, one chain is as good.
        assert!(Network::of(&World::default()).several(&request).unwrap().is_none());
    }

    /// Of wide stripes over links that all differ a few searches get to their limit (`cargo bench -p plan --bench paths`).
    #[test]
    fn a_search_that_is_cut_off_is_told() {
        let code = Code::parse("rs-32+8").unwrap();
        let helpers: Vec<Helper> = (1..40)
            .map(|m| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: BLOCK, cost: 1 })
            .collect();
        let request = RepairRequest {
            code: &code,
            geometry: Geometry { block_bytes: BLOCK, alpha: 1, slice_bytes: 32 << 10 },
            wanted: RepairRequest::whole_blocks(&code, &[Member(0)]),
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink: Sink::Write,
        };
        let is_cut_off = |seed: u64| {
            let mut draw = Draw::seeded(seed);
            let rates: Vec<f64> = (0..40 * 40).map(|_| 1.0 + draw.below(1_000) as f64).collect();
            let world = World::rated(40, |from, to| rates[(from * 40 + to) as usize]);
            let network = Network::of(&world);
            assert!(!network.is_cut_off(Scheme::Pipeline, &request, &[Site(0)]));
            network.is_cut_off(Scheme::Weighted, &request, &[Site(0)])
        };
        assert_eq!((450..455).filter(|&seed| is_cut_off(seed)).collect::<Vec<u64>>(), [452]);
    }

    #[test]
    fn those_of_last_resort_help_only_in_need() {
        let rack_of = [0, 0, 0, 0, 1, 1, 1];
        let mut world = racks(&rack_of);
        world.last_resort = Arc::new(BTreeSet::from([NodeId(1)]));
        assert!(!flow_of("rs-4+3", Network::of(&world), Scheme::RackAware).sites().contains(&Site(1)));
        world.last_resort = Arc::new(BTreeSet::from([NodeId(1), NodeId(4), NodeId(5)]));
        assert!(flow_of("rs-4+3", Network::of(&world), Scheme::RackAware).sites().contains(&Site(1)));
    }
}
