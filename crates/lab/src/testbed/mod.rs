//! Hosts in network namespaces, with limited links between them.

mod carried;
mod layout;
mod measure;
mod namespace;
mod settings;
mod shape;
mod spec;
mod state;
mod tools;
mod traffic;

pub use carried::{Carried, Way};
pub use measure::{LinkReport, MeasuredLink};
pub use spec::{LinkRate, Racks, Spec};
pub use traffic::Background;

use crate::error::{LabError, Result};
use crate::scratch;
use serde::Serialize;
use settings::Allowed;
use shape::Limits;
use state::{Records, State};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// One host of a testbed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Host {
    /// Its number, from 0.
    #[serde(rename = "host")]
    pub index: usize,
    /// Its network namespace, as `ip netns` names it.
    pub namespace: String,
    /// Its address: known inside the testbed only.
    pub addr: IpAddr,
    /// Its rack, from 0.
    pub rack: usize,
}

impl Host {
    /// A command that will run on this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Runs `work` in a thread on this host. Sockets that it opens belong to the host, whoever uses them later; threads
    /// and processes that it starts run there: cheaper than [`Host::command`], which needs a process more.
    ///
    /// # Errors
    /// [`LabError::Io`] if the host is gone.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        namespace::inside(&self.namespace, work)
    }
}

/// A testbed that is up. Dropping it leaves it up; [`Testbed::down`] removes it.
#[derive(Debug)]
pub struct Testbed {
    records: Records,
    state: State,
    hosts: Vec<Host>,
}

impl Testbed {
    /// Makes the testbed, or finds it as an earlier call made it, with its limits as the specification has them. What a
    /// killed call left half-made goes first.
    ///
    /// # Errors
    /// [`LabError::NotRoot`], [`LabError::MissingTool`], [`LabError::BadSpec`]; [`LabError::DifferentSpec`] if one of that
    /// name looks different; whatever `ip` and `tc` say.
    pub fn up(spec: &Spec) -> Result<Testbed> {
        spec.check()?;
        tools::check()?;
        let records = Records::locate();
        let lock = records.lock()?;
        let found = records.read(&spec.name)?;
        if let Some(state) = found.filter(|state| state.complete && all_there(&state.spec)) {
            if state.spec != *spec {
                return Err(LabError::DifferentSpec {
                    name: spec.name.clone(),
                    found: state.spec.to_string(),
                });
            }
            let limits = Limits::of(spec);
            let unchanged = state.limits == limits;
            let mut testbed = Testbed::of(records, state);
            if !unchanged {
                testbed.set_limits(&lock, limits)?;
            }
            return Ok(testbed);
        }
        clear(&lock, &spec.name)?;
        let mut state = State::new(spec);
        records.write(&state)?;
        if let Err(error) = build(&lock, &state) {
            // The first error is the one to tell; what could not be removed is found by the next `up` or `down`.
            let _ = clear(&lock, &spec.name).and_then(|_| records.remove(&spec.name));
            return Err(error);
        }
        state.complete = true;
        records.write(&state)?;
        Ok(Testbed::of(records, state))
    }

    /// The testbed of that name, with its limits as they were last set.
    ///
    /// # Errors
    /// [`LabError::NotUp`], also when it is there in part only.
    pub fn find(name: &str) -> Result<Testbed> {
        let records = Records::locate();
        match records.read(name)? {
            Some(state) if state.complete && all_there(&state.spec) => Ok(Testbed::of(records, state)),
            _ => Err(LabError::NotUp(name.to_owned())),
        }
    }

