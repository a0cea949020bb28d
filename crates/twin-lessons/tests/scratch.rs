#[test]
fn scratch() {
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    for c in twin_lessons::chapters() { for e in c.exercises {
        let t = std::time::Instant::now();
        let mut bad = 0;
        for seed in 0..n { match e.variant(&seed.to_string()) {
            Ok(q) => if seed < 2 { println!("#### {} {}\n{}\n{}\n{:?}", e.id, e.title, q.text, q.given, q.parts.iter().map(|p| (p.name, p.answer.clone())).collect::<Vec<_>>()) },
            Err(why) => { bad += 1; println!("!!!! {} {seed}: {why}", e.id) } } }
        println!("==== {} {bad} bad {:?}", e.id, t.elapsed() / n as u32);
    } }
}
