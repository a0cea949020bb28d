//! Properties of all policies, and what each one writes of a few files.

use super::*;

/// Dirty data: blocks with the time since when they are dirty.
#[derive(Default)]
struct Fake {
    blocks: Vec<(u64, Lbn, Time)>,
}

impl Fake {
    fn state(&self) -> FlushState {
        FlushState {
            dirty_bytes: self.blocks.len() as u64 * 4096,
            data_bytes: self.blocks.len() as u64 * 4096,
            frame_bytes: 4096,
            oldest: self.blocks.iter().map(|b| b.2).min(),
            capacity_bytes: 64 << 20,
            unit_bytes: 1 << 20,
            nvram_bytes: 4 << 20,
            wanted_bytes: 0,
        }
    }
}

impl DirtyView for Fake {
    fn blocks(&self, f: &mut dyn FnMut(&DirtyBlock) -> bool) {
        for &(ino, lbn, since) in &self.blocks {
            if !f(&DirtyBlock { ino, lbn, since, changed: since, last_life_ns: None }) {
                return;
            }
        }
    }

    fn files(&self, f: &mut dyn FnMut(&DirtyFile) -> bool) {
        let mut seen = Vec::new();
        for &(ino, _, since) in &self.blocks {
            if seen.contains(&ino) {
                continue;
            }
            seen.push(ino);
            let of_file = self.blocks.iter().filter(|b| b.0 == ino);
            let bytes = of_file.clone().count() as u64 * 4096;
            let changed = of_file.map(|b| b.2).max().unwrap_or(since);
            if !f(&DirtyFile { ino, since, changed, bytes, is_dir: false }) {
                return;
            }
        }
    }

    fn file(&self, ino: u64) -> Option<DirtyFile> {
        let mut found = None;
        self.files(&mut |file| {
            found = (file.ino == ino).then_some(*file);
            found.is_none()
        });
        found
    }

    fn place(&self, _: u64, _: Lbn) -> Option<u64> {
        None
    }
}

fn policy(name: &str) -> Box<dyn FlushPolicy> {
    REGISTRY.get(name).unwrap().make(None)
}

fn two_files(now: Time) -> Fake {
    let old = Time(now.0 - 31 * SECS);
    Fake { blocks: vec![(7, 0, old), (7, 1, old), (9, 0, Time(now.0 - SECS / 2))] }
}

#[test]
fn no_policy_writes_where_nothing_is_dirty_or_waits_for_a_time_that_has_passed() {
    let now = Time(100 * SECS);
    for entry in &REGISTRY {
        let mut policy = entry.make(None);
        let none = Fake::default();
        assert_eq!(policy.advise(now, &none.state(), &none), FlushAdvice::Wait, "{}", entry.name);
        let some = two_files(now);
        for _ in 0..3 {
            if let FlushAdvice::WaitUntil(at) = policy.advise(now, &some.state(), &some) {
                assert!(at > now, "{}", entry.name);
            }
        }
    }
}

#[test]
fn every_policy_names_something_to_write_when_room_is_needed() {
    let some = two_files(Time(100 * SECS));
    for entry in &REGISTRY {
        let which = entry.make(None).make_room(&some.state(), &some);
        let named = match which {
            Which::All => true,
            Which::UpTo(at) => some.blocks.iter().any(|b| b.2 <= at),
            Which::Files(files) => !files.is_empty(),
            Which::Blocks(blocks) => !blocks.is_empty(),
        };
        assert!(named, "{}", entry.name);
    }
}

#[test]
fn no_policy_lets_more_become_dirty_than_the_cache_holds() {
    let state = two_files(Time(100 * SECS)).state();
    for entry in &REGISTRY {
        let most = entry.make(None).limit_bytes(&state);
        assert!(most > 0 && most < state.capacity_bytes, "{}", entry.name);
        if entry.survives == Survives::Nvram {
            assert_eq!(most, state.nvram_bytes);
        }
    }
}

#[test]
fn update_writes_the_file_of_the_oldest_block_and_looks_again_later() {
    let (now, mut update) = (Time(100 * SECS), policy("update"));
    let some = two_files(now);
    let advice = update.advise(now, &some.state(), &some);
    assert_eq!(advice, FlushAdvice::Write(Which::Files(vec![7])));
    let next = FlushAdvice::WaitUntil(now + LOOK_NS);
    assert_eq!(update.advise(now, &some.state(), &some), next);
}

#[test]
fn nvram_block_writes_one_block_and_nvram_file_its_file() {
    let some = two_files(Time(100 * SECS));
    let which = policy("nvram-block").make_room(&some.state(), &some);
    assert_eq!(which, Which::Blocks(vec![(7, 0)]));
    let which = policy("nvram-file").make_room(&some.state(), &some);
    assert_eq!(which, Which::Files(vec![7]));
}

#[test]
fn eager_leaves_a_file_alone_that_has_just_changed() {
    let (now, mut eager) = (Time(100 * SECS), policy("eager"));
    let some = two_files(now);
    let advice = eager.advise(now, &some.state(), &some);
    assert_eq!(advice, FlushAdvice::Write(Which::Files(vec![7])));
}

#[test]
fn watermarks_write_the_surplus_before_its_age() {
    let (now, mut watermarks) = (Time(100 * SECS), policy("watermarks"));
    let blocks = (0..4000).map(|lbn| (lbn / 400, (lbn % 400) as Lbn, now)).collect();
    let much = Fake { blocks };
    let state = much.state();
    let advice = watermarks.advise(now, &state, &much);
    let FlushAdvice::Write(Which::Files(files)) = advice else { panic!("{advice:?}") };
    let written = files.len() as u64 * 400 * 4096;
    assert!(state.dirty_bytes - written <= state.capacity_bytes / 10 && files.len() < 10);
}

#[test]
fn twin_learns_what_lives() {
    let (start, mut twin) = (Time(100 * SECS), policy("twin"));
    for n in 0..100 {
        let born = start + n * SECS;
        let death =
            Death { ino: 1, lbn: 0, born, at: born + SECS, last_life_ns: None, unwritten: true };
        twin.note_deaths(&[death]);
        // Blocks from the fourth on live for ever: each is written once.
        let long = Fake { blocks: vec![(2, 40, Time(0))] };
        twin.advise(born, &long.state(), &long);
    }
    let now = start + 200 * SECS;
    let some = Fake { blocks: vec![(3, 0, now), (4, 40, now)] };
    let advice = twin.advise(now, &some.state(), &some);
    assert_eq!(advice, FlushAdvice::Write(Which::Blocks(vec![(4, 40)])));
}

#[test]
fn nvram_names_as_much_as_is_wanted_of_the_oldest() {
    let blocks = [(7, 0, 1), (7, 1, 2), (8, 0, 3), (9, 0, 4), (9, 1, 5)];
    let dirty = Fake { blocks: blocks.map(|(ino, lbn, at)| (ino, lbn, Time(at))).to_vec() };
    let named = |name: &str, wanted_bytes| {
        policy(name).make_room(&FlushState { wanted_bytes, ..dirty.state() }, &dirty)
    };
    assert_eq!(named("nvram-block", 1), Which::Blocks(vec![(7, 0)]));
    assert_eq!(named("nvram-block", 12_288), Which::Blocks(vec![(7, 0), (7, 1), (8, 0)]));
    assert_eq!(named("nvram-file", 8_192), Which::Files(vec![7]));
    assert_eq!(named("nvram-file", 8_193), Which::Files(vec![7, 8]));
    assert_eq!(named("nvram-file", 1 << 20), Which::Files(vec![7, 8, 9]));
}
