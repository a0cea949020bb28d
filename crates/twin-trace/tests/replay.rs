//! Replays of workloads written by hand on a small file system in memory, in virtual time.

use crate::common::replayed::{ReplayRun, run};
use crate::common::script::{Given, Script, create, name, write};
use crate::common::tiny::{BLOCK, Tiny};
use twin_disk::Block;
use twin_fs::{Attr, FileSystem, FsError, LookupEntry, Op, ROOT_INO, Reply, Request, mode};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rng, Rt, SECS};
use twin_trace::replay::{Options, Order, Pace, Population, Replayer};
use twin_trace::{ErrorCode, Node, NodeAttr, Outcome, Record, Traits, Verb};

fn run_given(script: &Script, delay_ns: u64, options: Options) -> ReplayRun {
    run(|| Box::new(script.source()), delay_ns, options)
}

#[test]
fn what_is_on_the_volume_already_stays_as_it_is() {
    let node = |dir, text: &str, ino, mode, size| {
        let attr = NodeAttr { nlink: 2, size, allocated: size, ..NodeAttr::default() };
        Node { dir, name: name(text), ino, mode, attr: Some(attr) }
    };
    let tree = |size| {
        let mut population = Population::default();
        population.add(node(ROOT_INO, "d", 90, mode::DIRECTORY | 0o700, 0));
        population.add(node(90, "f", 91, mode::REGULAR | 0o600, size));
        population.add(node(ROOT_INO, "f2", 91, mode::REGULAR | 0o600, size));
        population.add(node(90, "l", 92, mode::SYMLINK | 0o777, 11));
        population
    };
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Tiny::new(&rt, 500);
    let populate = |size, options| {
        let work = async { Replayer::new(&rt, &fs, options).populate(&tree(size)).await };
        rt.block_on(work).unwrap().map_err(|error| error.to_string())
    };
    let all = || fs.inodes.borrow().iter().map(|(ino, i)| (*ino, i.refs)).collect::<Vec<_>>();
    populate(5000, Options::default()).unwrap();
    let before = all();
    populate(5000, Options::default()).unwrap();
    assert_eq!(all(), before, "nothing is made twice, and no reference is kept");
    let error = populate(5001, Options::default()).unwrap_err();
    assert!(error.contains("\"f\"") && error.contains("another kind or size"), "{error}");
    let options = Options { verify: Some(BLOCK as u32), ..Options::default() };
    assert!(populate(5000, options).is_err(), "its contents cannot be verified");
}

#[test]
fn what_was_there_before_is_made_as_it_was() {
    let node = |dir, text: &str, ino, mode, size, nlink| {
        let attr = NodeAttr { nlink, uid: 7, gid: 8, rdev: 0, size, allocated: size };
        Record::Node(Node { dir, name: name(text), ino, mode, attr: Some(attr) })
    };
    let records = vec![
        node(ROOT_INO, "d", 90, mode::DIRECTORY | 0o2750, 0, 2),
        node(90, "f", 91, mode::REGULAR | 0o4755, 3_000_000, 2),
        node(90, "l", 92, mode::SYMLINK | 0o777, 11, 1),
        node(ROOT_INO, "p", 93, mode::FIFO | 0o600, 0, 1),
        node(ROOT_INO, "f2", 91, mode::REGULAR | 0o4755, 3_000_000, 2),
        Record::Node(Node {
            dir: ROOT_INO,
            name: name("listed"),
            ino: 94,
            mode: mode::REGULAR,
            attr: None,
        }),
        Record::Node(Node {
            dir: ROOT_INO,
            name: name("sparse"),
            ino: 95,
            mode: mode::REGULAR | 0o644,
            attr: Some(NodeAttr { nlink: 1, size: 1 << 40, allocated: 8192, ..Default::default() }),
        }),
    ];
    let mut script = Script { records, ..Script::default() };
    let read = Op::Read { ino: 91, off: 2_999_000, len: 4096 };
    script.both(1, 0, read, Outcome::Data(1000));
    let run = run_given(&script, 0, Options::default());
    let expected = [
        ("/d", mode::DIRECTORY | 0o2750, 7, 2, 0),
        ("/d/f", mode::REGULAR | 0o4755, 7, 2, 3_000_000),
        ("/d/l", mode::SYMLINK | 0o777, 7, 1, 11),
        ("/f2", mode::REGULAR | 0o4755, 7, 2, 3_000_000),
        ("/listed", mode::REGULAR, 0, 1, 0),
        ("/p", mode::FIFO | 0o600, 7, 1, 0),
        ("/sparse", mode::REGULAR | 0o644, 0, 1, 1 << 40),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(path, m, u, n, s)| (path.to_owned(), m, u, n, s)).collect();
    assert_eq!(run.fs.tree(), expected);
    assert_eq!((run.report.ops, run.report.lengths_differ), (1, 0));
}

