//! The two sides of the border, with policies of the interface in this program: what is told, and that nonsense is found.
//!
//! Faults are of the whole process, so the tests that make one are one test.

use twin_cache::study::hits;
use twin_cache::{Capacity, replacement};
use twin_clean::inputs::{LogView, SegmentInfo, SegmentState, Setting};
use twin_clean::trigger::{TriggerDecision, TriggerInput};
use twin_clean::victim::Candidates;
use twin_disk::queue::{ByDistance, SchedulerInput, Waiting};
use twin_disk::{IoKind, Origin};
use twin_policy::twinfs;
use twin_policy::twinfs::log::Log;
use twin_policy::twinfs::replacement::{Item, Removal, Replacement};
use twin_rt::Time;
use twin_settings::{Registry, RegistryEntry, outside};

use super::library::Library;

/// LRU as a module would have it: slots in order, the least recent first.
struct Lru(Vec<u32>);

impl Replacement for Lru {
    fn new(_: twinfs::replacement::Capacity) -> Self {
        Lru(Vec::new())
    }

    fn inserted(&mut self, slot: u32, _: Item) {
        self.0.push(slot);
    }

    fn touched(&mut self, slot: u32) {
        self.0.retain(|other| *other != slot);
        self.0.push(slot);
    }

    fn removed(&mut self, slot: u32, _: Removal) {
        self.0.retain(|other| *other != slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.iter().copied().find(|slot| usable(*slot))
    }
}

/// A policy that answers `N` as victim; `PANICS` panics.
struct Wrong<const N: u32>;

const PANICS: u32 = 1 << 30;
const NOTHING: u32 = 1 << 29;

impl<const N: u32> Replacement for Wrong<N> {
    fn new(_: twinfs::replacement::Capacity) -> Self {
        Wrong
    }

    fn inserted(&mut self, _: u32, _: Item) {}

    fn touched(&mut self, _: u32) {}

    fn removed(&mut self, _: u32, _: Removal) {}

    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        assert!(N != PANICS, "the policy is at its wits' end");
        (N != NOTHING).then_some(N)
    }
}

fn accesses() -> Vec<u32> {
    let mut state = 1_u32;
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 16) % 100 * ((*state >> 24) % 3)
    };
    (0..20_000).map(|_| next(&mut state)).collect()
}

fn of<P: Replacement>(name: &'static str) -> Box<dyn twin_cache::Replacement> {
    let library = Library::of(twinfs::replacement::module::<P>(name, "a test"));
    super::replacement::maker(library)(Capacity::frames(50))
}

fn lru_of_the_program() -> u64 {
    let lru = replacement::REGISTRY.default_entry().make(Capacity::frames(50));
    hits(lru, 50, 300, accesses())
}

#[test]
fn lru_behind_the_border_hits_as_often_as_the_one_of_the_program() {
    assert_eq!(hits(of::<Lru>("lru"), 50, 300, accesses()), lru_of_the_program());
}

/// The words of the fault that `f` makes.
fn fault_of(f: impl FnOnce()) -> String {
    outside::forget_fault();
    f();
    outside::fault().unwrap_or_default()
}

fn hits_with<P: Replacement>() -> String {
    fault_of(|| {
        let found = hits(of::<P>("wrong"), 50, 300, accesses());
        assert!(found > 0, "a plain policy goes on");
    })
}

#[test]
fn what_means_nothing_is_a_fault_with_words_and_a_plain_policy_goes_on() {
    for (words, wanted) in [
        (hits_with::<Wrong<4000>>(), "named frame 4000 as victim, which it was not given"),
        (hits_with::<Wrong<NOTHING>>(), "named no victim, although frame 0 could leave"),
        (hits_with::<Wrong<PANICS>>(), "panicked in victim: the policy is at its wits' end"),
    ] {
        assert_eq!(words, format!("./wrong.so: the policy wrong {wanted}"));
    }
    let in_use = fault_of(|| {
        let mut policy = of::<Wrong<0>>("wrong");
        (0..2).for_each(|slot| policy.inserted(slot, twin_cache::Item::frame((1, slot.into()))));
        assert_eq!(policy.victim(&mut |slot| slot == 1), Some(1));
        assert_eq!(policy.victim(&mut |_| false), None);
    });
    assert!(in_use.contains("frame 0 as victim, which is in use"), "{in_use}");
    a_victim_segment_is_a_candidate();
    a_time_that_has_passed_is_no_time_to_clean();
    no_request_overtakes_one_for_the_same_bytes();
    a_class_is_open();
    outside::forget_fault();
}

struct First;

impl twinfs::victim::Victim for First {
    fn new(_: twinfs::log::Setting) -> Self {
        First
    }

    fn choose(&mut self, log: &Log) -> Option<u32> {
        assert_eq!((log.segments, log.segment(3)), (3, None));
        Some(0)
    }
}

fn setting() -> Setting {
    Setting { blocks: 30, segment_blocks: 10, garbage_share: 0.1, open_segments: 2, seed: 1 }
}

fn segment(state: SegmentState, live_blocks: u32) -> SegmentInfo {
    SegmentInfo {
        state,
        size_blocks: 10,
        written_blocks: 10,
        live_blocks,
        ..SegmentInfo::default()
    }
}

