//! Tests of [`super`]; each test covers one rule.

use super::*;

const OWNER: u32 = 10;
const GROUP: u32 = 20;
const NOW: Timestamp = Timestamp { secs: 99, nanos: 1 };

fn inode(mode: u32) -> Attr {
    Attr { ino: 5, mode, uid: OWNER, gid: GROUP, nlink: 1, ..Attr::default() }
}

fn file(permissions: u32) -> Attr {
    inode(mode::REGULAR | permissions)
}

fn dir(permissions: u32) -> Attr {
    inode(mode::DIRECTORY | permissions)
}

fn owner() -> Cred {
    Cred::user(OWNER, 77)
}

fn member() -> Cred {
    Cred { groups: Box::new([5, GROUP]), ..Cred::user(11, 78) }
}

fn stranger() -> Cred {
    Cred::user(12, 79)
}

fn checked(cred: Cred) -> Cred {
    Cred { checked: true, ..cred }
}

#[test]
fn the_first_class_that_fits_decides() {
    for mask in 0..8 {
        for bits in 0..8 {
            let fits = bits & mask == mask;
            assert_eq!(allows(&file(bits << 6), &owner(), mask), fits);
            assert_eq!(allows(&file(bits << 3), &member(), mask), fits);
            assert_eq!(allows(&file(bits), &stranger(), mask), fits);
            // The bits for others do not apply to the owner and the group.
            assert_eq!(allows(&file(bits), &owner(), mask), mask == 0);
            assert_eq!(allows(&file(bits), &member(), mask), mask == 0);
            assert_eq!(allows(&file(bits << 3), &owner(), mask), mask == 0);
        }
    }
}

#[test]
fn root_reads_and_writes_all_but_executes_only_what_someone_may() {
    let root = Cred::root();
    assert!(allows(&file(0), &root, READ | WRITE));
    assert!(!allows(&file(0o666), &root, EXECUTE));
    assert!(allows(&file(0o001), &root, EXECUTE));
    assert!(allows(&dir(0), &root, READ | WRITE | EXECUTE));
}

#[test]
fn checked_credentials_skip_the_bits_only() {
    let cred = checked(stranger());
    assert_eq!(access(&file(0), &cred, READ | WRITE), Ok(()));
    assert!(!allows(&file(0), &cred, READ));
    let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
    assert_eq!(set_attr(&file(0), &cred, &set, NOW), Err(FsError::NotPermitted));
    let mut sticky = dir(0o1777);
    sticky.uid = 0;
    let denied = may_delete(&sticky, &file(0), &cred, Victim::NotDirectory);
    assert_eq!(denied, Err(FsError::NotPermitted));
}

#[test]
fn sticky_lets_owner_of_file_or_directory_or_root_delete() {
    let sticky = Attr { uid: 1, ..dir(0o1777) };
    let not_dir = Victim::NotDirectory;
    assert_eq!(may_delete(&sticky, &file(0), &owner(), not_dir), Ok(()));
    assert_eq!(may_delete(&sticky, &file(0), &Cred::user(1, 1), not_dir), Ok(()));
    assert_eq!(may_delete(&sticky, &file(0), &Cred::root(), not_dir), Ok(()));
    assert_eq!(may_delete(&sticky, &file(0), &stranger(), not_dir), Err(FsError::NotPermitted));
    let loose = Attr { uid: 1, ..dir(0o777) };
    assert_eq!(may_delete(&loose, &file(0), &stranger(), not_dir), Ok(()));
}

#[test]
fn deleting_checks_bits_then_sticky_then_kind() {
    let closed = Attr { uid: 1, ..dir(0o1555) };
    let victim = dir(0o777);
    assert_eq!(
        may_delete(&closed, &victim, &stranger(), Victim::NotDirectory),
        Err(FsError::Access)
    );
    let open = Attr { uid: 1, ..dir(0o1777) };
    assert_eq!(
        may_delete(&open, &victim, &stranger(), Victim::NotDirectory),
        Err(FsError::NotPermitted)
    );
    let root = Cred::root();
    assert_eq!(may_delete(&open, &victim, &root, Victim::NotDirectory), Err(FsError::IsDirectory));
    assert_eq!(may_delete(&open, &file(0), &root, Victim::Directory), Err(FsError::NotDirectory));
}

