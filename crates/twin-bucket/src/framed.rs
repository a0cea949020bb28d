//! A store whose objects are compressed, encrypted, or both, in [frames](crate::frames).
//!
//! Contract: the store itself is below, and all that knows volumes is above and sees objects as they were
//! written. How a volume is coded is learned from its head, which is read before anything else; from then on each object must be
//! coded in that way. Writing an object is one request, and so is reading one of which nothing is known yet from its beginning; where the
//! frames of a pack are is remembered, up to a bound of memory. The nonce of each object is random, so writing one once more
//! stores other bytes. An object that was cut, changed or put in the place of another is an error; an earlier head with all that it
//! refers to is not, because nothing outside of the bucket knows of a later one.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use twin_disk::{Block, Bytes, cut, gather, total};
use twin_rt::BoxFuture;

use crate::counted::Counted;
use crate::counts::Counts;
use crate::frames::{self, Coding, FRAME, Frame, Front};
use crate::head;
use crate::objects::block;
use crate::pack::{PREFIX, SEAL_BYTES};
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

/// Bytes of an object before its frames, as they are guessed when it is read for the first time: those of
/// 16 MiB, two packs of the usual size.
const FRONT: u64 = frames::front_len(16 << 20);
/// Bytes by which all frames up to [`FRAME`] together are longer than what is in them, at most.
const MORE: u64 = 128;
/// Most frames of packs whose places are remembered, 24 bytes each.
const REMEMBERED: usize = 1 << 18;

/// An object that is coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Random bytes, another time that it is written others.
    pub nonce: [u8; 12],
    /// Its length in bytes.
    pub len: u64,
}

/// What a codec returns, some time later: it may work on another thread.
pub type Worked<T> = BoxFuture<'static, Result<T, String>>;

/// Compresses and encrypts frames, for one volume.
pub trait Codec: 'static {
    /// Random bytes.
    ///
    /// # Errors
    /// If there are none.
    fn nonce(&self) -> Result<[u8; 12], String>;

    /// Codes all frames of an object, whose last byte says nothing of the one before: each is read alone. With `packed`
    /// those that become shorter are compressed. A frame is at most 64 bytes longer in the end.
    fn encode(
        &self,
        object: Object,
        frames: Vec<Bytes>,
        packed: bool,
    ) -> Worked<Vec<Frame<Vec<u8>>>>;

    /// Decodes frames of an object from number `first` on, each of the length that is given with it. An error is damage.
    fn decode(
        &self,
        object: Object,
        first: u64,
        frames: Vec<(Frame<Bytes>, u64)>,
    ) -> Worked<Vec<Vec<u8>>>;
}

/// All codecs that there are.
pub trait Codecs: 'static {
    /// The codec of a volume.
    ///
    /// # Errors
    /// If there is none of these numbers, or its key is missing, in words.
    fn codec(&self, coding: Coding) -> Result<Rc<dyn Codec>, String>;

    /// The volume is not coded.
    ///
    /// # Errors
    /// If that is not what was expected, in words.
    fn uncoded(&self) -> Result<(), String>;
}

/// How the volume is coded.
#[derive(Clone)]
enum Mode {
    /// Its head will tell.
    Unknown,
    Uncoded,
    /// In this way once something of it is written. What is there is another volume.
    New(Coding, Rc<dyn Codec>),
    Coded(Coding, Rc<dyn Codec>),
}

/// The fronts of packs.
#[derive(Default)]
struct Fronts {
    by_name: BTreeMap<Rc<str>, Rc<Front>>,
    /// Oldest first; a name may be no more in `by_name`.
    order: VecDeque<Rc<str>>,
    frames: usize,
}

impl Fronts {
    fn remember(&mut self, name: &str, front: Rc<Front>) {
        // Only these never change.
        if !name.starts_with(PREFIX) || self.by_name.contains_key(name) {
            return;
        }
        let name: Rc<str> = name.into();
        self.frames += front.frames();
        self.by_name.insert(Rc::clone(&name), front);
        self.order.push_back(name);
        while self.frames > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(front) = self.by_name.remove(name) {
            self.frames -= front.frames();
        }
        // Names that were forgotten stay in the order until their turn comes, or there are too many of them.
        if self.order.len() > 2 * self.by_name.len() + 64 {
            self.order.retain(|name| self.by_name.contains_key(name));
        }
    }
}

struct Inner {
    store: Rc<dyn ObjectStore>,
    codecs: Box<dyn Codecs>,
    mode: RefCell<Mode>,
    fronts: RefCell<Fronts>,
}

/// A store whose objects are coded, or not, as the volume in it is.
pub struct Framed(Rc<Inner>);

/// Of what is asked of a store before it is known how it is coded.
const UNKNOWN: &str = "the head of its volume was not read";

fn damaged(why: impl Into<String>) -> StoreError {
    StoreError::Unreadable(why.into())
}

