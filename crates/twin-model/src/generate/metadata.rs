//! Names and attributes only: the operations whose order a crash must keep.

use twin_rt::Rng;

use super::verbs::{self, Verb, Weights};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::Op;

pub(super) const SPEC: Spec = Spec {
    name: "metadata",
    about: "names and attributes: making, moving, linking, removing",
    make: |params| Box::new(Metadata { params: params.clone() }),
};

const WEIGHTS: Weights = &[
    (Verb::Create, 14),
    (Verb::Rename, 14),
    (Verb::Unlink, 10),
    (Verb::MakeDir, 8),
    (Verb::RemoveDir, 6),
    (Verb::Link, 8),
    (Verb::Symlink, 4),
    (Verb::MakeNode, 3),
    (Verb::Lookup, 8),
    (Verb::Release, 8),
    (Verb::Forget, 6),
    (Verb::Chmod, 4),
    (Verb::Chown, 2),
    (Verb::SetTimes, 2),
    (Verb::SetXattr, 3),
    (Verb::RemoveXattr, 1),
    (Verb::Truncate, 2),
    (Verb::ReadDir, 3),
    (Verb::GetAttr, 2),
    (Verb::Fsync, 4),
    (Verb::Sync, 1),
];

struct Metadata {
    params: WorkloadParams,
}

impl Workload for Metadata {
    fn next(&mut self, _client: u32, world: &World, rng: &mut Rng) -> Op {
        verbs::draw(WEIGHTS, &self.params, world, rng)
    }
}
