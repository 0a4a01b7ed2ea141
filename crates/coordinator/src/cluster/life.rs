//! Whether a node lives, in the words that all commands use.

use std::fmt;
use std::time::Duration;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Living,
    /// It said goodbye, and has not come back.
    Left,
    /// It left by itself, because its disk failed so.
    Failed(String),
    /// It has said nothing for so long.
    Dead(Duration),
    /// Nobody has heard of it since the coordinator's start.
    Unheard,
}

impl Life {
    /// For programs.
    pub fn name(&self) -> &'static str {
        match self {
            Life::Living => "living",
            Life::Left => "left",
            Life::Failed(_) => "failed",
            Life::Dead(_) => "dead",
            Life::Unheard => "unheard",
        }
    }

    /// In a list of nodes.
    pub fn in_list(&self) -> String {
        match self {
            Life::Living => "living".to_owned(),
            Life::Left => "left".to_owned(),
            Life::Failed(_) => "left: its disk failed".to_owned(),
            Life::Dead(silent) => format!("dead for {} s", silent.as_secs()),
            Life::Unheard => "not heard since the coordinator's start".to_owned(),
        }
    }

    /// Whether its own word was that it does not serve, so that an answer of its process says nothing: a process may serve other disks.
    pub fn is_by_its_own_word(&self) -> bool {
        matches!(self, Life::Left | Life::Failed(_))
    }
}

/// As in "node-5 is …".
impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Life::Living => f.write_str("alive"),
            Life::Left => f.write_str("gone: it said goodbye"),
            Life::Failed(why) => write!(f, "gone: its disk failed ({why})"),
            Life::Dead(silent) => write!(f, "dead: it has said nothing for {} s", silent.as_secs()),
            Life::Unheard => f.write_str("dead: it was not heard of since the coordinator's start"),
        }
    }
}