fn sides<'a>(from: &'a Attr, source: &'a Attr, to: &'a Attr) -> RenameSides<'a> {
    RenameSides { from_dir: from, source, to_dir: to, target: None, exchange: false }
}

#[test]
fn a_directory_that_changes_its_parent_must_be_writable() {
    let (from, to) = (dir(0o777), Attr { ino: 6, ..dir(0o777) });
    let moved = Attr { ino: 7, ..dir(0o555) };
    assert_eq!(may_rename(&sides(&from, &moved, &to), &owner()), Err(FsError::Access));
    assert_eq!(may_rename(&sides(&from, &moved, &from), &owner()), Ok(()));
    assert_eq!(may_rename(&sides(&from, &file(0o444), &to), &owner()), Ok(()));
    assert_eq!(may_rename(&sides(&from, &moved, &to), &Cred::root()), Ok(()));
}

#[test]
fn an_exchanged_directory_must_be_writable_too() {
    let (from, to) = (dir(0o777), Attr { ino: 6, ..dir(0o777) });
    let (source, target) = (file(0o644), Attr { ino: 8, ..dir(0o555) });
    let sides = RenameSides { target: Some(&target), exchange: true, ..sides(&from, &source, &to) };
    assert_eq!(may_rename(&sides, &owner()), Err(FsError::Access));
    let same = RenameSides { to_dir: &from, ..sides };
    assert_eq!(may_rename(&same, &owner()), Ok(()));
    let replace = RenameSides { exchange: false, ..same };
    assert_eq!(may_rename(&replace, &owner()), Err(FsError::IsDirectory));
}

#[test]
fn sticky_guards_both_sides_of_a_rename() {
    let sticky = Attr { uid: 1, ino: 6, ..dir(0o1777) };
    let open = Attr { uid: 1, ..dir(0o777) };
    let (mine, others) = (Attr { uid: 12, ..file(0o666) }, file(0o666));
    let from = sides(&sticky, &others, &open);
    assert_eq!(may_rename(&from, &stranger()), Err(FsError::NotPermitted));
    let onto = RenameSides { target: Some(&others), ..sides(&open, &mine, &sticky) };
    assert_eq!(may_rename(&onto, &stranger()), Err(FsError::NotPermitted));
    assert_eq!(may_rename(&sides(&open, &mine, &sticky), &stranger()), Ok(()));
}

#[test]
fn directories_take_no_second_name() {
    let parent = dir(0o777);
    assert_eq!(may_link(&parent, &dir(0o777), &Cred::root()), Err(FsError::NotPermitted));
    assert_eq!(may_link(&parent, &file(0), &stranger()), Ok(()));
    assert_eq!(may_link(&dir(0o755), &file(0), &stranger()), Err(FsError::Access));
}

#[test]
fn opening_asks_for_the_bits_of_what_it_opens_for() {
    let f = file(0o640);
    assert_eq!(may_open(&f, &member(), true, false, false), Ok(()));
    assert_eq!(may_open(&f, &member(), true, true, false), Err(FsError::Access));
    assert_eq!(may_open(&f, &member(), true, false, true), Err(FsError::Access));
    assert_eq!(may_open(&f, &owner(), true, true, true), Ok(()));
    assert_eq!(may_open(&dir(0o777), &owner(), true, true, false), Err(FsError::IsDirectory));
    let link = inode(mode::SYMLINK | 0o777);
    assert!(matches!(may_open(&link, &owner(), true, false, false), Err(FsError::Invalid(_))));
}

