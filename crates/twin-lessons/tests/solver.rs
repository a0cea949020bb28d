//! Variants of each exercise against a solver that does not know the code that made them.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use twin_lessons::{chapters, grade};

/// Variants of each exercise.
const VARIANTS: u64 = 200;

#[test]
fn an_independent_solver_finds_the_answers_of_200_variants_of_each_exercise() {
    let known = Command::new("python3").arg("--version").output();
    if !known.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3");
        return;
    }
    let (mut asked, mut lines) = (Vec::new(), String::new());
    for exercise in chapters().iter().flat_map(|chapter| chapter.exercises) {
        for seed in 0..VARIANTS {
            let seed = seed.to_string();
            let question = exercise.variant(&seed).unwrap_or_else(|why| panic!("{} {seed}: {why}", exercise.id));
            lines += &format!("{}\n", json!({"id": exercise.id, "given": question.given}));
            asked.push((exercise.id, seed));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/solver.py");
    let mut solver = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut input = solver.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = solver.wait_with_output().expect("it ends");
    writer.join().expect("all is written").expect("all is taken");
    assert!(output.status.success(), "the solver fails");
    let answers: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(answers.len(), asked.len());
    let mut wrong = Vec::new();
    for ((id, seed), answer) in asked.iter().zip(&answers) {
        let graded = grade(id, seed, answer).expect("it exists");
        for (name, right, answer_of_ours) in graded.parts {
            if !right {
                wrong.push(format!("{id} seed {seed} {name}: {answer_of_ours}, the solver {}", answer[name]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}
