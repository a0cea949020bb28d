//! A policy under guard: what it is asked and answers passes here.
//!
//! Contract: an answer that makes no sense is a [fault](twin_settings::outside) of the run, which goes on with a
//! sensible one so that it ends. Decisions go into a digest, and one by one into a trail where one is wanted. The
//! guard counts what is in the cache itself, whatever the policy believes. It changes no decision of a policy that
//! keeps the rules.

use std::sync::{Arc, Mutex, PoisonError};

use twin_cache::{Capacity, Item, Removal, Replacement, replacement};
use twin_clean::inputs::{Needs, Setting};
use twin_clean::victim::{Candidates, VictimEntry, VictimPolicy, VictimSpec};
use twin_host::thread_cpu_ns;
use twin_settings::{RegistryEntry, outside};
use twin_studies::caches::PolicyEntry;

/// A decision: after how many accesses or writes, and what.
pub(crate) type Decision = (u64, u64);

/// What a guard has seen of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    /// A fingerprint of all decisions.
    pub(crate) digest: u64,
    /// The decisions, if they are wanted.
    pub(crate) trail: Vec<Decision>,
    /// The most nanoseconds of the processor that a call took, if that is wanted.
    pub(crate) longest_call_ns: u64,
}

impl Notes {
    fn decided(&mut self, decision: Decision, keeps: bool) {
        for word in [decision.0, decision.1] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        }
        if keeps {
            self.trail.push(decision);
        }
    }
}

/// What a guard does beside guarding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// Decisions are kept one by one.
    pub(crate) trail: bool,
    /// Calls are timed.
    pub(crate) timed: bool,
    /// What is added to the numbers of blocks.
    pub(crate) renamed_by: i64,
}

/// Where guards leave what they have seen, at the end of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Notes>>);

impl Seen {
    fn leave(&self, notes: &mut Notes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(notes);
    }

    /// What the guard of the last run has left.
    pub(crate) fn take(&self) -> Notes {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A replacement policy under guard, in no registry. It is kept until the program ends, as entries are.
pub(crate) fn replacement(
    entry: &'static PolicyEntry,
    watch: Watch,
    seen: &Seen,
) -> &'static PolicyEntry {
    let seen = seen.clone();
    let make = move |capacity| -> Box<dyn Replacement> {
        Box::new(Guard::new(entry.name, entry.make(capacity), capacity, watch, seen.clone()))
    };
    let policy = match entry.needs_future() {
        true => replacement::Policy::from_outside(make).with_future(),
        false => replacement::Policy::from_outside(make),
    };
    Box::leak(Box::new(RegistryEntry::new(entry.name, entry.about, policy)))
}

/// A replacement policy under guard.
pub(crate) struct Guard {
    name: &'static str,
    policy: Box<dyn Replacement>,
    capacity: u64,
    /// The blocks in the cache, by slot.
    there: Vec<Option<i64>>,
    used: u64,
    accesses: u64,
    watch: Watch,
    notes: Notes,
    seen: Seen,
}

impl Guard {
    pub(crate) fn new(
        name: &'static str,
        policy: Box<dyn Replacement>,
        capacity: Capacity,
        watch: Watch,
        seen: Seen,
    ) -> Guard {
        let (there, notes) = (Vec::new(), Notes::default());
        let capacity = capacity.units;
        Guard { name, policy, capacity, there, used: 0, accesses: 0, watch, notes, seen }
    }

    fn timed<T>(&mut self, call: impl FnOnce(&mut dyn Replacement) -> T) -> T {
        if !self.watch.timed {
            return call(&mut *self.policy);
        }
        let before = thread_cpu_ns();
        let answer = call(&mut *self.policy);
        let took = thread_cpu_ns().saturating_sub(before);
        self.notes.longest_call_ns = self.notes.longest_call_ns.max(took);
        answer
    }

    fn broke(&self, what: &str) {
        outside::report_fault(&format!("the policy {} {what}", self.name));
    }

    fn named(&self, item: Item) -> Item {
        Item { key: (item.key.0, item.key.1 + self.watch.renamed_by), ..item }
    }