impl Framed {
    /// A store with a volume that is there: its head says how it is coded.
    pub fn of(store: Rc<dyn ObjectStore>, codecs: Box<dyn Codecs>) -> Framed {
        Framed::with(store, codecs, Mode::Unknown)
    }

    /// A store for a new volume, coded in this way.
    ///
    /// # Errors
    /// If there is no such codec, or its key is missing.
    pub fn new(
        store: Rc<dyn ObjectStore>,
        codecs: Box<dyn Codecs>,
        coding: Coding,
    ) -> Result<Framed, String> {
        let codec = codecs.codec(coding)?;
        Ok(Framed::with(store, codecs, Mode::New(coding, codec)))
    }

    fn with(store: Rc<dyn ObjectStore>, codecs: Box<dyn Codecs>, mode: Mode) -> Framed {
        let (mode, fronts) = (RefCell::new(mode), RefCell::default());
        Framed(Rc::new(Inner { store: Counted::of(store), codecs, mode, fronts }))
    }
}

impl Inner {
    /// Learns from the first bytes of the head how the volume is coded.
    fn learn(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let mode = if Front::is_in(bytes) {
            let len = Front::len_in(bytes).map_err(damaged)?;
            let front = bytes.get(..len as usize).ok_or_else(|| damaged("it is too short"))?;
            let coding = Front::decode(front).map_err(damaged)?.coding;
            Mode::Coded(coding, self.codecs.codec(coding).map_err(damaged)?)
        } else {
            self.codecs.uncoded().map_err(damaged)?;
            Mode::Uncoded
        };
        *self.mode.borrow_mut() = mode;
        Ok(())
    }

    async fn get(&self, name: &str, range: Option<(u64, u64)>) -> Result<Content, StoreError> {
        let mode = self.mode.borrow().clone();
        if matches!(mode, Mode::Uncoded | Mode::New(..)) {
            return self.store.get(name, range).await;
        }
        let known = self.fronts.borrow().by_name.get(name).cloned();
        if let Some(front) = known {
            return self.read(name, &front, range, None).await;
        }
        let first = range.map(|(at, len)| match at.saturating_add(len) {
            end @ 1..=FRAME => (0, FRONT + frames::end_of_frame(end) + MORE),
            _ => (0, FRONT),
        });
        let content = self.store.get(name, first).await?;
        if let Mode::Unknown = mode {
            if name != head::NAME {
                return Err(damaged(UNKNOWN));
            }
            self.learn(&whole(&content.blocks))?;
            if let Mode::Uncoded = &*self.mode.borrow() {
                return Ok(part(content, range));
            }
        }
        let content = self.with_front(name, content).await?;
        let bytes = whole(&content.blocks);
        let front_len = Front::len_in(&bytes).map_err(damaged)?;
        let front = bytes.get(..front_len as usize).ok_or_else(|| damaged("it is too short"))?;
        let front = Rc::new(Front::decode(front).map_err(damaged)?);
        self.fronts.borrow_mut().remember(name, Rc::clone(&front));
        self.read(name, &front, range, Some(content)).await
    }

    /// The beginning of an object up to the end of its front at least, if it is long enough.
    async fn with_front(&self, name: &str, content: Content) -> Result<Content, StoreError> {
        let have = total(&content.blocks);
        let front_len = Front::len_in(&whole(&content.blocks)).map_err(damaged)?;
        if front_len <= have {
            return Ok(content);
        }
        let rest = self.store.get(name, Some((have, front_len - have))).await?;
        same_version(&rest, &content)?;
        let blocks = [content.blocks, rest.blocks].concat();
        Ok(Content { blocks, ..content })
    }

    /// Reads a range by a front, if need be from the store. The beginning of the object may be there already.
    async fn read(
        &self,
        name: &str,
        front: &Front,
        range: Option<(u64, u64)>,
        there: Option<Content>,
    ) -> Result<Content, StoreError> {
        let Mode::Coded(coding, codec) = self.mode.borrow().clone() else {
            return Err(damaged(UNKNOWN));
        };
        if front.coding != coding {
            return Err(damaged("it is coded in another way than its volume"));
        }
        let (at, len) = range.unwrap_or((0, u64::MAX));
        let at = at.min(front.len);
        let end = at.saturating_add(len).min(front.len);
        if at == end {
            let version = there.map_or(Version(String::new()), |there| there.version);
            return Ok(Content { blocks: Vec::new(), version });
        }
        let (first, stored) = front.holding(at, end);
        let (from, len) = (stored.start, stored.end - stored.start);
        let content = match there {
            Some(there) if total(&there.blocks) >= stored.end => part(there, Some((from, len))),
            there => {
                let content = self.store.get(name, Some((from, len))).await?;
                there.map_or(Ok(()), |there| same_version(&content, &there))?;
                content
            }
        };
        if total(&content.blocks) != len {
            return Err(damaged("it is shorter than it was"));
        }
        let object = Object { name: name.into(), nonce: front.nonce, len: front.len };
        let frames = decode(&*codec, object, front, first, &whole(&content.blocks)).await?;
        let blocks = cut(&frames, at - frames::start_of(first), end - at);
        Ok(Content { blocks, version: content.version })
    }

