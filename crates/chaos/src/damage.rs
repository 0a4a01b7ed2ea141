//! Damage to the bytes of a file: pure functions, so that a draw always hurts the same places of the same bytes.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

/// The unit in which the catalog's file is written.
pub const PAGE_BYTES: usize = 4096;

/// A bit that is flipped near a key is at most so far from it, bytes: a row is not much longer.
const NEAR_BYTES: usize = 200;

/// Flips bits of pages that are not all zero. Returns the places in bytes; none if every page is zero.
pub fn flip_bits(bytes: &mut [u8], count: usize, random: &mut StdRng) -> Vec<usize> {
    let pages = bytes.chunks(PAGE_BYTES).enumerate();
    let used: Vec<(usize, usize)> = pages
        .filter(|(_, page)| page.iter().any(|byte| *byte != 0))
        .map(|(number, page)| (number * PAGE_BYTES, page.len()))
        .collect();
    let mut places = Vec::new();
    for _ in 0..count {
        let Some((page, length)) = used.choose(random) else { break };
        places.push(flip(bytes, page + random.random_range(0..*length), random));
    }
    places
}

/// Flips bits near places where one of `keys` stands: each near a key that is drawn anew, of those that are there. Returns the
/// places in bytes; none if no key is there.
pub fn flip_near(bytes: &mut [u8], keys: &[Vec<u8>], count: usize, random: &mut StdRng) -> Vec<usize> {
    // Searched before anything is flipped: a flip may hit a key.
    let found: Vec<(usize, Vec<usize>)> = keys
        .iter()
        .map(|key| (key.len(), occurrences(bytes, key)))
        .filter(|(_, at)| !at.is_empty())
        .collect();
    let mut places = Vec::new();
    for _ in 0..count {
        let Some((length, at)) = found.choose(random) else { break };
        let Some(at) = at.choose(random) else { break };
        let (first, last) = (at.saturating_sub(NEAR_BYTES), (at + length + NEAR_BYTES).min(bytes.len()));
        places.push(flip(bytes, random.random_range(first..last), random));
    }
    places
}

/// Flips a bit at the same distance from each place where one key stands, of those of `keys` that are there: whichever of them is
/// the row that counts, and not what an older page still holds, it is hit. Returns the places in bytes.
pub fn flip_near_all(bytes: &mut [u8], keys: &[Vec<u8>], random: &mut StdRng) -> Vec<usize> {
    let mut keys: Vec<&Vec<u8>> = keys.iter().collect();
    keys.shuffle(random);
    let mut found = keys.iter().map(|key| (key.len(), occurrences(bytes, key)));
    let Some((length, found)) = found.find(|(_, at)| !at.is_empty()) else { return Vec::new() };
    let (shift, bit) = (random.random_range(0..length + 2 * NEAR_BYTES), 1 << random.random_range(0..8));
    let places = found.iter().filter_map(|at| (at + shift).checked_sub(NEAR_BYTES));
    let places: Vec<usize> = places.filter(|at| *at < bytes.len()).collect();
    places.iter().for_each(|at| bytes[*at] ^= bit);
    places
}

/// Makes pages what they are in `before`, drawn from those that differ and are whole in both. Returns their numbers.
pub fn put_back_pages(now: &mut [u8], before: &[u8], count: usize, random: &mut StdRng) -> Vec<usize> {
    let pairs = now.chunks_exact(PAGE_BYTES).zip(before.chunks_exact(PAGE_BYTES)).enumerate();
    let mut pages: Vec<usize> =
        pairs.filter(|(_, (now, before))| now != before).map(|(number, _)| number).collect();
    pages.shuffle(random);
    pages.truncate(count);
    for page in &pages {
        let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        now[range.clone()].copy_from_slice(&before[range]);
    }
    pages
}

/// Cuts the end off. Returns the new length; `None` if there is nothing to cut.
pub fn cut_tail(bytes: &mut Vec<u8>, random: &mut StdRng) -> Option<usize> {
    let length = (!bytes.is_empty()).then(|| random.random_range(0..bytes.len()))?;
    bytes.truncate(length);
    Some(length)
}

fn flip(bytes: &mut [u8], at: usize, random: &mut StdRng) -> usize {
    bytes[at] ^= 1 << random.random_range(0..8);
    at
}

fn occurrences(bytes: &[u8], key: &[u8]) -> Vec<usize> {
    if key.is_empty() {
        return Vec::new();
    }
    let windows = bytes.windows(key.len()).enumerate();
    windows.filter(|(_, window)| *window == key).map(|(at, _)| at).collect()
}

