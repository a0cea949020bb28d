use twin_disk::{Block, BlockDevice, Bytes, Class, Io, IoErrorKind, IoResult, Origin, Stamp};
use twin_rt::{ClockOnly, FixedSet, MILLIS, Rt};

use super::*;
use crate::{Builder, Platter, SimDisk, model};

const SIZE: u64 = 1 << 20;

fn rt() -> Rt {
    Rt::new(ClockOnly::default(), 0)
}

fn disk(rt: &Rt, model: &str, write_cache: bool) -> Builder {
    let options = model::Options {
        size: Some(SIZE),
        write_cache: Some(write_cache),
        seed: rt.seed(),
        ..Default::default()
    };
    SimDisk::builder(rt, model::REGISTRY.get(model).unwrap().build(&options).unwrap())
}

fn stamp(lbn: u64, version: u64) -> Block {
    Block::Stamp(Stamp { ino: 1, lbn, version, off: 0, len: 4096 })
}

fn do_io(rt: &Rt, disk: &SimDisk, io: Io) -> IoResult {
    rt.block_on(disk.submit(io)).unwrap()
}

fn put(rt: &Rt, disk: &SimDisk, lbn: u64, version: u64) -> IoResult {
    let blocks = vec![stamp(lbn, version)];
    do_io(rt, disk, Io::write(lbn * 4096, blocks, Class::Data, Origin::User))
}

fn get(rt: &Rt, disk: &SimDisk, lbn: u64) -> IoResult {
    do_io(rt, disk, Io::read(lbn * 4096, 4096, Class::Data, Origin::User))
}

fn flush(rt: &Rt, disk: &SimDisk) -> IoResult {
    do_io(rt, disk, Io::flush(Origin::User))
}

fn faulty(rt: &Rt, trigger: Trigger, fault: Fault) -> SimDisk {
    disk(rt, "ssd-sata", true).crashable().faults(FaultPlan::none().and(trigger, fault)).start()
}

const NOTHING: IoResult = Ok(Vec::new());

#[test]
fn a_lost_write_is_acknowledged_and_the_truth_kept() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Write(2), Fault::LoseWrite);
    for lbn in 0..3 {
        assert_eq!(put(&rt, &disk, lbn, 1), NOTHING);
    }
    assert_eq!(get(&rt, &disk, 1), Ok(vec![Block::Zero(4096)]));
    assert_eq!(get(&rt, &disk, 2), Ok(vec![stamp(2, 1)]));
    assert_eq!(disk.intended().read(4096, 4096), [stamp(1, 1)]);
    assert_eq!(disk.crash_state().unwrap().unstable_writes().len(), 2);
}

#[test]
fn a_misdirected_write_lands_elsewhere() {
    let rt = rt();
    let to = SIZE + 12345;
    let disk = faulty(&rt, Trigger::Write(1), Fault::MisdirectWrite { to });
    assert_eq!(put(&rt, &disk, 0, 1), NOTHING);
    assert_eq!(get(&rt, &disk, 0), Ok(vec![Block::Zero(4096)]));
    assert_eq!(disk.platter().read(SIZE - 4096, 4096), [stamp(0, 1)]);
    assert_eq!(disk.intended().read(0, 4096), [stamp(0, 1)]);
}

#[test]
fn failed_requests_say_so_and_store_nothing() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Write(1), Fault::FailWrite);
    let error = put(&rt, &disk, 3, 1).unwrap_err();
    assert_eq!((error.kind, error.at, error.len), (IoErrorKind::Medium, 3 * 4096, 4096));
    assert_eq!(get(&rt, &disk, 3), Ok(vec![Block::Zero(4096)]));
    assert_eq!(disk.intended().read(3 * 4096, 4096), [Block::Zero(4096)]);
    assert_eq!(disk.stats().failed, 1);

    let disk = faulty(&rt, Trigger::Read(2), Fault::FailRead);
    assert!(get(&rt, &disk, 0).is_ok());
    assert_eq!(get(&rt, &disk, 0).unwrap_err().kind, IoErrorKind::Medium);
    assert!(get(&rt, &disk, 0).is_ok());
}

