//! What is not held against the product yet. Each switch is off for one reason, which has a name, and every run says how
//! often it would have failed without it. Nobody adds one without an issue that will take it away.

use crate::violation::Kind;

/// Something that is not held against the product.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Its name, for `--on`.
    pub name: &'static str,
    /// Faults, or codes (`code xcode-5`), one of which the plan must have; empty for any plan.
    pub faults: &'static [&'static str],
    /// Violations of these kinds.
    pub kinds: &'static [Kind],
    /// That say this; all, if it is empty.
    pub says: &'static str,
    /// Why, and what will take it away.
    pub why: &'static str,
}

/// Stands among the faults for plans whose daemons are not restarted at the end.
pub const GOES_ON: &str = "all goes on";

/// All switches.
pub const SWITCHES: &[Switch] = &[];

/// The switch that lets a violation pass in a plan with these faults, but for the switches named in `on`.
pub fn passing(kind: Kind, what: &str, faults: &[&'static str], on: &[String]) -> Option<&'static str> {
    let lets = |switch: &&Switch| {
        switch.kinds.contains(&kind)
            && (switch.faults.is_empty() || switch.faults.iter().any(|fault| faults.contains(fault)))
            && what.contains(switch.says)
            && !on.iter().any(|name| name == switch.name || name == "all")
    };
    SWITCHES.iter().find(lets).map(|switch| switch.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_have_names_of_their_own_and_say_why() {
        for (at, switch) in SWITCHES.iter().enumerate() {
            assert!(SWITCHES[..at].iter().all(|other| other.name != switch.name));
            assert!(
                !(switch.kinds.is_empty() || switch.faults.is_empty() && switch.says.is_empty()),
                "{}",
                switch.name
            );
            assert!(switch.why.contains("issue"), "{}", switch.name);
            for never in [Kind::Panic, Kind::Hang] {
                assert!(!switch.kinds.contains(&never), "{} lets a {never} pass", switch.name);
            }
        }
    }
}
