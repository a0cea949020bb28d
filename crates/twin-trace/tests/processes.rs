//! Replays of recordings of a mount, in the order of their processes.

use crate::common::script::{Script, create, name, write};
use twin_disk::Block;
use twin_fs::{
    Attr, FileSystem, FsError, LookupEntry, Op, ROOT_INO, Reply, Request, SetAttr, mode,
};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rt};
use twin_trace::replay::{Options, Order, Pace, Population, Replayer, Report};
use twin_trace::{Outcome, Traits};

/// A file system on which every operation takes the same time and succeeds. It notes when each
/// began and ended.
struct Slow {
    rt: Rt,
    takes_ns: u64,
    seen: std::cell::RefCell<Vec<(Op, u64, u64)>>,
}

impl FileSystem for Slow {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        let (began, op) = (self.rt.now().0, request.op);
        if !matches!(op, Op::Forget { .. } | Op::Release { .. }) {
            self.rt.sleep(self.takes_ns).await;
        }
        let mut seen = self.seen.borrow_mut();
        let entry = |ino| {
            let attr = Attr { ino, mode: mode::REGULAR, ..Attr::default() };
            Ok(Reply::Entry(LookupEntry { attr, generation: 0 }))
        };
        let reply = match &op {
            // The number is the name's first byte.
            Op::Create { name, .. } | Op::MakeDir { name, .. } | Op::Lookup { name, .. } => {
                entry(u64::from(name[0]))
            }
            Op::Write { data, .. } | Op::WriteBack { data, .. } => Ok(Reply::Written(data.len())),
            Op::Read { len, .. } => Ok(Reply::Data(vec![Block::Zero(*len)])),
            _ => Ok(Reply::Done),
        };
        seen.push((op, began, self.rt.now().0));
        reply
    }
}

struct Run {
    report: Report,
    seen: Vec<(Op, u64, u64)>,
}

impl Run {
    /// When the only operation like this began and ended, in microseconds.
    fn times(&self, like: impl Fn(&Op) -> bool) -> (u64, u64) {
        let mut found = self.seen.iter().filter(|(op, ..)| like(op));
        let &(_, began, ended) = found.next().expect("the operation was issued");
        assert!(found.next().is_none(), "it is the only one");
        (began / MICROS, ended / MICROS)
    }

    fn named(&self, text: &str) -> (u64, u64) {
        self.times(|op| match op {
            Op::Create { name, .. }
            | Op::MakeDir { name, .. }
            | Op::Lookup { name, .. }
            | Op::Unlink { name, .. }
            | Op::RemoveDir { name, .. } => **name == *text.as_bytes(),
            _ => false,
        })
    }
}

/// Replays a script as a recording of a mount, where each operation takes so long.
fn run(script: &Script, takes_us: u64, pace: Pace) -> Run {
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Slow { rt: rt.clone(), takes_ns: takes_us * MICROS, seen: Default::default() };
    let source = || {
        let mut source = script.source();
        source.mounted();
        source
    };
    let mut replayer = Replayer::new(&rt, &fs, Options { pace, ..Options::default() });
    let report = rt.block_on(async {
        replayer.populate(&Population::collect(&mut source()).unwrap()).await.unwrap();
        fs.seen.borrow_mut().clear();
        replayer.run(&mut source()).await.unwrap()
    });
    drop(replayer);
    let report = report.unwrap();
    assert_eq!((report.diverged_ops(), report.skipped), (0, 0), "{:?}", report.examples);
    // Every instant belongs to the operations that were under way, or to nobody.
    let shares: f64 = report.verbs.iter().map(|of| of.elapsed_ns).sum();
    let all = shares + report.idle_ns as f64;
    assert!((all - report.span_ns as f64).abs() < 1.0, "{all} of {}", report.span_ns);
    // Populating ends with a sync, after which the workload starts.
    let start = takes_us * MICROS;
    let seen = fs.seen.take().into_iter().map(|(op, a, b)| (op, a - start, b - start)).collect();
    Run { report, seen }
}

const THINK: Pace = Pace::Think { speed: 1.0 };

fn made(text: &str) -> Outcome {
    Outcome::Entry(u64::from(text.as_bytes()[0]))
}

/// An operation that took 10 us and touches nothing that another one does.
fn own(script: &mut Script, at_us: u64, client: u32) {
    let id = script.ask(at_us, client, Op::StatFs);
    script.answer(at_us + 10, id, Outcome::Done);
}

/// Two clients in turn, born together, each with a request every 100 us.
fn in_turn(script: &mut Script, rounds: u64) {
    let ids = [1, 2].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    for round in 1..=rounds {
        own(script, round * 100, 1);
        own(script, round * 100 + 50, 2);
    }
}

