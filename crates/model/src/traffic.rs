//! What bytes move for, and how many may.

/// What a flow is for. Each kind of traffic has a budget of its own on every node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Traffic {
    /// Puts and reads, degraded ones too.
    #[default]
    Client,
    /// Copies that are made anew or move: repair, recovery, decommissioning, balance.
    Healing,
    /// Stripes that are encoded, also in place of others.
    Archival,
}

/// Bytes per second of each kind of traffic that a node's data sockets may send, and as many that they may receive; 0 is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Budgets {
    /// Of [`Traffic::Client`].
    pub client: u64,
    /// Of [`Traffic::Healing`].
    pub healing: u64,
    /// Of [`Traffic::Archival`].
    pub archival: u64,
}

impl Traffic {
    /// All of them.
    pub const ALL: [Traffic; 3] = [Traffic::Client, Traffic::Healing, Traffic::Archival];
}

impl Budgets {
    /// The budget of a traffic.
    pub fn of(&self, traffic: Traffic) -> u64 {
        match traffic {
            Traffic::Client => self.client,
            Traffic::Healing => self.healing,
            Traffic::Archival => self.archival,
        }
    }
}
