//! Made-up programs whose experiments are known to the last nanosecond, and the true effects.

use profile::*;

/// Pseudorandom numbers (SplitMix64), so that the tests do the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a standard normal value (Box, Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Returns 0 half of the time, else 5 % to 100 %.
    pub fn speedup(&mut self) -> f64 {
        match self.uniform() {
            x if x < 0.5 => 0.0,
            x => 0.05 * (1.0 + (40.0 * (x - 0.5)).floor()).min(20.0),
        }
    }
}

/// A fragment of a made-up program.
pub struct Line<'a> {
    pub name: &'a str,
    /// The part of the time in which threads run it.
    pub density: f64,
    /// The part by which the program's period is shorter, at a speedup of the line.
    pub truth: &'a dyn Fn(f64) -> f64,
}

/// Conditions under which a made-up program is measured.
#[derive(Clone, Copy)]
pub struct Measured {
    pub experiments: usize,
    /// Visits in a second, undelayed.
    pub rate: f64,
    /// Coefficient of variation of the time between visits.
    pub visit_noise: f64,
    /// Noise of the whole machine's speed, from experiment to experiment.
    pub machine_noise: f64,
    /// Slowdown of the machine at the end of the run.
    pub drift: f64,
}

pub const QUIET: Measured = Measured {
    experiments: 200,
    rate: 100.0,
    visit_noise: 0.5,
    machine_noise: 0.02,
    drift: 0.0,
};

pub fn run(lines: &[Line<'_>], points: &[&str]) -> CausalRun {
    CausalRun {
        command: vec!["made-up".into()],
        asked: AskedExperiments::default(),
        host: Host::default(),
        collector: "vitalfew".into(),
        start_unix_ns: 0,
        duration_ns: 0,
        undelayed_ns: 0,
        end: RunEnd::Exited(0),
        settings: ExperimentSettings::default(),
        images: Vec::new(),
        points: points
            .iter()
            .map(|name| ProgressPoint {
                name: (*name).into(),
                counted_by: CountedBy::Source,
                visits: 0,
            })
            .collect(),
        fragments: lines.iter().map(fragment).collect(),
        experiments: Vec::new(),
        warnings: Vec::new(),
    }
}

fn fragment(line: &Line<'_>) -> Fragment {
    Fragment {
        name: line.name.into(),
        detail: String::new(),
        image: None,
        samples: 0,
        undelayed_samples: 0,
        waiting: None,
        copy_of: None,
    }
}

/// Makes experiments of half a second with lines that run all the time, one point `done`.
pub fn steady(lines: &[Line<'_>], measured: &Measured, random: &mut Random) -> CausalProfile {
    let mut run = run(lines, &["done"]);
    for number in 0..measured.experiments {
        let chosen = (random.uniform() * lines.len() as f64) as usize;
        let speedup = random.speedup();
        let line = &lines[chosen];
        let effective = 0.5;
        let part = number as f64 / measured.experiments as f64;
        let slow = (1.0 + measured.drift * part) * (measured.machine_noise * random.normal()).exp();
        let period = (1.0 - (line.truth)(speedup)) * slow / measured.rate;
        let expected = effective / period;
        let visits = expected + measured.visit_noise * expected.sqrt() * random.normal();
        let samples = 1000.0 * line.density * effective;
        let delay = speedup * samples / 1000.0;
        run.experiments.push(Experiment {
            fragment: chosen as u32,
            speedup,
            start_ns: run.duration_ns,
            duration_ns: ((effective + delay) * 1e9) as u64,
            delay_ns: (delay * 1e9) as u64,
            samples: (samples + samples.sqrt() * 0.3 * random.normal()).max(0.0) as u64,
            counts: vec![Progress::Visits(visits.round().max(0.0) as u64)],
            disturbance: None,
            meetings: None,
            spinning: None,
            at_pace: false,
        });
        run.duration_ns += ((effective + delay) * 1e9) as u64;
        if speedup == 0.0 {
            run.undelayed_ns += (effective * 1e9) as u64;
        }
        for (fragment, line) in run.fragments.iter_mut().zip(lines) {
            let samples = (1000.0 * line.density * effective) as u64;
            fragment.samples += samples;
            if speedup == 0.0 {
                fragment.undelayed_samples += samples;
            }
        }
    }
    CausalProfile { runs: vec![run] }
}

/// Makes several runs of experiments in pairs, on a machine whose speed differs from run to run,
/// wanders meanwhile, and drops now and then.
pub fn wandering(
    lines: &[Line<'_>],
    runs: usize,
    experiments: usize,
    random: &mut Random,
) -> CausalProfile {
    let measured = Measured {
        experiments,
        ..QUIET
    };
    let run = |random: &mut Random| {
        let mut run = steady(lines, &measured, random).runs.remove(0);
        let mut speed = 0.1 * random.normal();
        let mut first = None;
        for experiment in &mut run.experiments {
            let (chosen, speedup) = match first.take() {
                Some((chosen, speedup)) if speedup > 0.0 => (chosen, 0.0),
                Some((chosen, _)) => (chosen, 0.05 * (1.0 + (20.0 * random.uniform()).floor())),
                None => {
                    let chosen = (random.uniform() * lines.len() as f64) as usize;
                    first = Some((chosen, random.speedup()));
                    first.unwrap_or_default()
                }
            };
            speed += 0.03 * random.normal();
            let hiccup = match random.uniform() {
                x if x < 0.1 => -0.15 * (1.0 - random.uniform()).ln(),
                _ => 0.0,
            };
            let slow = (speed + hiccup + 0.02 * random.normal()).exp();
            let period = (1.0 - (lines[chosen].truth)(speedup)) * slow / measured.rate;
            let expected = 0.5 / period;
            let visits = expected + measured.visit_noise * expected.sqrt() * random.normal();
            experiment.fragment = chosen as u32;
            experiment.speedup = speedup;
            experiment.delay_ns = (speedup * 1e6 * experiment.samples as f64) as u64;
            experiment.duration_ns = 500_000_000 + experiment.delay_ns;
            experiment.counts = vec![Progress::Visits(visits.round().max(0.0) as u64)];
        }
        run
    };
    let runs = (0..runs).map(|_| run(random)).collect();
    CausalProfile { runs }
}
