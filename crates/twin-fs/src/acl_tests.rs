//! Tests of [`super`]; each test covers one rule of acl(5).

use super::*;
use crate::perm::{self, EXECUTE, READ, WRITE};
use crate::xattr_list::{Attributes, encode};
use crate::{SetAttr, Timestamp};

const OWNER: u32 = 10;
const GROUP: u32 = 20;
const NOW: Timestamp = Timestamp { secs: 99, nanos: 1 };

/// The value of an attribute with these entries: tag, permissions, id.
fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(perm.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn acl(entries: &[(u16, u16, u32)]) -> Acl {
    Acl::parse(&value(entries)).unwrap().unwrap()
}

/// Owner, user 11, owning group, group 30, mask and others.
fn full(owner: u16, user: u16, group: u16, named: u16, mask: u16, others: u16) -> Acl {
    acl(&[
        (1, owner, NO_ID),
        (2, user, 11),
        (4, group, NO_ID),
        (8, named, 30),
        (0x10, mask, NO_ID),
        (0x20, others, NO_ID),
    ])
}

/// The attributes of an inode with this ACL.
fn inode(kind: u32, acl: Acl) -> Attr {
    let mode = kind | acl.bits();
    let acl = AccessAcl::new(acl);
    Attr { ino: 5, mode, uid: OWNER, gid: GROUP, nlink: 1, acl, ..Attr::default() }
}

fn file(acl: Acl) -> Attr {
    inode(mode::REGULAR, acl)
}

fn named() -> Cred {
    Cred::user(11, 77)
}

fn member(groups: &[u32]) -> Cred {
    Cred { groups: groups.into(), ..Cred::user(12, 78) }
}

fn stranger() -> Cred {
    Cred::user(13, 79)
}

#[test]
fn a_value_survives_its_encoding() {
    let entries =
        [(1, 7, NO_ID), (2, 5, 11), (2, 4, 3), (4, 0, NO_ID), (0x10, 7, NO_ID), (0x20, 1, NO_ID)];
    assert_eq!(acl(&entries).encode(), value(&entries));
    assert_eq!(format!("{:?}", acl(&entries)), "u::rwx,u:11:r-x,u:3:r--,g::---,m::rwx,o::--x");
}

#[test]
fn ids_of_entries_that_name_nobody_mean_nothing() {
    let odd = acl(&[(1, 6, 1), (4, 4, 2), (0x20, 4, 3)]);
    assert_eq!(odd, acl(&[(1, 6, NO_ID), (4, 4, NO_ID), (0x20, 4, NO_ID)]));
}

#[test]
fn a_value_without_entries_removes_the_acl() {
    assert_eq!(Acl::parse(&value(&[])), Ok(None));
}

#[test]
fn what_is_not_an_acl_is_refused() {
    let (o, g, x, m) = ((1, 7, NO_ID), (4, 5, NO_ID), (0x20, 5, NO_ID), (0x10, 7, NO_ID));
    let (u, n) = ((2, 7, 11), (8, 7, 30));
    let wrong: [&[_]; 16] = [
        &[o, g],
        &[o, x],
        &[g, x],
        &[o, o, g, x],
        &[o, g, x, x],
        &[o, g, m, m, x],
        &[g, o, x],
        &[o, g, x, m],
        &[o, u, g, x],
        &[o, g, n, x],
        &[o, g, u, m, x],
        &[o, u, u, g, m, x],
        &[o, g, n, n, m, x],
        &[(1, 8, NO_ID), g, x],
        &[o, (2, 7, NO_ID), g, m, x],
        &[o, (3, 7, 1), g, m, x],
    ];
    for entries in wrong {
        assert!(matches!(Acl::parse(&value(entries)), Err(FsError::Invalid(_))), "{entries:?}");
    }
    for right in [&[o, g, x][..], &[o, g, m, x], &[o, u, g, m, x], &[o, u, (2, 7, 12), g, n, m, x]]
    {
        assert!(Acl::parse(&value(right)).is_ok(), "{right:?}");
    }
}

#[test]
fn a_cut_or_foreign_value_is_refused() {
    let whole = full(7, 7, 5, 5, 7, 5).encode();
    for len in (0..whole.len()).filter(|len| *len != HEAD_LEN) {
        assert!(Acl::parse(&whole[..len]).is_err(), "{len} bytes");
    }
    let mut other = whole.clone();
    other[0] = 3;
    assert!(matches!(Acl::parse(&other), Err(FsError::NotSupported(_))));
    assert_eq!(Acl::parse(&vec![2; VALUE_MAX + 8]), Err(FsError::AttributesTooBig));
}

#[test]
fn random_values_never_panic() {
    let mut rng = twin_rt::Rng::new(1);
    let whole = full(7, 7, 5, 5, 7, 5).encode();
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.range(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        if let Ok(Some(acl)) = Acl::parse(&bytes) {
            assert_eq!(Acl::parse(&acl.encode()), Ok(Some(acl)));
        }
    }
}

#[test]
fn the_bits_of_the_group_class_are_the_mask() {
    assert_eq!(full(7, 7, 5, 5, 6, 1).bits(), 0o761);
    assert_eq!(acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)]).bits(), 0o640);
    assert!(acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)]).is_mode());
    // A mask beside the three entries is more than a mode can say.
    assert!(!acl(&[(1, 6, 0), (4, 4, 0), (0x10, 4, 0), (0x20, 0, 0)]).is_mode());
}

