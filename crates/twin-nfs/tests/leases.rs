//! Leases of the server, call by call: see `twin_nfs::lease`.

use crate::common::{Client, Machine};
use twin_nfs::lease::{Terms, proc};
use twin_rt::{JoinHandle, MILLIS};

/// The record of a GET of a lease to write.
fn get(c: &Client, client: u64, file: &[u8]) -> Vec<u8> {
    c.record(proc::LEASE, proc::GET, |w| {
        w.u64(client);
        w.opaque(file);
        w.flag(true);
        w.u64(0);
    })
}

/// The number of the lease that a reply with its mark grants.
fn number(reply: &[u8]) -> u64 {
    let (status, number) = (&reply[28..32], &reply[40..48]);
    assert_eq!(status, [0; 4]);
    u64::from_be_bytes(number.try_into().unwrap())
}

fn vacate(c: &Client, client: u64, number: u64) {
    let args = |w: &mut twin_nfs::xdr::Writer| {
        w.u64(client);
        w.u32(1);
        w.u64(number);
    };
    assert_eq!(c.results(&c.record(proc::LEASE, proc::VACATE, args)).status(), 0);
}

fn pause(c: &Client) {
    c.rt.block_on(c.rt.sleep(MILLIS)).unwrap();
}

/// Clients repeat a GET that waits. When each copy was a claim of its own, the later ones were granted when their
/// client had long given the lease back. The client did not know of that lease, so that others waited for its end, and
/// repeated their calls meanwhile: three machines came to wait for ever.
#[test]
fn a_get_that_is_repeated_while_it_waits_is_one_claim() {
    let c = Machine::new().start().with_leases(Terms::default());
    let root = c.mnt("/").unwrap();
    let file = c.create(&root, b"f").unwrap();
    let answered =
        |call: JoinHandle<Option<Vec<u8>>>| c.rt.block_on(call).unwrap().expect("a reply");
    let first = number(&answered(c.begin(&get(&c, 1, &file))));
    let (of_second, of_third) = (get(&c, 2, &file), get(&c, 3, &file));
    let mut calls = Vec::new();
    for record in [&of_second, &of_third, &of_second, &of_third, &of_second] {
        calls.push(c.begin(record));
        pause(&c);
    }
    vacate(&c, 1, first);
    let [second, third, second_again, third_again, second_last] = calls.try_into().ok().unwrap();
    let reply = answered(second);
    assert_eq!(answered(second_again), reply, "a copy waits for the reply of the first");
    assert_eq!(answered(second_last), reply);
    vacate(&c, 2, number(&reply));
    let reply = answered(third);
    assert_eq!(answered(third_again), reply);
    vacate(&c, 3, number(&reply));
    let begin = c.rt.now();
    answered(c.begin(&get(&c, 1, &file)));
    assert_eq!(c.rt.now(), begin, "nobody holds the file");
    assert_eq!(c.server.lease_stats().unwrap().granted, 4);
}
