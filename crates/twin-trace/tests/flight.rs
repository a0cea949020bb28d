//! The flight log: written records are read back, damage leads to an error or a cut, and the
//! content suffices to repeat a run.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::common::{any, any32, cred, op};
use twin_disk::{
    Block, Bytes, Class, Completion, IoError, IoErrorKind, IoKind, IoResult, Stamp, pending,
};
use twin_fs::{Op, Request};
use twin_rt::{Driver, EventDigest, Rng, Rt, Time};
use twin_trace::{Ending, FlightReader, FlightRecord, FlightWriter, Piece, Problem, Reader};

const START: Time = Time(1_800_000_000_000_000_000);

fn bytes(rng: &mut Rng) -> Bytes {
    let len = rng.range(1, 600);
    Bytes::copy_of(&(0..len).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>())
}

fn block(rng: &mut Rng) -> Block {
    match rng.below(3) {
        0 => Block::Zero(any32(rng) >> 8),
        1 => Block::Bytes(bytes(rng)),
        _ => {
            let (ino, lbn, version) = (any(rng), any(rng), any(rng));
            Block::Stamp(Stamp { ino, lbn, version, off: 512, len: 512 })
        }
    }
}

fn io_result(rng: &mut Rng) -> IoResult {
    if rng.chance(0.8) {
        return Ok((0..rng.below(4)).map(|_| block(rng)).collect());
    }
    let kind = match rng.below(5) {
        0 => IoErrorKind::Medium,
        1 => IoErrorKind::NoSpace,
        2 => IoErrorKind::Gone,
        3 => IoErrorKind::OutOfRange,
        _ => IoErrorKind::Other("the cable is out".to_owned()),
    };
    let op = *rng.pick(&[IoKind::Read, IoKind::Write, IoKind::Flush, IoKind::Discard]);
    Err(IoError { op, at: any(rng), len: any(rng), kind })
}

fn piece(block: &Block, keep: bool) -> Piece {
    match block {
        Block::Zero(len) => Piece::Zero(*len),
        Block::Stamp(stamp) => Piece::Stamp(*stamp),
        Block::Bytes(bytes) if keep => Piece::Bytes(bytes.clone()),
        Block::Bytes(bytes) => {
            Piece::Dropped { len: bytes.len() as u32, crc: crc32c::crc32c(bytes) }
        }
    }
}

/// A log of random records, and the records that a reader should return.
fn random_log(seed: u64, contents: bool, count: u64) -> (Vec<u8>, Vec<FlightRecord>) {
    let rng = &mut Rng::new(seed);
    let mut writer = FlightWriter::new(Vec::new(), START, 9, "layout=lfs", contents).unwrap();
    let (mut now, mut expected) = (START, Vec::new());
    for i in 0..count {
        expected.push(match rng.below(8) {
            0..=2 => {
                let id = if rng.chance(0.9) { i + 1 } else { any(rng) };
                let (client, cred) = (any32(rng) % 4, cred(rng));
                let request = Request { id, client, cred, op: op(rng, contents) };
                writer.arrive(&request).unwrap();
                FlightRecord::Arrive(request)
            }
            3..=5 => {
                let (io, at_submit) = (any(rng), rng.chance(0.2));
                let class = *rng.pick(&[Class::Meta, Class::Data, Class::Mixed]);
                let result = io_result(rng);
                writer.complete(io, class, at_submit, &result).unwrap();
                let keep = contents || class == Class::Meta;
                let result = result.map(|blocks| blocks.iter().map(|b| piece(b, keep)).collect());
                FlightRecord::Complete { io, at_submit, result }
            }
            6 => {
                now += any(rng) >> 40;
                writer.park(now).unwrap();
                FlightRecord::Park(now)
            }
            _ if rng.chance(0.3) => {
                // A different value each time, because equal ones are recorded once.
                let ahead = (any(rng) >> 20 << 20 | (i + 1)) as i64;
                writer.civil(ahead).unwrap();
                writer.civil(ahead).unwrap();
                FlightRecord::Civil(ahead)
            }
            _ if rng.chance(0.5) => {
                writer.command("unmount").unwrap();
                FlightRecord::Command("unmount".to_owned())
            }
            _ => {
                let mut digest = EventDigest::default();
                digest.add(&[rng.next_u64()]);
                writer.digest(digest).unwrap();
                FlightRecord::Digest { value: digest.value(), events: 1 }
            }
        });
        if rng.chance(0.01) {
            writer.flush().unwrap();
        }
    }
    (writer.finish().unwrap(), expected)
}

