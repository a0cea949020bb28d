//! A directory in which one state after the other is put, and checked.
//!
//! Contract: the check sees a tree at the directory at which the program had its volume, since programs keep absolute
//! paths: as the superuser through a mount of its own, and otherwise because the tree is put there, one at a time. It may
//! change what it sees; the next state begins anew. What it leaves running is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use twin_crashlab::strict::recovered;
use twin_crashlab::tree::{BLOCK, Body, Id, Meta, ROOT};
use twin_crashlab::{Outcome, Tree, Trial};
use twin_fs::{LayoutConfig, mode};
use twin_host::apart::{Ended, Program};

/// Bytes of the beginning of a check's output that are kept, and as many of its end.
const SAID: usize = 1000;

/// See the module.
pub(super) struct Place {
    /// Where trees are put.
    dir: PathBuf,
    /// Where the check sees them.
    seen_at: PathBuf,
    acked: PathBuf,
    output: PathBuf,
    limit: Duration,
    /// With it trees are those of devices.
    config: Option<Box<dyn LayoutConfig>>,
}

impl Place {
    /// A place in `scratch`, whose check sees the tree at `seen_at`; with `apart` that is another directory.
    pub(super) fn make(
        scratch: &Path,
        number: usize,
        seen_at: &Path,
        apart: bool,
        limit: Duration,
        config: Option<Box<dyn LayoutConfig>>,
    ) -> Result<Place, String> {
        let in_scratch = |what: &str| scratch.join(format!("{what}-{number}"));
        let dir = if apart { in_scratch("state") } else { seen_at.to_owned() };
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let (acked, output) = (in_scratch("acked"), in_scratch("output"));
        Ok(Place { dir, seen_at: seen_at.to_owned(), acked, output, limit, config })
    }

    /// What the check says of a state.
    ///
    /// # Errors
    /// If the state cannot be made, or the check not be started.
    pub(super) fn check(&self, trial: &Trial, check: &str) -> Result<Outcome, String> {
        match self.files(&trial.tree) {
            Ok(tree) => self.check_tree(&tree, &trial.acked, check),
            Err(how) => Ok(Outcome::Failed { how, said: String::new() }),
        }
    }

    /// The files of a state, which of a device are those after recovery.
    fn files(&self, tree: &Tree) -> Result<Tree, String> {
        match &self.config {
            Some(config) => recovered(tree, &**config),
            None => Ok(tree.clone()),
        }
    }

    /// Puts the files of a state here, and what was acknowledged; returns where both are.
    ///
    /// # Errors
    /// If the state cannot be made.
    pub(super) fn lay_out(&self, trial: &Trial) -> Result<(&Path, &Path), String> {
        self.put(&self.files(&trial.tree)?, &trial.acked)?;
        Ok((&self.dir, &self.acked))
    }

    fn put(&self, tree: &Tree, acked: &[String]) -> Result<(), String> {
        let made = empty(&self.dir).and_then(|()| put(tree, &self.dir));
        made.map_err(|e| format!("a state in {}: {e}", self.dir.display()))?;
        let labels: String = acked.iter().flat_map(|label| [label, "\n"]).collect();
        fs::write(&self.acked, labels).map_err(|e| format!("{}: {e}", self.acked.display()))
    }

    /// The same of a tree with labels.
    pub(super) fn check_tree(
        &self,
        tree: &Tree,
        acked: &[String],
        check: &str,
    ) -> Result<Outcome, String> {
        self.put(tree, acked)?;
        let words = ["sh", "-c", check].map(OsString::from);
        let program = Program {
            words: &words,
            dir: &self.seen_at,
            env: &[
                ("CRASHLAB_DIR", self.seen_at.clone().into()),
                ("CRASHLAB_ACKED", self.acked.clone().into()),
            ],
            instead: (self.dir != self.seen_at).then_some(&*self.dir),
            output: Some(&self.output),
            limit: Some(self.limit),
        };
        let ended = program.run().map_err(|e| format!("the check cannot be started: {e}"))?;
        if ended.is_success() {
            return Ok(Outcome::Passed);
        }
        let said = ends(&fs::read(&self.output).unwrap_or_default());
        let how = match ended {
            Ended::Late => format!("it did not end within {} s", self.limit.as_secs_f64()),
            ended => ended.words(),
        };
        Ok(Outcome::Failed { how, said })
    }
}

