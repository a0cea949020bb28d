//! Runs whose volume is in a bucket.

use twin_bucket::Counts;
use twin_fs::{Op, Request, Volume};
use twin_lab::{
    Below, BillFigures, Config, OnVolume, Run, SimulateError, Workload, on_volume, simulate,
};
use twin_rt::{ClockOnly, Rt};
use twin_sim::Platter;
use twin_trace::replay::{Options, Pace, Replayer};

const IN_BUCKET: &str = "lfs:disk=s3-express,size=256M";

fn mail() -> Workload {
    Workload::Generated("mail:messages=200".into(), 1)
}

async fn sync(volume: &Volume) -> Result<(), SimulateError> {
    Ok(volume.execute(Request::root(u64::MAX, Op::Sync)).await.map(drop)?)
}

/// Runs work on a volume of a configuration.
fn work_on<T: OnVolume>(run: &Run, what: T) -> T::Output {
    let rt = Rt::new(ClockOnly::default(), 1);
    let done = rt.block_on(on_volume(&rt, run, what));
    rt.crash();
    done.unwrap().unwrap_or_else(|error| panic!("{error}"))
}

/// Plays a workload, and returns what the device has counted, what the store has executed, and the bill.
struct Counted;

impl OnVolume for Counted {
    type Output = (Counts, Counts, Counts, BillFigures);

    async fn run(
        self,
        rt: &Rt,
        below: &Below,
        volume: &Volume,
    ) -> Result<Self::Output, SimulateError> {
        let mut replayer = Replayer::new(rt, volume, Options::default());
        let population = mail().population().map_err(SimulateError::Workload)?;
        replayer.populate(&population).await.map_err(SimulateError::Replay)?;
        let both = || (below.counts().unwrap(), below.executed().unwrap());
        let before = both();
        let mut source = mail().start().map_err(SimulateError::Workload)?;
        replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
        sync(volume).await?;
        let bill = below.bill(Some(before.0)).unwrap();
        let after = both();
        Ok((below.opening(), after.0 - before.0, after.1 - before.1, bill))
    }
}

#[test]
fn the_bill_is_of_what_the_store_has_executed() {
    let run = Run::of(Config::parse(IN_BUCKET).unwrap());
    let (opening, counted, executed, bill) = work_on(&run, Counted);
    assert_eq!(counted, executed);
    // Each message is made durable.
    assert!(counted.puts > 200 && counted.in_bytes > 200 * 4096, "{counted:?}");
    // The head is taken, with a map of its own; the log is read.
    assert!(opening.puts >= 2 && opening.puts < 10 && opening.gets >= 2, "{opening:?}");
    let all = opening + counted;
    assert_eq!((bill.puts, bill.gets, bill.in_bytes), (all.puts, all.gets, all.in_bytes));
    let usd = bill.puts as f64 * 0.001_13 / 1e3 + bill.gets as f64 * 0.000_03 / 1e3;
    assert!((bill.requests_usd - usd).abs() < 1e-9, "{bill:?}");
}

/// An outage is waited for, and what was asked in vain is counted and not paid.
#[test]
fn an_outage_costs_time_and_no_money() {
    let of = |more: &str| {
        let run = Run::of(Config::parse(&format!("{IN_BUCKET}{more}")).unwrap());
        simulate(run, &mail(), Pace::Asap).unwrap_or_else(|error| panic!("{error}"))
    };
    let (plain, late) = (of(""), of(",outage=1s+30s"));
    let (a, b) = (plain.disk_use.bill.unwrap(), late.disk_use.bill.unwrap());
    assert!(late.span_s > plain.span_s + 25.0, "{} {}", plain.span_s, late.span_s);
    assert!(a.unanswered == 0 && b.unanswered > 3 && b.unanswered < 100, "{b:?}");
    assert!(b.puts.abs_diff(a.puts) * 20 < a.puts, "{a:?} {b:?}");
    assert_eq!((plain.failed, late.failed), (0, 0));
}

/// Populates a volume and returns the content of its disk.
struct Made;

impl OnVolume for Made {
    type Output = Platter;

    async fn run(self, rt: &Rt, below: &Below, volume: &Volume) -> Result<Platter, SimulateError> {
        let mut replayer = Replayer::new(rt, volume, Options::default());
        let population = mail().population().map_err(SimulateError::Workload)?;
        replayer.populate(&population).await.map_err(SimulateError::Replay)?;
        sync(volume).await?;
        Ok(below.disk.platter())
    }
}

#[test]
fn a_volume_that_was_made_elsewhere_is_found_in_the_bucket() {
    let made = Config::parse("lfs:disk=instant,size=256M,segment=8M").unwrap();
    let start = Some(work_on(&Run::of(made), Made));
    let new = Run::of(Config::parse(IN_BUCKET).unwrap());
    let old = Run { start, ..new.clone() };
    let used = |run: &Run| {
        let figures =
            simulate(run, &Workload::Generated("large-file:file-bytes=64K".into(), 1), Pace::Asap);
        figures.unwrap_or_else(|error| panic!("{error}")).space.used_before_bytes
    };
    assert!(used(&old) > used(&new) + (1 << 16), "{} {}", used(&old), used(&new));
}
