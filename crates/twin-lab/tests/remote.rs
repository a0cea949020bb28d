//! Volumes behind a network: their configurations, and runs on them.

use twin_lab::{Config, Figures, Workload, simulate};
use twin_trace::replay::Pace;

fn run(config: &str, workload: &str) -> Figures {
    let config = Config::parse(config).unwrap();
    let workload = Workload::Generated(workload.into(), 1);
    simulate(&config, &workload, Pace::Asap).unwrap()
}

const MAIL: &str = "small-files:files=60";

#[test]
fn a_volume_behind_a_network_has_its_own_settings_and_those_of_the_clients() {
    let config = Config::parse("nfs(lfs:disk=hp97560,cache=8M):biods=8,latency=2ms").unwrap();
    assert_eq!((config.disk.name, config.settings.cache_bytes), ("hp97560", 8 << 20));
    let remote = config.remote.as_ref().unwrap();
    assert_eq!((remote.client.biods, remote.network.latency_ns), (8, 2_000_000));
    let changed = config.changed("", "cache=1M").unwrap();
    assert_eq!((changed.settings.cache_bytes, changed.remote), (1 << 20, config.remote));
    for (text, word) in [
        ("nfs", "nfs(lfs"),
        ("nfs(lfs", "not closed"),
        ("nfs(nfs(lfs):biods=8)", "one network"),
        ("nfs(lfs)x", "follow a colon"),
        ("nfs(lfs):biod=8", "biods"),
        ("nfs(lfs):latency=-1", "latency"),
        ("nfs(xfs)", "lfs"),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_workload_does_the_same_through_the_network_and_pays_for_it() {
    for layout in ["lfs", "ffs", "vsfs"] {
        let (near, far) = (run(layout, MAIL), run(&format!("nfs({layout})"), MAIL));
        assert_eq!((far.ops, far.failed, far.diverged), (near.ops, 0, 0), "{layout}");
        assert!(far.written_bytes == near.written_bytes && near.written_bytes > 10_000);
        let network = far.network_use.unwrap();
        assert!(network.calls > 100 && network.bytes > near.written_bytes, "{network:?}");
        assert!(far.finish_s > near.finish_s, "{layout}: {} {}", far.finish_s, near.finish_s);
        assert_eq!(network.resent, 0);
    }
}

#[test]
fn a_bad_network_delays_everything_and_fails_nothing() {
    for network in ["loss=0.02,breaks=0.02", "proto=udp,loss=0.03,duplicate=0.05,reorder=0.1"] {
        let far = run(&format!("nfs(lfs):timeout=50ms,{network}"), MAIL);
        let used = far.network_use.unwrap();
        assert_eq!((far.failed, far.diverged), (0, 0), "{network}");
        assert!(used.lost_frames > 0 && used.resent > 0, "{network}: {used:?}");
        let same = run(&format!("nfs(lfs):timeout=50ms,{network}"), MAIL);
        assert_eq!((same.digest, same.finish_s), (far.digest, far.finish_s));
    }
}

#[test]
fn waiting_for_the_server_s_disk_costs_most_and_not_waiting_least() {
    let finish = |writes| run(&format!("nfs(lfs):writes={writes}"), "zipf:writes=300");
    let [sync, behind, lazy] = ["nfs-sync", "behind", "nfs-async"].map(finish);
    let used = [&sync, &behind, &lazy].map(|run| (run.finish_s, run.network_use));
    assert!(sync.finish_s > behind.finish_s && behind.finish_s > lazy.finish_s, "{used:?}");
    assert_eq!((sync.failed, behind.failed, lazy.failed), (0, 0, 0));
}

#[test]
fn with_leases_a_workload_does_the_same_and_waits_less() {
    for layout in ["lfs", "ffs", "vsfs"] {
        let (near, far) = (run(layout, MAIL), run(&format!("nfs({layout})"), MAIL));
        let leased = run(&format!("nfs({layout}):consistency=lease"), MAIL);
        assert_eq!((leased.ops, leased.failed, leased.diverged), (near.ops, 0, 0), "{layout}");
        let waiting = (leased.waiting_s, far.waiting_s);
        assert!(waiting.0 < waiting.1, "{layout}: {waiting:?}");
    }
}
