//! How long operations take from their issue to their end, by kind and together: the measurement of
//! "Cut-and-paste file systems", section 5.1.

use twin_rt::Nanos;
use twin_trace::Verb;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

/// All operations first, then each kind at its place in [`Verb::ALL`].
#[derive(Default)]
pub(crate) struct Latencies(Vec<Channel>);

impl Observer for Latencies {
    fn begin(&mut self, _: &Parts) {
        let names = Verb::ALL.iter().map(|verb| verb.name());
        let all = std::iter::once("all").chain(names);
        self.0 = all.map(|name| Channel::values("latency", name, Unit::Nanos)).collect();
    }

    fn ended(&mut self, verb: Verb, latency_ns: Nanos) {
        let at = Verb::ALL.iter().position(|one| *one == verb).map_or(0, |at| at + 1);
        self.0[0].add(latency_ns);
        if at > 0 {
            self.0[at].add(latency_ns);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}
