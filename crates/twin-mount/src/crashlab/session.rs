//! The crash lab for test suites: a volume and its states, for whoever asks over a socket.
//!
//! Contract: the volume is mounted where everybody sees it, and the socket lies beside it. Who asks writes a line
//! and reads the answer: `ok`, `error` with why, or what was requested. The volume is there from the first line on
//! until `end`; from then on states are put at its path, one at a time. The session ends when the client or
//! standard input does, and removes what it has made. As in each run of the lab, a loss is planted and must be
//! found.
//!
//! | while the volume is there | |
//! |---|---|
//! | `ack LABEL` | LABEL is acknowledged |
//! | `fail CALL N FAULT` | the `N`-th call of this kind from now on, or every one (`*`), fails: the `device`, or for want of space (`no-space`) |
//! | `heal` | no call fails any more |
//! | `cut` | the power fails now: what is done from now on is in no state |
//! | `end` | the volume is unmounted; the answer counts operations, syncs and acknowledgements |
//!
//! | afterwards | |
//! |---|---|
//! | `at MOMENT` | only states of a power failure then: after N operations, at the Nth `fsync N`, at the `end` |
//! | `next` | the next state: `state NAME FILE`, FILE with what was acknowledged; or `none` |
//! | `state NAME` | this state |
//! | `passed`, `failed HOW` | what came of the state that was given last |
//! | `report` | `report BYTES`, and that number of bytes of JSON |

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use twin_crashlab::faults::{Fault, Rule};
use twin_crashlab::model::Model;
use twin_crashlab::report::{Counts, Facts, Verdict};
use twin_crashlab::{Budget, Class, History, Outcome, Search, Space, State, Trial};
use twin_fs::LayoutKind;
use twin_host::fuse::Deputy;
use twin_host::{Host, Interrupts, offload, own_program, real_clock};

use super::place::Place;
use super::run::{self, RecordedVolume, RunRequest};
use super::{Site, acknowledge_in, probe};

/// What a session begins with on standard output.
const GREETING: &str = "twinfs-crashlab-session 1";

/// How long a check of the planted loss may take.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// A volume, and how far its states go.
pub struct SessionRequest {
    /// The layout of the volume.
    pub layout: &'static dyn LayoutKind,
    /// Its size in bytes.
    pub size: u64,
    /// What it is like.
    pub like: &'static Model,
    /// How many states.
    pub budget: Budget,
}

/// Serves one client. `listen` is called once, before there is any thread.
///
/// # Errors
/// If the volume or the socket cannot be made, or the lab is broken.
pub fn session(
    request: &SessionRequest,
    listen: impl FnOnce() -> Result<Interrupts, String>,
) -> Result<(), String> {
    let deputy = Deputy::start().map_err(|e| format!("a process for calls into the mount: {e}"))?;
    let interrupts = listen()?;
    // Clients must see the mount, so it is not a mount of this process alone.
    let site = Site::make(false, None, &interrupts)?;
    let socket = site.scratch.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(|e| format!("{}: {e}", socket.display()))?;
    let ack_file = site.scratch.path().join("acks");
    let own = own_program()?;
    let probe_words = [own.into(), "ack".into(), "--probe".into(), "probe".into()];
    let run = RunRequest {
        layout: request.layout,
        size: request.size,
        setup: None,
        command: &[],
        probe: Some(&probe_words),
        env: &[],
        volume: &site.volume,
        ack_file: &ack_file,
        of_device: request.like.is_device,
    };
    let open = Open::watched(&socket)?;
    let greeting = format!(
        "{GREETING}\nvolume {}\nsocket {}\nacks {}\n",
        site.volume.display(),
        socket.display(),
        ack_file.display()
    );
    let ended = run::mounted(&run, deputy, async |host, recorded| {
        run::synced(recorded.inner(), &run).await?;
        recorded.inner().cut();
        print(&greeting)?;
        let client = offload(host, move || Client::accept(&listener, &open));
        let client = client.map_err(|e| e.to_string())?.await.map_err(|e| e.to_string())??;
        let Some((client, history)) = dialogue(host, recorded, &ack_file, &run, client).await?
        else {
            return Ok(None);
        };
        Ok(Some((client, history, run::probe(host, &run, recorded.inner()).await?)))
    })?;
    let Some((mut client, history, planted)) = ended else { return interrupts.check() };
    let config = request.like.is_device.then(|| request.layout.config());
    let limit = CHECK_LIMIT;
    let place = Place::make(site.scratch.path(), 0, &site.volume, false, limit, config)?;
    let planted = planted.ok_or("the probe left no history")?;
    if let Err(why) = probe::verify(planted, request.like, &place) {
        client.say(&format!("error the lab is broken: {why}"))?;
        return Err(why);
    }
    let counts = Counts::of(&history, 0);
    client.say(&format!("ok {} {} {}", counts.changes, counts.syncs, counts.acks))?;
    States::new(request, history, place).serve(&mut client)?;
    interrupts.check()
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| format!("standard output: {e}"))
}

