//! Fingerprints: the definition, its golden values, linearity, and the faults that they find.

use gf::{
    CHUNK_BYTES, FINGERPRINT_BYTES, Field, Fingerprint, Kernels, Level, Matrix, Product, WORD_BYTES, kernels,
};
use proptest::prelude::*;

const WORDS: usize = CHUNK_BYTES / WORD_BYTES;

fn times(c: u8, x: u8) -> u8 {
    Field::Gf256.mul(c.into(), x.into()) as u8
}

/// Seeded noise (xorshift64*), so that failures repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    fn unit(&mut self) -> u8 {
        self.below(255) as u8 + 1
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 40) as u8).collect()
    }
}

/// The definition in words of 64 bytes, with neither rows nor Horner's rule.
fn by_definition(chunk: &[u8]) -> Fingerprint {
    let step = |word: &mut [u8], lanes: usize, factor: &dyn Fn(usize) -> u8| {
        word.rotate_right(8 * lanes);
        word.iter_mut().enumerate().for_each(|(at, byte)| *byte = times(factor(at / 8), *byte));
    };
    let mut sums = [0; FINGERPRINT_BYTES];
    for (j, word) in chunk.chunks(WORD_BYTES).enumerate() {
        let (mut a, mut b) = ([0; WORD_BYTES], [0; WORD_BYTES]);
        a[..word.len()].copy_from_slice(word);
        b[..word.len()].copy_from_slice(word);
        for _ in 0..j {
            step(&mut a, 1, &|_| 2);
            step(&mut b, 3, &|lane| if lane % 4 == 3 { 0xd8 } else { 1 });
        }
        sums.iter_mut().zip(a.iter().chain(&b)).for_each(|(sum, byte)| *sum ^= byte);
    }
    Fingerprint::from_bytes(sums)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_level_follows_the_definition(chunk in prop::collection::vec(any::<u8>(), 0..3000)) {
        let expected = by_definition(&chunk);
        for level in Level::available() {
            prop_assert_eq!(Kernels::at(level).unwrap().fingerprint(&chunk), expected, "{}", level);
        }
    }

    #[test]
    fn a_hop_is_a_multiplication_between_two_fingerprints(
        c in any::<u8>(),
        (local, acc) in (0..3000usize).prop_flat_map(|n| {
            (prop::collection::vec(any::<u8>(), 0..=n), prop::collection::vec(any::<u8>(), n))
        }),
    ) {
        let mut expected = acc.clone();
        expected.iter_mut().zip(&local).for_each(|(byte, mine)| *byte ^= times(c, *mine));
        for level in Level::available() {
            let kernels = Kernels::at(level).unwrap();
            let mut out = acc.clone();
            let seen = kernels.hop(c, &local, &mut out);
            prop_assert_eq!(&out, &expected, "{}", level);
            prop_assert_eq!(seen.local, by_definition(&local), "{}", level);
            prop_assert_eq!(seen.received, by_definition(&acc), "{}", level);
            let mut sent = seen.received;
            sent.add_scaled(c, &seen.local);
            prop_assert_eq!(sent, kernels.fingerprint(&out), "{}", level);
        }
    }
}

#[test]
fn whole_chunks_follow_the_definition() {
    let mut noise = Noise(11);
    for bytes in [CHUNK_BYTES, CHUNK_BYTES - 1, CHUNK_BYTES - 512, CHUNK_BYTES / 2 + 77] {
        let (local, acc) = (noise.bytes(bytes), noise.bytes(CHUNK_BYTES));
        let expected = by_definition(&local);
        for level in Level::available() {
            let kernels = Kernels::at(level).unwrap();
            assert_eq!(kernels.fingerprint(&local), expected, "{level}");
            assert_eq!(kernels.hop(7, &local, &mut acc.clone()).local, expected, "{level}");
        }
    }
}

/// The format on disk: these values never change within version 1. They were computed from the definition in another
/// language.
#[test]
fn golden() {
    let chunk: Vec<u8> = (0..CHUNK_BYTES as u32).map(|i| (((i * i) >> 7) ^ i) as u8).collect();
    let chunk = kernels().fingerprint(&chunk);
    assert_eq!(gf::FINGERPRINT_VERSION, 1);
    assert_eq!(hex(&chunk), CHUNK_GOLDEN);
    assert_eq!(hex(&chunk.shifted(1)), ONE_FURTHER_GOLDEN);
    assert_eq!(hex(&chunk.shifted(0x1234_5678_9abc_def0)), FAR_GOLDEN);
}

