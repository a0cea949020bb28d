//! The shipped recording of a mount, replayed in the order of its processes.

use std::sync::Arc;

use twin_lab::{Config, Figures, Workload, simulate};
use twin_trace::replay::Pace;

fn server(config: &str, pace: Pace) -> Figures {
    let recording = Arc::from(&include_bytes!("../../../traces/server.tw")[..]);
    let config = Config::parse(config).unwrap();
    simulate(&config, &Workload::Trace(recording), pace).unwrap()
}

#[test]
fn every_layout_and_disk_gives_the_recorded_answers() {
    for config in [
        "lfs:size=256M,cache=16M,disk=ssd-tlc",
        "lfs:cache=2M",
        "ffs:disk=ssd-sata",
        "ffs-sync",
        "ffs-sync:disk=ssd-nvme,cache=4M",
    ] {
        for pace in [Pace::Asap, Pace::Think { speed: 1.0 }] {
            let figures = server(config, pace);
            let what = format!("{config}, {pace:?}");
            assert!(figures.ops > 10_000, "{what}: {} operations", figures.ops);
            assert_eq!((figures.diverged, figures.failed), (0, 0), "{what}");
            assert_eq!(figures.lateness.is_some(), pace != Pace::Asap, "{what}");
        }
    }
}

#[test]
fn on_a_slower_disk_clients_end_later() {
    let think = Pace::Think { speed: 1.0 };
    let late = |config| server(config, think).lateness.unwrap();
    let (fast, slow) = (late("ffs-sync:disk=ssd-nvme"), late("ffs-sync"));
    assert_eq!(fast.clients, slow.clients);
    assert!(fast.clients > 4, "{fast:?}");
    assert!(slow.max_s > fast.max_s + 1.0, "{slow:?} {fast:?}");
}
