//! Fills the volume until there is no room, removes a part at random, and repeats.

use twin_rt::Rng;

use super::script::{Script, Step, writes};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::{FsError, Name, Op, ROOT_INO, Reply, Result};

pub(super) const SPEC: Spec = Spec {
    name: "fill",
    about: "fills the volume until there is no room, removes a part, and again",
    make: |params| {
        let clients = params.clients.max(1) as usize;
        let scripts = vec![Script::default(); clients];
        let params = params.clone();
        Box::new(Fill { params, scripts, listed: false, made: 0, full: false, to_remove: 0 })
    },
};

struct Fill {
    params: WorkloadParams,
    scripts: Vec<Script>,
    /// True if the existing names have been listed.
    listed: bool,
    made: u64,
    /// True if there was no room.
    full: bool,
    /// Files still to be removed before filling goes on.
    to_remove: u64,
}

impl Fill {
    fn one_more(&mut self, rng: &mut Rng) -> (Op, Vec<Step>) {
        self.made += 1;
        let name: Name = format!("fill{}", self.made).into_bytes().into();
        let create = Op::Create { dir: ROOT_INO, name, mode: 0o666, exclusive: true };
        let size = rng.range(1, self.params.file_size_max + 1);
        let mut steps: Vec<Step> = writes(size, self.params.write_max).collect();
        if rng.chance(0.1) {
            steps.push(Step::Fsync);
        }
        steps.extend([Step::Release, Step::Forget]);
        (create, steps)
    }
}

impl Workload for Fill {
    fn next(&mut self, client: u32, world: &World, rng: &mut Rng) -> Op {
        let nth = client as usize % self.scripts.len();
        if let Some(op) = self.scripts[nth].next() {
            return op;
        }
        if !std::mem::replace(&mut self.listed, true) {
            // Names that no earlier run of this workload has used.
            self.made = rng.below(1 << 40);
            return Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 1 << 20, plus: false };
        }
        if self.to_remove == 0 && world.written_bytes() > self.params.space_max {
            self.to_remove = 1 + world.name_count() as u64 / 10;
        }
        if std::mem::take(&mut self.full) && self.to_remove == 0 {
            // Between a twentieth and a tenth: the volume stays nearly full.
            let names = world.name_count() as u64;
            self.to_remove = 1 + rng.range(names / 20, names / 10 + 1);
        }
        if self.to_remove > 0 && !world.names.is_empty() {
            self.to_remove -= 1;
            if let Some((dir, name)) = world.names.draw(rng) {
                return Op::Unlink { dir: *dir, name: name.clone() };
            }
        }
        let (create, steps) = self.one_more(rng);
        self.scripts[nth].begin(create.clone(), steps);
        self.scripts[nth].next().unwrap_or(create)
    }

    fn learn(&mut self, client: u32, op: &Op, reply: &Result<Reply>) {
        if matches!(reply, Err(FsError::NoSpace | FsError::NoInodes)) && self.to_remove == 0 {
            self.full = true;
        }
        let nth = client as usize % self.scripts.len();
        self.scripts[nth].learn(op, reply);
    }
}
