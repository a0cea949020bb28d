//! Rows of results in a directory, a file each, named by their keys.
//!
//! Contract: a row is there whole or not at all, whenever the process is killed and however many processes write
//! to the store, on one machine or on several that share the directory: a row is written under a name of its own
//! and then renamed. Rows are not synced, because each can be had again: one that a power failure has damaged is
//! not a row, and its job runs again. Two rows under one key are equal, so the last writer may win.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::Value;
use twin_verdict::MeasureEntry;

use crate::key::Key;

/// The member of a row that holds its key: a file that was renamed by hand is no row.
pub(crate) const KEY: &str = "key";
/// The end of the name of a row.
const ROW: &str = ".json";

/// The rows.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Makes the names of files that are being written different.
    written: AtomicU64,
}

/// What is judged of a row. A row has some hundred figures, and an experiment may have a million rows: what goes
/// through all of them holds this of each.
#[derive(Debug, Default, Deserialize)]
pub struct Brief {
    key: String,
    pub(crate) workload: Option<String>,
    pub(crate) config: Option<String>,
    pub(crate) seed: Option<u64>,
    #[serde(default)]
    measured: BTreeMap<String, Option<f64>>,
    error: Option<String>,
    failed: Option<u64>,
}

impl Brief {
    /// The value of a measure; none if the run failed, or had no such operation.
    pub fn value(&self, measure: &MeasureEntry) -> Option<f64> {
        *self.measured.get(measure.name)?
    }

    /// Why the run has no figures that can be judged.
    pub fn failure(&self) -> Option<String> {
        match (&self.error, self.failed) {
            (Some(error), _) => Some(error.clone()),
            (None, Some(0)) => None,
            (None, Some(failed)) => Some(format!("{failed} operations failed")),
            (None, None) => Some("its result has no figures".into()),
        }
    }
}

/// A file of the store that cannot be used.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    what: &'static str,
    error: io::Error,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.what, self.path.display(), self.error)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError { path, what, error }
}

impl Store {
    /// The store in this directory, which is made if there is none.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(dir: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(dir).map_err(failed("making", dir))?;
        Ok(Store { dir: dir.into(), written: AtomicU64::new(0) })
    }

    /// The store in this directory, which must be there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        fs::read_dir(dir).map_err(failed("reading", dir))?;
        Ok(Store { dir: dir.into(), written: AtomicU64::new(0) })
    }

    fn place(&self, key: &Key) -> PathBuf {
        let (part, _) = key.as_str().split_at(2);
        self.dir.join(part).join(format!("{key}{ROW}"))
    }

    /// The row under this key. One that is damaged is not there.
    ///
    /// # Errors
    /// If a file cannot be read although it is there.
    pub fn get(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        Ok(self.bytes(key)?.and_then(|bytes| row_of(&bytes, key)))
    }

    /// What is judged of the row under this key.
    ///
    /// # Errors
    /// If a file cannot be read although it is there.
    pub fn brief(&self, key: &Key) -> Result<Option<Brief>, StoreError> {
        Ok(self.bytes(key)?.and_then(|bytes| brief_of(&bytes, key)))
    }

    /// The bytes of the file of this key, if there is one.
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.place(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("reading", &path)(error)),
        }
    }

    /// Puts a row, which has the key as a member, into the store.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, key: &Key, row: &Value) -> Result<(), StoreError> {
        self.put_bytes(key, row.to_string().as_bytes())
    }

    fn put_bytes(&self, key: &Key, row: &[u8]) -> Result<(), StoreError> {
        let path = self.place(key);
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let own = path.with_extension(format!("{}-{number}.part", std::process::id()));
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir).map_err(failed("making", dir))?;
        fs::write(&own, row).map_err(failed("writing", &own))?;
        fs::rename(&own, &path).map_err(failed("writing", &path))
    }

    /// The keys of all files that are named as rows, in order.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn keys(&self) -> Result<Vec<Key>, StoreError> {
        let mut keys = Vec::new();
        for part in entries(&self.dir)?.into_iter().filter(|part| part.is_dir()) {
            let names = entries(&part)?;
            let names = names.iter().filter_map(|path| path.file_name()?.to_str());
            keys.extend(names.filter_map(|name| Key::parse(name.strip_suffix(ROW)?)));
        }
        keys.sort();
        Ok(keys)
    }

    /// What is judged of each row, in the order of their keys.
    ///
    /// # Errors
    /// If a directory cannot be read; each, if its file cannot.
    pub fn briefs(&self) -> Result<impl Iterator<Item = Result<Brief, StoreError>>, StoreError> {
        Ok(self.keys()?.into_iter().filter_map(|key| self.brief(&key).transpose()))
    }
}

