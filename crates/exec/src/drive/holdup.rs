//! Whether a flow goes as fast as flows like it, and who holds it up if not: a helper that is slow is no failure, but
//! often one to go around.

use super::{Driver, FromStage};
use crate::control::{Heard, Report};
use crate::stage::REPORTS_PER_WINDOW;
use flow::bound::Binding;
use flow::{Flow, FlowPlan, Site, StageId, StageKey};
use model::{Cause, Fault};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wire::proto;

/// A flow is looked at no more often than this: a scheduler or a disk that is busy for a moment is no slow helper. It is most of what
/// a slow helper costs a block of 64 MiB at 1 Gb/s, which takes 600 ms without.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who takes part in a flow of which something is expected has prepared by then, or in the time that the flow should take:
/// blocks are opened, sockets announced.
pub(super) const PREPARED_WITHIN: Duration = Duration::from_millis(2_000);

/// A node that does nothing for this long stands still, for drivers that can go around one: it has not said that it is prepared, or no
/// slice comes and it does not say what it does. Nodes answer such messages within milliseconds, and a scheduler or a disk that is busy
/// for a moment within a tenth of a second or two. A read that meets a stopped node costs this much more, and one of a node that
/// is only busy costs another one a read.
pub(super) const STANDS_STILL: Duration = Duration::from_millis(500);

/// A flow that needs so many times as long as expected is held up. What lies below it is not worth going around: the next
/// path may share links with other flows too.
const SLOW: f64 = 3.0;

/// Who is asked what he does answers within this time, which includes the time of looking; who does not holds the flow up,
/// unless the others know better.
const PATIENCE: Duration = Duration::from_millis(500);

/// A stage waits for an edge if it was seen so in this part of all looks …
const WAITS: f64 = 0.6;

/// … and does not wait if it was in less than this part.
const GOES_ON: f64 = 0.3;

/// What the driver has seen of a flow, to say whether it is slow.
pub(super) struct Watch {
    /// Expected time of all slices, if known.
    expected: Option<Duration>,
    /// When something was delivered last, and how much there was then; `None` if a flow that stands still is waited for.
    moved: Option<(Instant, u64)>,
    slices: u64,
    /// So many may have been delivered that nobody has reported.
    unreported: u64,
    since: Instant,
    delivered: u64,
}

impl Watch {
    /// Watches a flow that has an expected time, or whose driver goes around nodes that stand still.
    pub fn of(plan: &FlowPlan<Flow>, goes_around: bool) -> Option<Watch> {
        let Binding { header, slices, .. } = &plan.binding;
        let of_a_lane = u64::from(header.lane_window_slices / REPORTS_PER_WINDOW);
        let is_watched = goes_around || plan.expected.is_some();
        is_watched.then(|| Watch {
            expected: plan.expected,
            moved: goes_around.then(|| (Instant::now(), 0)),
            slices: slices.end - slices.start,
            unreported: of_a_lane * plan.flow.lanes.len() as u64,
            since: Instant::now(),
            delivered: 0,
        })
    }

    /// Whether nothing was delivered for so long that somebody may stand still.
    fn stands_still(&mut self, delivered: u64) -> bool {
        let Some((since, before)) = &mut self.moved else { return false };
        let is_still = delivered == *before && since.elapsed() >= STANDS_STILL;
        if is_still || delivered != *before {
            (*since, *before) = (Instant::now(), delivered);
        }
        is_still
    }

    /// Whether so little was delivered since the last time that something was said.
    fn is_slow(&mut self, delivered: u64) -> bool {
        let Some(expected) = self.expected else { return false };
        let passed = self.since.elapsed();
        let share = passed.as_secs_f64() / expected.as_secs_f64() / SLOW;
        let least = (share * self.slices as f64).floor() as u64;
        // Of long slices, or few, nothing can be said as soon.
        if passed < LOOK_EVERY || least <= self.unreported {
            return false;
        }
        let slow = delivered.saturating_sub(self.delivered) + self.unreported < least;
        (self.since, self.delivered) = (Instant::now(), delivered);
        slow
    }
}

