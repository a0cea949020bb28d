//! Verdicts on figures that are given, and on runs.

use twin_lab::{BillFigures, DiskFigures, Latency, LogFigures, Spread, VerbFigures, WearFigures};

use super::measure::{BILL, WEAR};
use super::*;
use crate::trust::{FIDELITY, Trust};

fn run(config: &str, finish_s: f64) -> Figures {
    Figures { config: config.into(), finish_s, ops: 100, ..Figures::default() }
}

fn judge(runs: Vec<Figures>, measure: &str) -> (Vec<Option<usize>>, Option<String>) {
    judge_with(runs, measure, Pauses::None)
}

/// Judges runs, each of the configuration that its name says, or else of the default one.
fn judge_with(
    mut runs: Vec<Figures>,
    measure: &str,
    pauses: Pauses,
) -> (Vec<Option<usize>>, Option<String>) {
    let measure = MEASURES.get(measure).unwrap();
    let config = |figures: &Figures| {
        Config::parse(&figures.config).unwrap_or_else(|_| Config::parse("lfs").unwrap())
    };
    let configs: Vec<Config> = runs.iter().map(config).collect();
    let trust = Trust::of(&configs);
    rank(&mut runs.iter_mut().collect::<Vec<_>>(), measure, &trust);
    let all: Vec<(&Config, &Figures)> = configs.iter().zip(&runs).collect();
    let how = Judgement { measure, trust: &trust, pauses };
    (runs.iter().map(|figures| figures.rank).collect(), verdict(&all, &how))
}

/// Operations of one kind, with their number and their mean latency.
fn verb(verb: &'static str, count: u64, mean_us: f64) -> VerbFigures {
    let latency = Latency { count, mean_us, p99_us: mean_us, ..Latency::default() };
    VerbFigures { verb, errors: 0, latency, recorded: None, elapsed_s: None, distribution: vec![] }
}

/// A run with these operations: its clients waited for nothing else.
fn waiting(config: &str, pauses_s: f64, verbs: Vec<VerbFigures>) -> Figures {
    let waiting_s = verbs.iter().map(VerbFigures::total_s).sum();
    Figures { waiting_s, pauses_s, verbs, ..run(config, pauses_s + waiting_s) }
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
    assert!(text.contains("b has 1.27 times as much as a"), "the model's order is told: {text}");
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
        let wear = Some(WearFigures { programmed_bytes, moved_bytes, ..WearFigures::default() });
        let disk_use = DiskFigures { wear, ..DiskFigures::default() };
        Figures { disk_use, ..run(config, 1.0) }
    };
    let (ranks, text) = judge(vec![of("a", 50 << 20), run("none", 0.1), of("b", 0)], WEAR);
    assert_eq!(ranks, [Some(2), None, Some(1)]);
    let why = "Why: with a the SSD programs 50.0 MiB more: 50.0 MiB to move pages by itself.";
    assert!(text.as_ref().unwrap().contains(why), "{text:?}");
    let configs = |disk: &str| [Config::parse(disk).unwrap(), Config::parse("ffs").unwrap()];
    let measure = MEASURES.get(WEAR).unwrap();
    assert_eq!(measurable(measure, &configs("lfs:disk=ssd-mqsim")), Ok(()));
    let refused = measurable(measure, &configs("lfs:disk=ssd-sata")).unwrap_err();
    assert!(refused.contains("disk=ssd-tlc"), "{refused}");
    assert_eq!(measurable(MEASURES.default_entry(), &configs("lfs")), Ok(()));
}

#[test]
fn the_bill_is_judged_where_a_bucket_charges_and_says_for_what() {
    let of = |config: &str, puts, requests_usd| {
        let bill = Some(BillFigures { puts, gets: 30, requests_usd, ..BillFigures::default() });
        let disk_use = DiskFigures { bill, ..DiskFigures::default() };
        Figures { disk_use, ..run(config, 1.0) }
    };
    let (ranks, text) = judge(vec![of("a", 900, 0.0045), of("b", 300, 0.0015)], BILL);
    assert_eq!(ranks, [Some(2), Some(1)]);
    let why = "Why: with a the work costs $0.0030 more: 600 more objects stored.";
    assert!(text.as_ref().unwrap().contains(why), "{text:?}");
    let refused = measurable(MEASURES.get(BILL).unwrap(), &[Config::parse("lfs").unwrap()]);
    assert!(refused.unwrap_err().contains("disk=s3-standard"));
}

