//! What a class costs: the stopping rule for memoryless blocks.
//!
//! Blocks die at rate `l`. A segment of them is cleaned when a share `u` is left. A block then
//! costs `l * u/g` moves a unit of time (g = 1 - u) and `ln(1/u)/g - 1` blocks of garbage on
//! average. With a price `m` on garbage, the best u solves `l/m = (g - u ln(1/u)) / u`.

pub(super) struct Model {
    /// By step of u from nearly 1 down: ln(l/m), cost/m, garbage.
    steps: Vec<(f64, f64, f64)>,
}

impl Model {
    pub(super) fn new() -> Model {
        let steps = (0..400).map(|i| {
            let u = 1.0 - (f64::from(i) + 0.5) / 400.0;
            let (g, l) = (1.0 - u, -u.ln());
            let x: f64 = (g - u * l) / u;
            let q = l / g - 1.0;
            (x.ln(), x * u / g + q, q)
        }).collect();
        Model { steps }
    }

    /// cost (in prices) and garbage of a live block for the ratio rate/price.
    pub(super) fn at(&self, x: f64) -> (f64, f64) {
        let lx = x.max(1e-30).ln();
        let i = self.steps.partition_point(|s| s.0 < lx).clamp(1, self.steps.len() - 1);
        let (a, b) = (self.steps[i - 1], self.steps[i]);
        let t = ((lx - a.0) / (b.0 - a.0)).clamp(0.0, 1.0);
        (a.1 + t * (b.1 - a.1), a.2 + t * (b.2 - a.2))
    }
}