#[test]
fn devices_are_roots_but_for_the_whiteout() {
    let user = stranger();
    assert_eq!(may_make_node(&user, mode::CHAR | 0o600, 1), Err(FsError::NotPermitted));
    assert_eq!(may_make_node(&user, mode::BLOCK | 0o600, 0), Err(FsError::NotPermitted));
    assert_eq!(may_make_node(&user, mode::CHAR, 0), Ok(mode::CHAR));
    assert_eq!(may_make_node(&user, mode::FIFO | 0o600, 0), Ok(mode::FIFO | 0o600));
    assert_eq!(may_make_node(&user, 0o600, 0), Ok(mode::REGULAR | 0o600));
    assert_eq!(may_make_node(&Cred::root(), mode::CHAR, 1), Ok(mode::CHAR));
    assert_eq!(may_make_node(&Cred::root(), mode::DIRECTORY, 0), Err(FsError::NotPermitted));
    assert!(matches!(may_make_node(&Cred::root(), mode::SYMLINK, 0), Err(FsError::Invalid(_))));
}

#[test]
fn a_new_inode_belongs_to_its_maker() {
    let b = initial_attrs(&dir(0o777), &stranger(), mode::REGULAR | 0o6755);
    assert_eq!(b, InitialAttrs { mode: mode::REGULAR | 0o6755, uid: 12, gid: 79 });
}

#[test]
fn a_set_gid_directory_hands_down_its_group() {
    let parent = dir(0o2777);
    let b = initial_attrs(&parent, &stranger(), mode::REGULAR | 0o644);
    assert_eq!(b, InitialAttrs { mode: mode::REGULAR | 0o644, uid: 12, gid: GROUP });
    let b = initial_attrs(&parent, &stranger(), mode::DIRECTORY | 0o755);
    assert_eq!(b, InitialAttrs { mode: mode::DIRECTORY | 0o2755, uid: 12, gid: GROUP });
}

#[test]
fn strangers_make_no_set_gid_programs_of_a_directorys_group() {
    let parent = dir(0o2777);
    let mode_of =
        |cred: &Cred, bits| initial_attrs(&parent, cred, mode::REGULAR | bits).mode & 0o7777;
    assert_eq!(mode_of(&stranger(), 0o2755), 0o755);
    assert_eq!(mode_of(&stranger(), 0o2745), 0o2745);
    assert_eq!(mode_of(&member(), 0o2755), 0o2755);
    assert_eq!(mode_of(&Cred::root(), 0o2755), 0o2755);
}

#[test]
fn mkdir_sets_no_set_id_bits() {
    let b = initial_attrs(&dir(0o777), &Cred::root(), mode::DIRECTORY | 0o7777);
    assert_eq!(b.mode, mode::DIRECTORY | 0o1777);
}

fn chmod(attr: &Attr, cred: &Cred, bits: u32) -> Result<u32> {
    let set = SetAttr { mode: Some(bits), ..SetAttr::default() };
    set_attr(attr, cred, &set, NOW).map(|new| new.mode & mode::PERMISSIONS)
}

#[test]
fn chmod_is_the_owners_and_keeps_the_type() {
    assert_eq!(chmod(&file(0), &stranger(), 0o777), Err(FsError::NotPermitted));
    assert_eq!(chmod(&file(0), &owner(), 0o1755), Ok(0o1755));
    let set = SetAttr { mode: Some(mode::DIRECTORY | 0o600), ..SetAttr::default() };
    let new = set_attr(&file(0), &Cred::root(), &set, NOW).unwrap();
    assert_eq!(new.mode, mode::REGULAR | 0o600);
}

#[test]
fn chmod_from_outside_the_group_clears_set_gid() {
    let owner_in_group = Cred { groups: Box::new([GROUP]), ..owner() };
    for attr in [file(0), dir(0)] {
        assert_eq!(chmod(&attr, &owner(), 0o6755), Ok(0o4755));
        assert_eq!(chmod(&attr, &owner_in_group, 0o6755), Ok(0o6755));
        assert_eq!(chmod(&attr, &Cred::root(), 0o6755), Ok(0o6755));
    }
}

fn chown(attr: &Attr, cred: &Cred, uid: Option<u32>, gid: Option<u32>) -> Result<Attr> {
    set_attr(attr, cred, &SetAttr { uid, gid, ..SetAttr::default() }, NOW)
}

