//! What stages calculate, on bytes alone, against one multiplication at a time.

use super::super::algebra::{Wrong, add, add_known, combine, hop, hop_part};
use flow::interpret;
use gf::{CHUNK_BYTES, Field, Fingerprint, Matrix, Product, kernels};

const LENGTHS: [usize; 7] = [0, 1, 1023, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 77];

fn noise(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * 7919 + seed * 104_729) >> 3) as u8).collect()
}

fn prints(bytes: &[u8]) -> Vec<Fingerprint> {
    bytes.chunks(CHUNK_BYTES).map(|chunk| kernels().fingerprint(chunk)).collect()
}

fn flat(prints: &[Fingerprint]) -> Vec<u8> {
    prints.iter().flat_map(|print| *print.as_bytes()).collect()
}

#[test]
fn a_hop_adds_its_own_bytes_to_what_arrives_and_its_fingerprints_too() {
    for arrived_bytes in LENGTHS {
        for local_bytes in LENGTHS.into_iter().filter(|&bytes| bytes <= arrived_bytes) {
            for coefficient in [1, 2, 0x8e] {
                let (local, arrived) = (noise(1, local_bytes), noise(2, arrived_bytes));
                let coefficients = [1, u16::from(coefficient)];
                let sum = interpret::combine(Field::Gf256, &coefficients, &[&arrived, &local], arrived_bytes);
                let recorded = prints(&local);
                let recorded = |piece: usize| Some(recorded.get(piece).copied().unwrap_or_default());
                let (mut payload, mut promised) = (arrived.clone(), flat(&prints(&arrived)));
                assert_eq!(hop(coefficient, &local, &mut payload, &mut promised, recorded), Ok(()));
                assert!(
                    payload == sum && promised == flat(&prints(&sum)),
                    "{local_bytes} to {arrived_bytes}"
                );

                let damaged = |bytes: &[u8]| -> Vec<u8> {
                    bytes
                        .iter()
                        .enumerate()
                        .map(|(i, b)| if i + 1 == bytes.len() { b ^ 8 } else { *b })
                        .collect()
                };
                let last = |bytes: usize| bytes.div_ceil(CHUNK_BYTES).saturating_sub(1);
                let mut promised = flat(&prints(&arrived));
                if arrived_bytes > 0 {
                    let wrong = hop(coefficient, &local, &mut damaged(&arrived), &mut promised, recorded);
                    assert_eq!(wrong, Err(Wrong::Received(last(arrived_bytes))));
                }
                let mut promised = flat(&prints(&arrived));
                if local_bytes > 0 {
                    let local = damaged(&local);
                    let wrong = hop(coefficient, &local, &mut arrived.clone(), &mut promised, recorded);
                    assert_eq!(wrong, Err(Wrong::Local(last(local_bytes))));
                }
                if arrived_bytes <= CHUNK_BYTES {
                    let mut part = arrived.clone();
                    let seen = hop_part(coefficient, &local, &mut part, recorded(0)).unwrap();
                    assert!(part == sum && seen.received == kernels().fingerprint(&arrived));
                }
            }
        }
    }
}

#[test]
fn sums_are_those_of_their_inputs() {
    for bytes in LENGTHS.into_iter().filter(|&bytes| bytes > 0) {
        for coefficient in [1, 3, 0xff] {
            let (region, old) = (noise(3, bytes), noise(4, bytes + 9));
            let coefficients = [1, u16::from(coefficient)];
            let wanted = interpret::combine(Field::Gf256, &coefficients, &[&old, &region], bytes + 9);
            let (mut sum, mut known) = (old.clone(), prints(&region));
            assert_eq!(add_known(coefficient, &region, &known, &mut sum), Ok(()));
            assert!(sum == wanted);
            known.last_mut().unwrap().add_scaled(1, &kernels().fingerprint(&[1]));
            let last = bytes.div_ceil(CHUNK_BYTES) - 1;
            assert_eq!(add_known(coefficient, &region, &known, &mut old.clone()), Err(last));
            if bytes + 9 <= CHUNK_BYTES {
                let (mut sum, mut made) = (old.clone(), kernels().fingerprint(&old));
                add(coefficient, &region, &kernels().fingerprint(&region), &mut sum, &mut made);
                assert!(sum == wanted && made == kernels().fingerprint(&wanted));
            }
        }
    }
}

#[test]
fn any_shape_is_the_product_of_its_matrix() {
    let rows = [[1, 0, 7], [0x53, 1, 0], [2, 3, 4], [0, 0, 0]];
    let matrix = Matrix::from_rows(Field::Gf256, &rows).unwrap();
    let product = Product::new(&matrix).unwrap();
    for bytes in LENGTHS.into_iter().filter(|&bytes| bytes <= CHUNK_BYTES) {
        let inputs = [noise(5, bytes), noise(6, bytes / 2), noise(7, bytes.saturating_sub(1))];
        let regions = inputs.each_ref().map(Vec::as_slice);
        let promised = regions.map(|region| kernels().fingerprint(region));
        let mut computed: Vec<Vec<u8>> = rows.iter().map(|_| vec![0xee; bytes]).collect();
        let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
        let (mut seen, mut made) = (vec![Fingerprint::ZERO; 3], vec![Fingerprint::ZERO; 4]);
        let mut run = |promised: [Fingerprint; 3]| {
            let both = (&mut seen[..], &mut made[..]);
            combine(&product, &regions, &mut outputs, both, |row| Some(promised[row]))
        };
        let mut wrong = promised;
        wrong[1].add_scaled(1, &kernels().fingerprint(&[1]));
        assert_eq!((run(wrong), run(promised)), (Err(1), Ok(())));
        for (row, computed) in computed.iter().enumerate() {
            assert!(*computed == interpret::combine(Field::Gf256, &rows[row], &regions, bytes));
            assert!(made[row] == kernels().fingerprint(computed));
        }
    }
}
