//! The examples of services and their clients.

use super::*;

both!(tonic_service, |lines| {
    let serving = lines.iter().filter(|line| line.contains("Serving")).count();
    assert_eq!(serving, 2, "{lines:#?}");
    let refused = lines.iter().find(|line| line.contains("Aborted"));
    let refused = refused.unwrap_or_else(|| panic!("no call was refused: {lines:#?}"));
    let after = numbers(refused)[1];
    assert!((1_000..=1_250).contains(&after), "{refused}");
});

both!(tower_client, |lines| {
    let [pieces, requests, failed] = numbers(line(lines, "2 processes took"))[..] else {
        panic!("{lines:#?}")
    };
    assert_eq!((pieces, failed), (30, requests / 5));
    assert!(requests > 120, "nothing was tried again: {lines:#?}");
    assert_eq!(numbers(line(lines, "of 100 pieces")), [40]);
});
