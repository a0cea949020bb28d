//! Replays of whole workloads on the small file system in memory, in virtual time.

use super::tiny::Tiny;
use twin_rt::{ClockOnly, Rt};
use twin_trace::Source;
use twin_trace::replay::{Options, Population, Replayer, Report};

/// What a replay left.
pub struct ReplayRun {
    pub fs: Tiny,
    pub report: Report,
}

/// Populates and replays; inode numbers of the volume differ from the workload's.
pub fn run(
    mut open: impl FnMut() -> Box<dyn Source>,
    delay_ns: u64,
    options: Options,
) -> ReplayRun {
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Tiny::new(&rt, 500);
    let population = Population::collect(&mut open()).unwrap();
    let mut replayer = Replayer::new(&rt, &fs, options);
    let mut source = open();
    let report = rt
        .block_on(async {
            replayer.populate(&population).await?;
            fs.delay_ns.set(delay_ns);
            let report = replayer.run(&mut source).await?;
            replayer.release_all().await.unwrap();
            Ok::<_, twin_trace::replay::ReplayError>(report)
        })
        .unwrap()
        .unwrap();
    drop(replayer);
    ReplayRun { fs, report }
}
