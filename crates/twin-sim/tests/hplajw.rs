//! A drive against measurements: the week of hplajw (HP Labs 1992), in `../shared` beside the
//! repository or in the directory that TWINFS_SHARED names. The numbers of the drive were fitted to
//! the first half of the week (`model/drives/hp335h.rs`); the second half judges it. It is not
//! wholly unseen: its figures were known when the rules of the model were chosen (data moves to the
//! host track by track, no read-ahead).

mod common;

use std::io::Read;

use common::{Times, shared};
use twin_disk::IoKind;
use twin_rt::{Nanos, SECS, Time};
use twin_sim::model::{self, Access, DeviceModel, Options, Supply};

/// The middle of the 603,065 seconds.
const MIDDLE: Time = Time(302_000 * SECS);

/// A request with its measured time of service.
struct Measured {
    start: Time,
    took: Nanos,
    disk: usize,
    access: Access,
}

/// Columns: t_us, kind, start_us and stop_us after t_us, op, bytes, sector of 256 bytes, device.
fn parse(text: &str) -> Vec<Measured> {
    let measured = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |i: usize| fields[i].parse::<u64>().unwrap();
        let device = u32::from_str_radix(fields[7].trim_start_matches("0x"), 16).unwrap();
        let kind = if fields[4] == "R" { IoKind::Read } else { IoKind::Write };
        Measured {
            start: Time((number(0) + number(2)) * 1000),
            took: (number(3) - number(2)) * 1000,
            disk: usize::from(device & 0x100 != 0),
            access: Access { kind, at: number(6) * 256, len: number(5) },
        }
    };
    let mut all: Vec<Measured> = text.lines().skip(1).map(measured).collect();
    all.sort_by_key(|request| request.start);
    all
}

/// A modelled disk beside the measured one. The model gets each request as long after its own end
/// of the one before as the disk did: where the disk's heads were by rotation is not known, but how
/// far requests are apart in time decides how far the disk turns between them.
struct Replayed {
    disk: Box<dyn DeviceModel>,
    measured_end: Time,
    end: Time,
}

#[test]
fn the_hp335h_serves_the_second_half_of_the_week_as_was_measured() {
    let Some(file) = shared("hplajw-1992/hplajw.csv.zst") else { return };
    let mut text = String::new();
    zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    let mut disks = [0, 1].map(|_| Replayed {
        disk: model::REGISTRY.get("hp335h").unwrap().build(&Options::default()).unwrap(),
        measured_end: Time(0),
        end: Time(0),
    });
    let [mut first, mut second, mut reads, mut writes] = [const { Times(vec![], vec![]) }; 4];
    for request in parse(&text) {
        let Replayed { disk, measured_end, end } = &mut disks[request.disk];
        // A few requests start while the disk still has the one before.
        let now = *end + (request.start - *measured_end);
        *measured_end = request.start.max(*measured_end) + request.took;
        *end = disk.serve(now, &request.access, Supply::at_once(now)).done;
        let took = *end - now;
        let add = |times: &mut Times| {
            times.0.push(request.took);
            times.1.push(took);
        };
        if request.start < MIDDLE {
            add(&mut first);
            continue;
        }
        add(&mut second);
        add(if request.access.kind == IoKind::Read { &mut reads } else { &mut writes });
    }
    assert_eq!(first.0.len() + second.0.len(), 44_519);
    first.judge("first half, to which it was fitted");
    for (what, times) in [("all", second), ("reads", reads), ("writes", writes)] {
        let (demerit, close) = times.judge(&format!("second half, {what}"));
        assert!(demerit <= 0.04, "{what}: {demerit}");
        assert!(close >= 0.55, "{what}: {close}");
    }
}
