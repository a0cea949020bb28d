//! Who observes a mount: those who asked for observers, and what they are told.
//!
//! Contract: nothing is observed while nobody has asked for it, and a mount whose last observer has gone is as it
//! was. Observers are told of operations and of device requests that begin while they observe; of requests
//! in the order in which they arrived, each when it and all before it have ended.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twin_disk::{Io, IoKind};
use twin_fs::{Begun, Op, OperationObserver, Volume};
use twin_host::{Grade, Host, NewFile, RequestObserver, Requests, Words, offload};
use twin_observe::{Mounted, Observing, Row, Unseen, rows};
use twin_report::rows::csv;
use twin_report::value;
use twin_rt::Time;
use twin_sim::{Served, TimeBreakdown};
use twin_trace::Verb;

/// Those who may observe a mount.
pub struct Observers {
    host: Host,
    volume: Volume,
    requests: Requests,
    observations: Rc<Observations>,
}

/// Those who do.
struct Observations {
    host: Host,
    taken: RefCell<Vec<Rc<Mounted>>>,
    under_way: RefCell<BTreeMap<u64, UnderWay>>,
}

/// A device request that has not been told of.
struct UnderWay {
    served: Served,
    has_ended: bool,
}

/// One who observes a mount until this is dropped.
pub struct Observation {
    observers: Rc<Observers>,
    mounted: Rc<Mounted>,
}

impl Observers {
    /// Of a volume that is open on `host`, above the device with these requests.
    pub fn of(host: &Host, volume: &Volume, requests: Requests) -> Rc<Observers> {
        let observations = Observations {
            host: host.clone(),
            taken: RefCell::default(),
            under_way: RefCell::default(),
        };
        let (host, volume) = (host.clone(), volume.clone());
        Rc::new(Observers { host, volume, requests, observations: Rc::new(observations) })
    }

    /// Begins to observe.
    ///
    /// # Errors
    /// If the interval is too short.
    pub fn observe(self: &Rc<Self>, observing: &Observing) -> Result<Observation, String> {
        let mounted = Mounted::begin(observing, &self.volume, self.host.now());
        let mounted = Rc::new(mounted.map_err(|error| error.to_string())?);
        self.observations.taken.borrow_mut().push(Rc::clone(&mounted));
        if self.observations.taken.borrow().len() == 1 {
            self.attach(true);
        }
        let (weak, host, look_ns) = (Rc::downgrade(&mounted), self.host.clone(), mounted.look_ns());
        self.host.rt().spawn("observers", async move {
            loop {
                host.rt().sleep(look_ns).await;
                match weak.upgrade() {
                    Some(mounted) => mounted.look(host.now()),
                    None => return,
                }
            }
        });
        Ok(Observation { observers: Rc::clone(self), mounted })
    }

    fn attach(&self, on: bool) {
        self.observations.under_way.borrow_mut().clear();
        let operations = on.then(|| Rc::clone(&self.observations) as Rc<dyn OperationObserver>);
        self.volume.core().observe_operations(operations);
        self.requests.observe(on.then(|| Rc::clone(&self.observations) as Rc<dyn RequestObserver>));
    }
}

impl Observation {
    /// What its observers do not see.
    pub fn unseen(&self) -> &[Unseen] {
        self.mounted.unseen()
    }

    /// The figures of the intervals that have ended since this was last called.
    pub fn take_intervals(&self) -> Vec<Row> {
        self.mounted.take_intervals()
    }

    /// Ends observing, and returns the figures of all of it.
    pub fn end(&self) -> Vec<twin_observe::Observed> {
        self.mounted.end(self.observers.host.now())
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let observations = &self.observers.observations;
        observations.taken.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.mounted));
        if observations.taken.borrow().is_empty() {
            self.observers.attach(false);
        }
    }
}

impl OperationObserver for Observations {
    fn begun(&self, op: &Op) -> Begun {
        let verb = Verb::of(op);
        let kind = Verb::ALL.iter().position(|one| *one == verb).unwrap_or_default();
        Begun { kind: kind as u32, at: self.host.now() }
    }

    fn ended(&self, begun: Begun) {
        let now = self.host.now();
        let Some(verb) = Verb::ALL.get(begun.kind as usize) else { return };
        for mounted in &*self.taken.borrow() {
            mounted.look(now);
            mounted.ended(*verb, now.since(begun.at));
        }
    }
}

