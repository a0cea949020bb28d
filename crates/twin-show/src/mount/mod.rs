//! What is known of a mount, in lines for people: `twinfs stat DIR`.
//!
//! Contract: the lines are made of the row that `stat --format json` prints, so both say the same. What a mount does not
//! have is left out.

mod cleaner;

use serde_json::Value;
use twin_settings::value::bytes_for_people;

/// The lines of a row of `stat --format json` of a mount: what is known from outside, and from itself if it answers.
pub fn in_words(row: &Value) -> String {
    let number = |name: &str| row[name].as_u64().unwrap_or_default();
    let size = |name: &str| bytes_for_people(number(name));
    let (used, capacity) = (number("used_bytes"), number("capacity_bytes"));
    let percent = used as f64 * 100.0 / capacity.max(1) as f64;
    format!(
        "mounted by       process {}: {}\nused             {} of {} ({percent:.1}%)\n\
         inodes           {} used\n\
         memory           {} now, {} at most (`mount --memory` bounds it){}",
        row["pid"],
        row["command"].as_str().unwrap_or_default(),
        size("used_bytes"),
        size("capacity_bytes"),
        row["used_inodes"],
        size("resident_bytes"),
        size("most_resident_bytes"),
        figures_in_words(&row["figures"]),
    )
}

/// What a mount says of itself; nothing if it is silent.
fn figures_in_words(figures: &Value) -> String {
    if figures.is_null() {
        return String::new();
    }
    let size = |name: &str| bytes_for_people(figures[name].as_u64().unwrap_or_default());
    let cost = figures["write_cost"].as_f64().map_or("-".into(), |c| format!("{c:.2}"));
    format!(
        "\noperations       {}\nwritten          {}, {} of it new data; write cost {cost}\n\
         dirty            {}",
        figures["operations"],
        size("written_bytes"),
        size("new_data_bytes"),
        size("dirty_bytes")
    ) + &cleaner::in_words(&figures["cleaner"])
        + &idle_polling_in_words(&figures["idle_polling"])
        + &scrub_in_words(&figures["scrub"])
        + &journal_in_words(&figures["journal_file"])
        + &bucket_in_words(&figures["bucket"])
        + &follow_in_words(&figures["follow"])
}

/// The last scrub of a mount, as a line; nothing if there was none.
fn scrub_in_words(scrub: &Value) -> String {
    let Some(phase) = scrub["phase"].as_str() else { return String::new() };
    let (flaws, read) =
        (&scrub["flaws"], bytes_for_people(scrub["read_bytes"].as_u64().unwrap_or_default()));
    format!("\nscrub            {phase}: {read} read, {flaws} flaws")
}

/// What is in the journal before an image; nothing if there is none.
fn journal_in_words(journal: &Value) -> String {
    let size = |name: &str| journal[name].as_u64().map(bytes_for_people);
    let (Some(waiting), Some(size)) = (size("waiting_bytes"), size("size")) else {
        return String::new();
    };
    format!("\njournal          {waiting} of {size} that the image does not have yet")
}

/// What the store of a volume in a bucket was asked since the mount; nothing if there is none.
fn bucket_in_words(bucket: &Value) -> String {
    let Some(puts) = bucket["puts"].as_u64() else { return String::new() };
    let size = |name: &str| bytes_for_people(bucket[name].as_u64().unwrap_or_default());
    let again = match bucket["unanswered"].as_u64() {
        None | Some(0) => String::new(),
        Some(some) => format!("; {some} without an answer"),
    };
    let journal = &bucket["waiting"];
    let waiting = match journal["packs"].as_u64() {
        None => String::new(),
        Some(0) => "\njournal          empty: the bucket has all that was synced".into(),
        Some(packs) => {
            let bytes = bytes_for_people(journal["bytes"].as_u64().unwrap_or_default());
            let silent = journal["silent"].as_str().map_or(String::new(), |why| format!(": {why}"));
            format!(
                "\njournal          {bytes} in {packs} packs that are on this machine alone{silent}"
            )
        }
    };
    format!(
        "\nbucket           {puts} PUT of {}, {} GET of {}, {} DELETE, {} LIST{again}; {} there{waiting}",
        size("in_bytes"),
        bucket["gets"],
        size("out_bytes"),
        bucket["deletes"],
        bucket["lists"],
        size("stored_bytes")
    )
}

/// What a mount that follows shows; nothing if it does not follow.
fn follow_in_words(follow: &Value) -> String {
    let Some(head) = follow["head"].as_u64() else { return String::new() };
    let seconds = |name: &str| follow[name].as_u64().unwrap_or_default() as f64 / 1e9;
    let ended = if follow["is_closed"].as_bool() == Some(true) { ", closed" } else { "" };
    let failing = match follow["failing"].as_str() {
        Some(why) => format!("\nnot followed now  {why}"),
        None => String::new(),
    };
    format!(
        "\nfollows          head {head} of writer {}{ended}, with its packs before {}: as of {:.1} s ago, shown for {:.1} s; \
         {} states until now\nwriter           {}{failing}",
        follow["writer"],
        follow["packs"],
        seconds("as_of_ns"),
        seconds("since_ns"),
        follow["states"],
        follow["writer_words"].as_str().unwrap_or_default()
    )
}

/// How long idle processors polled for the mount; nothing if they never do.
fn idle_polling_in_words(polled: &Value) -> String {
    let (Some(bursts), Some(ns)) = (polled["bursts"].as_u64(), polled["ns"].as_u64()) else {
        return String::new();
    };
    let seconds = ns as f64 / 1e9;
    format!("\nidle polling     {seconds:.3} s; bursts of requests: {bursts} (`mount --idle-poll`)")
}
