//! Names: making, finding, removing, moving, listing.

use super::*;
use twin_fs::perm;

#[test]
fn a_new_file_is_found_and_has_the_time_of_its_making() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    let made = b.now();
    assert_eq!(b.lookup(ROOT, "f"), Ok(f));
    let attr = b.attr(f);
    assert_eq!((attr.nlink, attr.size, attr.blocks), (1, 0, 0));
    assert_eq!((attr.atime, attr.mtime, attr.ctime, attr.btime), (made, made, made, made));
    let root = b.attr(ROOT);
    assert_eq!((root.mtime, root.ctime), (made, made));
    assert_eq!(root.atime, Timestamp::default());
}

#[test]
fn directories_count_their_subdirectories() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    assert_eq!((b.attr(ROOT).nlink, b.attr(d).nlink), (3, 2));
    b.dir(d, "e");
    b.file(d, "f");
    assert_eq!(b.attr(d).nlink, 3);
    b.done(Op::RemoveDir { dir: d, name: n("e") });
    assert_eq!(b.attr(d).nlink, 2);
}

#[test]
fn dots_lead_to_the_directory_and_its_parent() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    let e = b.dir(d, "e");
    assert_eq!(b.lookup(e, "."), Ok(e));
    assert_eq!(b.lookup(e, ".."), Ok(d));
    assert_eq!(b.lookup(ROOT, ".."), Ok(ROOT));
    assert_eq!(b.rename((d, "e"), (ROOT, "e")), Ok(Reply::Done));
    assert_eq!(b.lookup(e, ".."), Ok(ROOT));
}

#[test]
fn impossible_names_are_refused() {
    let mut b = Bench::bytes();
    for name in ["", "a/b", "a\0b"] {
        b.invalid(Op::MakeDir { dir: ROOT, name: n(name), mode: 0o777 });
    }
    let long = "x".repeat(256);
    b.fails(Op::Lookup { dir: ROOT, name: n(&long) }, FsError::NameTooLong);
    b.file(ROOT, &long[..255]);
    for name in [".", ".."] {
        b.fails(Op::MakeDir { dir: ROOT, name: n(name), mode: 0 }, FsError::Exists);
        b.fails(Op::Unlink { dir: ROOT, name: n(name) }, FsError::IsDirectory);
        assert!(matches!(b.rename((ROOT, name), (ROOT, "x")), Err(FsError::Invalid(_))));
    }
    b.invalid(Op::RemoveDir { dir: ROOT, name: n(".") });
    b.fails(Op::RemoveDir { dir: ROOT, name: n("..") }, FsError::NotEmpty);
}

#[test]
fn the_kinds_of_what_is_removed_matter() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    b.file(d, "f");
    b.fails(Op::Unlink { dir: ROOT, name: n("d") }, FsError::IsDirectory);
    b.fails(Op::RemoveDir { dir: d, name: n("f") }, FsError::NotDirectory);
    b.fails(Op::RemoveDir { dir: ROOT, name: n("d") }, FsError::NotEmpty);
    b.fails(Op::Unlink { dir: ROOT, name: n("x") }, FsError::NotFound);
    let f = b.lookup(d, "f").unwrap();
    b.fails(Op::Lookup { dir: f, name: n("x") }, FsError::NotDirectory);
}

#[test]
fn creating_what_exists_opens_it_unless_it_must_be_new() {
    let mut b = Bench::bytes();
    let create = |exclusive| Op::Create { dir: ROOT, name: n("f"), mode: 0o600, exclusive };
    let f = b.entry(create(true));
    b.fails(create(true), FsError::Exists);
    assert_eq!(b.entry(create(false)), f);
    b.done(Op::Release { ino: f });
    b.done(Op::Release { ino: f });
    b.invalid(Op::Release { ino: f });
    b.dir(ROOT, "d");
    let dir = Op::Create { dir: ROOT, name: n("d"), mode: 0o600, exclusive: false };
    b.fails(dir, FsError::IsDirectory);
}