impl RequestObserver for Observations {
    fn submitted(&self, number: u64, io: &Io) {
        let mut under_way = self.under_way.borrow_mut();
        let waits = |one: &&UnderWay| {
            !one.has_ended && matches!(one.served.kind, IoKind::Read | IoKind::Write)
        };
        let served = Served {
            kind: io.kind,
            at: io.at,
            len: io.len,
            origin: io.origin,
            begun: self.host.now(),
            done: Time(0),
            parts: TimeBreakdown::default(),
            waiting: under_way.values().filter(waits).count(),
            cylinders: None,
        };
        under_way.insert(number, UnderWay { served, has_ended: false });
    }

    fn ended(&self, number: u64) {
        let mut under_way = self.under_way.borrow_mut();
        let Some(one) = under_way.get_mut(&number) else { return };
        (one.served.done, one.has_ended) = (self.host.now(), true);
        while let Some(first) = under_way.first_entry()
            && first.get().has_ended
        {
            let UnderWay { served, .. } = first.remove();
            self.taken.borrow().iter().for_each(|mounted| mounted.served(&served));
        }
    }
}

/// The observers of `mount --observe`, and the file to which their figures go.
pub struct ObservedFile {
    observation: Rc<Observation>,
    lines: Arc<Mutex<Lines>>,
}

/// A file of rows.
struct Lines {
    file: File,
    name: PathBuf,
    has_names: bool,
}

impl Lines {
    fn add(&mut self, rows: &[Row]) -> Result<(), String> {
        let rows: Vec<_> = rows.iter().map(value).collect();
        let text = csv(&rows, !self.has_names);
        let added = self.file.write_all(text.as_bytes());
        added.map_err(|error| format!("{}: {error}", self.name.display()))?;
        self.has_names |= !text.is_empty();
        Ok(())
    }
}

