//! Scrubs of volumes on which clients work, in orders drawn at random: see `twin_proof::scrubbed`.

use std::io::Write as _;

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use twin_proof::{Scenario, Scrubbed, Subject, at_night, passes, scrubbed, seeds};
use twin_rt::Order;

fn scrubs<L: Subject>(name: &str, scenarios: impl Iterator<Item = Scenario>) -> Scrubbed {
    let mut all = Scrubbed::default();
    for scenario in scenarios {
        all += passes("scrub", &scenario, scrubbed::<L>);
    }
    let _ = writeln!(std::io::stderr(), "{name}: {all:?}");
    assert!(all.scrubs > 3 && all.read_bytes > 0 && all.requests > 0, "{all:?}");
    all
}

/// Seeds by day, one of every `one_in`, and by night.
fn some(one_in: usize) -> impl Iterator<Item = u64> {
    seeds(1..if at_night() { 400 } else { 22 }, one_in)
}

#[test]
fn a_scrub_of_a_log_in_use_finds_nothing_where_nothing_is_wrong() {
    let yielding = |scenario: Scenario| match scenario.seed % 3 {
        0 => Scenario { order: Order::Yielding, ..scenario },
        _ => scenario,
    };
    scrubs::<Lfs>("log", some(5).map(|seed| yielding(Scenario::draw(seed))));
}

#[test]
fn a_scrub_of_a_clustered_volume_in_use_finds_nothing_where_nothing_is_wrong() {
    for ordering in ["journal", "sync", "async"] {
        let of = |seed| Scenario { ordering: ordering.into(), ..Scenario::clustered(seed) };
        let yielding = |scenario: Scenario| match scenario.seed % 3 {
            0 => Scenario { order: Order::Yielding, ..scenario },
            _ => scenario,
        };
        scrubs::<Ffs>(ordering, some(10).map(of).map(yielding));
    }
}
