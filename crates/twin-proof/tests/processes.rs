//! Random recordings of several clients that share names and inodes, replayed in the order of their
//! processes: the answers are the recorded ones on other layouts and disks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use twin_fs::{FileSystem, Op, Reply, Request};
use twin_lab::{Config, Figures, Workload, simulate};
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{ModelFs, Settings};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rng, Rt};
use twin_trace::replay::Pace;
use twin_trace::{Recorder, RecorderOptions};

/// The model as a file system on which operations take random times.
struct Slow {
    rt: Rt,
    model: RefCell<ModelFs>,
    rng: RefCell<Rng>,
}

impl FileSystem for Slow {
    async fn execute(&self, request: Request) -> twin_fs::Result<Reply> {
        let reply = self.model.borrow_mut().apply(self.rt.now(), &request);
        let takes = self.rng.borrow_mut().below(MILLIS);
        self.rt.sleep(takes).await;
        reply
    }
}

/// A recording of four clients that ask in random turns. Only one of them asks at a time: where
/// requests overlap, a volume may let them take effect in another order than the model.
fn record(workload: &str, seed: u64, mounted: bool) -> Vec<u8> {
    let rt = Rt::new(ClockOnly::default(), seed);
    let model = RefCell::new(ModelFs::new(Settings::default(), rt.now()));
    let slow = Slow { rt: rt.clone(), model, rng: Rng::stream(seed, "slow").into() };
    let options = RecorderOptions { mounted, contents: true, ..RecorderOptions::default() };
    let recorder = Rc::new(Recorder::new(&rt, slow, Vec::new(), options).unwrap());
    let params =
        WorkloadParams { users: false, names: 12, invalid: 0.0, ..WorkloadParams::default() };
    let mut generator = Generator::new(workload, params, seed).unwrap();
    let mut rng = Rng::stream(seed, "pauses");
    rt.block_on(async {
        for _ in 0..1500 {
            let request = generator.next();
            // Figures of the volume differ between layouts, and so does what they support.
            if matches!(request.op, Op::SetXattr { .. } | Op::Fallocate { .. } | Op::Seek { .. }) {
                continue;
            }
            rt.sleep(rng.below(300 * MICROS)).await;
            // Client 0 is the kernel.
            let sent = Request { client: request.client + 1, ..request.clone() };
            let reply = recorder.execute(sent).await;
            generator.learn(&request, &reply);
        }
    })
    .unwrap();
    recorder.finish().unwrap().unwrap()
}

fn replay(bytes: &[u8], config: &str, pace: Pace) -> Figures {
    let config = Config::parse(config).unwrap();
    simulate(&config, &Workload::Trace(Arc::from(bytes)), pace).unwrap()
}

#[test]
fn answers_do_not_depend_on_the_order_of_processes() {
    // Not the workloads `mixed` and `metadata`: their clients also ask what a kernel refuses by
    // itself, for example a link to a removed file, and the rules do not order that.
    for seed in twin_proof::seeds(0..24, 6) {
        let [whole, processes] = [false, true].map(|mounted| record("small_files", seed, mounted));
        for config in ["lfs", "ffs:disk=ssd-sata", "ffs", "ffs-sync"] {
            for pace in [Pace::Asap, Pace::Think { speed: 1.0 }] {
                let [a, b] = [&whole, &processes].map(|bytes| replay(bytes, config, pace));
                let what = format!("seed {seed}, {config}, {pace:?}");
                assert_eq!((a.diverged, a.failed, b.diverged, b.failed), (0, 0, 0, 0), "{what}");
                // Clients have ends of their own in that order alone.
                let kept = pace != Pace::Asap;
                assert_eq!((a.lateness.is_some(), b.lateness.is_some()), (false, kept), "{what}");
            }
        }
    }
}
