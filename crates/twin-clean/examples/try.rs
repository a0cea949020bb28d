//! Scratch.
use twin_clean::volume::{Shape, study::Run, workload};
use twin_clean::{placement, victim};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let workloads: Vec<_> = args[1].split(' ').map(|t| workload::parse(t).unwrap()).collect();
    let seeds: u64 = args[4].parse().unwrap();
    let blocks: u32 = args.get(5).map_or(131072, |t| t.parse().unwrap());
    let mut jobs = vec![];
    for w in &workloads { for p in args[2].split(',') { for v in args[3].split(',') { for seed in 1..=seeds {
        jobs.push(Run { shape: Shape::of_working_set(blocks).unwrap(), workload: w.clone(), writes: u64::from(blocks)*60, placement: placement::by_name(p).unwrap().name, victim: victim::by_name(v).unwrap().name, seed });
    }}}}
    let next = std::sync::atomic::AtomicUsize::new(0);
    let out = std::sync::Mutex::new(vec![None; jobs.len()]);
    #[allow(clippy::disallowed_types)]
    let work = || loop { let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed); if i>=jobs.len() {break;}
        let t = std::time::Instant::now(); let r = jobs[i].run(); out.lock().unwrap()[i] = Some((r, t.elapsed().as_secs_f64())); };
    std::thread::scope(|s| { s.spawn(work); work(); });
    let out = out.into_inner().unwrap();
    for (c, chunk) in jobs.chunks(seeds as usize).enumerate() {
        let j = &chunk[0]; let mut was: Vec<f64> = vec![]; let mut t = 0.0; let mut n=0;
        for k in 0..chunk.len() { let (r, s) = out[c*seeds as usize+k].unwrap(); was.push(r.write_amplification()); t += s; n += r.user_writes; }
        let mut sorted = was.clone(); sorted.sort_by(f64::total_cmp);
        println!("{:22} {:12} {:18} median {:.4}  min {:.4} max {:.4}  {:.2} M user writes/s", j.workload.to_string(), j.placement, j.victim, sorted[sorted.len()/2], sorted[0], sorted[sorted.len()-1], n as f64/t/1e6);
    }
}
