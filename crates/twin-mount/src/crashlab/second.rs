//! A second power failure, while the check recovers what the first one left.
//!
//! Contract: the check runs on a volume whose files are those of a state that it passes, and its history is kept like that
//! of a program. What it was promised is what was acknowledged before the first failure: a recovery acknowledges nothing.

use std::ffi::OsString;

use twin_crashlab::report::Second;
use twin_crashlab::{Budget, History, Search, Space, State, Trial};

use super::place::Place;
use super::run::{self, RunRequest};
use super::{Fault, Found, Lab, not_measured};

/// The most recoveries of one search.
pub(super) const RECOVERIES: usize = 40;
/// The least states that are tried of one recovery, and the part of the budget of the first search.
const LEAST: u64 = 20;
const SHARE: u64 = 20;
/// The number of the place from which volumes are filled.
const PLACE: usize = 1000;

impl Lab<'_> {
    /// What the check does in a state; nothing if it changes nothing there.
    pub(super) fn recovery(&self, trial: &Trial) -> Result<Option<History>, String> {
        let (site, request) = (self.site, self.request);
        let config = request.like.is_device.then(|| request.layout.config());
        let place =
            Place::make(site.scratch.path(), PLACE, &site.volume, true, request.limit, config)?;
        let (dir, acked) = place.lay_out(trial)?;
        let setup = format!("cp -a {}/. .", super::quoted(&dir.to_string_lossy()));
        let check = ["sh", "-c", &request.check].map(OsString::from);
        let ack_file = site.scratch.path().join("acks-of-check");
        let run = RunRequest {
            layout: request.layout,
            size: request.size,
            setup: Some(&setup),
            command: &check,
            probe: None,
            env: &[("CRASHLAB_ACKED", acked.into())],
            volume: &site.volume,
            ack_file: &ack_file,
            of_device: request.like.is_device,
        };
        let mut history = run::run(&run, self.deputy()?)?.command;
        history.promised = Some(trial.acked.clone());
        let changes = history.events.iter().any(|event| !event.what.effects().is_empty());
        Ok(changes.then_some(history))
    }

    /// Fails the power a second time, in the recoveries of these states.
    pub(super) fn second(
        &self,
        first: &Search,
        states: &[State],
        found: &mut Found,
    ) -> Result<(), Fault> {
        let clock = twin_host::real_clock();
        let budget = self.request.budget;
        let budget = Budget { states: (budget.states / SHARE).max(LEAST), ..budget };
        let mut second = Second::default();
        for state in states {
            if clock() > self.request.seconds || self.interrupts.check().is_err() {
                found.notes.push(format!(
                    "{} of {} recoveries were looked at: {} s were allowed.",
                    second.recoveries,
                    states.len(),
                    self.request.seconds
                ));
                break;
            }
            let Some(trial) = first.trial(state.clone()) else { continue };
            second.recoveries += 1;
            let history = self.recovery(&trial).map_err(|why| {
                not_measured(format!("the check on a volume in the state {state}: {why}"))
            })?;
            let Some(history) = history else { continue };
            second.changing += 1;
            let search = Search::new(Space::of(history, self.request.like), budget);
            let search = self.tried(search, self.request.seconds - clock())?;
            let findings = search.findings();
            second.tried += findings.tried;
            second.failed += findings.failed;
            for mut class in self.explained(&search) {
                let known = found.classes.iter_mut().find(|known| known.why == class.why);
                match known {
                    Some(known) => known.states += class.states,
                    None => {
                        class.after = Some(state.clone());
                        found.classes.push(class);
                    }
                }
            }
        }
        found.second = Some(second);
        Ok(())
    }

    /// Those states of a search whose recoveries are looked at.
    pub(super) fn for_second(search: &Search) -> Vec<State> {
        search.passed(RECOVERIES)
    }
}
