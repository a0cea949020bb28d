//! Generated runs: the model against itself in its two data modes, and against volumes with
//! faults put in on purpose, which it must find.

use super::*;
use crate::generate::{Generator, WORKLOADS, WorkloadParams};
use twin_fs::perm;

/// What runs of the same requests must have in common.
fn sizes(dump: &Dump) -> Vec<(Box<[u8]>, u64, u64, Timestamp)> {
    let nodes = dump.nodes.iter();
    nodes.map(|(path, n)| (path.clone(), n.attr.size, n.attr.blocks, n.attr.mtime)).collect()
}

#[test]
fn bytes_and_stamps_differ_in_nothing_but_content() {
    for (seed, spec) in (0..).zip(WORKLOADS) {
        let [mut bytes, mut stamps] = [Bench::bytes().model, Bench::stamps().model];
        let mut generator = Generator::new(spec.name, WorkloadParams::default(), seed).unwrap();
        for _ in 0..3_000 {
            let request = generator.next();
            let now = Time(request.id * SECS);
            let (a, b) = (bytes.apply(now, &request), stamps.apply(now, &request));
            let place = format!("{} seed {seed}: {request:?}", spec.name);
            match (&a, &b) {
                (Ok(Reply::Data(a)), Ok(Reply::Data(b))) => {
                    let lens = |blocks: &[Block]| blocks.iter().map(Block::len).collect::<Vec<_>>();
                    assert_eq!(lens(a), lens(b), "{place}");
                    let holes = |blocks: &[Block]| {
                        blocks.iter().map(|b| matches!(b, Block::Zero(_))).collect::<Vec<_>>()
                    };
                    assert_eq!(holes(a), holes(b), "{place}");
                }
                _ => assert_eq!(a, b, "{place}"),
            }
            generator.learn(&request, &a);
        }
        assert_eq!(sizes(&bytes.dump()), sizes(&stamps.dump()), "{} seed {seed}", spec.name);
    }
}

/// Reading a file of stamps as bytes gives what a file of bytes holds, if whole blocks were
/// written.
#[test]
fn stamps_stand_for_the_bytes_of_whole_blocks() {
    let params = WorkloadParams { users: false, ..WorkloadParams::default() };
    let [mut bytes, mut stamps] = [Bench::bytes().model, Bench::stamps().model];
    let mut generator = Generator::new("overwrite", params, 1).unwrap();
    let mut checked = 0;
    for _ in 0..3_000 {
        let request = generator.next();
        let now = Time(request.id);
        let (a, b) = (bytes.apply(now, &request), stamps.apply(now, &request));
        if let (Op::Read { .. }, Ok(Reply::Data(a)), Ok(Reply::Data(b))) = (&request.op, &a, &b) {
            // Files are first written in pieces that are no whole blocks.
            let whole = |block: &&Block| matches!(block, Block::Stamp(s) if s.version > 1_000);
            for (x, y) in a.iter().zip(b).filter(|(_, y)| whole(y)) {
                assert_eq!(x.to_bytes(), y.to_bytes());
                checked += 1;
            }
        }
        generator.learn(&request, &a);
    }
    assert!(checked > 50, "{checked} blocks");
}

#[test]
fn a_walk_of_a_generated_tree_gives_its_dump() {
    for mut model in [Bench::bytes().model, Bench::stamps().model] {
        let params = WorkloadParams { far_size_max: 1 << 50, ..WorkloadParams::default() };
        let mut generator = Generator::new("mixed", params, 5).unwrap();
        for _ in 0..4_000 {
            let request = generator.next();
            let reply = model.apply(Time(request.id * SECS), &request);
            generator.learn(&request, &reply);
        }
        assert!(model.dump().nodes.len() > 30);
        let held = model.inode_count();
        let (walked, after) = super::trees::walk(model.clone());
        assert_eq!((walked.unwrap(), after.inode_count()), (model.dump(), held));
    }
}

#[test]
fn clones_are_not_changed_by_what_their_origin_does() {
    let mut model = Bench::stamps().model;
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 2).unwrap();
    let mut kept: Vec<(ModelFs, Dump)> = Vec::new();
    for n in 0..2_000 {
        let request = generator.next();
        let reply = model.apply(Time(request.id), &request);
        generator.learn(&request, &reply);
        if n % 100 == 0 {
            kept.push((model.clone(), model.dump()));
        }
    }
    for (clone, dump) in kept {
        assert_eq!(clone.dump(), dump);
    }
}

