//! `twinfs receive`: a stream of `twinfs send` applied to a directory.

use std::fs;
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use twin_cli::progress::Progress;
use twin_cli::{Outcome, say, usage};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions};
use twin_send::{Reader, Receiver, Record};

use crate::cli::Receive;
use crate::size::Size;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;

/// What has happened to the directory so far.
#[derive(Default)]
struct Target {
    receiver: Option<Receiver<Mirror>>,
    /// The directory is new.
    is_new: bool,
}

pub(crate) fn run(args: &Receive) -> Outcome {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(usage("a stream of `twinfs send` is read from standard input"));
    }
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let receiving = Progress::waiting("the snapshot is received");
    let mut target = Target::default();
    let received = receive(&args.dir, &host, &mut input, &mut target);
    receiving.finish();
    let dir = args.dir.display();
    let text = received.map_err(|why| {
        let has_begun = target.receiver.as_ref().is_some_and(Receiver::has_begun);
        if !has_begun && target.is_new {
            let _ = fs::remove_dir(&args.dir);
        }
        match has_begun {
            true => format!("{dir}: {why}; a part of it is there: receive the same stream again"),
            false => format!("{dir}: {why}; nothing was changed"),
        }
    })?;
    say(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads and applies the stream. Gives what was received in words.
fn receive(
    dir: &Path,
    host: &Host,
    input: &mut dyn Read,
    target: &mut Target,
) -> Result<String, String> {
    let mut reader = Reader::new();
    let mut buffer = vec![0; BUFFER];
    let (mut name, mut data) = (String::new(), 0);
    loop {
        let len = match input.read(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("standard input: {error}")),
        };
        reader.push(&buffer[..len]);
        while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            match &record {
                Record::Header(header) => name.clone_from(&header.state.name),
                Record::End(totals) => data = totals.data_bytes,
                _ => {}
            }
            let receiver = target.open(dir)?;
            let applied = host.rt().block_on(receiver.apply(record)).map_err(|e| e.to_string())?;
            applied.map_err(|error| error.to_string())?;
        }
        if len == 0 {
            reader.finish().map_err(|error| error.to_string())?;
            return Ok(format!("{}: {name:?} received, {} of data", dir.display(), Size(data)));
        }
    }
}

impl Target {
    /// The receiver, for whose first record the directory is opened, and made if it is not there.
    fn open(&mut self, dir: &Path) -> Result<&mut Receiver<Mirror>, String> {
        let receiver = match self.receiver.take() {
            Some(receiver) => receiver,
            None => {
                match fs::create_dir(dir) {
                    Ok(()) => self.is_new = true,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error.to_string()),
                }
                Receiver::new(Mirror::open(dir).map_err(|error| error.to_string())?)
            }
        };
        Ok(self.receiver.insert(receiver))
    }
}