#[test]
fn bad_sectors_are_good_again_when_written() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Read(1), Fault::BadSectors { at: 4096, len: 8192 });
    assert_eq!(get(&rt, &disk, 1).unwrap_err().kind, IoErrorKind::Medium);
    assert_eq!(put(&rt, &disk, 1, 1), NOTHING);
    assert_eq!(get(&rt, &disk, 1), Ok(vec![stamp(1, 1)]));
    assert_eq!(get(&rt, &disk, 2).unwrap_err().kind, IoErrorKind::Medium);
    assert!(get(&rt, &disk, 3).is_ok());
}

#[test]
fn a_rotten_bit_differs_from_the_truth_in_one_bit() {
    let rt = rt();
    let at_time = Trigger::Time(Time(5 * MILLIS));
    let disk = faulty(&rt, at_time, Fault::BitRot { at: 4096 + 700, bit: 3 });
    put(&rt, &disk, 1, 1).unwrap();
    flush(&rt, &disk).unwrap();
    assert_eq!(get(&rt, &disk, 1), Ok(vec![stamp(1, 1)]));
    let rt2 = rt.clone();
    rt.block_on(async move { rt2.sleep(10 * MILLIS).await }).unwrap();
    let (is, was) = (disk.platter().read_bytes(0, SIZE), disk.intended().read_bytes(0, SIZE));
    let bits: u32 = is.iter().zip(&was).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!((bits, is[4796] ^ was[4796]), (1, 8));
    assert_eq!(disk.crash_state().unwrap().durable().read_bytes(0, SIZE), is);
}

#[test]
fn a_lost_flush_leaves_writes_in_doubt() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Flush(1), Fault::LoseFlush);
    put(&rt, &disk, 0, 1).unwrap();
    assert_eq!(flush(&rt, &disk), NOTHING);
    assert_eq!(disk.crash_state().unwrap().unstable_writes().len(), 1);
    flush(&rt, &disk).unwrap();
    assert_eq!(disk.crash_state().unwrap().unstable_writes().len(), 0);
}

#[test]
fn a_full_device_stays_full_and_a_gone_one_gone() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Write(2), Fault::NoSpace);
    put(&rt, &disk, 0, 1).unwrap();
    for _ in 0..3 {
        assert_eq!(put(&rt, &disk, 1, 1).unwrap_err().kind, IoErrorKind::NoSpace);
    }
    assert_eq!(get(&rt, &disk, 0), Ok(vec![stamp(0, 1)]));

    let disk = faulty(&rt, Trigger::Write(3), Fault::Gone);
    let writes: Vec<_> = (0..5)
        .map(|lbn| Io::write(lbn * 4096, vec![stamp(lbn, 1)], Class::Data, Origin::User))
        .map(|io| disk.submit(io))
        .collect();
    for pending in writes {
        assert_eq!(rt.block_on(pending).unwrap().unwrap_err().kind, IoErrorKind::Gone);
    }
    assert_eq!(get(&rt, &disk, 0).unwrap_err().kind, IoErrorKind::Gone);
    assert_eq!(disk.in_flight(), 0);
}

#[test]
fn a_power_cut_stops_everything_and_leaves_the_write_in_doubt() {
    let rt = rt();
    let disk = faulty(&rt, Trigger::Write(3), Fault::PowerCut);
    let disk2 = disk.clone();
    let writer = rt.spawn("writer", async move {
        for lbn in 0.. {
            let blocks = vec![stamp(lbn, 1)];
            let io = Io::write(lbn * 4096, blocks, Class::Data, Origin::User);
            disk2.submit(io).await.unwrap();
        }
    });
    rt.block_on(disk.power_cut()).unwrap();
    assert!(disk.is_powered_off());
    let state = disk.crash_state().unwrap();
    assert_eq!(
        state.unstable_writes().iter().map(|d| d.reported).collect::<Vec<_>>(),
        [true, true, false]
    );
    // No request completes any more, so the writer waits for ever.
    assert!(rt.block_on(writer).is_err());
    assert!(rt.block_on(disk.submit(Io::read(0, 512, Class::Data, Origin::User))).is_err());

    let rt = self::rt();
    let at_time = Trigger::Time(Time(MILLIS));
    let disk = faulty(&rt, at_time, Fault::PowerCut);
    rt.block_on(disk.power_cut()).unwrap();
    assert_eq!(rt.now(), Time(MILLIS));
}

#[test]
fn random_plans_are_a_function_of_their_seed() {
    let plan = |seed| FaultPlan::random(&mut Rng::new(seed), &FaultKind::ALL, 20, 100, SIZE);
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1), plan(2));
    assert_eq!(plan(1).0.len(), 20);
}

