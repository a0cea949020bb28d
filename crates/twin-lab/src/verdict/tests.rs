//! Verdicts on figures that are given, and on runs.

use super::*;
use super::measure::WEAR;
use crate::figures::{DiskFigures, Spread, WearFigures};
use crate::trust::{FIDELITY, Trust};

fn run(config: &str, finish_s: f64) -> Figures {
    Figures { config: config.into(), finish_s, ops: 100, ..Figures::default() }
}

fn judge(mut runs: Vec<Figures>, measure: &str) -> (Vec<Option<usize>>, Option<String>) {
    let measure = MEASURES.get(measure).unwrap();
    let trust = Trust::of([&Config::parse("lfs").unwrap()]);
    rank(&mut runs.iter_mut().collect::<Vec<_>>(), measure, &trust);
    let config = Config::parse("lfs").unwrap();
    let all: Vec<(&Config, &Figures)> = runs.iter().map(|figures| (&config, figures)).collect();
    let how = Judgement { measure, trust: &trust, pauses: Pauses::None };
    (runs.iter().map(|figures| figures.rank).collect(), verdict(&all, &how))
}

#[test]
fn the_quickest_wins_and_the_verdict_says_by_how_much() {
    let (ranks, text) = judge(vec![run("slow", 3.0), run("quick", 1.5)], "finish");
    assert_eq!(ranks, [Some(2), Some(1)]);
    let text = text.unwrap();
    assert!(text.starts_with("quick wins by finish") && text.contains("2.00 times"), "{text}");
}

#[test]
fn a_run_that_failed_has_no_place_however_quick_it_was() {
    let failed = Figures { failed: 1, ..run("failed", 0.1) };
    let (ranks, text) = judge(vec![failed, run("a", 1.0), run("b", 2.0)], "finish");
    assert_eq!(ranks, [None, Some(1), Some(2)]);
    assert!(!text.unwrap().contains("failed"));
}

#[test]
fn what_is_within_the_noise_shares_a_place_and_nobody_wins() {
    let (ranks, text) = judge(vec![run("a", 1.0), run("b", 1.01)], "finish");
    assert_eq!(ranks, [Some(1), Some(1)]);
    assert!(text.unwrap().starts_with("No winner"));
}

#[test]
fn a_slower_disk_is_advised_only_where_there_is_one() {
    let on = |config: &str, disk: &str| Figures { disk: disk.into(), ..run(config, 1.0) };
    let (_, text) = judge(vec![on("a", "ssd-sata"), on("b", "ssd-sata")], "finish");
    assert!(text.unwrap().contains("a slower disk"));
    let (_, text) = judge(vec![on("a", "hp97560"), on("b", "hp97560")], "finish");
    assert!(!text.unwrap().contains("a slower disk"));
}

#[test]
fn what_chance_explains_is_equal_however_far_the_medians_are_apart() {
    let of = |config: &str, values: [f64; 5]| {
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let [min, _, median, _, max] = sorted;
        let spread = Spread { measure: "finish", median, min, max, values: values.into() };
        Figures { spreads: vec![spread], ..run(config, median) }
    };
    let a = of("a", [1.0, 1.2, 1.4, 1.6, 1.8]);
    let (ranks, text) = judge(vec![a.clone(), of("b", [1.1, 1.3, 1.5, 1.7, 1.9])], "finish");
    assert_eq!(ranks, [Some(1), Some(1)]);
    let text = text.unwrap();
    assert!(text.contains("what chance explains") && text.contains("More seeds"), "{text}");
    assert!(text.contains("1.40 s (") && text.contains("1.50 s ("), "{text}");
    let (ranks, text) = judge(vec![of("b", [2.1, 2.3, 2.5, 2.7, 1.7]), a], "finish");
    assert_eq!(ranks, [Some(2), Some(1)]);
    let text = text.unwrap();
    assert!(text.contains("medians of 5 seeds"), "{text}");
    assert!(text.contains("1.40 s (1.00 s to 1.80 s)"), "{text}");
}