/// The connection that is open, for who ends it.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<(Option<UnixStream>, bool)>>);

impl Open {
    /// One that ends with standard input. An interrupt ends the process, and removes what it has made.
    fn watched(socket: &Path) -> Result<Open, String> {
        let open = Open::default();
        let (mine, at) = (open.clone(), socket.to_owned());
        let watch = move || {
            let mut rest = Vec::new();
            let _ = std::io::stdin().lock().read_to_end(&mut rest);
            mine.end(&at);
        };
        let thread = std::thread::Builder::new().name("stdin".into()).spawn(watch);
        thread.map_err(|e| format!("no thread: {e}"))?;
        Ok(open)
    }

    fn end(&self, socket: &Path) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = true;
        match &state.0 {
            Some(stream) => drop(stream.shutdown(std::net::Shutdown::Both)),
            // Who waits for a client gets one that says nothing.
            None => drop(UnixStream::connect(socket)),
        }
    }
}

/// Who asks.
struct Client {
    lines: BufReader<UnixStream>,
    answers: UnixStream,
}

impl Client {
    fn accept(listener: &UnixListener, open: &Open) -> Result<Client, String> {
        let text = |e: std::io::Error| format!("the socket: {e}");
        let (stream, _) = listener.accept().map_err(text)?;
        let mut state = open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 {
            stream.shutdown(std::net::Shutdown::Both).map_err(text)?;
        }
        state.0 = Some(stream.try_clone().map_err(text)?);
        let answers = stream.try_clone().map_err(text)?;
        Ok(Client { lines: BufReader::new(stream), answers })
    }

    /// The next line; none when the client has gone.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches('\n').to_owned()),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let line = line.replace('\n', " ");
        let said = self.answers.write_all(format!("{line}\n").as_bytes());
        said.map_err(|e| format!("the socket: {e}"))
    }

    fn answer(&mut self, answer: Result<(), String>) -> Result<(), String> {
        match answer {
            Ok(()) => self.say("ok"),
            Err(why) => self.say(&format!("error {why}")),
        }
    }
}

/// Reads `write 3 no-space` or `fsync * device`.
fn rule(text: &str) -> Result<Rule, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [call, nth, "device"] => Rule::new(call, nth, Fault::Device),
        [call, nth, "no-space"] => Rule::new(call, nth, Fault::NoSpace),
        _ => Err(format!("{text}: a fault is a call, a number or *, and device or no-space")),
    }
}

/// Answers until `end`, and gives the history; none if the client goes before.
async fn dialogue(
    host: &Host,
    recorded: &RecordedVolume,
    ack_file: &Path,
    run: &RunRequest<'_>,
    mut client: Client,
) -> Result<Option<(Client, History)>, String> {
    let cut: RefCell<Option<History>> = RefCell::default();
    loop {
        let next = offload(host, move || {
            let line = client.line();
            (client, line)
        });
        let (again, line) = next.map_err(|e| e.to_string())?.await.map_err(|e| e.to_string())?;
        client = again;
        let Some(line) = line else { return Ok(None) };
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match word {
            "ack" => acknowledge_in(ack_file, rest),
            "fail" => rule(rest).map(|rule| recorded.add(rule)),
            "heal" => {
                recorded.heal();
                Ok(())
            }
            "cut" => {
                let so_far = recorded.inner().cut();
                cut.borrow_mut().get_or_insert(so_far);
                Ok(())
            }
            "end" => {
                recorded.heal();
                recorded.inner().exited();
                run::synced(recorded.inner(), run).await?;
                let rest = recorded.inner().cut();
                return Ok(Some((client, cut.take().unwrap_or(rest))));
            }
            _ => Err(format!("{word}: is not understood while the volume is there")),
        };
        client.answer(answer)?;
    }
}