impl<P: FnMut(proto::DriveProgress) + Send> Driver<'_, P> {
    /// To be called now and then: a fault if the flow is far slower than it should be and it can be told why.
    pub(super) async fn find_holdup(&mut self) -> Result<(), Fault> {
        let (delivered, wanted) = (self.grants.delivered(), self.grants.wanted());
        let looked =
            self.watch.as_mut().map(|watch| (watch.is_slow(delivered), watch.stands_still(delivered)));
        let (slow, still) = looked.unwrap_or_default();
        // What follows the last slice is the requestor's own work.
        if !(slow || still) || delivered == wanted {
            return Ok(());
        }
        let asked = self.participants.look()?;
        let mut seen: BTreeMap<Site, proto::Doing> = BTreeMap::new();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while seen.len() < asked.len()
            && let Ok(Some(report)) = tokio::time::timeout_at(deadline, self.participants.hear()).await
        {
            match report {
                Report { site, heard: Heard::Message(FromStage::Doing(doing)), .. } => {
                    drop(seen.insert(site, doing));
                }
                report => Box::pin(self.hear(report)).await?,
            }
        }
        let silent = asked.iter().filter(|site| !seen.contains_key(site) && self.runs_at(**site));
        let silent: Vec<Site> = silent.copied().collect();
        let is_called = |link: &Holdup| matches!(link, Holdup::Link(from, _) if !asked.contains(from));
        let holdup = match silent[..] {
            // The flow stands still but is not known to be slow. A node that answers works, or waits for another one. Called nodes are not asked.
            [] if !slow => holdup(self.plan, &seen, self.is_limited).filter(is_called),
            [one] if !slow => Some(Holdup::Node(one)),
            [] => holdup(self.plan, &seen, self.is_limited),
            // An answer may be late for other reasons than the flow.
            [one] => match holdup(self.plan, &seen, self.is_limited) {
                Some(Holdup::Link(from, _)) if from == one => Some(Holdup::Node(one)),
                seen => seen.or(Some(Holdup::Node(one))),
            },
            // Several are silent only if it is this process that is slow.
            _ => None,
        };
        let own_site = self.participants.here.as_ref().map(|here| here.site());
        match holdup {
            // Nobody can go around the driver.
            Some(Holdup::Node(site)) if Some(site) == own_site => Ok(()),
            Some(holdup) => Err(self.slow(holdup)),
            None => Ok(()),
        }
    }

    fn slow(&self, holdup: Holdup) -> Fault {
        let (from, to, who) = match holdup {
            Holdup::Node(site) => {
                let node = self.plan.peer(site);
                (node, node, format!("{node} is slow"))
            }
            Holdup::Link(from, to) => {
                let (from, to) = (self.plan.peer(from), self.plan.peer(to));
                (from, to, format!("little comes to {to} from {from}"))
            }
        };
        let why = match self.plan.expected {
            Some(expected) => {
                format!("the flow takes over {SLOW} times the {:.2} s that are usual", expected.as_secs_f64())
            }
            None => format!("nothing came for {} s", STANDS_STILL.as_secs_f64()),
        };
        let what = format!("{who}: {why}");
        // The end that waits is the one whose word it is.
        Fault { reporter: to, ..Fault::new(Cause::Slow, what) }.suspecting(from, to)
    }
}

/// What holds a flow up, by sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holdup {
    Node(Site),
    Link(Site, Site),
}

