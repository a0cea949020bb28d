//! Replays of generated workloads on a small file system in memory, in virtual time.

use crate::common::replayed::run;
use crate::common::tiny::{BLOCK, Tiny};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rt};
use twin_trace::replay::{Options, Order, Population, Replayer};

const WORKLOADS: [&str; 8] = [
    "build:files=60,clients=3,headers=40,service=20us",
    "small-files:files=300,per-dir=40,rounds=2",
    "mail:messages=200,keep=50,clients=3,service=30us",
    "mail:messages=200,keep=50,clients=2,news=100%",
    "tpcb:transactions=300,accounts-bytes=1m,checkpoint-every=100,clients=2",
    "large-file:file-bytes=300k,clients=2",
    "large-file:file-bytes=300k,write=no,random-write=no",
    "zipf:writes=2000,file-bytes=1m,reads=30%,fsync-every=10,clients=2",
];

#[test]
fn every_generated_workload_replays_without_a_divergence() {
    for text in WORKLOADS {
        for (order, delay_ns) in [
            (Order::Auto, 0),
            (Order::Auto, 50 * MICROS),
            (Order::Trace, 50 * MICROS),
            (Order::Client, 10 * MILLIS),
            (Order::Process, 10 * MILLIS),
        ] {
            let options = Options { order, verify: Some(BLOCK as u32), ..Options::default() };
            let run = run(|| twin_generate::start(text, 3).unwrap(), delay_ns, options);
            let report = &run.report;
            let what = format!("{text}, {order:?}, {delay_ns} ns: {:?}", report.examples);
            assert!(report.ops > 100, "{what}: {} operations", report.ops);
            assert_eq!((report.diverged_ops(), report.skipped), (0, 0), "{what}");
            assert_eq!(report.lengths_differ, 0, "{what}");
            assert_eq!((report.inodes_differ, report.cookies_lost), (0, 0), "{what}");
            let verdict = report.verdict.as_ref().unwrap();
            assert_eq!((verdict.wrong, verdict.unjudged_bytes), (0, 0), "{what} {verdict:?}");
            assert_eq!(verdict.right_bytes, report.read_bytes, "{what}");
            assert_eq!(run.fs.orphans(), 0, "{what}");
            let held: u64 = run.fs.inodes.borrow().values().map(|i| i.refs + i.opens).sum();
            assert_eq!(held, 0, "{what}: release_all gives everything back");
        }
    }
}

#[test]
fn the_same_replay_takes_the_same_time_again() {
    let once = || {
        let options = Options { order: Order::Client, ..Options::default() };
        let text = "mail:messages=100,keep=50,clients=5,service=30us";
        let run = run(|| twin_generate::start(text, 3).unwrap(), MILLIS, options);
        (run.report.span_ns, run.report.latency_ns(), run.fs.seen.take())
    };
    assert_eq!(once(), once());
}

#[test]
fn a_stale_read_is_found() {
    let text = "zipf:writes=500,file-bytes=256k,reads=50%";
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Tiny::new(&rt, 500);
    let options = Options { verify: Some(BLOCK as u32), ..Options::default() };
    let population = Population::collect(&mut twin_generate::start(text, 1).unwrap()).unwrap();
    let mut replayer = Replayer::new(&rt, &fs, options);
    let report = rt
        .block_on(async {
            replayer.populate(&population).await.unwrap();
            fs.stale_reads.set(true);
            replayer.run(&mut twin_generate::start(text, 1).unwrap()).await.unwrap()
        })
        .unwrap();
    let verdict = report.verdict.unwrap();
    assert!(verdict.wrong > 100, "{verdict:?}");
    assert!(verdict.examples[0].expected.contains("request"), "{verdict:?}");
}
