//! A volume that is filled until it says that there is no room, relieved of a part, and filled
//! again, round after round.
//!
//! Contract: every round meets "no space" and goes on; nothing waits for ever (bounded in virtual
//! time and in steps); after each round, closed or cut off by a power failure, the tree is the
//! model's and the accounts are those of a recount.

use twin_fs::{FsError, Reply};
use twin_model::generate::Generator;
use twin_rt::{Rng, SECS, Time};

use super::drive::Journal;
use super::{
    Failure, History, Place, Scenario, Timing, World, drive, expect_last, prepare, recount,
};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// What a campaign came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Rounds.
    pub rounds: u64,
    /// Of these, ended by a power failure.
    pub cut_off: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that were refused for want of room.
    pub refusals: u64,
    /// The least share of the volume that was in use at the end of a round, in percent.
    pub least_percent: u64,
    /// Segments cleaned.
    pub cleaned: u64,
}

impl std::ops::AddAssign for Filled {
    fn add_assign(&mut self, other: Filled) {
        let first = self.rounds == 0;
        self.rounds += other.rounds;
        self.cut_off += other.cut_off;
        self.requests += other.requests;
        self.refusals += other.refusals;
        self.least_percent =
            if first { other.least_percent } else { self.least_percent.min(other.least_percent) };
        self.cleaned += other.cleaned;
    }
}

/// Fills a volume in so many rounds of about so many requests.
///
/// # Errors
/// The first broken promise.
pub fn full(scenario: &Scenario, rounds: u64) -> Result<Filled, Failure> {
    campaign(scenario, rounds).map_err(|what| Failure {
        kind: "full",
        scenario: scenario.clone(),
        what,
    })
}

fn campaign(scenario: &Scenario, rounds: u64) -> Result<Filled, String> {
    let (mut platter, mut model) = prepare(scenario)?;
    let mut filled = Filled { least_percent: 100, ..Filled::default() };
    let mut rng = Rng::stream(scenario.seed, "full");
    for round in 0..rounds {
        let history = History::new(scenario, &model);
        let cut = rng.chance(0.4);
        let ended = one_round(scenario, platter, history, round, cut, &mut rng, &mut filled);
        let (left, history, found) = ended.map_err(|what| format!("round {round}: {what}"))?;
        platter = left;
        model = history.state(found).clone();
        model.crash();
        filled.rounds += 1;
        filled.cut_off += u64::from(cut);
    }
    Ok(filled)
}

/// One round, from platter to platter; with the state that the last one is in.
fn one_round(
    scenario: &Scenario,
    platter: Platter,
    mut history: History,
    round: u64,
    cut: bool,
    rng: &mut Rng,
    filled: &mut Filled,
) -> Result<(Platter, History, usize), String> {
    let start = Time((round + 1) * 100_000 * SECS);
    let log = cut.then(WriteLog::new);
    let plan = FaultPlan::none();
    let mut world = World::build(scenario, platter, Timing::Jitter, start, plan, log.as_ref());
    world.open()?;
    let (all, percent) = fill(scenario, &world, round)?;
    let refused = |reply: &Option<twin_fs::Result<Reply>>| {
        matches!(reply, Some(Err(FsError::NoSpace | FsError::NoInodes)))
    };
    for journal in &all {
        history.follow(journal)?;
        filled.requests += journal.order.len() as u64;
        filled.refusals += journal.order.iter().filter(|a| refused(&a.reply)).count() as u64;
    }
    filled.least_percent = filled.least_percent.min(percent);
    filled.cleaned += world.volume().layout.stats().cleaned_segments;
    let platter = match cut {
        true => world.disk.power_failure(rng).ok_or("the disk keeps no log")?,
        false => {
            expect_last(&history, &mut world, "before closing")?;
            let platter = world.close()?;
            let (used, counted) = (world.used_bytes, recount(&platter)?.live_bytes);
            if used != counted {
                return Err(format!("{used} bytes are used, {counted} are counted"));
            }
            platter
        }
    };
    drop(world);
    reopen(scenario, platter, history, start + 50_000 * SECS, cut)
}

/// Fills and empties until the volume has refused often enough.
fn fill(scenario: &Scenario, world: &World, round: u64) -> Result<(Vec<Journal>, u64), String> {
    let params = twin_model::generate::WorkloadParams {
        space_max: u64::MAX,
        file_size_max: scenario.size / 40,
        ..scenario.workload_params()
    };
    let seed = scenario.seed ^ (round + 1) << 40;
    let generator = Generator::new("fill", params, seed);
    let mut generator = generator.ok_or("there is no workload \"fill\"")?;
    generator.set_next_id((round + 1) << 40);
    let (mut all, mut refusals) = (Vec::new(), 0);
    for _ in 0..100 {
        let (journal, rest) = drive(scenario, world, generator, scenario.ops, None)?;
        generator = rest;
        let refused = |a: &&super::Applied| matches!(a.reply, Some(Err(FsError::NoSpace)));
        refusals += journal.order.iter().filter(refused).count();
        all.push(journal);
        if refusals >= 3 {
            let (used, limit) = world.volume().layout.space();
            return Ok((all, used * 100 / limit));
        }
    }
    // Small files may come and go in the last bytes without being refused.
    let (used, limit) = world.volume().layout.space();
    if used * 100 / limit >= 95 {
        return Ok((all, used * 100 / limit));
    }
    Err(format!("the volume never says that it is full; {used} of {limit} bytes are used"))
}

/// Opens what a round left and finds its state. Nothing may be lost if it was closed; otherwise
/// nothing that was promised.
fn reopen(
    scenario: &Scenario,
    platter: Platter,
    history: History,
    start: Time,
    cut: bool,
) -> Result<(Platter, History, usize), String> {
    let mut world = World::new(scenario, platter, Timing::Instant, start);
    world.open()?;
    let counted = recount(&world.disk.platter())?;
    let tree = world.dump()?;
    counted.compare(&tree)?;
    let oldest = if cut { history.kept_by_all() } else { history.len() - 1 };
    let found = match history.find(&tree, oldest) {
        Place::At(n) => n,
        Place::Wrong(what) => return Err(format!("after opening again: {what}")),
    };
    let platter = world.close()?;
    let (used, counted) = (world.used_bytes, recount(&platter)?.live_bytes);
    if used != counted {
        return Err(format!("{used} bytes are used, {counted} are counted"));
    }
    Ok((platter, history, found))
}