#[test]
fn a_named_user_has_what_entry_and_mask_allow_and_nothing_else() {
    for mask in 0..8 {
        for (entry, limit) in [(7, 7), (7, 4), (4, 7), (0, 7)] {
            let f = file(full(7, entry, 7, 7, limit, 7));
            let allowed = u32::from(entry & limit) & mask == mask;
            assert_eq!(perm::allows(&f, &named(), mask), allowed, "{entry} {limit} {mask}");
            // The entry decides even for a member of a group that may do more.
            let both = Cred { groups: [GROUP, 30].into(), ..named() };
            assert_eq!(perm::allows(&f, &both, mask), allowed);
        }
    }
}

#[test]
fn one_of_the_groups_that_fit_must_allow_all() {
    let f = file(full(7, 7, 4, 2, 7, 7));
    assert!(perm::allows(&f, &member(&[GROUP]), READ));
    assert!(perm::allows(&f, &member(&[30]), WRITE));
    let both = member(&[GROUP, 30]);
    assert!(perm::allows(&f, &both, READ) && perm::allows(&f, &both, WRITE));
    // No single entry allows both, and the entry for others does not count for members.
    assert!(!perm::allows(&f, &both, READ | WRITE));
    assert!(!perm::allows(&f, &member(&[30]), READ));
    // The primary group is one of them.
    assert!(perm::allows(&f, &Cred::user(12, 30), WRITE));
}

#[test]
fn the_mask_limits_groups_but_neither_owner_nor_others() {
    let f = file(full(7, 7, 7, 7, 4, 7));
    assert!(!perm::allows(&f, &member(&[GROUP]), WRITE));
    assert!(!perm::allows(&f, &member(&[30]), WRITE));
    assert!(perm::allows(&f, &Cred::user(OWNER, 1), READ | WRITE | EXECUTE));
    assert!(perm::allows(&f, &stranger(), READ | WRITE | EXECUTE));
}

#[test]
fn with_an_empty_group_class_the_mode_decides_as_in_linux() {
    let f = file(full(7, 7, 7, 7, 0, 4));
    assert!(perm::allows(&f, &named(), READ) && !perm::allows(&f, &named(), WRITE));
    assert!(!perm::allows(&f, &member(&[GROUP]), READ));
}

#[test]
fn the_owner_and_root_do_not_depend_on_the_acl() {
    let f = file(full(4, 7, 7, 7, 7, 7));
    assert!(!perm::allows(&f, &Cred::user(OWNER, GROUP), WRITE));
    assert!(perm::allows(&f, &Cred::root(), READ | WRITE | EXECUTE));
    assert!(!perm::allows(&file(full(6, 6, 6, 6, 6, 6)), &Cred::root(), EXECUTE));
}

