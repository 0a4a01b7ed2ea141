//! Helpers that hold a repair up: gone around as long as others can help.

use std::collections::BTreeSet;
use wire::Fault;

/// So often one repair goes around somebody who is slow. What it then waits for is usual here, or its own.
const MAX_DETOURS: u32 = 3;

/// What a repair knows of who is slow.
#[derive(Debug, Default)]
pub(super) struct Slow {
    nodes: BTreeSet<u32>,
    links: Vec<(u32, u32)>,
    detours: u32,
}

impl Slow {
    /// The driver found its flow held up. Of a slow link the sender is gone around; if its receiver is behind another
    /// slow one, it is the receiver. Who is gone around from now on.
    pub fn note(&mut self, fault: &Fault, requestor: u32) -> Option<u32> {
        let (from, to) = fault.suspect?;
        self.detours += 1;
        let again = from != to && self.links.iter().any(|link| link.1 == to);
        self.links.push((from, to));
        if again && to == requestor {
            self.give_up();
            return None;
        }
        let slow = if again { to } else { from };
        self.nodes.insert(slow);
        Some(slow)
    }

    /// Whether another one would be gone around.
    pub fn may_detour(&self) -> bool {
        self.detours < MAX_DETOURS
    }

    /// There is no way around them. Whether there were any.
    pub fn give_up(&mut self) -> bool {
        self.detours = MAX_DETOURS;
        !std::mem::take(&mut self.nodes).is_empty()
    }

    /// Those to go around.
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Cause;

    fn slow(links: &[(u32, u32)]) -> Slow {
        let mut slow = Slow::default();
        for &(from, to) in links {
            slow.note(&Fault::new(Cause::Slow, "").suspecting(from, to), 9);
        }
        slow
    }

    #[test]
    fn an_end_that_two_slow_links_share_is_to_blame() {
        assert!(slow(&[(1, 2)]).nodes().eq([1]));
        assert!(slow(&[(1, 2), (3, 2)]).nodes().eq([1, 2]));
        assert!(slow(&[(1, 2), (3, 3)]).nodes().eq([1, 3]));
        assert!(slow(&[(1, 2)]).may_detour() && !slow(&[(1, 2), (3, 4), (5, 6)]).may_detour());
    }

    #[test]
    fn the_requestors_own_link_is_waited_for() {
        let mut slow = slow(&[(1, 9), (3, 9)]);
        assert!(!slow.may_detour() && slow.nodes().next().is_none());
        assert!(!slow.give_up());
    }
}
