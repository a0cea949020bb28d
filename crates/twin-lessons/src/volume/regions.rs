//! What lies where on the device: the fixed parts of a layout, named with the words of its description.

use serde_json::{Value, json};
use twin_disk::{IoKind, Origin};
use twin_sim::{Platter, Served};

use super::dumped::{Parts, dump};
use super::setup::Setup;

/// A part of the device.
pub(crate) struct Region {
    pub(crate) name: String,
    /// The kind of part, for colours and explanations.
    pub(crate) kind: &'static str,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Region {
    fn new(name: impl Into<String>, kind: &'static str, at: u64, end: u64) -> Region {
        Region { name: name.into(), kind, at, len: end.saturating_sub(at) }
    }
}

/// All parts, in the order in which they lie.
pub(crate) struct Regions(pub(crate) Vec<Region>);

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

impl Regions {
    /// The parts of the volume on a platter. A volume that cannot be read is one part.
    pub(crate) fn of(setup: &Setup, platter: &Platter) -> Result<Regions, String> {
        let own = |structure, which| dump(setup.layout, platter, structure, which, true);
        let mut regions = match setup.layout.name() {
            "vsfs" => own("overview", None).map(|parts| vsfs(platter, &parts)),
            "ffs" => own("groups", None).and_then(|groups| {
                let numbers = groups.rows("groups").map(|row| number(&row[0]));
                let first = groups.rows("groups").next().map_or(0, |row| number(&row[1]));
                let about = own("overview", None)?;
                let journal =
                    about.fields("volume").map_or(0, |fields| number(&fields["journal_bytes"]));
                let mut regions = vec![
                    Region::new("superblock", "superblock", 0, first.saturating_sub(journal)),
                    Region::new("journal", "journal", first.saturating_sub(journal), first),
                ];
                for group in numbers {
                    regions.extend(cylinder_group(&own("groups", Some(group))?));
                }
                Ok(regions)
            }),
            _ => own("superblock", None)
                .and_then(|about| Ok(log(platter, &about, &own("checkpoints", None)?))),
        }
        .unwrap_or_default();
        regions.sort_by_key(|region| region.at);
        regions.retain(|region| region.len > 0);
        Ok(Regions(filled(regions, platter.size())))
    }

    pub(crate) fn at(&self, byte: u64) -> Option<&Region> {
        let after = self.0.partition_point(|region| region.at <= byte);
        self.0.get(after.checked_sub(1)?).filter(|region| byte < region.at + region.len)
    }

    /// The names of the parts that a range touches, the first and the last.
    pub(crate) fn name(&self, at: u64, len: u64) -> String {
        let first = self.at(at).map_or("", |region| region.name.as_str());
        let last = self.at(at + len.max(1) - 1).map_or("", |region| region.name.as_str());
        if first == last { first.into() } else { format!("{first} to {last}") }
    }

    /// A request as the page shows it.
    pub(crate) fn request(&self, one: &Served) -> Value {
        let kind = match one.kind {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Flush => "flush",
            IoKind::Discard => "discard",
        };
        let origin = match one.origin {
            Origin::Cleaner => "cleaner",
            Origin::User => "user",
            _ => "system",
        };
        let p = &one.parts;
        json!({
            "kind": kind,
            "origin": origin,
            "at": one.at,
            "len": one.len,
            "what": if matches!(one.kind, IoKind::Flush) { "write cache".into() } else { self.name(one.at, one.len) },
            "begun_ns": one.begun.0,
            "done_ns": one.done.0,
            "waiting": one.waiting,
            "cylinders": one.cylinders.map(|(from, to)| [from, to]),
            "queue_ns": p.queue_ns,
            "seek_ns": p.seek_ns + p.head_switch_ns,
            "rotation_ns": p.rotation_ns,
            "transfer_ns": p.transfer_ns,
            "other_ns": p.total_ns() - p.queue_ns - p.medium_ns(),
        })
    }