/// The beginning and the end of an output.
fn ends(output: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.len() <= 2 * SAID {
        return text(output);
    }
    format!("{}\n...\n{}", text(&output[..SAID]), text(&output[output.len() - SAID..]))
}

/// Removes all that is in a directory.
fn empty(dir: &Path) -> io::Result<()> {
    // A check may have taken rights away from directories of its own.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => {
                empty(&entry.path())?;
                fs::remove_dir(entry.path())?;
            }
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Puts a tree into an empty directory.
fn put(tree: &Tree, dir: &Path) -> io::Result<()> {
    put_names(tree, ROOT, dir, &mut BTreeMap::new())
}

fn put_names(tree: &Tree, dir: Id, at: &Path, made: &mut BTreeMap<Id, PathBuf>) -> io::Result<()> {
    for (name, id) in tree.names(dir) {
        let path = at.join(std::ffi::OsStr::from_bytes(name));
        let Some(node) = tree.node(id) else { continue };
        match (made.get(&id), &node.body) {
            // Names that lost their order can lead to a directory twice, or into itself: the first one counts.
            (Some(_), Body::Dir(_)) => continue,
            (Some(first), _) => {
                fs::hard_link(first, &path)?;
                continue;
            }
            _ => {}
        }
        made.insert(id, path.clone());
        match &node.body {
            Body::Dir(_) => {
                fs::create_dir(&path)?;
                put_names(tree, id, &path, made)?;
            }
            Body::File { size, blocks } => {
                put_file(&path, *size, blocks.range(..size.div_ceil(BLOCK)))?
            }
            Body::Symlink(target) => {
                std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), &path)?;
            }
            Body::Special => put_special(&path, &node.meta)?,
        }
        put_attributes(&path, &node.meta)?;
        for (name, value) in &node.xattrs {
            // The scratch file system may know none.
            let name = std::ffi::OsStr::from_bytes(name);
            let _ = rustix::fs::lsetxattr(&path, name, value, rustix::fs::XattrFlags::empty());
        }
    }
    if dir == ROOT
        && let Some(node) = tree.node(ROOT)
    {
        put_attributes(at, &node.meta)?;
    }
    Ok(())
}

fn put_file<'a>(
    path: &Path,
    size: u64,
    blocks: impl Iterator<Item = (&'a u64, &'a std::sync::Arc<twin_crashlab::tree::Block>)>,
) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut end = 0;
    for (number, block) in blocks {
        let at = number * BLOCK;
        let len = (size - at).min(BLOCK) as usize;
        if at == end {
            file.write_all(&block.bytes[..len])?;
        } else {
            file.write_all_at(&block.bytes[..len], at)?;
            // The next block may follow this one.
            io::Seek::seek(&mut file, io::SeekFrom::Start(at + len as u64))?;
        }
        end = at + len as u64;
    }
    if end < size { file.set_len(size) } else { Ok(()) }
}

fn put_special(path: &Path, meta: &Meta) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let kind = FileType::from_raw_mode(meta.mode);
    // A device or a socket of a state leads nowhere; a check that looks for its name finds it.
    let kind =
        if kind == FileType::Fifo || kind == FileType::Socket { kind } else { FileType::Fifo };
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), 0)?;
    Ok(())
}

fn put_attributes(path: &Path, meta: &Meta) -> io::Result<()> {
    let me = (rustix::process::geteuid(), rustix::process::getegid());
    if me.0.is_root() && (meta.uid, meta.gid) != (me.0.as_raw(), me.1.as_raw()) {
        std::os::unix::fs::lchown(path, Some(meta.uid), Some(meta.gid))?;
    }
    if meta.mode & mode::TYPE != mode::SYMLINK {
        fs::set_permissions(path, fs::Permissions::from_mode(meta.mode & mode::PERMISSIONS))?;
    }
    Ok(())
}