#[test]
fn an_acl_that_was_not_read_allows_nothing() {
    let f = Attr { acl: AccessAcl::unread(), ..file(full(7, 7, 7, 7, 7, 7)) };
    for cred in [named(), stranger(), member(&[GROUP])] {
        assert!(!perm::allows(&f, &cred, READ) && perm::needs_acl(&f, &cred));
        let checked = Cred { checked: true, ..cred };
        assert!(!perm::needs_acl(&f, &checked) && perm::access(&f, &checked, READ).is_ok());
    }
    assert!(!perm::needs_acl(&f, &Cred::root()) && !perm::needs_acl(&f, &Cred::user(OWNER, 1)));
}

fn chmod(attr: &Attr, bits: u32) -> Attr {
    let set = SetAttr { mode: Some(bits), ..SetAttr::default() };
    perm::set_attr(attr, &Cred::root(), &set, NOW).unwrap()
}

#[test]
fn chmod_changes_owner_mask_and_others() {
    let new = chmod(&file(full(7, 7, 5, 5, 7, 5)), 0o640);
    assert_eq!(new.acl.get(), Some(&full(6, 7, 5, 5, 4, 0)));
    assert_eq!(new.mode & 0o7777, 0o640);
    // Then a chmod back gives back what the mask had taken.
    assert_eq!(chmod(&new, 0o775).acl.get(), Some(&full(7, 7, 5, 5, 7, 5)));
    assert!(chmod(&file(acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)])), 0o777).acl.is_none());
}

fn set(attr: &Attr, cred: &Cred, new: &Acl) -> Attr {
    assert_eq!(perm::may_set_acl(attr, cred, Which::Access, Some(new)), Ok(true));
    perm::with_access_acl(attr, cred, Some(new), NOW)
}

#[test]
fn an_acl_that_is_a_mode_becomes_the_mode() {
    let f = file(full(7, 7, 5, 5, 7, 5));
    let new = set(&f, &Cred::root(), &acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)]));
    assert!(new.acl.is_none());
    assert_eq!((new.mode, new.ctime), (mode::REGULAR | 0o640, NOW));
}

#[test]
fn an_acl_sets_the_bits_and_its_removal_leaves_them() {
    let f = set(
        &file(acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)])),
        &Cred::root(),
        &full(7, 6, 5, 4, 6, 1),
    );
    assert_eq!(f.mode & 0o7777, 0o761);
    let without = perm::with_access_acl(&f, &Cred::root(), None, NOW);
    assert!(without.acl.is_none());
    assert_eq!(without.mode & 0o7777, 0o761);
}

#[test]
fn an_owner_outside_the_group_loses_set_gid_by_an_acl() {
    let f = Attr { mode: mode::REGULAR | 0o6755, ..file(full(7, 7, 5, 5, 5, 5)) };
    let bits = |cred: &Cred| set(&f, cred, &full(7, 7, 5, 5, 5, 5)).mode & 0o7777;
    assert_eq!(bits(&Cred::user(OWNER, 1)), 0o4755);
    assert_eq!(bits(&Cred::user(OWNER, GROUP)), 0o6755);
    assert_eq!(bits(&Cred::root()), 0o6755);
}

#[test]
fn only_owner_and_root_set_acls() {
    let (f, d) = (file(full(7, 7, 7, 7, 7, 7)), inode(mode::DIRECTORY, full(7, 7, 7, 7, 7, 7)));
    let new = full(7, 0, 0, 0, 0, 0);
    for (attr, which) in [(&f, Which::Access), (&d, Which::Access), (&d, Which::Default)] {
        for new in [Some(&new), None] {
            let by = |cred: &Cred| perm::may_set_acl(attr, cred, which, new);
            assert_eq!(by(&named()), Err(FsError::NotPermitted));
            assert_eq!(by(&Cred { checked: true, ..named() }), Err(FsError::NotPermitted));
            assert_eq!(by(&Cred::user(OWNER, 1)), Ok(true));
            assert_eq!(by(&Cred::root()), Ok(true));
        }
    }
    for name in [ACCESS, DEFAULT] {
        assert_eq!(perm::may_xattr(&f, &stranger(), name, false), Ok(()));
        assert_eq!(perm::may_xattr(&f, &stranger(), name, true), Err(FsError::NotPermitted));
    }
}

