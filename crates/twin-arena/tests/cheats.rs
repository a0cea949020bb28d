//! Policies that cheat get nothing, each for its own reason; those that do not are judged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use twin_arena::{Arena, Evaluation, Reference, Task, Traces, Wanted};
use twin_cache::replacement::{Policy, REGISTRY};
use twin_cache::{Capacity, Item, Removal, Replacement};
use twin_clean::volume::trace::Trace;
use twin_lab::Workload;
use twin_studies::caches;

/// A small task, with limits that a slow build keeps.
const TASK: &str = r#"
kind = "replacement"
rivals = ["lru", "fifo", "mru"]
[score]
device-time = 1
write-cost = 0
at-risk = 0
[budget]
cpu = 30
cpu-python = 30
call = "40ms"
memory = "4G"
[study]
disk = "disk-7200"
sizes = [0.1]
go-on = 0.5
seconds = 300
public = [{ trace = "known" }]
held-out = [{ workload = "zipf:file-bytes=4M,writes=2000,reads=50%" }, { trace = "elsewhere" }]
[simulation]
config = "lfs:size=32M,cache=256K"
go-on = 0.5
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=300,reads=50%" }]
"#;

/// The trace that the task names, which is generated, so that a policy can know it.
fn known() -> Box<dyn twin_trace::Source> {
    twin_generate::start("zipf:file-bytes=4M,writes=4000,reads=80%,skew=0.6", 3).unwrap()
}

struct Known;

impl Traces for Known {
    fn missing(&self, path: &str) -> Option<String> {
        (path != "known").then(|| "it is not there".into())
    }

    fn accesses(&self, _: &str) -> Result<caches::Input, String> {
        Ok(caches::Input::Operations(known()))
    }

    fn writes(&self, _: &str) -> Result<Trace, String> {
        Err("none".into())
    }

    fn workload(&self, _: &str) -> Result<Workload, String> {
        Err("none".into())
    }
}

fn arena(text: &str) -> Arc<Arena> {
    Arena::new(Task::parse("test", text).unwrap(), Box::new(Known), 2, Reference::default())
}

fn judge(text: &str, policy: &str) -> Evaluation {
    arena(text).evaluate(policy, Wanted { held_out: true }, &|| Ok(())).unwrap()
}

/// FIFO, with a hook that a cheat changes.
struct Fifo<F> {
    order: Vec<u32>,
    /// Hears of each call, and may replace the victim.
    cheat: F,
}

impl<F: FnMut(&[u32], bool) -> Option<Option<u32>>> Replacement for Fifo<F> {
    fn inserted(&mut self, slot: u32, _: Item) {
        self.order.push(slot);
        (self.cheat)(&self.order, false);
    }

    fn touched(&mut self, _: u32) {
        (self.cheat)(&self.order, false);
    }

    fn removed(&mut self, slot: u32, _: Removal) {
        self.order.retain(|other| *other != slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let named = (self.cheat)(&self.order, true);
        named.unwrap_or_else(|| self.order.iter().copied().find(|slot| usable(*slot)))
    }
}

/// Adds a FIFO with a cheat, and has it judged.
fn refused<F: FnMut(&[u32], bool) -> Option<Option<u32>> + 'static>(
    name: &str,
    cheat: impl Fn() -> F + Send + Sync + 'static,
) -> (&'static str, String) {
    refused_in(TASK, name, cheat)
}

/// The same in a task of its own.
fn refused_in<F: FnMut(&[u32], bool) -> Option<Option<u32>> + 'static>(
    task: &str,
    name: &str,
    cheat: impl Fn() -> F + Send + Sync + 'static,
) -> (&'static str, String) {
    let make = move |_: Capacity| -> Box<dyn Replacement> {
        Box::new(Fifo { order: Vec::new(), cheat: cheat() })
    };
    REGISTRY.add(name, "a cheat", Policy::from_outside(make)).unwrap();
    let evaluation = judge(task, name);
    assert_eq!(evaluation.combined_score(), 0.0);
    let refusal = evaluation.refused.unwrap_or_else(|| panic!("{name} was not refused"));
    (refusal.check, refusal.words)
}