#[test]
fn only_root_gives_files_away() {
    assert_eq!(chown(&file(0), &owner(), Some(1), None), Err(FsError::NotPermitted));
    assert_eq!(chown(&file(0), &stranger(), Some(12), None), Err(FsError::NotPermitted));
    assert!(chown(&file(0), &owner(), Some(OWNER), None).is_ok());
    assert_eq!(chown(&file(0), &Cred::root(), Some(1), Some(2)).unwrap().uid, 1);
}

#[test]
fn an_owner_gives_a_file_to_a_group_of_his() {
    let cred = Cred { groups: Box::new([30]), ..owner() };
    for gid in [30, 77, GROUP] {
        assert_eq!(chown(&file(0), &cred, None, Some(gid)).unwrap().gid, gid);
    }
    assert_eq!(chown(&file(0), &cred, None, Some(31)), Err(FsError::NotPermitted));
    assert_eq!(chown(&file(0), &member(), None, Some(GROUP)), Err(FsError::NotPermitted));
}

#[test]
fn a_new_owner_ends_set_id_of_what_is_not_a_directory() {
    let root = Cred::root();
    let bits = |attr: &Attr, cred: &Cred| {
        chown(attr, cred, Some(OWNER), Some(77)).map(|new| new.mode & mode::PERMISSIONS)
    };
    assert_eq!(bits(&file(0o6755), &root), Ok(0o755));
    assert_eq!(bits(&file(0o6755), &owner()), Ok(0o755));
    // Set-gid without group execution used to mean mandatory locking, so root's change keeps it.
    assert_eq!(bits(&file(0o6745), &root), Ok(0o2745));
    assert_eq!(bits(&file(0o6745), &owner()), Ok(0o745));
    assert_eq!(bits(&dir(0o6755), &root), Ok(0o6755));
}

#[test]
fn writing_by_others_than_root_ends_set_id_of_programs() {
    assert_eq!(mode_after_write(&file(0o6777), &stranger()) & 0o7777, 0o777);
    assert_eq!(mode_after_write(&file(0o6777), &Cred::root()) & 0o7777, 0o6777);
    assert_eq!(mode_after_write(&file(0o6767), &member()) & 0o7777, 0o2767);
    assert_eq!(mode_after_write(&file(0o6767), &stranger()) & 0o7777, 0o767);
    assert_eq!(mode_after_write(&dir(0o6777), &stranger()) & 0o7777, 0o6777);
}

#[test]
fn cutting_needs_write_permission_and_ends_set_id() {
    let cut = SetAttr { size: Some(3), ..SetAttr::default() };
    assert_eq!(set_attr(&file(0o444), &owner(), &cut, NOW), Err(FsError::Access));
    let new = set_attr(&file(0o4666), &stranger(), &cut, NOW).unwrap();
    assert_eq!((new.size, new.mode & 0o7777, new.mtime, new.ctime), (3, 0o666, NOW, NOW));
    assert_eq!(set_attr(&dir(0o777), &owner(), &cut, NOW), Err(FsError::IsDirectory));
    let fifo = inode(mode::FIFO | 0o777);
    assert!(matches!(set_attr(&fifo, &owner(), &cut, NOW), Err(FsError::Invalid(_))));
}

#[test]
fn writers_touch_and_owners_set_times() {
    let at = |secs| Some(SetTime::At(Timestamp { secs, nanos: 0 }));
    let now = Some(SetTime::Now);
    let set = |atime, mtime| SetAttr { atime, mtime, ..SetAttr::default() };
    let writable = file(0o666);
    let new = set_attr(&writable, &stranger(), &set(now, now), NOW).unwrap();
    assert_eq!((new.atime, new.mtime, new.ctime), (NOW, NOW, NOW));
    let closed = set_attr(&file(0o644), &stranger(), &set(now, now), NOW);
    assert_eq!(closed, Err(FsError::Access));
    for other in [set(at(1), at(2)), set(now, None), set(None, now), set(now, at(1))] {
        let denied = set_attr(&writable, &stranger(), &other, NOW);
        assert_eq!(denied, Err(FsError::NotPermitted), "{other:?}");
        assert!(set_attr(&file(0), &owner(), &other, NOW).is_ok());
    }
    let new = set_attr(&file(0), &owner(), &set(at(1), None), NOW).unwrap();
    assert_eq!((new.atime.secs, new.mtime, new.ctime), (1, Timestamp::default(), NOW));
}

