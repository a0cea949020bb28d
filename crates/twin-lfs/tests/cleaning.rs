//! The policies of `twin-clean` in a volume: whatever they are, the volume is what was written;
//! and the cleaner's task works when it should, and only then.

use crate::common::World;
use twin_clean::{placement, trigger, victim};
use twin_disk::{BlockDevice, Bytes, DeviceInfo, Io, IoKind, MemDisk, Pending};
use twin_fs::{CleanerCounts, Cpu, Data, Ino, Op, Request, Settings};
use twin_lfs::{Lfs, LfsSettings, LfsStats, MkfsOptions};
use twin_rt::{ClockOnly, Rng, Rt, SECS};

use std::cell::Cell;
use std::rc::Rc;

const BLOCK: usize = 4096;

/// A file that is overwritten at random, hot and cold, and what is in it.
struct Story {
    w: World,
    ino: Ino,
    seeds: Vec<u64>,
    rng: Rng,
}

/// So little memory that what is overwritten has been written before.
fn small_cache() -> Settings {
    Settings { cache_bytes: 1 << 20, ..Settings::default() }
}

fn content(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

impl Story {
    fn begin(size: u64, fill: f64, lfs: LfsSettings) -> Story {
        let options = MkfsOptions { segment_size: Some(64 << 10), ..MkfsOptions::modern([1; 16]) };
        let mut w = World::with(&options, size, small_cache(), lfs);
        let ino = w.create("f");
        let limit = w.volume.layout.space().1;
        let blocks = (limit as f64 * fill) as usize / BLOCK;
        let mut story = Story { w, ino, seeds: vec![0; blocks], rng: Rng::new(9) };
        for block in 0..blocks {
            story.put(block);
        }
        story
    }

    fn put(&mut self, block: usize) {
        let seed = self.rng.next_u64();
        self.w.write(self.ino, (block * BLOCK) as u64, &content(seed));
        self.seeds[block] = seed;
    }

    /// Nine in ten writes go to a tenth of the blocks.
    fn overwrite(&mut self, times: usize) {
        let blocks = self.seeds.len() as u64;
        for _ in 0..times {
            let hot = self.rng.below(10) > 0;
            let block = self.rng.below(if hot { blocks / 10 } else { blocks });
            self.put(block as usize);
        }
    }

    fn compare(&mut self) {
        for (block, seed) in self.seeds.clone().into_iter().enumerate() {
            let read = self.w.read(self.ino, (block * BLOCK) as u64, BLOCK as u32);
            assert!(read == content(seed), "block {block}");
        }
    }
}

/// Files that grow at the same time, block by block, beside some that are overwritten all the time. Returns in
/// how many pieces they lie.
fn files_that_grow_together(lfs: LfsSettings) -> usize {
    const FILES: usize = 16;
    const BLOCKS: i64 = 250;
    let options = MkfsOptions { segment_size: Some(64 << 10), ..MkfsOptions::modern([1; 16]) };
    let mut w = World::with(&options, 24 << 20, small_cache(), lfs);
    // The log is sorted by inode, so that every other block that is written is soon garbage.
    let mut create = |i: usize| (w.create(&format!("f{i}")), w.create(&format!("hot{i}")));
    let (inos, hot): (Vec<Ino>, Vec<Ino>) = (0..FILES).map(&mut create).unzip();
    for block in 0..BLOCKS {
        for (&ino, &hot) in inos.iter().zip(&hot) {
            w.write(ino, block as u64 * BLOCK as u64, &content(ino));
            w.write(hot, 0, &content(block as u64));
        }
        w.op(Op::Sync);
    }
    for round in 0..600 {
        for &hot in &hot {
            w.write(hot, 0, &content(round));
        }
        w.op(Op::Sync);
    }
    let stats = w.volume.layout.stats();
    assert!(stats.moved_bytes > 8 << 20, "{stats:?}");
    let core = w.volume.core();
    let mut pieces = 0;
    for &ino in &inos {
        let inode = core.cached_inode(ino).unwrap();
        let mut next = 0;
        for lbn in 0..BLOCKS {
            let ptr = w.rt.block_on(core.ptr(&inode, lbn)).unwrap().unwrap();
            let at = core.geometry.byte_of(ptr.addr);
            pieces += usize::from(at != next);
            next = at + u64::from(ptr.len);
        }
    }
    pieces
}

fn policies(victim: &str, placement: &str, when: &str) -> LfsSettings {
    LfsSettings {
        victim: victim.into(),
        placement: placement.into(),
        trigger: when.into(),
        ..LfsSettings::default()
    }
}

/// A volume on which as many victims as the policy cleans together would leave too little room cleaned
/// none of them, and was full although a ninth of it was garbage.
#[test]
fn fewer_victims_than_a_policy_wants_are_cleaned_where_all_would_need_too_much_room() {
    for placement in ["none", "age-sort", "file-sort"] {
        let mut story = Story::begin(6 << 20, 0.97, policies("greedy", placement, "on-demand"));
        story.overwrite(2000);
        story.w.op(Op::Sync);
        assert!(story.w.volume.layout.stats().cleaned_segments > 20, "{placement}");
        story.compare();
        story.w.assert_clean();
    }
}

#[test]
fn a_sort_by_file_brings_the_blocks_of_files_that_grew_together_to_each_other() {
    let [apart, together] = ["sep-gc", "file-sort"].map(|placement| {
        files_that_grow_together(policies("cost-benefit", placement, "on-demand"))
    });
    println!("{apart} pieces, {together} with file-sort");
    assert!(together * 8 < apart * 7, "{apart} pieces, {together} with file-sort");
}

#[test]
fn a_volume_is_what_was_written_whatever_its_policies() {
    let mountable: Vec<_> = placement::REGISTRY.iter().filter(|e| e.is_mountable()).collect();
    assert!(mountable.len() > 10);
    let victims = &victim::REGISTRY;
    for (nth, entry) in mountable.iter().enumerate() {
        let victim = victims[nth % victims.len()].name;
        let next = mountable[(nth + 1) % mountable.len()].name;
        println!("{} with {victim}, then {next}", entry.name);
        let mut story = Story::begin(12 << 20, 0.8, policies(victim, entry.name, "on-demand"));
        story.overwrite(3000);
        story.w.op(Op::Sync);
        let stats = story.w.volume.layout.stats();
        assert!(stats.cleaned_segments > 20, "{} {victim}: {stats:?}", entry.name);
        // The log goes on with other policies, and other streams, after a crash.
        story.w.lfs = policies("greedy", next, "on-demand");
        story.w = story.w.crash();
        story.compare();
        story.overwrite(500);
        story.w.op(Op::Sync);
        story.w.assert_clean();
        story.w.lfs = LfsSettings::default();
        story.w = story.w.reopen();
        story.compare();
        story.overwrite(500);
        story.w.op(Op::Sync);
        story.w.assert_clean();
    }
}

#[test]
fn separation_saves_moves() {
    let moved = |placement: &str, victim: &str| {
        let mut story = Story::begin(32 << 20, 0.8, policies(victim, placement, "on-demand"));
        story.overwrite(20_000);
        let before = story.w.volume.layout.stats();
        story.overwrite(20_000);
        story.w.volume.layout.stats().since(&before).write_cost().unwrap()
    };
    let none = moved("none", "greedy");
    for (placement, victim) in [("sep-gc", "cost-benefit"), ("twin", "twin")] {
        let cost = moved(placement, victim);
        println!("{placement} with {victim}: {cost}");
        assert!(cost < none, "{placement} with {victim}: {cost}, none with greedy: {none}");
    }
}

#[test]
fn new_data_is_what_users_wrote_however_much_is_moved() {
    let mut story = Story::begin(32 << 20, 0.8, policies("greedy", "none", "on-demand"));
    let before = story.w.volume.layout.stats();
    story.overwrite(20_000);
    story.w.op(Op::Sync);
    let stats = story.w.volume.layout.stats().since(&before);
    // Of the blocks written by users some are overwritten in memory, and what was still in memory
    // at first, at most the cache, is added.
    let (most, memory) = (20_000 * BLOCK as u64, 1 << 20);
    assert!(stats.moved_bytes > most / 4, "{stats:?}");
    assert!(stats.new_data_bytes <= most + memory, "{stats:?}");
    assert!(stats.new_data_bytes + stats.moved_bytes < stats.log_bytes, "{stats:?}");
    assert!(stats.new_data_bytes > most / 2, "{stats:?}");
}

/// A disk that counts what is written.
struct Counting {
    disk: Rc<MemDisk>,
    writes: Cell<u64>,
}

impl BlockDevice for Counting {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }
    fn submit(&self, io: Io) -> Pending {
        self.writes.set(self.writes.get() + u64::from(io.kind != IoKind::Read));
        self.disk.submit(io)
    }
    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }
}

