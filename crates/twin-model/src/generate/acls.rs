//! ACLs: setting, removing and inheriting them, chmod beside them, and users who try what they allow.

use twin_rt::Rng;

use super::verbs::{self, Verb, Weights};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::acl::{ACCESS, DEFAULT};
use twin_fs::{Ino, Name, Op, XattrMode, mode};

pub(super) const SPEC: Spec = Spec {
    name: "acls",
    about: "access and default ACLs: setting, inheriting, changing modes, trying what they allow",
    make: |params| Box::new(Acls { params: params.clone() }),
};

const WEIGHTS: Weights = &[
    (Verb::SetAcl, 20),
    (Verb::RemoveAcl, 3),
    (Verb::GetAcl, 5),
    (Verb::Create, 14),
    (Verb::MakeDir, 8),
    (Verb::MakeNode, 2),
    (Verb::Symlink, 1),
    (Verb::Access, 10),
    (Verb::Open, 8),
    (Verb::Release, 8),
    (Verb::Chmod, 8),
    (Verb::Chown, 2),
    (Verb::SetTimes, 2),
    (Verb::Truncate, 3),
    (Verb::Lookup, 8),
    (Verb::Unlink, 5),
    (Verb::RemoveDir, 4),
    (Verb::Rename, 5),
    (Verb::Link, 2),
    (Verb::SetXattr, 4),
    (Verb::RemoveXattr, 1),
    (Verb::GetXattr, 1),
    (Verb::ListXattr, 2),
    (Verb::GetAttr, 3),
    (Verb::Write, 2),
    (Verb::Forget, 4),
    (Verb::Fsync, 1),
    (Verb::Sync, 1),
];

struct Acls {
    params: WorkloadParams,
}

impl Workload for Acls {
    fn next(&mut self, _client: u32, world: &World, rng: &mut Rng) -> Op {
        let mut op = verbs::draw(WEIGHTS, &self.params, world, rng);
        if let Op::MakeNode { mode, .. } | Op::MakeDir { mode, .. } | Op::Create { mode, .. } =
            &mut op
        {
            *mode = mode::with_umask(*mode, *rng.pick(&[0, 0o022, 0o027, 0o077]));
        }
        op
    }
}

fn name(of_dir: bool, rng: &mut Rng) -> Name {
    let default = rng.chance(if of_dir { 0.6 } else { 0.05 });
    if default { DEFAULT.into() } else { ACCESS.into() }
}

/// Sets an ACL of an inode. `wrong` makes one that is not valid, or has an odd length.
pub(super) fn set(ino: Ino, is_dir: bool, wrong: bool, rng: &mut Rng) -> Op {
    let mut value = value(rng);
    if wrong {
        let at = rng.below(value.len() as u64) as usize;
        value[at] ^= 1 << rng.below(8);
        value.truncate(if rng.chance(0.3) { at } else { value.len() });
    }
    Op::SetXattr { ino, name: name(is_dir, rng), value: value.into(), mode: XattrMode::Any }
}

pub(super) fn get(ino: Ino, is_dir: bool, rng: &mut Rng) -> Op {
    Op::GetXattr { ino, name: name(is_dir, rng) }
}

pub(super) fn remove(ino: Ino, is_dir: bool, rng: &mut Rng) -> Op {
    Op::RemoveXattr { ino, name: name(is_dir, rng) }
}

/// A valid ACL for the users and groups of a generator: often a short one, now and then one that
/// does not fit an inode.
fn value(rng: &mut Rng) -> Vec<u8> {
    let most = *rng.pick(&[0, 1, 2, 3, 12]);
    let some = |first: u32, rng: &mut Rng| {
        (first..first + 16).filter(|_| rng.below(16) < most).collect::<Vec<u32>>()
    };
    let (users, groups) = (some(1000, rng), some(500, rng));
    let masked = !(users.is_empty() && groups.is_empty()) || rng.chance(0.2);
    let mut entries = vec![(1u16, u32::MAX)];
    entries.extend(users.into_iter().map(|id| (2, id)));
    entries.push((4, u32::MAX));
    entries.extend(groups.into_iter().map(|id| (8, id)));
    entries.extend(masked.then_some((0x10, u32::MAX)));
    entries.push((0x20, u32::MAX));
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, id) in entries {
        let perm: u16 = if rng.chance(0.5) { 7 } else { rng.below(8) as u16 };
        out.extend(tag.to_le_bytes());
        out.extend(perm.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}