fn locked(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ObservedFile {
    /// Begins. Figures of each interval are written when it has ended, on a thread of its own: clients
    /// do not wait for it.
    ///
    /// # Errors
    /// If the interval is too short, or there is no file.
    pub fn begin(
        observers: &Rc<Observers>,
        observing: &Observing,
        new: NewFile,
        words: &Rc<Words>,
    ) -> Result<ObservedFile, String> {
        let observation = Rc::new(observers.observe(observing)?);
        for Unseen { observer, why } in observation.unseen() {
            words.say(Grade::Notice, &format!("--observe {observer}: not on a mount: {why}"));
        }
        let file = new.handle()?;
        let lines = Lines { file, name: new.keep(), has_names: false };
        let lines = Arc::new(Mutex::new(lines));
        let (weak, host) = (Rc::downgrade(&observation), observers.host.clone());
        let (its, every_ns) = (Arc::clone(&lines), observing.every_ns);
        let words = Rc::clone(words);
        host.rt().clone().spawn("observed", async move {
            loop {
                host.rt().sleep(every_ns).await;
                let Some(rows) = weak.upgrade().map(|observation| observation.take_intervals())
                else {
                    return;
                };
                let lines = Arc::clone(&its);
                // What cannot be written is told now, once, and at the end.
                if let Ok(done) = offload(&host, move || locked(&lines).add(&rows))
                    && let Err(why) = done.await
                {
                    words.say(Grade::Error, &format!("--observe-file: {why}: figures are missing"));
                }
            }
        });
        Ok(ObservedFile { observation, lines })
    }

    /// Ends: the figures of the last interval and of all of it are written.
    ///
    /// # Errors
    /// If they cannot be.
    pub fn end(self) -> Result<(), String> {
        let observed = self.observation.end();
        // The last interval has not been taken: all that are left are with the whole.
        locked(&self.lines).add(&rows(&observed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::{OpenOptions, Opened, open_volume};
    use twin_fs::{Identity, ROOT_INO, Request};
    use twin_host::{FileDevice, HostOptions, ImageOptions, create_image};
    use twin_lab::layouts::layout;
    use twin_lab::{Config, Run, Workload, simulate_with_history};
    use twin_observe::Observed;
    use twin_trace::replay::{Options, Pace, Replayer};

    const SIZE: u64 = 256 << 20;

    fn workload() -> Workload {
        Workload::Generated("small-files:files=300".into(), 1)
    }

    fn observing() -> Observing {
        Observing::of(["all"], None).unwrap()
    }

    /// What is observed of the workload on an image in a file.
    fn mounted(name: &str) -> Vec<Observed> {
        let kind = layout(name).unwrap();
        let image =
            std::env::temp_dir().join(format!("twinfs-observing-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&image);
        create_image(&image, SIZE).unwrap();
        let host = Host::start(HostOptions::default()).unwrap();
        let device = FileDevice::open(&host, &image, &ImageOptions::default()).unwrap();
        let identity = Identity { uuid: [1; 16], root: (0, 0, 0o755) };
        let config = kind.config();
        let making = config.mkfs(host.rt(), Rc::new(device), identity);
        host.rt().block_on(making).unwrap().unwrap();
        drop(host);
        let opened = open_volume(&image, OpenOptions::of(kind)).map_err(String::from);
        let Opened { host, volume, observers, .. } = opened.unwrap();
        let (observers, rt) = (observers.unwrap(), host.rt().clone());
        let work = async {
            let options = Options { pace: Pace::Asap, ..Options::default() };
            let mut replayer = Replayer::new(&rt, &volume, options);
            replayer.populate(&workload().population().unwrap()).await.unwrap();
            volume.execute(Request::root(u64::MAX, Op::Sync)).await.unwrap();
            volume.core().drop_caches();
            let observation = observers.observe(&observing()).unwrap();
            let another = observers.observe(&observing()).unwrap();
            let mut source = workload().start().unwrap();
            replayer.run(&mut source).await.unwrap();
            let counted = volume.core().operations();
            let op = Op::GetAttr { ino: ROOT_INO };
            let own = Request { client: Request::NO_CLIENT, ..Request::root(u64::MAX, op) };
            volume.execute(own).await.unwrap();
            assert_eq!(counted, volume.core().operations(), "what nobody observes is not counted");
            // The operations of the workload end here; what it leaves to be written is its own too.
            volume.core().observe_operations(None);
            let _ = replayer.release_all().await;
            volume.execute(Request::root(u64::MAX, Op::Sync)).await.unwrap();
            let seen = observation.end();
            assert!(observation.end().is_empty(), "it has ended");
            drop(another);
            drop(observation);
            assert!(observers.observations.taken.borrow().is_empty());
            volume.close().await.unwrap();
            assert!(
                observers.observations.under_way.borrow().is_empty(),
                "nobody observes any more"
            );
            seen
        };
        let seen = host.rt().block_on(work).unwrap();
        std::fs::remove_file(&image).unwrap();
        seen
    }

    fn simulated(name: &str) -> Vec<Observed> {
        let text = format!("{name}:size={SIZE},disk=ssd-nvme,front-end=none");
        let run = Run { observe: Some(observing()), ..Run::of(Config::parse(&text).unwrap()) };
        simulate_with_history(run, &workload(), Pace::Asap).unwrap().0.observed
    }

    #[test]
    fn the_same_operations_are_counted_alike_on_a_mount_and_in_a_simulation() {
        for name in ["lfs", "ffs"] {
            let (ours, theirs) = (mounted(name), simulated(name));
            let counts = |all: &[Observed], observer: &str| -> Vec<(String, u64)> {
                let of = all.iter().filter(|one| one.observer == observer);
                of.filter(|one| one.what != "transfer time")
                    .map(|one| (one.part.clone(), one.whole.count))
                    .collect()
            };
            let latencies = counts(&ours, "latencies");
            assert!(latencies.len() > 5 && latencies[0].1 > 600, "{latencies:?}");
            for observer in ["latencies", "queue-length", "transfers", "response-times"] {
                assert!(!counts(&ours, observer).is_empty(), "{name}: {observer}");
                assert_eq!(
                    counts(&ours, observer),
                    counts(&theirs, observer),
                    "{name}: {observer}"
                );
            }
            let sizes = |all: &[Observed]| {
                let of = all.iter().find(|one| one.what == "request size").unwrap();
                (of.whole.mean, of.whole.max, of.histogram.clone())
            };
            assert_eq!(sizes(&ours), sizes(&theirs), "{name}");
            let part = |what: &str| ours.iter().find(|one| one.what == what).map(|one| one.whole);
            assert!(part("queue length").unwrap().max >= Some(1.0));
            assert!(part("response time").unwrap().mean > Some(1.0));
            assert!(part("seek distance").is_none() && part("transfer time").is_none());
        }
    }
}