#[test]
fn what_fails_changes_nothing() {
    let mut model = Bench::bytes().model;
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 3).unwrap();
    for _ in 0..1_500 {
        let request = generator.next();
        let before = model.dump();
        let reply = model.apply(Time(request.id * SECS), &request);
        if reply.is_err() {
            assert_eq!(model.dump(), before, "{request:?}");
        }
        generator.learn(&request, &reply);
    }
}

/// A volume with inode numbers of its own: gives freed ones away again, as real ones do.
struct Volume {
    model: ModelFs,
    fault: fn(&mut ModelFs, &Request, &mut Result<Reply>),
}

impl Volume {
    fn execute(&mut self, now: Time, request: &Request) -> Result<Reply> {
        let ino = (ROOT_INO + 1..).find(|ino| !self.model.inodes.contains_key(ino));
        let makes = matches!(
            request.op,
            Op::Create { .. } | Op::MakeDir { .. } | Op::MakeNode { .. } | Op::Symlink { .. }
        );
        let ino = if makes { ino } else { None };
        let mut reply = self.model.apply_with_ino(now, request, ino);
        (self.fault)(&mut self.model, request, &mut reply);
        reply
    }
}

/// Runs a volume and a model side by side. Gives the first difference, of replies or of trees.
fn follow_run(workload: &str, seed: u64, ops: u64, volume: &mut Volume) -> Option<String> {
    let mut model = volume.model.clone();
    let mut generator = Generator::new(workload, WorkloadParams::default(), seed).unwrap();
    for n in 1..=ops {
        let request = generator.next();
        let now = Time(request.id * SECS);
        let reply = volume.execute(now, &request);
        if let Err(difference) = model.follow(now, &request, &reply) {
            return Some(difference);
        }
        generator.learn(&request, &reply);
        if n % 50 == 0 {
            let (a, b) = (model.dump(), volume.model.dump());
            let compare = Compare { inos: true, ..Compare::default() };
            // Whiteouts have stand-in numbers until they are looked up.
            let whiteout = |dump: &Dump| dump.nodes.values().any(|n| n.attr.ino >= PROVISIONAL);
            let compare = Compare { inos: !whiteout(&a) && !whiteout(&b), ..compare };
            let difference = diff(&a, &b, ["model", "volume"], &compare);
            if difference.is_some() {
                return difference;
            }
        }
    }
    None
}

#[test]
fn a_right_volume_is_followed_to_the_end() {
    for (seed, spec) in (10..).zip(WORKLOADS) {
        let mut volume = Volume { model: Bench::stamps().model, fault: |_, _, _| {} };
        let difference = follow_run(spec.name, seed, 4_000, &mut volume);
        assert_eq!(difference, None, "{} seed {seed}", spec.name);
    }
}

fn attr_of(model: &mut ModelFs, ino: Ino) -> Option<&mut Attr> {
    model.inodes.get_mut(&ino).map(|inode| &mut Rc::make_mut(inode).attr)
}

type Fault = fn(&mut ModelFs, &Request, &mut Result<Reply>);