/// The bytes of an id in hexadecimal digits; `None` if it is none.
pub fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::SeedableRng;

    fn random(seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed)
    }

    fn different_bits(a: &[u8], b: &[u8]) -> u32 {
        a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
    }

    #[test]
    fn bits_are_flipped_in_used_pages_only_and_a_draw_says_which() {
        // A used page, an empty one, and the beginning of a third.
        let mut whole = vec![0; 2 * PAGE_BYTES + 100];
        (whole[7], whole[2 * PAGE_BYTES]) = (1, 1);
        let mut pages = [0, 0, 0];
        for seed in 0..100 {
            let mut bytes = whole.clone();
            let places = flip_bits(&mut bytes, 1, &mut random(seed));
            assert_eq!((places.len(), different_bits(&bytes, &whole)), (1, 1));
            assert_ne!(bytes[places[0]], whole[places[0]]);
            pages[places[0] / PAGE_BYTES] += 1;
            let mut again = whole.clone();
            flip_bits(&mut again, 1, &mut random(seed));
            assert!(again == bytes);
        }
        assert!(pages[0] > 20 && pages[1] == 0 && pages[2] > 20, "{pages:?}");
        assert!(flip_bits(&mut [0; PAGE_BYTES], 3, &mut random(1)).is_empty());
        assert!(flip_bits(&mut [], 3, &mut random(1)).is_empty());
    }

    #[test]
    fn bits_are_flipped_near_a_key() {
        let mut whole = vec![0; 3 * PAGE_BYTES];
        let key = of_hex("00ff10").unwrap();
        whole[5000..5003].copy_from_slice(&key);
        // So near the ends that what is near is cut off.
        whole[..3].copy_from_slice(&key);
        *whole.last_chunk_mut().unwrap() = *b"name";
        let keys = [key, b"name".to_vec(), b"absent".to_vec(), Vec::new()];
        for seed in 0..200 {
            let mut bytes = whole.clone();
            let places = flip_near(&mut bytes, &keys, 2, &mut random(seed));
            assert_eq!(places.len(), 2);
            for at in places {
                let near = [(0, 3 + NEAR_BYTES), (5000 - NEAR_BYTES, 5003 + NEAR_BYTES), (12_084, 12_288)];
                assert!(near.iter().any(|(first, last)| (first..last).contains(&&at)), "{at}");
            }
            assert!(different_bits(&bytes, &whole) <= 2);
        }
        assert!(flip_near(&mut whole, &keys[2..], 2, &mut random(1)).is_empty());
    }

    #[test]
    fn bits_are_flipped_near_a_key_wherever_it_stands() {
        let mut whole = vec![0; 2 * PAGE_BYTES];
        let at = [1000, 1003, 5000, 8189];
        at.iter().for_each(|at| whole[*at..at + 3].copy_from_slice(b"key"));
        let keys = [b"absent".to_vec(), b"key".to_vec()];
        let mut distances = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut bytes = whole.clone();
            let places = flip_near_all(&mut bytes, &keys, &mut random(seed));
            assert!(places.len() == 4 || places.len() == 3, "near the last place the file ends");
            let is_at_one_distance = |(place, key)| place + at[0] == places[0] + key;
            assert!(places.iter().copied().zip(at).all(is_at_one_distance), "{places:?}");
            assert_eq!(different_bits(&bytes, &whole) as usize, places.len());
            distances.insert(places[0].abs_diff(at[0]));
        }
        assert!(distances.len() > 30 && *distances.last().unwrap() <= NEAR_BYTES + 3);
        assert!(flip_near_all(&mut whole, &keys[..1], &mut random(1)).is_empty());
    }

    #[test]
    fn pages_that_differ_are_put_back() {
        let before: Vec<u8> = [1, 2, 3].iter().flat_map(|page| [*page; PAGE_BYTES]).collect();
        // The file has grown, and its last page is not whole.
        let after: Vec<u8> = [1, 7, 8, 9].iter().flat_map(|page| [*page; PAGE_BYTES]).chain([5; 9]).collect();
        for seed in 0..20 {
            let mut bytes = after.clone();
            let pages = put_back_pages(&mut bytes, &before, 1, &mut random(seed));
            let &[page] = &pages[..] else { panic!("{pages:?}") };
            assert!(page == 1 || page == 2, "only they differ");
            let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            assert!(bytes[range.clone()] == before[range.clone()]);
            assert!(bytes[..range.start] == after[..range.start] && bytes[range.end..] == after[range.end..]);
        }
        let mut bytes = after.clone();
        assert_eq!(put_back_pages(&mut bytes, &before, 9, &mut random(1)).len(), 2);
        assert!(bytes[..3 * PAGE_BYTES] == before[..] && bytes.len() == after.len());
        assert!(put_back_pages(&mut bytes, &before, 9, &mut random(1)).is_empty());
    }

    #[test]
    fn a_tail_is_cut_and_something_always_goes() {
        for seed in 0..50 {
            let mut bytes = vec![1; 3];
            assert!(cut_tail(&mut bytes, &mut random(seed)).unwrap() < 3);
        }
        assert_eq!(cut_tail(&mut Vec::new(), &mut random(1)), None);
    }

    #[test]
    fn ids_are_bytes() {
        assert_eq!(of_hex("00ff10"), Some(vec![0, 255, 16]));
        assert!(of_hex("0").is_none() && of_hex("0g").is_none() && of_hex("äö").is_none());
    }
}
