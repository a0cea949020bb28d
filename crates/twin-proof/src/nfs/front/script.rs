//! Scenarios: drawn from a seed, printed and read.
//!
//! A scenario reads `seed=7,most=6,pipe=8192: 0:2 connect; 100:2 read 40 65536; 0:2 pause`. Each step has the
//! milliseconds since the one before, a client, and what it does.

use std::fmt;
use std::str::FromStr;

use twin_rt::Rng;

use super::Planted;

/// How a client takes replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Fast,
    /// A little now and then.
    Slow,
    /// Not at all.
    Pause,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Opens a connection; the one before is forgotten.
    Connect,
    /// Sends so many calls that ask for little.
    Look(u32),
    /// Sends so many READs of so many bytes.
    Read(u32, u32),
    /// Sends so many WRITEs of so many bytes.
    Write(u32, u32),
    /// Sends so many calls that wait for the disk.
    Make(u32),
    /// Sends so many listings.
    List(u32),
    /// Sends a WRITE of so many bytes in fragments of so many.
    Fragments(u32, u32),
    /// Sends the first half of a WRITE of so many bytes.
    Half(u32),
    /// Sends the rest of it.
    Rest,
    /// Sends a record that is no call.
    Nonsense,
    /// Sends a length that no record has.
    Endless,
    /// Takes replies in another way.
    Pace(Pace),
    /// Sends nothing more.
    Finish,
    /// Is gone, and says so.
    Close,
    /// The host has no descriptors for so many milliseconds.
    Starve(u32),
}

/// A step of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds since the step before.
    pub after_ms: u32,
    /// Who.
    pub client: u32,
    /// Does what.
    pub what: What,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Of the clients that behave, of the disk and of the order of tasks.
    pub seed: u64,
    /// The most connections.
    pub most: usize,
    /// Bytes that fit between a client and the server, each way.
    pub pipe: usize,
    /// What happens; then the server is told to stop.
    pub steps: Vec<Step>,
    /// The mistake that is planted.
    pub planted: Option<Planted>,
}

impl Scenario {
    /// A random scenario.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "nfs front");
        let clients = rng.range(1, 12);
        let most = *rng.pick(&[clients as usize + 2, clients as usize + 2, 4, 16]);
        let pipe = *rng.pick(&[1 << 10, 8 << 10, 64 << 10]);
        let count = rng.range(4, 40);
        let mut steps: Vec<Step> = (0..clients)
            .map(|client| Step { after_ms: 0, client: client as u32, what: What::Connect })
            .collect();
        // Many do not read from the beginning.
        let pauses: Vec<u64> = (0..clients).filter(|_| rng.chance(0.4)).collect();
        steps.extend(pauses.into_iter().flat_map(|client| {
            let step = |what| Step { after_ms: 0, client: client as u32, what };
            [step(What::Pace(Pace::Pause)), step(What::Read(30, 65_536))]
        }));
        steps.extend((0..count).map(|_| Step {
            after_ms: *rng.pick(&[0, 0, 0, 1, 20, 300, 2000, 20_000]),
            client: rng.below(clients) as u32,
            what: What::draw(&mut rng),
        }));
        Scenario { seed, most, pipe, steps, planted: None }
    }

    /// The same with a mistake.
    #[must_use]
    pub fn with(self, planted: Planted) -> Scenario {
        Scenario { planted: Some(planted), ..self }
    }
}

impl What {
    fn draw(rng: &mut Rng) -> What {
        let few = rng.range(1, 4) as u32;
        let many = rng.range(1, 100) as u32;
        let len = *rng.pick(&[0, 100, 4096, 9000, 65_536]);
        match rng.below(22) {
            0 => What::Look(many),
            1..=4 => What::Read(many, len),
            5 => What::Write(few, len),
            6..=8 => What::Make(rng.range(1, 20) as u32),
            9 => What::List(many),
            10 => What::Fragments(len, *rng.pick(&[0, 1, 100, 5000])),
            11 => What::Half(len),
            12 => What::Rest,
            13..=14 => What::Nonsense,
            15 => What::Endless,
            16 => What::Pace(Pace::Fast),
            17 => What::Pace(Pace::Slow),
            18 => What::Pace(Pace::Pause),
            19 => *rng.pick(&[What::Finish, What::Starve(300)]),
            20 => What::Close,
            _ => What::Connect,
        }
    }

