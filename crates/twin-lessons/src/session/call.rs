//! The commands of a session, by name.

use serde_json::{Value, json};
use twin_rt::Time;
use twin_sim::Platter;

use super::world::{Beginning, State, World};
use super::{crash, look};
use crate::exercise;
use crate::volume::{HELP, LAYOUTS, Setup};

/// The most lines that can be undone.
const MOST_LINES: usize = 2000;

/// A volume in memory, and what has been done with it.
#[derive(Default)]
pub struct Session {
    world: Option<World>,
    /// Worlds before a power failure or before another volume was loaded, for undoing that.
    earlier: Vec<Beginning>,
}

type Answer = Result<Value, String>;

impl Session {
    /// Carries out a command and answers it.
    pub fn call(&mut self, command: &str) -> String {
        let answer = match serde_json::from_str::<Value>(command) {
            Ok(command) => self.command(&command),
            Err(why) => Err(format!("not understood: {why}")),
        };
        let answer = answer.unwrap_or_else(|why| json!({"ok": false, "error": why}));
        answer.to_string()
    }

    /// The bytes of the volume, as a restart would find them if the power failed now with everything that was
    /// written: what a program can mount. Empty without a volume.
    pub fn image(&self) -> Vec<u8> {
        let Some(world) = &self.world else { return Vec::new() };
        let (platter, _) = world.platter();
        platter.read_bytes(0, platter.size())
    }

    /// Takes an image in place of the present volume; its layout is found by its magic. The answer is that of
    /// [`call`](Self::call).
    pub fn load(&mut self, bytes: &[u8]) -> String {
        let loaded = self.take(bytes);
        loaded.unwrap_or_else(|why| json!({"ok": false, "error": why})).to_string()
    }

    fn take(&mut self, bytes: &[u8]) -> Answer {
        let platter = Platter::from_bytes(bytes);
        let setup = Setup::of_image(&platter)?;
        let world = World::new(setup, platter, Time(0))?;
        self.replace(world);
        Ok(json!({"ok": true, "settings": self.world()?.setup.text()}))
    }

    /// Puts a world in place of the present one, which can be had back.
    fn replace(&mut self, world: World) {
        if let Some(before) = self.world.replace(world) {
            self.earlier.push(before.beginning());
        }
    }

    fn world(&self) -> Result<&World, String> {
        self.world.as_ref().ok_or_else(|| "there is no volume yet: make one".into())
    }

    fn world_mut(&mut self) -> Result<&mut World, String> {
        self.world.as_mut().ok_or_else(|| "there is no volume yet: make one".into())
    }

    fn command(&mut self, command: &Value) -> Answer {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let number = |key: &str, other: u64| command[key].as_u64().unwrap_or(other);
        match text("do") {
            "make" => self.make(text("settings")),
            "about" => Ok(about()),
            "run" => {
                let world = self.world_mut()?;
                world.begin(text("line"))?;
                let ended = world.go(number("turns", u64::MAX) as usize)?;
                Ok(world.answer(ended))
            }
            "begin" => {
                let world = self.world_mut()?;
                world.begin(text("line"))?;
                Ok(world.answer(false))
            }
            "go" => {
                let world = self.world_mut()?;
                let ended = world.go(number("turns", u64::MAX) as usize)?;
                // Asked many times for one line: only the last answer tells what was done.
                Ok(if ended { world.answer(true) } else { json!({"ok": true, "done": false}) })
            }
            "step" => {
                let world = self.world_mut()?;
                let ended = world.step()?;
                Ok(world.answer(ended))
            }
            "undo" => self.undo(),
            "lines" => self.lines(),
            "view" => look::view(self.world()?),
            "bytes" => look::bytes(self.world()?, number("at", 0), number("len", 512)),
            "check" => look::check(self.world()?),
            "crash" => crash::point(self.world()?, command["point"].as_u64()),
            "cut" => self.cut(command["point"].as_u64(), text("outcomes")),
            "recover" => self.recover(),
            "chapters" => Ok(exercise::listed()),
            "exercise" => exercise::variant(text("id"), text("seed")),
            "grade" => {
                let reveal = command["reveal"] == true;
                exercise::graded(text("id"), text("seed"), &command["answers"], reveal)
            }
            other => Err(format!("{other:?}: there is no such command")),
        }
    }

    fn make(&mut self, settings: &str) -> Answer {
        let setup = Setup::parse(settings)?;
        let platter = setup.mkfs()?;
        let world = World::new(setup, platter, Time(0))?;
        self.world = Some(world);
        self.earlier.clear();
        Ok(json!({"ok": true, "settings": settings}))
    }

