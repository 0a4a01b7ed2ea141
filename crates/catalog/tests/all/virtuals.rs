//! A catalog that is made anew of what nodes have, among it codewords that stand for virtual blocks.

#![allow(clippy::unwrap_used)] // a test may

use catalog::backend::Memory;
use catalog::{Catalog, Choices, FIRST_GENERATION, Findings, FoundBlock, Recovered, RecoveredAt};
use codes::Codebook;
use model::note::{NotedMember, StripeNote};
use model::{BlockId, ClusterId, Contents, Location, MemberState, NodeId, Part, Stamp, StripeId, Sums};

const BYTES: u64 = 10;

/// Of `rapidraid-2+2`: data blocks 1 and 2, each an object, and the codeword's blocks 11 to 14.
fn contents(block: u128) -> Contents {
    let part = Part { name: format!("object-{block}"), version: 1, offset: 0, last: true };
    Contents { stored_bytes: BYTES, sums: Sums::default(), part: (block < 10).then_some(part) }
}

fn note() -> StripeNote {
    let noted = |block| NotedMember {
        block: BlockId(block),
        generation: FIRST_GENERATION,
        contents: contents(block),
    };
    let data = (1..=2).map(|block| MemberState::Virtual(noted(block)));
    let codeword = (11..=14).map(|block| MemberState::Stored(noted(block)));
    StripeNote {
        stripe: StripeId(1),
        code: "rapidraid-2+2".to_owned(),
        index: 2,
        block_bytes: BYTES,
        members: data.chain(codeword).collect(),
    }
}

/// The catalog made of these blocks, each on the node of its number.
fn recovered(blocks: &[u32]) -> (Catalog, Recovered) {
    let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    catalog.begin_term(1, 0).unwrap();
    let copy = |&number: &u32| FoundBlock {
        block: BlockId(number.into()),
        location: Location { node: NodeId(number), generation: FIRST_GENERATION },
        facts: contents(number.into()),
        stripe: (number > 10).then(note),
        birth: Stamp::default(),
    };
    let findings = Findings { found: blocks.iter().map(copy).collect(), ..Findings::default() };
    let codes = Codebook::default();
    let recoverable = |code: &str, usable: &[bool]| codes.recoverable(code, usable);
    let at = RecoveredAt { now_ms: 0, created_ms: 0 };
    let came = catalog.recover(&findings, &Choices::default(), 2, recoverable, at).unwrap();
    (catalog, came)
}

/// Where the two data blocks are counted on, and whether they are virtual.
fn data(catalog: &Catalog) -> [(usize, bool); 2] {
    [1, 2].map(|block| {
        let facts = catalog.placement(BlockId(block)).unwrap().facts;
        (facts.locations.len(), facts.is_virtual())
    })
}

#[test]
fn a_codeword_that_gives_its_data_stands_for_them_and_replicas_that_are_found_are_not_counted() {
    for blocks in [&[11, 12, 13, 14][..], &[12, 13], &[1, 2, 11, 12, 13, 14]] {
        let (catalog, came) = recovered(blocks);
        assert_eq!((came.objects, came.stripes), (2, 1), "{blocks:?}");
        assert_eq!(data(&catalog), [(0, true); 2], "{blocks:?}");
    }
}

#[test]
fn of_a_codeword_that_does_not_the_replicas_count_if_they_are_all_there() {
    let (catalog, came) = recovered(&[1, 2, 11]);
    assert_eq!((came.objects, came.stripes), (2, 0));
    assert_eq!(data(&catalog), [(1, false); 2]);
}

/// Block 11 is made of data block 1 alone, of which no replica is left: without the stripe it would be lost, and without its
/// replica data block 2.
#[test]
fn what_only_a_broken_codeword_gives_and_what_only_a_replica_has_are_both_taken() {
    let (catalog, came) = recovered(&[2, 11]);
    assert_eq!((came.objects, came.stripes, came.incomplete.len()), (2, 1, 0), "{came:?}");
    assert_eq!(data(&catalog), [(0, true), (1, true)]);
}
