//! A coordinator whose machine dies while a node registers.

use disk::{CrashDisk, PowerSwitch};
use model::NodeId;
use node::Config;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Twice the time after which a connection that gives no sign of life is given up.
const BOUND: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_coordinator_falls_silent_while_it_registers_calls_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let disk = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    let node = node::start(Config::new(NodeId(1), address, disk)).await.unwrap();
    // Who listens takes all that comes, and neither answers nor closes.
    let mut calls = Vec::new();
    for call in ["the first", "another"] {
        let accepted = tokio::time::timeout(BOUND, listener.accept()).await;
        let (mut connection, _) = accepted.expect(call).unwrap();
        let mut preface = [0; 24];
        connection.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "{call}");
        calls.push(connection);
    }
    node.shutdown().await;
}