const CHUNK_GOLDEN: &str = "\
    2ffd01475565d2b42a26c254603c984195887918cb2d6d962ffdf4c7972de450\
    5a5a34c9daf6f536d1f0d7e53fa415aac3172fa5993cd49dda32c6c5470c771f\
    99a6cf62c12eee4f62217d1114f682096acbb47d08bff2aeadd9c860fee5a7c5\
    97df89c5aa01c1cac0ce0e360b2d792238fde0f40f86db7ae8b6e221d1ea0d2c";
const ONE_FURTHER_GOLDEN: &str = "\
    70e7ddf51e11abf4cd71d942bfc91a581700e1b35ae309cec2902075b1d6956d\
    95887918cb2d6d962ffdf4c7972de4505a5a34c9daf6f536d1f0d7e53fa415aa\
    c3172fa5993cd49dda32c6c5470c771f99a6cf62c12eee4f62217d1114f68209\
    6acbb47d08bff2aeadd9c860fee5a7c5af226931a5871ab02878ec17dac7740e";
const FAR_GOLDEN: &str = "\
    add5f620071d1fd2aca2258d7362a75d1ba3ca9cf036305eaee4fb3b31242f24\
    5af268cdf233662b0b312172619db0fe30cff044c0e944a41117af16c1b5bbb7\
    f38ab813454379cab3576af76e4df1e103369ae035707dd0e143898468df892f\
    853c57861b5ab717e5e65c3dbdcd65a7c4442e65b40f207f6ccb75d441c4d045";