    async fn put(
        &self,
        name: &str,
        blocks: Vec<Block>,
        when: Condition,
    ) -> Result<Version, StoreError> {
        let mode = self.mode.borrow().clone();
        let (coding, codec) = match mode {
            Mode::Uncoded => return self.store.put(name, blocks, when).await,
            Mode::Unknown => return Err(damaged(UNKNOWN)),
            Mode::New(coding, codec) | Mode::Coded(coding, codec) => (coding, codec),
        };
        *self.mode.borrow_mut() = Mode::Coded(coding, Rc::clone(&codec));
        let len = total(&blocks);
        let nonce = codec.nonce().map_err(StoreError::Refused)?;
        let object = Object { name: name.into(), nonce, len };
        let cuts = frames::cuts(len);
        let plain = cuts.map(|(at, len)| gather(&blocks, at as usize, len as usize).to_bytes());
        let packed = len > frames::UNCOMPRESSED;
        let coded = codec.encode(object, plain.collect(), packed).await;
        let coded = coded.map_err(StoreError::Refused)?;
        let front = Front::of(coding, nonce, len, &coded);
        let mut stored = vec![block(front.encode())];
        stored.extend(coded.into_iter().map(|frame| block(frame.bytes)));
        // Behind the last frame nothing is ever read.
        if frames::looks_like_a_seal(coding, len, total(&stored)) {
            stored.push(Block::Zero(1));
        }
        let version = self.store.put(name, stored, when).await?;
        self.fronts.borrow_mut().remember(name, Rc::new(front));
        Ok(version)
    }

    /// A seal has its own length in a list.
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>, StoreError> {
        let mut all = self.store.list(prefix, after).await?;
        if let Mode::Coded(coding, _) = &*self.mode.borrow() {
            let seal = frames::stored_seal(*coding);
            all.iter_mut().filter(|one| one.bytes == seal).for_each(|one| one.bytes = SEAL_BYTES);
        }
        Ok(all)
    }
}

/// Decodes stored frames from number `first` on.
async fn decode(
    codec: &dyn Codec,
    object: Object,
    front: &Front,
    first: u64,
    stored: &Bytes,
) -> Result<Vec<Block>, StoreError> {
    let lens = frames::cuts(front.len).skip(first as usize).map(|(_, len)| len);
    let split = front.split(first, stored).map_err(damaged)?.into_iter();
    let frame = |Frame { bytes: at, is_compressed }: Frame<Range<usize>>| {
        let bytes = Block::Bytes(stored.clone()).slice(at.start, at.len()).to_bytes();
        Frame { bytes, is_compressed }
    };
    let coded: Vec<(Frame<Bytes>, u64)> = split.map(frame).zip(lens).collect();
    let lens: Vec<u64> = coded.iter().map(|(_, len)| *len).collect();
    let frames = codec.decode(object, first, coded).await.map_err(damaged)?;
    match frames.iter().map(|frame| frame.len() as u64).eq(lens) {
        true => Ok(frames.into_iter().map(block).collect()),
        false => Err(damaged("a frame in it has another length than it should")),
    }
}

/// A part of what was read.
fn part(content: Content, range: Option<(u64, u64)>) -> Content {
    let all = total(&content.blocks);
    let (at, len) = range.unwrap_or((0, all));
    let at = at.min(all);
    Content { blocks: cut(&content.blocks, at, len.min(all - at)), ..content }
}

fn whole(blocks: &[Block]) -> Bytes {
    gather(blocks, 0, total(blocks) as usize).to_bytes()
}

/// What is read in two requests must be one object.
fn same_version(a: &Content, b: &Content) -> Result<(), StoreError> {
    match a.version == b.version {
        true => Ok(()),
        false => Err(StoreError::Unknown("an object changed while it was read".into())),
    }
}

impl ObjectStore for Framed {
    fn name(&self) -> String {
        self.0.store.name()
    }

    fn requested(&self) -> Option<Counts> {
        self.0.store.requested()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let (inner, name) = (Rc::clone(&self.0), name.to_string());
        Box::pin(async move {
            inner.get(&name, range).await.map_err(|error| match error {
                StoreError::Unreadable(why) => StoreError::Unreadable(format!("{name}: {why}")),
                other => other,
            })
        })
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let (inner, name) = (Rc::clone(&self.0), name.to_string());
        Box::pin(async move { inner.put(&name, blocks, when).await })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        self.0.fronts.borrow_mut().forget(name);
        self.0.store.delete(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let (inner, prefix) = (Rc::clone(&self.0), prefix.to_string());
        let after = after.map(String::from);
        Box::pin(async move { inner.list(&prefix, after.as_deref()).await })
    }
}
