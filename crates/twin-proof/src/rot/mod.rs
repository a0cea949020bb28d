//! Bit rot, exhaustively: every block of a small volume with something of every kind is zeroed, replaced by
//! another block, replaced by what lay there before, and changed in single bits, one at a time.
//!
//! Contract: a damaged volume is refused, gives an error, or gives exactly what was written, never anything
//! else. The checker finds the fault, and so does a scrub of the volume in use, without unmounting; for
//! the data of a file both name the path and the block. What is not found must be in the list of
//! exceptions of the layout ([`Excuse`]), with its reason, and is counted.

mod disk;
mod excuse;
mod volume;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use twin_disk::{BlockDevice, MemDisk};
use twin_fs::scrub::{Scrub, ScrubHow};
use twin_fs::{CheckRequest, Cpu, Identity, LayoutConfig, LayoutKind, Opened, Settings, Volume};
use twin_model::Dump;
use twin_rt::{ClockOnly, Rng, Rt};

use disk::{RotDisk, UNIT};
pub use excuse::Excuse;
use excuse::Excuses;
use volume::{MARK, Worker};

/// A layout whose volume rots.
#[derive(Clone, Copy)]
pub struct Rotting {
    /// The layout.
    pub kind: &'static dyn LayoutKind,
    /// The settings with which its volume is made.
    pub settings: &'static [(&'static str, &'static str)],
    /// Bytes of the volume.
    pub size: u64,
    /// The format has checksums of file data.
    pub has_data_checksums: bool,
    /// Bytes of a block of a file.
    pub block: u64,
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct RotBounds {
    /// One block in this number of blocks rots.
    pub one_in: usize,
    /// Bits changed in each block.
    pub bits: usize,
}

/// What was done to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It was zeroed.
    Zeroed,
    /// It has the content of another block.
    Misplaced,
    /// It has what lay there before.
    Stale,
    /// One bit is different.
    Bit,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotted {
    /// Blocks that were changed.
    pub blocks: u64,
    /// Faults, each tried three times: on an image that is opened, on one that is checked, and below a volume
    /// in use that is scrubbed.
    pub faults: u64,
    /// Images that were refused.
    pub refused: u64,
    /// Images whose tree could not be read whole.
    pub errors: u64,
    /// Images whose tree was right.
    pub right: u64,
    /// Found by the checker.
    pub checked: u64,
    /// Found by a scrub.
    pub scrubbed: u64,
    /// What was not found, or not kept from readers, by its reason.
    pub excused: BTreeMap<Excuse, u64>,
}

impl fmt::Display for Rotted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rotted { blocks, faults, refused, errors, right, checked, scrubbed, .. } = self;
        write!(
            f,
            "{blocks} blocks, {faults} faults: {refused} refused, {errors} errors, {right} right; \
             found by check {checked}, by scrub {scrubbed}"
        )?;
        self.excused.iter().try_for_each(|(why, count)| write!(f, "\n  {count} {}", why.reason()))
    }
}

/// The healthy volume.
struct Healthy {
    rotting: Rotting,
    config: Box<dyn LayoutConfig>,
    image: Vec<u8>,
    /// The same when the volume has been opened.
    opened: Vec<u8>,
    before: BTreeMap<usize, Vec<u8>>,
    tree: Dump,
}

/// What one fault led to.
struct Outcome {
    /// The tree is not what was written, and nobody said so; in words.
    wrong: Option<String>,
    check: Vec<String>,
    scrub: Vec<String>,
}

fn runtime() -> Rt {
    Rt::new(ClockOnly::default(), 1)
}

fn open(
    rt: &Rt,
    config: &dyn LayoutConfig,
    disk: Rc<dyn BlockDevice>,
) -> Result<twin_fs::Result<Volume>, String> {
    let opening = config.open(rt, disk, Cpu::none(), Settings::default());
    let opened = rt.block_on(opening).map_err(|e| e.to_string())?;
    Ok(opened.map(|Opened { volume, .. }| volume))
}

