//! What a mount answers over its channel.
//!
//! Contract: a question is a line of JSON ([`Question`]), an answer an object of JSON, after a line
//! feed perhaps with bytes. What is no question gets an object with `error`. A client that has frozen
//! the volume's device, observes the mount or has it scrubbed ends that by closing the connection.

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use twin_bucket::{Counts, JournalStatus};
use twin_disk::journaled::{Journaled, Waiting};
use twin_disk::{Freezable, Frozen, IoError, IoErrorKind};
use twin_fs::SnapshotView;
use twin_fs::scrub::ScrubHow;
use twin_fs::snapshots::Keep;
use twin_fs::{FileSystem, FsError, Growth, LayoutKind, NO_SNAPSHOTS, Volume, write_cost};
use twin_host::Host;
use twin_host::channel::{Channel, Session};
use twin_lab::CleanerFigures;
use twin_lab::follow::{Followed, Status};
use twin_observe::Observing;
use twin_rt::{BoxFuture, MILLIS, SECS, Time};
use twin_trace::Recorder;

use crate::media::{OfStore, StoreFigures};
use crate::observers::{Observation, Observers};
use crate::scrubbing::{Begun, Scrubbing};
use crate::states::{states_as_json, why_not_deleted, why_not_kept};

/// The most bytes that one question for old content may cover.
pub const OLD_MOST: u64 = 1 << 20;
/// The most memory that a client may have old content kept in.
const KEEP_MOST: u64 = 4 << 30;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// The figures of the volume.
    Figures,
    /// Hold the state of this instant on the device until the connection ends, keeping at most so
    /// many bytes of what is overwritten.
    Freeze {
        /// The most memory that is taken for it.
        keep_bytes: u64,
    },
    /// What has been overwritten of a range since.
    Old {
        /// The first byte of the range.
        at: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Begin to observe the mount with these observers.
    Observe {
        /// The names of the observers.
        names: Vec<String>,
        /// The interval.
        every_ns: u64,
    },
    /// The figures of the intervals that have ended since this was last asked; waits a moment for one.
    Intervals,
    /// End observing; the figures of all of it.
    Observed,
    /// Begin a scrub, which ends with the connection.
    Scrub {
        /// Go on where the last one was cancelled.
        resume: bool,
        /// The most bytes that are read in a second; 0 for no limit.
        bytes_per_second: u64,
    },
    /// How far the scrub is.
    ScrubFigures,
    /// What the scrub has found.
    ScrubFound {
        /// The number of the first one in the answer, from 0.
        from: usize,
    },
    /// Cancel the scrub.
    ScrubCancel,
    /// The states that the volume keeps.
    States,
    /// Keep a state under a name.
    KeepState {
        /// The name.
        name: String,
        /// Whether it is a branch.
        is_branch: bool,
        /// The state that a branch is of; the present one otherwise.
        from: Option<String>,
    },
    /// Delete states.
    DeleteStates {
        /// Their names.
        names: Vec<String>,
    },
    /// Let the volume become larger.
    Grow {
        /// The bytes that an image is made to have first; otherwise the volume has what there is.
        bytes: Option<u64>,
    },
}

/// What a mount's channel speaks for.
#[derive(Clone)]
pub struct Answers {
    /// The volume.
    pub volume: Volume,
    /// Its device, if its content can be held.
    pub freezable: Option<Freezable>,
    /// Those who may observe it.
    pub observers: Option<Rc<Observers>>,
    /// The layout of the volume.
    pub layout: &'static dyn LayoutKind,
    /// The image in which it is.
    pub image: PathBuf,
    /// What the mount records, once it does.
    pub recording: Rc<OnceCell<Recording>>,
    /// What the store was asked, if the volume is in one.
    pub store: Option<StoreFigures>,
    /// The journal before its device, if there is one.
    pub journal: Option<Journaled>,
    /// What is served in place of the volume, if it is followed.
    pub followed: Option<Followed>,
    /// Its scrubs.
    pub scrubbing: Scrubbing,
    /// Takes lines for the mount's log.
    pub say: Rc<dyn Fn(&str)>,
}

/// A recording that is being made.
pub struct Recording {
    path: PathBuf,
    /// Writes out what was recorded until now, and returns the number of requests.
    flush: Box<dyn Fn() -> u64>,
}

impl Recording {
    /// What a recorder writes into this file.
    pub fn of<F: FileSystem>(recorder: &Rc<Recorder<F, File>>, path: &Path) -> Recording {
        let recorder = Rc::downgrade(recorder);
        let flush = move || {
            recorder.upgrade().map_or(0, |recorder| {
                recorder.flush();
                recorder.recorded().requests
            })
        };
        Recording { path: path.to_owned(), flush: Box::new(flush) }
    }
}

