//! Every operation there is, on a small tree of everything.

use twin_rt::Rng;

use super::verbs::{self, Verb, Weights};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::Op;

pub(super) const SPEC: Spec = Spec {
    name: "mixed",
    about: "every operation there is, on a small tree of everything",
    make: |params| Box::new(Mixed { params: params.clone() }),
};

const WEIGHTS: Weights = &[
    (Verb::Write, 22),
    (Verb::Read, 12),
    (Verb::Create, 10),
    (Verb::Lookup, 8),
    (Verb::Unlink, 6),
    (Verb::Rename, 7),
    (Verb::MakeDir, 4),
    (Verb::RemoveDir, 3),
    (Verb::Truncate, 4),
    (Verb::Fallocate, 3),
    (Verb::Link, 3),
    (Verb::Symlink, 2),
    (Verb::MakeNode, 2),
    (Verb::Open, 4),
    (Verb::Release, 4),
    (Verb::Forget, 3),
    (Verb::Chmod, 3),
    (Verb::Chown, 3),
    (Verb::SetTimes, 2),
    (Verb::SetXattr, 3),
    (Verb::GetXattr, 2),
    (Verb::ListXattr, 1),
    (Verb::RemoveXattr, 1),
    (Verb::ReadDir, 2),
    (Verb::Seek, 2),
    (Verb::GetAttr, 3),
    (Verb::Access, 1),
    (Verb::ReadLink, 1),
    (Verb::LookupDots, 1),
    (Verb::Fsync, 3),
    (Verb::StatFs, 1),
    (Verb::Sync, 1),
];

struct Mixed {
    params: WorkloadParams,
}

impl Workload for Mixed {
    fn next(&mut self, _client: u32, world: &World, rng: &mut Rng) -> Op {
        verbs::draw(WEIGHTS, &self.params, world, rng)
    }
}
