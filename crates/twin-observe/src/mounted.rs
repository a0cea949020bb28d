//! The observers of a mount, for one who asks for them.
//!
//! Contract: the observers are those of simulations. Who serves the mount tells what happens: each
//! operation that ends, each device request that has ended in the order of their arrival, and the time, at least every
//! [`Mounted::look_ns`]. An interval ends with the first call after its end, so values may count to the
//! interval before by as much as that call is late. Figures of intervals are kept until they are taken.

use std::cell::RefCell;

use serde::Serialize;
use twin_fs::Volume;
use twin_rt::{MILLIS, Nanos, Time};
use twin_settings::SettingsError;
use twin_sim::Served;
use twin_trace::Verb;

use crate::panel::Panel;
use crate::{Observed, Observing, Parts, Pool, Row};

/// The shortest interval of which a mount reports figures, and the least time between looks at states.
pub(crate) const LEAST_EVERY_NS: Nanos = 100 * MILLIS;

/// The observers that one asked for, at work.
pub struct Mounted {
    panel: RefCell<Panel>,
    look_ns: Nanos,
    unseen: Vec<Unseen>,
}

/// What an observer does not see on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The observer.
    pub observer: &'static str,
    /// What, and why.
    pub why: &'static str,
}

impl Mounted {
    /// Begins to observe a mounted volume.
    ///
    /// # Errors
    /// If the interval is too short.
    pub fn begin(
        observing: &Observing,
        volume: &Volume,
        now: Time,
    ) -> Result<Mounted, SettingsError> {
        if observing.every_ns < LEAST_EVERY_NS {
            let least = LEAST_EVERY_NS / MILLIS;
            return Err(SettingsError::new(format!(
                "an interval of observation of a mount has at least {least} ms"
            )));
        }
        let mut panel = Panel::looking(observing, LEAST_EVERY_NS);
        let unseen = panel.unseen().map(|(observer, why)| Unseen { observer, why }).collect();
        let named = |name: &str| name.to_string();
        let parts = Parts {
            disks: vec![named("disk")],
            buses: Vec::new(),
            volumes: vec![(named("volume"), volume.clone())],
            pools: vec![Pool { name: named("memory"), memory: None, volumes: vec![0] }],
        };
        panel.begin(now, parts);
        Ok(Mounted { look_ns: panel.look_ns(), panel: RefCell::new(panel), unseen })
    }

    /// How often to [`look`](Self::look).
    pub fn look_ns(&self) -> Nanos {
        self.look_ns
    }

    /// What its observers do not see.
    pub fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    /// It is `now`.
    pub fn look(&self, now: Time) {
        self.panel.borrow_mut().look(now);
    }

    /// An operation has ended.
    pub fn ended(&self, verb: Verb, latency_ns: Nanos) {
        self.panel.borrow_mut().ended(verb, latency_ns);
    }

    /// A device request has ended, and so have all that arrived before it.
    pub fn served(&self, request: &Served) {
        self.panel.borrow_mut().served(0, request);
    }

    /// Takes the figures of the intervals that have ended since they were last taken.
    pub fn take_intervals(&self) -> Vec<Row> {
        self.panel.borrow_mut().take_intervals()
    }

    /// The observation ends. What was seen over all of it; nothing if it has ended before.
    pub fn end(&self, now: Time) -> Vec<Observed> {
        self.panel.borrow_mut().end(now)
    }
}
