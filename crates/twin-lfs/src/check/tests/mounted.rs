//! Damaged volumes, mounted: an error or the right answer, never a panic, a hang or wrong data.

use twin_model::{Dump, dump};
use twin_rt::Rng;

use super::mutations::{Forger, Live, mutate, scramble};
use super::rich::Rich;
use super::*;

const SIZE: u64 = 3 << 20;

/// Mounts, reads everything, works for a while, unmounts. Gives what was read, if all could be.
fn use_volume(bytes: Vec<u8>, seed: u64) -> Option<Dump> {
    let rt = Rt::new(ClockOnly::default(), seed);
    let disk = Rc::new(MemDisk::from_bytes(bytes));
    let settings = Settings { expand_stamps: true, ..Settings::default() };
    let open = Lfs::open(&rt, disk, Cpu::none(), settings, LfsSettings::default());
    let volume = rt.block_on(open).unwrap().ok()?.0;
    let mut next_id = 1;
    let tree = rt.block_on(dump(&*volume, &mut next_id)).unwrap();
    let params = WorkloadParams { users: false, ..WorkloadParams::default() };
    let mut generator = Generator::new("mixed", params, seed).unwrap();
    generator.set_next_id(next_id);
    for _ in 0..60 {
        let request = generator.next();
        let reply = rt.block_on(volume.execute(request.clone()));
        generator.learn(&request, &reply.unwrap());
    }
    let _ = rt.block_on(volume.close()).unwrap();
    tree.ok()
}

fn mutated_mounts(options: &MkfsOptions, count: u64, right: impl Fn(&Dump, &Dump) -> bool) {
    let good = Rich::new(options, SIZE).w.close().to_bytes();
    let live = Live::of(&good);
    let whole = use_volume(good.clone(), 1).unwrap();
    let mut rng = Rng::stream(6, "mutations");
    let mut read = 0;
    for round in 0..count {
        let mut bad = good.clone();
        mutate(&mut bad, &live, &mut rng);
        if let Some(tree) = use_volume(bad, round) {
            assert!(right(&tree, &whole), "round {round}: wrong data");
            read += 1;
        }
    }
    assert!(read > count / 20 && read < count, "{read} of {count} could be read");
}

#[test]
fn a_damaged_modern_volume_gives_errors_but_never_wrong_data() {
    mutated_mounts(&MkfsOptions::modern([1; 16]), 1500, |tree, whole| tree == whole);
}

#[test]
fn a_damaged_classic_volume_meets_no_panic() {
    mutated_mounts(&MkfsOptions::classic([1; 16]), 1500, |_, _| true);
}

#[test]
fn a_forged_volume_meets_no_panic() {
    let (good, inos, blocks) = super::mutations::forgeable(SIZE);
    let mut rng = Rng::stream(7, "forgeries");
    for round in 0..1500 {
        let mut forger = Forger::new(good.clone());
        match rng.below(4) {
            0 => forger.forge_inode(*rng.pick(&inos), |raw| scramble(raw, &mut rng)),
            _ => {
                let place = *rng.pick(&blocks);
                forger.forge_block(place.ino, place.lbn, |raw| scramble(raw, &mut rng));
            }
        }
        use_volume(forger.bytes, round);
    }
}
