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

/// Six viewers, and clients who write and read at random, for seven minutes.
const VIEWERS: &str = r#"
[client.viewers]
clients = 6
files = 1
operations = 2
size = "constant:value=32M"
length = "constant:value=64K"
rate = "1.5Mb"
mix = { play = 1 }

[client.readers]
clients = 4
files = 100
operations = 3000
size = "constant:value=64K"
length = "constant:value=8K"
think = "exponential:mean=100ms"
mix = { read = 9, write = 1 }
"#;

#[test]
fn admitted_streams_meet_their_deadlines_and_as_ordinary_files_some_are_late() {
    let plan = twin_lab::plan("viewers", VIEWERS).unwrap();
    let workload = Workload::ByHand(Arc::new(plan), 1);
    let run = |config: &str| {
        let config = Config::parse(config).unwrap();
        simulate(&config, &workload, Pace::Recorded { speed: 1.0 }).unwrap()
    };
    for layout in ["lfs", "ffs"] {
        let disk = "disk=hp97560,queue=scan-edf,cache=32M,size=1250M";
        let media = run(&format!("{layout}:{disk},file-types=yes"));
        let streams = media.deadlines.unwrap();
        assert_eq!((streams.missed, streams.stalls), (0, 0), "{layout}: {streams:?}");
        assert!(streams.admitted >= 6 && streams.refused > 0, "{layout}: {streams:?}");
        assert!(streams.due > 3000, "{layout}: {streams:?}");
        assert_eq!(media.failed, 0, "{layout}: a refused stream is an answer");
        let ordinary = run(&format!("{layout}:{disk}"));
        let late = ordinary.deadlines.unwrap();
        assert!(late.missed > 0 && late.refused == 0, "{layout}: {late:?}");
        let (kept, filled) = (media.cache_hit_share, ordinary.cache_hit_share);
        assert!(kept > filled + 0.05, "{layout}: hits {kept} and {filled}");
    }
}

/// Two viewers beside a class who ask one slow processor for files in memory, all at one moment.
const CLASS: &str = r#"
[client.viewers]
clients = 2
files = 1
operations = 1
size = "constant:value=8M"
length = "constant:value=64K"
rate = "1.5Mb"
mix = { play = 1 }

[client.class]
clients = 200
files = 1
operations = 14
size = "constant:value=64K"
length = "constant:value=64K"
think = "constant:value=4s"
mix = { read-whole = 1 }
"#;

#[test]
fn streams_meet_their_deadlines_beside_a_busy_processor_in_the_order_of_deadlines_alone() {
    let plan = twin_lab::plan("class", CLASS).unwrap();
    let workload = Workload::ByHand(Arc::new(plan), 1);
    let run = |config: &str| {
        let machine = "cpu=sparcstation-2,disk=hp97560,queue=scan-edf,cache=64M,size=1250M";
        let config = Config::parse(&format!("{config},{machine},file-types=yes")).unwrap();
        simulate(&config, &workload, Pace::Recorded { speed: 1.0 }).unwrap()
    };
    for (layout, front) in [("lfs", "none"), ("ffs", "fuse")] {
        let of = |order| run(&format!("{layout}:front-end={front},order={order}"));
        let (fifo, ordered) = (of("fifo"), of("deadline"));
        let missed = |figures: &Figures| figures.deadlines.unwrap().missed;
        assert!(missed(&fifo) > 10, "{layout}, {front}: {:?}", fifo.deadlines);
        assert_eq!(missed(&ordered), 0, "{layout}, {front}: {:?}", ordered.deadlines);
        assert_eq!(ordered.ops, fifo.ops, "{layout}, {front}: nobody starves");
    }
}

#[test]
fn without_files_of_continuous_media_the_order_of_deadlines_changes_nothing() {
    let text = "[client.some]\nclients = 20\nfiles = 20\noperations = 100\nmix = { read = 2, write = 1 }\n\
                size = \"constant:value=64K\"\nlength = \"constant:value=8K\"";
    let plan = twin_lab::plan("some", text).unwrap();
    let workload = Workload::ByHand(Arc::new(plan), 1);
    let run = |order: &str| {
        let config = format!("lfs:size=256M,cache=2M,cpu=sparcstation-2,order={order}");
        let figures = simulate(Config::parse(&config).unwrap(), &workload, Pace::Asap).unwrap();
        (figures.digest, figures.finish_s, figures.ops)
    };
    assert_eq!(run("deadline"), run("fifo"));
}
