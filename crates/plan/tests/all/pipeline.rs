//! Who stands where in the pipeline of a RapidRAID code, beside every assignment tried.

#![allow(clippy::unwrap_used)] // a test may

use codes::Code;
use model::NodeId;
use plan::{Draw, Host, PipelineRequest, PlanError, RackId, Topology, fetched, pipeline};
use std::collections::{BTreeMap, BTreeSet};

fn code(name: &str) -> Code {
    Code::parse(name).unwrap()
}

/// So many nodes on hosts of one or two, whole hosts in each rack.
fn cluster(nodes: u32, racks: usize, draw: &mut Draw) -> (Topology, Vec<NodeId>) {
    let (mut topology, mut host) = (Topology::default(), (0, RackId(draw.below(racks) as u32)));
    for node in 0..nodes {
        if draw.below(3) > 0 {
            host = (node, RackId(draw.below(racks) as u32));
        }
        topology.insert_on(NodeId(node), host.1, Host::Shared(host.0));
    }
    let alive = topology.nodes().collect();
    (topology, alive)
}

/// What each position needs, told by the paper's drawing and not by the program.
fn needs(code: &Code, blocks: usize, position: usize) -> Vec<usize> {
    let (k, m) = (code.k(), code.stored() - code.k());
    (0..blocks.min(k)).filter(|&block| block == position || block + m == position).collect()
}

/// Nodes that may stand in the pipeline.
struct Ground<'a> {
    topology: &'a Topology,
    nodes: Vec<NodeId>,
    limit: usize,
}

/// The fewest blocks that are fetched, by trying every node for each position; `None` if no assignment keeps the limit.
fn fewest(
    ground: &Ground<'_>,
    code: &Code,
    replicas: &[Vec<NodeId>],
    used: &mut Vec<NodeId>,
) -> Option<usize> {
    let position = used.len();
    if position == code.stored() {
        return Some(0);
    }
    let mut best: Option<usize> = None;
    for &node in &ground.nodes {
        let rack = |node| ground.topology.rack_of(node).unwrap();
        let is_free =
            used.iter().all(|&other| ground.topology.host_of(other) != ground.topology.host_of(node));
        if !is_free || used.iter().filter(|&&other| rack(other) == rack(node)).count() >= ground.limit {
            continue;
        }
        let needed = needs(code, replicas.len(), position);
        let lacks = needed.iter().filter(|&&block| !replicas[block].contains(&node)).count();
        used.push(node);
        let rest = fewest(ground, code, replicas, used);
        used.pop();
        best = rest.map(|rest| lacks + rest).into_iter().chain(best).min();
    }
    best
}

fn in_racks(topology: &Topology, nodes: &[NodeId]) -> BTreeMap<RackId, usize> {
    let mut racks = BTreeMap::new();
    nodes.iter().for_each(|&node| *racks.entry(topology.rack_of(node).unwrap()).or_default() += 1);
    racks
}

#[test]
fn no_other_layout_fetches_fewer_blocks() {
    let codes = ["rapidraid-2+1", "rapidraid-2+2", "rapidraid-3+1", "rapidraid-3+2"].map(code);
    let mut draw = Draw::seeded(1);
    let (mut some, mut none, mut wider, mut refused, mut short) = (0, 0, 0, 0, 0);
    for _ in 0..3_000 {
        let code = &codes[draw.below(codes.len())];
        let (topology, alive) = cluster(4 + draw.below(4) as u32, 1 + draw.below(3), &mut draw);
        let full: BTreeSet<NodeId> = alive.iter().copied().filter(|_| draw.below(8) == 0).collect();
        let blocks = 1 + draw.below(code.k());
        // Replicas of several blocks on a node, and two on the nodes of a host, now and then.
        let replicas: Vec<Vec<NodeId>> = (0..blocks)
            .map(|_| (0..1 + draw.below(3)).map(|_| *draw.pick(&alive).unwrap()).collect())
            .collect();
        let capacity = 1 + draw.below(2);
        let request = PipelineRequest {
            code,
            topology: &topology,
            alive: &alive,
            full: &full,
            replicas: &replicas,
            rack_capacity: capacity,
        };
        let nodes: Vec<NodeId> = alive.iter().copied().filter(|node| !full.contains(node)).collect();
        let hosts = topology.hosts(nodes.iter().copied()).len();
        let tried = (capacity..=code.stored()).find_map(|limit| {
            let ground = Ground { topology: &topology, nodes: nodes.clone(), limit };
            Some((limit, fewest(&ground, code, &replicas, &mut Vec::new())?))
        });
        let found = pipeline(&request, &mut draw);
        let Some((limit, least)) = tried else {
            let needed = code.stored();
            assert!(hosts < needed);
            let code = code.name().to_owned();
            assert_eq!(found, Err(PlanError::NotEnoughNodes { code, needed, alive: hosts }));
            refused += 1;
            continue;
        };
        let found = found.unwrap();
        assert_eq!(topology.hosts(found.iter().copied()).len(), code.stored(), "a host for each");
        assert!(found.iter().all(|node| nodes.contains(node)), "where there is room");
        assert!(in_racks(&topology, &found).values().all(|&nodes| nodes <= limit));
        assert_eq!(fetched(code, &replicas, &found), least, "{code} {replicas:?} {topology:?}");
        some += usize::from(least > 0);
        none += usize::from(least == 0);
        wider += usize::from(limit > capacity);
        short += usize::from(blocks < code.k());
    }
    let counts = [some, none, wider, refused, short];
    assert!(counts.iter().all(|&count| count > 100), "the cases were too easy: {counts:?}");
}

