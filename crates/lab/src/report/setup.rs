//! On what something was measured.

use cli::amount::Size;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine and the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// When the run began, UTC, `2026-01-31T12:00:00Z`.
    pub date: String,
    /// As the kernel names it.
    pub processor: String,
    /// Logical processors that the run could use.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the program.
    pub version: String,
    /// Commit of the checkout that the run was started in, with `-dirty` if files other than records had been changed; `None` outside of one.
    pub commit: Option<String>,
    /// Cargo's profile that the program was built with: only `dist` is optimized as packages are. Old records do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// The machine, and what stays the same throughout an experiment. `None`: varies, or does not apply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Where.
    pub machine: Machine,
    /// How hosts are joined, in words.
    pub network: String,
    /// Hosts of the testbed.
    pub hosts: Option<usize>,
    /// What each host's link was limited to, bits per second each way.
    pub link_bits_per_s: Option<u64>,
    /// What one plain TCP connection carried over such a link, payload bits per second.
    pub link_measured_bits_per_s: Option<f64>,
    /// Erasure code.
    pub code: Option<String>,
    /// Bytes of a block.
    pub block_bytes: Option<u64>,
    /// Bytes of a slice.
    pub slice_bytes: Option<u64>,
    /// Samples of each figure.
    pub runs: usize,
}

impl Machine {
    /// This one, now.
    pub fn this() -> Machine {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Machine {
            date: utc(now.as_secs()),
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            profile: Some(cli::PROFILE.to_owned()),
        }
    }
}

impl Setup {
    /// On this machine, now; what else stays the same is to be told.
    pub fn here(network: &str, runs: usize) -> Setup {
        Setup {
            machine: Machine::this(),
            network: network.to_owned(),
            hosts: None,
            link_bits_per_s: None,
            link_measured_bits_per_s: None,
            code: None,
            block_bytes: None,
            slice_bytes: None,
            runs,
        }
    }

    /// As one paragraph for people.
    pub fn text(&self) -> String {
        let machine = &self.machine;
        let mut parts = vec![
            format!("{} ({} cores), Linux {}", machine.processor, machine.cores, machine.kernel),
            self.network.clone(),
        ];
        parts.extend(self.hosts.map(|hosts| format!("{hosts} hosts")));
        if let Some(rate) = self.link_bits_per_s {
            let measured = self
                .link_measured_bits_per_s
                .map(|bits| format!(", {:.0} Mb/s of payload measured", bits / 1e6));
            parts.push(format!(
                "links of {:.0} Mb/s each way{}",
                rate as f64 / 1e6,
                measured.unwrap_or_default()
            ));
        }
        parts.extend(self.code.clone());
        parts.extend(self.block_bytes.map(|bytes| format!("blocks of {}", Size(bytes))));
        parts.extend(self.slice_bytes.map(|bytes| format!("slices of {}", Size(bytes))));
        parts.push(format!("{} run{}", self.runs, if self.runs == 1 { "" } else { "s" }));
        let build: Vec<&str> =
            [&machine.commit, &machine.profile].into_iter().flatten().map(String::as_str).collect();
        let build = if build.is_empty() { String::new() } else { format!(" ({})", build.join(", ")) };
        parts.push(format!("Stripeline {}{build}, {}", machine.version, machine.date));
        parts.join("; ")
    }
}

fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown processor", |(_, name)| name.trim()).to_owned()
}

fn commit() -> Option<String> {
    let head = git(&["rev-parse", "--short", "HEAD"]).filter(|head| !head.is_empty())?;
    // Records that were made before this one are no change of the program.
    let others = [":/", ":(top,exclude)results", ":(top,exclude)docs/results.md"];
    let changed = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &others[..]].concat())?;
    Some(if changed.is_empty() { head } else { format!("{head}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// RFC 3339. The calendar by Hinnant's `civil_from_days`: eras of 400 years that begin on a 1 March.
fn utc(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
    }

    #[test]
    fn the_profile_is_named_and_records_without_one_still_read() {
        let mut machine = serde_json::to_value(Machine::this()).unwrap();
        assert!(["dev", "release", "dist"].contains(&machine["profile"].as_str().unwrap()), "{machine}");
        machine.as_object_mut().unwrap().remove("profile");
        machine["commit"] = "abc1234".into();
        let setup = |machine| Setup { machine, ..Setup::here("one switch", 1) };
        let old: Machine = serde_json::from_value(machine).unwrap();
        assert!(setup(old.clone()).text().contains("(abc1234), "));
        let new = Machine { profile: Some("dist".to_owned()), ..old };
        assert!(setup(new).text().contains("(abc1234, dist), "));
    }

    #[test]
    fn the_processor_is_named_as_the_kernel_names_it() {
        assert_eq!(processor("vendor_id\t: x\nmodel name\t: A fast one\n"), "A fast one");
        assert_eq!(processor(""), "unknown processor");
    }
}
