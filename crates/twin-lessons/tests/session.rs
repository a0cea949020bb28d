//! A session as a page uses it: commands in, answers out.

use serde_json::{Value, json};
use twin_lessons::Session;

const VOLUMES: [&str; 3] = ["vsfs:size=2M", "ffs:size=8M,group=1M", "lfs:size=8M"];

fn ask(session: &mut Session, command: Value) -> Value {
    let answer = session.call(&command.to_string());
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert_eq!(answer["ok"], true, "{command}: {answer}");
    answer
}

fn run(session: &mut Session, line: &str) -> Value {
    let answer = ask(session, json!({"do": "run", "line": line}));
    assert_eq!(answer["failed"], Value::Null, "{line}");
    answer
}

fn made(settings: &str) -> Session {
    let mut session = Session::default();
    ask(&mut session, json!({"do": "make", "settings": settings}));
    session
}

#[test]
fn the_same_commands_give_the_same_answers() {
    for settings in VOLUMES {
        let digest = || {
            let mut session = made(settings);
            run(&mut session, "workload 300 7");
            ask(&mut session, json!({"do": "view"}));
            run(&mut session, "sync")["digest"].clone()
        };
        assert_eq!(digest(), digest(), "{settings}");
    }
}

#[test]
fn a_line_in_steps_comes_to_the_same_as_in_one_go() {
    for settings in VOLUMES {
        let (mut whole, mut steps) = (made(settings), made(settings));
        for line in ["mkdir d", "write d/a 40K", "sync", "read d/a"] {
            let one = run(&mut whole, line);
            let mut other = ask(&mut steps, json!({"do": "begin", "line": line}));
            while other["done"] == false {
                other = ask(&mut steps, json!({"do": "step"}));
            }
            assert_eq!(one, other, "{settings}: {line}");
        }
    }
}

#[test]
fn undoing_a_line_leaves_the_volume_as_before_it() {
    for settings in VOLUMES {
        let mut session = made(settings);
        run(&mut session, "write a 20K");
        run(&mut session, "sync");
        let before = ask(&mut session, json!({"do": "view"}));
        run(&mut session, "rm a");
        run(&mut session, "sync");
        ask(&mut session, json!({"do": "undo"}));
        ask(&mut session, json!({"do": "undo"}));
        assert_eq!(before, ask(&mut session, json!({"do": "view"})), "{settings}");
    }
}

#[test]
fn a_power_failure_can_be_cut_looked_at_recovered_and_undone() {
    for settings in VOLUMES {
        let mut session = made(settings);
        run(&mut session, "write kept 20K");
        run(&mut session, "sync");
        run(&mut session, "write new 20K");
        run(&mut session, "sync");
        let points =
            ask(&mut session, json!({"do": "crash"}))["points"].as_u64().expect("a number");
        assert!(points > 2, "{settings}");
        for point in 0..points {
            let doubt = ask(&mut session, json!({"do": "crash", "point": point}));
            let outcomes = "W".repeat(doubt["in_doubt"].as_array().expect("a list").len());
            let before = ask(&mut session, json!({"do": "view"}))["platter"].clone();
            ask(&mut session, json!({"do": "cut", "point": point, "outcomes": outcomes}));
            let view = ask(&mut session, json!({"do": "view"}));
            assert_eq!(view["power"], false);
            let recovered = ask(&mut session, json!({"do": "recover"}));
            assert_eq!(recovered["check"]["clean"], true, "{settings} {point}: {recovered}");
            // The line that was done when the power failed is still there.
            if doubt["lines_done"].as_u64() >= Some(2) {
                run(&mut session, "read kept");
            }
            let mut undone = ask(&mut session, json!({"do": "undo"}))["undone"].clone();
            while undone != "power failure" {
                undone = ask(&mut session, json!({"do": "undo"}))["undone"].clone();
            }
            assert_eq!(
                ask(&mut session, json!({"do": "view"}))["platter"],
                before,
                "{settings} {point}"
            );
        }
    }
}

