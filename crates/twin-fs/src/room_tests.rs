use std::collections::BTreeMap;

use twin_rt::Rng;

use crate::Ino;
use crate::room::{Gate, GateChange, WriteVerdict, collected_bytes};

const MIB: u64 = 1 << 20;

/// A kernel that collects writes above a volume, and asks the gate before each if it is shut.
struct Kernel {
    gate: Gate,
    limit: u64,
    free: u64,
    /// The room that each file takes on the volume.
    takes: BTreeMap<Ino, u64>,
    /// Writes that are accepted and not delivered: bytes that take new room, and bytes that take
    /// none.
    dirty: BTreeMap<Ino, (u64, u64)>,
    collects: u64,
    /// Bytes for which there was no room when they were delivered.
    lost: u64,
    calls: u64,
    writes: u64,
}

impl Kernel {
    fn new(limit: u64, free: u64) -> Kernel {
        let collects = collected_bytes(limit);
        let gate = Gate::new(limit, collects);
        let mut kernel = Kernel {
            gate,
            limit,
            free,
            takes: BTreeMap::new(),
            dirty: BTreeMap::new(),
            collects,
            lost: 0,
            calls: 0,
            writes: 0,
        };
        kernel.gate.update(free);
        kernel
    }

    fn held(&self) -> u64 {
        self.dirty.values().map(|(new, old)| new + old).sum()
    }

    /// Delivers the collected data of one file.
    fn bring(&mut self, ino: Ino) {
        let Some((new, old)) = self.dirty.remove(&ino) else { return };
        let takes = self.takes.entry(ino).or_default();
        let mut rest = new;
        while rest > 0 {
            let piece = rest.min(MIB);
            rest -= piece;
            if piece > self.free {
                self.lost += piece;
                self.gate.failed(ino, piece);
                continue;
            }
            self.free -= piece;
            *takes += piece;
            self.gate.update(self.free);
            self.gate.data_arrived(ino, piece, *takes);
        }
        self.gate.data_arrived(ino, old, *takes);
    }

    fn bring_all(&mut self) {
        self.dirty.keys().copied().collect::<Vec<_>>().into_iter().for_each(|ino| self.bring(ino));
    }

    /// One write of a client; returns true if it was accepted.
    fn write(&mut self, ino: Ino, new: u64, old: u64) -> bool {
        if self.gate.is_shut() {
            let mut tries = 0;
            loop {
                let takes = self.takes.get(&ino).copied().unwrap_or(0);
                match self.gate.check_write(ino, self.free, takes) {
                    WriteVerdict::Pass => break,
                    WriteVerdict::Refuse => return false,
                    WriteVerdict::CallBack => {
                        self.calls += 1;
                        self.bring_all();
                        self.gate.called_back();
                    }
                }
                tries += 1;
                assert!(tries < 3, "asked again and again");
            }
        }
        self.writes += 1;
        let dirty = self.dirty.entry(ino).or_default();
        (dirty.0, dirty.1) = (dirty.0 + new, dirty.1 + old);
        if self.held() > self.collects {
            let (&largest, _) = self.dirty.iter().max_by_key(|(_, (new, old))| new + old).unwrap();
            self.bring(largest);
        }
        true
    }
}

#[test]
fn whoever_extends_files_stops_near_the_end_and_loses_nothing() {
    for seed in 0..300u64 {
        let mut rng = Rng::new(seed);
        let limit = (64 + rng.below(1000)) * MIB;
        let mut kernel = Kernel::new(limit, limit - rng.below(limit));
        let mut writers: Vec<(Ino, u64)> =
            (0..1 + rng.below(4)).map(|n| (n + 10, 1 << (12 + rng.below(9)))).collect();
        while !writers.is_empty() {
            let at = rng.below(writers.len() as u64) as usize;
            let (ino, size) = writers[at];
            if !kernel.write(ino, size, 0) {
                writers.remove(at);
            }
            if rng.chance(0.02) {
                kernel.bring(ino);
            }
        }
        kernel.bring_all();
        assert_eq!(kernel.lost, 0, "seed {seed}");
        let left = kernel.free;
        assert!(left <= kernel.gate.reserve_bytes() + 8 * MIB, "seed {seed}: {left} bytes left");
    }
}

#[test]
fn small_appends_are_called_back_rarely() {
    let mut kernel = Kernel::new(256 * MIB, 20 * MIB);
    while kernel.write(7, 100, 0) {}
    assert_eq!(kernel.lost, 0);
    assert!(kernel.writes > 100_000 && kernel.calls * 100 < kernel.writes, "{}", kernel.calls);
}

#[test]
fn a_full_volume_can_be_overwritten() {
    for free in [0, 4096, 3 * MIB] {
        let mut kernel = Kernel::new(256 * MIB, free);
        kernel.takes.insert(7, 10 * MIB);
        assert!((0..1000).all(|_| kernel.write(7, 0, MIB)), "{free} free");
        assert_eq!((kernel.lost, kernel.free), (0, free));
    }
}

#[test]
fn whoever_was_refused_can_undo_what_it_did() {
    let mut kernel = Kernel::new(256 * MIB, 30 * MIB);
    while kernel.write(7, 4096, 0) {}
    assert!((0..100).all(|_| kernel.write(7, 0, 4096)));
    kernel.bring_all();
    assert_eq!(kernel.lost, 0);
}

#[test]
fn an_empty_file_on_a_full_volume_is_refused_at_once() {
    let mut kernel = Kernel::new(256 * MIB, MIB);
    assert!(!kernel.write(7, 100, 0) && !kernel.write(7, 100, 0));
}

#[test]
fn the_gate_opens_when_there_is_room_and_then_nobody_is_asked() {
    let mut kernel = Kernel::new(256 * MIB, 30 * MIB);
    while kernel.write(7, MIB, 0) {}
    assert!(kernel.gate.is_shut());
    kernel.free = kernel.limit;
    assert_eq!(kernel.gate.update(kernel.free), Some(GateChange::Opened));
    assert_eq!(kernel.gate.update(kernel.free), None);
    assert_eq!(kernel.gate.check_write(7, kernel.free, 0), WriteVerdict::Pass);
    assert!(kernel.gate.data_arrived(7, MIB, MIB));
}

#[test]
fn between_the_margin_and_a_little_more_the_gate_stays_as_it_is() {
    let mut gate = Gate::new(1 << 30, 64 * MIB);
    assert_eq!(gate.update(150 * MIB), None);
    assert_eq!(gate.update(130 * MIB), Some(GateChange::Shut));
    assert_eq!(gate.update(150 * MIB), None);
    assert_eq!(gate.update(171 * MIB), Some(GateChange::Opened));
}

#[test]
fn a_file_that_suddenly_writes_more_is_called_back_once_that_shows() {
    let mut kernel = Kernel::new(256 * MIB, 30 * MIB);
    for _ in 0..2000 {
        assert!(kernel.write(7, 4096, 0));
    }
    assert!((0..300).any(|_| !kernel.write(7, MIB, 0)), "it was never refused");
    kernel.bring_all();
    assert!(kernel.lost <= kernel.collects, "{} lost", kernel.lost);
}
