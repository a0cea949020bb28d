//! Victim and trigger policies of modules, and what policies of cleaning see of a log.
//!
//! Contract: a victim is a candidate, and there is one if there are candidates, since a log that is not cleaned takes no
//! more writes. Behind a policy that is called no more, the segment with most garbage is cleaned, and only when writers
//! wait.

#![allow(unsafe_code)] // Hooks of modules, and what they ask.

use std::ffi::c_void;

use twin_clean::inputs::{LogView, Needs, SegmentInfo, SegmentState, Setting};
use twin_clean::trigger::{TriggerDecision, TriggerInput, TriggerPolicy};
use twin_clean::victim::{Candidates, VictimPolicy};
use twin_policy::twinfs::log::{self, Log, Segment};
use twin_policy::twinfs::{answer, trigger, victim};

use super::library::{Instance, Library};

pub(super) fn setting_of(setting: &Setting) -> log::Setting {
    let Setting { blocks, segment_blocks, garbage_share, open_segments, seed } = *setting;
    log::Setting {
        blocks,
        segment_blocks,
        garbage_share,
        open_segments: open_segments.into(),
        seed,
    }
}

pub(super) fn segment_of(info: &SegmentInfo) -> Segment {
    Segment {
        state: match info.state {
            SegmentState::Free => 0,
            SegmentState::Open => 1,
            SegmentState::Sealed => 2,
            SegmentState::Cleaning => 3,
        },
        class: info.class.into(),
        size_blocks: info.size_blocks,
        written_blocks: info.written_blocks,
        live_blocks: info.live_blocks,
        opened_at: info.opened_at,
        sealed_at: info.sealed_at,
        youngest_at: info.youngest_at,
        serial: info.serial,
        heat_writes: info.heat.writes,
        heat_last_at: info.heat.last_at,
        penultimate_sum: info.penultimate_sum,
    }
}

pub(super) fn needs_of(bits: u32) -> Needs {
    Needs {
        heat: bits & log::needs::HEAT != 0,
        updates: bits & log::needs::UPDATES != 0,
        future: false,
        requests: bits & log::needs::REQUESTS != 0,
    }
}

/// What a policy sees of a log. It may be lent as long as `view` lives.
pub(super) fn log_of(view: &LogView<'_>, least_garbage: f64) -> Log {
    Log {
        now: view.now,
        live_blocks: view.live_blocks,
        segment_blocks: view.segment_blocks,
        segments: view.segments.len() as u32,
        least_garbage,
        context: std::ptr::from_ref(view).cast(),
        segment_at,
        open_written_in,
    }
}

unsafe extern "C" fn segment_at(context: *const c_void, number: u32, out: &mut Segment) -> bool {
    // SAFETY: the context is that of `log_of`, whose view lives as long as the log is lent.
    let view = unsafe { &*context.cast::<LogView<'_>>() };
    match view.segments.get(number as usize) {
        Some(info) => {
            *out = segment_of(info);
            true
        }
        None => false,
    }
}

unsafe extern "C" fn open_written_in(context: *const c_void, class: u32) -> u32 {
    // SAFETY: as above.
    let view = unsafe { &*context.cast::<LogView<'_>>() };
    u8::try_from(class).map_or(0, |class| view.open_written(class))
}

/// What makes the victim policy of a library.
pub(super) fn victims(
    library: &'static Library,
) -> impl Fn(&Setting) -> Box<dyn VictimPolicy> + Send + Sync + 'static {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static victim::Hooks = unsafe { library.hooks() };
    move |setting| {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)(&setting_of(setting)) };
        Box::new(Victims { hooks, instance: Instance::new(library, policy, hooks.drop) })
    }
}

struct Victims {
    hooks: &'static victim::Hooks,
    instance: Instance,
}

impl Victims {
    /// The victim of the policy; the outer `None` if it is called no more.
    fn named(&mut self, candidates: &Candidates<'_>) -> Option<Option<u32>> {
        let policy = self.instance.policy()?;
        let log = log_of(&candidates.view, candidates.min_garbage_share);
        // SAFETY: the policy is one of these hooks, and the log lives until the call returns.
        let named = unsafe { (self.hooks.choose)(policy, &log) };
        match (u32::try_from(named), named) {
            (Ok(segment), _) if candidates.iter().any(|(number, _)| number == segment) => {
                return Some(Some(segment));
            }
            (Ok(segment), _) => {
                self.instance.broke(&format!("chose segment {segment}, which is no candidate"));
            }
            (_, answer::NO) if candidates.iter().next().is_none() => return Some(None),
            (_, answer::NO) => {
                self.instance.broke("chose no segment, although there are candidates");
            }
            (_, other) => self.instance.unexpected("choose", other),
        }
        None
    }
}

impl VictimPolicy for Victims {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.named(candidates).unwrap_or_else(|| candidates.best(SegmentInfo::garbage_share))
    }

    fn needs(&self) -> Needs {
        needs_of(self.hooks.needs)
    }
}

/// What makes the trigger policy of a library.
pub(super) fn triggers(
    library: &'static Library,
) -> impl Fn() -> Box<dyn TriggerPolicy> + Send + Sync + 'static {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static trigger::Hooks = unsafe { library.hooks() };
    move || {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)() };
        Box::new(Triggers { hooks, instance: Instance::new(library, policy, hooks.drop) })
    }
}

struct Triggers {
    hooks: &'static trigger::Hooks,
    instance: Instance,
}

impl TriggerPolicy for Triggers {
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision {
        let Some(policy) = self.instance.policy() else { return TriggerDecision::Wait };
        let seen = trigger::TriggerInput {
            now_ns: input.now_ns,
            idle_since_ns: input.idle_since_ns.unwrap_or(u64::MAX),
            clean_segments: input.clean_segments,
            segments: input.segments,
            reserve_segments: input.reserve_segments,
            step_ns: input.step_ns,
        };
        let mut at = 0;
        // SAFETY: the policy is one of these hooks, and the values live until the call returns.
        match unsafe { (self.hooks.decide)(policy, &seen, &mut at) } {
            answer::YES => return TriggerDecision::Now,
            answer::NO => return TriggerDecision::Wait,
            0 if at > input.now_ns => return TriggerDecision::At(at),
            // It would be asked again at once, and time would stand still.
            0 => self.instance.broke("wants to clean at a time that has passed"),
            other => self.instance.unexpected("decide", other),
        }
        TriggerDecision::Wait
    }

    fn idle_ended(&mut self, idle_ns: u64) {
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.idle_ended)(policy, idle_ns) };
            self.instance.done("idle_ended", done);
        }
    }
}
