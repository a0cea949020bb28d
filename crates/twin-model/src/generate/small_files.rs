//! The work of mail and build directories: many small files are made, read once or twice, and
//! removed.

use twin_rt::Rng;

use super::script::{Script, Step, writes};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::{Ino, Name, Op, ROOT_INO, Reply, Result};

pub(super) const SPEC: Spec = Spec {
    name: "small_files",
    about: "many small files made, read and removed in a few directories",
    make: |params| {
        let scripts = vec![Script::default(); params.clients.max(1) as usize];
        Box::new(SmallFiles {
            params: params.clone(),
            scripts,
            dirs: Vec::new(),
            asked: 0,
            made: 0,
        })
    },
};

struct SmallFiles {
    params: WorkloadParams,
    scripts: Vec<Script>,
    dirs: Vec<Ino>,
    /// Number of directories that were asked for.
    asked: u64,
    made: u64,
}

impl SmallFiles {
    /// Most files have a few kilobytes, some tens (log-uniform, as in measured home directories).
    fn size(&self, rng: &mut Rng) -> u64 {
        let bits = rng.range(4, 16);
        rng.range(1 << bits, 2 << bits).min(self.params.file_size_max)
    }

    fn make(&mut self, rng: &mut Rng) -> (Op, Vec<Step>) {
        self.made += 1;
        let name: Name = format!("small{}", self.made).into_bytes().into();
        let dir = *rng.pick(&self.dirs);
        let create = Op::Create { dir, name, mode: 0o666, exclusive: true };
        let mut steps: Vec<Step> = writes(self.size(rng), self.params.write_max).collect();
        if rng.chance(0.05) {
            steps.push(Step::Fsync);
        }
        steps.extend([Step::Release, Step::Forget]);
        (create, steps)
    }
}

impl Workload for SmallFiles {
    fn next(&mut self, client: u32, world: &World, rng: &mut Rng) -> Op {
        let nth = client as usize % self.scripts.len();
        if let Some(op) = self.scripts[nth].next() {
            return op;
        }
        if self.asked < self.params.dirs.max(1) || self.dirs.is_empty() {
            self.asked += 1;
            let name: Name = format!("dir{}", self.asked).into_bytes().into();
            return Op::MakeDir { dir: ROOT_INO, name, mode: 0o777 };
        }
        let full = world.name_count() as u64 > self.params.files + self.params.dirs
            || world.written_bytes() > self.params.space_max;
        let mut draws = (0..8).filter_map(|_| world.names.draw(rng));
        let drawn = draws.find(|(dir, _)| *dir != ROOT_INO).cloned();
        let (first, steps) = match (rng.below(10), drawn) {
            (0..3, Some((dir, name))) => return Op::Unlink { dir, name },
            (3..6, Some((dir, name))) if full => return Op::Unlink { dir, name },
            (6..9, Some((dir, name))) => {
                let read = Step::Read { off: 0, len: self.params.file_size_max as u32 };
                let steps = [Step::Open { write: false }, read, Step::Release, Step::Forget];
                (Op::Lookup { dir, name }, steps.to_vec())
            }
            _ => self.make(rng),
        };
        self.scripts[nth].begin(first.clone(), steps);
        self.scripts[nth].next().unwrap_or(first)
    }

    fn learn(&mut self, client: u32, op: &Op, reply: &Result<Reply>) {
        if let (Op::MakeDir { .. }, Ok(Reply::Entry(entry))) = (op, reply) {
            self.dirs.push(entry.attr.ino);
        }
        let nth = client as usize % self.scripts.len();
        self.scripts[nth].learn(op, reply);
    }
}
