//! Whether a node lives, in the terms that all commands use.

use std::fmt;
use std::time::Duration;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Living,
    /// The node said goodbye and has not come back.
    Left,
    /// The node left because its disk failed, with the reason.
    Failed(String),
    /// The node has been silent for this long.
    Dead(Duration),
    /// The node has not been heard since the coordinator's start, which was so recently that it may only not have registered yet.
    Expected,
    /// The node has not been heard since the coordinator's start.
    Unheard,
}

impl Life {
    /// Returns the name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Life::Living => "living",
            Life::Left => "left",
            Life::Failed(_) => "failed",
            Life::Dead(_) => "dead",
            Life::Expected => "expected",
            Life::Unheard => "unheard",
        }
    }

    /// Returns the text for a list of nodes.
    pub fn in_list(&self) -> String {
        match self {
            Life::Living => "living".to_owned(),
            Life::Left => "left".to_owned(),
            Life::Failed(_) => "left: its disk failed".to_owned(),
            Life::Dead(silent) => format!("dead for {} s", silent.as_secs()),
            Life::Expected => "expected: not heard yet since the coordinator's start".to_owned(),
            Life::Unheard => "not heard since the coordinator's start".to_owned(),
        }
    }

    /// Whether the node itself said that it does not serve. An answer of its process then proves nothing, because a process may serve other
    /// disks.
    pub fn is_by_its_own_word(&self) -> bool {
        matches!(self, Life::Left | Life::Failed(_))
    }
}

/// Completes the sentence "node-5 is …".
impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Life::Living => f.write_str("alive"),
            Life::Left => f.write_str("gone: it said goodbye"),
            Life::Failed(why) => write!(f, "gone: its disk failed ({why})"),
            Life::Dead(silent) => write!(f, "dead: it has said nothing for {} s", silent.as_secs()),
            Life::Expected => f.write_str("expected: it was not heard of yet since the coordinator's start"),
            Life::Unheard => f.write_str("dead: it was not heard of since the coordinator's start"),
        }
    }
}
