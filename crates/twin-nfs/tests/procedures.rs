//! Each procedure over the model file system, and what a client may rely on.

use crate::common::{Client, Machine, export, place};
use core::net::IpAddr;
use twin_fs::{FileSystem, Op, Request, SetAttr, SetTime, Timestamp, XattrMode, mode};
use twin_nfs::rpc;
use twin_nfs::xdr::Writer;
use twin_nfs::{Network, Peer, Rules, Squash, Status, attrs, proc};

const STALE: u32 = Status::Stale as u32;
const EXISTS: u32 = Status::Exists as u32;
const NO_ENTRY: u32 = Status::NoEntry as u32;
const ACCESS: u32 = Status::Access as u32;

fn client() -> (Client, Vec<u8>) {
    let client = Machine::new().start();
    let root = client.mnt("/").unwrap();
    (client, root)
}

#[test]
fn what_is_written_is_read_back() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    let data: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    c.write(&file, 5, &data, 0).unwrap();
    let (read, eof) = c.read(&file, 0, 200_000).unwrap();
    assert_eq!((&read[..5], &read[5..], eof), (&[0; 5][..], &data[..], true));
    assert_eq!(c.read(&file, 1000, 7), Ok((data[995..1002].to_vec(), false)));
    assert_eq!(c.read(&file, 1 << 63, 7), Ok((vec![], true)));
    assert_eq!(c.getattr(&file).unwrap().size, 100_005);
    assert_eq!(c.getattr(&c.lookup(&root, b"f").unwrap()), c.getattr(&file));
}

#[test]
fn a_write_beyond_what_files_can_hold_is_too_big() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    for off in [u64::MAX, u64::MAX - 2, i64::MAX as u64] {
        assert_eq!(c.write(&file, off, b"abc", 2), Err(Status::FileTooBig as u32));
    }
    let set = SetAttr { size: Some(u64::MAX), ..SetAttr::default() };
    assert_eq!(c.setattr(&file, &set), Status::FileTooBig as u32);
}

#[test]
fn writes_say_how_durable_they_are_and_commit_has_their_verifier() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    let (committed, verifier) = c.write(&file, 0, b"a", 0).unwrap();
    assert_eq!(committed, 0);
    assert_eq!(c.write(&file, 0, b"a", 1), Ok((2, verifier)));
    assert_eq!(c.write(&file, 0, b"a", 2), Ok((2, verifier)));
    assert_eq!(c.commit(&file), Ok(verifier));
}

#[test]
fn the_verifier_changes_with_a_restart_and_with_a_loss() {
    let machine = Machine::new();
    let c = machine.start();
    let root = c.mnt("/").unwrap();
    let file = c.create(&root, b"f").unwrap();
    let first = c.commit(&file).unwrap();
    machine.losses.set(1);
    let second = c.commit(&file).unwrap();
    assert_ne!(first, second);
    assert_eq!(c.write(&file, 0, b"a", 0).unwrap().1, second);
    let third = machine.start().commit(&file).unwrap();
    assert!(![first, second].contains(&third));
}

#[test]
fn handles_outlive_the_server_and_end_with_the_file() {
    let machine = Machine::new();
    let before = machine.start();
    let root = before.mnt("/").unwrap();
    let file = before.create(&root, b"f").unwrap();
    let c = machine.start();
    assert_eq!(c.mnt("/"), Ok(root.clone()));
    assert!(c.getattr(&file).is_ok());
    assert_eq!(c.remove(&root, b"f"), 0);
    assert_eq!(c.getattr(&file), Err(STALE));
    assert_eq!(c.write(&file, 0, b"a", 0), Err(STALE));
}