fn walk(rt: &Rt, volume: &Volume) -> Result<Result<Dump, twin_model::DumpError>, String> {
    rt.block_on(twin_model::dump(volume, &mut 1)).map_err(|e| e.to_string())
}

impl Healthy {
    fn new(rotting: Rotting) -> Result<Healthy, String> {
        let mut config = rotting.kind.config();
        for (key, value) in rotting.settings {
            config.set(key, value).map_err(|e| e.to_string())?;
        }
        config.complete(&|key| rotting.settings.iter().any(|(set, _)| *set == key));
        let rt = runtime();
        let disk = Rc::new(RotDisk::new(vec![0; rotting.size as usize]));
        let identity = Identity { uuid: *b"a volume to rot.", root: (0, 0, 0o755) };
        let making = config.mkfs(&rt, Rc::clone(&disk) as _, identity);
        rt.block_on(making).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        for is_first in [true, false] {
            let rt = runtime();
            let volume = open(&rt, &*config, Rc::clone(&disk) as _)?.map_err(|e| e.to_string())?;
            let mut worker = Worker { rt: &rt, volume: &volume, next_id: 1 };
            match is_first {
                true => worker.make()?,
                false => worker.change()?,
            }
            rt.block_on(volume.close()).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
            rt.crash();
        }
        let (image, before) = (disk.bytes(), disk.before());
        let rt = runtime();
        let copy = Rc::new(MemDisk::from_bytes(image.clone()));
        let device = Rc::clone(&copy) as Rc<dyn BlockDevice>;
        let volume = open(&rt, &*config, device)?.map_err(|e| e.to_string())?;
        let opened = copy.to_bytes();
        let tree = walk(&rt, &volume)?.map_err(|e| e.to_string())?;
        rt.crash();
        Ok(Healthy { rotting, config, image, opened, before, tree })
    }

    fn unit(&self, unit: usize) -> &[u8] {
        &self.image[unit * UNIT..(unit + 1) * UNIT]
    }

    /// The contents that a unit can rot to, `now` being what it holds.
    fn faults(&self, unit: usize, now: &[u8], bits: usize, rng: &mut Rng) -> Vec<(Fault, Vec<u8>)> {
        let mut all = vec![(Fault::Zeroed, vec![0; UNIT])];
        all.extend(self.others(unit).into_iter().map(|other| (Fault::Misplaced, other)));
        all.extend(self.before.get(&unit).map(|old| (Fault::Stale, old.clone())));
        for _ in 0..bits {
            let mut bad = now.to_vec();
            bad[rng.below(UNIT as u64) as usize] ^= 1 << rng.below(8);
            all.push((Fault::Bit, bad));
        }
        all.retain(|(_, bad)| bad != now);
        all
    }

    /// What another block of the same kind holds, and what the next block in use does.
    fn others(&self, unit: usize) -> Vec<Vec<u8>> {
        let count = self.image.len() / UNIT;
        let used = |other: &usize| *other != unit && self.is_used(*other);
        let kind = |other: &usize| self.unit(*other)[..4] == self.unit(unit)[..4];
        let around = || (1..count).map(|step| (unit + step) % count).filter(used);
        let same = around().find(kind);
        let next = around().next().filter(|next| Some(*next) != same);
        same.into_iter().chain(next).map(|other| self.unit(other).to_vec()).collect()
    }

    fn is_used(&self, unit: usize) -> bool {
        self.unit(unit).iter().any(|&byte| byte != 0)
    }

