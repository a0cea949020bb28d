use twin_lessons::Session;
#[test]
fn scratch() {
    for settings in ["vsfs:size=1M", "ffs:size=16M", "lfs:size=16M", "lfs:size=4M", "ffs:size=4M", "ffs:size=8M,group=1M,block=4K"] {
        let mut s = Session::default();
        let mut ask = |c: &str| { let a = s.call(c); println!("== {c}\n{}", &a[..a.len().min(1800)]); };
        println!("######## {settings}");
        ask(&format!(r#"{{"do":"make","settings":"{settings}"}}"#));
        ask(r#"{"do":"run","line":"mkdir d"}"#);
        ask(r#"{"do":"run","line":"write d/a 20K"}"#);
        ask(r#"{"do":"run","line":"ls d"}"#);
        ask(r#"{"do":"run","line":"sync"}"#);
        ask(r#"{"do":"check"}"#);
        let v = s.call(r#"{"do":"view"}"#);
        let v: serde_json::Value = serde_json::from_str(&v).unwrap();
        for (k, x) in v.as_object().unwrap() { let t = x.to_string(); println!("-- {k}: {}", &t[..t.len().min(900)]); }
        let t = std::time::Instant::now();
        let a = s.call(r#"{"do":"run","line":"workload 1000 7"}"#);
        let a: serde_json::Value = serde_json::from_str(&a).unwrap();
        println!("workload {:?} {} {} {:?} {}", a["output"], a["failed"], a["digest"], t.elapsed(), a["now_ns"]);
        println!("{}", s.call(r#"{"do":"crash"}"#));
    }
}