/// The edge on which a stage waits for input though its sender waits for none: upstream of it all are backed up or have
/// nothing granted, downstream all wait. `is_limited`: the driver's traffic is throttled too, so senders that wait for theirs do
/// what all were told; else theirs is the only one, and a reason to go around it.
fn holdup(plan: &FlowPlan<Flow>, seen: &BTreeMap<Site, proto::Doing>, is_limited: bool) -> Option<Holdup> {
    let mut stages: BTreeMap<StageKey, Seen> = BTreeMap::new();
    for doing in seen.values() {
        let looks = f64::from(doing.looks.max(1));
        stages.extend(doing.stages.iter().map(|stage| ((stage.lane, stage.stage), Seen { stage, looks })));
    }
    let mut worst: Option<(f64, Holdup)> = None;
    for (lane, index, edge) in plan.all_edges() {
        let at = |stage: StageId| stages.get(&(lane, u32::from(stage.0)));
        let waits = at(edge.to).map_or(0.0, |seen| seen.waits_for(index));
        let sender = at(edge.from);
        let is_excused = |seen: &Seen<'_>| is_limited && seen.throttled() >= GOES_ON;
        // A sender that has ended has sent all.
        let goes_on = sender.is_none_or(|seen| seen.waits() < GOES_ON && !is_excused(seen));
        if waits < WAITS || !goes_on || worst.is_some_and(|(most, _)| most >= waits) {
            continue;
        }
        let Some((from, to)) = plan.sites_of(lane, edge) else { continue };
        let works = sender.is_some_and(|seen| seen.works() > 0.5);
        worst = Some((waits, if works { Holdup::Node(from) } else { Holdup::Link(from, to) }));
    }
    worst.map(|(_, holdup)| holdup)
}

/// A stage as it was seen.
struct Seen<'a> {
    stage: &'a proto::StageDoing,
    looks: f64,
}