#[test]
fn a_policy_that_does_not_cheat_is_judged_against_the_best_of_the_registry() {
    let scores: Vec<(String, Evaluation)> =
        ["lru", "fifo", "mru"].map(|name| (name.into(), judge(TASK, name))).into();
    let best = scores[0].1.stages[0].public.best.clone();
    for (name, evaluation) in &scores {
        assert!(evaluation.refused.is_none(), "{name}: {:?}", evaluation.refused);
        let study = &evaluation.stages[0].public;
        assert!(study.score <= 1.0 && (study.score == 1.0) == (*name == best), "{name} {study:?}");
        // What is not there is reported.
        assert_eq!(evaluation.left_out, ["elsewhere: it is not there"]);
        let held_out = evaluation.stages[0].held_out.as_ref().unwrap();
        assert_eq!(held_out.inputs.len(), 1);
        assert_eq!(evaluation.stages.len(), if study.score >= 0.5 { 2 } else { 1 }, "{name}");
    }
    let again = judge(TASK, &best);
    assert_eq!(again.stages[1].public.inputs, {
        let first = scores.iter().find(|(name, _)| *name == best).unwrap();
        first.1.stages[1].public.inputs.clone()
    });
}

#[test]
fn a_stage_that_was_not_passed_is_the_last() {
    let text = TASK.replacen("go-on = 0.5", "go-on = 1.01", 1);
    let evaluation = judge(&text, "lru");
    assert_eq!(evaluation.stages.len(), 1);
    assert!(!evaluation.passed() && evaluation.combined_score() > 0.0);
}

#[test]
fn what_the_registry_measured_is_not_measured_again() {
    let first = arena(TASK);
    first.evaluate("fifo", Wanted::default(), &|| Ok(())).unwrap();
    let text = serde_json::to_string(&first.reference()).unwrap();
    let reference: Reference = serde_json::from_str(&text).unwrap();
    assert_eq!(reference, first.reference());
    let task = Task::parse("test", TASK).unwrap();
    let second = Arena::new(task, Box::new(Known), 1, reference.clone());
    let evaluation = second.evaluate("lru", Wanted::default(), &|| Ok(())).unwrap();
    assert_eq!(second.reference(), reference);
    assert!(evaluation.stages[0].public.score > 0.0);
}

#[test]
fn an_interrupt_ends_a_judgement() {
    let stopped = arena(TASK).evaluate("lru", Wanted::default(), &|| Err("interrupted".into()));
    assert!(stopped.is_err_and(|why| why == "interrupted"));
}

#[test]
fn a_policy_that_knows_the_future_is_refused() {
    let evaluation = judge(TASK, "belady");
    let refusal = evaluation.refused.unwrap();
    assert_eq!(refusal.check, "future", "{}", refusal.words);
    assert!(refusal.words.contains("it reads the future: at access"), "{}", refusal.words);
}

/// Belady's policy with the trace in its head: it knows how far it is, and what each block will do from there.
struct ByHeart {
    next: Arc<Vec<Vec<u64>>>,
    now: u64,
    there: Vec<Option<usize>>,
}

impl Replacement for ByHeart {
    fn missed(&mut self, _: Item) -> bool {
        self.now += 1;
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        if self.there.len() <= slot as usize {
            self.there.resize(slot as usize + 1, None);
        }
        self.there[slot as usize] = Some(item.key.1 as usize);
    }

    fn touched(&mut self, _: u32) {
        self.now += 1;
    }

    fn removed(&mut self, slot: u32, _: Removal) {
        self.there[slot as usize] = None;
    }

    fn victim(&mut self, _: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let when = |block: usize| {
            let uses = self.next.get(block).map_or(&[][..], Vec::as_slice);
            uses.get(uses.partition_point(|at| *at < self.now)).copied().unwrap_or(u64::MAX)
        };
        let there = (0u32..).zip(&self.there).filter_map(|(slot, block)| Some((slot, (*block)?)));
        there.max_by_key(|(_, block)| when(*block)).map(|(slot, _)| slot)
    }
}

#[test]
fn a_policy_that_knows_the_trace_by_heart_is_refused() {
    let accesses =
        caches::load(caches::Input::Operations(known()), 4096, false, &mut |_| {}).accesses;
    let mut next = vec![Vec::new(); accesses.blocks() as usize];
    for (at, block) in accesses.first(usize::MAX).into_iter().enumerate() {
        next[block as usize].push(at as u64);
    }
    let next = Arc::new(next);
    let make = move |_: Capacity| -> Box<dyn Replacement> {
        Box::new(ByHeart { next: Arc::clone(&next), now: 0, there: Vec::new() })
    };
    REGISTRY.add("by-heart", "a cheat", Policy::from_outside(make)).unwrap();
    let refusal = judge(TASK, "by-heart").refused.unwrap();
    assert_eq!(refusal.check, "by-heart", "{}", refusal.words);
}