#[test]
fn with_pauses_the_time_in_operations_tells_apart_what_the_end_does_not() {
    let of = |config: &str, us| waiting(config, 140.0, vec![verb("fsync", 1000, us)]);
    let runs = || vec![of("lfs", 800.0), of("ffs", 2100.0)];
    let (ranks, text) = judge_with(runs(), "finish", Pauses::Recorded);
    assert_eq!(ranks, [Some(1), Some(1)]);
    let text = text.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("No winner by finish"), "{text}");
    let others = "Other measures tell them apart: by waiting lfs has 800.0 ms, and next is ffs with 2.10 s \
                  (2.62 times); by fsync lfs has 800 us, and next is ffs with 2100 us (2.62 times).";
    assert_eq!(lines[1], others, "in the next line: {text}");
    let pauses = "Of the 140.8 s with lfs, 140.0 s are the recorded pauses of its clients, in which no \
                  operation was under way (ffs: 140.0 s of 142.1 s). `--pace asap` leaves them out";
    assert!(text.contains(pauses), "{text}");
    assert!(!text.contains("a workload with fsyncs"), "it has some: {text}");
    let (ranks, text) = judge_with(runs(), "waiting", Pauses::Recorded);
    assert_eq!(ranks, [Some(1), Some(2)]);
    let text = text.unwrap();
    assert!(text.starts_with("lfs wins by waiting"), "{text}");
    let why = "Why: with ffs clients waited 1.30 s more: 1.30 s in fsync (1,000 times 2100 us on average, \
               lfs: 800 us).";
    assert!(text.contains(why), "{text}");
    let (_, text) = judge_with(runs(), "waiting", Pauses::LeftOut);
    assert!(text.unwrap().contains("are left out; `--pace think` keeps them."));
}

#[test]
fn the_measure_follows_from_whether_there_are_pauses() {
    use twin_trace::replay::Pace;
    let of = |pace| measure_for(pace).name;
    let paced = [Pace::Think { speed: 1.0 }, Pace::Recorded { speed: 2.0 }];
    assert_eq!((of(Pace::Asap), paced.map(of)), ("finish", ["waiting"; 2]));
}

#[test]
fn fsyncs_are_advised_only_to_a_workload_without_them() {
    let advised = |verbs: Vec<VerbFigures>| {
        let of = |config: &str| Figures { verbs: verbs.clone(), ..run(config, 1.0) };
        judge(vec![of("a"), of("b")], "finish").1.unwrap()
    };
    assert!(advised(vec![]).contains("a workload with fsyncs"));
    let text = advised(vec![verb("fsync", 1632, 1.0)]);
    assert!(!text.contains("with fsyncs") && text.contains("may tell them apart"), "{text}");
}

#[test]
fn the_same_configuration_under_two_names_is_identical_and_not_just_equal() {
    let of = |config: &str, digest: &str| Figures { digest: digest.into(), ..run(config, 1.0) };
    let (_, text) = judge(vec![of("lfs", "x"), of("lfs:cache=64M", "x")], "finish");
    let text = text.unwrap();
    let same = "lfs and lfs:cache=64M are identical: all their settings are the same.";
    assert!(text.starts_with(same), "{text}");
    assert!(!text.contains("No winner") && !text.contains("may tell"), "{text}");
    let (_, text) = judge(vec![of("lfs", "x"), of("lfs:cache=8M", "x")], "finish");
    assert!(text.unwrap().starts_with("lfs and lfs:cache=8M did exactly the same"));
    let (_, text) = judge(vec![of("lfs", "x"), of("lfs:cache=8M", "y")], "finish");
    assert!(text.unwrap().starts_with("No winner"));
    let third = Figures { digest: "z".into(), ..run("ffs", 3.0) };
    let (_, text) = judge(vec![of("lfs", "x"), of("lfs:cache=64M", "x"), third], "finish");
    let text = text.unwrap();
    assert!(
        text.starts_with("lfs and lfs:cache=64M win by finish") && text.contains(same),
        "{text}"
    );
}