    /// The paths and blocks of files whose data was changed in a unit.
    fn data_in(&self, unit: usize, bad: &[u8]) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for (good, bad) in self.unit(unit).chunks(512).zip(bad.chunks(512)) {
            let Some(text) = good.strip_prefix(MARK.as_bytes()).filter(|_| good != bad) else {
                continue;
            };
            let text = String::from_utf8_lossy(&text[..64]).into_owned();
            let Some((path, rest)) = text.split_once(" block ") else { continue };
            let Some(Ok(nth)) = rest.split(' ').next().map(str::parse) else { continue };
            // The marks count units.
            let nth: u64 = nth;
            all.push((path.to_owned(), nth * UNIT as u64 / self.rotting.block));
        }
        all.dedup();
        all
    }

    /// Opens a damaged image, and reads everything.
    fn used_damaged(&self, bad: Vec<u8>, rotted: &mut Rotted) -> Result<Option<String>, String> {
        let rt = runtime();
        let opened = open(&rt, &*self.config, Rc::new(MemDisk::from_bytes(bad)))?;
        let Ok(volume) = opened else {
            rotted.refused += 1;
            return Ok(None);
        };
        let wrong = match walk(&rt, &volume)? {
            Err(_) => {
                rotted.errors += 1;
                None
            }
            Ok(tree) if tree == self.tree => {
                rotted.right += 1;
                None
            }
            Ok(tree) => {
                let names = ["written", "read"];
                let compare = twin_model::Compare { inos: true, ..Default::default() };
                // What this does not compare, such as used space, is no content.
                let what = twin_model::diff(&self.tree, &tree, names, &compare);
                rotted.right += u64::from(what.is_none());
                what
            }
        };
        rt.crash();
        Ok(wrong)
    }

    fn checked(&self, bad: Vec<u8>) -> Result<Vec<String>, String> {
        let rt = runtime();
        let how = CheckRequest { data: self.rotting.has_data_checksums, repair: false };
        let (disk, mut quiet) = (Rc::new(MemDisk::from_bytes(bad)), |_, _| {});
        let checking = self.rotting.kind.check(&rt, disk, how, &mut quiet);
        Ok(match rt.block_on(checking).map_err(|e| e.to_string())? {
            Ok(report) => report.findings,
            Err(error) => vec![error.to_string()],
        })
    }

    /// Opens the healthy image, changes the unit below it, and scrubs.
    fn scrubbed(&self, unit: usize, bad: &[u8], fault: Fault) -> Result<Vec<String>, String> {
        let rt = runtime();
        let disk = Rc::new(RotDisk::new(self.image.clone()));
        let device = Rc::clone(&disk) as Rc<dyn BlockDevice>;
        let volume = open(&rt, &*self.config, device)?.map_err(|e| e.to_string())?;
        disk.put(unit, &self.below_open(unit, bad, fault));
        let scrub = Rc::new(Scrub::default());
        let scrubbing = volume.scrub(&scrub, ScrubHow::default());
        let done = rt.block_on(scrubbing).map_err(|e| e.to_string())?;
        rt.crash();
        let mut found: Vec<String> = done.err().iter().map(ToString::to_string).collect();
        found.extend(scrub.flaws().into_iter().map(|named| {
            let path = named.path.unwrap_or_default();
            format!("({path}) byte {}: {}", named.flaw.at, named.flaw.what)
        }));
        Ok(found)
    }

    fn opened_unit(&self, unit: usize) -> &[u8] {
        &self.opened[unit * UNIT..(unit + 1) * UNIT]
    }

    /// What a unit becomes by a fault when the volume is open, which may have written it.
    fn below_open(&self, unit: usize, bad: &[u8], fault: Fault) -> Vec<u8> {
        let (good, now) = (self.unit(unit), self.opened_unit(unit));
        match fault {
            Fault::Bit => {
                let flips = good.iter().zip(bad).map(|(a, b)| a ^ b);
                now.iter().zip(flips).map(|(byte, flip)| byte ^ flip).collect()
            }
            Fault::Stale if now != good => good.to_vec(),
            _ => bad.to_vec(),
        }
    }

    fn try_fault(
        &self,
        unit: usize,
        fault: Fault,
        bad: &[u8],
        rotted: &mut Rotted,
    ) -> Result<Outcome, String> {
        let mut image = self.image.clone();
        image[unit * UNIT..(unit + 1) * UNIT].copy_from_slice(bad);
        rotted.faults += 1;
        let wrong = self.used_damaged(image.clone(), rotted)?;
        let check = self.checked(image)?;
        let scrub = self.scrubbed(unit, bad, fault)?;
        rotted.checked += u64::from(!check.is_empty());
        rotted.scrubbed += u64::from(!scrub.is_empty());
        Ok(Outcome { wrong, check, scrub })
    }

    /// What is wrong with an outcome, and what excuses it.
    fn complaint(
        &self,
        (unit, fault, bad): (usize, Fault, &[u8]),
        [closed, opened]: &[Excuses; 2],
        outcome: &Outcome,
    ) -> Option<(Option<Excuse>, String)> {
        let good = self.unit(unit);
        let excuse = closed.of(unit, fault, good, bad);
        if let Some(wrong) = &outcome.wrong {
            let excuse = excuse.filter(|excuse| excuse.covers_wrong_data());
            return Some((excuse, format!("wrong data was read: {wrong}")));
        }
        if outcome.check.is_empty() {
            return Some((excuse, "check does not find it".into()));
        }
        let (now, later) = (self.opened_unit(unit), self.below_open(unit, bad, fault));
        if outcome.scrub.is_empty() {
            let excuse = match opened.is_hit(unit, now, &later) {
                true => opened.of(unit, fault, now, &later),
                false => Some(Excuse::Replaced),
            };
            return Some((excuse, "a scrub does not find it".into()));
        }
        // What finds a file without its directory, its inode, or the summary before it, has no name for it.
        if closed.is_hit_beside(MARK, unit, good, bad) {
            return None;
        }
        let data = self.data_in(unit, bad);
        let all = [("check", &outcome.check), ("a scrub", &outcome.scrub)];
        all.into_iter().find_map(|(who, found)| {
            // Of two blocks in a unit one may be dead.
            let is_named = data.is_empty() || data.iter().any(|one| names(found, one));
            (!is_named)
                .then(|| (excuse, format!("{who} does not name {data:?}: {}", found.join("; "))))
        })
    }
}