#[test]
fn under_any_plan_every_request_ends_or_the_power_is_out() {
    for seed in 0..200 {
        let rt = Rt::new(ClockOnly::default(), seed);
        let mut rng = Rng::new(seed);
        let plan = FaultPlan::random(&mut rng, &FaultKind::ALL, 4, 40, SIZE);
        let disk = disk(&rt, "jitter", true).crashable().faults(plan.clone()).start();
        let run = disk.clone();
        let task = rt.spawn("load", async move {
            for i in 0..20 {
                let batch: Vec<_> = (0..4)
                    .map(|k| match rng.below(4) {
                        0 => Io::flush(Origin::User),
                        1 => Io::read(k * 4096, 4096, Class::Data, Origin::User),
                        _ => Io::write(k * 4096, vec![stamp(k, i)], Class::Data, Origin::User),
                    })
                    .map(|io| run.submit(io))
                    .collect();
                for pending in batch {
                    let _ = pending.await;
                }
            }
        });
        let ended = rt.block_on(task).is_ok();
        assert_eq!(ended, !disk.is_powered_off(), "seed {seed}, {plan:?}");
        assert!(!ended || disk.in_flight() == 0, "seed {seed}, {plan:?}");
    }
}

/// A crash state with these writes in doubt over a platter of version 0.
fn state(writes: &[(u64, u64)]) -> CrashState {
    let mut base = Platter::new(SIZE);
    (0..8).for_each(|lbn| base.write(lbn * 4096, &[stamp(lbn, 0)]));
    let unstable = |&(lbn, version): &(u64, u64)| UnstableWrite {
        at: lbn * 4096,
        len: 4096,
        reported: true,
        blocks: vec![stamp(lbn, version)].into(),
    };
    CrashState { base, sector: 512, unstable_writes: writes.iter().map(unstable).collect() }
}

#[test]
fn a_torn_write_has_just_the_sectors_that_it_should() {
    let state = state(&[(2, 1)]);
    let torn = state.with(&[WriteOutcome::Torn(vec![0b1000_0110])]);
    let (old, new) = (stamp(2, 0), stamp(2, 1));
    let expected =
        [old.slice(0, 512), new.slice(512, 1024), old.slice(1536, 2048), new.slice(3584, 512)];
    assert_eq!(torn.read(2 * 4096, 4096), expected);
    assert_eq!(
        state.with(&[WriteOutcome::sectors(0, 8)]).digest(),
        state.with(&[WriteOutcome::Whole]).digest()
    );
    assert_eq!(state.with(&[WriteOutcome::Lost]).digest(), state.durable().digest());
}

#[test]
fn exploring_shows_every_subset_once() {
    let state = state(&[(0, 1), (1, 1), (2, 1), (3, 1)]);
    let exploration = Exploration { exhaustive: 4, torn: false, random: 0 };
    let mut rng = Rng::new(1);
    let seen: FixedSet<_> = state.explore(&exploration, &mut rng).map(|p| p.digest()).collect();
    assert_eq!(seen.len(), 16);
    // Fewer writes in the subsets: the earlier ones are whole.
    let shallow = Exploration { exhaustive: 2, ..exploration };
    let platters: Vec<_> = state.explore(&shallow, &mut rng).collect();
    assert_eq!(platters.len(), 4);
    assert!(platters.iter().all(|p| p.read(4096, 4096) == [stamp(1, 1)]));
    // With torn writes: three ways each.
    let torn = Exploration { torn: true, ..exploration };
    let seen: FixedSet<_> = state.explore(&torn, &mut rng).map(|p| p.digest()).collect();
    assert_eq!(seen.len(), 16 + 4 * 3);
}

#[test]
fn random_crashes_keep_reorder_and_tear() {
    // Two writes to one place: old, either, or a mixture by sectors must all come up.
    let state = state(&[(0, 1), (0, 2)]);
    let mut rng = Rng::new(3);
    let mut whole = [false; 3];
    let mut mixed = 0;
    for _ in 0..300 {
        let read = state.random(&mut rng).read(0, 4096);
        match &read[..] {
            [Block::Stamp(s)] if s.len == 4096 => whole[s.version as usize] = true,
            _ => mixed += 1,
        }
    }
    assert_eq!(whole, [true; 3]);
    assert!(mixed > 50);
    let again = |seed| state.random(&mut Rng::new(seed)).digest();
    assert_eq!(again(7), again(7));
}

