//! Replacement policies of modules.
//!
//! Contract: the frames that the policy may name are known here, so a victim that is none is found. Behind a policy that
//! is called no more, frames leave in the order of their slots.

#![allow(unsafe_code)] // Hooks of modules, and what they ask.

use std::ffi::c_void;

use twin_cache::{Capacity, Item, Removal, Replacement};
use twin_policy::twinfs::answer;
use twin_policy::twinfs::replacement as outside;

use super::library::{Instance, Library};

/// What makes the policy of a library.
pub(super) fn maker(
    library: &'static Library,
) -> impl Fn(Capacity) -> Box<dyn Replacement> + Send + Sync + 'static {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static outside::Hooks = unsafe { library.hooks() };
    move |capacity| {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)(capacity_of(capacity)) };
        let instance = Instance::new(library, policy, hooks.drop);
        Box::new(Module { hooks, instance, ranked: Vec::new(), hand: 0 })
    }
}

struct Module {
    hooks: &'static outside::Hooks,
    instance: Instance,
    /// By slot, whether the policy may name it.
    ranked: Vec<bool>,
    /// Where the search for a victim without the policy goes on.
    hand: usize,
}

/// What the policy's question about a slot needs.
struct Question<'a> {
    ranked: &'a [bool],
    usable: &'a mut dyn FnMut(u32) -> bool,
}

impl Question<'_> {
    fn is_usable(&mut self, slot: u32) -> bool {
        self.ranked.get(slot as usize) == Some(&true) && (self.usable)(slot)
    }
}

unsafe extern "C" fn ask(context: *mut c_void, slot: u32) -> bool {
    // SAFETY: the context is the one of the call of `victim` that has not returned.
    unsafe { &mut *context.cast::<Question<'_>>() }.is_usable(slot)
}

fn capacity_of(capacity: Capacity) -> outside::Capacity {
    outside::Capacity { units: capacity.units, mean: capacity.mean }
}

fn item_of(item: Item) -> outside::Item {
    outside::Item { file: item.key.0, block: item.key.1, weight: item.weight }
}

fn removal_of(why: Removal) -> outside::Removal {
    match why {
        Removal::Evicted => outside::Removal::Evicted,
        Removal::Dirtied => outside::Removal::Dirtied,
        Removal::Dropped => outside::Removal::Dropped,
    }
}

impl Module {
    fn rank(&mut self, slot: u32) {
        let slot = slot as usize;
        if self.ranked.len() <= slot {
            self.ranked.resize(slot + 1, false);
        }
        self.ranked[slot] = true;
    }

    /// The victim of the policy; the outer `None` if it is called no more.
    fn named(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<Option<u32>> {
        let policy = self.instance.policy()?;
        let mut question = Question { ranked: &self.ranked, usable };
        let may_ask = outside::Usable { context: (&raw mut question).cast(), ask };
        // SAFETY: the policy is one of these hooks, and the question lives until the call returns.
        let named = unsafe { (self.hooks.victim)(policy, may_ask) };
        let slots = 0..self.ranked.len() as u32;
        match (u32::try_from(named), named) {
            (Ok(slot), _) if question.is_usable(slot) => return Some(Some(slot)),
            (Ok(slot), _) if !self.ranked.get(slot as usize).is_some_and(|ranked| *ranked) => {
                self.instance
                    .broke(&format!("named frame {slot} as victim, which it was not given"));
            }
            (Ok(slot), _) => {
                self.instance.broke(&format!("named frame {slot} as victim, which is in use"));
            }
            (_, answer::NO) => match slots.into_iter().find(|slot| question.is_usable(*slot)) {
                None => return Some(None),
                Some(slot) => {
                    let what = format!("named no victim, although frame {slot} could leave");
                    self.instance.broke(&what);
                }
            },
            (_, other) => self.instance.unexpected("victim", other),
        }
        None
    }
}

impl Replacement for Module {
    fn missed(&mut self, item: Item) -> bool {
        let Some(policy) = self.instance.policy() else { return true };
        // SAFETY: here and below the policy is one of these hooks, and used by this thread alone.
        match unsafe { (self.hooks.missed)(policy, &item_of(item)) } {
            answer::YES => true,
            answer::NO => false,
            other => {
                self.instance.unexpected("missed", other);
                true
            }
        }
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        self.rank(slot);
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.inserted)(policy, slot, &item_of(item)) };
            self.instance.done("inserted", done);
        }
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        self.rank(slot);
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.cleaned)(policy, slot, &item_of(item)) };
            self.instance.done("cleaned", done);
        }
    }

    #[inline]
    fn touched(&mut self, slot: u32) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.touched)(policy, slot) };
            self.instance.done("touched", done);
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        if let Some(ranked) = self.ranked.get_mut(slot as usize) {
            *ranked = false;
        }
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.removed)(policy, slot, removal_of(why)) };
            self.instance.done("removed", done);
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        if let Some(named) = self.named(usable) {
            return named;
        }
        let slots = self.ranked.len();
        let mut question = Question { ranked: &self.ranked, usable };
        let found = (0..slots).map(|step| (self.hand + step) % slots);
        let found = found.map(|slot| slot as u32).find(|slot| question.is_usable(*slot))?;
        self.hand = (found as usize + 1) % slots;
        Some(found)
    }

    fn resized(&mut self, capacity: Capacity) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.resized)(policy, capacity_of(capacity)) };
            self.instance.done("resized", done);
        }
    }
}