fn read(bytes: &[u8]) -> Result<(Vec<FlightRecord>, Option<Ending>), twin_trace::TraceError> {
    let mut reader = FlightReader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok((records, reader.ending()))
}

#[test]
fn every_kind_of_record_comes_back_as_it_was() {
    for seed in 0..20 {
        let (bytes, expected) = random_log(seed, seed % 2 == 0, 1000);
        let (got, ending) = read(&bytes).unwrap();
        assert_eq!(got.len(), expected.len(), "seed {seed}");
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got, expected, "seed {seed}, record {i}");
        }
        assert_eq!(ending, Some(Ending::Closed));
        let header = FlightReader::new(&bytes[..]).unwrap().header().clone();
        assert_eq!((header.start, header.seed, &*header.text), (START, 9, "layout=lfs"));
    }
}

#[test]
fn a_flight_log_is_no_trace_of_operations() {
    let (bytes, _) = random_log(1, false, 10);
    let error = Reader::new(&bytes[..]).err().unwrap();
    assert!(matches!(error.problem, Problem::WrongKind { .. }));
    assert!(error.to_string().contains("this is a flight log"), "{error}");
}

#[test]
fn a_log_cut_anywhere_is_whole_up_to_its_last_frame() {
    let (whole, expected) = random_log(2, false, 300);
    for len in (0..whole.len()).step_by(7) {
        if let Ok((got, ending)) = read(&whole[..len]) {
            assert_eq!(got, expected[..got.len()], "cut at {len}");
            assert!(matches!(ending, Some(Ending::Cut { .. })), "cut at {len}");
        }
    }
}

#[test]
fn ten_thousand_mutations_do_no_harm() {
    let (mut refused, mut read_on) = (0, 0);
    for seed in 0..10_000u64 {
        let mut rng = Rng::new(seed);
        let (mut bytes, expected) = random_log(seed % 50, seed % 2 == 0, 40);
        for _ in 0..rng.range(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = if rng.chance(0.5) { rng.next_u64() as u8 } else { bytes[at] ^ 1 };
        }
        // Half of them get valid checksums again, so that the records are reached.
        let frame = bytes.windows(4).position(|w| w == b"TWfr");
        if let (true, Some(frame)) = (seed % 4 < 2, frame)
            && bytes.len() > frame + 52
        {
            let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let end = (frame + 52 + u32_at(frame + 20) as usize).min(bytes.len());
            let crc = crc32c::crc32c(&bytes[frame + 52..end]);
            bytes[frame + 24..frame + 28].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32c::crc32c(&bytes[frame..frame + 48]);
            bytes[frame + 48..frame + 52].copy_from_slice(&crc.to_le_bytes());
        }
        match read(&bytes) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok((got, _)) => read_on += u64::from(got != expected),
        }
    }
    assert!(refused > 5000 && read_on > 100, "{refused} refused, {read_on} read otherwise");
}

#[test]
fn dropped_data_match_by_length_and_checksum() {
    let data = Block::Bytes(Bytes::copy_of(b"what the user wrote"));
    let dropped = piece(&data, false);
    assert_eq!(dropped.block(), None);
    assert!(dropped.matches(&data));
    assert!(!dropped.matches(&Block::Bytes(Bytes::copy_of(b"what the user wrotf"))));
    assert!(piece(&Block::Zero(5), true).matches(&Block::Bytes(Bytes::copy_of(&[0; 5]))));
}

/// The outside of a run: requests to deliver, device requests to complete, each at its time.
#[derive(Default)]
struct World {
    requests: VecDeque<Request>,
    /// Waiting device requests, by number.
    waiting: BTreeMap<u64, Completion>,
    submitted: u64,
}

type Shared = Rc<RefCell<World>>;

/// A minimal core: each request makes as many device requests as its number says, one after the
/// other and with pauses, and every step enters the digest.
fn core(rt: &Rt, world: &Shared) {
    let (rt, world) = (rt.clone(), Rc::clone(world));
    rt.clone().spawn("front end", async move {
        loop {
            let next = world.borrow_mut().requests.pop_front();
            let Some(request) = next else {
                rt.yield_now().await;
                rt.sleep(1_000).await;
                continue;
            };
            rt.record(&[1, request.id]);
            let (rt2, world) = (rt.clone(), Rc::clone(&world));
            rt.spawn("operation", async move {
                for i in 0..request.id % 4 {
                    let pending = {
                        let mut world = world.borrow_mut();
                        world.submitted += 1;
                        let (completion, pending) = pending();
                        let io = world.submitted;
                        world.waiting.insert(io, completion);
                        rt2.record(&[2, request.id, i, io]);
                        pending
                    };
                    let gave = pending.await;
                    rt2.record(&[3, request.id, gave.map_or(0, |blocks| blocks.len() as u64)]);
                    rt2.sleep(rt2.rng("pause").below(5_000)).await;
                }
            });
        }
    });
}

