use std::cell::Cell;

use twin_disk::{BlockDevice, DeviceInfo, IoKind, MemDisk, Pending};
use twin_fs::{Cpu, Op, ROOT_INO, Reply, Request, Settings, VolumeOf};
use twin_rt::{ClockOnly, Rt};

use super::*;
use crate::{Ffs, FfsSettings, MkfsOptions, Recovered};

/// A disk whose power fails after a number of writes: later writes are lost.
struct Failing {
    disk: Rc<MemDisk>,
    writes_left: Rc<Cell<u64>>,
}

impl BlockDevice for Failing {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn submit(&self, io: Io) -> Pending {
        if io.kind == IoKind::Write {
            let Some(left) = self.writes_left.get().checked_sub(1) else {
                return Pending::ready(Ok(Vec::new()));
            };
            self.writes_left.set(left);
        }
        self.disk.submit(io)
    }

    fn in_flight(&self) -> usize {
        0
    }
}

fn open(rt: &Rt, device: Rc<dyn BlockDevice>) -> (VolumeOf<Ffs>, Recovered) {
    let (settings, ffs) = (Settings::default(), FfsSettings::default());
    rt.block_on(Ffs::open(rt, device, Cpu::none(), settings, ffs)).unwrap().unwrap()
}

fn ask(rt: &Rt, volume: &VolumeOf<Ffs>, id: u64, op: Op) -> Reply {
    rt.block_on(volume.execute(Request::root(id, op))).unwrap().unwrap()
}

/// The last record is in the way of one that is longer than the room beside it, with an orphan in
/// it. Gives what the restart after a power failure had to do, and whether the power failed at all.
fn crowded_ring(writes: u64) -> (Recovered, bool) {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = Rc::new(MemDisk::new(32 << 20));
    let options = MkfsOptions::modern([7; 16]);
    rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
    let writes_left = Rc::new(Cell::new(u64::MAX));
    let device = Failing { disk: Rc::clone(&disk), writes_left: Rc::clone(&writes_left) };
    let (volume, _) = open(&rt, Rc::new(device));
    let name = || b"held".as_slice().into();
    let create = Op::Create { dir: ROOT_INO, name: name(), mode: 0o644, exclusive: true };
    ask(&rt, &volume, 1, create);
    // The file is still open, so it becomes an orphan.
    ask(&rt, &volume, 2, Op::Unlink { dir: ROOT_INO, name: name() });
    ask(&rt, &volume, 3, Op::Sync);
    let journal = volume.layout.journal.as_ref().unwrap();
    let one = record_blocks(&volume.layout.sb, 1, 0);
    // The record now counts as a long one.
    journal.live.borrow_mut().back_mut().unwrap().len = journal.ring - one;
    ask(&rt, &volume, 4, Op::MakeDir { dir: ROOT_INO, name: b"d".as_slice().into(), mode: 0o755 });
    writes_left.set(writes);
    ask(&rt, &volume, 5, Op::Sync);
    let failed = writes_left.get() == 0;
    rt.crash();
    let rt = Rt::new(ClockOnly::default(), 2);
    let (volume, recovered) = open(&rt, Rc::clone(&disk) as _);
    rt.block_on(volume.close()).unwrap().unwrap();
    let report = rt.block_on(crate::check::check(disk, &mut |_| {})).unwrap().unwrap();
    assert!(report.is_clean() && report.counts.orphans == 0, "after {writes} writes: {report}");
    (recovered, failed)
}

/// A record so long that it does not fit beside the last one made the journal's header lead past that,
/// to where itself was to be: a power failure before it was durable left a file without a name in
/// use, because nothing said any more that it was one. The campaigns of power failures had no two
/// records of half a journal, one after the other: an operation begins only when the last ones have
/// filled less than a third.
#[test]
fn a_record_that_needs_the_room_of_the_last_one_does_not_lose_the_orphans() {
    let mut writes = 0;
    loop {
        let (recovered, failed) = crowded_ring(writes);
        assert_eq!(recovered.orphans, 1, "after {writes} writes");
        if !failed {
            break;
        }
        writes += 1;
    }
    assert!(writes > 4, "{writes} writes");
}