#[test]
fn an_image_that_was_saved_is_the_same_volume_when_it_is_loaded() {
    for settings in VOLUMES {
        let mut session = made(settings);
        run(&mut session, "mkdir d");
        run(&mut session, "write d/a 30K");
        run(&mut session, "sync");
        let (listed, read) = (run(&mut session, "ls d"), run(&mut session, "read d/a"));
        let image = session.image();
        let mut other = Session::default();
        let loaded: Value = serde_json::from_str(&other.load(&image)).expect("JSON");
        assert_eq!(loaded["ok"], true, "{loaded}");
        assert_eq!(run(&mut other, "ls d")["output"], listed["output"], "{settings}");
        assert_eq!(run(&mut other, "read d/a")["output"], read["output"], "{settings}");
    }
}

#[test]
fn the_policy_of_the_cleaner_can_be_changed_and_the_cleaner_be_called() {
    let mut session = made("lfs:size=4M");
    run(&mut session, "workload 300 3");
    run(&mut session, "remount victim=greedy,when=on-demand");
    let cleaned = run(&mut session, "clean 2");
    assert!(
        cleaned["output"][0].as_str().is_some_and(|said| said.contains("segments cleaned")),
        "{cleaned}"
    );
    let settings = |session: &mut Session| ask(session, json!({"do": "view"}))["settings"].clone();
    let lines = ask(&mut session, json!({"do": "lines"}))["lines"].clone();
    assert_eq!(
        lines,
        json!(["lfs:size=4M", "workload 300 3", "remount victim=greedy,when=on-demand", "clean 2"])
    );
    let before = settings(&mut session);
    for _ in 0..2 {
        ask(&mut session, json!({"do": "undo"}));
    }
    assert_eq!(settings(&mut session), "lfs:size=4M", "undone with the remount");
    run(&mut session, "remount victim=greedy,when=on-demand");
    assert_eq!(settings(&mut session), before);
    assert!(
        ask(&mut session, json!({"do": "view"}))["settings"]
            .as_str()
            .is_some_and(|text| text.contains("victim=greedy"))
    );
}

#[test]
fn what_is_not_understood_is_an_answer_and_no_panic() {
    let mut session = Session::default();
    for command in [
        "",
        "{}",
        r#"{"do":"fly"}"#,
        r#"{"do":"view"}"#,
        r#"{"do":"make","settings":"zfs"}"#,
        r#"{"do":"make","settings":"lfs:size=1T"}"#,
        r#"{"do":"make","settings":"lfs:disk=measured"}"#,
        r#"{"do":"exercise","id":"1.1","seed":""}"#,
    ] {
        let answer: Value = serde_json::from_str(&session.call(command)).expect("JSON");
        assert_eq!(answer["ok"], false, "{command}: {answer}");
    }
    let refused: Value = serde_json::from_str(&session.load(&[1, 2, 3])).expect("JSON");
    assert_eq!(refused["ok"], false);
    let mut session = made("vsfs:size=1M");
    for (line, why) in [("read a", "no such"), ("rm /", "root"), ("clean", "cleaner")] {
        let answer = ask(&mut session, json!({"do": "run", "line": line}));
        assert!(
            answer["failed"].as_str().is_some_and(|said| said.to_lowercase().contains(why)),
            "{answer}"
        );
    }
}

#[test]
fn what_an_exercise_proposes_to_try_can_be_tried() {
    for exercise in twin_lessons::chapters().iter().flat_map(|chapter| chapter.exercises) {
        for seed in ["1", "2", "3"] {
            let attempt = exercise.variant(seed).expect("a variant").attempt;
            let Some((settings, lines)) = attempt.split_first() else { continue };
            let mut session = made(settings);
            for line in lines {
                // An operation may fail, where that is what there is to see; a line that is not understood may not.
                ask(&mut session, json!({"do": "run", "line": line}));
            }
            ask(&mut session, json!({"do": "view"}));
        }
    }
}