#[test]
fn names_are_what_differs() {
    let of = |victim: &str, s| run(&format!("lfs:size=128M,cache=4M,victim={victim}"), s);
    let (_, text) = judge(vec![of("greedy", 1.0), of("mdc", 2.0)], "finish");
    let text = text.unwrap();
    assert!(text.starts_with("victim=greedy wins by finish"), "{text}");
    assert!(text.contains("Next is victim=mdc with 2.00 s") && !text.contains("size="), "{text}");
}

#[test]
fn the_parts_of_a_difference_add_up_and_small_ones_are_the_rest() {
    let quick = waiting("lfs", 0.0, vec![verb("fsync", 1000, 1000.0), verb("read", 1000, 500.0)]);
    let mut of = vec![verb("fsync", 1000, 5000.0), verb("read", 1000, 250.0)];
    of.extend(["mkdir", "rmdir", "link", "rename"].map(|name| verb(name, 10, 4000.0)));
    let (_, text) = judge(vec![quick, waiting("ffs", 0.0, of)], "waiting");
    let expected = "Why: with ffs clients waited 3.91 s more: 4.00 s in fsync (1,000 times 5000 us on \
                    average, lfs: 1000 us), 250.0 ms less in read (1,000 times 250 us on average, lfs: \
                    500 us) and 160.0 ms in all else.";
    assert!(text.as_ref().unwrap().contains(expected), "{text:?}");
}

#[test]
fn time_that_operations_share_counts_once() {
    let of = |config: &str, elapsed_s: f64, pauses_s: f64, end_s: f64| {
        let both = VerbFigures { elapsed_s: Some(elapsed_s), ..verb("fsync", 8, 1e6) };
        let span_s = elapsed_s + pauses_s;
        let finish_s = span_s + end_s;
        Figures { span_s, pauses_s, waiting_s: 8.0, verbs: vec![both], ..run(config, finish_s) }
    };
    let (_, text) = judge(vec![of("lfs", 2.0, 1.0, 0.1), of("ffs", 4.0, 0.5, 0.6)], "finish");
    let expected = "Why: with ffs all was on the disk 2.00 s later: 2.00 s in fsync (8 times), 500.0 ms less \
                    while no operation was under way and 500.0 ms in writing what was left at the end (time \
                    that several operations share is divided among them).";
    assert!(text.as_ref().unwrap().contains(expected), "{text:?}");
}

/// A disk with these numbers of writes and flushes, each of which took `us` microseconds.
fn disk(writes: u64, flushes: u64, us: f64) -> DiskFigures {
    let [writes_s, flushes_s] = [writes, flushes].map(|number| number as f64 * us / 1e6);
    let written_bytes = writes * 8192;
    DiskFigures { writes, flushes, writes_s, flushes_s, written_bytes, ..DiskFigures::default() }
}

#[test]
fn the_reason_is_in_counts_and_in_how_layouts_write() {
    let of = |config: &str, us, disk_use| Figures {
        disk_use,
        ..waiting(config, 0.0, vec![verb("fsync", 1000, us)])
    };
    let runs =
        vec![of("lfs", 1000.0, disk(500, 400, 700.0)), of("ffs", 5000.0, disk(6000, 2000, 700.0))];
    let text = judge(runs, "waiting").1.unwrap();
    let wrote = "ffs wrote to the disk 6,000 times where lfs wrote 500 times, because it writes blocks to \
                 their own places, and changes of metadata to a journal first (8.0 KiB a write), where lfs \
                 gathers blocks";
    assert!(text.contains(wrote), "{text}");
    let each = "With ffs the disk did 2,000 flushes of 700 us each (lfs: 400 of 700 us) and 6,000 writes of \
                700 us each (lfs: 500 of 700 us). That is 2.00 flushes for each fsync, not 0.40.";
    assert!(text.contains(each), "{text}");
    let mut slow = of("lfs:disk=hp97560", 9000.0, disk(500, 400, 7000.0));
    slow.disk = "hp97560".into();
    slow.disk_use.time_s = vec![("queue", 9.0), ("seek", 3.0), ("rotation", 1.0)];
    let text = judge(vec![of("lfs", 1000.0, disk(500, 400, 700.0)), slow], "waiting").1.unwrap();
    assert!(text.contains("the work of hp97560 is 75% seek and 25% rotation"), "{text}");
    assert!(!text.contains("because"), "it did the same, slower: {text}");
}

