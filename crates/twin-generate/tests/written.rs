//! Generated workloads as traces and as tables.

use twin_trace::{Paths, Record, Source, Writer};

#[test]
fn an_operation_of_a_build_takes_less_than_12_bytes() {
    let mut source = twin_generate::start("build:files=300,clients=2,service=30us", 1).unwrap();
    let mut writer = Writer::new(std::io::sink(), &source.header().clone()).unwrap();
    let mut ops = 0;
    while let Some(record) = source.next_record().unwrap() {
        ops += u64::from(matches!(record, Record::Request { .. }));
        writer.record(&record).unwrap();
    }
    writer.flush().unwrap();
    let bytes_per_op = writer.written_bytes() as f64 / ops as f64;
    assert!(ops > 20_000 && bytes_per_op < 12.0, "{ops} operations, {bytes_per_op} bytes each");
}

#[test]
fn a_generated_workload_has_a_path_for_each_operation() {
    let mut paths = Paths::new(twin_generate::start("build:files=20", 1).unwrap());
    let mut all = Vec::new();
    while let Some(row) = paths.next_operation().unwrap() {
        all.push(row);
    }
    assert!(all.len() > 100 && all.iter().any(|row| row.op == "write"));
    assert!(all.iter().all(|row| !row.path.contains('#')), "{all:?}");
}