/// One client.
struct Client {
    answers: Answers,
    host: Host,
    frozen: RefCell<Option<Frozen>>,
    observation: RefCell<Option<Rc<Observation>>>,
    scrub: RefCell<Option<Begun>>,
}

impl Answers {
    /// Opens the channel of this process.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn serve(self, host: &Host) -> std::io::Result<Channel> {
        let its = host.clone();
        Channel::open(host, move || {
            let (answers, host) = (self.clone(), its.clone());
            let (frozen, observation, scrub) = Default::default();
            Rc::new(Client { answers, host, frozen, observation, scrub })
        })
    }

    /// The figures of the volume since it was mounted.
    fn figures(&self, host: &Host) -> Value {
        let now_shown = |followed: &Followed| followed.following.volume();
        let volume = self.followed.as_ref().map_or_else(|| self.volume.clone(), now_shown);
        let (core, written, stat) = (volume.core(), volume.written(), volume.stat());
        let block = u64::from(stat.block_size);
        let cost = write_cost(written.bytes, written.cleaner_read_bytes, written.new_data_bytes);
        json!({
            "layout": self.layout.name(),
            "at_ns": host.now().0,
            "operations": core.operations(),
            "capacity_bytes": stat.blocks * block,
            "used_bytes": stat.blocks.saturating_sub(stat.free) * block,
            "dirty_bytes": core.cache.dirty_bytes(),
            "cached_inodes": core.cached_inodes(),
            "device_requests": host.device_requests().0,
            "device_queue": core.device.in_flight(),
            "idle_polling": host.idle_polling().map(|polled| json!({ "bursts": polled.bursts, "ns": polled.ns })),
            "written_bytes": written.bytes,
            "new_data_bytes": written.new_data_bytes,
            "moved_bytes": written.moved_bytes,
            "cleaner_read_bytes": written.cleaner_read_bytes,
            "write_cost": cost,
            "cleaner": cleaner(&volume),
            "scrub": self.scrubbing.figures(),
            "bucket": self.store.as_ref().map(|store| bucket(store())),
            "journal_file": self.journal.as_ref().map(|journal| journal_figures(journal.waiting())),
            "follow": self.followed.as_ref().map(|followed| follow(followed, host.rt().now())),
        })
    }
}

/// What the cleaner of a log has done, and by which policy it chooses its moments; null without a log.
fn cleaner(volume: &Volume) -> Value {
    let Some(figures) = CleanerFigures::of(volume) else { return Value::Null };
    let mut figures = figures.as_json();
    figures["when"] = volume.layout().views().log.map_or(Value::Null, |log| log.trigger().into());
    figures
}

/// What a mount that follows shows, and how old it is.
fn follow(followed: &Followed, now: Time) -> Value {
    let (states, kept) = followed.following.counts();
    let Status { seen, as_of, since, failing } = followed.status.borrow().clone();
    json!({
        "head": seen.head,
        "writer": seen.epoch,
        "writer_words": seen.writer,
        "packs": seen.packs,
        "is_closed": seen.is_closed,
        "as_of_ns": now.since(as_of),
        "since_ns": now.since(since),
        "states": states,
        "kept_states": kept,
        "failing": failing,
    })
}

/// What is in a journal before a device.
fn journal_figures(waiting: Waiting) -> Value {
    let Waiting { bytes, used, size, written, moved } = waiting;
    json!({
        "waiting_bytes": bytes,
        "used_bytes": used,
        "size": size,
        "written_bytes": written,
        "moved_bytes": moved,
    })
}

/// What a store was asked, by the classes in which it charges, and what waits in the journal before it.
fn bucket(store: OfStore) -> Value {
    let OfStore { asked, stored_bytes, journal } = store;
    let Counts { gets, puts, deletes, lists, out_bytes, in_bytes, unanswered } = asked;
    let journal = journal.map(|JournalStatus { packs, bytes, silent }| {
        json!({ "packs": packs, "bytes": bytes, "silent": silent })
    });
    json!({
        "puts": puts,
        "gets": gets,
        "deletes": deletes,
        "lists": lists,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
        "unanswered": unanswered,
        "stored_bytes": stored_bytes,
        "waiting": journal,
    })
}

