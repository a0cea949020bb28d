//! Faults at certain moments of the fixed course, and the walk over all of them.

use std::collections::BTreeMap;

use twin_rt::{MILLIS, Nanos};
use twin_sim::network::{Mishap, Proto};

/// Which side of a call's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// It has arrived.
    Before,
    /// It has been executed and not answered.
    After,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The power fails; writes that are not certain are lost.
    PowerLost,
    /// The power fails; they are all there.
    PowerWhole,
    /// The server is killed.
    Kill,
    /// A write-back fails.
    Loss,
    /// Something happens to a message.
    Message(Mishap),
}

/// A fault at a moment. Calls that arrive, and messages that are sent, are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The number of the call or message.
    pub at: u64,
    /// Before or after the call's execution.
    pub when: When,
    /// What happens.
    pub what: What,
}

/// How late a message is that is late, and the second one of two: once within the course of the next calls,
/// once behind a repeated call.
const LATE_NS: [Nanos; 2] = [2 * MILLIS, 13 * MILLIS];

/// All faults of a course with so many calls and messages.
pub fn all(proto: Proto, calls: u64, messages: u64) -> Vec<Strike> {
    let mut all = Vec::new();
    for at in 1..calls + 1 {
        for when in [When::Before, When::After] {
            for what in [What::PowerLost, What::PowerWhole, What::Kill, What::Loss] {
                all.push(Strike { at, when, what });
            }
        }
    }
    for at in 1..messages + 1 {
        let late = LATE_NS.map(Mishap::Late);
        let mut mishaps = vec![Mishap::Lose, late[0], late[1]];
        if proto == Proto::Udp {
            mishaps.extend(LATE_NS.map(Mishap::Repeat));
        }
        let strike = |mishap| Strike { at, when: When::Before, what: What::Message(mishap) };
        all.extend(mishaps.into_iter().map(strike));
    }
    all
}

/// The pairs of faults, by number: as many as `count * count`.
pub fn pairs(all: &[Strike], number: u64) -> Vec<Strike> {
    let count = all.len() as u64;
    let (first, second) = (all[(number / count) as usize], all[(number % count) as usize]);
    if first == second { vec![first] } else { vec![first, second] }
}

/// The faults of messages among strikes.
pub(super) fn of_messages(strikes: &[Strike]) -> BTreeMap<u64, Mishap> {
    let messages = strikes.iter().filter_map(|strike| match strike.what {
        What::Message(mishap) => Some((strike.at, mishap)),
        _ => None,
    });
    messages.collect()
}
