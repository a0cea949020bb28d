use super::*;

const FILE: FileId = (7, 9);
const TERM: Nanos = 30 * SECS;

fn table() -> Table {
    Table::new(Terms::default(), 1, Time(0), false)
}

/// A request, before which the file is made durable if that is needed.
fn ask(table: &mut Table, now: u64, client: ClientId, kind: Kind) -> Answer<Grant> {
    let ticket = 1000 * client + kind as u64;
    let asked = table.ask(Time(now * SECS), ticket, (client, kind), FILE, None);
    if asked != Answer::Drain(FILE) {
        return asked;
    }
    table.drained(FILE);
    table.ask(Time(now * SECS), ticket, (client, kind), FILE, None)
}

fn grant(answer: Answer<Grant>) -> Grant {
    match answer {
        Answer::Yes(grant) => grant,
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_number_may_read_and_one_may_write() {
    let mut table = table();
    let first = grant(ask(&mut table, 0, 1, Kind::Read));
    let second = grant(ask(&mut table, 0, 2, Kind::Read));
    assert!(first.number != second.number && first.until == Time(TERM));
    assert_eq!(ask(&mut table, 1, 3, Kind::Write), Answer::Wait(Time(TERM)));
    table.vacate(1, &[first.number]);
    assert_eq!(ask(&mut table, 2, 3, Kind::Write), Answer::Wait(Time(TERM)));
    table.vacate(2, &[second.number]);
    assert_eq!(grant(ask(&mut table, 3, 3, Kind::Write)).kind, Kind::Write);
    assert!(matches!(ask(&mut table, 4, 1, Kind::Read), Answer::Wait(_)));
}

#[test]
fn a_holder_hears_of_a_claim_and_its_lease_not_renewed_while_another_waits() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Write));
    assert!(!table.has_news(Time(0), 1));
    assert_eq!(table.renew(Time(SECS), 1), Renewal::default());
    ask(&mut table, 2, 2, Kind::Read);
    assert!(table.has_news(Time(2 * SECS), 1));
    let heard = table.renew(Time(2 * SECS), 1);
    assert_eq!((heard.claimed, heard.more), (vec![(FILE.1, held.number)], false));
    assert!(!table.has_news(Time(3 * SECS), 1), "it has just heard");
    assert!(table.has_news(Time(10 * SECS), 1), "the reply may be lost");
    // The renewal at 1 s was the last.
    assert!(matches!(ask(&mut table, 30, 2, Kind::Read), Answer::Wait(_)));
    assert_eq!(grant(ask(&mut table, 31, 2, Kind::Read)).kind, Kind::Read);
    assert_eq!(table.stats().expired, 1);
}

#[test]
fn a_lease_that_is_over_is_revived_unless_somebody_wanted_the_file() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Write));
    let revived = grant(ask(&mut table, 100, 1, Kind::Write));
    assert_eq!(revived.number, held.number);
    grant(ask(&mut table, 200, 2, Kind::Write));
    assert!(matches!(ask(&mut table, 201, 1, Kind::Write), Answer::Wait(_)));
    let anew = grant(ask(&mut table, 300, 1, Kind::Write));
    assert_ne!(anew.number, held.number);
}

#[test]
fn what_the_holder_of_a_lapsed_lease_wrote_is_made_durable_before_others_see_it() {
    let mut table = table();
    grant(ask(&mut table, 0, 1, Kind::Write));
    let read = |table: &mut Table| table.ask(Time(40 * SECS), 5, (2, Kind::Read), FILE, None);
    let enter = table.enter(Time(40 * SECS), 6, (None, Kind::Read), FILE, None);
    assert_eq!((enter, read(&mut table)), (Answer::Drain(FILE), Answer::Drain(FILE)));
    table.drained(FILE);
    grant(read(&mut table));
}

#[test]
fn a_reader_that_wants_to_write_keeps_its_number_and_waits_for_the_others() {
    let mut table = table();
    let reads = grant(ask(&mut table, 0, 1, Kind::Read));
    let other = grant(ask(&mut table, 0, 2, Kind::Read));
    assert!(matches!(ask(&mut table, 1, 1, Kind::Write), Answer::Wait(_)));
    assert!(!table.has_news(Time(SECS), 1) && table.has_news(Time(SECS), 2));
    table.vacate(2, &[other.number]);
    let writes = grant(ask(&mut table, 1, 1, Kind::Write));
    assert_eq!((writes.number, writes.kind), (reads.number, Kind::Write));
}