/// The states of a history, given one after the other.
struct States<'a> {
    request: &'a SessionRequest,
    history: History,
    place: Place,
    search: Search,
    /// The state that was given last, until it is known what came of it.
    given: Option<Trial>,
    classes: Vec<Class>,
}

impl<'a> States<'a> {
    fn new(request: &'a SessionRequest, history: History, place: Place) -> States<'a> {
        let search = Search::new(Space::of(history.clone(), request.like), request.budget);
        States { request, history, place, search, given: None, classes: Vec::new() }
    }

    fn serve(&mut self, client: &mut Client) -> Result<(), String> {
        while let Some(line) = client.line() {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "at" => {
                    let begun = self.begin_at(rest);
                    client.answer(begun)?;
                }
                "next" => match self.search.next_trial() {
                    None => client.say("none")?,
                    Some(trial) => self.give(trial, client)?,
                },
                "state" => {
                    let trial = rest.parse::<State>().map(|state| self.search.trial(state));
                    match trial {
                        Ok(Some(trial)) => self.give(trial, client)?,
                        Ok(None) => client.say("error this run has no such state")?,
                        Err(why) => client.say(&format!("error {why}"))?,
                    }
                }
                "passed" => {
                    let judged = self.judge(Outcome::Passed);
                    client.answer(judged)?;
                }
                "failed" => {
                    let (how, said) = (rest.to_owned(), String::new());
                    let judged = self.judge(Outcome::Failed { how, said });
                    client.answer(judged)?;
                }
                "report" => {
                    let report = self.report();
                    client.say(&format!("report {}", report.len()))?;
                    let written = client.answers.write_all(report.as_bytes());
                    written.map_err(|e| format!("the socket: {e}"))?;
                }
                _ => client.say(&format!("error {word}: is not understood after the end"))?,
            }
        }
        Ok(())
    }

    /// Begins anew with states of a power failure at this moment.
    fn begin_at(&mut self, moment: &str) -> Result<(), String> {
        let history = self.history.until(moment)?;
        self.search = Search::new(Space::of(history, self.request.like), self.request.budget);
        self.search.only_at_the_end();
        self.given = None;
        Ok(())
    }

    fn give(&mut self, trial: Trial, client: &mut Client) -> Result<(), String> {
        match self.place.lay_out(&trial) {
            Ok((_, acked)) => {
                let line = format!("state {} {}", trial.state, acked.display());
                self.given = Some(trial);
                client.say(&line)
            }
            Err(why) => client.say(&format!("error {why}")),
        }
    }

    fn judge(&mut self, outcome: Outcome) -> Result<(), String> {
        let trial = self.given.take().ok_or("no state was given")?;
        if outcome != Outcome::Passed {
            let class = self.search.class_of(&trial, outcome.clone());
            if !self.classes.iter().any(|known| known.why == class.why) {
                self.classes.push(class);
            }
        }
        self.search.judge(trial, outcome);
        Ok(())
    }

    fn report(&self) -> String {
        let verdict = if self.classes.is_empty() { Verdict::Survived } else { Verdict::Lost };
        let findings = self.search.findings();
        let space = self.search.space();
        let repeat = |class: &Class| format!("state {}", class.state_name());
        let facts = Facts {
            verdict,
            why: None,
            like: self.request.like.name,
            layout: self.request.layout.name(),
            command: "",
            check: "",
            seed: self.request.budget.seed,
            counts: Counts::of(&space.history, space.len().into()),
            findings: &findings,
            classes: &self.classes,
            seconds: real_clock()(),
            sees_loss: None,
            repeat: &repeat,
            second: None,
            notes: &[],
        };
        facts.report().write(twin_report::Form::Json)
    }
}