#[test]
fn a_measure_that_no_run_has_ranks_nothing() {
    let (ranks, text) = judge(vec![run("a", 1.0), run("b", 2.0)], "fsync");
    assert_eq!(ranks, [None, None]);
    let text = text.unwrap();
    assert!(text.contains("No verdict by fsync: it needs a workload with fsyncs"), "{text}");
}

#[test]
fn times_within_the_error_of_simulation_are_too_close_to_call() {
    let just = 1.0 + (FIDELITY - 1.0) * 0.9;
    let (ranks, text) = judge(vec![run("b", just), run("a", 1.0)], "finish");
    assert_eq!(ranks, [Some(1), Some(1)]);
    let text = text.unwrap();
    assert!(text.starts_with("Too close to call by finish"), "{text}");
    assert!(
        text.contains("b has 1.27 times as much as a"),
        "the model's order is told: {text}"
    );
    let beyond = 1.0 + (FIDELITY - 1.0) * 1.1;
    let (ranks, text) = judge(vec![run("b", beyond), run("a", 1.0)], "finish");
    assert_eq!(ranks, [Some(2), Some(1)]);
    assert!(text.unwrap().contains("Nothing is ranked within a factor of 1.30"));
    let three = vec![run("a", 1.0), run("b", just), run("c", 2.0)];
    let (ranks, text) = judge(three, "finish");
    assert_eq!(ranks, [Some(1), Some(1), Some(3)]);
    let text = text.unwrap();
    assert!(text.starts_with("a and b win, too close to call between them,"), "{text}");
}

#[test]
fn bytes_are_counted_and_have_no_error_of_times() {
    let of = |config: &str, written_bytes| {
        let disk_use = DiskFigures { written_bytes, ..DiskFigures::default() };
        Figures { disk_use, ..run(config, 1.0) }
    };
    let (ranks, text) = judge(vec![of("a", 100 << 20), of("b", 105 << 20)], "written");
    assert_eq!(ranks, [Some(1), Some(2)]);
    assert!(!text.unwrap().contains("factor"));
}

#[test]
fn wear_is_judged_where_disks_wear_and_refused_where_none_does() {
    let of = |config: &str, moved_bytes| {
        let programmed_bytes = (100 << 20) + moved_bytes;
        let wear =
            Some(WearFigures { programmed_bytes, moved_bytes, ..WearFigures::default() });
        let disk_use = DiskFigures { wear, ..DiskFigures::default() };
        Figures { disk_use, ..run(config, 1.0) }
    };
    let (ranks, text) = judge(vec![of("a", 50 << 20), run("none", 0.1), of("b", 0)], WEAR);
    assert_eq!(ranks, [Some(2), None, Some(1)]);
    assert!(text.unwrap().contains("a has 50.0 MiB more moved by the SSD itself"));
    let configs = |disk: &str| [Config::parse(disk).unwrap(), Config::parse("ffs").unwrap()];
    let measure = MEASURES.get(WEAR).unwrap();
    assert_eq!(measurable(measure, &configs("lfs:disk=ssd-mqsim")), Ok(()));
    let refused = measurable(measure, &configs("lfs:disk=ssd-sata")).unwrap_err();
    assert!(refused.contains("disk=ssd-tlc"), "{refused}");
    assert_eq!(measurable(MEASURES.first(), &configs("lfs")), Ok(()));
}

#[test]
fn the_reason_names_what_takes_longer() {
    let mut slow = run("slow", 3.0);
    slow.disk_use.time_s = vec![("queue", 9.0), ("seek", 1.4)];
    let (_, text) = judge(vec![slow, run("quick", 1.5)], "finish");
    let text = text.unwrap();
    assert!(text.contains("1.40 s more of seek") && !text.contains("queue"), "{text}");
    assert!(!text.contains("at the same time"), "{text}");
}

#[test]
fn the_reason_says_that_requests_overlap_where_they_do() {
    let mut slow = run("slow", 3.0);
    slow.disk_use.time_s = vec![("flush", 4.0)];
    (slow.disk_use.service_s, slow.disk_use.busy_s) = (4.0, 2.0);
    let (_, text) = judge(vec![slow, run("quick", 1.5)], "finish");
    let text = text.unwrap();
    assert!(text.contains("4.00 s more of flush (added up over requests, also"), "{text}");
}
