//! A small volume with something of every kind.

use super::*;
use twin_fs::{ROOT_INO, XattrMode, mode};

use crate::format::Profile;

/// The inodes of a rich volume.
pub(super) struct Rich {
    pub(super) w: World,
    /// A directory with many names, in the modern profile with an index.
    pub(super) dir: Ino,
    /// A directory in it, and one in that.
    pub(super) inner: Ino,
    pub(super) innermost: Ino,
    /// A file with indirect blocks, two levels deep.
    pub(super) big: Ino,
    /// A file of one block, with two names.
    pub(super) small: Ino,
    /// In the modern profile, a file with attributes in a hidden file.
    pub(super) xattrs: Ino,
}

pub(super) const NAMES: usize = 400;

pub(super) fn long_name(i: usize) -> Vec<u8> {
    format!("a name that is long enough to fill whole blocks soon {i}").into_bytes()
}

impl Rich {
    pub(super) fn new(options: &MkfsOptions, size: u64) -> Rich {
        let options = MkfsOptions { segment_size: Some(64 << 10), ..options.clone() };
        let mut w = World::new(&options, size);
        let dir = w.mkdir(ROOT_INO, "dir");
        let target = w.create(dir, "target");
        for i in 0..NAMES {
            w.op(Op::Link { ino: target, dir, name: long_name(i).into() });
        }
        for i in (0..NAMES).step_by(5) {
            w.op(Op::Unlink { dir, name: long_name(i).into() });
        }
        let inner = w.mkdir(dir, "inner");
        let innermost = w.mkdir(inner, "innermost");
        let big = w.create(ROOT_INO, "big");
        w.write(big, 0, 90_000);
        w.write(big, 8 << 20, 9_000);
        let small = w.create(inner, "small");
        w.write(small, 0, 1500);
        w.op(Op::Link { ino: small, dir: ROOT_INO, name: (*b"again").into() });
        let tiny = w.create(inner, "tiny");
        w.write(tiny, 0, 20);
        w.op(Op::Symlink { dir: inner, name: (*b"short").into(), target: (*b"tiny").into() });
        w.op(Op::Symlink { dir: inner, name: (*b"long").into(), target: [b'x'; 700].into() });
        for (name, kind) in [(&b"fifo"[..], mode::FIFO), (b"char", mode::CHAR)] {
            let name = name.into();
            w.op(Op::MakeNode { dir: inner, name, mode: kind | 0o600, rdev: 0x103 });
        }
        let xattrs = w.create(ROOT_INO, "xattrs");
        if options.profile == Profile::Modern {
            let lens = [(xattrs, 20), (xattrs, 6_000), (small, 30)];
            for (i, (ino, len)) in lens.into_iter().enumerate() {
                let name = format!("user.{i}").into_bytes().into();
                w.op(Op::SetXattr { ino, name, value: vec![7; len].into(), mode: XattrMode::Any });
            }
        }
        for i in 0..30 {
            let ino = w.create(innermost, &format!("f{i}"));
            w.write(ino, 0, 300 + 37 * i);
        }
        for i in (0..30).step_by(3) {
            w.op(Op::Unlink { dir: innermost, name: format!("f{i}").into_bytes().into() });
        }
        let mut rich = Rich { w, dir, inner, innermost, big, small, xattrs };
        rich.forget();
        rich
    }

    /// Writes everything out and mounts anew, so that no client holds anything.
    fn forget(&mut self) {
        self.w.rt.block_on(self.w.volume.close()).unwrap().unwrap();
        self.w.rt.crash();
        self.w = World::mount(Rc::clone(&self.w.disk), LfsSettings::default());
    }
}
