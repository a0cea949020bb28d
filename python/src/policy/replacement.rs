//! Replacement policies in Python.

use pyo3::prelude::*;
use twin_cache::replacement::{Capacity, Item, Policy, REGISTRY, Removal, Replacement};
use twin_settings::SettingsError;

use super::hooks::{Hook, Hooks};

pub(super) fn add(name: &str, about: &str, class: Py<PyAny>) -> Result<(), SettingsError> {
    let policy = name.to_owned();
    let make = move |capacity: Capacity| -> Box<dyn Replacement> {
        Python::attach(|py| Box::new(OfPython::new(py, &policy, &class, capacity)))
    };
    REGISTRY.add(name, about, Policy::from_outside(make)).map(drop)
}

struct OfPython {
    hooks: Hooks,
    inserted: Hook,
    touched: Hook,
    removed: Hook,
    victim: Hook,
    missed: Hook,
    cleaned: Hook,
    /// The slots that are ranked: what can be a victim.
    ranked: Vec<bool>,
    /// Where the search for a victim goes on after a failure.
    hand: usize,
}

impl OfPython {
    fn new(py: Python<'_>, policy: &str, class: &Py<PyAny>, capacity: Capacity) -> OfPython {
        let hooks = Hooks::make(policy, class, py, (capacity.units,));
        OfPython {
            inserted: hooks.needed(py, "inserted"),
            touched: hooks.needed(py, "touched"),
            removed: hooks.needed(py, "removed"),
            victim: hooks.needed(py, "victim"),
            missed: hooks.hook(py, "missed"),
            cleaned: hooks.hook(py, "cleaned"),
            hooks,
            ranked: Vec::new(),
            hand: 0,
        }
    }

    fn rank(&mut self, slot: u32, is_ranked: bool) {
        let at = slot as usize;
        if self.ranked.len() <= at {
            self.ranked.resize(at + 1, false);
        }
        self.ranked[at] = is_ranked;
    }

    /// The first slot of an answer (a slot, or slots in order of preference) that may leave.
    fn chosen(&self, answer: Bound<'_, PyAny>, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let (py, hooks) = (answer.py(), &self.hooks);
        if answer.is_none() {
            return None;
        }
        let mut is_fit = |slot: u32| match self.ranked.get(slot as usize) {
            Some(true) => usable(slot),
            _ => {
                hooks.nonsense(
                    py,
                    format!("victim() returned {slot}, which is not among the slots to rank"),
                );
                false
            }
        };
        if let Ok(slot) = answer.extract::<u32>() {
            return is_fit(slot).then_some(slot);
        }
        let Ok(slots) = answer.try_iter() else {
            hooks.nonsense(
                py,
                format!(
                    "victim() returned {answer}: return a slot, or slots in order of preference"
                ),
            );
            return None;
        };
        for slot in slots {
            match slot.and_then(|slot| slot.extract::<u32>()) {
                Ok(slot) if is_fit(slot) => return Some(slot),
                Ok(_) if hooks.has_failed() => return None,
                Ok(_) => {}
                Err(_) => {
                    hooks.nonsense(py, format!("victim() returned {answer}: return a slot, or slots in order of preference"));
                    return None;
                }
            }
        }
        None
    }

    /// Any slot that may leave: what is done after a failure, so that the cache goes on.
    fn any(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..self.ranked.len() {
            self.hand = (self.hand + 1) % self.ranked.len();
            if self.ranked[self.hand] && usable(self.hand as u32) {
                return Some(self.hand as u32);
            }
        }
        None
    }
}

impl Replacement for OfPython {
    fn missed(&mut self, item: Item) -> bool {
        if !self.missed.is_there() {
            return true;
        }
        Python::attach(|py| {
            let answer = self.hooks.call(py, &self.missed, (item.key,))?;
            self.hooks.value::<bool>(answer, "missed")
        })
        // A method that returns nothing keeps the block, as one that is not there.
        .unwrap_or(true)
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        self.rank(slot, true);
        Python::attach(|py| drop(self.hooks.call(py, &self.inserted, (slot, item.key))));
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        if !self.cleaned.is_there() {
            return self.inserted(slot, item);
        }
        self.rank(slot, true);
        Python::attach(|py| drop(self.hooks.call(py, &self.cleaned, (slot, item.key))));
    }

    fn touched(&mut self, slot: u32) {
        Python::attach(|py| drop(self.hooks.call(py, &self.touched, (slot,))));
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        self.rank(slot, false);
        let why = match why {
            Removal::Evicted => "evicted",
            Removal::Dirtied => "dirtied",
            Removal::Dropped => "dropped",
        };
        Python::attach(|py| drop(self.hooks.call(py, &self.removed, (slot, why))));
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        if !self.hooks.has_failed() {
            let chosen = Python::attach(|py| {
                let answer = self.hooks.call(py, &self.victim, ())?;
                self.chosen(answer, usable)
            });
            if chosen.is_some() || !self.hooks.has_failed() {
                return chosen;
            }
        }
        self.any(usable)
    }
}