impl Client {
    async fn freeze(&self, keep_bytes: u64) -> Result<Value, String> {
        let Answers { volume, freezable, layout, image, recording, .. } = &self.answers;
        let Some(freezable) = freezable else {
            return Err(
                "it is mounted with --flight, and a flight with a fork in it could not be \
                        repeated, or with --follow"
                    .into(),
            );
        };
        // Who asks reads the image itself, which has not what is in the journal.
        if self.answers.journal.is_some() {
            return Err(
                "it is mounted with --journal-file, and its image alone is not the volume".into()
            );
        }
        if self.frozen.borrow().is_some() {
            return Err("this connection has frozen it already".into());
        }
        let clock = self.host.clone();
        let still =
            volume.freeze(Rc::new(move || clock.now())).await.map_err(|error| error.to_string())?;
        let held = freezable.freeze(keep_bytes.min(KEEP_MOST)).await;
        let held_ns = self.host.now().since(still.since());
        // No operation that ended is missing, and of those that wait none has begun.
        let recorded = recording.get().map(|recording| {
            json!({ "path": recording.path.to_string_lossy(), "requests": (recording.flush)() })
        });
        drop(still);
        *self.frozen.borrow_mut() = Some(held.map_err(|why| why.to_string())?);
        Ok(json!({
            "image": image.to_string_lossy(),
            "layout": layout.name(),
            "held_ns": held_ns,
            "cache_bytes": volume.core().settings.cache_bytes,
            "recorded": recorded,
        }))
    }

    fn old(&self, at: u64, len: u64) -> Result<Vec<u8>, String> {
        let frozen = self.frozen.borrow();
        let frozen = frozen.as_ref().ok_or("it was not frozen")?;
        if len > OLD_MOST || at.checked_add(len).is_none() {
            return Err(format!("at most {OLD_MOST} bytes of the device can be asked for"));
        }
        let pieces = frozen.old(at, len).map_err(|why| why.to_string())?;
        let places: Vec<(u64, usize)> =
            pieces.iter().map(|(at, block)| (*at, block.len())).collect();
        let mut answer = json!({ "pieces": places }).to_string().into_bytes();
        answer.push(b'\n');
        pieces.iter().for_each(|(_, block)| answer.extend_from_slice(&block.to_bytes()));
        Ok(answer)
    }
}

impl Client {
    /// What keeps states of the volume, unless a flight would not have what is asked of it, or it is a state itself.
    fn snapshots(&self) -> Result<&dyn SnapshotView, String> {
        if self.answers.freezable.is_none() {
            return Err(
                "it is mounted with --snapshot or --follow, or with --flight, which has none: name the image"
                    .into(),
            );
        }
        self.answers.volume.layout().views().snapshots.ok_or_else(|| NO_SNAPSHOTS.to_owned())
    }

    fn states(&self) -> Result<Value, String> {
        let states = self.snapshots()?.states(self.answers.volume.core());
        Ok(states_as_json(&states))
    }

    async fn keep_state(
        &self,
        name: &str,
        is_branch: bool,
        from: Option<String>,
    ) -> Result<Value, String> {
        let what = match (is_branch, from) {
            (false, _) => Keep::Snapshot,
            (true, None) => Keep::Branch,
            (true, Some(from)) => Keep::BranchOf(from),
        };
        let begun = self.host.now();
        let kept = self.snapshots()?.keep(self.answers.volume.core(), name, what).await;
        kept.map_err(|error| why_not_kept(name, &error))?;
        Ok(json!({ "took_ns": self.host.now().since(begun) }))
    }

    async fn delete_states(&self, names: &[String]) -> Result<Value, String> {
        self.snapshots()?;
        let deleted = self.answers.volume.delete_states(names).await;
        deleted.map_err(|error| why_not_deleted(names, &error))?;
        Ok(json!({}))
    }
}

impl Client {
    async fn grow(&self, bytes: Option<u64>) -> Result<Value, String> {
        if self.answers.freezable.is_none() {
            return Err(
                "it is mounted with --snapshot or --follow, which are read-only, or with --flight, which could not be \
                 repeated: unmount it and name the image"
                    .into(),
            );
        }
        let grown = self.answers.volume.grow(bytes).await;
        let Growth { before_bytes, after_bytes } = grown.map_err(|error| why_not_grown(&error))?;
        (self.answers.say)(&format!(
            "the volume has {after_bytes} bytes now, it had {before_bytes}"
        ));
        Ok(json!({ "before_bytes": before_bytes, "after_bytes": after_bytes }))
    }
}