/// A random load on a device with random service times, with a log. Compares the live crash state
/// now and then with the one in the log.
#[test]
fn the_log_and_the_live_disk_agree_on_what_is_in_doubt() {
    for (seed, write_cache) in (0..40).map(|s| (s, s % 2 == 0)) {
        let rt = Rt::new(ClockOnly::default(), seed);
        let log = WriteLog::new();
        let disk = disk(&rt, "jitter", write_cache).crashable().log(&log).start();
        let mut rng = Rng::new(seed);
        for i in 0..60 {
            let io = match rng.below(8) {
                0 => Io::flush(Origin::User),
                1 => Io::discard(rng.below(16) * 4096, 8192),
                _ => {
                    let lbn = rng.below(16);
                    Io::write(lbn * 4096, vec![stamp(lbn, i + 1)], Class::Data, Origin::User)
                }
            };
            drop(disk.submit(io));
            let (rt2, span) = (rt.clone(), rng.below(5 * MILLIS));
            rt.block_on(async move { rt2.sleep(span).await }).unwrap();
        }
        let live = disk.crash_state().unwrap();
        let logged = log.crash_points().last().unwrap().state;
        assert_eq!(live.durable().digest(), logged.durable().digest(), "seed {seed}");
        let list = |s: &CrashState| {
            s.unstable_writes().iter().map(|d| (d.at, d.len, d.reported)).collect::<Vec<_>>()
        };
        assert_eq!(list(&live), list(&logged), "seed {seed}");
        let all =
            |s: &CrashState| s.with(&vec![WriteOutcome::Whole; s.unstable_writes().len()]).digest();
        assert_eq!(all(&live), all(&logged), "seed {seed}");
    }
}

/// A toy journal: data blocks, flush, a commit record in one sector, flush. `careful` selects
/// whether the first flush is made.
fn journal_run(careful: bool, transactions: u64) -> WriteLog {
    let rt = rt();
    let log = WriteLog::new();
    let disk = disk(&rt, "jitter", true).log(&log).start();
    for t in 1..=transactions {
        let data: Vec<_> = (0..3)
            .map(|i| {
                let at = (t * 3 + i) * 4096;
                disk.submit(Io::write(at, vec![stamp(i, t)], Class::Data, Origin::User))
            })
            .collect();
        for pending in data {
            rt.block_on(pending).unwrap().unwrap();
        }
        if careful {
            flush(&rt, &disk).unwrap();
        }
        let record = Block::Bytes(Bytes::copy_of(&[t as u8; 512]));
        do_io(&rt, &disk, Io::write(0, vec![record], Class::Meta, Origin::User)).unwrap();
        flush(&rt, &disk).unwrap();
        log.mark(t);
    }
    log
}

/// The number of crash states, and of those in which a committed transaction is incomplete or an
/// acknowledged one is not committed.
fn journal_check(log: &WriteLog) -> (usize, usize) {
    let mut rng = Rng::new(11);
    let (mut states, mut broken) = (0, 0);
    for point in log.crash_points() {
        for platter in point.state.explore(&Exploration::default(), &mut rng) {
            states += 1;
            let committed = u64::from(platter.read_bytes(0, 1)[0]);
            let whole =
                |t: u64| (0..3).all(|i| platter.read((t * 3 + i) * 4096, 4096) == [stamp(i, t)]);
            let kept = committed >= point.mark.unwrap_or(0);
            broken += usize::from(!kept || !(1..=committed).all(whole));
        }
    }
    (states, broken)
}

#[test]
fn a_journal_that_flushes_survives_every_crash() {
    let (states, broken) = journal_check(&journal_run(true, 60));
    println!("{states} crash states");
    assert!(states > 2000, "{states}");
    assert_eq!(broken, 0);
}

#[test]
fn a_journal_that_skips_a_flush_is_caught() {
    let (_, broken) = journal_check(&journal_run(false, 20));
    assert!(broken > 20, "{broken}");
}

#[test]
fn marks_go_with_the_points_behind_them() {
    let points: Vec<_> = journal_run(true, 3).crash_points().collect();
    assert_eq!(points.first().unwrap().mark, None);
    assert_eq!(points.last().unwrap().mark, Some(3));
    assert!(points.windows(2).all(|w| w[0].mark <= w[1].mark && w[0].index < w[1].index));
}