#[test]
fn only_directories_have_default_acls_and_links_have_none() {
    let (new, root) = (full(7, 7, 7, 7, 7, 7), Cred::root());
    let f = file(new.clone());
    assert_eq!(perm::may_set_acl(&f, &root, Which::Default, Some(&new)), Err(FsError::Access));
    assert_eq!(perm::may_set_acl(&f, &stranger(), Which::Default, None), Ok(false));
    let link = inode(mode::SYMLINK, new.clone());
    for which in [Which::Access, Which::Default] {
        let set = perm::may_set_acl(&link, &root, which, Some(&new));
        assert!(matches!(set, Err(FsError::NotSupported(_))));
    }
    assert!(matches!(perm::may_xattr(&link, &root, ACCESS, false), Err(FsError::NotSupported(_))));
}

#[test]
fn without_a_default_acl_the_umask_counts() {
    let wanted = mode::with_umask(mode::REGULAR | 0o2666, 0o027);
    let got = inherit(None, wanted);
    assert_eq!(got, Inherited { mode: mode::REGULAR | 0o2640, access: None, default: None });
    assert_eq!(inherit(None, mode::DIRECTORY | 0o777).mode, mode::DIRECTORY | 0o777);
}

#[test]
fn a_default_acl_takes_the_place_of_the_umask() {
    let default = Rc::new(full(7, 7, 5, 5, 7, 5));
    let wanted = |kind: u32| mode::with_umask(kind | 0o660, 0o777);
    let got = inherit(Some(&default), wanted(mode::REGULAR));
    assert_eq!(got.mode, mode::REGULAR | 0o660);
    assert_eq!((got.access, got.default), (Some(full(6, 7, 5, 5, 6, 0)), None));
    let got = inherit(Some(&default), wanted(mode::DIRECTORY) | 0o1000);
    assert_eq!(got.mode, mode::DIRECTORY | 0o1660);
    assert_eq!(got.access, Some(full(6, 7, 5, 5, 6, 0)));
    assert_eq!(got.default, Some(Rc::clone(&default)));
    let link = inherit(Some(&default), mode::SYMLINK | 0o777);
    assert_eq!(link, Inherited { mode: mode::SYMLINK | 0o777, access: None, default: None });
}

#[test]
fn a_default_acl_that_is_a_mode_gives_files_no_acl() {
    let default = Rc::new(acl(&[(1, 7, 0), (4, 5, 0), (0x20, 0, 0)]));
    let got = inherit(Some(&default), mode::with_umask(mode::REGULAR | 0o666, 0o022));
    assert_eq!(got, Inherited { mode: mode::REGULAR | 0o640, access: None, default: None });
    // A directory hands it down all the same.
    let got = inherit(Some(&default), mode::DIRECTORY | 0o777);
    assert_eq!((got.mode, got.default), (mode::DIRECTORY | 0o750, Some(default)));
}

#[test]
fn the_acls_of_a_list_are_found_among_others() {
    let mut attributes = Attributes::new();
    attributes.insert(b"user.a".to_vec(), b"x".to_vec());
    assert!(Acls::of(&encode(&attributes)).unwrap().access.is_none());
    attributes.insert(ACCESS.to_vec(), full(7, 7, 5, 5, 7, 5).encode());
    attributes.insert(DEFAULT.to_vec(), full(7, 0, 5, 5, 7, 5).encode());
    let acls = Acls::of(&encode(&attributes)).unwrap();
    assert_eq!(acls.access.get(), Some(&full(7, 7, 5, 5, 7, 5)));
    assert_eq!(acls.default.as_deref(), Some(&full(7, 0, 5, 5, 7, 5)));
    attributes.insert(DEFAULT.to_vec(), b"nonsense".to_vec());
    assert!(Acls::of(&encode(&attributes)).is_none());
}
