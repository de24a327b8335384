//! Surveys show the locks of Redisson for what they are (S-35).

use crate::interop::world::*;

// A mutex entered twice, and a fair lock with Java threads in its queue.
interop!(java_holds_are_named, async |mut world| {
    world.java.ask("t", "lock mutex m").await;
    world.java.ask("t", "lock mutex m").await;
    world.java.ask("t", "lock fair f").await;
    let waiting = world.java.begin("u", "lock fair f");
    soon!("Java is in the queue", world.seen("f").await.queue.len() == 1);
    let ours = lock_tests::spawn(world.client.fair_mutex("f").lock());
    soon!("we are behind it", world.seen("f").await.queue.len() == 2);

    let survey = world.client.admin().survey().within(AT_ONCE).await.unwrap();
    let lock = |name: &str| {
        let found = survey.locks.iter().find(|lock| lock.key.as_str() == name);
        found.unwrap_or_else(|| panic!("{name} is not in {:?}", survey.locks))
    };
    let [holder] = &lock("m").holders[..] else { panic!("{survey:?}") };
    let shown = holder.to_string();
    assert!(shown.starts_with("Redisson client ") && shown.contains("…, thread "), "{shown}");
    assert_eq!((holder.count, holder.client_id.chars().count()), (2, 9), "{holder:?}");
    let queue: Vec<_> = lock("f").queue.iter().map(ToString::to_string).collect();
    assert!(queue[0].starts_with("Redisson client "), "{queue:?}");
    let own = &survey.clients[0].client;
    assert_eq!(queue[1], own.to_string());
    assert!(holder.thread != lock("f").queue[0].thread, "two threads of one client");

    world.java.ask("t", "unlock fair f").await;
    assert_eq!(world.java.end(waiting, AT_ONCE).await, "locked");
    world.java.ask("u", "unlock fair f").await;
    got(ours).await.release().await.unwrap();
});
