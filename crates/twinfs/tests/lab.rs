//! `twinfs lab`: papers and grades, and variants of each exercise against a solver that does not know the code that
//! made them.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use twin_lessons::chapters;

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

/// The answers of a grade in JSON, and the exit code.
fn graded(name: &str, paper: &Value) -> (Value, Option<i32>) {
    let path =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}.json"));
    std::fs::write(&path, paper.to_string()).unwrap();
    let output = twinfs(&["lab", "grade", path.to_str().unwrap(), "--json"]);
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output.status.code())
}

#[test]
fn a_paper_is_filled_and_graded_and_only_right_answers_are_a_success() {
    let output = twinfs(&["lab", "43", "--seed", "Ada", "--json"]);
    assert!(output.status.success());
    let mut paper: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (result, status) = graded("blank", &paper);
    assert_eq!((&result["right"], status), (&json!(0), Some(1)));
    for exercise in chapters().iter().find(|one| one.number == 43).unwrap().exercises {
        for part in exercise.variant("Ada").unwrap().parts {
            paper["answers"][exercise.id][part.name] = json!(part.answer);
        }
    }
    let (result, status) = graded("right", &paper);
    assert_eq!((&result["right"], status), (&result["of"], Some(0)), "{result}");
    paper["seed"] = json!("Bob");
    assert_eq!(graded("of another", &paper).1, Some(1), "another's variant has other answers");
}

#[test]
fn a_chapter_that_does_not_exist_and_a_file_that_is_no_paper_are_refused_with_a_way_out() {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for (args, status, word) in [
        (&["lab", "38"][..], 2, "37, 39"),
        (&["lab", "disks"], 2, "twinfs lab"),
        (&["lab", "grade"], 2, "FILE"),
        (&["lab", "grade", "/nowhere/answers.json"], 1, "/nowhere"),
        (&["lab", "grade", env!("CARGO_MANIFEST_PATH")], 1, "Cargo.toml"),
    ] {
        let output = twinfs(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert!(said(&output).contains(word), "{args:?}: {}", said(&output));
    }
}

#[test]
fn a_chapter_shows_its_exercises_and_hints_only_on_request() {
    let shown = |args: &[&str]| String::from_utf8(twinfs(args).stdout).unwrap();
    assert!(shown(&["lab"]).contains("Log-structured"));
    let (plain, hints) = (shown(&["lab", "37"]), shown(&["lab", "37", "--hints"]));
    assert!(plain.contains("FIFO 795, SSTF 375, SATF 375") && !plain.contains("hint:"));
    assert!(hints.contains("hint:"));
}

#[test]
fn the_lines_of_a_page_make_a_volume_that_is_checked_and_a_script() {
    let path = |name: &str| std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (lines, image) = (path("lab-lines.txt"), path("lab-lines.img"));
    let _ = std::fs::remove_file(&image);
    std::fs::write(&lines, "ffs:size=8M,group=1M\nmkdir d\nwrite d/a 20K\nrm missing\nsync\n")
        .unwrap();
    let (lines, image) = (lines.to_str().unwrap(), image.to_str().unwrap());
    let output = twinfs(&["lab", "lines", lines, "--image", image, "--json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["lines"], &result["refused"]), (&json!(4), &json!(1)));
    assert!(twinfs(&["check", image]).status.success());
    assert_eq!(
        twinfs(&["lab", "lines", lines, "--image", image]).status.code(),
        Some(1),
        "it exists"
    );
    let script = String::from_utf8(twinfs(&["lab", "lines", lines, "--sh"]).stdout).unwrap();
    assert!(script.contains("mkdir './d'\n") && script.starts_with("#!/bin/sh"), "{script}");
}

#[test]
fn an_image_of_mkfs_can_be_worked_in_as_on_the_page() {
    for layout in ["vsfs", "ffs", "lfs"] {
        let image = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("lab-mkfs-{layout}.img"));
        let _ = std::fs::remove_file(&image);
        let made = twinfs(&["mkfs", "--layout", layout, "--size", "16M", image.to_str().unwrap()]);
        assert!(made.status.success(), "{layout}: {}", String::from_utf8_lossy(&made.stderr));
        let mut session = twin_lessons::Session::default();
        let loaded = session.load(&std::fs::read(&image).unwrap());
        assert!(loaded.contains("\"ok\":true"), "{layout}: {loaded}");
        for line in ["write a 20K", "sync", "read a"] {
            let answer = session.call(&json!({"do": "run", "line": line}).to_string());
            assert!(
                answer.contains("\"done\":true") && !answer.contains("failed"),
                "{layout}: {answer}"
            );
        }
        std::fs::write(&image, session.image()).unwrap();
        assert!(twinfs(&["check", image.to_str().unwrap()]).status.success(), "{layout}");
    }
}

/// An answer of the solver as a student would write it.
fn text_of(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text_of).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Variants of each exercise.
const VARIANTS: u64 = 200;

#[test]
fn an_independent_solver_finds_the_answers_of_200_variants_of_each_exercise() {
    let known = Command::new("python3").arg("--version").output();
    if !known.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3");
        return;
    }
    let (mut requests, mut lines) = (Vec::new(), String::new());
    for exercise in chapters().iter().flat_map(|chapter| chapter.exercises) {
        for seed in 0..VARIANTS {
            let seed = seed.to_string();
            let question = exercise
                .variant(&seed)
                .unwrap_or_else(|why| panic!("{} {seed}: {why}", exercise.id));
            lines += &format!("{}\n", json!({"id": exercise.id, "given": question.given}));
            requests.push((exercise.id, seed, question.parts));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin-lessons/tests/solver.py");
    let given = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lab-given.jsonl");
    std::fs::write(&given, lines).unwrap();
    let given = std::fs::File::open(&given).unwrap();
    let output = Command::new("python3").arg(script).stdin(Stdio::from(given)).output().unwrap();
    assert!(output.status.success(), "the solver fails");
    let answers: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(answers.len(), requests.len());
    let mut wrong = Vec::new();
    for ((id, seed, parts), answer) in requests.iter().zip(&answers) {
        for part in parts.iter().filter(|part| !part.accepts(&text_of(&answer[part.name]))) {
            wrong.push(format!("{id} seed {seed}: {part:?}, the solver {}", answer[part.name]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
}