#[test]
fn two_readers_that_want_to_write_do_so_one_after_the_other() {
    let mut table = table();
    let first = grant(ask(&mut table, 0, 1, Kind::Read));
    let second = grant(ask(&mut table, 0, 2, Kind::Read));
    assert!(matches!(ask(&mut table, 1, 1, Kind::Write), Answer::Wait(_)));
    assert!(matches!(ask(&mut table, 1, 2, Kind::Write), Answer::Wait(_)));
    // The second has to give way first, although both hear of it.
    table.vacate(2, &[second.number]);
    assert!(matches!(ask(&mut table, 1, 2, Kind::Write), Answer::Wait(_)));
    // The first was there before the second, and keeps what it has.
    let writes = ask(&mut table, 1, 1, Kind::Write);
    assert_eq!(grant(writes).number, first.number);
    table.vacate(1, &[first.number]);
    assert_ne!(grant(ask(&mut table, 2, 2, Kind::Write)).number, second.number);
}

#[test]
fn nobody_overtakes_who_waits() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Read));
    assert!(matches!(ask(&mut table, 1, 2, Kind::Write), Answer::Wait(_)));
    assert!(matches!(ask(&mut table, 2, 3, Kind::Read), Answer::Wait(_)), "reads, but came later");
    table.vacate(1, &[held.number]);
    assert!(matches!(ask(&mut table, 3, 3, Kind::Read), Answer::Wait(_)));
    let writes = grant(ask(&mut table, 3, 2, Kind::Write));
    table.vacate(2, &[writes.number]);
    grant(ask(&mut table, 4, 3, Kind::Read));
}

#[test]
fn a_call_of_somebody_else_waits_for_the_lease_and_keeps_new_ones_out() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Write));
    let plain = |table: &mut Table, now: u64, kind| {
        table.enter(Time(now * SECS), 7, (None, kind), FILE, None)
    };
    assert_eq!(plain(&mut table, 1, Kind::Read), Answer::Wait(Time(TERM)));
    assert!(table.has_news(Time(SECS), 1));
    table.vacate(1, &[held.number]);
    assert_eq!(plain(&mut table, 2, Kind::Read), Answer::Yes(()));
    assert!(matches!(ask(&mut table, 2, 1, Kind::Write), Answer::Wait(_)));
    table.quit(1000 + Kind::Write as u64, FILE);
    table.leave(7, FILE);
    let held = grant(ask(&mut table, 3, 1, Kind::Read));
    assert_eq!(plain(&mut table, 4, Kind::Read), Answer::Yes(()), "both only read");
    table.leave(7, FILE);
    assert!(matches!(plain(&mut table, 4, Kind::Write), Answer::Wait(_)));
    assert_eq!(plain(&mut table, 40, Kind::Write), Answer::Yes(()), "the lease is over");
    assert_eq!(table.stats().expired, 1, "{held:?}");
}

#[test]
fn a_write_counts_under_its_own_lease_only_and_gets_slack() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Write));
    let write = |table: &mut Table, now: u64, client, number| {
        let who = (Some(client), Kind::Write);
        table.enter(Time(now * SECS), 50 + now, who, FILE, Some((number, true)))
    };
    assert_eq!(write(&mut table, 29, 1, held.number), Answer::Yes(()));
    assert!(matches!(ask(&mut table, 29, 2, Kind::Read), Answer::Wait(_)));
    // The term is over at 30 s, the slack of the write at 34 s, and until 40 s it is being executed.
    assert!(matches!(ask(&mut table, 33, 2, Kind::Read), Answer::Wait(_)));
    assert!(matches!(ask(&mut table, 39, 2, Kind::Read), Answer::Wait(_)));
    table.leave(79, FILE);
    grant(ask(&mut table, 40, 2, Kind::Read));
    assert_eq!(write(&mut table, 41, 1, held.number), Answer::Lost);
    assert_eq!(write(&mut table, 41, 2, held.number), Answer::Lost, "another's number");
    assert_eq!(table.stats().refused, 2);
}

#[test]
fn a_call_under_a_lease_does_not_wait_for_who_claims_it() {
    let mut table = table();
    let held = grant(ask(&mut table, 0, 1, Kind::Read));
    assert!(matches!(ask(&mut table, 1, 2, Kind::Write), Answer::Wait(_)));
    let under = Some((held.number, false));
    assert_eq!(table.enter(Time(SECS), 7, (Some(1), Kind::Read), FILE, under), Answer::Yes(()));
    let other = table.enter(Time(SECS), 8, (Some(3), Kind::Read), FILE, None);
    assert!(matches!(other, Answer::Wait(_)));
}

#[test]
fn after_a_restart_only_who_held_a_lease_gets_it_for_one_term() {
    let mut table = Table::new(Terms::default(), 2, Time(100 * SECS), true);
    assert_eq!(ask(&mut table, 100, 2, Kind::Read), Answer::Wait(Time(100 * SECS + TERM)));
    let enter = table.enter(Time(100 * SECS), 7, (None, Kind::Read), FILE, None);
    assert_eq!(enter, Answer::Wait(Time(100 * SECS + TERM)));
    let old = 1 << 32 | 1;
    let write = table.enter(Time(100 * SECS), 8, (Some(1), Kind::Write), FILE, Some((old, true)));
    assert_eq!(write, Answer::Lost, "numbers of earlier starts mean nothing");
    let reclaim = |table: &mut Table, now: u64, client, boot| {
        table.ask(Time(now * SECS), 9, (client, Kind::Write), FILE, Some(boot))
    };
    assert!(matches!(reclaim(&mut table, 101, 1, 1), Answer::Wait(_)), "meant for another start");
    table.quit(9, FILE);
    let again = grant(reclaim(&mut table, 101, 1, 2));
    assert!(again.reclaimed);
    assert!(matches!(ask(&mut table, 130, 2, Kind::Read), Answer::Wait(_)), "held by the first");
    table.vacate(1, &[again.number]);
    grant(ask(&mut table, 131, 2, Kind::Read));
    assert!(matches!(reclaim(&mut table, 132, 1, 2), Answer::Wait(_)), "too late");
}

