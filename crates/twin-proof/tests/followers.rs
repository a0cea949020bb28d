//! A mount that follows a volume in a bucket: see `twin_proof::bucket::followers`.

use std::io::Write as _;

use twin_proof::at_night;
use twin_proof::bucket::Scenario;
use twin_proof::bucket::followers::{Shown, follow};
use twin_rt::SECS;

#[test]
fn what_a_follower_shows_is_one_state_of_the_writer_not_old_and_never_an_earlier_one() {
    let mut all = Shown::default();
    for seed in 0..if at_night() { 1000 } else { 30 } {
        let scenario = Scenario::random(seed);
        all += follow(&scenario, 2 * SECS).unwrap_or_else(|why| panic!("{scenario}: {why}"));
    }
    let _ = std::io::stderr().write_all(format!("followers: {all:?}\n").as_bytes());
    let Shown { trees, held, stale, stale_directories, replaced, .. } = all;
    // Everything that may happen has happened.
    assert!(
        trees > 1000 && held > stale && stale.min(stale_directories) > 100 && replaced > 50,
        "{all:?}"
    );
}
