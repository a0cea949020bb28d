//! Flush policies of modules.
//!
//! Contract: what is named to be written is something, and of the grain that the policy declared, since that decides what
//! a power failure may part; a time to be asked again is to come; the limit of dirty bytes is within the cache. Behind a
//! policy that is called no more is the default of the registry.

#![allow(unsafe_code)] // Hooks of modules, and what they ask.

use std::ffi::c_void;

use twin_cache::flush::{
    DirtyView, FlushAdvice, FlushPolicy, FlushSpec, FlushState, Grain, REGISTRY, Which,
};
use twin_policy::twinfs::flush::{
    self as outside, Dirty, DirtyBlock, DirtyFile, NEVER, Put, advice,
};
use twin_rt::{Nanos, Time};

use super::library::{Instance, Library};

/// The policy of a library, for its registry.
pub(super) fn spec(library: &'static Library) -> Result<FlushSpec, String> {
    // SAFETY: the caller has seen that it is of this kind.
    let hooks: &'static outside::Hooks = unsafe { library.hooks() };
    let grain = match hooks.grain {
        0 => Grain::Everything,
        1 => Grain::Files,
        2 => Grain::Blocks,
        other => return Err(format!("{}: it has grain {other}, which is none", library.path)),
    };
    let make = move |age_ns: Nanos| -> Box<dyn FlushPolicy> {
        // SAFETY: hooks of a loaded library may be called on any thread.
        let policy = unsafe { (hooks.make)(age_ns) };
        let instance = std::cell::RefCell::new(Instance::new(library, policy, hooks.drop));
        let plain = REGISTRY.default_entry().make(None);
        Box::new(Module { hooks, instance, grain, plain })
    };
    Ok(FlushSpec::from_outside(hooks.age_ns, grain, make))
}

struct Module {
    hooks: &'static outside::Hooks,
    /// Two hooks only ask, and may fail like the others.
    instance: std::cell::RefCell<Instance>,
    grain: Grain,
    plain: Box<dyn FlushPolicy>,
}

fn state_of(state: &FlushState) -> outside::State {
    outside::State {
        dirty_bytes: state.dirty_bytes,
        data_bytes: state.data_bytes,
        frame_bytes: state.frame_bytes,
        oldest_ns: state.oldest.map_or(NEVER, |time| time.0),
        capacity_bytes: state.capacity_bytes,
        unit_bytes: state.unit_bytes,
        wanted_bytes: state.wanted_bytes,
    }
}

/// The dirty data that a policy is lent, as long as `view` lives.
fn dirty_of(view: &&dyn DirtyView) -> Dirty {
    Dirty { context: std::ptr::from_ref(view).cast(), each_block, each_file, place_of }
}

/// The view behind the context of a [`Dirty`].
///
/// # Safety
/// The context is one of `dirty_of`, whose view lives.
unsafe fn view<'a>(context: *const c_void) -> &'a dyn DirtyView {
    // SAFETY: as the caller says.
    unsafe { *context.cast::<&dyn DirtyView>() }
}

unsafe extern "C" fn each_block(
    context: *const c_void,
    visitor: *mut c_void,
    visit: unsafe extern "C" fn(*mut c_void, &DirtyBlock) -> bool,
) {
    // SAFETY: a policy asks while it is lent the data.
    let view = unsafe { view(context) };
    view.blocks(&mut |block| {
        let block = DirtyBlock {
            file: block.ino,
            block: block.lbn,
            since_ns: block.since.0,
            changed_ns: block.changed.0,
            last_life_ns: block.last_life_ns.unwrap_or(NEVER),
        };
        // SAFETY: the visitor is the module's own.
        unsafe { visit(visitor, &block) }
    });
}

unsafe extern "C" fn each_file(
    context: *const c_void,
    visitor: *mut c_void,
    visit: unsafe extern "C" fn(*mut c_void, &DirtyFile) -> bool,
) {
    // SAFETY: as above.
    let view = unsafe { view(context) };
    view.files(&mut |file| {
        let (file, is_dir) = (*file, file.is_dir);
        let (since_ns, changed_ns) = (file.since.0, file.changed.0);
        let file = DirtyFile { file: file.ino, since_ns, changed_ns, bytes: file.bytes, is_dir };
        // SAFETY: as above.
        unsafe { visit(visitor, &file) }
    });
}

unsafe extern "C" fn place_of(context: *const c_void, file: u64, block: i64) -> u64 {
    // SAFETY: as above.
    unsafe { view(context) }.place(file, block).unwrap_or(NEVER)
}

