//! S3 and what speaks like it, as an object store of ours.
//!
//! Contract: requests run on a thread of their own and are answered on the host's. What the client repeats by itself
//! is little: whoever asks repeats, and knows what may have been executed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore as Client, ObjectStoreExt, PutMode,
    PutOptions, PutPayload, RetryConfig, UpdateVersion,
};
use tokio::runtime::Runtime;
use twin_bucket::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};
use twin_disk::{Block, Buf};
use twin_host::{Host, promise};

/// Names on a page of a list.
const PAGE: usize = 1000;
/// Most bytes of an error.
const MOST_WORDS: usize = 400;
/// How long the client tries one request.
const REQUEST: Duration = Duration::from_secs(60);

/// A prefix of a bucket.
pub(crate) struct S3 {
    host: Host,
    client: Arc<AmazonS3>,
    runtime: Runtime,
    name: String,
    prefix: String,
}

impl S3 {
    /// The part of a bucket that `s3://BUCKET/PREFIX` names. Keys, region and endpoint come from the environment, as
    /// the AWS command line has them.
    pub(crate) fn connect(host: &Host, name: &str) -> Result<S3, String> {
        let rest = name.strip_prefix("s3://").unwrap_or(name).trim_end_matches('/');
        let (bucket, prefix) = rest
            .split_once('/')
            .filter(|(bucket, prefix)| !bucket.is_empty() && !prefix.is_empty())
            .ok_or_else(|| format!("{name}: a volume in a bucket is called s3://BUCKET/NAME"))?;
        Path::parse(prefix).map_err(|error| format!("{name}: {error}"))?;
        let retry =
            RetryConfig { max_retries: 2, retry_timeout: REQUEST, ..RetryConfig::default() };
        let client = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_client_options(
                ClientOptions::default().with_timeout(REQUEST).with_allow_http(is_http()),
            )
            .with_retry(retry)
            .build()
            .map_err(|error| format!("{name}: {error}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|error| format!("{name}: {error}"))?;
        let (host, client) = (host.clone(), Arc::new(client));
        Ok(S3 { host, client, runtime, name: name.into(), prefix: prefix.into() })
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    /// Runs a request on the client's thread.
    fn ask<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Stored<T> {
        let (promised, answer) = match promise(&self.host) {
            Ok(both) => both,
            Err(error) => {
                return Box::pin(async move { Err(StoreError::Unknown(error.to_string())) });
            }
        };
        self.runtime.spawn(async move { promised.keep(request.await) });
        Box::pin(async move {
            answer.await.unwrap_or_else(|error| Err(StoreError::Unknown(error.to_string())))
        })
    }
}

/// Whether the endpoint is named without TLS: a server on this machine.
fn is_http() -> bool {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    names.iter().any(|name| std::env::var(name).is_ok_and(|url| url.starts_with("http://")))
}

/// What an error of the client means to whoever asked.
fn error(error: object_store::Error) -> StoreError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => StoreError::Missing,
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            StoreError::Conflict
        }
        Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => StoreError::Refused(in_a_line(&error)),
        other => StoreError::Unknown(in_a_line(&other)),
    }
}

/// The client's words, with an answer of the server cut down to what it says.
fn in_a_line(error: &object_store::Error) -> String {
    let words = error.to_string();
    let (front, answer) = words.split_once("<?xml").unwrap_or((&words, ""));
    let part = |tag: &str| {
        let (_, rest) = answer.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
    };
    let said: Vec<&str> = ["Code", "Message"].into_iter().filter_map(part).collect();
    let line = format!("{front} {}", said.join(": "));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    line[..line.floor_char_boundary(MOST_WORDS)].into()
}

/// The bytes of a block, for a payload that does not copy them.
struct Shared(twin_disk::Bytes);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ObjectStore for S3 {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let (client, path) = (Arc::clone(&self.client), self.path(name));
        self.ask(async move {
            let range = range.map(|(at, len)| GetRange::Bounded(at..at + len));
            let options = GetOptions { range, ..GetOptions::default() };
            let got = client.get_opts(&path, options).await.map_err(error)?;
            let version = Version(got.meta.e_tag.clone().unwrap_or_default());
            let bytes = got.bytes().await.map_err(error)?;
            Ok((bytes, version))
        })
        .map_content()
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let (client, path) = (Arc::clone(&self.client), self.path(name));
        let parts = blocks.iter().map(|block| bytes::Bytes::from_owner(Shared(block.to_bytes())));
        let payload = PutPayload::from_iter(parts);
        let mode = match when {
            Condition::Always => PutMode::Overwrite,
            Condition::Absent => PutMode::Create,
            Condition::Is(Version(tag)) => {
                PutMode::Update(UpdateVersion { e_tag: Some(tag), version: None })
            }
        };
        self.ask(async move {
            let options = PutOptions { mode, ..PutOptions::default() };
            match client.put_opts(&path, payload, options).await.map_err(error) {
                Ok(put) => Ok(Version(put.e_tag.unwrap_or_default())),
                Err(StoreError::Missing) => Err(StoreError::Refused(
                    "there is no bucket of this name: make it first".into(),
                )),
                Err(error) => Err(error),
            }
        })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        let (client, path) = (Arc::clone(&self.client), self.path(name));
        self.ask(async move {
            match client.delete(&path).await.map_err(error) {
                Err(StoreError::Missing) => Ok(()),
                deleted => deleted,
            }
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let (client, own) = (Arc::clone(&self.client), format!("{}/", self.prefix));
        let (within, after) =
            (self.path(prefix.trim_end_matches('/')), after.map(|after| self.path(after)));
        self.ask(async move {
            let all = match &after {
                Some(after) => client.list_with_offset(Some(&within), after),
                None => client.list(Some(&within)),
            };
            let mut listed = Vec::new();
            let mut all = all;
            while listed.len() < PAGE
                && let Some(object) = all.try_next().await.map_err(error)?
            {
                let name = object.location.as_ref().strip_prefix(&own).unwrap_or_default();
                listed.push(Listed { name: name.into(), bytes: object.size });
            }
            Ok(listed)
        })
    }
}

/// Bytes of the client as blocks of ours.
trait MapContent {
    fn map_content(self) -> Stored<Content>;
}

impl MapContent for Stored<(bytes::Bytes, Version)> {
    fn map_content(self) -> Stored<Content> {
        Box::pin(async move {
            let (bytes, version) = self.await?;
            Ok(Content { blocks: vec![Block::Bytes(Buf::copy_of(&bytes).freeze())], version })
        })
    }
}