#[test]
fn the_change_time_is_set_by_root_and_by_write_back_only() {
    let time = Timestamp { secs: 5, nanos: 0 };
    let set = SetAttr { mtime: Some(SetTime::At(time)), ctime: Some(time), ..SetAttr::default() };
    let f = file(0o666);
    assert_eq!(set_attr(&f, &owner(), &set, NOW), Err(FsError::NotPermitted));
    assert_eq!(set_attr(&f, &stranger(), &set, NOW), Err(FsError::NotPermitted));
    assert_eq!(set_attr(&f, &checked(stranger()), &set, NOW).unwrap().ctime, time);
    assert_eq!(set_attr(&f, &Cred::root(), &set, NOW).unwrap().ctime, time);
}

#[test]
fn an_empty_change_changes_nothing() {
    let f = file(0o644);
    assert_eq!(set_attr(&f, &stranger(), &SetAttr::default(), NOW), Ok(f));
}

#[test]
fn user_attributes_follow_the_bits_of_files_and_directories() {
    assert_eq!(may_xattr(&file(0o644), &stranger(), b"user.a", false), Ok(()));
    assert_eq!(may_xattr(&file(0o644), &stranger(), b"user.a", true), Err(FsError::Access));
    assert_eq!(may_xattr(&file(0o600), &stranger(), b"user.a", false), Err(FsError::Access));
    let link = inode(mode::SYMLINK | 0o777);
    assert_eq!(may_xattr(&link, &Cred::root(), b"user.a", true), Err(FsError::NotPermitted));
    assert_eq!(may_xattr(&link, &Cred::root(), b"user.a", false), Err(FsError::NoAttribute));
    let sticky = dir(0o1777);
    assert_eq!(may_xattr(&sticky, &stranger(), b"user.a", true), Err(FsError::NotPermitted));
    assert_eq!(may_xattr(&sticky, &owner(), b"user.a", true), Ok(()));
}

#[test]
fn trusted_attributes_hide_from_all_but_root() {
    let f = file(0o777);
    assert_eq!(may_xattr(&f, &owner(), b"trusted.a", false), Err(FsError::NoAttribute));
    assert_eq!(may_xattr(&f, &owner(), b"trusted.a", true), Err(FsError::NotPermitted));
    assert_eq!(may_xattr(&f, &Cred::root(), b"trusted.a", true), Ok(()));
    assert!(!lists_xattr(&owner(), b"trusted.a") && lists_xattr(&owner(), b"security.a"));
}

#[test]
fn security_attributes_are_written_by_root() {
    let f = file(0);
    assert_eq!(may_xattr(&f, &owner(), b"security.a", false), Ok(()));
    assert_eq!(may_xattr(&f, &owner(), b"security.a", true), Err(FsError::NotPermitted));
    assert_eq!(may_xattr(&f, &Cred::root(), b"security.a", true), Ok(()));
}

#[test]
fn impossible_attribute_names_are_refused() {
    let (f, root) = (file(0), Cred::root());
    assert_eq!(may_xattr(&f, &root, b"", true), Err(FsError::Range));
    assert_eq!(may_xattr(&f, &root, &[b'a'; 256], true), Err(FsError::Range));
    for name in [&b"plain"[..], b"system.other", b"other.a"] {
        assert!(matches!(may_xattr(&f, &root, name, true), Err(FsError::NotSupported(_))));
    }
    assert!(matches!(may_xattr(&f, &root, b"user.", true), Err(FsError::Invalid(_))));
}
