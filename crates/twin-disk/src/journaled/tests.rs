//! What random power failures rarely meet. The campaign is in twin-proof (tests/journaled.rs).

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::{ClockOnly, Rt, SECS};

use super::*;
use crate::{Buf, MemDisk, gather};

const MAIN: u64 = 1 << 20;
const LOCAL: u64 = LEAST_JOURNAL;
/// The places of the first and the second record in the ring if each has a unit of content.
const FIRST: usize = 2 * UNIT as usize;

fn rt() -> Rt {
    Rt::new(ClockOnly::default(), 1)
}

fn write(at: u64, byte: u8, len: u64) -> Io {
    let block = Block::Bytes(Buf::taking(vec![byte; len as usize]).freeze());
    Io::write(at, vec![block], Class::Meta, Origin::User)
}

fn open(
    rt: &Rt,
    main: &Rc<MemDisk>,
    local: Rc<dyn BlockDevice>,
) -> Result<(Journaled, Replayed), RingError> {
    let main = Rc::clone(main) as Rc<dyn BlockDevice>;
    rt.block_on(Journaled::open(rt, main, local, [7; 16])).unwrap()
}

fn run(rt: &Rt, device: &Journaled, io: Io) -> Vec<Block> {
    rt.block_on(device.submit(io)).unwrap().unwrap()
}

#[test]
fn a_record_behind_a_gap_never_follows_a_later_one() {
    let main = Rc::new(MemDisk::new(MAIN));
    let local = Rc::new(MemDisk::new(LOCAL));
    let rt1 = rt();
    let (device, _) = open(&rt1, &main, local.clone()).unwrap();
    run(&rt1, &device, write(8192, 1, UNIT));
    run(&rt1, &device, write(16384, 2, UNIT));
    rt1.crash();
    // The power failure loses the first record, and leaves the second.
    let mut left = local.to_bytes();
    left[FIRST..FIRST + UNIT as usize].fill(0);
    let local = Rc::new(MemDisk::from_bytes(left));
    let rt2 = rt();
    let (device, replayed) = open(&rt2, &main, local.clone()).unwrap();
    assert_eq!(replayed, Replayed::default());
    // It takes the place of the one that was lost, and would have its number if numbers came again.
    run(&rt2, &device, write(4096, 3, UNIT));
    run(&rt2, &device, Io::flush(Origin::User));
    rt2.crash();
    let rt3 = rt();
    let (device, replayed) = open(&rt3, &main, local).unwrap();
    assert_eq!(replayed, Replayed { records: 1, bytes: UNIT });
    let read = run(&rt3, &device, Io::read(16384, UNIT, Class::Meta, Origin::User));
    assert_eq!(gather(&read, 0, UNIT as usize).to_bytes()[0], 0);
}

/// A device that notes what it is asked.
struct Noted(Rc<MemDisk>, Rc<RefCell<Vec<(IoKind, u64)>>>);

impl BlockDevice for Noted {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn submit(&self, io: Io) -> Pending {
        self.1.borrow_mut().push((io.kind, io.at));
        self.0.submit(io)
    }

    fn in_flight(&self) -> usize {
        0
    }
}

#[test]
fn what_replaces_a_record_is_durable_before_the_record_is_given_up() {
    let main = Rc::new(MemDisk::new(MAIN));
    let asked = Rc::new(RefCell::default());
    let local = Rc::new(Noted(Rc::new(MemDisk::new(LOCAL)), Rc::clone(&asked)));
    let rt = rt();
    let (device, _) = open(&rt, &main, local).unwrap();
    // Two of them are more than is moved at once, so the first is given up before the second is on the device.
    let len = 24 << 10;
    run(&rt, &device, write(65536, 1, len));
    run(&rt, &device, Io::flush(Origin::User));
    run(&rt, &device, write(65536, 2, len));
    asked.borrow_mut().clear();
    rt.block_on(rt.sleep(3 * SECS)).unwrap();
    let asked = asked.borrow();
    let start = asked.iter().position(|(kind, at)| *kind == IoKind::Write && *at < FIRST as u64);
    let flush = asked.iter().position(|(kind, _)| *kind == IoKind::Flush);
    assert!(flush.is_some() && flush < start, "{asked:?}");
    assert_eq!(device.waiting().moved, len, "the first was not moved for nothing");
}

#[test]
fn a_journal_stays_with_its_device_until_it_is_empty() {
    let (main, other) = (Rc::new(MemDisk::new(MAIN)), Rc::new(MemDisk::new(MAIN)));
    let local = Rc::new(MemDisk::new(LOCAL));
    let first = rt();
    let (device, _) = open(&first, &main, local.clone()).unwrap();
    run(&first, &device, write(4096, 1, UNIT));
    first.crash();
    let why = |main: &Rc<MemDisk>, local: Rc<MemDisk>| {
        open(&rt(), main, local).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(why(&other, local.clone()).contains("1 writes of another volume"));
    assert!(
        why(&main, Rc::new(MemDisk::new(LOCAL))).contains("give the file that it was mounted with")
    );
    let second = rt();
    let (device, replayed) = open(&second, &main, local.clone()).unwrap();
    assert_eq!(replayed.records, 1);
    second.block_on(device.close()).unwrap().unwrap();
    assert_eq!(mark_of(&main.to_bytes()), None);
    assert_eq!(why(&other, local), "", "an empty one may go to another device");
}

#[test]
fn what_is_no_journal_is_left_alone() {
    let main = Rc::new(MemDisk::new(MAIN));
    for (local, word) in [
        (MemDisk::from_bytes(vec![3; LOCAL as usize]), "neither empty nor a journal"),
        (MemDisk::new(LOCAL - UNIT), "at least"),
    ] {
        let local = Rc::new(local);
        let before = local.to_bytes();
        let error = open(&rt(), &main, local.clone()).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(word)), "{error:?}");
        assert_eq!(local.to_bytes(), before);
    }
    assert!(main.to_bytes().iter().all(|byte| *byte == 0), "no mark is set");
}

#[test]
fn a_record_that_names_a_place_outside_is_refused() {
    let large = Rc::new(MemDisk::new(2 * MAIN));
    let local = Rc::new(MemDisk::new(LOCAL));
    let first = rt();
    let (device, _) = open(&first, &large, local.clone()).unwrap();
    run(&first, &device, write(MAIN, 1, UNIT));
    first.crash();
    // The same volume on a device that is smaller.
    let smaller = Rc::new(MemDisk::from_bytes(large.to_bytes()[..MAIN as usize].to_vec()));
    let error = open(&rt(), &smaller, local).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("no place on the volume")));
}

#[test]
fn a_record_that_is_no_whole_sectors_is_refused_before_anything_is_written() {
    let main = Rc::new(MemDisk::new(MAIN));
    let local = Rc::new(MemDisk::new(LOCAL));
    let first = rt();
    open(&first, &main, local.clone()).unwrap();
    first.crash();
    let forging = rt();
    let forged = async {
        let found = Found::read(local.clone()).await.unwrap();
        let ring = found.begin(&id_text(&[7; 16])).await.unwrap();
        for (label, len) in [("4096", 512), ("8192", 516)] {
            let blocks = vec![Block::Bytes(Buf::taking(vec![9; len]).freeze())];
            let reserved = ring.reserve(label, &blocks).unwrap();
            ring.write(&reserved, blocks).await.unwrap();
        }
    };
    forging.block_on(forged).unwrap();
    let before = main.to_bytes();
    let error = open(&rt(), &main, local).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("no place on the volume")));
    assert!(main.to_bytes() == before);
}
