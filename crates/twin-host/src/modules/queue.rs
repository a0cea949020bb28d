//! Disk queues of modules.
//!
//! Contract: each request is served once, and none before an earlier one that touches the same bytes, unless both read:
//! a queue that answers otherwise would lose data. Behind a queue that is called no more, requests are served in order of
//! arrival.

#![allow(unsafe_code)] // Hooks of modules, and what they ask.

use std::ffi::c_void;

use twin_disk::IoKind;
use twin_disk::queue::{Next, Positioning, Scheduler, SchedulerInput, Waiting, overtakes};
use twin_policy::twinfs::answer;
use twin_policy::twinfs::queue as outside;
use twin_rt::Time;

use super::library::{Instance, Library};

/// What makes the queue of a library.
pub(super) fn maker(
    library: &'static Library,
) -> impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static outside::Hooks = unsafe { library.hooks() };
    move || {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)() };
        let instance = Instance::new(library, policy, hooks.drop);
        Box::new(Module { hooks, instance, waiting: Vec::new() })
    }
}

struct Module {
    hooks: &'static outside::Hooks,
    instance: Instance,
    /// In order of arrival.
    waiting: Vec<Waiting>,
}

/// What the question how far a request is needs.
struct Question<'a> {
    device: &'a dyn Positioning,
    now: Time,
    head_at: u64,
    waiting: &'a [Waiting],
}

unsafe extern "C" fn reach_ns(context: *const c_void, request: &outside::Waiting) -> u64 {
    // SAFETY: the context is the one of the call of `pop` that has not returned.
    let question = unsafe { &*context.cast::<Question<'_>>() };
    // A device knows places on it only, so it is question for requests that wait, not for any that a policy makes up.
    let known = question.waiting.iter().find(|waiting| waiting.id == request.id);
    known.map_or(u64::MAX, |known| {
        question.device.positioning_ns(question.now, question.head_at, known)
    })
}

fn request_of(request: &Waiting) -> outside::Waiting {
    outside::Waiting {
        id: request.id,
        writes: u32::from(request.kind != IoKind::Read),
        seq: request.seq,
        at: request.at,
        len: request.len,
        arrived_ns: request.arrived.0,
        deadline_ns: request.deadline.map_or(u64::MAX, |time| time.0),
    }
}

impl Module {
    /// The place in `waiting` of the request that the policy chose; none if it is called no more.
    fn chosen(&mut self, view: &SchedulerInput<'_>) -> Option<usize> {
        let policy = self.instance.policy()?;
        let (now, head_at) = (view.now, view.head_at);
        let question = Question { device: view.device, now, head_at, waiting: &self.waiting };
        let context = std::ptr::from_ref(&question).cast();
        let head = outside::Head { now_ns: now.0, head_at, context, reach_ns };
        // SAFETY: the policy is one of these hooks, and what is lent lives until the call returns.
        let named = unsafe { (self.hooks.pop)(policy, &head) };
        match (u32::try_from(named), named) {
            (Ok(id), _) => match self.waiting.iter().position(|waiting| waiting.id == id) {
                Some(place) if !overtakes(&self.waiting, place) => return Some(place),
                Some(_) => {
                    let what = "wants to serve a request before an earlier one for the same bytes";
                    self.instance.broke(what);
                }
                None => self.instance.broke(&format!("chose request {id}, which does not wait")),
            },
            (_, answer::NO) => {
                let waiting = self.waiting.len();
                self.instance.broke(&format!("chose no request, although {waiting} wait"));
            }
            (_, other) => self.instance.unexpected("pop", other),
        }
        None
    }
}

impl Scheduler for Module {
    fn push(&mut self, request: Waiting) {
        self.waiting.push(request);
        if let Some(policy) = self.instance.policy() {
            // SAFETY: as above.
            let done = unsafe { (self.hooks.push)(policy, &request_of(&request)) };
            self.instance.done("push", done);
        }
    }

    fn pop(&mut self, view: &SchedulerInput<'_>) -> Option<Next> {
        if self.waiting.is_empty() {
            return None;
        }
        let place = self.chosen(view).unwrap_or(0);
        Some(self.waiting.remove(place).into())
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}
