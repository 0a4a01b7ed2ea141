//! Processor time: of processes, and of the machine while something is measured.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// `/proc` counts processor time in these on every Linux, whatever the kernel's own tick.
const USER_TICKS_PER_SECOND: f64 = 100.0;

/// The kernel does not say what its processors do.
#[derive(Debug, thiserror::Error)]
#[error("cannot read /proc/stat: {0}")]
pub struct NoTimes(#[from] io::Error);

/// How busy the processors are between two points in time, read from `/proc/stat`.
///
/// An experiment about a network is believed only while processors idle: the share is printed beside its figures.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorShare {
    busy_ticks: u64,
    stolen_ticks: u64,
    all_ticks: u64,
}

impl ProcessorShare {
    /// Starts counting.
    ///
    /// # Errors
    /// Where there is no `/proc/stat`.
    pub fn start() -> Result<ProcessorShare, NoTimes> {
        let text = fs::read_to_string("/proc/stat")?;
        parse_machine(&text).ok_or_else(|| NoTimes(io::ErrorKind::InvalidData.into()))
    }

    /// Fraction of all processors that was in use since the start, 0 to 1.
    ///
    /// # Errors
    /// As [`ProcessorShare::start`].
    pub fn so_far(&self) -> Result<f64, NoTimes> {
        self.share_of(|share| share.busy_ticks)
    }

    /// Fraction that the host of a virtual machine gave to others though it was wanted here, 0 to 1.
    ///
    /// # Errors
    /// As [`ProcessorShare::start`].
    pub fn stolen_so_far(&self) -> Result<f64, NoTimes> {
        self.share_of(|share| share.stolen_ticks)
    }

    fn share_of(&self, ticks: impl Fn(&ProcessorShare) -> u64) -> Result<f64, NoTimes> {
        let now = ProcessorShare::start()?;
        let all = now.all_ticks.saturating_sub(self.all_ticks).max(1);
        Ok(ticks(&now).saturating_sub(ticks(self)) as f64 / all as f64)
    }
}

/// The processors are idle enough when less than this of them was used in [`SETTLED_IN`].
const SETTLED_SHARE: f64 = 0.1;

/// Long enough to count ticks in.
const SETTLED_IN: Duration = Duration::from_millis(100);

/// A machine that is never idle is measured all the same; how busy it was is printed.
const SETTLED_BY: Duration = Duration::from_secs(2);

/// Waits until what ran before has ended on all sides: after a repair its block is made durable, or thrown away, by a file
/// system that may take its time. Whoever comes next is not to pay for it.
///
/// # Errors
/// As [`ProcessorShare::start`].
pub fn settle() -> Result<(), NoTimes> {
    let started = Instant::now();
    while started.elapsed() < SETTLED_BY {
        let share = ProcessorShare::start()?;
        std::thread::sleep(SETTLED_IN);
        if share.so_far()? < SETTLED_SHARE {
            break;
        }
    }
    Ok(())
}

/// The first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal; guest time, which
/// follows, is part of user time. Stolen time is busy: it was wanted and not there.
fn parse_machine(text: &str) -> Option<ProcessorShare> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all_ticks = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(ProcessorShare {
        busy_ticks: all_ticks - idle,
        stolen_ticks: *ticks.get(7).unwrap_or(&0),
        all_ticks,
    })
}

/// What `/proc/PID/stat` says about a process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProcessStat {
    /// Ended and not yet waited for.
    pub dead: bool,
    /// Processor time used so far, in user and kernel mode, with all its threads.
    pub cpu_seconds: f64,
    /// When it started, in ticks after boot: with the number, it names the process beyond doubt within a boot.
    pub start_ticks: u64,
}

/// Reads what is known about a process; `None` if there is none of that number.
pub fn process_stat(pid: u32) -> Option<ProcessStat> {
    parse_process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 3, 14, 15 and 22 of proc(5), counted from 1. Field 2 may hold anything, even parentheses, so fields are
/// counted from its end.
fn parse_process(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3);
    let number = |n: usize| field(n)?.parse::<u64>().ok();
    Some(ProcessStat {
        dead: matches!(*field(3)?, "Z" | "X"),
        cpu_seconds: (number(14)? + number(15)?) as f64 / USER_TICKS_PER_SECOND,
        start_ticks: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_do_not_confuse_the_fields() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 98765 10 11 12";
        let expected = ProcessStat { dead: false, cpu_seconds: 1.1, start_ticks: 98765 };
        assert_eq!(parse_process(text), Some(expected));
        assert!(parse_process("7 (a) S 1").is_none());
    }

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() {
        let share = parse_machine("cpu  10 1 20 60 5 1 2 1 10 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((share.busy_ticks, share.stolen_ticks, share.all_ticks), (35, 1, 100));
        assert!(parse_machine("intr 1 2 3").is_none());
    }
}
