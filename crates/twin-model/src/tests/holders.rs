//! How long inodes live: references, opens, removal, crashes; and extended attributes.

use super::*;
use twin_fs::XattrMode;

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.write(f, 0, b"still here");
    b.done(Op::Open { ino: f, read: true, write: true, truncate: false });
    b.done(Op::Unlink { dir: ROOT, name: n("f") });
    b.done(Op::Forget { ino: f, count: 1 });
    assert_eq!(b.attr(f).nlink, 0);
    assert_eq!(b.read(f, 0, 100), b"still here");
    b.fails(Op::Link { ino: f, dir: ROOT, name: n("g") }, FsError::NotFound);
    b.done(Op::Release { ino: f });
    b.fails(Op::GetAttr { ino: f }, FsError::Stale);
    assert_eq!(b.model.inode_count(), 1);
}

#[test]
fn every_entry_in_a_reply_is_a_reference() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.lookup(ROOT, "f").unwrap();
    let plus = Op::ReadDir { dir: ROOT, cookie: 0, max_bytes: 9999, plus: true };
    let Ok(Reply::Dir(list)) = b.ask(plus) else { panic!("no listing") };
    assert!(list[0].entry.is_none() && list[1].entry.is_none() && list[2].entry.is_some());
    b.done(Op::Unlink { dir: ROOT, name: n("f") });
    b.done(Op::Forget { ino: f, count: 2 });
    assert_eq!(b.attr(f).ino, f);
    b.done(Op::Forget { ino: f, count: 1 });
    b.fails(Op::GetAttr { ino: f }, FsError::Stale);
    b.done(Op::Forget { ino: f, count: 1 });
}

#[test]
fn a_removed_directory_has_no_names_and_takes_none() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    b.done(Op::RemoveDir { dir: ROOT, name: n("d") });
    assert_eq!(b.attr(d).nlink, 0);
    b.fails(Op::MakeDir { dir: d, name: n("x"), mode: 0 }, FsError::NotFound);
    b.fails(Op::Lookup { dir: d, name: n("..") }, FsError::NotFound);
    let list = Op::ReadDir { dir: d, cookie: 0, max_bytes: 999, plus: false };
    b.fails(list, FsError::NotFound);
    b.file(ROOT, "f");
    assert_eq!(b.rename((ROOT, "f"), (d, "f")), Err(FsError::NotFound));
}

#[test]
fn a_crash_ends_what_only_clients_held() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    let kept = b.file(ROOT, "kept");
    b.done(Op::Open { ino: f, read: true, write: false, truncate: false });
    b.done(Op::Unlink { dir: ROOT, name: n("f") });
    b.model.crash();
    b.fails(Op::GetAttr { ino: f }, FsError::Stale);
    b.done(Op::Unlink { dir: ROOT, name: n("kept") });
    b.fails(Op::GetAttr { ino: kept }, FsError::Stale);
}

fn set(ino: Ino, name: &str, value: &[u8], mode: XattrMode) -> Op {
    Op::SetXattr { ino, name: n(name), value: value.into(), mode }
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.done(set(f, "user.b", b"2", XattrMode::Any));
    b.done(set(f, "user.a", b"1", XattrMode::Create));
    let at = b.now();
    assert_eq!(b.attr(f).ctime, at);
    assert_eq!(b.ask(Op::ListXattr { ino: f }), Ok(Reply::Bytes((*b"user.a\0user.b\0").into())));
    b.fails(set(f, "user.a", b"x", XattrMode::Create), FsError::Exists);
    b.fails(set(f, "user.c", b"x", XattrMode::Replace), FsError::NoAttribute);
    b.done(set(f, "user.a", b"new", XattrMode::Replace));
    let get = |name| Op::GetXattr { ino: f, name: n(name) };
    assert_eq!(b.ask(get("user.a")), Ok(Reply::Bytes((*b"new").into())));
    b.done(Op::RemoveXattr { ino: f, name: n("user.a") });
    b.fails(get("user.a"), FsError::NoAttribute);
    b.fails(Op::RemoveXattr { ino: f, name: n("user.a") }, FsError::NoAttribute);
}

#[test]
fn extended_attributes_have_limits() {
    let mut b = Bench::new(Settings { xattr_total_max: 100, ..Settings::default() });
    let f = b.file(ROOT, "f");
    b.fails(set(f, "user.a", &[0; 65_537], XattrMode::Any), FsError::AttributesTooBig);
    b.done(set(f, "user.a", &[0; 90], XattrMode::Any));
    b.fails(set(f, "user.b", &[0; 5], XattrMode::Any), FsError::AttributesTooBig);
    b.done(set(f, "user.a", &[0; 94], XattrMode::Any));
    b.fails(set(f, "user.a", &[0; 95], XattrMode::Any), FsError::AttributesTooBig);
}

#[test]
fn users_do_not_see_trusted_attributes() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.done(set(f, "trusted.t", b"1", XattrMode::Any));
    b.done(set(f, "user.u", b"1", XattrMode::Any));
    b.cred = Cred::user(5, 6);
    assert_eq!(b.ask(Op::ListXattr { ino: f }), Ok(Reply::Bytes((*b"user.u\0").into())));
    b.fails(Op::GetXattr { ino: f, name: n("trusted.t") }, FsError::NoAttribute);
}