/// What lies in a directory.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let all = fs::read_dir(dir).map_err(failed("reading", dir))?;
    all.map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed("reading", dir))
}

/// The row in these bytes, if they are that of the key.
fn row_of(bytes: &[u8], key: &Key) -> Option<Value> {
    let row: Value = serde_json::from_slice(bytes).ok()?;
    (row.get(KEY)?.as_str()? == key.as_str()).then_some(row)
}

/// What is judged of the row in these bytes, if they are that of the key.
fn brief_of(bytes: &[u8], key: &Key) -> Option<Brief> {
    let brief: Brief = serde_json::from_slice(bytes).ok()?;
    (brief.key == key.as_str()).then_some(brief)
}

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows that were added.
    pub added: u64,
    /// Rows that were there already.
    pub there: u64,
    /// Files that are named as rows and are damaged, which were left out.
    pub damaged: u64,
}

/// Copies the rows of other stores into this one.
///
/// # Errors
/// If a store cannot be read or written.
pub fn merge(from: &[Store], into: &Store) -> Result<Merged, StoreError> {
    let mut merged = Merged::default();
    for store in from {
        for key in store.keys()? {
            let found = store.bytes(&key)?.filter(|bytes| brief_of(bytes, &key).is_some());
            let counted = match (into.brief(&key)?, found) {
                (Some(_), _) => &mut merged.there,
                (None, None) => &mut merged.damaged,
                // The bytes, not the row: nothing that was written is written anew.
                (None, Some(row)) => {
                    into.put_bytes(&key, &row)?;
                    &mut merged.added
                }
            };
            *counted += 1;
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A directory that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("twin-experiment-{name}-{}", std::process::id());
            Scratch(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(first: char) -> Key {
        Key::parse(&first.to_string().repeat(32)).unwrap()
    }

    fn row(key: &Key) -> Value {
        json!({ "key": key.as_str(), "seed": 1 })
    }

    #[test]
    fn a_row_is_found_under_its_key_and_a_damaged_one_is_not_there() {
        let scratch = Scratch::new("row");
        let store = Store::create(&scratch.0).unwrap();
        let (a, b) = (key('a'), key('b'));
        assert_eq!(store.get(&a).unwrap(), None);
        store.put(&a, &row(&a)).unwrap();
        store.put(&b, &row(&b)).unwrap();
        assert_eq!(store.get(&a).unwrap(), Some(row(&a)));
        assert_eq!(store.keys().unwrap(), [a.clone(), b.clone()]);
        fs::write(store.place(&a), "{\"key\":\"aaaa").unwrap();
        fs::copy(store.place(&b), store.place(&key('c'))).unwrap_err();
        assert_eq!(store.get(&a).unwrap(), None);
        let briefs: Vec<Brief> = store.briefs().unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!((briefs.len(), &briefs[0].key[..]), (1, b.as_str()));
    }

    #[test]
    fn a_row_under_the_key_of_another_is_none() {
        let scratch = Scratch::new("renamed");
        let store = Store::create(&scratch.0).unwrap();
        store.put(&key('a'), &row(&key('b'))).unwrap();
        assert_eq!(store.get(&key('a')).unwrap(), None);
    }

    #[test]
    fn stores_of_shards_are_merged_and_what_is_damaged_is_counted() {
        let scratch = Scratch::new("merge");
        let store = |name: &str| Store::create(&scratch.0.join(name)).unwrap();
        let (one, two, all) = (store("one"), store("two"), store("all"));
        one.put(&key('a'), &row(&key('a'))).unwrap();
        one.put(&key('b'), &row(&key('b'))).unwrap();
        two.put(&key('b'), &row(&key('b'))).unwrap();
        two.put(&key('c'), &json!({})).unwrap();
        let merged = merge(&[one, two], &all).unwrap();
        assert_eq!(merged, Merged { added: 2, there: 1, damaged: 1 });
        assert_eq!(all.keys().unwrap(), [key('a'), key('b')]);
    }

    #[test]
    fn a_merged_row_has_the_bytes_of_the_one_that_was_made() {
        let scratch = Scratch::new("bytes");
        let store = |name: &str| Store::create(&scratch.0.join(name)).unwrap();
        let (one, all, key) = (store("one"), store("all"), key('a'));
        // Readers that do not look at every digit take the number after it.
        let row = json!({ "key": key.as_str(), "ops_per_s": 1_178.315_768_347_102_7 });
        one.put(&key, &row).unwrap();
        let made = one.bytes(&key).unwrap();
        merge(&[one], &all).unwrap();
        assert_eq!(all.bytes(&key).unwrap(), made);
    }

    #[test]
    fn a_store_that_is_not_there_is_an_error_with_its_path() {
        let error = Store::open(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(error.starts_with("reading /nowhere/at/all: "), "{error}");
    }
}