/// A driver in which events happen at random, and which logs them.
struct Chance {
    world: Shared,
    rng: Rng,
    now: Time,
    log: Rc<RefCell<FlightWriter<Vec<u8>>>>,
    requests: u64,
}

impl Driver for Chance {
    fn start(&mut self) -> Time {
        self.now
    }
    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        let mut log = self.log.borrow_mut();
        if self.rng.chance(0.3) {
            self.requests += 1;
            let request = Request::root(self.requests, Op::Sync);
            log.arrive(&request).unwrap();
            self.world.borrow_mut().requests.push_back(request);
        }
        let waiting: Vec<u64> = self.world.borrow().waiting.keys().copied().collect();
        for io in waiting {
            if self.rng.chance(0.3) {
                let result = io_result(&mut self.rng);
                log.complete(io, Class::Meta, false, &result).unwrap();
                let completion = self.world.borrow_mut().waiting.remove(&io).unwrap();
                completion.done(result);
            }
        }
        let deadline = deadline.unwrap_or(self.now + 10_000);
        self.now = deadline.min(self.now + self.rng.below(20_000));
        log.park(self.now).unwrap();
        Some(self.now)
    }
}

/// A driver that repeats the events of a log.
struct Logged {
    world: Shared,
    log: Rc<RefCell<FlightReader<std::io::Cursor<Vec<u8>>>>>,
    digest: Rc<RefCell<Option<(u64, u64)>>>,
}

impl Driver for Logged {
    fn start(&mut self) -> Time {
        self.log.borrow().header().start
    }
    fn park(&mut self, _: Option<Time>) -> Option<Time> {
        loop {
            match self.log.borrow_mut().next_record().unwrap()? {
                FlightRecord::Arrive(request) => {
                    self.world.borrow_mut().requests.push_back(request);
                }
                FlightRecord::Complete { io, result, .. } => {
                    // A run that has diverged may not have requested it.
                    let completion = self.world.borrow_mut().waiting.remove(&io)?;
                    let block = |piece: &Piece| piece.block().unwrap();
                    completion.done(result.map(|pieces| pieces.iter().map(block).collect()));
                }
                FlightRecord::Park(now) => return Some(now),
                FlightRecord::Digest { value, events } => {
                    *self.digest.borrow_mut() = Some((value, events));
                    return None;
                }
                FlightRecord::Command(_) | FlightRecord::Civil(_) => {}
            }
        }
    }
}

#[test]
fn a_run_can_be_repeated_from_its_log() {
    for seed in 0..10 {
        let world = Shared::default();
        let writer = FlightWriter::new(Vec::new(), START, seed, "", false).unwrap();
        let log = Rc::new(RefCell::new(writer));
        let rng = Rng::stream(seed, "outside");
        let (w, l) = (Rc::clone(&world), Rc::clone(&log));
        let rt = Rt::new(Chance { world: w, rng, now: START, log: l, requests: 0 }, seed);
        core(&rt, &world);
        (0..2000).for_each(|_| assert!(rt.turn()));
        rt.run_ready();
        log.borrow_mut().digest(rt.digest()).unwrap();
        let (digest, events) = (rt.digest().value(), rt.digest().events());
        assert!(events > 2000, "{events} events");
        rt.crash();
        drop(rt);
        let bytes = Rc::into_inner(log).unwrap().into_inner().finish().unwrap();

        let repeat = |seed| {
            let world = Shared::default();
            let reader = FlightReader::new(std::io::Cursor::new(bytes.clone())).unwrap();
            let (log, said) = (Rc::new(RefCell::new(reader)), Rc::default());
            let driver = Logged { world: Rc::clone(&world), log, digest: Rc::clone(&said) };
            let rt = Rt::new(driver, seed);
            core(&rt, &world);
            while rt.turn() {}
            rt.crash();
            (rt.digest().value(), said.borrow().map(|(value, _)| value))
        };
        assert_eq!(repeat(seed), (digest, Some(digest)), "seed {seed}");
        assert_ne!(repeat(seed + 1).0, digest, "another seed takes another way");
    }
}
