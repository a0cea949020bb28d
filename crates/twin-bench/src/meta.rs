//! `meta`: one metadata operation for each name, with many names in one directory: mkdir, create,
//! rename, link, symlink, list, look up with cold caches, remove.

use super::{Act, Benchmark, OpenMode, Script};

const FLAT: &str = "flat";

#[derive(Clone, Debug)]
pub(super) struct Meta {
    /// Number of names of each kind.
    pub(super) names: u64,
    pub(super) label: String,
}

/// The acts of one phase for the name with this number.
type Each = fn(u64) -> Vec<Act>;

fn flat(kind: char, i: u64) -> String {
    format!("{FLAT}/{kind}{i:06}")
}

fn directory(i: u64) -> String {
    format!("dir{i:06}")
}

impl Meta {
    /// A phase. If it `writes`, it ends with everything on disk.
    fn phase(&self, name: &'static str, writes: bool, each: Each) -> Script {
        let amount = self.names as f64;
        let end = writes.then_some(Act::SyncAll).into_iter();
        let end = end.chain([Act::End { amount, unit: "names/s" }]);
        Box::new([Act::Begin(name)].into_iter().chain((0..self.names).flat_map(each)).chain(end))
    }

    fn one(act: Act) -> Script {
        Box::new(std::iter::once(act))
    }
}

impl Benchmark for Meta {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn users(&self) -> Vec<Script> {
        let list = [
            Act::Begin("list"),
            Act::List { path: FLAT.into(), names: 3 * self.names },
            Act::End { amount: 3.0 * self.names as f64, unit: "names/s" },
        ];
        let parts: Vec<Script> = vec![
            self.phase("mkdir", true, |i| vec![Act::MakeDir(directory(i))]),
            Meta::one(Act::MakeDir(FLAT.into())),
            self.phase("create", true, |i| {
                let open = Act::Open { slot: 0, path: flat('c', i), how: OpenMode::Create };
                vec![open, Act::Close { slot: 0 }]
            }),
            self.phase("rename", true, |i| {
                vec![Act::Rename { from: flat('c', i), to: flat('r', i) }]
            }),
            self.phase("link", true, |i| vec![Act::Link { from: flat('r', i), to: flat('l', i) }]),
            self.phase("symlink", true, |i| {
                vec![Act::Symlink { path: flat('s', i), target: "target".into() }]
            }),
            Meta::one(Act::Cold),
            Box::new(list.into_iter()),
            Meta::one(Act::Cold),
            self.phase("lookup_cold", false, |i| vec![Act::Stat { path: flat('r', i), size: 0 }]),
            self.phase("unlink", true, |i| vec![Act::Unlink(flat('r', i))]),
            self.phase("unlink_link", true, |i| vec![Act::Unlink(flat('l', i))]),
            self.phase("unlink_symlink", true, |i| vec![Act::Unlink(flat('s', i))]),
            self.phase("rmdir", true, |i| vec![Act::RemoveDir(directory(i))]),
            Meta::one(Act::RemoveDir(FLAT.into())),
        ];
        vec![Box::new(parts.into_iter().flatten())]
    }

    fn bytes(&self) -> u64 {
        // An inode and a name for each, with some reserve.
        self.names * 4 * 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_made_is_removed() {
        let meta = Meta { names: 7, label: String::new() };
        let acts: Vec<Act> = meta.users().into_iter().flatten().collect();
        let count = |f: fn(&Act) -> bool| acts.iter().filter(|act| f(act)).count();
        let made = count(|a| {
            matches!(
                a,
                Act::Open { how: OpenMode::Create, .. } | Act::Link { .. } | Act::Symlink { .. }
            )
        });
        assert_eq!((made, count(|a| matches!(a, Act::Unlink(_)))), (21, 21));
        assert_eq!(count(|a| matches!(a, Act::MakeDir(_))), 8);
        assert_eq!(count(|a| matches!(a, Act::RemoveDir(_))), 8);
    }
}
