//! The content of a tree, for comparison: every name with its attributes and a hash of its content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A tree, by path below its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    entries: BTreeMap<PathBuf, ManifestEntry>,
}

/// One name. Access times are left out because reading a tree may change them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ManifestEntry {
    content: Content,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Dir,
    File { len: u64, hash: u64 },
    Link(PathBuf),
    Special(u64),
}

/// Number of differences that are reported.
const TOLD: usize = 8;

impl Manifest {
    /// Reads a whole tree.
    ///
    /// # Errors
    /// The path and the host's error.
    pub(crate) fn of(root: &Path) -> Result<Manifest, String> {
        let mut manifest = Manifest::default();
        let mut stack = vec![PathBuf::new()];
        while let Some(at) = stack.pop() {
            let path = root.join(&at);
            let entry = read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if entry.content == Content::Dir {
                let names =
                    fs::read_dir(&path).and_then(|names| names.collect::<Result<Vec<_>, _>>());
                let names = names.map_err(|error| format!("{}: {error}", path.display()))?;
                stack.extend(names.iter().map(|name| at.join(name.file_name())));
            }
            if manifest.entries.insert(at, entry).is_some() {
                return Err(format!("{}: listed twice", path.display()));
            }
        }
        Ok(manifest)
    }

    /// Number of names, the root's included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Checks that `now` has the same names with the same contents and attributes.
    ///
    /// # Errors
    /// The first differences.
    pub(crate) fn expect_same(&self, now: &Manifest, when: &str) -> Result<(), String> {
        self.compare(now, when, |a, b| a == b)
    }

    /// Checks that `now` has the same names with the same contents and types; owners, modes and
    /// times may differ.
    ///
    /// # Errors
    /// The first differences.
    pub(crate) fn expect_same_contents(&self, now: &Manifest, when: &str) -> Result<(), String> {
        self.compare(now, when, |a, b| a.content == b.content)
    }

    fn compare(
        &self,
        now: &Manifest,
        when: &str,
        same: impl Fn(&ManifestEntry, &ManifestEntry) -> bool,
    ) -> Result<(), String> {
        let mut differences = Vec::new();
        for (path, was) in &self.entries {
            match now.entries.get(path) {
                Some(is) if same(was, is) => {}
                Some(is) => differences.push(format!("{}: was {was:?}, is {is:?}", path.display())),
                None => differences.push(format!("{}: missing", path.display())),
            }
        }
        let new = now.entries.keys().filter(|path| !self.entries.contains_key(*path));
        differences.extend(new.map(|path| format!("{}: came from nowhere", path.display())));
        if differences.is_empty() {
            return Ok(());
        }
        let count = differences.len();
        differences.truncate(TOLD);
        Err(format!("{when}: {count} differences:\n    {}", differences.join("\n    ")))
    }
}

fn read(path: &Path) -> std::io::Result<ManifestEntry> {
    let meta = fs::symlink_metadata(path)?;
    let kind = meta.file_type();
    let content = if kind.is_dir() {
        Content::Dir
    } else if kind.is_file() {
        let (len, hash) = hash(path)?;
        if len != meta.len() {
            let why = format!("{} bytes long, {len} can be read", meta.len());
            return Err(std::io::Error::other(why));
        }
        Content::File { len, hash }
    } else if kind.is_symlink() {
        Content::Link(fs::read_link(path)?)
    } else {
        Content::Special(meta.rdev())
    };
    Ok(ManifestEntry {
        content,
        mode: meta.mode(),
        uid: meta.uid(),
        gid: meta.gid(),
        links: meta.nlink(),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        ctime: (meta.ctime(), meta.ctime_nsec()),
    })
}

/// Length and SipHash of a file, which detects accidental differences.
fn hash(path: &Path) -> std::io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut len = 0;
    loop {
        let got = file.read(&mut buffer)?;
        if got == 0 {
            return Ok((len, hasher.finish()));
        }
        hasher.write(&buffer[..got]);
        len += got as u64;
    }
}

/// Names of a directory, sorted.
///
/// # Errors
/// The host's error; or a name that is listed twice.
pub(crate) fn names(dir: &Path) -> Result<Vec<Vec<u8>>, String> {
    let text = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(text)? {
        names.push(entry.map_err(text)?.file_name().as_bytes().to_vec());
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = String::from_utf8_lossy(&twice[0]).into_owned();
        return Err(format!("{}: {name} is listed twice", dir.display()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_told() {
        let dir = std::env::temp_dir().join(format!("xtask-manifest-{}", std::process::id()));
        fs::create_dir_all(dir.join("d")).unwrap();
        fs::write(dir.join("d/a"), "one").unwrap();
        std::os::unix::fs::symlink("d/a", dir.join("l")).unwrap();
        let before = Manifest::of(&dir).unwrap();
        assert_eq!(before.len(), 4);
        assert_eq!(before.expect_same(&Manifest::of(&dir).unwrap(), "now"), Ok(()));

        fs::write(dir.join("d/a"), "two").unwrap();
        fs::remove_file(dir.join("l")).unwrap();
        fs::write(dir.join("n"), "").unwrap();
        let now = Manifest::of(&dir).unwrap();
        let told = before.expect_same_contents(&now, "later").unwrap_err();
        assert!(told.contains("later: 3 differences"), "{told}");
        for part in ["d/a: was", "l: missing", "n: came from nowhere"] {
            assert!(told.contains(part), "{told}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
