//! Studies of small traces, and the published counts on those that are in `../shared`.

use std::path::{Path, PathBuf};

use twin_cache::replacement::REGISTRY;
use twin_fs::{Data, Op, Request};
use twin_report::Form;
use twin_rt::Time;
use twin_trace::{ErrorCode, Header, Kind, Outcome, Record, Traits, block};

use super::load::Effect;
use super::*;

fn of_text(text: &str, as_objects: bool) -> Arc<Accesses> {
    let (_, source) = block::open_any(std::io::Cursor::new(text.to_owned())).unwrap();
    let loaded = load(Input::Requests(source), 4096, as_objects, &mut |_| {});
    assert!(loaded.damage.is_none(), "{}", loaded.damage.unwrap());
    Arc::new(loaded.accesses)
}

fn study(accesses: &Arc<Accesses>) -> Study {
    let accesses = Arc::clone(accesses);
    let policies = REGISTRY.iter().collect();
    Study { accesses, policies, sizes: vec![4096, 40_960], rules: Rules::Paper, disk: None }
}

/// The file in `../shared`, which is beside the checkout.
fn shared(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("../shared").join(path);
    if !file.exists() {
        println!("skipped: ../shared/{path} is missing");
        return None;
    }
    Some(file)
}

fn of_file(path: &Path, as_objects: bool) -> Arc<Accesses> {
    let (_, source) = block::open_any(std::fs::File::open(path).unwrap()).unwrap();
    let loaded = load(Input::Requests(source), 4096, as_objects, &mut |_| {});
    assert!(loaded.damage.is_none());
    Arc::new(loaded.accesses)
}

#[test]
fn threads_and_shared_passes_change_nothing() {
    let text: String = (0..3000u64).map(|n| format!("{}\n", n * n % 97 % (1 + n % 40))).collect();
    let accesses = of_text(&text, false);
    let study = study(&accesses);
    let rows = study.run(1, &|_| {}, &|_, _| {}).unwrap();
    assert_eq!(rows, study.run(3, &|_| {}, &|_, _| {}).unwrap());
    assert_eq!(rows.len(), 2 * REGISTRY.len());
    // LRU runs in one pass for all sizes; alone with each it is the same.
    let alone = study.one(0, 1, Blocks, &Packed::default(), &|_| {});
    assert_eq!(rows[1], alone);
}

#[test]
fn requests_are_divided_into_blocks_and_objects_are_whole() {
    let text = "0,W,0,8192,1\n0,R,2048,4096,2\n0,W,4096,512,3\n1,R,0,512,4\n";
    let blocks = of_text(text, false);
    assert_eq!((blocks.numbers.all(), blocks.blocks), (vec![0, 1, 0, 1, 1, 2], 3));
    let effects = [Effect::Write, Effect::Write, Effect::Read, Effect::Read, Effect::WritePart];
    let found: Vec<Effect> = blocks.effects.all().into_iter().map(Effect::of).collect();
    assert_eq!(found[..5], effects);
    let objects = of_text(text, true);
    assert_eq!(objects.numbers.all(), [0, 1, 2, 3]);
    assert_eq!(objects.sizes, Some(vec![8192, 4096, 512, 512]));
}

/// The reads and writes of a recording of a mount, by hand.
struct Mounted(twin_trace::Header, std::vec::IntoIter<Record>);

impl twin_trace::Source for Mounted {
    fn header(&self) -> &twin_trace::Header {
        &self.0
    }

    fn next_record(&mut self) -> Result<Option<Record>, twin_trace::TraceError> {
        Ok(self.1.next())
    }
}