fn hex(fingerprint: &Fingerprint) -> String {
    fingerprint.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parities of random data by a 4×3 matrix: fingerprints of chunks and of whole blocks obey the same matrix.
#[test]
fn fingerprints_obey_the_generator() {
    let mut noise = Noise(5);
    let generator =
        Matrix::from_rows(Field::Gf256, &[[1, 1, 1], [1, 2, 4], [1, 4, 16], [0, 9, 200]]).unwrap();
    let product = Product::new(&generator).unwrap();
    let (mut data_block, mut parity_block) = ([Fingerprint::ZERO; 3], [Fingerprint::ZERO; 4]);
    for chunk in [3, 0, 900, 1] {
        let data: Vec<Vec<u8>> = [CHUNK_BYTES, 700, 0].map(|bytes| noise.bytes(bytes)).into();
        let mut parity = vec![vec![0; CHUNK_BYTES]; 4];
        let mut seen = [Fingerprint::ZERO; 3];
        product.apply_checked(
            &data.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
            &mut seen,
        );
        let mut expected = [Fingerprint::ZERO; 4];
        product.combine(&seen, &mut expected);
        for (g, (parity, expected)) in parity.iter().zip(&expected).enumerate() {
            let fingerprint = kernels().fingerprint(parity);
            assert_eq!(fingerprint, *expected);
            parity_block[g].fold(chunk, &fingerprint);
        }
        for (i, (data, seen)) in data.iter().zip(&seen).enumerate() {
            assert_eq!(*seen, kernels().fingerprint(data));
            data_block[i].fold(chunk, seen);
        }
    }
    let mut expected = [Fingerprint::ZERO; 4];
    product.combine(&data_block, &mut expected);
    assert_eq!(parity_block, expected);
}

/// A block of three symbols, four chunks each: folded as a whole, and from the symbols' own fingerprints.
#[test]
fn symbols_make_up_their_block() {
    let mut noise = Noise(6);
    let (mut block, mut from_symbols) = (Fingerprint::ZERO, Fingerprint::ZERO);
    for symbol in 0..3 {
        let mut of_symbol = Fingerprint::ZERO;
        for chunk in 0..4 {
            let fingerprint = kernels().fingerprint(&noise.bytes(100));
            of_symbol.fold(chunk, &fingerprint);
            block.fold(symbol * 4 + chunk, &fingerprint);
        }
        from_symbols.add_scaled(1, &of_symbol.shifted(symbol * 4));
    }
    assert_eq!(block, from_symbols);
    assert_eq!(block.shifted(u64::MAX), block);
    assert_eq!(block.shifted(1_000_000).shifted(u64::MAX - 1_000_000), block);
}

/// Faults are judged by the fingerprint of the difference alone, since it is linear.
fn found(difference: &[u8]) -> bool {
    !kernels().fingerprint(difference).is_zero()
}

#[test]
fn one_and_two_byte_faults_are_found() {
    let mut noise = Noise(1);
    let mut difference = vec![0; CHUNK_BYTES];
    for at in 0..CHUNK_BYTES {
        difference[at] = noise.unit();
        assert!(found(&difference[..at + 1]), "byte {at}");
        let other = noise.below(CHUNK_BYTES);
        difference[other] ^= noise.unit();
        assert!(found(&difference) || difference.iter().all(|&byte| byte == 0), "bytes {at} and {other}");
        (difference[at], difference[other]) = (0, 0);
    }
}

/// All pairs of bytes at once: e at one place and e′ at another cancel only if both of their columns, each one byte of
/// either sum, are proportional.
#[test]
fn no_two_bytes_of_a_lane_column_cancel() {
    let mut columns = std::collections::HashSet::new();
    for (word, lane) in (0..WORDS).flat_map(|word| (0..8).map(move |lane| (word, lane))) {
        let mut chunk = vec![0; CHUNK_BYTES];
        chunk[word * WORD_BYTES + lane * 8] = 1;
        let fingerprint = kernels().fingerprint(&chunk);
        let hit: Vec<(usize, u8)> =
            fingerprint.as_bytes().iter().copied().enumerate().filter(|&(_, byte)| byte != 0).collect();
        let [(at, weight), (other_at, other_weight)] = hit[..] else { panic!("one byte of each sum") };
        let ratio = Field::Gf256.div(weight.into(), other_weight.into()).unwrap();
        assert!(columns.insert((at, other_at, ratio)), "word {word}, lane {lane}");
    }
}

#[test]
fn faults_of_one_byte_lane_and_bursts_are_found() {
    let mut noise = Noise(2);
    for draw in 0..20_000 {
        let mut difference = vec![0; CHUNK_BYTES];
        let lane = noise.below(WORD_BYTES);
        let (from, words) = (noise.below(WORDS - 2), 2 + noise.below(if draw % 2 == 0 { 6 } else { WORDS }));
        for word in from..WORDS.min(from + words) {
            difference[word * WORD_BYTES + lane] = noise.unit();
        }
        assert!(found(&difference), "draw {draw}: byte {lane} of words {from}…");
    }
}

/// Any words, and the ones that lie 255 or 510 apart, where plain powers of one constant repeat — also for words all
/// of whose lanes are equal, which no move of lanes changes.
#[test]
fn exchanged_words_are_found() {
    let mut noise = Noise(3);
    for draw in 0..20_000 {
        let first = noise.below(WORDS - 1);
        let distance = [255, 510, 8, 1 + noise.below(WORDS - 1)][draw % 4].min(WORDS - 1 - first).max(1);
        let period = [1, 2, 4, 8, 16, 32, 64][noise.below(7)];
        let pattern = noise.bytes(period);
        let word: Vec<u8> = pattern.iter().copied().cycle().take(WORD_BYTES).collect();
        let mut difference = vec![0; CHUNK_BYTES];
        for at in [first, first + distance] {
            difference[at * WORD_BYTES..][..WORD_BYTES].copy_from_slice(&word);
        }
        assert!(
            found(&difference) || word == [0; WORD_BYTES],
            "words {first} and {} ({word:?})",
            first + distance
        );
    }
}

#[test]
fn exchanged_runs_of_words_and_chunks_are_found() {
    let mut noise = Noise(4);
    for draw in 0..5_000 {
        let chunk = noise.bytes(CHUNK_BYTES);
        let bytes = WORD_BYTES << noise.below(8);
        let mut exchanged = chunk.clone();
        let (one, other) = (noise.below(CHUNK_BYTES / bytes), noise.below(CHUNK_BYTES / bytes));
        exchanged[one * bytes..][..bytes].copy_from_slice(&chunk[other * bytes..][..bytes]);
        exchanged[other * bytes..][..bytes].copy_from_slice(&chunk[one * bytes..][..bytes]);
        let differs = exchanged != chunk;
        let (chunk, exchanged) = (kernels().fingerprint(&chunk), kernels().fingerprint(&exchanged));
        assert_eq!(chunk != exchanged, differs, "draw {draw}: runs {one} and {other} of {bytes} bytes");
    }
    let (a, b) =
        (kernels().fingerprint(&noise.bytes(CHUNK_BYTES)), kernels().fingerprint(&noise.bytes(CHUNK_BYTES)));
    for distance in (1..600).chain([1 << 20, 1 << 40]) {
        let (mut in_order, mut exchanged) = (Fingerprint::ZERO, Fingerprint::ZERO);
        in_order.fold(0, &a);
        in_order.fold(distance, &b);
        exchanged.fold(0, &b);
        exchanged.fold(distance, &a);
        assert_ne!(in_order, exchanged, "chunks {distance} apart");
    }
}