#[test]
fn a_second_name_shares_the_inode() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.link(f, ROOT, "g");
    let linked = b.now();
    assert_eq!(b.lookup(ROOT, "g"), Ok(f));
    let attr = b.attr(f);
    assert_eq!((attr.nlink, attr.ctime), (2, linked));
    assert_ne!(attr.mtime, linked);
    b.done(Op::Unlink { dir: ROOT, name: n("f") });
    let unlinked = b.now();
    assert_eq!((b.attr(f).nlink, b.attr(f).ctime), (1, unlinked));
    b.fails(Op::Link { ino: f, dir: ROOT, name: n("g") }, FsError::Exists);
    let d = b.dir(ROOT, "d");
    b.fails(Op::Link { ino: d, dir: ROOT, name: n("e") }, FsError::NotPermitted);
}

#[test]
fn links_and_subdirectories_have_a_limit() {
    let mut b = Bench::new(Settings { link_max: 3, ..Settings::default() });
    let f = b.file(ROOT, "f");
    b.link(f, ROOT, "g");
    b.link(f, ROOT, "h");
    b.fails(Op::Link { ino: f, dir: ROOT, name: n("i") }, FsError::TooManyLinks);
    let d = b.dir(ROOT, "d");
    b.fails(Op::MakeDir { dir: ROOT, name: n("e"), mode: 0 }, FsError::TooManyLinks);
    b.dir(d, "e");
    assert_eq!(b.rename((d, "e"), (ROOT, "e")), Err(FsError::TooManyLinks));
    assert_eq!(b.rename((d, "e"), (d, "x")), Ok(Reply::Done));
    assert_eq!(b.rename((d, "x"), (ROOT, "d")), Err(FsError::NotEmpty));
}

#[test]
fn symbolic_links_keep_their_target() {
    let mut b = Bench::bytes();
    let link = |target: &[u8]| Op::Symlink { dir: ROOT, name: n("l"), target: target.into() };
    b.fails(link(b""), FsError::NotFound);
    b.fails(link(&[b'x'; 4096]), FsError::NameTooLong);
    let l = b.entry(link(&[b'x'; 4095]));
    assert_eq!(b.ask(Op::ReadLink { ino: l }), Ok(Reply::Bytes([b'x'; 4095].into())));
    let attr = b.attr(l);
    assert_eq!((attr.size, attr.mode), (4095, mode::SYMLINK | 0o777));
    b.invalid(Op::ReadLink { ino: ROOT });
}

#[test]
fn special_files_keep_their_kind_and_devices_their_number() {
    let mut b = Bench::bytes();
    for (kind, rdev) in
        [(mode::FIFO, 0), (mode::SOCKET, 0), (mode::CHAR, 0x103), (mode::BLOCK, 0x800)]
    {
        let name = n(&format!("{kind:o}"));
        let ino = b.entry(Op::MakeNode { dir: ROOT, name, mode: kind | 0o640, rdev: 0x100 | rdev });
        let expected = if matches!(kind, mode::CHAR | mode::BLOCK) { 0x100 | rdev } else { 0 };
        assert_eq!((b.attr(ino).mode, b.attr(ino).rdev), (kind | 0o640, expected));
    }
}

#[test]
fn renaming_moves_the_name_and_marks_all_it_touches() {
    let mut b = Bench::bytes();
    let (d, e) = (b.dir(ROOT, "d"), b.dir(ROOT, "e"));
    let f = b.file(d, "f");
    let made = b.now();
    assert_eq!(b.rename((d, "f"), (e, "g")), Ok(Reply::Done));
    let moved = b.now();
    assert_eq!((b.lookup(d, "f"), b.lookup(e, "g")), (Err(FsError::NotFound), Ok(f)));
    assert_eq!((b.attr(f).ctime, b.attr(f).mtime), (moved, made));
    for dir in [d, e] {
        assert_eq!((b.attr(dir).mtime, b.attr(dir).ctime), (moved, moved));
    }
}

