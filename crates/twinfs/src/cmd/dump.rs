//! `twinfs dump`.

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
use twin_show::dump::{Csv, Json, Text};

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
            let mut sink = Json::new(out);
            run_into(kind, &args.image, &request, &mut sink)?;
            sink.finish().map(|()| sink.problems())
        }
        Format::Jsonl => {
            return Err(usage(
                "--format jsonl is for rows, and structures lie in each other: take json",
            ));
        }
        Format::Csv => {
            let mut sink = Csv::new(out, std::io::stderr());
            run_into(kind, &args.image, &request, &mut sink)?;
            sink.finish().map(|()| sink.problems())
        }
        Format::Table | Format::Html => {
            let mut sink = Text::new(out, std::io::stderr());
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
    let mut sink = Text::new(&mut text, std::io::stderr());
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