    pub(crate) fn json(&self) -> Value {
        let region = |one: &Region| json!({"name": one.name, "kind": one.kind, "at": one.at, "len": one.len});
        self.0.iter().map(region).collect()
    }
}

/// Names what no part covers.
fn filled(regions: Vec<Region>, size: u64) -> Vec<Region> {
    let (mut out, mut end) = (Vec::new(), 0);
    let gap = |at: u64, to: u64| match at {
        0 => Region::new("superblock", "superblock", 0, to),
        _ => Region::new("unused", "unused", at, to),
    };
    for region in regions {
        if region.at > end {
            out.push(gap(end, region.at));
        }
        end = end.max(region.at + region.len);
        out.push(region);
    }
    if size > end {
        out.push(Region::new("unused", "unused", end, size));
    }
    out
}

fn vsfs(platter: &Platter, parts: &Parts) -> Vec<Region> {
    let rows: Vec<(String, u64, u64)> = parts
        .rows("volume")
        .map(|row| {
            (
                row[0].as_str().unwrap_or_default().replace('_', " "),
                number(&row[1]),
                number(&row[2]),
            )
        })
        .collect();
    let blocks: u64 = rows.iter().map(|(_, _, blocks)| blocks).sum();
    let block = platter.size() / blocks.max(1);
    let kind = |name: &str| match name {
        "superblock" => "superblock",
        "inode bitmap" | "data bitmap" => "bitmap",
        "inode table" => "inodes",
        _ => "data",
    };
    let region = |(name, first, blocks): (String, u64, u64)| {
        let block = block / 512 * 512;
        let kind = kind(&name);
        Region { name, kind, at: first * block, len: blocks * block }
    };
    rows.into_iter().map(region).collect()
}

fn cylinder_group(parts: &Parts) -> Vec<Region> {
    let Some(fields) = parts.fields("cylinder_group") else { return Vec::new() };
    let get = |name: &str| fields.get(name).map_or(0, number);
    let (group, at, maps) = (get("group"), get("at"), get("maps_at"));
    let (frags, data) = (get("frags"), get("data_start"));
    // A run of free fragments says how many bytes a fragment has.
    let frag = parts
        .rows("free")
        .find_map(|row| {
            (number(&row[0]) > 0).then(|| number(&row[2]).saturating_sub(at) / number(&row[0]))
        })
        .unwrap_or(1024);
    let table = maps + maps.saturating_sub(at).max(frag);
    let part = |name: &str, kind, from: u64, to: u64| {
        Region::new(format!("group {group}: {name}"), kind, from, to)
    };
    let (data, end) = (at + data * frag, at + frags * frag);
    vec![
        part("copy of the superblock", "superblock", at, maps),
        part("maps", "bitmap", maps, table),
        part("inode table", "inodes", table, data),
        part("data", "data", data, end),
    ]
}

fn log(platter: &Platter, about: &Parts, checkpoints: &Parts) -> Vec<Region> {
    let Some(fields) = about.fields("superblock") else { return Vec::new() };
    let get = |name: &str| fields.get(name).map_or(0, number);
    let (first, size, segments) = (get("first_segment_at"), get("segment_size"), get("segments"));
    let mut regions: Vec<Region> = (0..segments)
        .map(|n| Region {
            name: format!("segment {n}"),
            kind: "segment",
            at: first + n * size,
            len: size,
        })
        .collect();
    let places = checkpoints.0.iter().filter_map(|part| part["fields"]["at"].as_u64());
    let mut places: Vec<u64> = places.collect();
    places.sort_unstable();
    places.dedup();
    for (n, at) in places.iter().enumerate() {
        let next = places.get(n + 1).copied().filter(|next| *next <= first).unwrap_or(first);
        let end = if *at < first { next } else { platter.size() };
        let name = format!("checkpoint {n}");
        regions.push(Region {
            name,
            kind: "checkpoint",
            at: *at,
            len: end.saturating_sub(*at).min(64 << 10),
        });
    }
    regions
}