unsafe extern "C" fn add(context: *mut c_void, file: u64, block: i64) {
    // SAFETY: the context is the list of the call that has not returned.
    unsafe { &mut *context.cast::<Vec<(u64, i64)>>() }.push((file, block));
}

impl Module {
    /// What a hook that names what to write answers; none if the policy is called no more.
    fn advice_of(
        &mut self,
        hook: &str,
        now: Option<Time>,
        call: impl FnOnce(*mut c_void, &mut Put) -> i64,
    ) -> Option<FlushAdvice> {
        let instance = self.instance.get_mut();
        let policy = instance.policy()?;
        let mut named: Vec<(u64, i64)> = Vec::new();
        let mut put = Put { time_ns: 0, context: (&raw mut named).cast(), add };
        let answer = call(policy, &mut put);
        let grain = match answer {
            advice::FILES => Grain::Files,
            advice::BLOCKS => Grain::Blocks,
            _ => Grain::Everything,
        };
        let is_finer = |grain: Grain| grain as u8 > self.grain as u8;
        let time = Time(put.time_ns);
        match answer {
            advice::FILES | advice::BLOCKS if named.is_empty() => {
                instance.broke(&format!("wants to write nothing in {hook}"));
                return None;
            }
            _ if is_finer(grain) => {
                instance.broke(&format!(
                    "names smaller parts in {hook} than the grain that it declares"
                ));
                return None;
            }
            advice::WAIT_UNTIL if now.is_none_or(|now| time <= now) => {
                instance.broke("wants to be asked again at a time that has passed");
                return None;
            }
            advice::WAIT if now.is_none() => {
                instance.broke("makes no room");
                return None;
            }
            _ => {}
        }
        Some(match answer {
            advice::WAIT => FlushAdvice::Wait,
            advice::WAIT_UNTIL => FlushAdvice::WaitUntil(time),
            advice::ALL => FlushAdvice::Write(Which::All),
            advice::UP_TO => FlushAdvice::Write(Which::UpTo(time)),
            advice::FILES => {
                FlushAdvice::Write(Which::Files(named.into_iter().map(|(file, _)| file).collect()))
            }
            advice::BLOCKS => FlushAdvice::Write(Which::Blocks(named)),
            other => {
                instance.unexpected(hook, other);
                return None;
            }
        })
    }

    /// What a hook that answers a number of bytes says.
    fn bytes(&self, hook: &str, call: impl FnOnce(*mut c_void, &mut u64) -> i64) -> Option<u64> {
        let mut instance = self.instance.borrow_mut();
        let (policy, mut bytes) = (instance.policy()?, 0);
        let done = call(policy, &mut bytes);
        instance.done(hook, done);
        (done == twin_policy::twinfs::answer::YES).then_some(bytes)
    }
}

impl FlushPolicy for Module {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        let (hooks, seen) = (self.hooks, state_of(state));
        // SAFETY: here and below the policy is one of these hooks, and what is lent lives until the call returns.
        let call = |policy, put: &mut Put| unsafe {
            (hooks.advise)(policy, now.0, &seen, &dirty_of(&dirty), put)
        };
        match self.advice_of("advise", Some(now), call) {
            Some(advice) => advice,
            None => self.plain.advise(now, state, dirty),
        }
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        // SAFETY: as above.
        let call = |policy, bytes: &mut u64| unsafe {
            (self.hooks.start_bytes)(policy, &state_of(state), bytes)
        };
        self.bytes("start_bytes", call).unwrap_or_else(|| self.plain.start_bytes(state))
    }

    fn limit_bytes(&self, state: &FlushState) -> u64 {
        // SAFETY: as above.
        let call = |policy, bytes: &mut u64| unsafe {
            (self.hooks.limit_bytes)(policy, &state_of(state), bytes)
        };
        let limit = self.bytes("limit_bytes", call);
        let limit = limit.unwrap_or_else(|| self.plain.limit_bytes(state));
        limit.clamp(state.unit_bytes.min(state.capacity_bytes), state.capacity_bytes)
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        let (hooks, seen) = (self.hooks, state_of(state));
        // SAFETY: as above.
        let call = |policy, put: &mut Put| unsafe {
            (hooks.make_room)(policy, &seen, &dirty_of(&dirty), put)
        };
        match self.advice_of("make_room", None, call) {
            Some(FlushAdvice::Write(which)) => which,
            _ => self.plain.make_room(state, dirty),
        }
    }
}