#[test]
fn operations_overlap_where_they_did_in_the_trace() {
    let mut script = Script::default();
    script.both(0, 1, create(ROOT_INO, "a"), Outcome::Entry(3));
    let ids: Vec<u64> = (0..4).map(|i| script.ask(10 + i, 1, write(3, i * 4096, 4096))).collect();
    ids.into_iter().for_each(|id| script.answer(100, id, Outcome::Written(4096)));
    script.both(200, 1, Op::Fsync { ino: 3, data_only: false }, Outcome::Done);
    for order in [Order::Trace, Order::Client, Order::Process] {
        let run = run_given(&script, MILLIS, Options { order, ..Options::default() });
        assert_eq!(run.fs.max_under_way.get(), 4);
        assert_eq!((run.report.max_in_flight, run.report.diverged_ops()), (4, 0));
        let one = Options { order, max_in_flight: 1, ..Options::default() };
        assert_eq!(run_given(&script, MILLIS, one).fs.max_under_way.get(), 1);
    }
}

#[test]
fn an_operation_waits_for_the_inode_that_another_client_makes() {
    let mut script = Script::default();
    script.both(0, 1, create(ROOT_INO, "a"), Outcome::Entry(3));
    script.both(1, 2, write(3, 0, 100), Outcome::Written(100));
    script.both(2, 3, Op::GetAttr { ino: 3 }, Outcome::Attr);
    let options = Options { order: Order::Client, ..Options::default() };
    let run = run_given(&script, MILLIS, options);
    assert_eq!((run.report.skipped, run.report.diverged_ops()), (0, 0));
    assert_eq!(run.fs.max_under_way.get(), 2, "the two others run side by side");
}

#[test]
fn an_inode_is_known_before_the_answer_of_its_maker_has_its_turn() {
    let mut script = Script::default();
    // The answer to `b` waits behind that of a slow fsync; the other client need not wait.
    script.both(0, 1, create(ROOT_INO, "a"), Outcome::Entry(3));
    let slow = script.ask(1, 1, Op::Fsync { ino: 3, data_only: false });
    let made = script.ask(2, 1, create(ROOT_INO, "b"));
    script.answer(3, slow, Outcome::Done);
    script.answer(4, made, Outcome::Entry(4));
    script.both(5, 2, write(4, 0, 10), Outcome::Written(10));
    for seed in 0..20 {
        let options = Options { order: Order::Client, ..Options::default() };
        let run = run_given(&script, MILLIS + seed, options);
        assert_eq!((run.report.skipped, run.report.diverged_ops(), run.report.ops), (0, 0, 4));
    }
}

#[test]
fn the_recorded_pace_keeps_times_and_a_speed_divides_them() {
    let mut script = Script::default();
    for i in 0..10 {
        script.both(500_000 * i, i as u32, Op::StatFs, Outcome::Done);
    }
    let span = |pace| run_given(&script, 0, Options { pace, ..Options::default() }).report.span_ns;
    assert_eq!(span(Pace::Recorded { speed: 1.0 }), 9 * SECS / 2);
    assert_eq!(span(Pace::Recorded { speed: 3.0 }), 3 * SECS / 2);
    assert_eq!(span(Pace::Think { speed: 1.0 }), 9 * SECS / 2);
    assert_eq!(span(Pace::Asap), 0);
}

#[test]
fn an_open_loop_does_not_wait_for_slow_operations_of_other_clients() {
    let mut script = Script::default();
    for i in 0..100 {
        script.both(i * 10, i as u32, Op::StatFs, Outcome::Done);
    }
    let pace = Pace::Recorded { speed: 1.0 };
    let options = Options { pace, order: Order::Client, ..Options::default() };
    let run = run_given(&script, 2 * SECS, options);
    assert_eq!(run.fs.max_under_way.get(), 100);
    assert_eq!((run.report.late_ns.count(), run.report.late_ns.max()), (100, 0));
}

#[test]
fn think_times_follow_the_answer() {
    let mut script = Script::default();
    // Ten times: an answer after 100 us, then 50 us of think time.
    for i in 0..10 {
        let id = script.ask(150 * i, 1, Op::StatFs);
        script.answer(150 * i + 100, id, Outcome::Done);
    }
    let options = Options { pace: Pace::Think { speed: 1.0 }, ..Options::default() };
    let instant = run_given(&script, 0, options.clone());
    assert_eq!(instant.report.span_ns, 9 * 50 * MICROS);
    let slow = run_given(&script, 10 * MILLIS, options);
    let busy = slow.report.latency_ns().sum() as u64;
    assert_eq!(slow.report.span_ns, 9 * 50 * MICROS + busy);
}

