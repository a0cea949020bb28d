//! Volumes in buckets as a medium of volumes.

use std::path::Path;
use std::rc::Rc;

use twin_bucket::{
    Bucket, Cached, Follower, Framed, Identity, Journal, ObjectStore, Settings, Shape, create,
    look, open,
};
use twin_host::{Host, random_bytes};
use twin_lab::follow::Begun;
use twin_mount::media::{How, Media, Medium, NewMedium, OfStore};

use crate::coding::{self, Codings};
use crate::key::key;
use crate::owner;
use crate::store;

/// `s3://BUCKET/NAME`.
pub(crate) struct S3;

fn settings(journal: Option<&Path>) -> Result<Settings, String> {
    Ok(Settings::new(Identity(random_bytes()?), &owner::words(journal)))
}

fn medium(bucket: Bucket, journal: Option<Rc<Journal>>, follow: Option<Begun>) -> Medium {
    let (closing, waiting) = (bucket.clone(), journal.clone());
    let close = move || -> twin_rt::BoxFuture<'static, Result<(), String>> {
        let (bucket, journal) = (closing.clone(), journal.clone());
        Box::pin(async move {
            let Some(journal) = journal else { return bucket.close().await };
            journal.begin_close();
            bucket.close().await.map_err(|error| match journal.status().packs {
                0 => error,
                packs => format!(
                    "{error}; {packs} packs stay in the journal, and the next mount with it brings them"
                ),
            })
        })
    };
    let counted = bucket.clone();
    let store = move || OfStore {
        asked: counted.counts(),
        stored_bytes: counted.stored_bytes(),
        journal: waiting.as_ref().map(|journal| journal.status()),
    };
    Medium { device: Rc::new(bucket), close: Rc::new(close), store: Rc::new(store), follow }
}

impl Media for S3 {
    fn scheme(&self) -> &'static str {
        "s3"
    }

    fn make(&self, host: &Host, name: &str, new: NewMedium) -> Result<Medium, String> {
        let mut store: Rc<dyn ObjectStore> = Rc::new(store::S3::connect(host, name)?);
        let key = key(new.key.as_ref())?;
        if let Some(coding) = coding::of_new(new.compression, key.is_some())? {
            let codecs = Box::new(Codings { host: host.clone(), key });
            store = Rc::new(Framed::new(store, codecs, coding)?);
        }
        let (settings, volume) = (settings(None)?, Identity(random_bytes()?));
        let shape = Shape::of(new.size);
        let made = host.rt().block_on(create(host.rt(), store, volume, shape, &settings));
        let made = made.map_err(|e| e.to_string())?.map_err(|e| format!("{name}: {e}"))?;
        Ok(medium(made, None, None))
    }

    fn open(&self, host: &Host, name: &str, how: How) -> Result<Medium, String> {
        let named = |error: String| format!("{name}: {error}");
        let rt = host.rt().clone();
        let s3 = Rc::new(store::S3::connect(host, name)?);
        let codecs = Codings { host: host.clone(), key: key(how.key.as_ref())? };
        let mut store: Rc<dyn ObjectStore> = Rc::new(Framed::of(s3, Box::new(codecs)));
        let mut journal = None;
        if let Some(file) = &how.journal {
            let opening = Journal::open(&rt, Rc::clone(&store), file.open(host)?);
            let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
            let opened = Rc::new(opened.map_err(|e| named(e.to_string()))?);
            journal = Some(Rc::clone(&opened));
            store = opened;
        }
        let device = how.cache.as_ref().map(|file| file.open(host)).transpose()?;
        let opening = async {
            let Some(device) = device else { return Cached::in_memory(store, how.memory).await };
            let policy = twin_cache::replacement::REGISTRY.default_entry();
            Ok(Rc::new(Cached::open(store, device, policy).await?) as Rc<dyn ObjectStore>)
        };
        let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
        let store = opened.map_err(named)?;
        let path = how.journal.map(|file| file.path);
        let settings = settings(path.as_deref())?;
        if let Some(every) = how.follow {
            let as_of = rt.now();
            let beginning = Follower::begin(&rt, store, &settings);
            let begun = host.rt().block_on(beginning).map_err(|e| e.to_string())?;
            let (follower, first) = begun.map_err(|e| named(e.to_string()))?;
            let begun = Begun { follower, first: first.clone(), every, as_of };
            return Ok(medium(first, None, Some(begun)));
        }
        let opening = async {
            match how.read_only {
                true => look(&rt, store, &settings).await,
                false => {
                    let has_ended = Rc::new(move |words: &str| {
                        how.take_over || owner::has_ended(words, path.as_deref())
                    });
                    open(&rt, store, has_ended, &settings).await
                }
            }
        };
        let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
        Ok(medium(opened.map_err(|e| named(e.to_string()))?, journal, None))
    }
}
