//! Looking at a session: structures on the platter, frames of the cache, the disk, the log.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use twin_disk::BlockDevice;
use twin_fs::{ROOT_INO, SegmentPhase};

use super::world::{State, World};
use crate::volume::{Machine, Regions, checked, dump};

/// The most frames of the cache in a view.
const MOST_FRAMES: usize = 512;
/// The most bytes in one answer.
const MOST_BYTES: u64 = 4096;

/// All that a page shows of a volume.
pub(super) fn view(world: &World) -> Result<Value, String> {
    let (platter, now) = world.platter();
    let layout = world.setup.layout;
    let off = matches!(world.state, State::Off(..));
    let shown = |structure| match dump(layout, &platter, structure, None, off) {
        Ok(parts) => Value::Array(parts.0),
        Err(why) => json!([{"problem": why}]),
    };
    let structures: Value = layout
        .structures()
        .iter()
        .filter(|one| one.name != "superblock" || layout.name() == "vsfs")
        .map(|one| json!({"structure": one.name, "about": one.about, "parts": shown(one.name)}))
        .collect();
    let mut view = json!({
        "ok": true,
        "settings": world.setup.text(),
        "layout": layout.name(),
        "size": world.setup.size,
        "sector": sector(world),
        "now_ns": now.0,
        "power": !off,
        "history": world.history.len(),
        "platter": format!("{:016x}", platter.digest()),
        "regions": Regions::of(&world.setup, &platter)?.json(),
        "space": shown("space"),
        "inodes": shown("inodes"),
        "structures": structures,
    });
    if let State::Open(machine, line) = &world.state {
        view["line"] = json!(line.as_ref().map(|line| &line.text));
        view["digest"] = json!(format!("{:016x}", machine.rt.digest().value()));
        view["cache"] = cache(machine, &view["inodes"]);
        view["disk"] = disk(machine);
        view["log"] = log(machine);
        view["written"] = written(machine);
    }
    Ok(view)
}

/// The frames of files that are in memory.
fn cache(machine: &Machine, inodes: &Value) -> Value {
    let core = machine.volume.core();
    let mut numbers: BTreeSet<u64> = core.dirty_inodes().iter().map(|inode| inode.ino).collect();
    numbers.insert(ROOT_INO);
    let tables = inodes.as_array().into_iter().flatten();
    for row in tables.filter_map(|table| table["rows"].as_array()).flatten() {
        numbers.extend(row[0].as_u64());
    }
    let (mut frames, mut inodes, mut more) = (Vec::new(), Vec::new(), 0_u64);
    for ino in numbers {
        let Some(inode) = core.cached_inode(ino) else { continue };
        inodes.push(json!({"ino": ino, "dirty": inode.is_dirty()}));
        for frame in inode.frames.resident(i64::MIN..i64::MAX) {
            if frames.len() < MOST_FRAMES {
                let (lbn, dirty) = (frame.lbn(), frame.is_dirty());
                frames.push(json!({"ino": ino, "lbn": lbn, "dirty": dirty}));
            } else {
                more += 1;
            }
        }
    }
    let stats = core.cache.stats();
    json!({
        "capacity": core.cache.capacity_bytes(),
        "resident": core.cache.resident_bytes(),
        "dirty": core.cache.dirty_bytes(),
        "hits": stats.hits,
        "misses": stats.misses,
        "frames": frames,
        "more_frames": more,
        "inodes": inodes,
    })
}

fn disk(machine: &Machine) -> Value {
    let served = machine.served.borrow();
    let stats = machine.disk.stats();
    let named = stats.parts.named();
    let parts: Vec<Value> =
        named.iter().map(|(name, ns)| json!({"name": name, "ns": ns})).collect();
    let last = served.last().map(|one| machine.regions.request(one));
    let arm = served.iter().rev().find_map(|one| one.cylinders).map(|(_, last)| last);
    json!({
        "name": machine.disk.info().name,
        "in_flight": machine.disk.in_flight(),
        "served": served.len(),
        "arm": arm,
        "last": last,
        "parts": parts,
    })
}

fn log(machine: &Machine) -> Value {
    let Some(log) = machine.volume.layout().views().log else { return Value::Null };
    let status = log.status(machine.volume.core());
    let phase = |phase| match phase {
        SegmentPhase::Clean => "clean",
        SegmentPhase::Open => "open",
        SegmentPhase::Sealed => "sealed",
        SegmentPhase::Cleaning => "cleaning",
    };
    let segments: Vec<Value> = status
        .segments
        .iter()
        .map(|one| {
            json!([
                phase(one.phase),
                one.live,
                one.written,
                status.now.saturating_sub(one.sealed_at)
            ])
        })
        .collect();
    json!({
        "clean": status.clean_segments,
        "low_water": status.low_water_segments,
        "write_cost": status.write_cost,
        "cleaned": status.cleaned_segments,
        "moved": status.moved_bytes,
        "checkpoints": status.checkpoints,
        "segments": segments,
    })
}

fn written(machine: &Machine) -> Value {
    let written = machine.volume.written();
    json!({
        "bytes": written.bytes,
        "new_data": written.new_data_bytes,
        "meta": written.meta_bytes,
        "moved": written.moved_bytes,
        "log_writes": written.batches,
    })
}

/// Bytes of the platter, in hexadecimal.
pub(super) fn bytes(world: &World, at: u64, len: u64) -> Result<Value, String> {
    let (platter, _) = world.platter();
    let at = at.min(platter.size());
    let len = len.min(MOST_BYTES).min(platter.size() - at);
    let read = platter.read_bytes(at, len);
    let hex: String = read.iter().map(|byte| format!("{byte:02x}")).collect();
    let regions = Regions::of(&world.setup, &platter)?;
    let region = regions.at(at);
    Ok(json!({
        "ok": true, "at": at, "len": len, "hex": hex,
        "region": region.map(|region| region.name.clone()),
        "kind": region.map(|region| region.kind),
    }))
}

/// Checks what is on the platter, without changing it.
pub(super) fn check(world: &World) -> Result<Value, String> {
    checked(world.setup.layout, &world.platter().0)
}

/// The size of a sector of the disk of a world, in bytes.
fn sector(world: &World) -> u32 {
    world.machine().map_or(512, |machine| machine.disk.info().sector)
}
