//! What clients do: each step is one command, and what it answers is judged at once.

use crate::command::Ran;
use crate::coverage::CODE;
use crate::leaving;
use crate::oracle::{Content, Read, content};
use crate::plan::{Step, Work};
use crate::violation::Kind;
use crate::world::{World, is_absent, locked, object_name};
use anyhow::Result;
use std::fs;
use std::sync::PoisonError;
use std::time::Duration;

/// Does one client's steps, one after another, until the schedule ends.
pub fn client(world: &World, steps: &[Step<Work>]) -> Result<()> {
    for Step { at_ms, does } in steps {
        world.wait_until(*at_ms);
        if world.now_ms() >= world.plan.ends_ms {
            break;
        }
        let _working = world.working.read().unwrap_or_else(PoisonError::into_inner);
        work(world, does)?;
    }
    Ok(())
}

/// Does one thing.
fn work(world: &World, work: &Work) -> Result<()> {
    let kind = work.kind();
    let ran = match work {
        Work::Put { object, content, bytes, killed_after_ms, .. } => {
            let content = Content { number: *content, bytes: *bytes };
            put(world, *object, content, *killed_after_ms, &layout(world, work))?
        }
        Work::Delete { object } => delete(world, *object)?,
        Work::Get { object } => return get(world, *object, None).map(|outcome| world.count(kind, outcome)),
        Work::GetRange { object, from_permille, to_permille } => {
            let outcome = get(world, *object, Some((*from_permille, *to_permille)))?;
            world.count(kind, outcome);
            return Ok(());
        }
        Work::Archive { object, piped, code, scheme } => {
            let code = match code {
                Some(code) => code.clone(),
                None if *piped => world.plan.pipeline(),
                None => world.plan.shape.code.clone(),
            };
            let name = object_name(*object);
            // Stripes that lack blocks too: objects are small, and the room that they take is not what is looked at here.
            let mut arguments = vec!["archive", &name, "--code", &code, "--short"];
            arguments.extend(scheme.iter().flat_map(|scheme| ["--scheme", scheme]));
            world.ask(&arguments)?
        }
        Work::ArchiveAll { code, change } => {
            let mut arguments = vec!["archive", "--prefix", "object-", "--code", code, "--short"];
            arguments.extend(change.then_some("--change"));
            world.ask(&arguments)?
        }
        Work::Change { object, code } => {
            world.ask(&["archive", &object_name(*object), "--code", code, "--short", "--change"])?
        }
        Work::Compact => world.ask(&["compact"])?,
        Work::RepairBlock { object, index, scheme, discard } => {
            let (name, index) = (object_name(*object), index.to_string());
            let mut arguments = vec!["repair", "block", &name, "--index", &index, "--scheme", scheme];
            arguments.extend(discard.then_some("--discard"));
            world.ask(&arguments)?
        }
        Work::RepairObject { object } => world.ask(&["repair", "object", &object_name(*object)])?,
        Work::RepairNode { node } => world.ask(&["repair", "node", &node.to_string()])?,
        Work::Decommission { node } => leaving::order(world, *node)?,
        Work::Recommission { node } => leaving::take_back(world, *node)?,
        Work::Scrub => world.ask(&["scrub"])?,
        Work::List => world.ask(&["ls"])?,
    };
    world.tell(format!("{work:?}: {}", said(&ran)));
    world.count(kind, if ran.is_ok() { "done" } else { "failed" });
    count_layout(world, work, ran.is_ok());
    Ok(())
}

