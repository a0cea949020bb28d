//! Flush policies in Python.

use pyo3::prelude::*;
use twin_cache::flush::{
    DirtyFile, DirtyView, FlushAdvice, FlushPolicy, FlushSpec, FlushState, Grain, REGISTRY, Which,
};
use twin_rt::{Nanos, Time};
use twin_settings::SettingsError;

use super::hooks::{Hook, Hooks};

/// The age limit that a class gets if the configuration sets none, that of 4.4BSD's update.
const AGE_NS: Nanos = 30_000_000_000;

pub(super) fn add(name: &str, about: &str, class: Py<PyAny>) -> Result<(), SettingsError> {
    let policy = name.to_owned();
    let make = move |age_ns: Nanos| -> Box<dyn FlushPolicy> {
        Python::attach(|py| {
            let hooks = Hooks::make(&policy, &class, py, (age_ns as f64 / 1e9,));
            let (advise, start_bytes) = (hooks.needed(py, "advise"), hooks.hook(py, "start_bytes"));
            Box::new(OfPython { hooks, advise, start_bytes })
        })
    };
    REGISTRY.add(name, about, FlushSpec::from_outside(AGE_NS, Grain::Files, make)).map(drop)
}

struct OfPython {
    hooks: Hooks,
    advise: Hook,
    start_bytes: Hook,
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}

impl FlushPolicy for OfPython {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        let Some(oldest) = state.oldest else { return FlushAdvice::Wait };
        let advice = Python::attach(|py| {
            let mut files: Vec<(u64, u64, f64)> = Vec::new();
            dirty.files(&mut |file: &DirtyFile| {
                files.push((file.ino, file.bytes, seconds(now) - seconds(file.since)));
                true
            });
            let (bytes, age_s) = (state.dirty_bytes, seconds(now) - seconds(oldest));
            let answer =
                self.hooks.call(py, &self.advise, (age_s, bytes, state.capacity_bytes, files))?;
            if answer.is_none() {
                return Some(FlushAdvice::Wait);
            }
            if let Ok(all) = answer.extract::<bool>() {
                return Some(if all { FlushAdvice::Write(Which::All) } else { FlushAdvice::Wait });
            }
            if let Ok(wait_s) = answer.extract::<f64>() {
                let wait_ns = self.hooks.wait_ns(py, "advise", wait_s)?;
                return Some(FlushAdvice::WaitUntil(now + wait_ns));
            }
            match answer.extract::<Vec<u64>>() {
                // To write what is not dirty would be no progress: the policy would be called again at the same time.
                Ok(inos) if inos.iter().any(|&ino| dirty.file(ino).is_some()) => {
                    Some(FlushAdvice::Write(Which::Files(inos)))
                }
                Ok(inos) if inos.is_empty() => Some(FlushAdvice::Wait),
                _ => {
                    self.hooks.nonsense(py, format!(
                        "advise() returned {answer}: return True to write all, numbers of dirty files, seconds to wait, or None"
                    ));
                    None
                }
            }
        });
        // Writing all is safe whatever went wrong.
        advice.unwrap_or(FlushAdvice::Write(Which::All))
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        let asked = Python::attach(|py| {
            let answer = self.hooks.call(py, &self.start_bytes, (state.capacity_bytes,))?;
            self.hooks.value::<u64>(answer, "start_bytes")
        });
        asked.unwrap_or(state.capacity_bytes / 4)
    }
}
