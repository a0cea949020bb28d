//! ACLs on a volume: those in hidden files are read when a rule needs them, inherited in one step, and
//! fail closed.

use crate::common::World;
use twin_fs::acl::{ACCESS, DEFAULT};
use twin_fs::{
    Attr, Cred, FsError, Ino, Op, ROOT_INO, Reply, Request, SetAttr, XattrMode, mode, perm,
};
use twin_lfs::MkfsOptions;

/// Owner, user 11, as many users more, owning group, mask and others.
fn value(user: u16, more: u32, mask: u16, others: u16) -> Vec<u8> {
    let mut entries = vec![(1u16, 7, u32::MAX), (2, user, 11)];
    entries.extend((0..more).map(|nth| (2, 5, 100 + nth)));
    entries.extend([(4, 5, u32::MAX), (0x10, mask, u32::MAX), (0x20, others, u32::MAX)]);
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(perm.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn set(ino: Ino, name: &[u8], value: Vec<u8>) -> Op {
    Op::SetXattr { ino, name: name.into(), value: value.into(), mode: XattrMode::Any }
}

fn get(w: &mut World, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
    match w.try_op(Op::GetXattr { ino, name: name.into() })? {
        Reply::Bytes(bytes) => Ok(bytes.into()),
        other => panic!("{other:?}"),
    }
}

fn as_user(w: &mut World, uid: u32, op: Op) -> Result<Reply, FsError> {
    let request = Request { cred: Cred::user(uid, uid), ..Request::root(1 << 40, op) };
    w.rt.block_on(w.volume.execute(request)).unwrap()
}

fn may(w: &mut World, uid: u32, ino: Ino, mask: u32) -> bool {
    match as_user(w, uid, Op::Access { ino, mask }) {
        Ok(_) => true,
        Err(FsError::Access) => false,
        Err(error) => panic!("{error}"),
    }
}

fn made(w: &mut World, op: Op) -> Attr {
    match w.op(op) {
        Reply::Entry(entry) => entry.attr,
        other => panic!("{other:?}"),
    }
}

fn world() -> World {
    World::new(&MkfsOptions::modern([7; 16]), 16 << 20)
}

#[test]
fn an_acl_in_a_hidden_file_is_read_for_whom_it_matters() {
    let mut w = world();
    let file = w.create("f");
    w.op(set(file, ACCESS, value(7, 30, 7, 0)));
    let mut w = w.reopen();
    let file = w.lookup("f");
    assert!(w.volume.core().cached_inode(file).unwrap().attr().acl.is_unread());
    assert!(may(&mut w, 0, file, perm::READ));
    assert!(w.volume.core().cached_inode(file).unwrap().attr().acl.is_unread(), "root needs none");
    assert!(may(&mut w, 11, file, perm::READ | perm::WRITE));
    assert!(may(&mut w, 129, file, perm::READ) && !may(&mut w, 129, file, perm::WRITE));
    assert!(!may(&mut w, 12, file, perm::READ));
    w.assert_clean();
}

#[test]
fn a_chmod_changes_an_acl_that_nobody_has_read() {
    for more in [0, 30] {
        let mut w = world();
        let file = w.create("f");
        w.op(set(file, ACCESS, value(7, more, 7, 5)));
        let mut w = w.reopen();
        let file = w.lookup("f");
        let chmod = SetAttr { mode: Some(0o740), size: Some(9), ..SetAttr::default() };
        w.op(Op::SetAttr { ino: file, set: chmod });
        assert_eq!(get(&mut w, file, ACCESS), Ok(value(7, more, 4, 0)));
        assert_eq!((w.attr(file).mode & 0o7777, w.attr(file).size), (0o740, 9));
        assert!(may(&mut w, 11, file, perm::READ) && !may(&mut w, 11, file, perm::WRITE));
        let mut w = w.crash();
        let file = w.lookup("f");
        // What nobody synced may be gone, but mode and ACL are of one state.
        let mask = (w.attr(file).mode >> 3 & 7) as u16;
        let others = (w.attr(file).mode & 7) as u16;
        assert_eq!(get(&mut w, file, ACCESS), Ok(value(7, more, mask, others)));
        w.assert_clean();
    }
}

#[test]
fn a_long_default_acl_is_inherited_whole() {
    let mut w = world();
    let dir = Op::MakeDir { dir: ROOT_INO, name: (*b"d").into(), mode: 0o755 };
    let dir = made(&mut w, dir).ino;
    w.op(set(dir, DEFAULT, value(7, 40, 7, 0)));
    let mut w = w.reopen();
    let dir = w.lookup("d");
    let mode = mode::with_umask(0o666, 0o077);
    let file = Op::Create { dir, name: (*b"f").into(), mode, exclusive: true };
    let file = made(&mut w, file);
    assert_eq!(file.mode & 0o7777, 0o660);
    let expected = |owner: u16| {
        let mut value = value(7, 40, 6, 0);
        value[6..8].copy_from_slice(&owner.to_le_bytes());
        value
    };
    assert_eq!(get(&mut w, file.ino, ACCESS), Ok(expected(6)));
    let deep = made(&mut w, Op::MakeDir { dir, name: (*b"deep").into(), mode: 0o700 }).ino;
    assert_eq!(get(&mut w, deep, DEFAULT), Ok(value(7, 40, 7, 0)));
    assert_eq!(get(&mut w, deep, ACCESS), Ok(value(7, 40, 0, 0)));
    assert!(may(&mut w, 11, file.ino, perm::WRITE) && !may(&mut w, 12, file.ino, perm::READ));
    w.assert_clean();
    let mut w = w.reopen();
    let dir = w.lookup("d");
    assert_eq!(get(&mut w, dir, DEFAULT), Ok(value(7, 40, 7, 0)));
    w.assert_clean();
}

#[test]
fn a_full_volume_makes_no_inode_without_its_acl() {
    let mut w = World::new(&MkfsOptions::modern([7; 16]), 3 << 20);
    let dir = made(&mut w, Op::MakeDir { dir: ROOT_INO, name: (*b"d").into(), mode: 0o777 }).ino;
    w.op(set(dir, DEFAULT, value(7, 100, 7, 7)));
    let mut inodes = Vec::new();
    let error = loop {
        let name = format!("f{}", inodes.len());
        let op = Op::MakeNode { dir, name: name.as_bytes().into(), mode: 0o666, rdev: 0 };
        match w.try_op(op) {
            Ok(Reply::Entry(entry)) => inodes.push(entry.attr.ino),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, FsError::NoSpace | FsError::NoInodes), "{error}");
    assert!(inodes.len() > 20);
    for ino in inodes {
        assert!(get(&mut w, ino, ACCESS).is_ok());
    }
    w.assert_clean();
}

#[test]
fn who_removes_an_acl_gives_the_mask_to_the_group() {
    let mut w = world();
    let file = w.create("f");
    w.op(set(file, ACCESS, value(7, 30, 6, 1)));
    w.op(Op::RemoveXattr { ino: file, name: ACCESS.into() });
    assert_eq!(get(&mut w, file, ACCESS), Err(FsError::NoAttribute));
    assert_eq!(w.attr(file).mode & 0o7777, 0o761);
    assert!(!may(&mut w, 11, file, perm::READ));
    // Another removal finds nothing, and is no error.
    w.op(Op::RemoveXattr { ino: file, name: ACCESS.into() });
    let denied = as_user(&mut w, 11, set(file, ACCESS, value(7, 0, 7, 7)));
    assert_eq!(denied, Err(FsError::NotPermitted));
    w.assert_clean();
}
