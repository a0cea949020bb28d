//! Following a volume that another machine writes.
//!
//! Contract: nothing is written, and nothing is asked unless [`Follower::look`] is called. Each state that a follower
//! shows is the device as its writer had it after some write, never an earlier one than before, and not an earlier one than
//! the last flush that was acknowledged before the look began. A look at a volume that nobody has changed is two
//! requests: for the pack that would be next, and for the head. In this order: the pack is missing because there is none, or
//! because it was deleted, and that only happens after another head. A state stays readable until its writer has deleted a pack
//! of it; from then on reads of that pack fail, and no read gets anything else ([`Bucket::has_lost`]).

use std::rc::Rc;

use twin_rt::Rt;

use crate::bucket::Bucket;
use crate::head;
use crate::objects::{OpenError, malformed, read_head};
use crate::open::{Known, read_all, read_on};
use crate::planted::PlantedFault;
use crate::requests::Requests;
use crate::settings::Settings;
use crate::store::ObjectStore;

/// One who follows a volume, and what it knows of it.
pub struct Follower {
    requests: Requests,
    settings: Settings,
    /// `None` after an error that may have left only half of it.
    known: Option<Known>,
    /// Of the volume that is followed.
    seen: Seen,
    volume: crate::Identity,
    /// Whether something is known that was not shown.
    has_more: bool,
}

/// What a follower has seen of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of the head among the heads of the volume.
    pub head: u64,
    /// The number of its writer among the writers.
    pub epoch: u64,
    /// Packs of this writer that are in the state.
    pub packs: u64,
    /// Whether the writer has closed the volume.
    pub is_closed: bool,
    /// The writer, in its own words.
    pub writer: String,
}

impl Seen {
    fn of(known: &Known) -> Seen {
        Seen {
            head: known.head.count,
            epoch: known.head.epoch,
            packs: known.end.next.seq,
            is_closed: known.head.is_closed,
            writer: known.head.owner.clone(),
        }
    }
}

impl Follower {
    /// Begins to follow a volume, and returns the first state.
    ///
    /// # Errors
    /// If there is none, it is damaged, or the store fails.
    pub async fn begin(
        rt: &Rt,
        store: Rc<dyn ObjectStore>,
        settings: &Settings,
    ) -> Result<(Follower, Bucket), OpenError> {
        let requests = settings.requests(rt, store);
        let known = read_all(&requests).await?;
        let (seen, volume) = (Seen::of(&known), known.head.volume);
        let (settings, has_more) = (settings.clone(), false);
        let mut follower = Follower { requests, settings, known: None, seen, volume, has_more };
        let first = follower.shown(&known);
        follower.known = Some(known);
        Ok((follower, first))
    }

    /// What was seen last, whether or not it differs from what was shown.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Looks whether there is a newer state, and returns it if there is.
    ///
    /// # Errors
    /// If there is no volume or another one, it is damaged, or the store fails. What was shown stays as it was, and the next
    /// look tries again.
    pub async fn look(&mut self) -> Result<Option<Bucket>, OpenError> {
        let Some(mut known) = self.known.take() else { return self.look_anew(None).await };
        let before = known.end.next;
        match self.look_on(&mut known).await {
            Ok(is_same_head) => {
                self.has_more |= known.end.next != before;
                if !is_same_head {
                    return self.look_anew(Some(known)).await;
                }
                let newer = self.has_more.then(|| self.shown(&known));
                self.now_knows(known);
                Ok(newer)
            }
            Err(error @ OpenError::Store(_)) => {
                // Each pack is in it whole or not at all, so the next look can go on from there.
                self.has_more |= known.end.next != before;
                self.known = Some(known);
                Err(error)
            }
            // What does not fit the head that is known may fit the next one: the device may have grown.
            Err(_) => self.look_anew(None).await,
        }
    }

    /// Reads the packs that have come, and returns whether the head is the one that is known.
    async fn look_on(&self, known: &mut Known) -> Result<bool, OpenError> {
        let Known { head, version, extents, end } = known;
        read_on(&self.requests, head, extents, end, 1).await?;
        let trusts = self.requests.planted.is(PlantedFault::FollowerTrustsEnd);
        Ok(trusts || read_head(&self.requests).await?.1 == *version)
    }

    /// Reads all of it.
    async fn look_anew(&mut self, before: Option<Known>) -> Result<Option<Bucket>, OpenError> {
        let known = match read_all(&self.requests).await {
            Ok(known) => known,
            Err(error) => {
                // Its head is another one, so the next look comes here again.
                self.known = before.filter(|_| matches!(error, OpenError::Store(_)));
                return Err(error);
            }
        };
        if known.head.volume != self.volume {
            return Err(malformed(head::NAME)("it belongs to another volume than before"));
        }
        if known.head.count < self.seen.head {
            return Err(malformed(head::NAME)("it is older than what was seen before"));
        }
        // A head without news describes what its packs had said.
        let is_shown = |before: Known| before.extents.to_map() == known.extents.to_map();
        self.has_more |= !before.is_some_and(is_shown);
        let newer = self.has_more.then(|| self.shown(&known));
        self.now_knows(known);
        Ok(newer)
    }

    fn now_knows(&mut self, mut known: Known) {
        // What has died is its writer's to delete.
        known.extents.take_dead();
        self.seen = Seen::of(&known);
        self.has_more = false;
        self.known = Some(known);
    }

    /// The device as it is known.
    fn shown(&self, known: &Known) -> Bucket {
        let head = (known.head.clone(), known.version.clone());
        Bucket::new(self.requests.clone(), &self.settings, head, known.extents.clone(), true)
    }
}
