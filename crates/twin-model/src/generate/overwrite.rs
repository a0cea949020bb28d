//! Makes a set of files once, then overwrites parts of them: nine of ten times a tenth of them.

use twin_rt::Rng;

use super::script::{Script, Step, writes};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::{Data, Name, Op, ROOT_INO, Reply, Result};

pub(super) const SPEC: Spec = Spec {
    name: "overwrite",
    about: "overwrites parts of a set of files, most often of the same few",
    make: |params| {
        let scripts = vec![Script::default(); params.clients.max(1) as usize];
        Box::new(Overwrite { params: params.clone(), scripts, made: 0, files: Vec::new() })
    },
};

struct Overwrite {
    params: WorkloadParams,
    scripts: Vec<Script>,
    made: u64,
    /// The files, held open, in the order in which they were made.
    files: Vec<twin_fs::Ino>,
}

impl Overwrite {
    /// The size of every file: a multiple of the block that keeps all within the space.
    fn size(&self) -> u64 {
        let block = self.params.block_size;
        let share = self.params.space_max / self.params.files.max(1);
        (share.min(self.params.file_size_max) / block).max(1) * block
    }

    fn overwrite(&self, rng: &mut Rng) -> Op {
        let all = self.files.len() as u64;
        let hot = if rng.chance(0.9) { all.div_ceil(10) } else { all };
        let ino = self.files[rng.below(hot) as usize];
        let block = self.params.block_size;
        let blocks = self.size() / block;
        let first = rng.below(blocks);
        let most = (self.params.write_max / block).clamp(1, blocks - first);
        let (off, len) = (first * block, rng.range(1, most + 1) * block);
        match rng.below(20) {
            0 => Op::Fsync { ino, data_only: rng.chance(0.5) },
            1..3 => Op::Read { ino, off, len: len as u32 },
            _ => Op::Write { ino, off, data: Data::Synthetic(len) },
        }
    }
}

impl Workload for Overwrite {
    fn next(&mut self, client: u32, _world: &World, rng: &mut Rng) -> Op {
        let nth = client as usize % self.scripts.len();
        if let Some(op) = self.scripts[nth].next() {
            return op;
        }
        if self.made >= self.params.files && !self.files.is_empty() {
            return self.overwrite(rng);
        }
        self.made += 1;
        let name: Name = format!("over{}", self.made).into_bytes().into();
        let create = Op::Create { dir: ROOT_INO, name, mode: 0o666, exclusive: true };
        let steps: Vec<Step> = writes(self.size(), self.params.write_max).collect();
        self.scripts[nth].begin(create.clone(), steps);
        self.scripts[nth].next().unwrap_or(create)
    }

    fn learn(&mut self, client: u32, op: &Op, reply: &Result<Reply>) {
        if let (Op::Create { .. }, Ok(Reply::Entry(entry))) = (op, reply) {
            self.files.push(entry.attr.ino);
        }
        let nth = client as usize % self.scripts.len();
        self.scripts[nth].learn(op, reply);
    }
}