/// What a volume that has failed removed in memory is there again after a restart.
#[test]
fn of_a_volume_that_has_failed_nobody_is_told_that_something_is_not_there() {
    let machine = Machine::new();
    let c = machine.start();
    let root = c.mnt("/").unwrap();
    let file = c.create(&root, b"f").unwrap();
    assert_eq!(c.remove(&root, b"f"), 0);
    machine.stopped.set(true);
    let io = Status::Io as u32;
    assert_eq!(c.getattr(&file), Err(io));
    assert_eq!(c.lookup(&root, b"f").map(drop), Err(io));
    assert_eq!(c.remove(&root, b"f"), io);
    machine.stopped.set(false);
    assert_eq!(c.getattr(&file), Err(STALE));
}

#[test]
fn a_forged_handle_is_no_handle() {
    let (c, root) = client();
    let mut forged = root.clone();
    forged[8] = 3;
    assert_eq!(c.getattr(&forged), Err(Status::BadHandle as u32));
    assert_eq!(c.getattr(&root[..31]), Err(Status::BadHandle as u32));
    assert_eq!(c.getattr(&[]), Err(Status::BadHandle as u32));
}

#[test]
fn a_repeated_call_is_executed_once_whatever_its_connection() {
    let (c, root) = client();
    c.create(&root, b"f").unwrap();
    let record = c.record(proc::NFS, proc::REMOVE, |w| place(w, &root, b"f"));
    let reply = c.send(&record).unwrap();
    let other = c.from(Peer { port: 1, ..Peer::LOCAL_ROOT });
    assert_eq!(other.send(&record), Some(reply));
    assert_eq!(c.remove(&root, b"f"), NO_ENTRY, "another call is another matter");
    assert_eq!(c.server.counters().repeated, 1);
}

#[test]
fn an_old_copy_of_a_write_does_not_undo_a_later_one() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    let old = c.record(proc::NFS, proc::WRITE, |w: &mut Writer| {
        w.opaque(&file);
        w.u64(0);
        w.u32(3);
        w.u32(0);
        w.opaque(b"old");
    });
    c.send(&old).unwrap();
    c.write(&file, 0, b"new", 0).unwrap();
    c.send(&old).unwrap();
    assert_eq!(c.read(&file, 0, 9), Ok((b"new".to_vec(), true)));
}

#[test]
fn an_exclusive_create_is_known_by_its_verifier_even_after_a_restart() {
    let machine = Machine::new();
    let c = machine.start();
    let root = c.mnt("/").unwrap();
    for verifier in [*b"verifier", [0xff; 8], [0; 8]] {
        let name = verifier.map(|b| b % 26 + b'a');
        let file = c.exclusive(&root, &name, verifier).unwrap();
        assert_eq!(machine.start().exclusive(&root, &name, verifier), Ok(file));
        assert_eq!(c.exclusive(&root, &name, *b"another!"), Err(EXISTS));
    }
}

#[test]
fn creating_takes_an_existing_file_unless_it_is_guarded() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    c.write(&file, 0, b"abc", 2).unwrap();
    assert_eq!(c.create(&root, b"f"), Err(EXISTS));
    let unchecked = |name: &[u8], size| {
        let args = |w: &mut Writer| {
            place(w, &root, name);
            w.u32(0);
            attrs::settings(w, &SetAttr { size, mode: Some(0o600), ..SetAttr::default() });
        };
        c.call(proc::CREATE, args).status()
    };
    assert_eq!(unchecked(b"f", None), 0);
    assert_eq!(c.getattr(&file).unwrap().size, 3);
    assert_eq!(unchecked(b"f", Some(0)), 0);
    assert_eq!(c.getattr(&file).unwrap().size, 0);
    assert_eq!(c.getattr(&file).unwrap().mode & 0o777, 0o644, "the mode stays");
    c.mkdir(&root, b"d").unwrap();
    assert_eq!(unchecked(b"d", None), Status::IsDirectory as u32);
    assert_eq!(unchecked(b"g", None), 0);
}

