//! The examples that need more than one server.

use super::*;

#[tokio::test]
async fn cluster() {
    let cluster = RedisCluster::start().await;
    // One address is enough.
    let lines = run("cluster", &[("CLUSTER", &cluster.urls()[2])]).await;
    let masters = line(&lines, "3 masters");
    for node in 0..3 {
        let port = cluster.node(node).port();
        assert!(numbers(masters).contains(&port.into()), "{port} is missing: {masters}");
    }
    assert_eq!(numbers(line(&lines, "8 orders"))[..], [5, 80], "{lines:#?}");
    let refused = line(&lines, "without a hash tag:");
    assert!(refused.contains("slot"), "{refused}");
    assert!(numbers(line(&lines, "with one:"))[0] > 0);
    for node in 0..3 {
        let keys = cluster.node(node).client().keys().await;
        assert!(!keys.is_empty(), "the locks are not spread over the masters");
        assert_eq!(locks(cluster.node(node)).await, [""; 0], "locks are left");
    }
}

/// The program does not notice that the master dies, but for one longer wait.
#[tokio::test]
async fn sentinel() {
    let master = RedisServer::start().await;
    let replica = RedisServer::builder().replica_of(master.port()).start().await;
    master.wait_for_replicas(1).await;
    let sentinels = Sentinels::builder("locks").start(&master, 1).await;
    let urls = sentinels.urls().join(",");
    let mut program = start("sentinel", &[("SENTINELS", &urls), ("MASTER", "locks")]);
    let mut lines = vec![program.next_line(BOUND).await];
    assert!(lines[0].contains(&format!("127.0.0.1:{}", master.port())), "{lines:#?}");
    master.kill();
    while let Some(line) = program.try_next_line(BOUND).await {
        lines.push(line);
    }
    assert!(program.wait(BOUND).await.success(), "{lines:#?}");
    let holds: Vec<_> = lines.iter().filter(|line| line.contains(": token ")).collect();
    assert_eq!(holds.len(), 20, "{lines:#?}");
    let last = holds.last().unwrap();
    assert!(last.contains(&format!("127.0.0.1:{}", replica.port())), "{lines:#?}");
    let tokens: Vec<u64> = holds.iter().map(|hold| numbers(hold)[1]).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{lines:#?}");
}

#[test]
fn without_addresses_they_say_what_to_set() {
    for (name, variable) in [("sentinel", "SENTINELS"), ("cluster", "CLUSTER")] {
        let mut program = std::process::Command::new(example(name));
        for name in VARIABLES {
            program.env_remove(name);
        }
        let output = program.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains(&format!("{variable} is not set; set it to")), "{said}");
    }
}
