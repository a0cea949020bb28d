//! Generated workloads: repeatable from the seed, ordered by time, and consistent.

use std::collections::BTreeSet;

use twin_fs::{Op, ROOT_INO};
use twin_trace::{Outcome, Record, Source};

fn records(text: &str, seed: u64) -> Vec<Record> {
    let mut source = twin_generate::start(text, seed).unwrap();
    let mut records = Vec::new();
    while let Some(record) = source.next_record().unwrap() {
        records.push(record);
    }
    records
}

/// Small settings for each workload.
fn small() -> Vec<String> {
    let small = [
        ("build", "files=50,headers=20,per-dir=10"),
        ("small-files", "files=100,per-dir=30"),
        ("mail", "messages=80,keep=20,news=50%"),
        ("tpcb", "transactions=100,accounts-bytes=1m,checkpoint-every=30"),
        ("large-file", "file-bytes=200k"),
        ("zipf", "writes=500,file-bytes=1m,reads=20%"),
        ("sprite-like", "hours=1,from=12"),
        ("file-server", "part=1%"),
        ("sprite-1991", "hours=1,from=12"),
    ];
    assert_eq!(small.len(), twin_generate::REGISTRY.len(), "a workload has no small settings here");
    small
        .iter()
        .map(|(name, settings)| format!("{name}:{settings},clients=3,service=9us"))
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_records_and_another_gives_others() {
    for text in small() {
        let once = records(&text, 4);
        assert_eq!(once, records(&text, 4), "{text}");
        assert_ne!(once, records(&text, 5), "{text}");
        assert!(once.len() > 600, "{text}: {} records", once.len());
    }
}

#[test]
fn records_come_in_order_and_name_only_what_is_known() {
    for text in small() {
        let (mut last_ns, mut requests, mut clients) = (0, 0, BTreeSet::new());
        let mut known: BTreeSet<u64> = [ROOT_INO].into();
        let mut asked = BTreeSet::new();
        for record in records(&text, 9) {
            match record {
                Record::Node(node) => {
                    assert_eq!(requests, 0, "{text}: nodes come first");
                    assert!(known.contains(&node.dir), "{text}: {node:?}");
                    known.insert(node.ino);
                }
                Record::Request { at_ns, request } => {
                    requests += 1;
                    assert!(at_ns >= last_ns && request.id == requests, "{text}");
                    last_ns = at_ns;
                    clients.insert(request.client);
                    if let Op::Read { ino, .. } | Op::Write { ino, .. } | Op::Open { ino, .. } =
                        request.op
                    {
                        assert!(known.contains(&ino), "{text}: {request:?}");
                    }
                    if !matches!(request.op, Op::Forget { .. }) {
                        asked.insert(request.id);
                    }
                }
                Record::Reply { at_ns, id, outcome } => {
                    assert!(at_ns >= last_ns && asked.remove(&id), "{text}");
                    last_ns = at_ns;
                    if let Outcome::Entry(ino) = outcome {
                        known.insert(ino);
                    }
                }
            }
        }
        assert!(asked.is_empty(), "{text}: every request is answered");
        assert_eq!(clients.len(), 3, "{text}: every client works");
    }
}

#[test]
fn a_wrong_name_or_setting_is_refused_with_what_would_do() {
    let error = |text| twin_generate::start(text, 0).err().unwrap().to_string();
    assert!(error("bild").contains("build, small-files, mail"), "{}", error("bild"));
    assert!(error("zipf:blocks=3").contains("block-bytes"), "{}", error("zipf:blocks=3"));
    assert!(
        error("zipf:clients=0").contains("not between 1 and 4096"),
        "{}",
        error("zipf:clients=0")
    );
}
