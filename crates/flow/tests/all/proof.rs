//! The proof refuses every plan that is not exactly right: each coefficient and each edge of each plan is spoilt in turn.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use crate::plans::{Plan, plans};
use flow::{Edge, EdgeId, Flow, FlowError, Input, Lane, Output, StageId, prove};

fn refused(plan: &Plan, mutant: Flow, what: &str) -> FlowError {
    match prove(mutant, &plan.code, &plan.absent) {
        Err(error) => error,
        Ok(_) => panic!("{}: {what} was not noticed", plan.label),
    }
}

#[test]
fn every_changed_coefficient_is_refused() {
    let mut mutants = 0;
    for plan in plans() {
        let flow: &Flow = &plan.flow;
        for (s, stage) in flow.lanes[0].stages.iter().enumerate() {
            for row in 0..stage.matrix.rows() {
                for column in 0..stage.matrix.cols() {
                    let old = stage.matrix.get(row, column);
                    for new in [0, 1, old ^ 1, old ^ 0x80, flow.field.mul(old, 3)] {
                        if new == old {
                            continue;
                        }
                        let mut mutant = flow.clone();
                        mutant.lanes[0].stages[s].matrix.set(row, column, new);
                        let what = format!("stage {s} ({row},{column}) {old} → {new}");
                        let error = refused(&plan, mutant, &what);
                        assert!(
                            matches!(error, FlowError::WrongOutput { .. } | FlowError::IdleRow { .. }),
                            "{error}"
                        );
                        mutants += 1;
                    }
                }
            }
        }
    }
    assert!(mutants > 4_000, "{mutants} mutants only");
}

#[test]
fn every_redirected_edge_is_refused() {
    for plan in plans() {
        let stages = plan.flow.lanes[0].stages.len() as u16;
        for (e, edge) in plan.flow.lanes[0].edges.iter().enumerate() {
            let ends = (0..=stages).flat_map(|s| {
                let other = StageId(s);
                [Edge { from: other, ..*edge }, Edge { to: other, ..*edge }]
            });
            let widths = [0, edge.rows - 1, edge.rows + 1].map(|rows| Edge { rows, ..*edge });
            for changed in ends.chain(widths).filter(|changed| changed != edge) {
                let mut mutant = Flow::clone(&plan.flow);
                mutant.lanes[0].edges[e] = changed;
                refused(&plan, mutant, &format!("edge {e} as {changed:?}"));
            }
            for to in (0..stages).filter(|&s| s != edge.to.0) {
                let mut mutant = Flow::clone(&plan.flow);
                deliver_to(&mut mutant.lanes[0], EdgeId(e as u16), StageId(to));
                refused(&plan, mutant, &format!("edge {e} taken by stage {to}"));
            }
        }
    }
}

/// Moves the receiving end wholly, so that both the edge and the stages agree on it.
fn deliver_to(lane: &mut Lane, edge: EdgeId, to: StageId) {
    let old = usize::from(lane.edges[usize::from(edge.0)].to.0);
    lane.stages[old].inputs.retain(|input| *input != Input::Edge(edge));
    lane.stages[usize::from(to.0)].inputs.push(Input::Edge(edge));
    lane.edges[usize::from(edge.0)].to = to;
}

#[test]
fn every_dropped_edge_is_refused() {
    for plan in plans() {
        for (e, edge) in plan.flow.lanes[0].edges.iter().enumerate() {
            let id = EdgeId(e as u16);
            let mut unlisted = Flow::clone(&plan.flow);
            unlisted.lanes[0].edges.remove(e);
            refused(&plan, unlisted, &format!("edge {e} unlisted"));
            let mut untaken = Flow::clone(&plan.flow);
            untaken.lanes[0].stages[usize::from(edge.to.0)].inputs.retain(|i| *i != Input::Edge(id));
            refused(&plan, untaken, &format!("edge {e} not taken"));
            let mut unmade = Flow::clone(&plan.flow);
            unmade.lanes[0].stages[usize::from(edge.from.0)].outputs.retain(|o| *o != Output::Edge(id));
            refused(&plan, unmade, &format!("edge {e} not made"));
        }
    }
}

#[test]
fn every_swap_of_two_edges_is_refused() {
    for plan in plans() {
        let lane = &plan.flow.lanes[0];
        for a in 0..lane.edges.len() {
            for b in 0..a {
                let (first, second) = (EdgeId(a as u16), EdgeId(b as u16));
                let mut inputs = Flow::clone(&plan.flow);
                for input in inputs.lanes[0].stages.iter_mut().flat_map(|stage| &mut stage.inputs) {
                    match input {
                        Input::Edge(id) if *id == first => *id = second,
                        Input::Edge(id) if *id == second => *id = first,
                        _ => {}
                    }
                }
                // Where two inputs count alike, exchanging them changes nothing.
                if !alike(lane, a, b) {
                    refused(&plan, inputs, &format!("edges {a} and {b} taken for each other"));
                }
                let mut outputs = Flow::clone(&plan.flow);
                for output in outputs.lanes[0].stages.iter_mut().flat_map(|stage| &mut stage.outputs) {
                    match output {
                        Output::Edge(id) if *id == first => *id = second,
                        Output::Edge(id) if *id == second => *id = first,
                        _ => {}
                    }
                }
                // In replication all outputs are the same.
                if lane.edges[a].from != lane.edges[b].from || plan.code.k() > 1 {
                    refused(&plan, outputs, &format!("edges {a} and {b} made for each other"));
                }
            }
        }
    }
}

/// Whether one stage takes both edges with the same coefficients.
fn alike(lane: &Lane, a: usize, b: usize) -> bool {
    let (to, rows) = (lane.edges[a].to, lane.edges[a].rows);
    if lane.edges[b].to != to || lane.edges[b].rows != rows {
        return false;
    }
    let stage = &lane.stages[usize::from(to.0)];
    let start = |edge: usize| {
        let before = stage.inputs.iter().take_while(|i| **i != Input::Edge(EdgeId(edge as u16)));
        before.map(|input| input.rows(lane, 1)).sum::<usize>()
    };
    (0..usize::from(rows)).all(|row| {
        let column = |edge| (0..stage.matrix.rows()).map(move |r| stage.matrix.get(r, start(edge) + row));
        column(a).eq(column(b))
    })
}

#[test]
fn blocks_that_matter_cannot_be_declared_absent() {
    let plan = plans().into_iter().find(|plan| plan.label.contains("short stripe")).unwrap();
    assert!(matches!(prove(Flow::clone(&plan.flow), &plan.code, &[]), Err(FlowError::WrongOutput { .. }),));
    let parity = flow::Member(plan.code.n() as u16 - 1);
    assert_eq!(
        prove(Flow::clone(&plan.flow), &plan.code, &[parity]),
        Err(FlowError::NotAllZero { member: parity })
    );
}

#[test]
fn other_geometries_and_edges_within_a_site_are_refused() {
    for plan in plans() {
        let mut other_alpha = Flow::clone(&plan.flow);
        other_alpha.geometry.alpha += 1;
        refused(&plan, other_alpha, "another α");
        for edge in &plan.flow.lanes[0].edges {
            let mut at_home = Flow::clone(&plan.flow);
            let stages = &mut at_home.lanes[0].stages;
            stages[usize::from(edge.to.0)].site = stages[usize::from(edge.from.0)].site;
            assert!(matches!(refused(&plan, at_home, "an edge within a site"), FlowError::SelfEdge { .. }));
        }
    }
}
