//! Access control lists of POSIX 1003.1e, as acl(5) describes them: their form as extended
//! attributes, the check of an access, and how they go together with the mode of an inode.
//!
//! Contract: everything here is pure. The value of an attribute is Linux's, version 2: a version
//! (u32), then for each entry a tag (u16), permissions (u16) and an id (u32), all little-endian. An
//! [`Acl`] is always a valid one. The permission bits of a mode are those of the owner, of the
//! group class and of others: with an access ACL the bits of the group class are its mask. An
//! access ACL that says no more than a mode is never stored.
//!
//! The rules of permissions ask this module; a volume keeps what it has read of an inode's ACLs as
//! `Acls`.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use crate::{Attr, Cred, FsError, Result, mode, xattr_list};

/// The name of the attribute that holds the access ACL.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The name of the attribute that holds the default ACL of a directory.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The longest value, in bytes. The kernel above a mount takes and gives no longer one.
pub const VALUE_MAX: usize = 4096;

const VERSION: u32 = 2;
const HEAD_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
/// The id of entries that name nobody.
const NO_ID: u32 = u32::MAX;
/// The permission bits of a mode, without set-id and sticky bits.
const BITS: u32 = 0o777;

/// Tags of entries, in the order in which entries stand.
mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const OWNING_GROUP: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHERS: u16 = 0x20;
}

/// Which of the two ACLs that a directory may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that is checked.
    Access,
    /// The one that new inodes in the directory inherit.
    Default,
}

impl Which {
    /// The ACL that this attribute holds, if it holds one.
    pub fn named(name: &[u8]) -> Option<Which> {
        match name {
            ACCESS => Some(Which::Access),
            DEFAULT => Some(Which::Default),
            _ => None,
        }
    }

    /// The name of the attribute that holds it.
    pub fn name(self) -> &'static [u8] {
        match self {
            Which::Access => ACCESS,
            Which::Default => DEFAULT,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u32,
    id: u32,
}

/// A valid ACL: exactly one entry for the owner, the owning group and others, at most one mask,
/// which there must be beside entries that name users or groups, and no user or group twice.
#[derive(Clone, PartialEq, Eq)]
pub struct Acl(Box<[Entry]>);

impl fmt::Debug for Acl {
    /// The short text form of acl(5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, Entry { tag, perm, id }) in self.0.iter().enumerate() {
            let (kind, id) = match *tag {
                tag::OWNER => ('u', None),
                tag::USER => ('u', Some(id)),
                tag::OWNING_GROUP => ('g', None),
                tag::GROUP => ('g', Some(id)),
                tag::MASK => ('m', None),
                _ => ('o', None),
            };
            let comma = if nth == 0 { "" } else { "," };
            let id = id.map_or(String::new(), u32::to_string);
            let bit = |mask, letter| if perm & mask != 0 { letter } else { '-' };
            let (r, w, x) = (bit(4, 'r'), bit(2, 'w'), bit(1, 'x'));
            write!(f, "{comma}{kind}:{id}:{r}{w}{x}")?;
        }
        Ok(())
    }
}

