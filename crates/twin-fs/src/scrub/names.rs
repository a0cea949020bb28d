//! The paths of inodes with flaws: a number does not tell anybody which file it is.
//!
//! Contract: directories are read only if something was found, from the root down, the nearest
//! first, until all paths are known. A directory that cannot be read is passed over. Hidden files have the path of their owner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;

use crate::core::Core;
use crate::inodes::Inode;
use crate::layout::Layout;
use crate::{Ino, mode};

/// The paths of these inodes, as far as they have some, and where they were found.
pub(super) async fn find(
    core: &Rc<Core>,
    layout: &dyn Layout,
    root: Ino,
    mut wanted: BTreeSet<Ino>,
) -> BTreeMap<Ino, String> {
    let mut found = BTreeMap::new();
    let mut dirs = VecDeque::from([(root, String::new())]);
    note(core, layout, root, "/", &mut wanted, &mut found).await;
    let mut met = BTreeSet::from([root]);
    while let Some((ino, path)) = dirs.pop_front()
        && !wanted.is_empty()
    {
        let Ok(dir) = layout.load_inode(core, ino).await else { continue };
        for (name, child, kind) in entries(core, &dir).await {
            let path = format!("{path}/{}", shown(&name));
            note(core, layout, child, &path, &mut wanted, &mut found).await;
            if kind == mode::DIRECTORY && met.insert(child) {
                dirs.push_back((child, path));
            }
        }
    }
    found
}

/// Notes the path of an inode, and of its hidden files, if they are looked for.
async fn note(
    core: &Rc<Core>,
    layout: &dyn Layout,
    ino: Ino,
    path: &str,
    wanted: &mut BTreeSet<Ino>,
    found: &mut BTreeMap<Ino, String>,
) {
    if wanted.remove(&ino) {
        found.insert(ino, path.to_owned());
    }
    let Ok(inode) = layout.load_inode(core, ino).await else { return };
    let (index, attributes) = {
        let d = inode.d.borrow();
        (d.index_ino, d.xattr_ino)
    };
    for (hidden, what) in [(index, "index"), (attributes, "attributes")] {
        if hidden != 0 && wanted.remove(&hidden) {
            found.insert(hidden, format!("{path} ({what})"));
        }
    }
}

/// The names in a directory, of the blocks that can be read.
async fn entries(core: &Rc<Core>, dir: &Rc<Inode>) -> Vec<(Vec<u8>, Ino, u32)> {
    let mut names = Vec::new();
    let block = u64::from(core.geometry.block_size);
    let format = core.features.directories;
    let size = dir.d.borrow().size;
    for lbn in 0..core.geometry.blocks_for(size) {
        let was_here = core.cache.peek(&dir.frames, lbn as Lbn).is_some();
        let Ok(Some(frame)) = core.block(dir, lbn as Lbn, Origin::Recovery).await else { continue };
        let len = size.saturating_sub(lbn * block).min(block) as usize;
        let bytes = frame.block().to_bytes();
        let first = (lbn == 0).then_some(dir.ino);
        if format.validate(&bytes[..len], first).is_err() {
            // Operations check a block when they read it, and not when it is in memory.
            if !was_here {
                core.cache.remove(&dir.frames, lbn as Lbn);
            }
            continue;
        }
        let items = format.items(&bytes[..len], 0).filter(|item| item.ino != 0 && !item.is_dot());
        names.extend(items.map(|item| (item.name.to_vec(), item.ino, item.kind)));
    }
    names
}

/// A name as it is shown.
fn shown(name: &[u8]) -> String {
    let escape = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    String::from_utf8_lossy(name).chars().map(escape).collect()
}
