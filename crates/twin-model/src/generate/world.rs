//! The files that the clients of a generator hold and know, as learned from replies.

use std::hash::Hash;

use twin_rt::{FixedMap, Rng};

use twin_fs::{
    Attr, FsError, Ino, LookupEntry, Name, Op, ROOT_INO, RenameMode, Reply, Result, mode,
};

/// A set from which one element can be drawn at random.
#[derive(Clone, Debug)]
pub(super) struct Bag<T> {
    items: Vec<T>,
    places: FixedMap<T, usize>,
}

impl<T> Default for Bag<T> {
    fn default() -> Bag<T> {
        Bag { items: Vec::new(), places: FixedMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Bag<T> {
    fn insert(&mut self, item: T) {
        if !self.places.contains_key(&item) {
            self.places.insert(item.clone(), self.items.len());
            self.items.push(item);
        }
    }

    fn remove(&mut self, item: &T) {
        if let Some(place) = self.places.remove(item) {
            self.items.swap_remove(place);
            if let Some(moved) = self.items.get(place) {
                self.places.insert(moved.clone(), place);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Draws with a preference for some: half of the draws fall on an eighth.
    pub(super) fn draw(&self, rng: &mut Rng) -> Option<&T> {
        let skew = rng.unit().powi(3);
        self.items.get((skew * self.items.len() as f64) as usize)
    }

    /// Draws among the last few that came in.
    pub(super) fn draw_late(&self, rng: &mut Rng) -> Option<&T> {
        let n = self.items.len();
        if n == 0 { None } else { self.items.get(n - 1 - rng.below(n.min(3) as u64) as usize) }
    }
}

/// The known facts about an inode.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) kind: u32,
    pub(super) size: u64,
    pub(super) nlink: u32,
    pub(super) refs: u64,
    pub(super) opens: u64,
    /// Bytes written to it, at most its size.
    written: u64,
}

/// The files that the clients hold and know.
#[derive(Clone, Debug, Default)]
pub struct World {
    inodes: FixedMap<Ino, Known>,
    leads: FixedMap<(Ino, Name), Ino>,
    /// How many names of a directory are known.
    children: FixedMap<Ino, u64>,
    /// Names that were seen and not yet removed.
    pub(super) names: Bag<(Ino, Name)>,
    /// Directories that are held, or the root.
    pub(super) dirs: Bag<Ino>,
    /// Regular files that are held.
    pub(super) files: Bag<Ino>,
    /// Other inodes that are held.
    pub(super) others: Bag<Ino>,
    /// Inodes that a client has open.
    pub(super) open: Bag<Ino>,
    /// Inodes without names that are still held.
    pub(super) orphans: Bag<Ino>,
    written: u64,
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World::default();
        let attr = Attr { ino: ROOT_INO, mode: mode::DIRECTORY, nlink: 2, ..Attr::default() };
        world.see(&attr);
        world.dirs.insert(ROOT_INO);
        world
    }

    pub(super) fn known(&self, ino: Ino) -> Option<&Known> {
        self.inodes.get(&ino)
    }

    /// The inode to which a name is believed to lead.
    pub(super) fn lead(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.leads.get(&(dir, Name::from(name))).copied()
    }

    /// Whether a directory is believed to be empty.
    pub(super) fn is_empty(&self, dir: Ino) -> bool {
        self.children.get(&dir).is_none_or(|children| *children == 0)
    }

    /// Names that are known.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// An estimate of the bytes written and not removed.
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    fn see(&mut self, attr: &Attr) {
        let kind = attr.kind();
        let new = Known { kind, size: 0, nlink: 0, refs: 0, opens: 0, written: 0 };
        let known = self.inodes.entry(attr.ino).or_insert(new);
        (known.size, known.nlink) = (attr.size, attr.nlink);
        self.drop_if_unused(attr.ino);
    }

    fn hold(&mut self, entry: &LookupEntry) {
        // A number that returns with another kind belongs to another inode.
        if self.known(entry.attr.ino).is_some_and(|known| known.kind != entry.attr.kind()) {
            self.drop_inode(entry.attr.ino);
        }
        self.see(&entry.attr);
        self.change(entry.attr.ino, |known| known.refs += 1);
    }

    fn change(&mut self, ino: Ino, f: impl FnOnce(&mut Known)) {
        if let Some(known) = self.inodes.get_mut(&ino) {
            let before = known.written;
            f(known);
            known.written = known.written.min(known.size);
            self.written = self.written - before + known.written;
            self.drop_if_unused(ino);
        }
    }

    /// Puts an inode into the bags that it belongs to.
    fn drop_if_unused(&mut self, ino: Ino) {
        let Some(known) = self.inodes.get(&ino) else { return };
        let held = known.refs > 0 || known.opens > 0 || ino == ROOT_INO;
        if !held && known.nlink == 0 {
            return self.drop_inode(ino);
        }
        let bag = match known.kind {
            mode::DIRECTORY => &mut self.dirs,
            mode::REGULAR => &mut self.files,
            _ => &mut self.others,
        };
        if held {
            bag.insert(ino)
        } else {
            bag.remove(&ino)
        }
        if known.opens > 0 {
            self.open.insert(ino)
        } else {
            self.open.remove(&ino)
        }
        let orphan = held && known.nlink == 0;
        if orphan { self.orphans.insert(ino) } else { self.orphans.remove(&ino) }
    }

    fn drop_inode(&mut self, ino: Ino) {
        if ino == ROOT_INO {
            return;
        }
        if let Some(known) = self.inodes.remove(&ino) {
            self.written -= known.written;
        }
        let bags =
            [&mut self.dirs, &mut self.files, &mut self.others, &mut self.open, &mut self.orphans];
        bags.into_iter().for_each(|bag| bag.remove(&ino));
    }

    fn add_name(&mut self, dir: Ino, name: &Name, ino: Ino) {
        if matches!(&**name, b"." | b"..") {
            return;
        }
        self.names.insert((dir, name.clone()));
        if self.leads.insert((dir, name.clone()), ino).is_none() {
            *self.children.entry(dir).or_default() += 1;
        }
    }

    fn take_name(&mut self, dir: Ino, name: &Name) -> Option<Ino> {
        let key = (dir, name.clone());
        self.names.remove(&key);
        let lead = self.leads.remove(&key)?;
        if let Some(children) = self.children.get_mut(&dir) {
            *children -= 1;
        }
        Some(lead)
    }

    /// Learns that a name was removed, or replaced.
    fn unlink(&mut self, dir: Ino, name: &Name) {
        if let Some(ino) = self.take_name(dir, name) {
            self.change(ino, |known| {
                let all = known.kind == mode::DIRECTORY;
                known.nlink = if all { 0 } else { known.nlink.saturating_sub(1) };
            });
        }
    }

    pub(super) fn learn(&mut self, op: &Op, reply: &Result<Reply>) {
        match reply {
            Ok(reply) => self.learn_done(op, reply),
            Err(error) => self.learn_failed(op, error),
        }
    }

    fn learn_done(&mut self, op: &Op, reply: &Reply) {
        match (op, reply) {
            (Op::Create { dir, name, .. }, Reply::Entry(entry)) => {
                self.add_name(*dir, name, entry.attr.ino);
                self.hold(entry);
                self.change(entry.attr.ino, |known| known.opens += 1);
            }
            (
                Op::Lookup { dir, name }
                | Op::MakeNode { dir, name, .. }
                | Op::MakeDir { dir, name, .. }
                | Op::Symlink { dir, name, .. }
                | Op::Link { dir, name, .. },
                Reply::Entry(entry),
            ) => {
                self.add_name(*dir, name, entry.attr.ino);
                self.hold(entry);
            }
            (_, Reply::Attr(attr)) => self.learn_attr(attr),
            (Op::Forget { ino, count }, _) => {
                self.change(*ino, |known| known.refs = known.refs.saturating_sub(*count));
            }
            (Op::Open { ino, truncate, .. }, _) => self.change(*ino, |known| {
                known.opens += 1;
                known.size = if *truncate { 0 } else { known.size };
            }),
            (Op::Release { ino }, _) => {
                self.change(*ino, |known| known.opens = known.opens.saturating_sub(1));
            }
            (Op::Append { ino, data, .. }, _) => self.change(*ino, |known| {
                known.size += data.len();
                known.written += data.len();
            }),
            (Op::Write { ino, off, data } | Op::WriteBack { ino, off, data }, _) => {
                self.change(*ino, |known| {
                    known.size = known.size.max(off + data.len());
                    known.written += data.len();
                })
            }
            (Op::Unlink { dir, name } | Op::RemoveDir { dir, name }, _) => self.unlink(*dir, name),
            (Op::Rename { dir, name, to_dir, to_name, mode }, _) => {
                self.learn_rename((*dir, name), (*to_dir, to_name), *mode);
            }
            (Op::ReadDir { dir, .. }, Reply::Dir(list)) => {
                for listed in list {
                    self.add_name(*dir, &listed.name, listed.ino);
                    if let Some(entry) = &listed.entry {
                        self.hold(entry);
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_attr(&mut self, attr: &Attr) {
        self.change(attr.ino, |known| (known.size, known.nlink) = (attr.size, attr.nlink));
    }

    fn learn_rename(&mut self, from: (Ino, &Name), to: (Ino, &Name), how: RenameMode) {
        let (source, target) = (self.lead(from.0, from.1), self.lead(to.0, to.1));
        if source.is_some() && source == target {
            return;
        }
        if how == RenameMode::Exchange {
            for (ino, (dir, name)) in [(source, to), (target, from)] {
                if let Some(ino) = ino {
                    self.add_name(dir, name, ino);
                }
            }
            return;
        }
        self.unlink(to.0, to.1);
        self.take_name(from.0, from.1);
        if let Some(source) = source {
            self.add_name(to.0, to.1, source);
        }
    }

    /// Learns from a failed operation.
    fn learn_failed(&mut self, op: &Op, error: &FsError) {
        match (op, error) {
            (
                Op::Lookup { dir, name }
                | Op::Unlink { dir, name }
                | Op::RemoveDir { dir, name }
                | Op::Rename { dir, name, .. },
                FsError::NotFound,
            ) => {
                self.take_name(*dir, name);
            }
            (
                Op::Lookup { dir, .. }
                | Op::MakeDir { dir, .. }
                | Op::MakeNode { dir, .. }
                | Op::Symlink { dir, .. }
                | Op::Create { dir, .. }
                | Op::Unlink { dir, .. }
                | Op::RemoveDir { dir, .. },
                FsError::Stale,
            ) => self.drop_inode(*dir),
            (
                Op::GetAttr { ino }
                | Op::Open { ino, .. }
                | Op::Read { ino, .. }
                | Op::Write { ino, .. }
                | Op::WriteBack { ino, .. }
                | Op::Append { ino, .. },
                FsError::Stale,
            ) => self.drop_inode(*ino),
            _ => {}
        }
    }
}