impl Acl {
    /// Reads the value of an attribute. `None` stands for a value without entries, which removes the
    /// ACL.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] for another version, [`FsError::AttributesTooBig`] for a value that is too
    /// long, [`FsError::Invalid`] for one that is not an ACL.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>> {
        let invalid = |what| Err(FsError::Invalid(what));
        if value.len() > VALUE_MAX {
            return Err(FsError::AttributesTooBig);
        }
        let Some((head, raw)) = value.split_first_chunk::<HEAD_LEN>() else {
            return invalid("an ACL begins with its version");
        };
        if u32::from_le_bytes(*head) != VERSION {
            return Err(FsError::NotSupported("ACLs of another version"));
        }
        if !raw.len().is_multiple_of(ENTRY_LEN) {
            return invalid("an ACL has a whole number of entries");
        }
        if raw.is_empty() {
            return Ok(None);
        }
        let entries = raw.chunks_exact(ENTRY_LEN).map(|raw| {
            let tag = u16::from_le_bytes([raw[0], raw[1]]);
            let perm = u16::from_le_bytes([raw[2], raw[3]]).into();
            let id = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]);
            let names = matches!(tag, tag::USER | tag::GROUP);
            Entry { tag, perm, id: if names { id } else { NO_ID } }
        });
        let acl = Acl(entries.collect());
        acl.check().map(|()| Some(acl))
    }

    fn check(&self) -> Result<()> {
        let invalid = |what| Err(FsError::Invalid(what));
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let mut seen = BTreeSet::new();
        let mut last = 0;
        for &Entry { tag, perm, id } in &self.0 {
            if perm & !7 != 0 {
                return invalid("an entry of an ACL reads, writes and executes, and no more");
            }
            let known = tag.is_power_of_two() && tag <= tag::OTHERS;
            let names = matches!(tag, tag::USER | tag::GROUP);
            if !known || names && id == NO_ID {
                return invalid("an entry of an ACL is for nobody");
            }
            if tag < last {
                return invalid("the entries of an ACL are not in order");
            }
            if !seen.insert((tag, id)) {
                return invalid("two entries of an ACL are for the same");
            }
            last = tag;
        }
        if [tag::OWNER, tag::OWNING_GROUP, tag::OTHERS].map(count) != [1; 3] {
            return invalid("an ACL has entries for owner, group and others");
        }
        if count(tag::USER) + count(tag::GROUP) > 0 && count(tag::MASK) == 0 {
            return invalid("an ACL that names users or groups has a mask");
        }
        Ok(())
    }

    /// The value of an attribute with this ACL.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LEN + ENTRY_LEN * self.0.len());
        out.extend(VERSION.to_le_bytes());
        for entry in &self.0 {
            out.extend(entry.tag.to_le_bytes());
            out.extend((entry.perm as u16).to_le_bytes());
            out.extend(entry.id.to_le_bytes());
        }
        out
    }

    /// The permissions of the entry with this tag, which names nobody; 0 if there is none.
    fn perm_of(&self, tag: u16) -> u32 {
        self.0.iter().find(|entry| entry.tag == tag).map_or(0, |entry| entry.perm)
    }

    /// The permissions of the group class: the mask, or the owning group if there is no mask.
    fn group_class(&self) -> u16 {
        if self.0.iter().any(|entry| entry.tag == tag::MASK) {
            tag::MASK
        } else {
            tag::OWNING_GROUP
        }
    }

    /// The permission bits of the mode that goes with it.
    pub fn bits(&self) -> u32 {
        self.perm_of(tag::OWNER) << 6
            | self.perm_of(self.group_class()) << 3
            | self.perm_of(tag::OTHERS)
    }

    /// True if it says no more than a mode.
    pub fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// The same ACL after a chmod: the bits of the group class become the mask.
    #[must_use]
    pub fn with_bits(&self, bits: u32) -> Acl {
        let group_class = self.group_class();
        let mut acl = self.clone();
        for entry in &mut acl.0 {
            match entry.tag {
                tag::OWNER => entry.perm = bits >> 6 & 7,
                tag::OTHERS => entry.perm = bits & 7,
                tag if tag == group_class => entry.perm = bits >> 3 & 7,
                _ => {}
            }
        }
        acl
    }

    /// True if somebody who is neither the owner nor root may do all of `mask`. `gid` is the owning
    /// group. An entry that names the user decides alone; otherwise one of the groups that fit must
    /// allow it, and if none fits, the entry for others decides.
    pub fn allows(&self, gid: u32, cred: &Cred, mask: u32) -> bool {
        let limit = self.perm_of(self.group_class());
        let grants = |entry: &Entry| entry.perm & mask == mask;
        let by_mask = limit & mask == mask;
        let user = self.0.iter().find(|entry| entry.tag == tag::USER && entry.id == cred.uid);
        if let Some(entry) = user {
            return by_mask && grants(entry);
        }
        let fits = |entry: &&Entry| match entry.tag {
            tag::OWNING_GROUP => cred.is_member(gid),
            tag::GROUP => cred.is_member(entry.id),
            _ => false,
        };
        let mut groups = self.0.iter().filter(fits).peekable();
        if groups.peek().is_some() {
            return by_mask && groups.any(grants);
        }
        self.perm_of(tag::OTHERS) & mask == mask
    }
}

/// What an inode inherits from the directory in which it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Type and permission bits.
    pub mode: u32,
    /// The access ACL, if the mode does not say all of it.
    pub access: Option<Acl>,
    /// The default ACL of a new directory.
    pub default: Option<Rc<Acl>>,
}