#[test]
fn the_guard_of_a_setattr_is_the_change_time() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    let guarded = |ctime: Timestamp| {
        let args = |w: &mut Writer| {
            w.opaque(&file);
            attrs::settings(w, &SetAttr { mode: Some(0o600), ..SetAttr::default() });
            w.flag(true);
            w.u32(ctime.secs as u32);
            w.u32(ctime.nanos);
        };
        c.call(proc::SETATTR, args).status()
    };
    let ctime = c.getattr(&file).unwrap().ctime;
    assert_eq!(guarded(Timestamp { nanos: ctime.nanos + 1, ..ctime }), Status::NotSync as u32);
    assert_eq!(c.getattr(&file).unwrap().mode & 0o777, 0o644);
    assert_eq!(guarded(ctime), 0);
    assert_eq!(c.getattr(&file).unwrap().mode & 0o777, 0o600);
}

#[test]
fn listings_have_every_name_once_in_any_size() {
    let (c, root) = client();
    let mut expected: Vec<Vec<u8>> = vec![b".".to_vec(), b"..".to_vec()];
    for n in 0..300 {
        let name = format!("{n}{}", "x".repeat(n % 240)).into_bytes();
        c.create(&root, &name).unwrap();
        expected.push(name);
    }
    expected.sort();
    for (count, plus) in
        [(600, false), (8192, false), (u32::MAX, false), (900, true), (u32::MAX, true)]
    {
        let mut names = c.names(&root, count, plus);
        names.sort();
        assert_eq!(names, expected, "{count} {plus}");
    }
    for count in [0, 100, 110] {
        assert_eq!(c.list(&root, 0, count, false), Err(Status::TooSmall as u32));
    }
}

#[test]
fn a_cookie_stays_valid_while_names_come_and_go() {
    let (c, root) = client();
    for n in 0..100 {
        c.create(&root, format!("{n:03}").as_bytes()).unwrap();
    }
    let (first, _) = c.list(&root, 0, 1000, false).unwrap();
    let cookie = first.last().unwrap().1;
    for (name, _) in first.iter().filter(|(name, _)| !name.starts_with(b".")) {
        assert_eq!(c.remove(&root, name), 0);
    }
    c.create(&root, b"new").unwrap();
    let (mut rest, mut at) = (Vec::new(), cookie);
    loop {
        let (entries, eof) = c.list(&root, at, 1000, true).unwrap();
        at = entries.last().map_or(at, |last| last.1);
        rest.extend(entries.into_iter().map(|entry| entry.0));
        if eof {
            break;
        }
    }
    let old = first.len() + rest.iter().filter(|name| *name != b"new").count();
    assert_eq!(old, 102, "every name that stayed is listed once");
}

#[test]
fn names_that_cannot_be_are_refused() {
    let (c, root) = client();
    c.mkdir(&root, b"d").unwrap();
    assert_eq!(c.create(&root, &[b'x'; 256]), Err(Status::NameTooLong as u32));
    for name in [&b""[..], b"a/b", b"/", b"a\0b"] {
        assert_eq!(c.create(&root, name), Err(Status::Invalid as u32), "{name:?}");
    }
    for name in [&b"."[..], b".."] {
        assert_eq!(c.create(&root, name), Err(EXISTS), "{name:?}");
        assert!(c.remove(&root, name) != 0);
        assert!(c.rename((&root, name), (&root, b"e")) != 0);
        assert!(c.rename((&root, b"d"), (&root, name)) != 0);
    }
    assert_eq!(c.lookup(&root, b".."), Ok(root.clone()), "the root is its own parent");
}