#[test]
fn what_is_read_more_often_has_its_reason() {
    let of = |config: &str, us, reads: u64, read_bytes, cache_hit_share| {
        let reads_s = reads as f64 * 100e-6;
        let disk_use = DiskFigures { reads, read_bytes, reads_s, ..DiskFigures::default() };
        Figures { disk_use, cache_hit_share, ..waiting(config, 0.0, vec![verb("read", 1000, us)]) }
    };
    let text = |second: Figures| {
        judge(vec![of("lfs", 100.0, 100, 1 << 20, 0.9), second], "waiting").1.unwrap()
    };
    let fewer_hits = text(of("lfs:cache=1M", 500.0, 900, 9 << 20, 0.5));
    let why = "With lfs:cache=1M the disk did 900 reads of 100 us each (lfs: 100 of 100 us). lfs:cache=1M \
               reads more often because its cache served 50.0% of look-ups, not 90.0%.";
    assert!(fewer_hits.contains(why), "{fewer_hits}");
    let smaller = text(of("ffs", 500.0, 500, 1 << 20, 0.9));
    let why = "ffs reads more often because its reads have 2.0 KiB, not 10.2 KiB.";
    assert!(smaller.contains(why), "{smaller}");
}

#[test]
fn bytes_that_were_written_more_go_by_what_they_are() {
    let of = |config: &str, written: u64, contents: u64, moved: u64| {
        let log = LogFigures {
            new_data_bytes: contents << 20,
            moved_bytes: moved << 20,
            ..LogFigures::default()
        };
        let disk_use = DiskFigures { written_bytes: written << 20, ..DiskFigures::default() };
        Figures { log, disk_use, ..run(config, 1.0) }
    };
    let runs = vec![of("lfs", 60, 50, 0), of("lfs:victim=mdc", 100, 55, 20)];
    let text = judge(runs, "written").1.unwrap();
    let expected = "Why: with lfs:victim=mdc 40.0 MiB more were written: 20.0 MiB moved by the cleaner, 15.0 \
                    MiB of metadata: directories, inodes, maps, journal and the log's own blocks and 5.0 MiB \
                    of file contents.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn another_order_by_another_measure_is_named() {
    let of = |config: &str, us, mib: u64| {
        let disk_use = DiskFigures { written_bytes: mib << 20, ..DiskFigures::default() };
        Figures { disk_use, ..waiting(config, 0.0, vec![verb("read", 1000, us)]) }
    };
    let text = judge(vec![of("lfs", 100.0, 90), of("ffs", 300.0, 60)], "waiting").1.unwrap();
    let expected = "Another order: by written ffs is ahead with 60.0 MiB (lfs with 90.0 MiB).";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn one_run_has_a_verdict_of_its_own() {
    let of = waiting("lfs", 3.0, vec![verb("fsync", 100, 10_000.0), verb("read", 1, 1.0)]);
    let text = judge_with(vec![of], "waiting", Pauses::Recorded).1.unwrap();
    assert!(text.starts_with("lfs: 1.00 s by waiting"), "{text}");
    assert!(text.contains("1.00 s in fsync (100 times 10.0 ms on average)."), "{text}");
    assert!(text.contains("Of the 4.00 s with lfs, 3.00 s are the recorded pauses"), "{text}");
}
