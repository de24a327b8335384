//! Names that would control a terminal, readers that leave, and times without an end.

use tokio::io::{AsyncReadExt, BufReader};
use tokio::time::timeout;

use crate::world::{SOON, World, begin, service};

/// Whatever a name or a service is called, it is text on its own line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_cannot_control_the_terminal() {
    let world = World::start().await;
    let odd = service(&world.server, "a\u{1b}[31mb\n\u{2028}c\u{202e}").await;
    let long = "x".repeat(512);
    let names = [
        "<script>alert(1)</script>",
        "quotes \"'`$(id)",
        "right \u{202e}to\u{2066} left",
        "line\u{2028}separator",
        "שלום 42",
        "漢字 🔒",
        &long,
    ];
    let mut held = Vec::new();
    for name in names {
        held.push(odd.mutex(name).lock().await.unwrap());
    }
    for command in [&["ls"][..], &["clients"], &["show", names[2]], &["release", names[2]]] {
        let ran = world.run(command).await;
        assert_eq!(ran.stderr, "", "{ran:?}");
        for hidden in ['\u{1b}', '\u{2028}', '\u{202e}', '\u{2066}', '\r'] {
            assert!(!ran.stdout.contains(hidden), "{hidden:?} in {ran:?}");
        }
    }
    let listed = world.run(&["ls"]).await;
    assert_eq!(listed.stdout.lines().count(), 1 + names.len(), "a line for each: {listed:?}");
    assert!(listed.stdout.contains("<script>alert(1)</script>") && listed.stdout.contains(&long));
    let json = world.run(&["ls", "--json"]).await.json();
    let mut shown: Vec<_> = json["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["key"].as_str().unwrap())
        .collect();
    shown.sort_unstable();
    let mut names = names.to_vec();
    names.sort_unstable();
    assert_eq!(shown, names, "JSON has the names as they are");
    for name in names {
        assert_eq!(world.run(&["release", name, "--yes"]).await.code, 0, "{name}");
    }
    let ran = world.run(&["ls", &"x".repeat(600)]).await;
    ran.failed(2, "the limit is 512");
}

/// `lockctl ls | head -1` ends in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_may_leave() {
    let world = World::start().await;
    let mut held = Vec::new();
    for number in 0..400 {
        let name = format!("{number}{}", "x".repeat(480));
        held.push(world.billing.mutex(name).lock().await.unwrap());
    }
    for json in [&[][..], &["--json"]] {
        let url = world.server.url();
        let args = [&["--url", &url, "ls"], json].concat();
        let mut ls = begin(&args);
        // Less than a pipe holds.
        let mut out = BufReader::new(ls.stdout.take().unwrap());
        out.read_exact(&mut [0; 16]).await.unwrap();
        drop(out);
        let ended = timeout(SOON, ls.wait_with_output()).await.expect("it goes on").unwrap();
        assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]), "{ended:?}");
    }
}

/// Times that no clock reaches are no panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_may_have_no_end() {
    let world = World::start().await;
    const FOREVER: &str = "500000000000years";
    assert_eq!(world.run(&["ls", "--within", FOREVER]).await.code, 0);
    assert_eq!(world.run(&["ls", "--held-longer", FOREVER]).await.code, 0);
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    let mut watch = world.begin(&["watch", "order:1", "--for", FOREVER]);
    let mut out = BufReader::new(watch.stdout.take().unwrap());
    let mut first = [0; 20];
    timeout(SOON, out.read_exact(&mut first)).await.expect("nothing is printed").unwrap();
    assert!(watch.try_wait().unwrap().is_none(), "it watches on");
}