#[test]
fn links_and_special_files_are_made_and_described() {
    let (c, root) = client();
    let args = |w: &mut Writer| {
        place(w, &root, b"s");
        attrs::settings(w, &SetAttr::default());
        w.opaque(b"to/there");
    };
    assert_eq!(c.call(proc::SYMLINK, args).status(), 0);
    let link = c.lookup(&root, b"s").unwrap();
    let results = c.call(proc::READLINK, |w| w.opaque(&link));
    let mut r = results.reader();
    r.u32().unwrap();
    r.optional(attrs::read_attributes).unwrap();
    assert_eq!(r.opaque(99), Ok(&b"to/there"[..]));
    let device = |w: &mut Writer| {
        place(w, &root, b"c");
        w.u32(4);
        attrs::settings(w, &SetAttr { mode: Some(0o600), ..SetAttr::default() });
        w.u32(5);
        w.u32(1);
    };
    assert_eq!(c.call(proc::MKNOD, device).status(), 0);
    let attr = c.getattr(&c.lookup(&root, b"c").unwrap()).unwrap();
    assert_eq!((attr.mode, attr.rdev), (mode::CHAR | 0o600, attrs::join_device(5, 1)));
    let directory = |w: &mut Writer| {
        place(w, &root, b"x");
        w.u32(2);
    };
    assert_eq!(c.call(proc::MKNOD, directory).status(), Status::BadType as u32);
    let file = c.create(&root, b"f").unwrap();
    let hard = |w: &mut Writer| {
        w.opaque(&file);
        place(w, &root, b"g");
    };
    assert_eq!(c.call(proc::LINK, hard).status(), 0);
    assert_eq!(c.getattr(&file).unwrap().nlink, 2);
    assert_eq!(c.lookup(&root, b"g"), Ok(file));
}

#[test]
fn cache_consistency_data_is_that_before_and_after_the_change() {
    let (c, root) = client();
    let before = c.getattr(&root).unwrap();
    let results = c.call(proc::REMOVE, |w| place(w, &root, b"none"));
    let mut r = results.reader();
    r.u32().unwrap();
    let wcc = attrs::read_wcc(&mut r).unwrap();
    assert_eq!(wcc.before, Some((&before).into()));
    assert_eq!(wcc.after, Some(before.clone()));
    c.create(&root, b"f").unwrap();
    let results = c.call(proc::REMOVE, |w| place(w, &root, b"f"));
    let mut r = results.reader();
    assert_eq!(r.u32(), Ok(0));
    let wcc = attrs::read_wcc(&mut r).unwrap();
    assert!(wcc.before.unwrap().mtime > before.mtime);
    assert_eq!(wcc.after, c.getattr(&root).ok());
    assert!(wcc.after.unwrap().mtime > wcc.before.unwrap().mtime);
}

#[test]
fn rights_are_those_of_the_caller() {
    let (c, root) = client();
    let file = c.create(&root, b"f").unwrap();
    let bob = c.as_user(7);
    assert_eq!(bob.create(&root, b"g"), Err(ACCESS));
    assert_eq!(bob.write(&file, 0, b"a", 0), Err(ACCESS));
    assert_eq!(bob.read(&file, 0, 1), Ok((vec![], true)));
    let own = SetAttr { uid: Some(7), mode: Some(0), ..SetAttr::default() };
    assert_eq!(c.setattr(&file, &own), 0);
    assert!(bob.write(&file, 0, b"a", 0).is_ok(), "the owner keeps what an open gave");
    assert_eq!(c.as_user(8).read(&file, 0, 1), Err(ACCESS));
    let asked = |client: &Client, handle: &[u8]| {
        let results = client.call(proc::ACCESS, |w| {
            w.opaque(handle);
            w.u32(0x3f);
        });
        let mut r = results.reader();
        r.u32().unwrap();
        r.optional(attrs::read_attributes).unwrap();
        r.u32().unwrap()
    };
    assert_eq!(asked(&c, &root), 1 | 2 | 4 | 8 | 16);
    assert_eq!(asked(&bob, &root), 1 | 2);
    assert_eq!(asked(&bob, &file), 0);
}

/// Owner, user 7, owning group, mask and others.
fn acl(user: u16, mask: u16) -> Box<[u8]> {
    let entries = [(1u16, 7u16, 0u32), (2, user, 7), (4, 0, 0), (0x10, mask, 0), (0x20, 0, 0)];
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend([tag.to_le_bytes(), perm.to_le_bytes()].concat());
        value.extend(id.to_le_bytes());
    }
    value.into()
}