/// Counts the codes and layouts of a step.
fn count_layout(world: &World, work: &Work, is_done: bool) {
    let shape = &world.plan.shape.code;
    let (code, done, failed) = match work {
        Work::Put { coded: true, code, .. } => (code.as_ref().unwrap_or(shape), "put", "put failed"),
        Work::Put { code: Some(code), policy: Some(policy), .. } => {
            world.count(&format!("policy {policy}"), if is_done { "put" } else { "put failed" });
            (code, "placed for it", "placed failed")
        }
        Work::Archive { code: Some(code), scheme, .. } => {
            if let Some(scheme) = scheme {
                world.count(&format!("encoding by {scheme}"), if is_done { "archived" } else { "failed" });
            }
            (code, "archived", "archive failed")
        }
        Work::Archive { piped: false, .. } => (shape, "archived", "archive failed"),
        Work::Change { code, .. } => (code, "changed", "change failed"),
        Work::ArchiveAll { code, .. } => (code, "all archived", "all failed"),
        _ => return,
    };
    world.count(&format!("{CODE}{code}"), if is_done { done } else { failed });
}

/// Runs an operator's steps, concurrently with clients and other operators.
pub fn operator(world: &World, number: usize) -> Result<()> {
    for step in world.plan.operators.get(number).into_iter().flatten() {
        world.wait_until(step.at_ms);
        if world.now_ms() >= world.plan.ends_ms {
            break;
        }
        let _working = world.working.read().unwrap_or_else(PoisonError::into_inner);
        let _busy = world.is_busy(number, step.does.kind());
        work(world, &step.does)?;
    }
    Ok(())
}

/// A command that fails ends by itself, with a sentence on standard error and a code of failure.
fn typed(exit_code: Option<i32>, stderr: &str) -> Result<(), Kind> {
    let says_why = stderr.lines().any(|line| line.strip_prefix("error: ").is_some_and(|why| !why.is_empty()));
    match exit_code {
        _ if stderr.contains("panicked") => Err(Kind::Panic),
        Some(code) if code != 0 && says_why => Ok(()),
        _ => Err(Kind::UntrueStatus),
    }
}

/// How a command ended, in a few words.
fn said(ran: &Ran) -> String {
    match ran.is_ok() {
        true => "done".to_owned(),
        false => ran.stderr.trim().chars().take(300).collect(),
    }
}

