//! The world of a session: a volume with its beginning, and what was done since.

use serde_json::{Value, json};
use twin_rt::Time;
use twin_sim::Platter;

use crate::volume::{MOST_REQUESTS, Machine, Outcome, Setup, parse};

/// A volume with its beginning, and what was done since.
pub(super) struct World {
    pub(super) setup: Setup,
    /// The setup with which it began; a remount changes `setup`.
    first: Setup,
    /// The platter with which its history began, and when.
    pub(super) start: Platter,
    pub(super) start_at: Time,
    pub(super) history: Vec<String>,
    pub(super) state: State,
}

pub(super) enum State {
    /// The volume is open; a line may be under way.
    Open(Box<Machine>, Option<Line>),
    /// The power has failed: nothing is left but the platter.
    Off(Platter, Time),
}

/// What is needed to make a world again.
pub(super) struct Beginning {
    pub(super) setup: Setup,
    pub(super) start: Platter,
    pub(super) start_at: Time,
    pub(super) history: Vec<String>,
}

/// A line of the shell that is being executed.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) result: Outcome,
    /// The requests that had been served before it.
    pub(super) served_before: usize,
}

impl World {
    pub(super) fn new(setup: Setup, start: Platter, start_at: Time) -> Result<World, String> {
        let machine = Machine::start(&setup, start.clone(), start_at)?;
        let state = State::Open(Box::new(machine), None);
        let first = setup.clone();
        Ok(World { setup, first, start, start_at, history: Vec::new(), state })
    }

    /// Makes a world again by doing its lines again.
    pub(super) fn repeated(beginning: Beginning) -> Result<World, String> {
        let mut world = World::new(beginning.setup, beginning.start, beginning.start_at)?;
        for line in beginning.history {
            world.begin(&line)?;
            let ended = world.go(usize::MAX)?;
            let _ = world.answer(ended);
        }
        Ok(world)
    }

    /// The settings with which the volume was made, and all lines since.
    pub(super) fn made_with(&self) -> (String, impl Iterator<Item = String>) {
        (self.first.text().into(), self.history.clone().into_iter())
    }

    /// What is needed to make this world again.
    pub(super) fn beginning(&self) -> Beginning {
        Beginning {
            setup: self.first.clone(),
            start: self.start.clone(),
            start_at: self.start_at,
            history: self.history.clone(),
        }
    }

    pub(super) fn machine(&self) -> Result<&Machine, String> {
        match &self.state {
            State::Open(machine, _) => Ok(machine),
            State::Off(..) => Err("the power is off: recover the volume first".into()),
        }
    }

    /// What is on the medium now, and the time.
    pub(super) fn platter(&self) -> (Platter, Time) {
        match &self.state {
            State::Open(machine, _) => (machine.disk.platter(), machine.rt.now()),
            State::Off(platter, time) => (platter.clone(), *time),
        }
    }

    /// Begins a line of the shell; `go` carries it on.
    pub(super) fn begin(&mut self, text: &str) -> Result<(), String> {
        if let State::Open(_, Some(line)) = &self.state {
            return Err(format!("{:?} is still under way: let it end first", line.text));
        }
        if let Some(settings) = text.trim().strip_prefix("remount") {
            self.remount(settings.trim())?;
        } else {
            let machine = self.machine()?;
            let work = parse(text)?;
            let served_before = machine.served.borrow().len();
            let result = machine.spawn(work);
            let line = Line { text: text.into(), result, served_before };
            if let State::Open(_, under_way) = &mut self.state {
                *under_way = Some(line);
            }
        }
        self.history.push(text.into());
        Ok(())
    }

    /// Closes the volume and opens it with other settings.
    pub(super) fn remount(&mut self, settings: &str) -> Result<(), String> {
        let setup = self.setup.changed(settings)?;
        let machine = self.machine()?;
        let closed = machine.rt.block_on(machine.volume.close());
        closed.map_err(|_| "the volume does not close".to_string())?.map_err(|e| e.to_string())?;
        let (platter, now) = self.platter();
        let next = Machine::start(&setup, platter, now)?;
        if let State::Open(machine, _) = &mut self.state {
            machine.rt.crash();
            **machine = next;
        }
        self.setup = setup;
        Ok(())
    }

    /// Carries the line on for a number of turns of the runtime; returns true when it has ended.
    pub(super) fn go(&mut self, turns: usize) -> Result<bool, String> {
        let State::Open(machine, Some(line)) = &self.state else { return Ok(true) };
        for _ in 0..turns {
            // Looked at before the clock goes on: a line that has ended takes no time of others.
            machine.rt.run_ready();
            if line.result.borrow().is_some() {
                return Ok(true);
            }
            if !machine.rt.turn() {
                return Err("nothing can ever happen again".into());
            }
        }
        Ok(false)
    }

    /// Carries the line on until the disk begins with a request, or the line ends.
    pub(super) fn step(&mut self) -> Result<bool, String> {
        let served = |state: &State| match state {
            State::Open(machine, _) => machine.served.borrow().len(),
            State::Off(..) => 0,
        };
        let before = served(&self.state);
        loop {
            if self.go(1)? {
                return Ok(true);
            }
            if served(&self.state) > before {
                return Ok(false);
            }
        }
    }

    /// The answer of a line: what it printed, and the requests that the disk served meanwhile.
    pub(super) fn answer(&mut self, ended: bool) -> Value {
        let State::Open(machine, under_way) = &mut self.state else { return json!({"ok": true}) };
        let from = under_way.as_ref().map_or(0, |line| line.served_before);
        let served = machine.served.borrow();
        let first = from.max(served.len().saturating_sub(MOST_REQUESTS));
        let requests: Vec<Value> =
            served[first..].iter().map(|one| machine.regions.request(one)).collect();
        let mut answer = json!({
            "ok": true,
            "done": ended,
            "output": [],
            "requests": requests,
            "requests_left_out": first - from,
            "now_ns": machine.rt.now().0,
            "digest": format!("{:016x}", machine.rt.digest().value()),
        });
        drop(served);
        if ended
            && let Some(line) = under_way.take()
            && let Some(result) = line.result.take()
        {
            match result {
                Ok(output) => answer["output"] = json!(output),
                Err(why) => answer["failed"] = json!(why),
            }
        }
        answer
    }
}
