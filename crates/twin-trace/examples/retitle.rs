//! Copies a trace under another title: `retitle FROM TO TITLE`.

use twin_trace::{Reader, Source, Writer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let mut reader = Reader::new(std::io::BufReader::new(std::fs::File::open(&args[1])?))?;
    let mut header = reader.header().clone();
    header.text.clone_from(&args[3]);
    let mut writer = Writer::new(std::fs::File::create_new(&args[2])?, &header)?;
    while let Some(record) = reader.next_record()? {
        writer.record(&record)?;
    }
    writer.finish()?;
    Ok(())
}