/// Faults that a real volume might have. Each changes state or replies after a right execution.
const FAULTS: [(&str, Fault); 12] = [
    ("a link does not change the change time", |model, request, reply| {
        if let (Op::Link { ino, .. }, Ok(Reply::Entry(_))) = (&request.op, reply)
            && let Some(attr) = attr_of(model, *ino)
        {
            attr.ctime = attr.btime;
        }
    }),
    ("a rename leaves the old directory's time", |model, request, reply| {
        if let (Op::Rename { dir, .. }, Ok(_)) = (&request.op, reply)
            && let Some(attr) = attr_of(model, *dir)
        {
            attr.mtime = attr.btime;
        }
    }),
    ("a write by a user keeps set-id", |model, request, reply| {
        if let (Op::Write { ino, .. }, Ok(_)) = (&request.op, reply)
            && request.cred.uid != 0
            && let Some(attr) = attr_of(model, *ino)
        {
            attr.mode |= mode::SETUID;
        }
    }),
    ("a write is lost in its second block", |model, request, reply| {
        if let (Op::Write { ino, off, .. }, Ok(_)) = (&request.op, reply)
            && let Some(inode) = model.inodes.get_mut(ino)
            && let Body::File(content) = &mut Rc::make_mut(inode).body
        {
            *content = content.without(off / 4096 + 1);
        }
    }),
    ("a cut leaves the stamp of the last block", |model, request, _| {
        if let Op::SetAttr { ino, set: SetAttr { size: Some(size), .. } } = &request.op
            && size % 4096 != 0
            && let Some(inode) = model.inodes.get_mut(ino)
            && let Body::File(content) = &mut Rc::make_mut(inode).body
        {
            *content = content.restamped(size / 4096, *ino);
        }
    }),
    ("a listing leaves out an entry's kind", |_, _, reply| {
        if let Ok(Reply::Dir(list)) = reply
            && let Some(last) = list.last_mut()
        {
            last.kind = mode::REGULAR;
        }
    }),
    ("a removed directory leaves its parent's link count", |model, request, reply| {
        if let (Op::RemoveDir { dir, .. }, Ok(_)) = (&request.op, reply)
            && let Some(attr) = attr_of(model, *dir)
        {
            attr.nlink += 1;
        }
    }),
    ("an unlinked file dies while it is open", |model, request, reply| {
        if let (Op::Unlink { .. }, Ok(_)) = (&request.op, reply) {
            model.inodes.retain(|_, inode| inode.attr.nlink > 0);
        }
    }),
    ("reading goes past the end of the file", |_, request, reply| {
        if let (Op::Read { .. }, Ok(Reply::Data(pieces))) = (&request.op, reply) {
            pieces.push(Block::Zero(1));
        }
    }),
    ("everyone may search every directory", |model, request, reply| {
        if let (Op::Lookup { dir, name }, Err(FsError::Access)) = (&request.op, &reply) {
            let op = Op::Lookup { dir: *dir, name: name.clone() };
            *reply = model.apply(Time(0), &Request::root(request.id, op));
        }
    }),
    ("an extended attribute is cut to 90 bytes", |model, request, reply| {
        if let (Op::SetXattr { ino, name, value, .. }, Ok(_)) = (&request.op, reply)
            && let Some(inode) = model.inodes.get_mut(ino)
        {
            let short = value[..value.len().min(90)].into();
            Rc::make_mut(inode).xattrs.insert(name.clone(), short);
        }
    }),
    ("a new file in a set-gid directory has its maker's group", |model, request, reply| {
        if let (Op::Create { exclusive: true, .. }, Ok(Reply::Entry(entry))) = (&request.op, reply)
        {
            entry.attr.gid = request.cred.gid;
            if let Some(attr) = attr_of(model, entry.attr.ino) {
                attr.gid = request.cred.gid;
            }
        }
    }),
];

/// The oracle itself is tested here: what is wrong on purpose must be found.
#[test]
fn every_fault_of_a_volume_is_found() {
    for (what, fault) in FAULTS {
        let found = (0..6).find_map(|seed| {
            let mut volume = Volume { model: Bench::stamps().model, fault };
            follow_run("mixed", seed, 8_000, &mut volume)
        });
        assert!(found.is_some(), "not found: {what}");
    }
}

#[test]
fn permissions_decide_in_generated_runs_too() {
    let mut model = Bench::bytes().model;
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 4).unwrap();
    let mut refused = 0;
    for _ in 0..8_000 {
        let request = generator.next();
        let checked = Cred { checked: true, ..request.cred.clone() };
        let dir = match &request.op {
            Op::MakeDir { dir, .. } | Op::Create { dir, .. } => model.inode(*dir).ok(),
            _ => None,
        };
        let may = dir.is_none_or(|dir| perm::may_create(&dir.attr, &request.cred).is_ok());
        let reply = model.clone().apply(Time(request.id), &request);
        if reply == Err(FsError::Access) && !may {
            let trusting = Request { cred: checked, ..request.clone() };
            let trusted = model.clone().apply(Time(request.id), &trusting);
            assert_ne!(trusted, Err(FsError::Access), "{request:?}");
            refused += 1;
        }
        let reply = model.apply(Time(request.id), &request);
        generator.learn(&request, &reply);
    }
    assert!(refused > 20, "{refused} refusals");
}

impl content::Content {
    /// For faults: without a block.
    fn without(&self, lbn: u64) -> content::Content {
        self.mapped(|at, block| (at != lbn).then(|| block.clone()))
    }

    /// For faults: with an old stamp.
    fn restamped(&self, lbn: u64, ino: Ino) -> content::Content {
        self.mapped(|at, block| match block {
            Block::Stamp(s) if at == lbn => {
                Some(Block::Stamp(twin_disk::Stamp { ino, version: s.version - 1, ..*s }))
            }
            _ => Some(block.clone()),
        })
    }
}
