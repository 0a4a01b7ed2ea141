//! What is not held against the product yet. Each switch is off for one reason, which has a name, and every run says how
//! often it would have failed without it. Nobody adds one without an issue that will take it away.

use crate::violation::{Kind, Violation};

/// Something that is not held against the product.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Its name, for `--on`.
    pub name: &'static str,
    /// Where the plan has this fault; everywhere, if it is empty.
    pub fault: &'static str,
    /// Violations of these kinds.
    pub kinds: &'static [Kind],
    /// Why, and what will take it away.
    pub why: &'static str,
}

/// Those there are.
pub const SWITCHES: &[Switch] = &[];

/// Marks the violations that a switch keeps from failing the run, but for the switches named in `on`.
pub fn mark(violations: &mut [Violation], faults: &[&'static str], on: &[String]) {
    for violation in violations {
        let has = |switch: &&Switch| {
            switch.kinds.contains(&violation.kind)
                && (switch.fault.is_empty() || faults.contains(&switch.fault))
                && !on.iter().any(|name| name == switch.name || name == "all")
        };
        violation.switch = SWITCHES.iter().find(has).map(|switch| switch.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_have_names_of_their_own_and_say_why() {
        for (at, switch) in SWITCHES.iter().enumerate() {
            assert!(SWITCHES[..at].iter().all(|other| other.name != switch.name));
            assert!(!switch.kinds.is_empty() && switch.why.len() > 20, "{}", switch.name);
            for never in [Kind::Panic, Kind::Hang] {
                assert!(!switch.kinds.contains(&never), "{} lets a {never} pass", switch.name);
            }
        }
    }
}