#[test]
fn clients_that_share_nothing_do_not_wait_for_each_other() {
    let mut script = Script::default();
    in_turn(&mut script, 50);
    // Each request takes a millisecond and comes 90 us after the answer before it.
    let by_process = run(&script, 1000, THINK).report;
    let one_client = 51 * MILLIS + 50 * 90 * MICROS + 50 * MICROS;
    assert!(by_process.span_ns <= one_client, "{} ns", by_process.span_ns);
    assert_eq!(by_process.max_in_flight, 2);
    // In the order of the recording they run in lockstep.
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Slow { rt: rt.clone(), takes_ns: MILLIS, seen: Default::default() };
    let options = Options { order: Order::Trace, pace: THINK, ..Options::default() };
    let mut replayer = Replayer::new(&rt, &fs, options);
    let lockstep = rt.block_on(replayer.run(&mut script.source())).unwrap().unwrap();
    assert!(lockstep.span_ns > 100 * MILLIS, "{} ns", lockstep.span_ns);
}

#[test]
fn a_replay_as_fast_as_the_recording_takes_as_long() {
    let mut script = Script::default();
    in_turn(&mut script, 20);
    let report = run(&script, 10, THINK).report;
    assert_eq!(report.span_ns, (20 * 100 + 50 + 10) * MICROS);
    assert_eq!(report.clients.iter().map(|end| end.late_ns()).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn how_late_each_client_ended_is_told() {
    let mut script = Script::default();
    in_turn(&mut script, 50);
    own(&mut script, 5100, 1);
    let report = run(&script, 1000, THINK).report;
    let late: Vec<_> = report.clients.iter().map(|end| (end.client, end.late_ns())).collect();
    // Each request took 990 us more than in the recording.
    assert_eq!(late[0], (1, 52 * 990 * MICROS as i64));
    assert_eq!(late[1], (2, 51 * 990 * MICROS as i64));
    assert!(run(&script, 1000, Pace::Asap).report.clients.is_empty(), "no times are kept to");
}

#[test]
fn what_touches_the_same_name_waits_and_its_pause_counts_from_there() {
    let mut script = Script::default();
    let ids = [1, 2].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    let id = script.ask(20, 1, create(ROOT_INO, "x"));
    script.answer(100, id, made("x"));
    let id = script.ask(110, 2, create(ROOT_INO, "y"));
    script.answer(120, id, made("y"));
    let id = script.ask(130, 2, Op::Unlink { dir: ROOT_INO, name: name("x") });
    script.answer(140, id, Outcome::Done);
    let run = run(&script, 1000, THINK);
    let made = run.times(|op| matches!(op, Op::Create { name, .. } if **name == *b"x"));
    let other = run.times(|op| matches!(op, Op::Create { name, .. } if **name == *b"y"));
    let removed = run.times(|op| matches!(op, Op::Unlink { .. }));
    assert_eq!(made, (1010, 2010));
    assert_eq!(other, (1100, 2100), "another name in the directory does not wait");
    assert_eq!(removed.0, 2110, "10 us after its client's answer, the later of the two");
}

#[test]
fn overlapping_changes_of_a_name_keep_the_order_of_their_requests() {
    let mut script = Script::default();
    let ids = [1, 2].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    own(&mut script, 15, 1);
    let first = script.ask(30, 1, create(ROOT_INO, "x"));
    let second = script.ask(31, 2, Op::Lookup { dir: ROOT_INO, name: name("x") });
    script.answer(40, first, made("x"));
    script.answer(41, second, made("x"));
    let run = run(&script, 1000, THINK);
    let made = run.times(|op| matches!(op, Op::Create { .. }));
    let found = run.times(|op| matches!(op, Op::Lookup { .. }));
    assert_eq!((made.0, found.0), (2010, 2010), "issued after the other one, but not ended");
}

#[test]
fn a_listing_waits_for_changes_and_changes_for_a_listing() {
    let mut script = Script::default();
    let ids = [1, 2, 3].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    own(&mut script, 11, 1);
    let id = script.ask(30, 1, create(ROOT_INO, "x"));
    script.answer(40, id, made("x"));
    let list = Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 4096, plus: false };
    let id = script.ask(50, 2, list);
    script.answer(60, id, Outcome::Done);
    let id = script.ask(70, 3, create(ROOT_INO, "y"));
    script.answer(80, id, made("y"));
    let run = run(&script, 1000, THINK);
    let listed = run.times(|op| matches!(op, Op::ReadDir { .. }));
    assert_eq!(listed.0, run.named("x").1 + 10);
    assert_eq!(run.named("y").0, listed.1 + 10);
}

#[test]
fn a_new_client_waits_for_what_had_been_answered() {
    let mut script = Script::default();
    own(&mut script, 0, 1);
    own(&mut script, 20, 1);
    let running = script.ask(40, 1, create(ROOT_INO, "x"));
    let id = script.ask(45, 2, create(ROOT_INO, "y"));
    script.answer(50, id, made("y"));
    script.answer(60, running, made("x"));
    let run = run(&script, 1000, THINK);
    // The second answer came 15 us before the birth.
    assert_eq!(run.named("y").0, 2010 + 15);
    assert_eq!(run.named("x").0, 2010 + 10, "which it did not wait for");
}

#[test]
fn a_parent_waits_for_the_clients_that_lived_in_its_pause() {
    let mut script = Script::default();
    let ids = [1, 9].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    for i in 0..5 {
        own(&mut script, 20 + i * 20, 2);
        own(&mut script, 30 + i * 20, 9);
    }
    let id = script.ask(200, 1, create(ROOT_INO, "x"));
    script.answer(210, id, made("x"));
    own(&mut script, 220, 9);
    let run = run(&script, 1000, THINK);
    // The child: born at 1010, five requests with pauses of 10 us. Its parent thought for 90 us
    // after its end at 110; the other client's requests do not matter.
    assert_eq!(run.named("x").0, 1010 + 5 * 1000 + 4 * 10 + 90);
}

#[test]
fn write_backs_of_the_kernel_stay_before_the_fsync_and_tie_no_clients_together() {
    let mut script = Script::default();
    for (client, text) in [(1, "a"), (2, "b")] {
        let id = script.ask(u64::from(client), client, create(ROOT_INO, text));
        script.answer(10 + u64::from(client), id, made(text));
    }
    for round in 0..10 {
        for (client, text) in [(1u32, "a"), (2, "b")] {
            let (ino, at) = (u64::from(text.as_bytes()[0]), 100 * (round + 1) + u64::from(client));
            let Op::Write { off, data, .. } = write(ino, round * 4096, 4096) else { return };
            let id = script.ask(at, 0, Op::WriteBack { ino, off, data });
            script.answer(at + 20, id, Outcome::Written(4096));
            let set = SetAttr::default();
            let id = script.ask(at + 22, 0, Op::SetAttr { ino, set });
            script.answer(at + 24, id, Outcome::Done);
            let id = script.ask(at + 30, client, Op::Fsync { ino, data_only: false });
            script.answer(at + 40, id, Outcome::Done);
        }
    }
    script.records.sort_by_key(|record| match record {
        twin_trace::Record::Request { at_ns, .. } | twin_trace::Record::Reply { at_ns, .. } => {
            *at_ns
        }
        twin_trace::Record::Node(_) => 0,
    });
    let run = run(&script, 1000, THINK);
    for ino in [b'a', b'b'].map(u64::from) {
        let mine = run.seen.iter().filter(|(op, ..)| match op {
            Op::WriteBack { ino: of, .. } | Op::SetAttr { ino: of, .. } => *of == ino,
            Op::Fsync { ino: of, .. } => *of == ino,
            _ => false,
        });
        let mine: Vec<_> = mine.collect();
        assert_eq!(mine.len(), 30);
        for (n, pair) in mine.windows(2).enumerate() {
            assert!(pair[0].2 <= pair[1].1, "{n}: {pair:?}");
        }
    }
    let one_client = 31 * MILLIS + 2 * MILLIS;
    assert!(run.report.span_ns < one_client, "{} ns", run.report.span_ns);
    let clients: Vec<u32> = run.report.clients.iter().map(|end| end.client).collect();
    assert_eq!(clients, [1, 2], "the kernel is not a client");
}

#[test]
fn an_inode_is_forgotten_after_its_uses_and_a_directory_removed_after_its_names() {
    let mut script = Script::default();
    let ids = [1, 2].map(|client| script.ask(0, client, Op::StatFs));
    ids.into_iter().for_each(|id| script.answer(10, id, Outcome::Done));
    let id = script.ask(20, 1, Op::MakeDir { dir: ROOT_INO, name: name("d"), mode: 0o755 });
    script.answer(25, id, made("d"));
    let id = script.ask(30, 1, create(u64::from(b'd'), "x"));
    script.answer(35, id, made("x"));
    let id = script.ask(36, 1, Op::Unlink { dir: u64::from(b'd'), name: name("x") });
    script.answer(38, id, Outcome::Done);
    let id = script.ask(40, 2, Op::RemoveDir { dir: ROOT_INO, name: name("d") });
    script.answer(45, id, Outcome::Done);
    script.ask(50, 2, Op::Forget { ino: u64::from(b'd'), count: 1 });
    let run = run(&script, 1000, Pace::Asap);
    let removed = run.times(|op| matches!(op, Op::RemoveDir { .. }));
    let emptied = run.times(|op| matches!(op, Op::Unlink { .. }));
    let forgotten = run.times(|op| matches!(op, Op::Forget { .. }));
    assert!(removed.0 >= emptied.1 && forgotten.0 >= removed.1, "{removed:?} {forgotten:?}");
}

#[test]
fn recordings_that_are_not_of_a_mount_keep_the_order_of_the_trace() {
    let mut script = Script::default();
    in_turn(&mut script, 5);
    let span = |traits: Traits| {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = Slow { rt: rt.clone(), takes_ns: MILLIS, seen: Default::default() };
        let mut replayer = Replayer::new(&rt, &fs, Options::default());
        let source = Script { traits, records: script.records.clone(), ..Script::default() };
        rt.block_on(replayer.run(&mut source.source())).unwrap().unwrap().span_ns
    };
    assert_eq!(span(Traits::default()), 11 * MILLIS);
    assert_eq!(span(Traits { mounted: true, ..Traits::default() }), 6 * MILLIS);
    assert_eq!(span(Traits { independent: true, ..Traits::default() }), 6 * MILLIS);
}