fn view(segments: &[SegmentInfo]) -> LogView<'_> {
    LogView { now: 9, live_blocks: 8, segment_blocks: 10, segments, open: &[] }
}

fn a_victim_segment_is_a_candidate() {
    let library = Library::of(twinfs::victim::module::<First>("first", "a test"));
    let (open, sealed) = (segment(SegmentState::Open, 1), segment(SegmentState::Sealed, 5));
    let segments = [sealed, sealed, segment(SegmentState::Sealed, 2)];
    let mut policy = super::cleaning::victims(library)(&setting());
    let chosen = policy.choose(&Candidates { view: view(&segments), min_garbage_share: 0.1 });
    assert_eq!(chosen, Some(0));
    let words = fault_of(|| {
        let segments = [open, segments[1], segments[2]];
        let candidates = Candidates { view: view(&segments), min_garbage_share: 0.1 };
        assert_eq!(policy.choose(&candidates), Some(2), "the one with most garbage");
    });
    assert!(words.contains("chose segment 0, which is no candidate"), "{words}");
}

struct Late;

impl twinfs::trigger::Trigger for Late {
    fn new() -> Self {
        Late
    }

    fn decide(&mut self, input: &twinfs::trigger::TriggerInput) -> twinfs::trigger::When {
        twinfs::trigger::When::At(input.now_ns + 10 - u64::from(input.clean_segments))
    }
}

fn a_time_that_has_passed_is_no_time_to_clean() {
    let library = Library::of(twinfs::trigger::module::<Late>("late", "a test"));
    let mut policy = super::cleaning::triggers(library)();
    let input = |clean_segments| TriggerInput {
        now_ns: 100,
        idle_since_ns: None,
        clean_segments,
        segments: 20,
        reserve_segments: 2,
        step_ns: 5,
    };
    assert_eq!(policy.decide(&input(3)), TriggerDecision::At(107));
    let words = fault_of(|| assert_eq!(policy.decide(&input(10)), TriggerDecision::Wait));
    assert!(words.contains("at a time that has passed"), "{words}");
}

/// Last come, first served.
struct Lcfs(Vec<u32>);

impl twinfs::queue::Queue for Lcfs {
    fn new() -> Self {
        Lcfs(Vec::new())
    }

    fn push(&mut self, request: twinfs::queue::Waiting) {
        self.0.push(request.id);
    }

    fn pop(&mut self, _: &twinfs::queue::Head) -> Option<u32> {
        self.0.pop()
    }
}

fn no_request_overtakes_one_for_the_same_bytes() {
    let library = Library::of(twinfs::queue::module::<Lcfs>("lcfs", "a test"));
    let mut queue = super::queue::maker(library)();
    let write = |id: u32, at| Waiting {
        id,
        seq: id.into(),
        kind: IoKind::Write,
        at,
        len: 512,
        origin: Origin::User,
        arrived: Time(0),
        deadline: None,
    };
    let view = SchedulerInput { now: Time(1), head_at: 0, device: &ByDistance };
    queue.push(write(1, 0));
    queue.push(write(2, 512));
    assert_eq!(queue.pop(&view).map(|next| next.request.id), Some(2));
    queue.push(write(3, 0));
    let words = fault_of(|| {
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(&view)).map(|n| n.request.id).collect();
        assert_eq!(order, [1, 3], "in order of arrival");
    });
    assert!(words.contains("before an earlier one for the same bytes"), "{words}");
}

struct Seventh;

impl twinfs::placement::Placement for Seventh {
    const CLASSES: (u8, u8) = (1, 8);

    fn new(_: twinfs::log::Setting) -> Self {
        Seventh
    }

    fn user_write(&mut self, _: &twinfs::placement::Write, word: &mut u64, log: &Log) -> u8 {
        *word = log.now;
        7
    }

    fn cleaner_write(&mut self, _: &twinfs::placement::Write, _: &mut u64, _: &Log) -> u8 {
        0
    }
}

fn a_class_is_open() {
    let library = Library::of(twinfs::placement::module::<Seventh>("seventh", "a test"));
    let spec = super::placement::spec(library).unwrap();
    assert_eq!((spec.classes, spec.most_classes, spec.is_mountable()), (1, 8, true));
    let mut policy = spec.make(&setting());
    let write = twin_clean::inputs::UserWrite {
        block: 1,
        old_segment: u32::MAX,
        kind: Default::default(),
        lifetime_writes: 0,
    };
    let mut word = 0;
    let words = fault_of(|| assert_eq!(policy.user_write(&write, &mut word, &view(&[])), 0));
    assert!(words.contains("answered class 7 of 2 to user_write"), "{words}");
    assert_eq!(word, 9);
}

#[test]
fn a_name_is_added_once_although_many_add_it_at_the_same_time() {
    static RACES: Registry<u32> =
        Registry::new("race", &[RegistryEntry::new("start", "the first", 0)]);
    let won = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for runner in 0..8 {
            let won = &won;
            scope.spawn(move || {
                for race in 0..50 {
                    let added = RACES.add(&format!("race-{race}"), "", runner).is_ok();
                    won.fetch_add(added.into(), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((won.into_inner(), RACES.len()), (50, 51));
}
