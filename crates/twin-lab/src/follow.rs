//! Following a volume in a bucket that another machine writes: looking for newer states, and showing them.
//!
//! Contract: after each interval, and when somebody meets what has been deleted, the store is asked once; a newer state is opened
//! beside the one that is shown and takes its place whole. While the store does not answer, or what is there cannot be
//! opened, the last state stays, which is said once, and [`Status`] says how old it is. Nothing is ever written.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use twin_bucket::{Bucket, Follower, Seen};
use twin_disk::BlockDevice;
use twin_fs::{Cpu, Following, LayoutConfig, Settings};
use twin_rt::{Nanos, Rt, SECS, Time};

/// How often a newer state is opened whose packs are deleted meanwhile, before the next interval.
const OPENINGS: u32 = 8;

/// What is needed to follow a volume whose first state is open.
pub struct Begun {
    /// The follower.
    pub follower: Follower,
    /// The device of the first state.
    pub first: Bucket,
    /// How long to wait between two looks.
    pub every: Nanos,
    /// When the follower began to look at it.
    pub as_of: Time,
}

/// Who looks for newer states.
pub struct Watch {
    follower: Follower,
    every: Nanos,
    layout: Box<dyn LayoutConfig>,
    settings: Settings,
    /// A newer state that could not be opened yet.
    pending: Option<Bucket>,
    following: Rc<Following>,
    status: Rc<RefCell<Status>>,
}

/// What is shown, and how old it is.
#[derive(Clone, Debug)]
pub struct Status {
    /// What was seen of the volume when somebody looked last.
    pub seen: Seen,
    /// When the last look began that was answered: what is shown was the newest then.
    pub as_of: Time,
    /// Since when it is shown.
    pub since: Time,
    /// Why the last look was not answered.
    pub failing: Option<String>,
}

/// What is told of a mount that follows.
#[derive(Clone)]
pub struct Followed {
    /// What is served.
    pub following: Rc<Following>,
    /// Its status.
    pub status: Rc<RefCell<Status>>,
}

impl Watch {
    /// Opens the first state, or a newer one if its writer deletes something of it meanwhile.
    ///
    /// # Errors
    /// If the store fails, or what is there cannot be opened.
    pub async fn begin(
        rt: &Rt,
        begun: Begun,
        layout: Box<dyn LayoutConfig>,
        settings: Settings,
    ) -> Result<(Watch, Followed), String> {
        let Begun { mut follower, first: mut device, every, as_of } = begun;
        let mut openings = 0;
        let first = loop {
            let its: Rc<dyn BlockDevice> = Rc::new(device.clone());
            let error = match layout.open(rt, its, Cpu::none(), settings.clone()).await {
                Ok(opened) => break opened.volume,
                Err(error) => error.to_string(),
            };
            openings += 1;
            let newer = match device.has_lost() && openings < OPENINGS {
                true => follower.look().await.map_err(|error| error.to_string())?,
                false => None,
            };
            device = newer.ok_or(error)?;
        };
        let following = Rc::new(Following::new(first, Rc::new(move || device.has_lost())));
        let (seen, since) = (follower.seen().clone(), rt.now());
        let status = Rc::new(RefCell::new(Status { seen, as_of, since, failing: None }));
        let followed = Followed { following: Rc::clone(&following), status: Rc::clone(&status) };
        let pending = None;
        Ok((Watch { follower, every, layout, settings, pending, following, status }, followed))
    }

    /// Looks for newer states for ever, and says when and why it can no longer, and with `None` when it can again.
    pub async fn run(mut self, rt: Rt, say: impl Fn(Option<String>)) {
        loop {
            either(rt.sleep(self.every), self.following.wanted()).await;
            let begun = rt.now();
            let looked = self.look(&rt).await;
            let mut status = self.status.borrow_mut();
            match looked {
                Ok(()) => {
                    let was = status.failing.take();
                    (status.seen, status.as_of) = (self.follower.seen().clone(), begun);
                    if was.is_some() {
                        say(None);
                    }
                }
                Err(why) => {
                    let age = begun.since(status.as_of) / SECS;
                    if status.failing.is_none() {
                        let stays = format!("the state of {age} seconds ago stays");
                        say(Some(format!("it cannot be followed, and {stays}: {why}")));
                    }
                    status.failing = Some(why);
                }
            }
            drop(status);
            self.following.has_looked();
        }
    }

    /// Shows what is newer, if something is.
    async fn look(&mut self, rt: &Rt) -> Result<(), String> {
        let mut lost = None;
        for _ in 0..OPENINGS {
            let newer = self.follower.look().await.map_err(|error| error.to_string())?;
            let Some(bucket) = newer.or_else(|| self.pending.take()) else {
                return lost.map_or(Ok(()), Err);
            };
            self.pending = Some(bucket.clone());
            let device: Rc<dyn BlockDevice> = Rc::new(bucket.clone());
            match self.layout.open(rt, device, Cpu::none(), self.settings.clone()).await {
                Ok(opened) => {
                    self.pending = None;
                    self.status.borrow_mut().since = rt.now();
                    let shown =
                        self.following.show(opened.volume, Rc::new(move || bucket.has_lost()));
                    return shown.await.map_err(|error| error.to_string());
                }
                // Its writer has gone on, so there is a newer one.
                Err(error) if bucket.has_lost() => {
                    self.pending = None;
                    lost = Some(error.to_string());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("it changes faster than it can be opened".into())
    }
}

/// Waits for the first of two.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match (one.as_mut().poll(cx), other.as_mut().poll(cx)) {
        (Poll::Pending, Poll::Pending) => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}
