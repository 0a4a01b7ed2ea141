//! The codecs of HDFS 3, byte for byte.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use codes::Code;

/// Bytes of a unit.
const UNIT: usize = 16;

/// What Hadoop 3.5.0's own encoders (`CodecUtil.createRawEncoder`, pure Java) made of [`data`]: code and parities.
const MADE_BY_HADOOP: &[(&str, &[&str])] = &[
    (
        "rs-cauchy-6+3",
        &[
            "649e61d4771ad6ae52c7274648890a5b",
            "a3866302e1220a86ac7acb218e6dd707",
            "f07d3f7357a22cd039655799c35f932b",
        ],
    ),
    ("rs-cauchy-3+2", &["2b80ef4c2a91c22107ecc320069df6d5", "13b16633a9f8371bf8238da1427a6e62"]),
    (
        "rs-cauchy-10+4",
        &[
            "b3ed5fb8bf3f5291704d167acc1ed666",
            "c3935bb96318daa3847637c6b7d5942a",
            "13ab31f0cd91cf451a515b27d92029a4",
            "125f760437b648925000921ae2320aad",
        ],
    ),
    (
        "rs-legacy-6+3",
        &[
            "8374c07e4f656d01a8893eda90c10988",
            "ed1a1f8071c19b17cf2096a832abe371",
            "94b95f6790ffeaf3257660a30499be74",
        ],
    ),
    ("rs-legacy-3+2", &["597f05537fb9cebfb4b5e8999209c346", "7a13acbd50c903b5ff31299fd5f136b4"]),
    ("xor-2+1", &["5abb9c7dde3f60012243e485a6c76809"]),
];

/// Byte `i` of data unit `j`.
fn data(j: usize, i: usize) -> u8 {
    (31 * (j + 1) * (i + 1) + 7 * j * j + i) as u8
}

#[test]
fn parities_are_those_that_hadoop_makes() {
    for (name, parities) in MADE_BY_HADOOP {
        let code = Code::parse(name).unwrap();
        assert_eq!((code.n() - code.k(), code.tolerance()), (parities.len(), parities.len()), "{name}");
        for (row, expected) in (code.k()..).zip(*parities) {
            let term = |i: usize, j: usize| code.field().mul(code.generator().get(row, j), data(j, i).into());
            let byte = |i: usize| (0..code.k()).fold(0, |sum, j| sum ^ term(i, j));
            let made: String = (0..UNIT).map(|i| format!("{:02x}", byte(i))).collect();
            assert_eq!(made, *expected, "{name}, block {row}");
        }
    }
}
