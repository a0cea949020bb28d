//! Orders of a disk's queue in Python.

use pyo3::prelude::*;
use twin_disk::IoKind;
use twin_disk::queue::{Next, REGISTRY, Scheduler, SchedulerInput, Waiting, overtakes};
use twin_settings::SettingsError;

use super::hooks::{Hook, Hooks};

pub(super) fn add(name: &str, about: &str, class: Py<PyAny>) -> Result<(), SettingsError> {
    let policy = name.to_owned();
    let make = move || -> Box<dyn Scheduler> {
        Python::attach(|py| {
            let hooks = Hooks::make(&policy, &class, py, ());
            let choose = hooks.needed(py, "choose");
            Box::new(OfPython { hooks, choose, waiting: Vec::new() })
        })
    };
    REGISTRY.add(name, about, Box::leak(Box::new(make))).map(drop)
}

struct OfPython {
    hooks: Hooks,
    choose: Hook,
    /// In order of arrival.
    waiting: Vec<Waiting>,
}

impl Scheduler for OfPython {
    fn push(&mut self, request: Waiting) {
        self.waiting.push(request);
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        if self.waiting.is_empty() {
            return None;
        }
        let chosen = Python::attach(|py| {
            let row = |request: &Waiting| {
                let is_read = request.kind == IoKind::Read;
                let waited_s = view.now.since(request.arrived) as f64 / 1e9;
                let way_s =
                    view.device.positioning_ns(view.now, view.head_at, request) as f64 / 1e9;
                (request.at, request.len, is_read, waited_s, way_s)
            };
            let rows: Vec<_> = self.waiting.iter().map(row).collect();
            let answer = self.hooks.call(py, &self.choose, (view.head_at, rows))?;
            let chosen = self.hooks.value::<usize>(answer, "choose")?;
            if chosen >= self.waiting.len() {
                let count = self.waiting.len();
                self.hooks.nonsense(
                    py,
                    format!(
                        "choose() returned {chosen}, and {count} requests wait: 0 is the first"
                    ),
                );
                return None;
            }
            if overtakes(&self.waiting, chosen) {
                let why = format!(
                    "choose() returned {chosen}, but an earlier request is for the same bytes"
                );
                self.hooks.nonsense(py, why);
                return None;
            }
            Some(chosen)
        });
        // First come, first served is what a policy that says nothing gets.
        Some(self.waiting.remove(chosen.unwrap_or(0)).into())
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