    fn words(self) -> (&'static str, Vec<u32>) {
        match self {
            What::Connect => ("connect", vec![]),
            What::Look(n) => ("look", vec![n]),
            What::Read(n, len) => ("read", vec![n, len]),
            What::Write(n, len) => ("write", vec![n, len]),
            What::Make(n) => ("make", vec![n]),
            What::List(n) => ("list", vec![n]),
            What::Fragments(len, piece) => ("fragments", vec![len, piece]),
            What::Half(len) => ("half", vec![len]),
            What::Rest => ("rest", vec![]),
            What::Nonsense => ("nonsense", vec![]),
            What::Endless => ("endless", vec![]),
            What::Pace(Pace::Fast) => ("fast", vec![]),
            What::Pace(Pace::Slow) => ("slow", vec![]),
            What::Pace(Pace::Pause) => ("pause", vec![]),
            What::Finish => ("finish", vec![]),
            What::Close => ("close", vec![]),
            What::Starve(ms) => ("starve", vec![ms]),
        }
    }

    fn of(name: &str, n: &[u32]) -> Option<What> {
        let at = |index: usize| n.get(index).copied();
        Some(match name {
            "connect" => What::Connect,
            "look" => What::Look(at(0)?),
            "read" => What::Read(at(0)?, at(1)?),
            "write" => What::Write(at(0)?, at(1)?),
            "make" => What::Make(at(0)?),
            "list" => What::List(at(0)?),
            "fragments" => What::Fragments(at(0)?, at(1)?),
            "half" => What::Half(at(0)?),
            "rest" => What::Rest,
            "nonsense" => What::Nonsense,
            "endless" => What::Endless,
            "fast" => What::Pace(Pace::Fast),
            "slow" => What::Pace(Pace::Slow),
            "pause" => What::Pace(Pace::Pause),
            "finish" => What::Finish,
            "close" => What::Close,
            "starve" => What::Starve(at(0)?),
            _ => return None,
        })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={},most={},pipe={}", self.seed, self.most, self.pipe)?;
        if let Some(planted) = self.planted {
            write!(f, ",planted={planted:?}")?;
        }
        for (n, step) in self.steps.iter().enumerate() {
            let (name, numbers) = step.what.words();
            let between = if n == 0 { ":" } else { ";" };
            write!(f, "{between} {}:{} {name}", step.after_ms, step.client)?;
            numbers.iter().try_for_each(|number| write!(f, " {number}"))?;
        }
        Ok(())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let (head, steps) = text.split_once(": ").unwrap_or((text, ""));
        let mut scenario =
            Scenario { seed: 0, most: 8, pipe: 8192, steps: Vec::new(), planted: None };
        for pair in head.split(',') {
            let (key, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
            let number = || value.parse::<u64>().map_err(|e| format!("{pair:?}: {e}"));
            match key {
                "seed" => scenario.seed = number()?,
                "most" => scenario.most = number()? as usize,
                "pipe" => scenario.pipe = number()? as usize,
                "planted" => {
                    let named = Planted::ALL.into_iter().find(|p| format!("{p:?}") == value);
                    scenario.planted = Some(named.ok_or(format!("{value:?} is not planted"))?);
                }
                _ => return Err(format!("{key:?} is unknown")),
            }
        }
        for text in steps.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            let bad = || format!("{text:?} is no step");
            let (when, what) = text.split_once(' ').ok_or_else(bad)?;
            let (after, client) = when.split_once(':').ok_or_else(bad)?;
            let mut words = what.split(' ');
            let name = words.next().unwrap_or_default();
            let numbers: Vec<u32> =
                words.map(|word| word.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
            scenario.steps.push(Step {
                after_ms: after.parse().map_err(|_| bad())?,
                client: client.parse().map_err(|_| bad())?,
                what: What::of(name, &numbers).ok_or_else(bad)?,
            });
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_was_printed() {
        for seed in 0..50 {
            let scenario = Scenario::random(seed);
            assert_eq!(scenario.to_string().parse(), Ok(scenario.clone()));
            let planted = scenario.with(Planted::Unbounded);
            assert_eq!(planted.to_string().parse(), Ok(planted));
        }
    }
}