    /// What was done since the volume was made: a text of its settings and the lines, which others can repeat.
    fn lines(&self) -> Answer {
        let world = self.world()?;
        if !self.earlier.is_empty() {
            return Err(
                "a power failure or an image is part of this volume: save its image instead".into(),
            );
        }
        let (settings, changes) = world.made_with();
        let lines = std::iter::once(settings).chain(changes);
        Ok(json!({"ok": true, "lines": lines.collect::<Vec<_>>()}))
    }

    /// Takes the last line back, or the power failure or the loading that came last.
    fn undo(&mut self) -> Answer {
        let world = self.world()?;
        let mut beginning = world.beginning();
        if beginning.history.len() > MOST_LINES {
            return Err(format!("more than {MOST_LINES} lines: too many to repeat"));
        }
        let undone = match (beginning.history.pop(), &world.state) {
            (Some(line), State::Open(..)) => line,
            _ => {
                beginning = self.earlier.pop().ok_or("there is nothing to undo")?;
                "power failure".into()
            }
        };
        self.world = Some(World::repeated(beginning)?);
        let mut answer = self.world_mut()?.answer(true);
        answer["undone"] = json!(undone);
        Ok(answer)
    }

    fn cut(&mut self, point: Option<u64>, outcomes: &str) -> Answer {
        let world = self.world_mut()?;
        let (platter, time) = crash::cut(world, point, outcomes)?;
        let beginning = world.beginning();
        if let State::Open(machine, _) = &world.state {
            machine.rt.crash();
        }
        world.state = State::Off(platter, time);
        self.earlier.push(beginning);
        let checked = look::check(self.world()?)?;
        Ok(json!({"ok": true, "now_ns": time.0, "check": checked}))
    }

    fn recover(&mut self) -> Answer {
        let world = self.world()?;
        let State::Off(platter, time) = &world.state else {
            return Err("the power has not failed: there is nothing to recover".into());
        };
        let next = World::new(world.setup.clone(), platter.clone(), *time)?;
        let machine = next.machine()?;
        let served = machine.served.borrow();
        let requests: Vec<Value> = served.iter().map(|one| machine.regions.request(one)).collect();
        let (recovery, took) = (machine.recovery.clone(), machine.rt.now().0 - time.0);
        drop(served);
        // The history begins with what the power failure left; opening it again is part of every undo.
        self.world = Some(next);
        let checked = look::check(self.world()?)?;
        Ok(json!({
            "ok": true, "recovery": recovery, "requests": requests, "took_ns": took, "check": checked,
        }))
    }
}

/// What a page offers: layouts, disks, policies.
fn about() -> Value {
    let names = |all: Vec<(&'static str, &'static str)>| -> Vec<Value> {
        all.into_iter().map(|(name, about)| json!({"name": name, "about": about})).collect()
    };
    let layouts: Vec<Value> = LAYOUTS
        .iter()
        .map(|kind| {
            let keys: Vec<Value> = kind
                .config()
                .keys()
                .into_iter()
                .map(|key| json!({"name": key.name, "about": key.about, "form": key.form, "value": key.value}))
                .collect();
            let structures: Vec<Value> = kind
                .structures()
                .iter()
                .map(|one| json!({"name": one.name, "about": one.about}))
                .collect();
            json!({"name": kind.name(), "about": kind.about(), "keys": keys, "structures": structures})
        })
        .collect();
    let disks = twin_sim::model::REGISTRY.iter();
    let disks = disks.filter(|one| one.kind != twin_sim::model::Kind::Bucket);
    let disks = disks.map(|one| (one.name, one.about)).collect();
    let queues = twin_sim::queue::REGISTRY.iter().map(|one| (one.name, one.about)).collect();
    let victims = twin_clean::victim::REGISTRY.iter().map(|one| (one.name, one.about)).collect();
    json!({
        "ok": true,
        "layouts": layouts,
        "disks": names(disks),
        "queues": names(queues),
        "replacement": names(twin_cache::replacement::REGISTRY.iter().map(|one| (one.name, one.about)).collect()),
        "victims": names(victims),
        "when": names(twin_clean::trigger::REGISTRY.iter().map(|one| (one.name, one.about)).collect()),
        "shell": HELP.iter().map(|(form, about)| json!({"form": form, "about": about})).collect::<Vec<_>>(),
    })
}
