//! The work of databases, mail servers and editors: small changes, each made durable before the
//! next.

use twin_rt::Rng;

use super::script::{Script, Step};
use super::{Spec, Workload, WorkloadParams, World};
use twin_fs::{Data, Ino, Name, Op, ROOT_INO, RenameMode, Reply, Result};

pub(super) const SPEC: Spec = Spec {
    name: "commits",
    about: "changes small parts of a few files and makes each change durable; replaces whole files \
            by renaming",
    make: |params| {
        let scripts = vec![Script::default(); params.clients.max(1) as usize];
        let renames = vec![None; scripts.len()];
        Box::new(Commits { params: params.clone(), scripts, renames, made: 0, open: Vec::new() })
    },
};

struct Commits {
    params: WorkloadParams,
    scripts: Vec<Script>,
    /// Names to move into place once their script has ended: the old name and the new one.
    renames: Vec<Option<(Name, Name)>>,
    made: u64,
    /// Files that stay open: logs and tables.
    open: Vec<Ino>,
}

impl Commits {
    fn name(&self, kind: &str, nth: u64) -> Name {
        format!("{kind}{nth}").into_bytes().into()
    }

    /// A change of a file that stays open, or the fsync behind it.
    fn change(&self, world: &World, rng: &mut Rng) -> Op {
        let ino = *rng.pick(&self.open);
        if rng.chance(0.45) {
            return Op::Fsync { ino, data_only: rng.chance(0.5) };
        }
        let size = world.known(ino).map_or(0, |known| known.size);
        let len = rng.range(1, self.params.write_max.clamp(2, 9_000));
        let most = self.params.space_max / self.params.files.max(1);
        if size > most {
            // A log that is full begins anew.
            return Op::SetAttr {
                ino,
                set: twin_fs::SetAttr { size: Some(0), ..Default::default() },
            };
        }
        let off = if rng.chance(0.5) { size } else { rng.below(size + 1) };
        Op::Write { ino, off, data: Data::Synthetic(len) }
    }

    /// Writes a new version of a file under its own name, makes it durable, then moves it into
    /// place.
    fn replace(&mut self, nth: usize, rng: &mut Rng) -> (Op, Vec<Step>) {
        self.made += 1;
        let (new, old) = (self.name("new", self.made), self.name("doc", rng.below(5)));
        self.renames[nth] = Some((new.clone(), old));
        let create = Op::Create { dir: ROOT_INO, name: new, mode: 0o666, exclusive: true };
        let len = rng.range(1, self.params.write_max.max(2));
        (create, vec![Step::Write { off: 0, len }, Step::Fsync, Step::Release, Step::Forget])
    }
}

impl Workload for Commits {
    fn next(&mut self, client: u32, world: &World, rng: &mut Rng) -> Op {
        let nth = client as usize % self.scripts.len();
        if let Some(op) = self.scripts[nth].next() {
            return op;
        }
        if let Some((name, to_name)) = self.renames[nth].take() {
            let (dir, to_dir, mode) = (ROOT_INO, ROOT_INO, RenameMode::Replace);
            return Op::Rename { dir, name, to_dir, to_name, mode };
        }
        if self.open.len() < 3 {
            self.made += 1;
            let name = self.name("table", self.made);
            return Op::Create { dir: ROOT_INO, name, mode: 0o666, exclusive: true };
        }
        match rng.below(20) {
            0 => Op::Sync,
            1..3 => {
                let (create, steps) = self.replace(nth, rng);
                self.scripts[nth].begin(create.clone(), steps);
                self.scripts[nth].next().unwrap_or(create)
            }
            _ => self.change(world, rng),
        }
    }

    fn learn(&mut self, client: u32, op: &Op, reply: &Result<Reply>) {
        let nth = client as usize % self.scripts.len();
        if let (Op::Create { name, .. }, Ok(Reply::Entry(entry))) = (op, reply)
            && name.starts_with(b"table")
        {
            return self.open.push(entry.attr.ino);
        }
        self.scripts[nth].learn(op, reply);
        if reply.is_err() && matches!(op, Op::Create { .. }) {
            self.renames[nth] = None;
        }
    }
}
