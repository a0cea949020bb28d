//! Policies of cleaning in Python: which segment, which blocks together, and when.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use twin_clean::inputs::{CleanerWrite, LogView, NO_SEGMENT, SegmentInfo, Setting, UserWrite};
use twin_clean::{placement, trigger, victim};
use twin_settings::SettingsError;

use super::hooks::{Hook, Hooks};

/// What a policy may know of a segment.
fn segment<'py>(py: Python<'py>, number: u32, of: &SegmentInfo) -> PyResult<Bound<'py, PyDict>> {
    let segment = PyDict::new(py);
    segment.set_item("number", number)?;
    segment.set_item("class", of.class)?;
    segment.set_item("size_blocks", of.size_blocks)?;
    segment.set_item("live", of.live_blocks)?;
    segment.set_item("utilization", of.utilization())?;
    segment.set_item("youngest_at", of.youngest_at)?;
    segment.set_item("sealed_at", of.sealed_at)?;
    Ok(segment)
}

pub(super) fn add_victim(name: &str, about: &str, class: Py<PyAny>) -> Result<(), SettingsError> {
    let policy = name.to_owned();
    let make = move |_: &Setting| -> Box<dyn victim::VictimPolicy> {
        Python::attach(|py| {
            let hooks = Hooks::make(&policy, &class, py, ());
            let score = hooks.needed(py, "score");
            Box::new(Victim { hooks, score })
        })
    };
    victim::REGISTRY.add(name, about, victim::VictimSpec::from_outside("Python", make)).map(drop)
}

struct Victim {
    hooks: Hooks,
    score: Hook,
}

impl victim::VictimPolicy for Victim {
    fn choose(&mut self, candidates: &victim::Candidates<'_>) -> Option<u32> {
        let now = candidates.view.now;
        let chosen = Python::attach(|py| {
            let mut best: Option<(f64, u32)> = None;
            for (number, of) in candidates.iter() {
                let answer = match segment(py, number, of) {
                    Ok(segment) => self.hooks.call(py, &self.score, (segment, now))?,
                    Err(error) => {
                        self.hooks.fail(py, error);
                        return None;
                    }
                };
                let score = self.hooks.value::<f64>(answer, "score");
                if let Some(score) =
                    score.filter(|score| best.is_none_or(|(most, _)| *score > most))
                {
                    best = Some((score, number));
                }
            }
            best.map(|(_, number)| number)
        });
        // The emptiest segment, after a failure.
        match self.hooks.has_failed() {
            true => candidates.best(|segment| -segment.utilization()),
            false => chosen,
        }
    }
}

/// Classes of blocks at most, as the log has open segments.
const MOST_CLASSES: u8 = 6;

pub(super) fn add_placement(
    py: Python<'_>,
    name: &str,
    about: &str,
    class: Py<PyAny>,
) -> PyResult<Result<(), SettingsError>> {
    let classes = match class.bind(py).getattr("classes") {
        Ok(classes) => classes.extract::<u8>()?.clamp(1, MOST_CLASSES),
        Err(_) => 2,
    };
    let policy = name.to_owned();
    let make = move |_: &Setting| -> Box<dyn placement::Placement> {
        Python::attach(|py| {
            let hooks = Hooks::make(&policy, &class, py, ());
            let (user, cleaner) =
                (hooks.needed(py, "user_write"), hooks.needed(py, "cleaner_write"));
            Box::new(Placement { hooks, user, cleaner, classes })
        })
    };
    let spec = placement::PlacementSpec::from_outside("Python", classes..=classes, 64, make);
    Ok(placement::REGISTRY.add(name, about, spec).map(drop))
}

struct Placement {
    hooks: Hooks,
    user: Hook,
    cleaner: Hook,
    classes: u8,
}

impl Placement {
    fn class(&self, answer: Option<Bound<'_, PyAny>>, what: &str) -> u8 {
        let Some(answer) = answer else { return 0 };
        let py = answer.py();
        let class = self.hooks.value::<u8>(answer, what).unwrap_or(0);
        if class >= self.classes {
            let classes = self.classes;
            self.hooks.nonsense(
                py,
                format!("{what}() returned class {class}, and there are {classes}: 0 is the first"),
            );
            return 0;
        }
        class
    }
}

impl placement::Placement for Placement {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        // The word of a block is when a user wrote it last, plus one.
        let before = word.checked_sub(1);
        *word = view.now + 1;
        let is_new = write.old_segment == NO_SEGMENT;
        Python::attach(|py| {
            let answer = self.hooks.call(
                py,
                &self.user,
                (write.block, view.now, before.filter(|_| !is_new)),
            );
            self.class(answer, "user_write")
        })
    }

    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let before = word.checked_sub(1);
        Python::attach(|py| {
            let answer = self.hooks.call(
                py,
                &self.cleaner,
                (write.block, view.now, before, write.victim_class),
            );
            self.class(answer, "cleaner_write")
        })
    }
}

pub(super) fn add_trigger(name: &str, about: &str, class: Py<PyAny>) -> Result<(), SettingsError> {
    let policy = name.to_owned();
    let make = move || -> Box<dyn trigger::TriggerPolicy> {
        Python::attach(|py| {
            let hooks = Hooks::make(&policy, &class, py, ());
            let decide = hooks.needed(py, "decide");
            Box::new(Trigger { hooks, decide })
        })
    };
    trigger::REGISTRY.add(name, about, trigger::TriggerSpec::from_outside("Python", make)).map(drop)
}

struct Trigger {
    hooks: Hooks,
    decide: Hook,
}

impl trigger::TriggerPolicy for Trigger {
    fn decide(&mut self, input: &trigger::TriggerInput) -> trigger::TriggerDecision {
        use trigger::TriggerDecision::{At, Now, Wait};
        let idle_s =
            input.idle_since_ns.map(|since| input.now_ns.saturating_sub(since) as f64 / 1e9);
        let decided = Python::attach(|py| {
            let clean_share = f64::from(input.clean_segments) / f64::from(input.segments.max(1));
            let answer = self.hooks.call(
                py,
                &self.decide,
                (idle_s, clean_share, input.step_ns as f64 / 1e9),
            )?;
            if answer.is_none() {
                return Some(Wait);
            }
            if let Ok(now) = answer.extract::<bool>() {
                return Some(if now { Now } else { Wait });
            }
            let wait_s = self.hooks.value::<f64>(answer, "decide")?;
            Some(At(input.now_ns + self.hooks.wait_ns(py, "decide", wait_s)?))
        });
        // Cleaning when there is too little room is what happens without any policy.
        decided.unwrap_or(Wait)
    }
}