impl Seen<'_> {
    fn waits_for(&self, edge: u32) -> f64 {
        let looks = self.stage.receiving.iter().filter(|r| r.edge == edge).map(|r| f64::from(r.looks));
        looks.sum::<f64>() / self.looks
    }

    fn waits(&self) -> f64 {
        self.stage.receiving.iter().map(|r| f64::from(r.looks)).sum::<f64>() / self.looks
    }

    fn works(&self) -> f64 {
        let others = self.stage.idle.saturating_add(self.stage.sending);
        1.0 - self.waits() - f64::from(others) / self.looks
    }

    fn throttled(&self) -> f64 {
        f64::from(self.stage.throttled) / self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of four stages at sites 1, 2, 3 and 9.
    fn chain() -> FlowPlan<Flow> {
        // Slices of 32 KiB.
        let geometry = flow::Geometry { block_bytes: 32 << 20, alpha: 1, slice_bytes: 32 << 10 };
        let matrix = gf::Matrix::identity(gf::Field::Gf256, 1);
        let stage = |site| flow::Stage {
            site: Site(site),
            inputs: Vec::new(),
            outputs: Vec::new(),
            matrix: matrix.clone(),
        };
        let edge = |e: u16| flow::Edge { from: StageId(e), to: StageId(e + 1), rows: 1 };
        let lane = flow::Lane { stages: [1, 2, 3, 9].map(stage).to_vec(), edges: (0..3).map(edge).collect() };
        FlowPlan {
            flow: Flow::of_one(gf::Field::Gf256, geometry, lane),
            binding: Binding {
                header: flow::FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry),
                participants: Vec::new(),
                blocks: BTreeMap::new(),
                writes: BTreeMap::new(),
                scheme: "test".to_owned(),
                slices: 0..1000,
            },
            edges: Vec::new(),
            predicted: Vec::new(),
            expected: Some(Duration::from_secs(1)),
            symbol_bytes_per_s: 0,
        }
    }

    /// Of a hundred looks: idle, sending, receiving.
    fn seen(stages: [Option<(u32, u32, u32)>; 4]) -> BTreeMap<Site, proto::Doing> {
        let sites = [1, 2, 3, 9].map(Site);
        let doing = |(index, looks): (usize, Option<(u32, u32, u32)>)| {
            let stage = looks.map(|(idle, sending, receiving)| proto::StageDoing {
                lane: 0,
                stage: index as u32,
                idle,
                sending,
                receiving: vec![proto::EdgeLooks { edge: (index as u32).wrapping_sub(1), looks: receiving }],
                ..Default::default()
            });
            (sites[index], proto::Doing { looks: 100, stages: stage.into_iter().collect() })
        };
        stages.into_iter().enumerate().map(doing).collect()
    }

    #[test]
    fn who_waits_for_nobody_and_is_waited_for_holds_all_up() {
        let plan = chain();
        let waits = Some((0, 0, 95));
        let link = seen([Some((0, 98, 0)), Some((0, 96, 2)), waits, waits]);
        assert_eq!(holdup(&plan, &link, false), Some(Holdup::Link(Site(2), Site(3))));
        let idle = seen([Some((99, 0, 0)), Some((20, 70, 2)), waits, waits]);
        assert_eq!(holdup(&plan, &idle, false), Some(Holdup::Link(Site(2), Site(3))));
        // The second one's disk, or its processor.
        let disk = seen([Some((0, 98, 0)), Some((0, 3, 2)), waits, waits]);
        assert_eq!(holdup(&plan, &disk, false), Some(Holdup::Node(Site(2))));
        let first = seen([Some((0, 3, 0)), waits, waits, waits]);
        assert_eq!(holdup(&plan, &first, false), Some(Holdup::Node(Site(1))));
        let mut throttled = disk.clone();
        throttled.get_mut(&Site(2)).unwrap().stages[0].throttled = 90;
        assert_eq!(holdup(&plan, &throttled, true), None, "it keeps to what all were told");
        assert_eq!(holdup(&plan, &throttled, false), Some(Holdup::Node(Site(2))));
        // It has sent all, but not all has arrived.
        let ended = seen([None, waits, waits, waits]);
        assert_eq!(holdup(&plan, &ended, false), Some(Holdup::Link(Site(1), Site(2))));
        // The requestor's disk; and a flow that is not held up by anybody.
        let own = seen([Some((0, 98, 0)), Some((0, 96, 2)), Some((0, 97, 0)), Some((0, 0, 3))]);
        assert_eq!(holdup(&plan, &own, false), None);
        // Numbers that no node of ours says.
        let most = seen([Some((u32::MAX, u32::MAX, 0)), Some((1, 1, u32::MAX)), waits, waits]);
        let mut twice = most.clone();
        for doing in twice.values_mut() {
            doing.looks = 0;
            doing.stages.iter_mut().for_each(|s| s.receiving.extend(s.receiving.clone()));
        }
        assert!(holdup(&plan, &most, false).is_some() && holdup(&plan, &twice, false).is_some());
        let goes = seen([Some((0, 50, 0)), Some((0, 40, 40)), Some((0, 40, 40)), Some((0, 0, 50))]);
        assert_eq!(holdup(&plan, &goes, false), None);
    }

    /// Reports within a window are so far apart.
    fn watched(mut plan: FlowPlan<Flow>, unreported: u32) -> Option<Watch> {
        plan.binding.header.lane_window_slices = unreported * REPORTS_PER_WINDOW;
        Watch::of(&plan, false)
    }

    fn after(watch: &mut Watch, passed_ms: u64, delivered: u64) -> bool {
        watch.since = Instant::now().checked_sub(Duration::from_millis(passed_ms)).unwrap();
        watch.is_slow(delivered)
    }

    #[test]
    fn slow_is_what_takes_far_longer_than_expected() {
        let mut watch = watched(chain(), 0).unwrap();
        assert!(!watch.is_slow(0), "too early to say");
        // In 0.6 s of the second that is expected: a third of 600 slices is enough.
        assert!(!after(&mut watch, 600, 210));
        assert!(after(&mut watch, 600, 400));
        assert!(!after(&mut watch, 600, 610), "what counts is what came since the last time");
        assert!(watched(FlowPlan { expected: None, ..chain() }, 0).is_none());
        // Slices so long that three of them are expected in all.
        let mut few = chain();
        few.binding.slices = 0..3;
        let mut long = watched(few, 0).unwrap();
        assert!(!after(&mut long, 900, 0));
        assert!(after(&mut long, 1100, 0));
    }

    /// A flow of a few reports is not slow because the first is still to come.
    #[test]
    fn what_nobody_has_reported_may_be_there() {
        let mut watch = watched(chain(), 250).unwrap();
        assert!(!after(&mut watch, 700, 0), "233 slices would be enough, and may be there");
        assert!(after(&mut watch, 800, 0), "266 slices would be enough");
        assert!(!after(&mut watch, 800, 250));
    }
}