/// A volume with garbage in it, left alone; clean segments and device writes after some hours, and what
/// its log has counted.
fn left_alone(when: &str) -> (Vec<(u32, u64)>, LfsStats) {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = Rc::new(MemDisk::new(16 << 20));
    let options = MkfsOptions { segment_size: Some(64 << 10), ..MkfsOptions::modern([1; 16]) };
    rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
    let counting = Rc::new(Counting { disk, writes: Cell::new(0) });
    let lfs = policies("greedy", "", when);
    let opening = Lfs::open(&rt, Rc::clone(&counting) as _, Cpu::none(), small_cache(), lfs);
    let volume = rt.block_on(opening).unwrap().unwrap().0;
    let mut rng = Rng::new(3);
    let name = b"f"[..].into();
    let mut id = 1;
    let mut op = |op| {
        id += 1;
        rt.block_on(volume.execute(Request::root(id, op))).unwrap().unwrap()
    };
    let twin_fs::Reply::Entry(entry) =
        op(Op::Create { dir: twin_fs::ROOT_INO, name, mode: 0o644, exclusive: true })
    else {
        unreachable!()
    };
    let ino = entry.attr.ino;
    let write = |block: u64, seed| {
        let data = Data::Bytes(Bytes::copy_of(&content(seed)));
        Op::Write { ino, off: block * BLOCK as u64, data }
    };
    for block in 0..2400 {
        op(write(block, block));
    }
    for _ in 0..1200 {
        op(write(rng.below(2400), rng.next_u64()));
    }
    op(Op::Sync);
    let mut out = Vec::new();
    for seconds in [0, 60, 3600, 7200] {
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(seconds * SECS).await }).unwrap();
        let clean = volume.layout.with_segments(|segments| segments.clean_count());
        out.push((clean, counting.writes.get()));
    }
    // The idle time ends.
    op(write(0, 1));
    op(Op::Sync);
    (out, volume.layout.stats())
}

