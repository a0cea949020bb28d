//! What a frontier says of runs whose answer is known.

use twin_lab::Config;

use super::*;

fn run(config: &str, choices: &[FlushChoice], workload: &str) -> Vec<FrontierPoint> {
    let config = Config::parse(config).unwrap();
    let workload = Workload::Generated(workload.into(), 1);
    let pace = Pace::Think { speed: 1.0 };
    let study = Study { workload: &workload, name: "test", pace, instants: 60 };
    let points = frontier(&Run::of(config), choices, study, 1);
    points.into_iter().map(|point| point.unwrap_or_else(|e| panic!("{e}"))).collect()
}

const OVERWRITES: &str = "zipf:writes=2000,file-bytes=2M,think=20ms";

#[test]
fn a_longer_delay_loses_more_and_writes_less() {
    let choice = |secs: u64| choices(&["delayed".into()], &[secs * twin_rt::SECS]).unwrap()[0];
    for config in ["lfs:size=64M", "ffs:size=64M", "lfs:size=256M,disk=s3-express"] {
        let points = run(config, &[choice(1), choice(10)], OVERWRITES);
        let [short, long] = &points[..] else { panic!("two points") };
        assert!(short.lost_mean_bytes * 3.0 < long.lost_mean_bytes, "{config}: {points:?}");
        assert!(short.written_bytes > long.written_bytes, "{config}: {points:?}");
        assert!(long.lost_worst_bytes as f64 >= long.lost_mean_bytes && short.failed == 0);
        assert!(short.on_frontier && long.on_frontier);
    }
}

#[test]
fn the_power_failures_do_not_change_the_run() {
    let workload = Workload::Generated(OVERWRITES.into(), 1);
    let pace = Pace::Think { speed: 1.0 };
    let config = Config::parse("lfs:size=64M,flush=twin").unwrap();
    let config = Config { front: Front::Nothing, ..config };
    let run = Run { crashable: true, ..Run::of(config) };
    let study = Study { workload: &workload, name: "test", pace, instants: 20 };
    let (cut, lost) = cut_often(&run, Survives::Nothing, study).unwrap_or_else(|e| panic!("{e}"));
    let plain = simulate(&run, &workload, pace).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((cut.digest, lost.len()), (plain.digest, 20));
}

#[test]
fn a_point_that_another_beats_in_both_is_not_on_the_frontier() {
    let with = |memory_survives, lost: f64, written| FrontierPoint {
        memory_survives,
        workload: "w".into(),
        config: "c".into(),
        flush: "p",
        age_s: None,
        instants: 1,
        lost_mean_bytes: lost,
        lost_worst_bytes: 0,
        written_bytes: written,
        device_s: 0.0,
        finish_s: 0.0,
        p50_us: 0.0,
        p99_us: 0.0,
        failed: 0,
        on_frontier: false,
    };
    let point = |lost, written| with(false, lost, written);
    let mut points = [
        with(true, 0.0, 1),
        point(1.0, 9),
        point(5.0, 5),
        point(6.0, 6),
        point(5.0, 7),
        point(5.0, 5),
    ];
    mark(points.iter_mut());
    let on: Vec<bool> = points.iter().map(|p| p.on_frontier).collect();
    assert_eq!(on, [true, true, true, false, false, true]);
}