#[test]
fn acls_decide_what_callers_may_do_and_are_inherited() {
    let machine = Machine::new();
    let c = machine.start();
    let root = c.mnt("/").unwrap();
    let dir = c.mkdir(&root, b"d").unwrap();
    let ino = c.getattr(&dir).unwrap().ino;
    for (name, value) in [(twin_fs::acl::ACCESS, acl(7, 7)), (twin_fs::acl::DEFAULT, acl(6, 7))] {
        let op = Op::SetXattr { ino, name: name.into(), value, mode: XattrMode::Any };
        machine.rt.block_on(machine.fs.execute(Request::root(1, op))).unwrap().unwrap();
    }
    let (bob, eve) = (c.as_user(7), c.as_user(8));
    assert_eq!(eve.create(&dir, b"f"), Err(ACCESS));
    let file = bob.make(proc::CREATE, &dir, b"f", 0o640).unwrap();
    assert_eq!(c.getattr(&file).unwrap().mode & 0o777, 0o640);
    let mine = c.make(proc::CREATE, &dir, b"g", 0o664).unwrap();
    // The permission bits alone would refuse both.
    assert!(bob.write(&mine, 0, b"a", 0).is_ok());
    assert_eq!(bob.read(&mine, 0, 1), Ok((b"a".to_vec(), true)));
    assert_eq!(eve.read(&mine, 0, 1), Err(ACCESS));
    let chmod = SetAttr { mode: Some(0o640), ..SetAttr::default() };
    assert_eq!(c.setattr(&mine, &chmod), 0);
    assert_eq!(bob.write(&mine, 0, b"a", 0), Err(ACCESS), "the mask is the group's bits");
    assert!(bob.read(&mine, 0, 1).is_ok());
}

#[test]
fn a_read_only_export_changes_nothing() {
    let machine = Machine::new();
    let writer = machine.start();
    let root = writer.mnt("/").unwrap();
    writer.create(&root, b"f").unwrap();
    let c = machine.serve(vec![export("/", Rules { read_only: true, ..Rules::default() })]);
    let root = c.mnt("/").unwrap();
    let file = c.lookup(&root, b"f").unwrap();
    let read_only = Status::ReadOnly as u32;
    assert_eq!(c.write(&file, 0, b"a", 0), Err(read_only));
    assert_eq!(c.create(&root, b"g"), Err(read_only));
    assert_eq!(c.remove(&root, b"f"), read_only);
    assert_eq!(c.rename((&root, b"f"), (&root, b"g")), read_only);
    assert_eq!(c.setattr(&file, &SetAttr { size: Some(0), ..SetAttr::default() }), read_only);
}

#[test]
fn only_what_the_rules_allow_comes_in_at_each_call() {
    let machine = Machine::new();
    let from = vec![Network::parse("192.0.2.0/24").unwrap()];
    let c = machine
        .serve(vec![export("/", Rules { from, squash: Squash::Nothing, ..Rules::default() })]);
    let address = |text: &str| text.parse::<IpAddr>().unwrap().into();
    let friend = c.from(Peer { address: address("192.0.2.9"), port: 4000 });
    let root = friend.mnt("/").unwrap();
    for other in ["127.0.0.1", "192.0.3.9", "2001:db8::1"] {
        let stranger = c.from(Peer { address: address(other), port: 1 });
        assert_eq!(stranger.mnt("/"), Err(ACCESS));
        assert_eq!(stranger.getattr(&root), Err(ACCESS), "with the handle of a friend");
    }
    assert_eq!(c.server.counters().forbidden, 6);
    assert_eq!(friend.mnt("/nothing"), Err(NO_ENTRY));
}

