//! How TCP behaves on a testbed's hosts, whatever the machine itself prefers.

use crate::error::{LabError, Result};
use std::fs;

/// What experiments are measured with. bbr, the default of some machines, paces by its own estimates, and without the
/// queueing discipline `fq` badly.
const CONGESTION_CONTROL: &str = "cubic";

/// Files under `/proc/sys/net`, each namespace's own. A run must not remember how an earlier one's connections fared.
const SETTINGS: [(&str, &str); 4] = [
    ("ipv4/tcp_congestion_control", CONGESTION_CONTROL),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];

/// What a namespace may choose from; the machine's own setting, for all namespaces.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// To be run inside a namespace, while it is [`Allowed`].
pub fn apply() -> Result<()> {
    for (file, value) in SETTINGS {
        let path = format!("/proc/sys/net/{file}");
        // IPv6 may not be there.
        if fs::exists(&path).unwrap_or(false) {
            fs::write(&path, value).map_err(LabError::io(format!("set {path} to {value}")))?;
        }
    }
    Ok(())
}

/// While it lives, namespaces may choose the congestion control that experiments use. Dropping it restores what the
/// machine allowed before; a namespace that has chosen keeps its choice.
pub struct Allowed {
    before: Option<String>,
}

impl Allowed {
    /// To be called outside all namespaces.
    pub fn new() -> Result<Allowed> {
        let before = fs::read_to_string(ALLOWED).map_err(LabError::io(format!("read {ALLOWED}")))?;
        if before.split_whitespace().any(|name| name == CONGESTION_CONTROL) {
            return Ok(Allowed { before: None });
        }
        let more = format!("{} {CONGESTION_CONTROL}", before.trim());
        fs::write(ALLOWED, more).map_err(LabError::io(format!("allow {CONGESTION_CONTROL} in {ALLOWED}")))?;
        Ok(Allowed { before: Some(before) })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If it fails, namespaces may choose one more congestion control than before.
            let _ = fs::write(ALLOWED, before.trim());
        }
    }
}
