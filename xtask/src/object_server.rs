//! A server of objects on this machine, for tests: versitygw over a folder.
//!
//! Contract: it listens on 127.0.0.1 with a folder of its own and ends with whoever started it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock::{Stopwatch, pause_ms};

/// Who may do everything on the server.
const KEYS: (&str, &str) = ("twinfs", "twinfs-on-this-machine");
/// The bucket.
pub(crate) const BUCKET: &str = "volumes";
/// Time limit for a server to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The variable with the program of the server, for scenarios that start one of their own.
pub(crate) const SERVER: &str = "TWIN_S3_SERVER";

/// A server of objects on this machine.
pub(crate) struct Server {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts one with an empty bucket.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Server, String> {
        let _ = std::fs::remove_dir_all(folder);
        let bucket = folder.join("objects").join(BUCKET);
        std::fs::create_dir_all(&bucket).map_err(|why| format!("{}: {why}", bucket.display()))?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| TcpListener::local_addr(&free));
        let port = free.map_err(|why| why.to_string())?.port();
        let child = run(program, folder, port)?;
        Ok(Server { program: program.into(), folder: folder.into(), port, child })
    }

    /// What a client needs in its environment.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ACCESS_KEY_ID", KEYS.0.to_string()),
            ("AWS_SECRET_ACCESS_KEY", KEYS.1.to_string()),
            ("AWS_REGION", "us-east-1".to_string()),
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_string()),
        ];
        pairs.map(|(name, value)| (name.to_string(), value)).to_vec()
    }

    /// The name of a volume in its bucket.
    pub(crate) fn volume(&self, name: &str) -> String {
        format!("s3://{BUCKET}/{name}")
    }

    /// Where the objects of a volume in its bucket are.
    pub(crate) fn objects(&self, name: &str) -> PathBuf {
        self.folder.join("objects").join(BUCKET).join(name)
    }

    /// Bytes of the objects of a volume in its bucket.
    pub(crate) fn stored(&self, name: &str) -> u64 {
        bytes_below(&self.objects(name))
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, with the objects that it has.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.child = run(&self.program, &self.folder, self.port)?;
        Ok(())
    }

    /// Requests that it has answered, by what its log says.
    pub(crate) fn requests(&self) -> usize {
        let Ok(log) = File::open(self.folder.join("log")) else { return 0 };
        let lines = BufReader::new(log).lines().map_while(Result::ok);
        lines.filter(|line| line.contains("| vgw |")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Bytes of the files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Starts the program and waits until it answers.
fn run(program: &Path, folder: &Path, port: u16) -> Result<Child, String> {
    let log = File::options().append(true).create(true).open(folder.join("log"));
    let log = log.map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut command = Command::new(program);
    command.args([
        "--access",
        KEYS.0,
        "--secret",
        KEYS.1,
        "--port",
        &format!("127.0.0.1:{port}"),
        "posix",
    ]);
    command.arg(folder.join("objects")).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(|why| why.to_string())?).stderr(log);
    let mut child = command.spawn().map_err(|why| format!("{}: {why}", program.display()))?;
    let watch = Stopwatch::start();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let has_ended = child.try_wait().ok().flatten().is_some();
        if has_ended || watch.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "the server of objects does not answer: see {}",
                folder.join("log").display()
            ));
        }
        pause_ms(20);
    }
    Ok(child)
}