    /// Names of all testbeds on this machine, those included that are not (or no longer) whole.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn names() -> Result<Vec<String>> {
        Records::locate().names()
    }

    /// Removes what there is of the testbed `name`, also half-made or without a record: its processes, namespaces and
    /// record, and blocks in memory whose
    /// owner was killed. How many namespaces that were.
    ///
    /// # Errors
    /// [`LabError::NotRoot`], [`LabError::MissingTool`]; [`LabError::Daemon`] if a process does not end.
    pub fn remove(name: &str) -> Result<usize> {
        // A name that is none could reach into other namespaces.
        Spec::flat(name, 2, LinkRate::UNLIMITED).check()?;
        tools::check()?;
        let records = Records::locate();
        let lock = records.lock()?;
        let removed = clear(&lock, name)?;
        scratch::sweep(Path::new(scratch::MEMORY));
        records.remove(name)?;
        Ok(removed)
    }

    /// Removes it: processes on its hosts, namespaces, record.
    ///
    /// # Errors
    /// As [`Testbed::remove`].
    pub fn down(self) -> Result<()> {
        Testbed::remove(&self.state.spec.name).map(drop)
    }

    /// What it was made with.
    pub fn spec(&self) -> &Spec {
        &self.state.spec
    }

    /// Its hosts, in the order of their numbers.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One host.
    ///
    /// # Errors
    /// [`LabError::NoHost`].
    pub fn host(&self, index: usize) -> Result<&Host> {
        self.hosts.get(index).ok_or(LabError::NoHost { index, hosts: self.hosts.len() })
    }

    /// What one flow from one host to another can get at most, within a rack.
    ///
    /// # Errors
    /// [`LabError::NoHost`].
    pub fn rate_between(&self, from: usize, to: usize) -> Result<LinkRate> {
        self.host(from)?;
        self.host(to)?;
        Ok(self.state.limits.between(from, to))
    }

    /// All limits in force.
    pub(crate) fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// Limits every host's port, in each direction. Queued packets are dropped: not while something is measured.
    ///
    /// # Errors
    /// [`LabError::BadSpec`]; whatever `tc` says.
    pub fn set_rate(&mut self, rate: LinkRate) -> Result<()> {
        self.change_limits(rate, |limits| limits.ports.fill(rate))
    }

    /// Limits one host's port, in each direction.
    ///
    /// # Errors
    /// As [`Testbed::set_rate`]; [`LabError::NoHost`].
    pub fn set_host_rate(&mut self, host: usize, rate: LinkRate) -> Result<()> {
        self.host(host)?;
        self.change_limits(rate, |limits| limits.ports[host] = rate)
    }

    /// Limits the links between racks and the core.
    ///
    /// # Errors
    /// As [`Testbed::set_rate`].
    pub fn set_core_rate(&mut self, rate: LinkRate) -> Result<()> {
        self.change_limits(rate, |limits| limits.core = rate)
    }

    /// Limits what hosts send to others, (from, to, limit), beside the limits of their ports.
    ///
    /// # Errors
    /// As [`Testbed::set_rate`]; [`LabError::NoHost`].
    pub fn limit_pairs(&mut self, pairs: &[(usize, usize, LinkRate)]) -> Result<()> {
        for &(from, to, rate) in pairs {
            self.host(from)?;
            self.host(to)?;
            spec::check_rate(rate)?;
        }
        self.change_limits(LinkRate::UNLIMITED, |limits| {
            for &(from, to, rate) in pairs {
                limits.set_pair(from, to, rate);
            }
        })
    }

    /// Measures links before they are believed.
    ///
    /// Within racks, every host sends to the next, all at once; between racks, everyone to the next rack; pairs with
    /// limits of their own one after the other where they share a port.
    ///
    /// # Errors
    /// [`LabError::LinkDeviates`] if one carries 5 % more or less payload than its limit lets through;
    /// [`LabError::ProcessorBound`] if that is because the processors are busy; [`LabError::Unsteady`] if it is another
    /// amount each time.
    pub fn measure(&self) -> Result<LinkReport> {
        measure::measure(&self.hosts, self.spec(), &self.state.limits)
    }

    /// Changes limits, to `rate` where that is one.
    fn change_limits(&mut self, rate: LinkRate, change: impl FnOnce(&mut Limits)) -> Result<()> {
        spec::check_rate(rate)?;
        let mut limits = self.state.limits.clone();
        change(&mut limits);
        let records = self.records.clone();
        let lock = records.lock()?;
        self.set_limits(&lock, limits)
    }

    /// Sets only what differs. The record goes first: if this is killed, measuring shows that the links are not as claimed.
    fn set_limits(&mut self, lock: &File, limits: Limits) -> Result<()> {
        let before = self.state.limits.batches(&self.state.spec);
        self.state.limits = limits;
        self.records.write(&self.state)?;
        for (namespace, batch) in self.state.limits.batches(&self.state.spec) {
            if before.get(&namespace) != Some(&batch) {
                tools::run(lock, "tc", Some(&namespace), &batch)?;
            }
        }
        Ok(())
    }

    fn of(records: Records, state: State) -> Testbed {
        let spec = &state.spec;
        let host = |index| Host {
            index,
            namespace: layout::host_namespace(spec, index),
            addr: IpAddr::V4(layout::address(spec, index)),
            rack: spec.rack_of(index),
        };
        let hosts = (0..spec.hosts).map(host).collect();
        Testbed { records, state, hosts }
    }
}

fn all_there(spec: &Spec) -> bool {
    let wanted: BTreeSet<String> = layout::namespaces(spec).into_iter().collect();
    namespace::existing(&layout::prefix(&spec.name)).is_ok_and(|existing| existing == wanted)
}

fn build(lock: &File, state: &State) -> Result<()> {
    let spec = &state.spec;
    let names = layout::namespaces(spec);
    tools::run(lock, "ip", None, &for_each(&names, "netns add"))?;
    let allowed = Allowed::new()?;
    for name in &names {
        namespace::inside(name, settings::apply)??;
    }
    drop(allowed);
    tools::run(lock, "ip", None, &layout::cables(spec))?;
    for host in 0..spec.hosts {
        tools::run(lock, "ip", Some(&layout::host_namespace(spec, host)), &layout::host_setup(spec, host))?;
    }
    for (name, ports) in layout::switches(spec) {
        tools::run(lock, "ip", Some(&name), &layout::switch_setup(&ports))?;
    }
    for (name, batch) in state.limits.batches(spec) {
        tools::run(lock, "tc", Some(&name), &batch)?;
    }
    Ok(())
}

/// Ends the processes in namespaces of that testbed and removes them; how many there were. Names tell which are ours: no
/// others begin so.
fn clear(lock: &File, name: &str) -> Result<usize> {
    let names = namespace::existing(&layout::prefix(name))?;
    namespace::end_processes(&names)?;
    tools::run(lock, "ip", None, &for_each(&names, "netns del"))?;
    Ok(names.len())
}

/// `ip -batch`: one command with each of the names.
fn for_each<'a>(names: impl IntoIterator<Item = &'a String>, command: &str) -> String {
    names.into_iter().map(|name| format!("{command} {name}\n")).collect()
}
