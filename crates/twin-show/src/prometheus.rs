//! The figures of a mount in Prometheus' text format: `twinfs stat --prometheus`.
//!
//! Contract: names and labels stay as they are; what a layout does not have is left out, and never zero. Counters
//! begin with the mount, whose process is a label, so that a new mount is a new series.

use serde_json::Value;

/// A metric: its name after `twinfs_`, its kind, its help, and where it is in the row of `stat --format json`.
type Metric = (&'static str, &'static str, &'static str, &'static str);

const METRICS: [Metric; 43] = [
    ("capacity_bytes", "gauge", "Size of the volume.", "/capacity_bytes"),
    ("used_bytes", "gauge", "Bytes in use.", "/used_bytes"),
    ("used_inodes", "gauge", "Inodes in use.", "/used_inodes"),
    ("resident_bytes", "gauge", "Memory of the daemon.", "/resident_bytes"),
    (
        "most_resident_bytes",
        "gauge",
        "The most memory that the daemon has had.",
        "/most_resident_bytes",
    ),
    ("operations_total", "counter", "Operations since the mount.", "/figures/operations"),
    (
        "dirty_bytes",
        "gauge",
        "Bytes in the cache that are not on the device yet.",
        "/figures/dirty_bytes",
    ),
    ("cached_inodes", "gauge", "Inodes in memory.", "/figures/cached_inodes"),
    ("device_requests_total", "counter", "Requests to the device.", "/figures/device_requests"),
    ("device_queue", "gauge", "Requests that are at the device now.", "/figures/device_queue"),
    (
        "idle_polling_bursts_total",
        "counter",
        "Bursts of requests during which idle processors polled.",
        "/figures/idle_polling/bursts",
    ),
    (
        "idle_polling_nanoseconds_total",
        "counter",
        "Sum of the times in which idle processors polled.",
        "/figures/idle_polling/ns",
    ),
    ("written_bytes_total", "counter", "Bytes written to the device.", "/figures/written_bytes"),
    (
        "new_data_bytes_total",
        "counter",
        "Bytes of them that users wrote.",
        "/figures/new_data_bytes",
    ),
    (
        "moved_bytes_total",
        "counter",
        "Bytes of them that the cleaner moved.",
        "/figures/moved_bytes",
    ),
    (
        "cleaner_read_bytes_total",
        "counter",
        "Bytes that the cleaner read.",
        "/figures/cleaner_read_bytes",
    ),
    (
        "write_cost",
        "gauge",
        "Bytes to and from the device for each byte of new data since the mount.",
        "/figures/write_cost",
    ),
    (
        "cleaner_background_segments_total",
        "counter",
        "Segments cleaned at moments that the policy of when to clean chose.",
        "/figures/cleaner/background/segments",
    ),
    (
        "cleaner_background_moved_bytes_total",
        "counter",
        "Bytes written to move live data at those moments.",
        "/figures/cleaner/background/moved_bytes",
    ),
    (
        "cleaner_demand_segments_total",
        "counter",
        "Segments cleaned because operations waited for room, or were about to.",
        "/figures/cleaner/demand/segments",
    ),
    (
        "cleaner_demand_moved_bytes_total",
        "counter",
        "Bytes written to move live data on demand.",
        "/figures/cleaner/demand/moved_bytes",
    ),
    (
        "cleaner_by_hand_segments_total",
        "counter",
        "Segments cleaned because somebody asked for it.",
        "/figures/cleaner/by_hand/segments",
    ),
    (
        "idle_times_total",
        "counter",
        "Times in which the device was idle.",
        "/figures/cleaner/idle_times/count",
    ),
    (
        "idle_nanoseconds_total",
        "counter",
        "Sum of the idle times of the device.",
        "/figures/cleaner/idle_times/total_ns",
    ),
    (
        "longest_idle_nanoseconds",
        "gauge",
        "The longest idle time since the mount.",
        "/figures/cleaner/idle_times/longest_ns",
    ),
    (
        "idle_times_of_two_seconds_total",
        "counter",
        "Idle times that lasted two seconds.",
        "/figures/cleaner/idle_times/of_two_s",
    ),
    (
        "idle_times_of_four_seconds_total",
        "counter",
        "Idle times that lasted four seconds.",
        "/figures/cleaner/idle_times/of_four_s",
    ),
    (
        "waits_for_room_total",
        "counter",
        "Waits of operations for the cleaner.",
        "/figures/cleaner/waits/count",
    ),
    (
        "waits_for_room_nanoseconds_total",
        "counter",
        "Sum of the waits of operations for the cleaner.",
        "/figures/cleaner/waits/total_ns",
    ),
    (
        "longest_wait_for_room_nanoseconds",
        "gauge",
        "The longest wait for the cleaner since the mount.",
        "/figures/cleaner/waits/longest_ns",
    ),
    ("bucket_puts_total", "counter", "Objects written to the bucket.", "/figures/bucket/puts"),
    ("bucket_gets_total", "counter", "Objects or ranges read.", "/figures/bucket/gets"),
    ("bucket_in_bytes_total", "counter", "Bytes of them written.", "/figures/bucket/in_bytes"),
    ("bucket_out_bytes_total", "counter", "Bytes of them read.", "/figures/bucket/out_bytes"),
    (
        "bucket_unanswered_total",
        "counter",
        "Requests that the bucket did not answer, or told to come again.",
        "/figures/bucket/unanswered",
    ),
    (
        "bucket_journal_bytes",
        "gauge",
        "Bytes that were synced and are on this machine alone.",
        "/figures/bucket/waiting/bytes",
    ),
    (
        "journal_waiting_bytes",
        "gauge",
        "Bytes in the journal before the image that the image does not have.",
        "/figures/journal_file/waiting_bytes",
    ),
    (
        "journal_written_bytes_total",
        "counter",
        "Bytes that were written to that journal.",
        "/figures/journal_file/written_bytes",
    ),
    (
        "journal_moved_bytes_total",
        "counter",
        "Bytes that it brought to the image.",
        "/figures/journal_file/moved_bytes",
    ),
    ("follow_head", "gauge", "The head that a mount that follows shows.", "/figures/follow/head"),
    (
        "follow_age_nanoseconds",
        "gauge",
        "How long ago what such a mount shows was known to be the newest.",
        "/figures/follow/as_of_ns",
    ),
    ("scrub_flaws", "gauge", "Flaws that the last scrub has found.", "/figures/scrub/flaws"),
    (
        "scrub_ended_seconds",
        "gauge",
        "When the last scrub ended, in seconds since 1970.",
        "/figures/scrub/ended_seconds",
    ),
];

