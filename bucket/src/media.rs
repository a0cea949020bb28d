//! Volumes in buckets as a medium of volumes.

use std::rc::Rc;

use twin_bucket::{Bucket, Identity, Settings, Shape, create, look, open};
use twin_host::{Host, random_bytes};
use twin_mount::media::{How, Media, Medium};

use crate::owner;
use crate::store;

/// `s3://BUCKET/NAME`.
pub(crate) struct S3;

fn settings() -> Result<Settings, String> {
    Ok(Settings::new(Identity(random_bytes()?), &owner::words()))
}

fn medium(bucket: Bucket) -> Medium {
    let closing = bucket.clone();
    let close = move || -> twin_rt::BoxFuture<'static, Result<(), String>> {
        let bucket = closing.clone();
        Box::pin(async move { bucket.close().await })
    };
    let counted = bucket.clone();
    let counts = move || (counted.counts(), counted.stored_bytes());
    Medium { device: Rc::new(bucket), close: Rc::new(close), counts: Rc::new(counts) }
}

impl Media for S3 {
    fn scheme(&self) -> &'static str {
        "s3"
    }

    fn make(&self, host: &Host, name: &str, size: u64) -> Result<Medium, String> {
        let store = Rc::new(store::S3::connect(host, name)?);
        let (settings, volume) = (settings()?, Identity(random_bytes()?));
        let made = host.rt().block_on(create(host.rt(), store, volume, Shape::of(size), &settings));
        Ok(medium(made.map_err(|e| e.to_string())?.map_err(|e| format!("{name}: {e}"))?))
    }

    fn open(&self, host: &Host, name: &str, how: How) -> Result<Medium, String> {
        let store = Rc::new(store::S3::connect(host, name)?);
        let settings = settings()?;
        let rt = host.rt().clone();
        let opening = async {
            match how.read_only {
                true => look(&rt, store, &settings).await,
                false => {
                    let has_ended =
                        Rc::new(move |words: &str| how.take_over || owner::has_ended(words));
                    open(&rt, store, has_ended, &settings).await
                }
            }
        };
        let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
        Ok(medium(opened.map_err(|e| format!("{name}: {e}"))?))
    }
}