#[test]
fn what_ends_otherwise_is_reported_and_what_hangs_on_it_is_left_out() {
    let mut script = Script::default();
    script.both(0, 1, create(ROOT_INO, "a"), Outcome::Entry(3));
    script.both(1, 1, create(ROOT_INO, "a"), Outcome::Entry(4));
    script.both(2, 1, write(4, 0, 10), Outcome::Written(10));
    script.both(3, 1, Op::GetAttr { ino: 77 }, Outcome::Attr);
    script.both(4, 1, create(ROOT_INO, "b"), Outcome::Failed(ErrorCode::NoSpace));
    script.both(
        5,
        1,
        Op::Lookup { dir: ROOT_INO, name: name("c") },
        Outcome::Failed(ErrorCode::NotFound),
    );
    script.both(6, 1, Op::Unlink { dir: ROOT_INO, name: name("b") }, Outcome::Done);
    let run = run_given(&script, 0, Options::default());
    let report = &run.report;
    assert_eq!(report.skipped, 2);
    let expected = [
        ((Verb::Create, None, Some(ErrorCode::Exists)), 1),
        ((Verb::Create, Some(ErrorCode::NoSpace), None), 1),
    ];
    assert_eq!(report.divergences, expected.into());
    assert_eq!(
        report.examples[0].to_string(),
        "request 2, create: success in the trace, exists in the replay"
    );
    assert_eq!(run.fs.orphans(), 0, "the file that should not have been made is let go");
}

#[test]
fn listings_go_on_where_the_volume_stopped() {
    let mut script = Script::default();
    for i in 0..50u64 {
        script.both(i, 1, create(ROOT_INO, &format!("file{i:02}")), Outcome::Entry(3 + i));
        script.both(i, 1, Op::Release { ino: 3 + i }, Outcome::Done);
    }
    let list = |cookie| Op::ReadDir { dir: ROOT_INO, cookie, max_bytes: 32 * 20, plus: true };
    let dir = |entries, next| {
        Outcome::Dir(twin_trace::DirOutcome { entries, next, ..Default::default() })
    };
    script.both(100, 1, list(0), dir(20, 777));
    script.both(101, 1, list(777), dir(20, 55));
    script.both(102, 1, list(55), dir(10, 4));
    script.both(103, 1, list(9999), dir(0, 0));
    let run = run_given(&script, 0, Options::default());
    let cookies: Vec<u64> = run
        .fs
        .seen
        .borrow()
        .iter()
        .filter_map(|op| match op {
            Op::ReadDir { cookie, .. } => Some(*cookie),
            _ => None,
        })
        .collect();
    // A listing with attributes has four entries in this buffer.
    assert_eq!(cookies, [0, 500_004, 500_008, 0]);
    assert_eq!(run.report.cookies_lost, 1);
}

#[test]
fn unanswered_requests_do_not_pile_up() {
    let mut script = Script::default();
    for _ in 0..10_000 {
        script.ask(0, 1, Op::StatFs);
    }
    let run = run_given(&script, MILLIS, Options::default());
    assert_eq!((run.report.ops, run.report.max_in_flight), (10_000, 1024));
    assert_eq!(run.report.verb(Verb::StatFs).done, 10_000);
}

/// A file system that gives random answers after a random time.
struct Dice(Rt, std::cell::RefCell<Rng>);

impl FileSystem for Dice {
    async fn execute(&self, _: Request) -> Result<Reply, FsError> {
        let (delay, reply) = {
            let mut rng = self.1.borrow_mut();
            let attr = Attr { ino: rng.below(50), size: rng.below(3), ..Attr::default() };
            let reply = match rng.below(5) {
                0 => Err(FsError::NotFound),
                1 => Ok(Reply::Done),
                2 => Ok(Reply::Entry(LookupEntry { attr, generation: 0 })),
                3 => Ok(Reply::Data(vec![Block::Zero(rng.below(5000) as u32)])),
                _ => Ok(Reply::Written(5)),
            };
            (rng.below(3), reply)
        };
        if delay > 0 {
            self.0.sleep(delay).await;
        }
        reply
    }
}

#[test]
fn nonsense_is_replayed_to_its_end() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let records = crate::common::records(&mut rng, 500, false);
        let requests = records.iter().filter(|r| matches!(r, Record::Request { .. })).count();
        let order = *rng.pick(&[Order::Trace, Order::Client, Order::Process]);
        let speeds = [1e-3, 0.0, f64::NAN, -1.0, f64::INFINITY, 1e6];
        let speed = *rng.pick(&speeds);
        let paces = [Pace::Asap, Pace::Recorded { speed }, Pace::Think { speed }];
        let pace = *rng.pick(&paces);
        let (max_in_flight, read_ahead) = (rng.below(5) as usize, rng.below(50) as usize);
        let verify = Some(4096);
        let options =
            Options { order, pace, max_in_flight, read_ahead, verify, ..Options::default() };
        let rt = Rt::new(ClockOnly::default(), seed);
        let fs = Dice(rt.clone(), Rng::new(seed).into());
        let mut replayer = Replayer::new(&rt, &fs, options);
        let what = format!("seed {seed}: {order:?}, {pace:?}, {max_in_flight}, {read_ahead}");
        let report = rt.block_on(replayer.run(&mut Given::new(records, Traits::default())));
        let report = report.unwrap_or_else(|error| panic!("{what}: {error}")).unwrap();
        let most = (report.ops + report.skipped) as usize;
        assert!(most <= requests * 2 && most > requests / 4, "{what}: {most} of {requests}");
    }
}
