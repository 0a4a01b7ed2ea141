//! XOR codes end to end: what is archived with them is read and made again with any so many blocks lost as they survive, by the
//! symbols that their recoveries choose.

use crate::{archive, rapidraid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn array_codes_live() {
    for code in ["rdp-5", "star-5-k3"] {
        archive::life(code).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bit_matrix_codes_live() {
    for code in ["crs-good-3+3-w3", "liber8tion-3+2"] {
        archive::life(code).await;
    }
}

/// Parities inside the data nodes: the data blocks are virtual, and their symbols lie spread over the stored ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vertical_codes_live() {
    for code in ["xcode-5", "hdp-5"] {
        rapidraid::life(code, 2).await;
    }
}