/// Replicas as RapidRAID wants them: block i on nodes i and i+m of these.
fn overlapped(code: &Code, nodes: &[NodeId]) -> Vec<Vec<NodeId>> {
    let lag = code.stored() - code.k();
    (0..code.k()).map(|block| vec![nodes[block], nodes[block + lag]]).collect()
}

#[test]
fn replicas_in_the_papers_order_fetch_nothing_and_stay_in_that_order() {
    for name in ["rapidraid-11+5", "rapidraid-4+2", "rapidraid-4+4", "rapidraid16-11+5"] {
        let code = code(name);
        let mut draw = Draw::seeded(2);
        for extra in 0..20 {
            let topology: Topology =
                (0..(code.stored() + extra) as u32).map(|node| (NodeId(node), RackId(node))).collect();
            let mut nodes: Vec<NodeId> = topology.nodes().collect();
            draw.shuffle(&mut nodes);
            let replicas = overlapped(&code, &nodes);
            let request = PipelineRequest {
                code: &code,
                topology: &topology,
                alive: &nodes,
                full: &BTreeSet::new(),
                replicas: &replicas,
                rack_capacity: 1,
            };
            let found = pipeline(&request, &mut draw).unwrap();
            assert_eq!(fetched(&code, &replicas, &found), 0);
            // Where a position has two blocks there is no choice but its node.
            if code.stored() < 2 * code.k() {
                assert_eq!(
                    found[code.stored() - code.k()..code.k()],
                    nodes[code.stored() - code.k()..code.k()]
                );
            }
        }
    }
}

#[test]
fn a_third_replica_saves_a_fetch_when_a_node_of_the_pipeline_is_gone() {
    let code = code("rapidraid-4+2");
    let topology: Topology = (0..8).map(|node| (NodeId(node), RackId(node))).collect();
    let mut replicas = overlapped(&code, &topology.nodes().collect::<Vec<_>>());
    // Node 3 has blocks 3 and 1, and node 7 has neither, or both.
    let alive: Vec<NodeId> = topology.nodes().filter(|&node| node != NodeId(3)).collect();
    let layout = |replicas: &[Vec<NodeId>]| {
        let request = PipelineRequest {
            code: &code,
            topology: &topology,
            alive: &alive,
            full: &BTreeSet::new(),
            replicas,
            rack_capacity: 1,
        };
        let nodes = pipeline(&request, &mut Draw::seeded(5)).unwrap();
        (fetched(&code, replicas, &nodes), nodes)
    };
    assert_eq!(layout(&replicas).0, 2);
    [1, 3].into_iter().for_each(|block: usize| replicas[block].push(NodeId(7)));
    let (fetches, nodes) = layout(&replicas);
    assert_eq!((fetches, nodes[3]), (0, NodeId(7)));
}

#[test]
fn ties_fall_on_all_nodes_alike() {
    let code = code("rapidraid-2+1");
    let topology: Topology = (0..12).map(|node| (NodeId(node), RackId(node % 4))).collect();
    let alive: Vec<NodeId> = topology.nodes().collect();
    let replicas = [vec![NodeId(0), NodeId(1)], vec![NodeId(1), NodeId(2)]];
    let request = PipelineRequest {
        code: &code,
        topology: &topology,
        alive: &alive,
        full: &BTreeSet::new(),
        replicas: &replicas[..1],
        rack_capacity: 1,
    };
    let (mut last, mut draw, mut swapped) = (BTreeMap::<NodeId, usize>::new(), Draw::seeded(3), 0);
    for _ in 0..4_000 {
        let nodes = pipeline(&request, &mut draw).unwrap();
        swapped += usize::from(nodes[0] == NodeId(1));
        assert_eq!(fetched(&code, &replicas[..1], &nodes), 0);
        *last.entry(nodes[2]).or_default() += 1;
    }
    // The last position needs nothing of this short stripe: the six nodes of two racks are left, 667 times each.
    assert!(last.len() == 6 && last.values().all(|times| (500..850).contains(times)), "{last:?}");
    assert!((1_700..2_300).contains(&swapped), "either of the two nodes may be first: {swapped}");
}

#[test]
fn what_makes_a_pipeline_impossible_is_named() {
    let code = code("rapidraid-2+1");
    let (topology, alive) = (
        (0..4).map(|node| (NodeId(node), RackId(0))).collect::<Topology>(),
        [NodeId(0), NodeId(1), NodeId(2)],
    );
    let (none, replicas) = (BTreeSet::new(), [vec![NodeId(0)], vec![NodeId(3)]]);
    let request = PipelineRequest {
        code: &code,
        topology: &topology,
        alive: &alive,
        full: &none,
        replicas: &replicas,
        rack_capacity: 1,
    };
    let mut draw = Draw::seeded(4);
    assert_eq!(pipeline(&request, &mut draw), Err(PlanError::NoReplica { block: 1 }));
    let held = PipelineRequest { replicas: &replicas[..1], ..request.clone() };
    assert_eq!(pipeline(&held, &mut draw).unwrap().len(), 3);
    let full = [NodeId(0)].into();
    let crowded = PipelineRequest { full: &full, ..held.clone() };
    assert!(matches!(
        pipeline(&crowded, &mut draw),
        Err(PlanError::NotEnoughNodes { needed: 3, alive: 2, .. })
    ));
    let unknown = PipelineRequest { alive: &[NodeId(0), NodeId(9)], ..held.clone() };
    assert_eq!(pipeline(&unknown, &mut draw), Err(PlanError::UnknownNode { node: NodeId(9) }));
    let systematic = PipelineRequest { code: &Code::parse("rs-2+1").unwrap(), ..held };
    assert_eq!(pipeline(&systematic, &mut draw), Err(PlanError::NoPipeline { code: "rs-2+1".to_owned() }));
}
