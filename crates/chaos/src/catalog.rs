//! What the catalog says, asked through `ls` and `stat`: where it counts on copies, and what may be hurt without losing anything.

use crate::plan::codes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A copy as `stat` names it: block and node.
pub type Place = (String, u32);

/// The catalog as commands show it.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Names of objects and the nodes of their blocks.
    pub objects: BTreeSet<String>,
    /// Every copy that is counted on.
    pub places: BTreeSet<Place>,
    /// The nodes of each block that is in no stripe.
    pub replicas: BTreeMap<String, Vec<u32>>,
    /// How many copies those are to have.
    pub wanted: BTreeMap<String, usize>,
    /// Length of each block that has one.
    pub lengths: BTreeMap<String, u64>,
    /// Blocks that no living node has, as far as `stat` says.
    pub missing: u64,
    /// Blocks of objects, and parities, that have fewer copies on living nodes than they are to have.
    pub short: u64,
    /// Stripes by their ids.
    stripes: BTreeMap<String, Stripe>,
    /// Which stripe a block is in.
    stripe_of: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct Stripe {
    code: String,
    /// Stored members. Others are known to be zero, or exist only as replicas.
    stored: Vec<String>,
}

impl View {
    /// Adds what `stat` answered about an object.
    pub fn add(&mut self, stat: &Value) {
        self.objects.extend(stat["name"].as_str().map(str::to_owned));
        for block in stat["blocks"].as_array().into_iter().flatten() {
            let Some(id) = block["block"].as_str() else { continue };
            self.lengths.insert(id.to_owned(), block["stored_bytes"].as_u64().unwrap_or(0));
            let nodes = block["nodes"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            let nodes: Vec<u32> = nodes.map(|node| node as u32).collect();
            self.places.extend(nodes.iter().map(|&node| (id.to_owned(), node)));
            let living = block["living_nodes"].as_array().map_or(0, Vec::len);
            match &block["stripe"] {
                Value::Null => {
                    self.short +=
                        u64::from(block["wanted"].as_u64().is_none_or(|wanted| wanted > living as u64));
                    self.missing += u64::from(living == 0);
                    let wanted = block["wanted"].as_u64().unwrap_or(0);
                    self.wanted.insert(id.to_owned(), wanted as usize);
                    self.replicas.insert(id.to_owned(), nodes);
                }
                stripe => self.add_stripe(id, stripe),
            }
        }
    }

    fn add_stripe(&mut self, block: &str, status: &Value) {
        let Some(id) = status["stripe"].as_str().map(str::to_owned) else { return };
        self.stripe_of.insert(block.to_owned(), id.clone());
        if self.stripes.contains_key(&id) {
            return;
        }
        let code = status["code"].as_str().unwrap_or_default().to_owned();
        let mut stripe = Stripe { code, stored: Vec::new() };
        // What stands for virtual members is what counts.
        let members = status["members"].as_array().into_iter().flatten();
        for member in members.filter(|member| member["is_virtual"] != true) {
            let bytes = member["stored_bytes"].as_u64().unwrap_or(0);
            // A stored member may have no bytes; it is not absent because of that.
            let Some(member_id) = member["block"].as_str().filter(|id| !id.is_empty()) else { continue };
            let is_missing = u64::from(member["living"] != true);
            (self.missing, self.short) = (self.missing + is_missing, self.short + is_missing);
            self.lengths.insert(member_id.to_owned(), bytes);
            self.stripe_of.insert(member_id.to_owned(), id.clone());
            let node = member["node"].as_u64().filter(|node| *node > 0);
            self.places.extend(node.map(|node| (member_id.to_owned(), node as u32)));
            stripe.stored.push(member_id.to_owned());
        }
        self.stripes.insert(id, stripe);
    }

    /// Returns the number of stripes per code.
    pub fn stripes_by_code(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        self.stripes.values().for_each(|stripe| *counts.entry(stripe.code.as_str()).or_default() += 1);
        counts
    }

    /// Returns the blocks that count a copy on the node.
    pub fn counted_at(&self, node: u32) -> impl Iterator<Item = &str> {
        self.places.iter().filter(move |(_, at)| *at == node).map(|(block, _)| block.as_str())
    }

    /// Returns the number of machines on which a block and its replicas or stripe must lie.
    pub fn hosts_needed(&self, block: &str) -> usize {
        match self.stripe_of.get(block).and_then(|id| self.stripes.get(id)) {
            Some(stripe) => stripe.stored.len(),
            None => self.wanted.get(block).copied().unwrap_or(1),
        }
    }

    /// How many more copies of this block, or members of its stripe, may be lost while `is_whole` holds for the others. A
    /// block that the catalog does not show is nobody's.
    pub fn margin(&self, block: &str, is_whole: impl Fn(&Place) -> bool) -> usize {
        let whole = |block: &str| {
            let from = (block.to_owned(), 0);
            let places = self.places.range(from..).take_while(|place| place.0 == block);
            places.filter(|place| is_whole(place)).count()
        };
        match self.stripe_of.get(block).and_then(|id| self.stripes.get(id)) {
            Some(stripe) => {
                let lost = stripe.stored.iter().filter(|member| whole(member) == 0).count();
                // A short stripe survives as many losses: zero members are never lost.
                codes::tolerance(&stripe.code).saturating_sub(lost)
            }
            None if self.lengths.contains_key(block) => whole(block).saturating_sub(1),
            None => usize::MAX,
        }
    }
}

/// Blocks whose copies were counted on and whole, and are gone though nothing could make them superfluous: while no client
/// works. `after` is what the catalog says now, if it can say so of everything: a block that came into a stripe, or left one, may
/// have lost copies rightly, and so may one whose object was replaced by a put that had been under way.
pub fn vanished(
    before: &View,
    whole_before: &BTreeSet<Place>,
    whole_now: &BTreeSet<Place>,
    after: Option<&View>,
) -> Vec<String> {
    let count = |block: &str, whole: &BTreeSet<Place>, counted: Option<&BTreeSet<Place>>| {
        let from = (block.to_owned(), 0);
        let places = whole.range(from..).take_while(|place| place.0 == block);
        places.filter(|place| counted.is_none_or(|counted| counted.contains(place))).count()
    };
    let mut vanished = Vec::new();
    for block in before.lengths.keys() {
        let had = count(block, whole_before, Some(&before.places));
        let needed = had.min(before.wanted.get(block).copied().unwrap_or(1));
        let has = count(block, whole_now, None);
        let is_excused = after.is_some_and(|after| {
            let has_all_objects = before.objects.is_subset(&after.objects);
            match after.lengths.contains_key(block) {
                true => before.stripe_of.get(block) != after.stripe_of.get(block),
                false => has_all_objects,
            }
        });
        if has < needed && !is_excused {
            vanished.push(format!("{block} had {had} copies, {needed} of them needed, and has {has}"));
        }
    }
    vanished
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn margins_count_what_is_whole() {
        let mut view = View::default();
        let member = |block: &str, node: u32, bytes: u64| json!({"block": block, "node": node, "living": node != 0, "stored_bytes": bytes});
        view.add(&json!({"name": "x", "blocks": [
            {"block": "a", "stored_bytes": 5, "nodes": [1, 2, 3], "living_nodes": [1], "stripe": null},
            {"block": "b", "stored_bytes": 5, "nodes": [1], "living_nodes": [1], "stripe":
                {"code": "rs-2+2", "stripe": "s", "members": [
                    member("b", 1, 5), member("", 0, 0), member("p", 2, 5), member("q", 0, 5)]}},
        ]}));
        let all = |_: &Place| true;
        assert_eq!(view.margin("a", all), 2);
        assert_eq!(view.margin("a", |place| place.1 != 2), 1);
        // b and p are there, one is zero, q is lost: three of four, and two are needed.
        assert_eq!(view.margin("b", all), 1);
        assert_eq!(view.margin("p", |place| place.0 != "p"), 0);
        assert_eq!(view.margin("unknown", all), usize::MAX);
        assert_eq!(view.missing, 1);
        let stands = |block: &str| json!({"block": block, "node": 0, "living": false, "stored_bytes": 5, "is_virtual": true});
        view.add(&json!({"name": "y", "blocks": [{"block": "d", "stored_bytes": 5, "nodes": [], "living_nodes": [], "stripe":
            {"code": "rapidraid-2+2", "stripe": "t", "members": [stands("d"), member("u", 1, 5), member("v", 2, 5)]}}]}));
        assert_eq!((view.margin("d", all), view.missing), (2, 1));
        assert_eq!(view.margin("d", |place| place.0 != "u"), 1);
    }

    #[test]
    fn copies_that_are_needed_and_gone_are_found() {
        let replica = |block: &str, nodes: [u32; 3]| {
            json!({"block": block, "stored_bytes": 5, "nodes": nodes,
            "living_nodes": nodes, "wanted": 2, "stripe": null})
        };
        let member =
            |block: &str, node: u32| json!({"block": block, "node": node, "living": true, "stored_bytes": 5});
        let coded = |block: &str| {
            json!({"block": block, "stored_bytes": 5, "nodes": [1], "living_nodes": [1], "stripe":
            {"code": "rs-2+2", "stripe": "s", "members": [member(block, 1), member("p", 2)]}})
        };
        let view = |blocks: Value| {
            let mut view = View::default();
            view.add(&json!({"name": "x", "blocks": blocks}));
            view
        };
        let before = view(json!([replica("a", [1, 2, 3]), coded("b")]));
        let whole = |places: &[(&str, u32)]| -> BTreeSet<Place> {
            places.iter().map(|(block, node)| ((*block).to_owned(), *node)).collect()
        };
        let all = whole(&[("a", 1), ("a", 2), ("a", 3), ("b", 1), ("p", 2)]);
        let count =
            |now: &[(&str, u32)], after: Option<&View>| vanished(&before, &all, &whole(now), after).len();
        // A surplus copy may go, and others may move.
        assert_eq!(count(&[("a", 1), ("a", 2), ("b", 1), ("p", 2)], None), 0);
        assert_eq!(count(&[("a", 4), ("a", 5), ("b", 3), ("p", 4)], None), 0);
        assert_eq!(count(&[("a", 1), ("b", 1), ("p", 2)], Some(&before)), 1);
        assert_eq!(count(&[("a", 1), ("a", 2)], Some(&before)), 2);
        // What the catalog made of them since may explain it, and an object that it lost does not.
        let archived = view(json!([coded("a"), coded("b")]));
        assert_eq!(count(&[("a", 1), ("b", 1), ("p", 2)], Some(&archived)), 0);
        let replaced = view(json!([replica("c", [1, 2, 3])]));
        assert_eq!(count(&[], Some(&replaced)), 0);
        assert_eq!(count(&[], Some(&View::default())), 3);
        // What was hurt or missing before is nobody's fault now.
        assert_eq!(vanished(&before, &whole(&[("a", 1)]), &whole(&[("a", 1)]), None).len(), 0);
    }
}