/// Returns the options of a put that determine where its blocks lie.
fn layout(world: &World, work: &Work) -> Vec<String> {
    let Work::Put { coded, code, policy, .. } = work else { return Vec::new() };
    let plan = &world.plan;
    let of_seed = plan.gathers().then_some("ear");
    let code = code.as_deref();
    let (policy, capacity) = match (coded, policy) {
        // Allows short stripes too, as archivals do.
        (true, _) => return words(&["--code", code.unwrap_or(&plan.shape.code), "--short"]),
        (false, Some(policy)) => (policy.as_str(), plan.rack_capacity_of(code.unwrap_or_default())),
        (false, None) => match of_seed {
            Some(policy) => (policy, plan.rack_capacity()),
            None => return Vec::new(),
        },
    };
    let code = code.unwrap_or(&plan.shape.code);
    words(&["--policy", policy, "--code", code, "--rack-capacity", &capacity.to_string()])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn put(
    world: &World,
    object: usize,
    new: Content,
    killed_after_ms: Option<u64>,
    layout: &[String],
) -> Result<Ran> {
    let file = world.scratch();
    fs::write(&file, content(world.plan.seed, new))?;
    let path = file.to_string_lossy().into_owned();
    let Some(known) = world.objects.get(object) else { anyhow::bail!("there is no object {object}") };
    let _changing = locked(&known.changing);
    let change = locked(&known.name).begins(Some(new), world.cluster.life());
    let name = object_name(object);
    let mut arguments = vec!["put", &path, &name];
    arguments.extend(layout.iter().map(String::as_str));
    let ran = match killed_after_ms {
        Some(after_ms) => world.cluster.ask(&arguments, Duration::from_millis(after_ms))?,
        None => world.ask(&arguments)?,
    };
    let (mut name, life) = (locked(&known.name), world.cluster.life());
    if ran.is_ok() {
        name.acknowledged(change, life)
    } else {
        name.given_up(change, life)
    }
    drop(name);
    fs::remove_file(&file)?;
    Ok(ran)
}

fn delete(world: &World, object: usize) -> Result<Ran> {
    let Some(known) = world.objects.get(object) else { anyhow::bail!("there is no object {object}") };
    let _changing = locked(&known.changing);
    let mut name = locked(&known.name);
    let must_be_there = name.must_be_there();
    let change = name.begins(None, world.cluster.life());
    drop(name);
    let ran = world.ask(&["rm", &object_name(object)])?;
    let (mut name, life) = (locked(&known.name), world.cluster.life());
    if is_absent(&ran) && must_be_there {
        drop(name);
        world.violated(Kind::Lost, format!("{} is not there when it is removed", object_name(object)));
    } else if ran.is_ok() || is_absent(&ran) {
        name.acknowledged(change, life);
    } else {
        name.given_up(change, life);
    }
    Ok(ran)
}

/// Reads an object, or thousandths of it, and judges what came. The outcome for the tally.
pub fn get(world: &World, object: usize, range: Option<(u64, u64)>) -> Result<&'static str> {
    let Some(known) = world.objects.get(object) else { anyhow::bail!("there is no object {object}") };
    let (moment, length) = {
        let name = locked(&known.name);
        // A range is of a length: that of the content that is most likely there.
        (name.moment(), name.possible().iter().flatten().map(|content| content.bytes as u64).next())
    };
    let part = match range {
        None => None,
        Some((from, to)) => {
            let Some(length) = length else { return Ok("left out: nothing is there") };
            let (first, last) =
                (length * from / 1000, (length * to / 1000).max(length * from / 1000 + 1) - 1);
            Some((first.min(length - 1), last.min(length - 1)))
        }
    };
    let (file, object_name) = (world.scratch(), object_name(object));
    let path = file.to_string_lossy().into_owned();
    let text = part.map(|(first, last)| format!("{first}-{last}"));
    let mut arguments = vec!["get", &object_name, &path];
    arguments.extend(text.iter().flat_map(|text| ["--range", text]));
    let ran = world.ask_quietly(&arguments)?;
    if ran.status.is_none() {
        return Ok("hung");
    }
    let read = match (ran.is_ok(), is_absent(&ran)) {
        (true, _) => Read::Found(fs::read(&file)?),
        (false, true) => Read::Absent,
        (false, false) => {
            world.tell(format!("{arguments:?}: {}", said(&ran)));
            if let Err(kind) = typed(ran.status.and_then(|status| status.code()), &ran.stderr) {
                world.violated(kind, format!("{arguments:?} fails without saying why: {}", said(&ran)));
            }
            return Ok("failed");
        }
    };
    let _ = fs::remove_file(&file);
    let cut = |bytes: &[u8]| match part {
        None => Some(bytes.to_vec()),
        Some((first, last)) if first < bytes.len() as u64 => {
            let last = (last as usize).min(bytes.len() - 1);
            Some(bytes[first as usize..=last].to_vec())
        }
        Some(_) => None,
    };
    let judged = locked(&known.name).judge(world.plan.seed, moment, &read, cut);
    match judged {
        Ok(()) if read == Read::Absent => Ok("absent, rightly"),
        Ok(()) => Ok("right"),
        Err((kind, what)) => {
            let part = text.map_or(String::new(), |text| format!(" ({text})"));
            world.violated(kind, format!("{object_name}{part} {what}"));
            Ok("violation")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_a_sentence_and_a_code() {
        assert_eq!(typed(Some(1), "a warning\nerror: the catalog's file is damaged\n"), Ok(()));
        assert_eq!(typed(Some(1), ""), Err(Kind::UntrueStatus));
        assert_eq!(typed(Some(1), "error: \n"), Err(Kind::UntrueStatus));
        assert_eq!(typed(None, "error: cut off"), Err(Kind::UntrueStatus));
        assert_eq!(typed(Some(101), "thread 'main' panicked\nerror: x"), Err(Kind::Panic));
    }
}