/// Why a volume has not become larger, in words.
pub fn why_not_grown(error: &FsError) -> String {
    match error {
        FsError::Invalid(why) | FsError::NotSupported(why) => (*why).to_owned(),
        FsError::Io(IoError { kind: IoErrorKind::Other(why), .. }) => why.clone(),
        error => error.to_string(),
    }
}

/// How long a client that asks for intervals waits for one, in nanoseconds, and how often to look.
const WAIT_NS: u64 = SECS;
const LOOK_NS: u64 = 20 * MILLIS;

impl Client {
    fn observe(&self, names: &[String], every_ns: u64) -> Result<Value, String> {
        let Some(observers) = &self.answers.observers else {
            return Err("it is mounted with --flight, and a flight is not observed".into());
        };
        let observing = Observing::of(names.iter().map(String::as_str), Some(every_ns));
        let observing = observing.map_err(|error| error.to_string())?;
        let observation = observers.observe(&observing)?;
        let unseen = observation.unseen().to_vec();
        *self.observation.borrow_mut() = Some(Rc::new(observation));
        Ok(json!({ "unseen": unseen }))
    }

    fn observation(&self) -> Result<Rc<Observation>, String> {
        self.observation
            .borrow()
            .clone()
            .ok_or_else(|| "it is not observed by this connection".into())
    }

    async fn intervals(&self) -> Result<Value, String> {
        let observation = self.observation()?;
        let begun = self.host.now();
        loop {
            let rows = observation.take_intervals();
            if !rows.is_empty() || self.host.now().since(begun) > WAIT_NS {
                return Ok(json!({ "rows": rows }));
            }
            self.host.rt().sleep(LOOK_NS).await;
        }
    }

    async fn begin_scrub(&self, resume: bool, bytes_per_second: u64) -> Result<Value, String> {
        let Answers { volume, scrubbing, say, .. } = &self.answers;
        if self.answers.freezable.is_none() {
            return Err("it is mounted with --flight, which could not be repeated with a scrub in it, or with \
                 --snapshot or --follow: `twinfs check --data` compares kept states too, of the image"
                .into());
        }
        let how = ScrubHow { resume, bytes_per_second };
        let say = Rc::clone(say);
        let begun = scrubbing.begin(&self.host, volume, how, move |line| say(line)).await?;
        *self.scrub.borrow_mut() = Some(begun);
        Ok(scrubbing.figures())
    }

    fn observed(&self) -> Result<Value, String> {
        let observed = self.observation()?.end();
        let rows = twin_observe::rows(&observed).into_iter().filter(twin_observe::Row::is_of_run);
        Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
    }
}

impl Session for Client {
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let answer = match serde_json::from_slice(&request) {
                Ok(Question::Figures) => Ok(self.answers.figures(&self.host).to_string().into()),
                Ok(Question::Freeze { keep_bytes }) => {
                    self.freeze(keep_bytes).await.map(|answer| answer.to_string().into())
                }
                Ok(Question::Old { at, len }) => self.old(at, len),
                Ok(Question::Observe { names, every_ns }) => {
                    self.observe(&names, every_ns).map(|answer| answer.to_string().into())
                }
                Ok(Question::Intervals) => {
                    self.intervals().await.map(|answer| answer.to_string().into())
                }
                Ok(Question::Observed) => self.observed().map(|answer| answer.to_string().into()),
                Ok(Question::Scrub { resume, bytes_per_second }) => {
                    let begun = self.begin_scrub(resume, bytes_per_second).await;
                    begun.map(|answer| answer.to_string().into())
                }
                Ok(Question::ScrubFigures) => {
                    Ok(self.answers.scrubbing.figures().to_string().into())
                }
                Ok(Question::ScrubFound { from }) => {
                    Ok(self.answers.scrubbing.found(from).to_string().into())
                }
                Ok(Question::ScrubCancel) => {
                    self.answers.scrubbing.cancel();
                    Ok(self.answers.scrubbing.figures().to_string().into())
                }
                Ok(Question::States) => self.states().map(|answer| answer.to_string().into()),
                Ok(Question::KeepState { name, is_branch, from }) => {
                    let kept = self.keep_state(&name, is_branch, from).await;
                    kept.map(|answer| answer.to_string().into())
                }
                Ok(Question::DeleteStates { names }) => {
                    self.delete_states(&names).await.map(|answer| answer.to_string().into())
                }
                Ok(Question::Grow { bytes }) => {
                    self.grow(bytes).await.map(|answer| answer.to_string().into())
                }
                Err(error) => Err(format!("this is no question: {error}")),
            };
            answer.unwrap_or_else(|why| json!({ "error": why }).to_string().into())
        })
    }
}
