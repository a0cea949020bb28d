//! The memory of a run goes with what its volume holds, not with how much was done on it.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_lab::{Config, Watcher, Workload, World, simulate_watched};
use twin_rt::Time;
use twin_trace::replay::Pace;

/// What the simulated disk keeps in memory at the end.
#[derive(Default)]
struct AtEnd {
    content_bytes: usize,
}

impl Watcher for AtEnd {
    fn look(&mut self, _: &dyn World, _: Time) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn end(&mut self, world: &dyn World) {
        let (_, below) = world.inside().unwrap();
        self.content_bytes = below.disk.content_heap_bytes();
    }
}

fn content_bytes(workload: &str, config: &str) -> usize {
    let watcher = Rc::new(RefCell::new(AtEnd::default()));
    let (config, workload) =
        (Config::parse(config).unwrap(), Workload::Generated(workload.into(), 1));
    let figures = simulate_watched(&config, &workload, Pace::Asap, watcher.clone()).unwrap();
    assert!(figures.is_some_and(|figures| figures.failed == 0));
    watcher.borrow().content_bytes
}

/// The log lies on a disk on which it never comes back to a place, so that all that it has written would
/// stay there: then the second took 13.3 MB and the first 3.4. The little that grows is 14 bytes a message.
#[test]
fn four_times_the_mail_takes_hardly_more_memory_if_as_much_is_kept() {
    let load = |messages| format!("mail:messages={messages},keep=100,read=100%");
    let [some, more] = [2000, 8000].map(|messages| content_bytes(&load(messages), "lfs"));
    assert!(more < some * 4 / 3, "{more} bytes for four times the mail of {some}");
}