#[test]
fn no_name_and_no_handle_leads_out_of_an_export() {
    let machine = Machine::new();
    let all = machine.serve(vec![
        export("/", Rules::default()),
        export("/pub", Rules { from_all: true, ..Rules::default() }),
    ]);
    let root = all.mnt("/").unwrap();
    let public = all.mkdir(&root, b"pub").unwrap();
    let inner = all.mkdir(&public, b"in").unwrap();
    all.mkdir(&root, b"secret").unwrap();
    let far = Peer { address: "192.0.2.9".parse::<IpAddr>().unwrap().into(), port: 1 };
    let c = all.from(far);
    assert_eq!(c.mnt("/"), Err(ACCESS));
    assert_eq!(c.mnt("/secret"), Err(ACCESS));
    assert_eq!(c.mnt("/pub/../secret"), Err(Status::Invalid as u32));
    assert_eq!(c.getattr(&inner), Err(ACCESS), "a handle of the other export");
    let top = c.mnt("/pub").unwrap();
    assert_eq!(c.lookup(&top, b".."), Ok(top.clone()));
    let inside = c.lookup(&top, b"in").unwrap();
    assert_eq!(c.lookup(&inside, b".."), Ok(top.clone()));
    // Moved out, the way up leads elsewhere.
    let secret = all.lookup(&root, b"secret").unwrap();
    assert_eq!(all.rename((&public, b"in"), (&secret, b"in")), 0);
    assert_eq!(c.lookup(&inside, b".."), Err(ACCESS));
    // Names do not pass from one export to the other.
    let own = all.lookup(&root, b"pub").unwrap();
    all.create(&own, b"f").unwrap();
    let top = all.mnt("/pub").unwrap();
    assert_eq!(all.rename((&top, b"f"), (&root, b"f")), Status::CrossDevice as u32);
}

#[test]
fn what_is_asked_wrongly_gets_an_error_of_rpc() {
    let (c, root) = client();
    let refused = |record: &[u8]| {
        let reply = c.send(record).unwrap();
        rpc::parse_reply(&reply).unwrap().1.is_none()
    };
    assert!(refused(&c.record(proc::NFS, 22, |_| {})));
    assert!(refused(&c.record(100_021, 0, |_| {})), "there is no lock manager");
    assert!(refused(&c.record(proc::MOUNT, 9, |_| {})));
    let full = c.record(proc::NFS, proc::RENAME, |w| {
        place(w, &root, b"a");
        place(w, &root, b"b");
    });
    for len in 8..full.len() {
        assert!(refused(&full[..len]), "{len}");
    }
    let mut long = full.clone();
    long.extend_from_slice(&[0; 4]);
    assert!(refused(&long));
    assert_eq!(c.send(&full[..7]), None);
    let counters = c.server.counters();
    assert_eq!((counters.refused, counters.nonsense), (full.len() as u64 - 8 + 4, 1));
}

#[test]
fn the_volume_is_described() {
    let (c, root) = client();
    for (procedure, len) in [
        (proc::FSSTAT, 4 + 4 + 84 + 52),
        (proc::FSINFO, 4 + 4 + 84 + 48),
        (proc::PATHCONF, 4 + 4 + 84 + 24),
    ] {
        let results = c.call(procedure, |w| w.opaque(&root));
        let mut r = results.reader();
        assert_eq!(r.u32(), Ok(0));
        assert!(r.fixed(len - 4).is_ok(), "{procedure}");
        assert!(r.end().is_ok(), "{procedure}");
    }
    let record = c.record(proc::PORTMAP, proc::portmap::GETPORT, |w| {
        [proc::NFS, 3, 6, 0].iter().for_each(|&word| w.u32(word));
    });
    c.server.set_port(4711);
    assert_eq!(c.results(&record).status(), 4711);
}

#[test]
fn no_reference_is_left_behind() {
    let machine = Machine::new();
    let c = machine.start();
    let root = c.mnt("/").unwrap();
    let file = c.create(&root, b"f").unwrap();
    c.exclusive(&root, b"x", [1; 8]).unwrap();
    let _ = c.create(&root, b"f");
    c.names(&root, 8192, true);
    c.write(&file, 0, b"abc", 2).unwrap();
    c.setattr(&file, &SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() });
    c.rename((&root, b"f"), (&root, b"g"));
    c.mnt("/").unwrap();
    for name in [&b"g"[..], b"x"] {
        assert_eq!(c.remove(&root, name), 0);
    }
    // An inode that is referenced outlives its names.
    assert_eq!(machine.fs.snapshot().inode_count(), 1);
}