#[test]
fn renaming_over_a_file_removes_it() {
    let mut b = Bench::bytes();
    let (f, g) = (b.file(ROOT, "f"), b.file(ROOT, "g"));
    b.link(g, ROOT, "h");
    assert_eq!(b.rename((ROOT, "f"), (ROOT, "g")), Ok(Reply::Done));
    let moved = b.now();
    assert_eq!((b.lookup(ROOT, "g"), b.lookup(ROOT, "f")), (Ok(f), Err(FsError::NotFound)));
    assert_eq!((b.attr(g).nlink, b.attr(g).ctime), (1, moved));
}

#[test]
fn renaming_over_another_name_of_the_same_inode_does_nothing() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.link(f, ROOT, "g");
    let before = b.model.dump();
    assert_eq!(b.rename((ROOT, "f"), (ROOT, "g")), Ok(Reply::Done));
    assert_eq!(b.rename((ROOT, "f"), (ROOT, "f")), Ok(Reply::Done));
    let exchanged = b.rename_as((ROOT, "f"), (ROOT, "g"), RenameMode::Exchange);
    assert_eq!(exchanged, Ok(Reply::Done));
    assert_eq!(b.model.dump(), before);
    let kept = b.rename_as((ROOT, "f"), (ROOT, "g"), RenameMode::NoReplace);
    assert_eq!(kept, Err(FsError::Exists));
}

#[test]
fn directories_replace_empty_directories_only() {
    let mut b = Bench::bytes();
    let (d, e) = (b.dir(ROOT, "d"), b.dir(ROOT, "e"));
    b.file(ROOT, "f");
    b.file(e, "inside");
    assert_eq!(b.rename((ROOT, "d"), (ROOT, "e")), Err(FsError::NotEmpty));
    assert_eq!(b.rename((ROOT, "d"), (ROOT, "f")), Err(FsError::NotDirectory));
    assert_eq!(b.rename((ROOT, "f"), (ROOT, "d")), Err(FsError::IsDirectory));
    b.done(Op::Unlink { dir: e, name: n("inside") });
    assert_eq!(b.rename((ROOT, "d"), (ROOT, "e")), Ok(Reply::Done));
    assert_eq!((b.lookup(ROOT, "e"), b.attr(ROOT).nlink, b.attr(e).nlink), (Ok(d), 3, 0));
}

#[test]
fn a_directory_cannot_move_into_itself() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    let e = b.dir(d, "e");
    for target in [d, e] {
        assert!(matches!(b.rename((ROOT, "d"), (target, "x")), Err(FsError::Invalid(_))));
    }
    assert_eq!(b.rename((d, "e"), (ROOT, "d")), Err(FsError::NotEmpty));
    let exchange = b.rename_as((d, "e"), (ROOT, "d"), RenameMode::Exchange);
    assert!(matches!(exchange, Err(FsError::Invalid(_))));
}

#[test]
fn exchanged_names_may_differ_in_kind_and_links_follow() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    let (e, f) = (b.dir(d, "e"), b.file(ROOT, "f"));
    let missing = b.rename_as((ROOT, "f"), (d, "x"), RenameMode::Exchange);
    assert_eq!(missing, Err(FsError::NotFound));
    let done = b.rename_as((ROOT, "f"), (d, "e"), RenameMode::Exchange);
    assert_eq!(done, Ok(Reply::Done));
    let at = b.now();
    assert_eq!((b.lookup(ROOT, "f"), b.lookup(d, "e")), (Ok(e), Ok(f)));
    assert_eq!(b.lookup(e, ".."), Ok(ROOT));
    assert_eq!((b.attr(ROOT).nlink, b.attr(d).nlink), (4, 2));
    for ino in [ROOT, d, e, f] {
        assert_eq!(b.attr(ino).ctime, at);
    }
}

#[test]
fn a_whiteout_stays_where_the_name_was() {
    let mut b = Bench::bytes();
    let open = SetAttr { mode: Some(0o777), ..SetAttr::default() };
    b.ask(Op::SetAttr { ino: ROOT, set: open }).unwrap();
    b.cred = Cred::user(5, 6);
    let d = b.dir(ROOT, "d");
    let done = b.rename_as((ROOT, "d"), (ROOT, "e"), RenameMode::Whiteout);
    assert_eq!(done, Ok(Reply::Done));
    assert_eq!(b.lookup(ROOT, "e"), Ok(d));
    let w = b.lookup(ROOT, "d").unwrap();
    let attr = b.attr(w);
    assert_eq!((attr.mode, attr.rdev, attr.nlink), (mode::CHAR, 0, 1));
    assert_eq!((attr.uid, attr.gid), (5, 6));
    assert_eq!(b.attr(ROOT).nlink, 3);
}

