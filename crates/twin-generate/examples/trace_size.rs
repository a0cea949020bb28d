//! How many bytes an operation takes in a trace: `cargo run --release -p twin-generate --example trace_size`.

use twin_trace::{Record, Source, Writer};

fn main() {
    println!("{:>9} {:>10} {:>9}  workload", "ops", "bytes", "bytes/op");
    for text in [
        "build:files=2000,clients=4,service=30us",
        "build:files=2000,clients=1,service=30us",
        "small-files:files=20000,service=30us",
        "mail:messages=5000,clients=4,service=30us",
        "tpcb:transactions=20000,clients=4,service=30us",
        "large-file:service=30us",
        "zipf:service=30us",
    ] {
        let (ops, bytes) = size(text);
        println!("{ops:>9} {bytes:>10} {:>9.2}  {text}", bytes as f64 / ops as f64);
    }
}

fn size(text: &str) -> (u64, u64) {
    let mut source = twin_generate::start(text, 1).expect("the workloads above exist");
    let header = source.header().clone();
    let mut writer = Writer::new(std::io::sink(), &header).expect("a sink takes everything");
    let mut ops = 0;
    while let Some(record) = source.next_record().expect("a generator cannot fail") {
        ops += u64::from(matches!(record, Record::Request { .. }));
        writer.record(&record).expect("a sink takes everything");
    }
    writer.flush().expect("a sink takes everything");
    (ops, writer.written_bytes())
}