/// What a new inode gets in a directory with this default ACL. `wanted` has the type bits, the
/// permissions that the client asks for, and its umask, which counts only if
/// there is no default ACL. With one, its entries are the rights, and what the client does not
/// ask for is taken from owner, group class and others. A symbolic link inherits nothing.
pub fn inherit(default: Option<&Rc<Acl>>, wanted: u32) -> Inherited {
    let kind = wanted & mode::TYPE;
    let Some(default) = default.filter(|_| kind != mode::SYMLINK) else {
        return Inherited { mode: mode::without_umask(wanted), access: None, default: None };
    };
    let bits = default.bits() & wanted & BITS;
    let access = default.with_bits(bits);
    Inherited {
        mode: wanted & (mode::TYPE | mode::PERMISSIONS) & !BITS | bits,
        access: (!access.is_mode()).then_some(access),
        default: (kind == mode::DIRECTORY).then(|| Rc::clone(default)),
    }
}

impl Inherited {
    /// The extended attributes of the new inode.
    pub(crate) fn attributes(&self) -> xattr_list::Attributes {
        let access = self.access.as_ref().map(|acl| (ACCESS.to_vec(), acl.encode()));
        let default = self.default.as_ref().map(|acl| (DEFAULT.to_vec(), acl.encode()));
        access.into_iter().chain(default).collect()
    }
}

/// The access ACL that belongs to the attributes of an inode, as far as it is known.
///
/// Attributes are equal whatever is known of their ACL: what an ACL says is compared as an
/// extended attribute.
#[derive(Clone, Default)]
pub struct AccessAcl(Option<Rc<Known>>);

enum Known {
    /// There may be one, but it has not been read.
    Unread,
    Is(Acl),
}

impl PartialEq for AccessAcl {
    fn eq(&self, _: &AccessAcl) -> bool {
        true
    }
}

impl Eq for AccessAcl {}

impl fmt::Debug for AccessAcl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_deref() {
            None => f.write_str("none"),
            Some(Known::Unread) => f.write_str("unread"),
            Some(Known::Is(acl)) => write!(f, "{acl:?}"),
        }
    }
}

impl AccessAcl {
    /// This ACL. One that says no more than the mode is none.
    pub fn new(acl: Acl) -> AccessAcl {
        AccessAcl((!acl.is_mode()).then(|| Rc::new(Known::Is(acl))))
    }

    /// It is not known whether there is one. Then nobody but the owner and root is allowed
    /// anything, until somebody has read it.
    pub fn unread() -> AccessAcl {
        AccessAcl(Some(Rc::new(Known::Unread)))
    }

    /// The ACL, if there is one and it has been read.
    pub fn get(&self) -> Option<&Acl> {
        match self.0.as_deref() {
            Some(Known::Is(acl)) => Some(acl),
            _ => None,
        }
    }

    /// True if there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// True if there may be one that has not been read.
    pub fn is_unread(&self) -> bool {
        matches!(self.0.as_deref(), Some(Known::Unread))
    }

    /// The ACL after a chmod to these bits.
    pub(crate) fn after_chmod(&self, bits: u32) -> AccessAcl {
        match self.get() {
            Some(acl) if acl.bits() != bits & BITS => AccessAcl::new(acl.with_bits(bits)),
            _ => self.clone(),
        }
    }

    /// What somebody who is neither the owner nor root may do by the ACL; `None` if the mode alone
    /// decides. As in Linux, that is so too if the bits of the group class are empty: who is named
    /// then has the rights of others, unless the owning group is his.
    pub(crate) fn allows(&self, attr: &Attr, cred: &Cred, mask: u32) -> Option<bool> {
        if attr.mode & 0o070 == 0 {
            return None;
        }
        self.0.as_deref().map(|known| match known {
            Known::Unread => false,
            Known::Is(acl) => acl.allows(attr.gid, cred, mask),
        })
    }
}

/// The ACLs of an inode in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acls {
    pub(crate) access: AccessAcl,
    /// The default ACL of a directory; `None` too if it has not been read.
    pub(crate) default: Option<Rc<Acl>>,
}

impl Acls {
    /// Nothing has been read yet.
    pub(crate) fn unread() -> Acls {
        Acls { access: AccessAcl::unread(), default: None }
    }

    /// The ACLs in a list of extended attributes; `None` if it is damaged.
    pub(crate) fn of(list: &[u8]) -> Option<Acls> {
        let mut acls = Acls::default();
        for attribute in xattr_list::entries(list) {
            let (name, value) = attribute?;
            match Which::named(name) {
                Some(Which::Access) => acls.access = AccessAcl::new(Acl::parse(value).ok()??),
                Some(Which::Default) => acls.default = Some(Rc::new(Acl::parse(value).ok()??)),
                None => {}
            }
        }
        Some(acls)
    }
}

#[cfg(test)]
#[path = "acl_tests.rs"]
mod tests;
