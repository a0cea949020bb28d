//! A network between one writer and the bucket, which loses, delays and repeats.

use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::rc::Rc;

use twin_bucket::{
    Condition, Content, Listed, MemoryStore, ObjectStore, StoreError, Stored, Version,
};
use twin_disk::Block;
use twin_rt::{FixedHasher, MILLIS, Nanos, Receiver, Rng, Rt, SECS, Sender, Time, oneshot};

/// How long a writer waits for an answer.
const TIMEOUT: Nanos = 2 * SECS;

/// How bad a network is. The chances are of a thousand requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weather {
    /// Requests that never arrive.
    pub(super) lost: u64,
    /// Requests whose answers never arrive.
    pub(super) unanswered: u64,
    /// Requests that are executed once more, up to a minute later.
    pub(super) repeated: u64,
    /// Requests that arrive up to a minute later, long after their writer has asked again.
    pub(super) late: u64,
    /// Requests that the bucket answers with "slow down".
    pub(super) throttled: u64,
}

/// The fingerprint of what the bucket executed, in its order.
#[derive(Clone, Default)]
pub(super) struct Course(Rc<RefCell<FixedHasher>>);

impl Course {
    fn executed(&self, what: &str, name: &str, done: bool) {
        let mut hash = self.0.borrow_mut();
        hash.write(what.as_bytes());
        hash.write(name.as_bytes());
        hash.write_u8(u8::from(done));
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.0.borrow().finish()
    }
}

struct Inner {
    rt: Rt,
    store: Rc<MemoryStore>,
    weather: Weather,
    rng: RefCell<Rng>,
    /// Nothing goes through any more: the writer's machine has failed.
    is_cut: Cell<bool>,
    /// Everything waits until then: the machine stands still.
    stalled_until: Cell<Time>,
    /// Everything is executed at once.
    is_clear: Cell<bool>,
    course: Course,
}

/// The bucket as one writer sees it.
#[derive(Clone)]
pub(super) struct Wire(Rc<Inner>);

/// Where an answer goes.
type Asker<T> = Sender<Result<T, StoreError>>;

/// The way to whoever asked, for the first answer.
struct Answer<T>(Rc<Cell<Option<Asker<T>>>>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Answer(Rc::clone(&self.0))
    }
}

impl<T> Answer<T> {
    fn new() -> (Answer<T>, Receiver<Result<T, StoreError>>) {
        let (sender, receiver) = oneshot();
        (Answer(Rc::new(Cell::new(Some(sender)))), receiver)
    }

    fn send(&self, result: Result<T, StoreError>) {
        if let Some(sender) = self.0.take() {
            sender.send(result);
        }
    }
}

impl Wire {
    pub(super) fn new(
        rt: &Rt,
        store: &Rc<MemoryStore>,
        weather: Weather,
        course: &Course,
        name: &str,
    ) -> Wire {
        Wire(Rc::new(Inner {
            rt: rt.clone(),
            store: Rc::clone(store),
            weather,
            rng: RefCell::new(rt.rng(name)),
            is_cut: Cell::new(false),
            stalled_until: Cell::new(Time(0)),
            is_clear: Cell::new(false),
            course: course.clone(),
        }))
    }

    /// The writer's machine fails; what is on its way may still arrive.
    pub(super) fn cut(&self) {
        self.0.is_cut.set(true);
    }

    pub(super) fn stall(&self, span: Nanos) {
        self.0.stalled_until.set(Time(self.0.rt.now().0 + span));
    }

    /// Lets requests pass at once, or no more.
    pub(super) fn clear(&self, is_clear: bool) {
        self.0.is_clear.set(is_clear);
    }

    fn chance(&self, of_a_thousand: u64) -> bool {
        self.0.rng.borrow_mut().below(1000) < of_a_thousand
    }

    fn delay(&self, most: Nanos) -> Nanos {
        self.0.rng.borrow_mut().below(most)
    }

    /// Sends a request that `execute` carries out at the bucket.
    fn send<T: 'static>(&self, execute: impl Fn() -> Stored<T> + 'static) -> Stored<T> {
        let inner = &self.0;
        if inner.is_clear.get() && !inner.is_cut.get() {
            return execute();
        }
        let (answer, result) = Answer::new();
        if inner.is_cut.get() {
            // Nobody answers: the writer waits for ever.
            return Box::pin(result);
        }
        let weather = inner.weather;
        let begun = inner.rt.now().max(inner.stalled_until.get());
        let (is_late, is_lost) = (self.chance(weather.late), self.chance(weather.lost));
        let (is_unanswered, is_throttled) =
            (self.chance(weather.unanswered), self.chance(weather.throttled));
        let there = Time(begun.0 + self.delay(if is_late { 60 * SECS } else { 50 * MILLIS }));
        let again = self.chance(weather.repeated).then(|| Time(there.0 + self.delay(60 * SECS)));
        let back = self.delay(50 * MILLIS);
        let (wire, rt) = (self.clone(), inner.rt.clone());
        let to_answer = answer.clone();
        rt.clone().spawn("request", async move {
            rt.sleep_until(there).await;
            if is_throttled {
                rt.sleep(back).await;
                return wire.answer(&to_answer, Err(StoreError::Unknown("slow down".into())));
            }
            if !is_lost {
                let result = execute().await;
                if !is_unanswered {
                    rt.sleep(back).await;
                    wire.answer(&to_answer, result);
                }
            }
            if let Some(again) = again {
                rt.sleep_until(again).await;
                let _ = execute().await;
            }
        });
        let (wire, rt) = (self.clone(), inner.rt.clone());
        rt.clone().spawn("timeout", async move {
            rt.sleep_until(Time(begun.0 + TIMEOUT)).await;
            wire.answer(&answer, Err(StoreError::Unknown("no answer".into())));
        });
        Box::pin(result)
    }

    /// A machine that stands still hears nothing, and one that has failed never will.
    fn answer<T: 'static>(&self, answer: &Answer<T>, result: Result<T, StoreError>) {
        let inner = &self.0;
        if inner.is_cut.get() {
            return;
        }
        let until = inner.stalled_until.get();
        if until > inner.rt.now() {
            let (wire, rt, answer) = (self.clone(), inner.rt.clone(), answer.clone());
            rt.clone().spawn("answer", async move {
                rt.sleep_until(until).await;
                wire.answer(&answer, result);
            });
            return;
        }
        answer.send(result);
    }
}

impl ObjectStore for Wire {
    fn name(&self) -> String {
        self.0.store.name()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let (inner, name) = (Rc::clone(&self.0), name.to_string());
        self.send(move || {
            let got = inner.store.get(&name, range);
            let (inner, name) = (Rc::clone(&inner), name.clone());
            Box::pin(async move {
                let got = got.await;
                inner.course.executed("get", &name, got.is_ok());
                got
            })
        })
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let (inner, name) = (Rc::clone(&self.0), name.to_string());
        self.send(move || {
            let put = inner.store.put(&name, blocks.clone(), when.clone());
            let (inner, name) = (Rc::clone(&inner), name.clone());
            Box::pin(async move {
                let put = put.await;
                inner.course.executed("put", &name, put.is_ok());
                put
            })
        })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        let (inner, name) = (Rc::clone(&self.0), name.to_string());
        self.send(move || {
            inner.course.executed("delete", &name, true);
            inner.store.delete(&name)
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let (inner, prefix, after) =
            (Rc::clone(&self.0), prefix.to_string(), after.map(String::from));
        self.send(move || {
            inner.course.executed("list", &prefix, true);
            inner.store.list(&prefix, after.as_deref())
        })
    }
}
