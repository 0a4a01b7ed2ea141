//! How stripes come and go: encodings, puts that are coded, stripes from their first block on, and such as take the place of others.

use super::*;

pub(super) fn encodings(w: &mut Watched) {
    let data = w.put("b");
    let first = w.encoding(&[(data, REPLICAS[0])], Some(PARITY_NODE));
    // Another attempt of the same flow, elsewhere.
    let again = w.encoding(&[(data, REPLICAS[0])], Some(FREE));
    assert_ne!(first.copies, again.copies);
    w.act("abort", |c| c.abort(&again, NOW)).unwrap();
    w.encoding(&[(data, REPLICAS[0])], Some(PARITY_NODE));
    w.act("give_up_flows", |c| c.give_up_flows(NOW)).unwrap();
    w.encode(data);
    w.act("delete", |c| c.delete("b", NOW)).unwrap();
    let data = w.put("b");
    w.encode(data);
    w.put("b");
}

/// Puts that are coded as they are written: one data block and its parity, the first of which is planned twice.
pub(super) fn coded(w: &mut Watched) {
    for name in ["coded", "coded", "given up"] {
        let put = PutId(w.id());
        let terms = GatherTerms {
            policy: ON_WRITE.to_owned(),
            code: "rs-1+1".to_owned(),
            rack_capacity: 0,
            target_racks: 0,
            spread: String::new(),
        };
        let (name, gathers) = (name.to_owned(), Some(terms));
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers };
        w.act("begin_put", |c| c.begin_put(&new)).unwrap();
        let (again, parity) = (PutPlace::Data(0), PutPlace::Parity { stripe: 0, member: 1 });
        let mut blocks: Vec<BlockId> = Vec::new();
        for (place, node) in [(PutPlace::Data(0), FREE), (again, REPLICAS[0]), (parity, PARITY_NODE)] {
            let (block, sums, last) = (BlockId(w.id()), Sums::default(), place == again);
            let (index, nodes) = (place.index(), vec![node]);
            let planned = PlannedBlock { block, index, stored_bytes: BYTES, sums, last, nodes, flow: FLOW };
            let seen = blocks.last().copied().filter(|_| place == parity).into_iter().collect();
            w.act("plan_coded", |c| c.plan_coded(put, 1, &[planned], &seen, (NOW, 100))).unwrap();
            blocks.push(block);
        }
        if new.name == "given up" {
            w.act("abort_put", |c| c.abort_put(put, NOW)).unwrap();
            continue;
        }
        let there = [(blocks[1], REPLICAS[0]), (blocks[2], PARITY_NODE)];
        let there = there.map(|(block, node)| CommittedBlock {
            block,
            stored_bytes: BYTES,
            sums: Sums::default(),
            nodes: vec![node],
            by: BTreeMap::new(),
        });
        w.act("commit_put", |c| c.commit_put(put, &there, BYTES, [0; 32], END)).unwrap();
    }
}

/// Stripes from their first block on: encoded, or gone with it.
pub(super) fn gatherings(w: &mut Watched) {
    for is_sealed in [false, true] {
        let stripe = StripeId(w.id());
        let planned = w.gathered(stripe, "waiting");
        if is_sealed {
            w.act("seal", |c| c.seal(stripe, NOW)).unwrap();
        }
        w.act("abort_put", |c| c.abort_put(planned.0, NOW)).unwrap();
        for overwrites in [false, true] {
            let stripe = StripeId(w.id());
            let planned = w.gathered(stripe, "waiting");
            w.commit(planned, &REPLICAS);
            if is_sealed {
                w.act("seal", |c| c.seal(stripe, NOW)).unwrap();
            }
            match overwrites {
                true => _ = w.put("waiting"),
                false => w.act("delete", |c| c.delete("waiting", NOW)).unwrap(),
            }
        }
    }
    let stripe = StripeId(w.id());
    let planned = w.gathered(stripe, "waiting");
    let data = w.commit(planned, &REPLICAS);
    w.act("seal", |c| c.seal(stripe, NOW)).unwrap();
    let intent = w.encoding_of(stripe, &[(data, REPLICAS[0])], Some(PARITY_NODE));
    w.commit_all(&intent, &[REPLICAS[0], PARITY_NODE]);
}

/// Two objects share a stripe: the first one's block dies with it and stays.
pub(super) fn deaths(w: &mut Watched) {
    for overwrite in [false, true] {
        let blocks = [w.put("c"), w.put("d")];
        let intent = w.encoding(&[(blocks[0], REPLICAS[0]), (blocks[1], REPLICAS[1])], None);
        w.commit_all(&intent, &REPLICAS);
        for name in ["c", "d"] {
            if overwrite {
                w.put(name);
            } else {
                w.act("delete", |c| c.delete(name, NOW)).unwrap();
            }
        }
    }
}

/// A stripe in which a block is dead becomes a smaller one.
pub(super) fn compactions(w: &mut Watched) {
    let blocks = [w.put("g"), w.put("h")];
    let intent = w.encoding(&[(blocks[0], REPLICAS[0]), (blocks[1], REPLICAS[1])], Some(PARITY_NODE));
    w.commit_all(&intent, &[REPLICAS[0], REPLICAS[1], PARITY_NODE]);
    let stripe = w.catalog.placement(blocks[0]).unwrap().stripe.unwrap().id;
    w.act("delete", |c| c.delete("h", NOW)).unwrap();
    let copy = BlockCopy { block: blocks[0], node: REPLICAS[0], generation: FIRST_GENERATION };
    let new = NewStripe {
        stripe: StripeId(w.id()),
        code: "rs-1+0".to_owned(),
        block_bytes: BYTES,
        members: vec![MemberState::Stored(blocks[0])],
        data: 1,
        kept: vec![copy],
    };
    let purpose = Purpose::Recode(Recoding { stripes: vec![new], replaces: vec![stripe] });
    let intent = w.act("begin", |c| c.begin(FLOW, 1, &purpose, &[], NOW)).unwrap();
    w.commit_all(&intent, &REPLICAS);
}