/// Of a recording of a mount only the reads were counted, 6,949 accesses of 22,655: its writes are written
/// back by the kernel. A read at the end of a file counted, though nothing was read.
#[test]
fn write_backs_are_accesses_and_reads_of_nothing_are_none() {
    let read = |off| Op::Read { ino: 9, off, len: 4096 };
    let data = || Data::Synthetic(8192);
    let done = [
        (read(0), Outcome::Data(100)),
        (Op::WriteBack { ino: 9, off: 4096, data: data() }, Outcome::Written(8192)),
        (read(1 << 20), Outcome::Data(0)),
        (Op::Write { ino: 9, off: 0, data: data() }, Outcome::Failed(ErrorCode::NoSpace)),
        (Op::Fsync { ino: 9, data_only: false }, Outcome::Done),
        (Op::Write { ino: 9, off: 0, data: data() }, Outcome::Written(512)),
    ];
    let (mut records, mut answers) = (Vec::new(), Vec::new());
    for (id, (op, outcome)) in (1..).zip(done) {
        records.push(Record::Request { at_ns: id, request: Request::root(id, op) });
        answers.push(Record::Reply { at_ns: 10, id, outcome });
    }
    // Answers in another order than requests change nothing.
    records.extend(answers.into_iter().rev());
    let (kind, start, traits) = (Kind::Operations, Time(0), Traits::default());
    let header = Header { kind, start, seed: 0, traits, text: String::new() };
    let source = Box::new(Mounted(header, records.into_iter()));
    let loaded = load(Input::Operations(source), 4096, false, &mut |_| {});
    assert_eq!(loaded.accesses.numbers.all(), [0, 1, 2, 0]);
    let effects: Vec<Effect> = loaded.accesses.effects.all().into_iter().map(Effect::of).collect();
    assert_eq!(effects, [Effect::Read, Effect::Write, Effect::Write, Effect::WritePart]);
    assert!(loaded.reading.notes()[0].contains("2 reads and writes"), "{:?}", loaded.reading);
}

/// On a disk that takes 100 us for a request, times can be added by hand.
#[test]
fn the_disk_reads_misses_and_writes_what_is_dirty() {
    // The blocks 0 and 1 are read together; 2 is written whole and not read; 3 is written in part.
    let text = "0,R,0,8192,1\n0,W,8192,4096,2\n0,W,12288,512,3\n0,R,0,4096,4\n";
    let accesses = of_text(text, false);
    let disk = model::REGISTRY.get("ssd-sata").unwrap();
    let policies = vec![REGISTRY.default_entry()];
    let study = Study { disk: Some(disk), policies, ..study(&accesses) };
    let rows = study.run(1, &|_| {}, &|_, _| {}).unwrap();
    // With one frame every access is a miss, with ten only the first ones.
    let counts = |row: &Row| {
        let device = row.device.as_ref().unwrap();
        (row.misses, device.device_reads, device.device_writes)
    };
    assert_eq!(rows.iter().map(counts).collect::<Vec<_>>(), [(5, 3, 2), (4, 2, 2)]);
    let ms = |row: &Row| row.device.as_ref().unwrap().device_ms;
    assert!(ms(&rows[0]) > ms(&rows[1]) && ms(&rows[1]) > 0.0, "{rows:?}");
}

#[test]
fn a_trace_that_the_disk_cannot_hold_is_refused() {
    let accesses = of_text("0,R,0,4096,1\n0,R,4398046511104,4096,2\n", false);
    let disk = model::REGISTRY.default_entry();
    // Its places are beyond the disk, but both blocks fit.
    Study { disk: Some(disk), ..study(&accesses) }.check().unwrap();
    let text: String = (0..3000u64).map(|n| format!("0,R,{},1048576,{n}\n", n << 20)).collect();
    let accesses = of_text(&text, false);
    let why = Study { disk: Some(disk), ..study(&accesses) }.check().unwrap_err();
    assert!(why.contains("choose a larger disk"), "{why}");
}