/// The parts of what was cleaned are all of it.
fn assert_reasons_add_up(stats: &LfsStats) {
    let CleanerCounts { background, demand, by_hand, .. } = stats.cleaner;
    let all = [background, demand, by_hand];
    assert_eq!(all.iter().map(|one| one.segments).sum::<u64>(), stats.cleaned_segments);
    assert_eq!(all.iter().map(|one| one.moved_bytes).sum::<u64>(), stats.moved_bytes);
}

#[test]
fn an_idle_volume_is_cleaned_once_and_then_left_alone() {
    for entry in &trigger::REGISTRY {
        let (seen, stats) = left_alone(entry.name);
        let [(before, _), _, (clean, writes), (later, writes_later)] = seen[..] else {
            unreachable!()
        };
        assert_eq!((clean, writes), (later, writes_later), "{}: {seen:?}", entry.name);
        if matches!(entry.name, "idle" | "adaptive") {
            assert!(clean > before + 10, "{}: {seen:?}", entry.name);
        }
        assert_reasons_add_up(&stats);
        let CleanerCounts { background, by_hand, idle, .. } = stats.cleaner;
        let chooses = entry.name != trigger::OF_FILE_SYSTEMS;
        assert_eq!(background.segments > 10, chooses, "{}: {stats:?}", entry.name);
        assert_eq!(by_hand.segments, 0, "{}: {stats:?}", entry.name);
        // Three hours and a minute, however much was cleaned in them.
        assert_eq!((idle.of_two_s, idle.of_four_s), (1, 1), "{}: {idle:?}", entry.name);
        let most = (10_860 * SECS, 10_863 * SECS);
        assert!((most.0..most.1).contains(&idle.all.longest_ns), "{}: {idle:?}", entry.name);
        assert!(idle.all.longest_ns <= idle.all.total_ns, "{}: {idle:?}", entry.name);
    }
}

#[test]
fn cleaning_on_demand_and_the_waits_for_it_are_counted() {
    let mut story = Story::begin(12 << 20, 0.9, policies("greedy", "none", "on-demand"));
    story.overwrite(6000);
    story.w.op(Op::Sync);
    let stats = story.w.volume.layout.stats();
    assert_reasons_add_up(&stats);
    let CleanerCounts { background, demand, by_hand, waits, .. } = stats.cleaner;
    assert!(demand.segments > 20 && demand.moved_bytes > 0, "{stats:?}");
    assert_eq!((background.segments, by_hand.segments), (0, 0), "{stats:?}");
    assert!(waits.count > 0 && waits.count == stats.space_waits, "{stats:?}");
    assert!(waits.longest_ns <= waits.total_ns, "{stats:?}");
}

#[test]
fn cleaning_on_request_goes_on_where_it_stopped() {
    let mut story = Story::begin(16 << 20, 0.5, LfsSettings::default());
    story.overwrite(1000);
    story.w.op(Op::Sync);
    let clean = |story: &mut Story, budget| {
        let volume = story.w.volume.clone();
        let work = async move { volume.layout.clean(volume.core(), budget, 0.1).await };
        story.w.rt.block_on(work).unwrap().unwrap()
    };
    let first = clean(&mut story, 3);
    assert_eq!(first.segments, 3);
    let counted = story.w.volume.layout.stats();
    assert_eq!(counted.cleaner.by_hand.segments, 3);
    assert_reasons_add_up(&counted);
    let second = clean(&mut story, u64::MAX);
    assert!(second.segments > 3 && second.clean_after > first.clean_after, "{second:?}");
    let third = clean(&mut story, u64::MAX);
    assert!(third.segments < second.segments / 4, "{second:?}, then {third:?}");
    story.compare();
    story.w = story.w.crash();
    story.compare();
    story.w.assert_clean();
}