    fn is_there(&self, slot: u32) -> bool {
        self.there.get(slot as usize).is_some_and(Option::is_some)
    }
}

impl Replacement for Guard {
    fn missed(&mut self, item: Item) -> bool {
        self.accesses += 1;
        let item = self.named(item);
        if !self.timed(|policy| policy.missed(item)) {
            self.broke("would not keep a block, which a cache of a file system has to");
        }
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        if self.there.len() <= slot as usize {
            self.there.resize(slot as usize + 1, None);
        }
        self.there[slot as usize] = Some(item.key.1);
        self.used += u64::from(item.weight);
        if self.used > self.capacity {
            self.broke(&format!("has {} blocks in a cache of {}", self.used, self.capacity));
        }
        let item = self.named(item);
        self.timed(|policy| policy.inserted(slot, item));
    }

    fn touched(&mut self, slot: u32) {
        self.accesses += 1;
        self.timed(|policy| policy.touched(slot));
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if let Some(block) = self.there.get_mut(slot as usize).and_then(Option::take) {
            self.used = self.used.saturating_sub(1);
            self.notes.decided((self.accesses, block as u64), self.watch.trail);
        }
        self.timed(|policy| policy.removed(slot, why));
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let named = self.timed(|policy| policy.victim(usable));
        if let Some(slot) = named.filter(|slot| self.is_there(*slot)) {
            return Some(slot);
        }
        match named {
            Some(slot) => {
                self.broke(&format!("named frame {slot} as victim, which is not in the cache"))
            }
            None => self.broke("named no victim in a full cache"),
        }
        (0..self.there.len() as u32).find(|slot| self.is_there(*slot))
    }

    fn resized(&mut self, capacity: Capacity) {
        self.capacity = capacity.units;
        self.policy.resized(capacity);
    }

    fn future(&mut self, next: u64) {
        self.policy.future(next);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.seen.leave(&mut self.notes);
    }
}

/// A victim policy under guard, in no registry. It is kept until the program ends, as entries are.
pub(crate) fn victim(
    entry: &'static VictimEntry,
    watch: Watch,
    seen: &Seen,
) -> &'static VictimEntry {
    let seen = seen.clone();
    let make = move |setting: &Setting| guarded_victim(entry, setting, watch, &seen);
    let spec = VictimSpec::from_outside(entry.source, make);
    Box::leak(Box::new(RegistryEntry::new(entry.name, entry.about, spec)))
}

/// A victim policy of this kind under guard.
pub(crate) fn guarded_victim(
    entry: &'static VictimEntry,
    setting: &Setting,
    watch: Watch,
    seen: &Seen,
) -> Box<dyn VictimPolicy> {
    let (policy, notes) = (entry.make(setting), Notes::default());
    Box::new(VictimGuard { name: entry.name, policy, watch, notes, seen: seen.clone() })
}

struct VictimGuard {
    name: &'static str,
    policy: Box<dyn VictimPolicy>,
    watch: Watch,
    notes: Notes,
    seen: Seen,
}

impl VictimPolicy for VictimGuard {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let before = if self.watch.timed { thread_cpu_ns() } else { 0 };
        let named = self.policy.choose(candidates);
        if self.watch.timed {
            let took = thread_cpu_ns().saturating_sub(before);
            self.notes.longest_call_ns = self.notes.longest_call_ns.max(took);
        }
        let is_one = |number: &u32| candidates.iter().any(|(other, _)| other == *number);
        let chosen = match named.filter(is_one) {
            Some(number) => Some(number),
            None => {
                let first = candidates.iter().next().map(|(number, _)| number);
                if let Some(number) = named {
                    let what = format!("chose segment {number}, which may not be cleaned");
                    outside::report_fault(&format!("the policy {} {what}", self.name));
                } else if first.is_some() {
                    let what = "chose no segment, although some may be cleaned";
                    outside::report_fault(&format!("the policy {} {what}", self.name));
                }
                first
            }
        };
        let number = chosen.map_or(u64::MAX, u64::from);
        self.notes.decided((candidates.view.now, number), self.watch.trail);
        chosen
    }

    fn needs(&self) -> Needs {
        self.policy.needs()
    }
}

impl Drop for VictimGuard {
    fn drop(&mut self) {
        self.seen.leave(&mut self.notes);
    }
}