#[test]
fn the_page_draws_every_policy() {
    let accesses = of_text("1\n2\n3\n1\n2\n", false);
    let page_of = |accesses: &Arc<Accesses>| {
        let study = study(accesses);
        report("a & b", &study, &study.run(1, &|_| {}, &|_, _| {}).unwrap()).write(Form::Html)
    };
    let page = page_of(&accesses);
    let differing = "0,R,0,4096,1\n0,R,8192,512,2\n0,R,0,4096,3\n";
    let of_objects = page_of(&of_text(differing, true));
    assert!(of_objects.contains("it is no optimum") && !of_objects.contains("The optimum would"));
    assert!(page.contains("Caches for a &amp; b") && !page.contains("NaN"));
    assert!(REGISTRY.iter().all(|entry| page.contains(entry.name)));
    assert!(page.contains("The optimum would be") && page.contains("<svg"));
}

/// The counts of libCacheSim's own tests, every policy and every size.
#[test]
fn misses_on_objects_are_those_of_libcachesim() {
    let (Some(trace), Some(counts)) = (
        shared("traces/cloudphysics-vm/cloudphysics.csv.zst"),
        shared("targets/cache_miss_counts.csv"),
    ) else {
        return;
    };
    let accesses = of_file(&trace, true);
    let counts = std::fs::read_to_string(counts).unwrap();
    let lines = counts.lines().filter(|line| !line.starts_with('#')).skip(1);
    let expected: Vec<(&str, Vec<u64>)> = lines
        .map(|line| {
            let mut cells = line.split(',');
            let name = cells.next().unwrap();
            (name, cells.map(|cell| cell.parse().unwrap()).collect())
        })
        .collect();
    assert!(expected.len() >= 13, "{expected:?}");
    let policies = expected.iter().map(|(name, _)| REGISTRY.get(name).unwrap()).collect();
    let sizes = (1..=8).map(|n| n << 27).collect();
    let study = Study {
        accesses: Arc::clone(&accesses),
        policies,
        sizes,
        rules: Rules::LibCacheSim,
        disk: None,
    };
    let rows = study.run(2, &|_| {}, &|_, _| {}).unwrap();
    for (at, (name, misses)) in expected.iter().enumerate() {
        let found: Vec<u64> = rows[at * 8..at * 8 + 8].iter().map(|row| row.misses).collect();
        assert_eq!(found, *misses, "{name}");
    }
}

/// Published hits on the OLTP string: Megiddo and Modha (FAST 2003), tables of section V.
#[test]
fn hits_on_the_oltp_string_are_those_published() {
    let Some(trace) = shared("traces/cache-reference-strings/arc-OLTP.lis.zst") else { return };
    let accesses = of_file(&trace, false);
    assert_eq!(accesses.len(), 914_145);
    let hits = |name: &str, frames: u64| {
        let policies = vec![REGISTRY.get(name).unwrap()];
        let sizes = vec![frames * 4096];
        let rows =
            Study { policies, sizes, ..study(&accesses) }.run(1, &|_| {}, &|_, _| {}).unwrap();
        rows[0].requests - rows[0].misses
    };
    assert_eq!((hits("lru", 1000), hits("lru", 5000)), (300_122, 490_443));
    for (name, percent) in [("lru-2", 39.30), ("2q", 40.48), ("arc", 38.93)] {
        let found = 100.0 * hits(name, 1000) as f64 / accesses.len() as f64;
        assert!((found - percent).abs() < 0.5, "{name}: {found:.2}, published {percent}");
    }
}

/// On accesses none of which comes again, the first policy of the list had "the least" misses.
#[test]
fn policies_that_miss_alike_are_called_alike() {
    let text: String = (0..50u64).map(|n| format!("0,R,{},4096,{n}\n", n << 12)).collect();
    let study = study(&of_text(&text, false));
    let rows = study.run(1, &|_| {}, &|_, _| {}).unwrap();
    let report = report("t", &study, &rows);
    let verdict = report.verdict_text();
    assert!(verdict.contains("policies miss alike: 100.00% of 50 accesses"), "{verdict}");
    assert!(!verdict.contains("Next is"), "{verdict}");
}