#[test]
fn who_stops_waiting_is_in_nobodys_way() {
    let mut table = table();
    grant(ask(&mut table, 0, 1, Kind::Read));
    assert!(matches!(ask(&mut table, 1, 2, Kind::Write), Answer::Wait(_)));
    assert!(table.has_news(Time(SECS), 1));
    table.quit(2000 + Kind::Write as u64, FILE);
    assert!(!table.has_news(Time(SECS), 1));
    grant(ask(&mut table, 2, 3, Kind::Read));
}

#[test]
fn a_table_is_bounded_and_recalls_the_oldest_lease() {
    let terms = Terms { leases_max: 2, ..Terms::default() };
    let mut table = Table::new(terms, 1, Time(0), false);
    let file = |table: &mut Table, now: u64, ino| {
        table.ask(Time(now * SECS), 100 + ino, (1, Kind::Read), (7, ino), None)
    };
    let first = grant(file(&mut table, 0, 1));
    grant(file(&mut table, 1, 2));
    assert!(matches!(file(&mut table, 2, 3), Answer::Wait(_)));
    assert_eq!(table.renew(Time(2 * SECS), 1).claimed, [(1, first.number)]);
    table.vacate(1, &[first.number]);
    grant(file(&mut table, 3, 3));
    assert!(matches!(file(&mut table, 4, 4), Answer::Wait(_)));
    assert!(matches!(file(&mut table, 4, 5), Answer::Wait(_)));
    assert_eq!(file(&mut table, 4, 6), Answer::Full, "claims are bounded, too");
    // Leases end by themselves if their holder is gone: who waits looks again, and then there is room.
    assert!(matches!(file(&mut table, 100, 4), Answer::Wait(_)));
    grant(file(&mut table, 100, 4));
    assert!(table.len() <= 2);
}

/// Whatever clients do in whatever order, no two hold what excludes each other at one time.
#[test]
fn leases_that_run_never_exclude_each_other() {
    let mut rng = twin_rt::Rng::new(5);
    let mut table = table();
    let mut held: BTreeMap<(ClientId, FileId), (u64, Kind, Time)> = BTreeMap::new();
    let (mut now, mut grants) = (Time(0), 0);
    for ticket in 0..20_000 {
        now += rng.below(4 * SECS);
        let (client, id) = (rng.range(1, 5), (7, rng.below(3)));
        let kind = *rng.pick(&[Kind::Read, Kind::Write]);
        match rng.below(6) {
            0..3 => {
                if rng.chance(0.5) {
                    table.drained(id);
                }
                if let Answer::Yes(grant) = table.ask(now, ticket, (client, kind), id, None) {
                    grants += 1;
                    held.insert((client, id), (grant.number, grant.kind, grant.until));
                }
                table.quit(ticket, id);
            }
            3 => {
                if let Some((number, ..)) = held.remove(&(client, id)) {
                    table.vacate(client, &[number]);
                }
            }
            4 => {
                let claimed = table.renew(now, client).claimed;
                for ((_, _), (number, _, until)) in
                    held.iter_mut().filter(|((of, _), _)| *of == client)
                {
                    let is_claimed = claimed.iter().any(|(_, claimed)| claimed == number);
                    if *until > now && !is_claimed {
                        *until = now + TERM;
                    }
                }
            }
            _ => {
                if table.enter(now, ticket, (None, kind), id, None) == Answer::Yes(()) {
                    let running =
                        held.iter().filter(|((_, of), (.., until))| *of == id && *until > now);
                    let excluded = |(_, (_, other, _)): (_, &(u64, Kind, Time))| {
                        excludes((None, kind), (None, *other))
                    };
                    assert!(!running.into_iter().any(excluded), "ticket {ticket}");
                    table.leave(ticket, id);
                }
                table.quit(ticket, id);
            }
        }
        for ((one, id), (_, kind, until)) in &held {
            for ((other, of), (_, other_kind, other_until)) in &held {
                let run = *until > now && *other_until > now && id == of;
                let excluded = excludes((Some(*one), *kind), (Some(*other), *other_kind));
                assert!(!run || !excluded, "ticket {ticket}: {one} and {other}");
            }
        }
    }
    assert!(grants > 1000, "{grants}");
}