/// True if one of the texts names a path and a block.
fn names(texts: &[String], (path, nth): &(String, u64)) -> bool {
    // It was renamed.
    let path = format!("({})", path.replace("/dir/inner/f", "/other/g"));
    let blocks = [format!("block {nth} "), format!("block {nth}:")];
    let has_block = |text: &String| blocks.iter().any(|block| text.contains(block));
    texts.iter().any(|text| text.contains(&path) && has_block(text))
}

/// Lets a volume rot. See the module.
///
/// # Errors
/// The faults that were not found and have no excuse.
pub fn rot(rotting: Rotting, bounds: RotBounds) -> Result<Rotted, String> {
    let healthy = Healthy::new(rotting)?;
    if let Some(what) = healthy.checked(healthy.image.clone())?.first() {
        return Err(format!("the healthy volume: {what}"));
    }
    let nothing = healthy.unit(0).to_vec();
    if let Some(what) = healthy.scrubbed(0, &nothing, Fault::Zeroed)?.first() {
        return Err(format!("the healthy volume, scrubbed: {what}"));
    }
    let excuses = [&healthy.image, &healthy.opened].map(|image| Excuses::new(&rotting, image));
    let [closed, opened] = excuses;
    let excuses = [closed?, opened?];
    let mut rotted = Rotted::default();
    let mut bad_ones = Vec::new();
    let mut rng = Rng::stream(1, "rot");
    let units = (0..healthy.image.len() / UNIT).filter(|unit| healthy.is_used(*unit));
    for unit in units.step_by(bounds.one_in) {
        rotted.blocks += 1;
        for (fault, bad) in healthy.faults(unit, healthy.unit(unit), bounds.bits, &mut rng) {
            let outcome = healthy.try_fault(unit, fault, &bad, &mut rotted)?;
            match healthy.complaint((unit, fault, &bad), &excuses, &outcome) {
                None => {}
                Some((Some(why), _)) => *rotted.excused.entry(why).or_default() += 1,
                Some((None, what)) => bad_ones.push(format!("block {unit}, {fault:?}: {what}")),
            }
        }
    }
    match bad_ones.is_empty() {
        true => Ok(rotted),
        false => Err(format!("{rotted}\n{} faults\n{}", bad_ones.len(), bad_ones.join("\n"))),
    }
}
