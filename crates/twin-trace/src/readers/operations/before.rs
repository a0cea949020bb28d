//! What existed before a table of operations: paths that are used before they are made.

use std::collections::BTreeMap;

use twin_fs::{ROOT_INO, mode};

use super::names;
use super::row::{Kind, Rows};
use crate::error::TraceError;
use crate::readers::tree::Tree;
use crate::record::{Node, NodeAttr};

/// What is known of a path.
#[derive(Clone, Copy, Default)]
struct Known {
    is_dir: bool,
    /// The largest place that was read before anything changed the length.
    size: u64,
    /// What its length before was can no longer be told by reads.
    is_changed: bool,
}

/// What is at a path now.
#[derive(Clone)]
enum Now {
    /// What the rows have made.
    Made,
    /// What existed before, under this path.
    Existed(String),
    /// Nothing any more.
    Gone,
}

/// Paths that existed before, and what the rows have made of them so far.
#[derive(Default)]
pub(super) struct Before {
    /// By path, in an order in which directories come before what is in them.
    existed: BTreeMap<String, Known>,
    now: BTreeMap<String, Now>,
}

impl Before {
    /// Reads all rows.
    pub(super) fn of(mut rows: Rows) -> Result<Before, TraceError> {
        let mut before = Before::default();
        while let Some(row) = rows.next()? {
            let parsed = names(&row.path)
                .and_then(|path| Ok((path.join("/"), names(row.to.as_deref().unwrap_or(""))?)));
            let (path, to) = parsed.map_err(|why| rows.error(why))?;
            if path.is_empty() {
                continue;
            }
            before.row(row.what, &path, &to.join("/"), (row.offset.unwrap_or(0), row.length));
        }
        Ok(before)
    }

    fn row(&mut self, what: Kind, path: &str, to: &str, (offset, length): (u64, Option<u64>)) {
        self.above(path);
        match what {
            Kind::Create | Kind::Write | Kind::MakeDir => match self.now.get(path) {
                Some(Now::Existed(origin)) => {
                    let origin = origin.clone();
                    self.change(&origin);
                }
                Some(Now::Made) => {}
                None | Some(Now::Gone) => drop(self.now.insert(path.into(), Now::Made)),
            },
            Kind::Read => {
                let Now::Existed(origin) = self.there(path, false) else { return };
                let known = self.existed.entry(origin).or_default();
                if !known.is_changed {
                    known.size = known.size.max(offset.saturating_add(length.unwrap_or(0)));
                }
            }
            Kind::Truncate => {
                if let Now::Existed(origin) = self.there(path, false) {
                    self.change(&origin);
                }
            }
            Kind::Fsync | Kind::Close | Kind::Stat => drop(self.there(path, false)),
            Kind::List => drop(self.there(path, true)),
            Kind::Remove => {
                self.there(path, false);
                self.now.insert(path.into(), Now::Gone);
            }
            Kind::Rename => {
                let what = self.there(path, false);
                self.above(to);
                self.moved(path, to);
                self.now.insert(path.into(), Now::Gone);
                self.now.insert(to.into(), what);
            }
            Kind::Link => {
                let what = self.there(path, false);
                self.above(to);
                self.now.insert(to.into(), what);
            }
        }
    }

    /// From now on reads say nothing of the length that it had.
    fn change(&mut self, origin: &str) {
        if let Some(known) = self.existed.get_mut(origin) {
            known.is_changed = true;
        }
    }

    /// What is at a path that a row uses: what nobody has made or removed existed before.
    fn there(&mut self, path: &str, is_dir: bool) -> Now {
        let now = self.now.entry(path.into()).or_insert_with(|| Now::Existed(path.into())).clone();
        if let Now::Existed(origin) = &now {
            self.existed.entry(origin.clone()).or_default().is_dir |= is_dir;
        }
        now
    }

    /// The directories above a path.
    fn above(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            if let Now::Gone = self.there(&path[..at], true) {
                // The reader makes it again.
                self.now.insert(path[..at].into(), Now::Made);
            }
        }
    }

    /// Everything below a directory has another path.
    fn moved(&mut self, path: &str, to: &str) {
        let start = format!("{path}/");
        let below = self.now.range(start.clone()..).take_while(|(own, _)| own.starts_with(&start));
        let below: Vec<String> = below.map(|(own, _)| own.clone()).collect();
        for old in below {
            if let Some(what) = self.now.insert(old.clone(), Now::Gone) {
                self.now.insert(format!("{to}{}", &old[path.len()..]), what);
            }
        }
    }

    /// The nodes of what existed, the last one first, and the tree with it.
    pub(super) fn nodes(self, tree: &mut Tree) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (path, known) in &self.existed {
            let (above, name) = path.rsplit_once('/').map_or(("", path.as_str()), |parts| parts);
            let mut dir = ROOT_INO;
            for part in above.split('/').filter(|part| !part.is_empty()) {
                dir = tree.known(dir, part.as_bytes()).unwrap_or(dir);
            }
            let ino = tree.add_existing(dir, name.as_bytes(), known.is_dir);
            tree.set_size(ino, known.size);
            let mode = if known.is_dir { mode::DIRECTORY | 0o755 } else { mode::REGULAR | 0o644 };
            let nlink = if known.is_dir { 2 } else { 1 };
            let attr =
                NodeAttr { nlink, size: known.size, allocated: known.size, ..NodeAttr::default() };
            nodes.push(Node { dir, name: name.as_bytes().into(), ino, mode, attr: Some(attr) });
        }
        nodes.reverse();
        nodes
    }
}