/// The text for a row of `stat --format json` of a mount.
pub fn text(row: &Value) -> String {
    let label = |name: &str, value: String| format!("{name}=\"{}\"", escaped(&value));
    let words = |at: &str| row.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = [
        label("dir", words("/dir")),
        label("layout", words("/figures/layout")),
        label("pid", row["pid"].to_string()),
    ];
    let labels = labels.join(",");
    let mut out = String::new();
    for (name, kind, help, at) in METRICS {
        let Some(value) = row.pointer(at).filter(|value| value.is_number()) else { continue };
        out += &format!("# HELP twinfs_{name} {help}\n# TYPE twinfs_{name} {kind}\n");
        out += &format!("twinfs_{name}{{{labels}}} {value}\n");
    }
    out
}

/// The value of a label as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_there_has_a_name_a_kind_and_labels_and_what_is_not_is_left_out() {
        let row = json!({
            "dir": "/srv/\"a\"", "pid": 7, "used_bytes": 13312,
            "figures": { "layout": "lfs", "operations": 8, "write_cost": null }
        });
        let text = text(&row);
        let labels = "{dir=\"/srv/\\\"a\\\"\",layout=\"lfs\",pid=\"7\"}";
        assert!(text.contains(&format!(
            "# TYPE twinfs_used_bytes gauge\ntwinfs_used_bytes{labels} 13312\n"
        )));
        assert!(text.contains(&format!("twinfs_operations_total{labels} 8\n")), "{text}");
        assert!(!text.contains("write_cost") && !text.contains("dirty"), "{text}");
    }

    #[test]
    fn names_are_those_of_counters_and_units() {
        for (name, kind, help, _) in METRICS {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert!(
                help.ends_with('.') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            );
        }
    }
}
