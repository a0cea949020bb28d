//! `twinfs dump`.

mod csv;
mod json;
mod text;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use twin_cli::{Outcome, Printer, usage};
use twin_disk::BlockDevice;
use twin_fs::LayoutKind;
use twin_fs::dump::{Request, Sink};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, Interrupts};
use twin_mount::image::layout_of;
use twin_mount::media;
use twin_report::Report;

use crate::cli::{Dump, Format};

pub(crate) fn run(args: &Dump, interrupts: &Interrupts) -> Outcome {
    if args.output.parquet.is_some() {
        return Err(usage("--parquet is for rows, and structures lie in each other: take --json"));
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    let kind = layout_of(&args.image)?;
    let request = Request::parse(kind.structures(), &args.what, args.which.as_deref())
        .map_err(|why| usage(format!("{}, {}: {why}", args.image.display(), kind.noun())))?;
    let request = Request { unrecovered: args.unrecovered, ..request };
    if args.output.has_page() {
        let (report, is_good) = as_page(args, kind, &request)?;
        if args.output.format() == Format::Html {
            printer.print(&report)?;
            return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        printer.write_page(&report)?;
    }
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    let problems = match args.output.format() {
        Format::Json => {
            let mut sink = json::Json::new(out);
            run_into(kind, &args.image, &request, &mut sink)?;
            sink.finish().map(|()| sink.problems())
        }
        Format::Jsonl => {
            return Err(usage(
                "--format jsonl is for rows, and structures lie in each other: take json",
            ));
        }
        Format::Csv => {
            let mut sink = csv::Csv::new(out, std::io::stderr());
            run_into(kind, &args.image, &request, &mut sink)?;
            sink.finish().map(|()| sink.problems())
        }
        Format::Table | Format::Html => {
            let mut sink = text::Text::new(out, std::io::stderr());
            run_into(kind, &args.image, &request, &mut sink)?;
            sink.finish().map(|()| sink.problems())
        }
    };
    match problems {
        Ok(0) => Ok(ExitCode::SUCCESS),
        Ok(_) => Ok(ExitCode::FAILURE),
        // A reader that has gone (`| head`) is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("standard output: {error}").into()),
    }
}

/// A dump as a page, with the text for people in it; and whether it has no problems.
fn as_page(
    args: &Dump,
    kind: &dyn LayoutKind,
    request: &Request,
) -> Result<(Report, bool), String> {
    let mut text = Vec::new();
    let mut sink = text::Text::new(&mut text, std::io::stderr());
    run_into(kind, &args.image, request, &mut sink)?;
    sink.finish().map_err(|error| error.to_string())?;
    let problems = sink.problems();
    let title = format!("{} of {}", args.what, args.image.display());
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((Report::plain(title, text, [(); 0]), problems == 0))
}

fn run_into(
    kind: &dyn LayoutKind,
    image: &Path,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<(), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let options = ImageOptions { read_only: true, ..ImageOptions::default() };
    media::must_be_here(image, "dump")?;
    let device = FileDevice::open(&host, image, &options).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let work = kind.dump(host.rt(), device, request, sink);
    let done = host.rt().block_on(work).map_err(|e| e.to_string())?;
    done.map_err(|e| format!("{}: {e}", image.display()))
}

/// Remembers the first failure of a writer, so that sinks need not stop.
struct Writer<W> {
    out: W,
    failed: Option<std::io::Error>,
}

impl<W: Write> Writer<W> {
    fn new(out: W) -> Writer<W> {
        Writer { out, failed: None }
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// A name as text: bytes that are not printable are escaped as in C.
fn printable(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes)
                        .bytes()
                        .for_each(|b| text.push_str(&format!("\\x{b:02x}")));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| text.push_str(&format!("\\x{b:02x}")));
    }
    text
}

/// A time of day in UTC, and the nanoseconds.
pub(crate) fn utc(secs: i64, nanos: u32) -> String {
    let (day, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    // Days from 1 March of the year 0, in eras of 400 years of 146,097 days.
    let shifted = i128::from(day) + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month < 10 {
        true => (era * 400 + year_of_era, month + 3),
        false => (era * 400 + year_of_era + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanos:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(utc(0, 5), "1970-01-01 00:00:00.000000005");
        assert_eq!(utc(951_782_399, 0), "2000-02-28 23:59:59.000000000");
        assert_eq!(utc(951_782_400, 0), "2000-02-29 00:00:00.000000000");
        assert_eq!(utc(-1, 0), "1969-12-31 23:59:59.000000000");
        assert_eq!(utc(4_107_542_399, 0), "2100-02-28 23:59:59.000000000");
        assert_eq!(utc(4_107_542_400, 0), "2100-03-01 00:00:00.000000000");
        utc(i64::MIN, u32::MAX);
        utc(i64::MAX, 0);
    }

    #[test]
    fn names_of_any_bytes_are_printable() {
        assert_eq!(printable("für".as_bytes()), "für");
        assert_eq!(printable(b"a\nb\xff\\\x1b"), "a\\x0ab\\xff\\\\\\x1b");
    }
}