#[test]
fn a_policy_that_names_what_is_not_in_the_cache_is_refused() {
    let (check, words) =
        refused("not-there", || |_: &[u32], victim| victim.then_some(Some(1_000_000)));
    assert_eq!(check, "answers");
    assert!(words.contains("named frame 1000000 as victim, which is not in the cache"), "{words}");
}

#[test]
fn a_policy_that_lets_nothing_go_has_no_larger_cache_for_it() {
    let (check, words) = refused("hoarder", || |_: &[u32], victim| victim.then_some(None));
    assert_eq!(check, "answers");
    assert!(words.contains("named no victim in a full cache"), "{words}");
}

/// Works for microseconds of the processor.
fn work(micros: u64) {
    let end = twin_host::thread_cpu_ns() + micros * 1000;
    while twin_host::thread_cpu_ns() < end {}
}

#[test]
fn a_long_call_is_found_and_so_is_work_in_every_call() {
    let once = || {
        let mut calls = 0;
        move |_: &[u32], _| {
            calls += 1;
            if calls == 1000 {
                work(60_000);
            }
            None
        }
    };
    let (check, words) = refused("thinks-once", once);
    assert_eq!(check, "time");
    assert!(words.contains("a call of a hook took"), "{words}");
    let always = || {
        |_: &[u32], _| {
            work(40);
            None
        }
    };
    let text =
        TASK.replacen("cpu = 30", "cpu = 1", 1).replacen("cpu-python = 30", "cpu-python = 1", 1);
    let (check, words) = refused_in(&text, "thinks-always", always);
    assert_eq!(check, "time");
    assert!(words.contains("times the") && words.contains("s of the default"), "{words}");
}

#[test]
fn a_hook_that_does_not_return_is_given_up() {
    let ends = Arc::new(AtomicBool::new(false));
    let of_cheat = Arc::clone(&ends);
    let name = "does-not-return";
    let cheat = move || {
        let ends = Arc::clone(&of_cheat);
        move |_: &[u32], _: bool| {
            while !ends.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            None
        }
    };
    let make = move |_: Capacity| -> Box<dyn Replacement> {
        Box::new(Fifo { order: Vec::new(), cheat: cheat() })
    };
    REGISTRY.add(name, "a cheat", Policy::from_outside(make)).unwrap();
    let refusal = judge(&TASK.replacen("seconds = 300", "seconds = 0.3", 1), name).refused.unwrap();
    ends.store(true, Ordering::Relaxed);
    assert_eq!(refusal.check, "time");
    assert!(refusal.words.contains("its study took longer than the 0.3 s"), "{}", refusal.words);
}

#[test]
fn a_policy_that_takes_more_memory_than_it_may_is_refused() {
    let taken: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
    let of_cheat = Arc::clone(&taken);
    // Each new policy takes some more, and keeps it.
    let hog = move || {
        of_cheat.lock().unwrap().push((0..8_000_000).collect());
        |_: &[u32], _| None
    };
    let text = TASK.replacen("memory = \"4G\"", "memory = \"24M\"", 1);
    let (check, words) = refused_in(&text, "hog", hog);
    taken.lock().unwrap().clear();
    assert_eq!(check, "memory");
    assert!(words.contains("and may grow by 24"), "{words}");
}

#[test]
fn a_policy_that_is_not_repeatable_is_refused() {
    let calls = Arc::new(AtomicU64::new(0));
    // Runs before the study itself see too few calls for it to differ.
    let other = move || {
        let calls = Arc::clone(&calls);
        move |there: &[u32], victim: bool| {
            let calls = calls.fetch_add(1, Ordering::Relaxed);
            victim.then(|| there.get(calls as usize % there.len()).copied())
        }
    };
    let (check, words) = refused("moody", other);
    // It is found out by whichever looks first: decisions that differ have many reasons.
    assert!(["repeatable", "future"].contains(&check), "{check}: {words}");
}