#[test]
fn a_stand_in_number_becomes_the_real_one_when_a_reply_names_it() {
    let mut b = Bench::bytes();
    let f = b.file(ROOT, "f");
    b.rename_as((ROOT, "f"), (ROOT, "g"), RenameMode::Whiteout).unwrap();
    let lookup = Request::root(9, Op::Lookup { dir: ROOT, name: n("f") });
    // A number in use cannot be it.
    assert!(b.model.apply_with_ino(Time(0), &lookup, Some(f)).is_ok());
    assert_ne!(b.lookup(ROOT, "f"), Ok(f));
    let reply = b.model.apply_with_ino(Time(0), &lookup, Some(77)).unwrap();
    assert!(matches!(reply, Reply::Entry(entry) if entry.attr.ino == 77));
    assert_eq!(b.lookup(ROOT, "f"), Ok(77));
    assert_eq!(b.model.dump().contradiction(), None);
}

#[test]
fn listings_begin_with_dots_and_go_on_from_cookies() {
    let mut b = Bench::bytes();
    for i in 0..50 {
        b.file(ROOT, &format!("file{i}"));
    }
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let op = Op::ReadDir { dir: ROOT, cookie, max_bytes: 200, plus: false };
        let Ok(Reply::Dir(list)) = b.ask(op) else { panic!("no listing") };
        let Some(last) = list.last() else { break };
        // 24 and a name of up to 8 bytes: six fit into 200.
        assert!(list.len() <= 6);
        cookie = last.next;
        names.extend(list.into_iter().map(|entry| entry.name));
        // Removing what was listed must not disturb the rest.
        let gone = names.last().unwrap().clone();
        b.done(Op::Unlink { dir: ROOT, name: gone });
    }
    assert_eq!((&names[0], &names[1]), (&n("."), &n("..")));
    let mut files: Vec<Name> = names[2..].to_vec();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 50);
    b.invalid(Op::ReadDir { dir: ROOT, cookie: 0, max_bytes: 31, plus: false });
}

#[test]
fn a_name_that_is_replaced_keeps_its_place_in_the_listing() {
    let mut b = Bench::bytes();
    for name in ["a", "b", "c"] {
        b.file(ROOT, name);
    }
    b.rename((ROOT, "c"), (ROOT, "a")).unwrap();
    let op = Op::ReadDir { dir: ROOT, cookie: 0, max_bytes: 999, plus: false };
    let Ok(Reply::Dir(list)) = b.ask(op) else { panic!("no listing") };
    let names: Vec<&[u8]> = list.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, [&b"."[..], b"..", b"a", b"b"]);
}

#[test]
fn users_are_held_to_the_rules() {
    let mut b = Bench::bytes();
    let d = b.dir(ROOT, "d");
    b.file(d, "f");
    let closed = SetAttr { mode: Some(0o1777), ..SetAttr::default() };
    b.ask(Op::SetAttr { ino: d, set: closed }).unwrap();
    b.cred = Cred::user(5, 6);
    b.fails(Op::MakeDir { dir: ROOT, name: n("x"), mode: 0 }, FsError::Access);
    b.fails(Op::Unlink { dir: d, name: n("f") }, FsError::NotPermitted);
    b.file(d, "mine");
    b.done(Op::Unlink { dir: d, name: n("mine") });
    b.fails(Op::Access { ino: ROOT, mask: perm::WRITE }, FsError::Access);
    b.done(Op::Access { ino: ROOT, mask: perm::READ | perm::EXECUTE });
    let device = Op::MakeNode { dir: d, name: n("v"), mode: mode::BLOCK, rdev: 1 };
    b.fails(device, FsError::NotPermitted);
}
