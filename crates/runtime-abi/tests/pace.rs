//! Virtual speedups of threads that meet often, against real ones, without a machine: each thread has a processor of its
//! own, its work takes the time that it says, and nothing else happens.

use runtime_abi::pace::{Pace, credited_delay};
use std::collections::VecDeque;

/// Time between samples of a processor, in nanoseconds.
const PERIOD: u64 = 1_000_000;
/// The same where samples are expensive.
const LONG_PERIOD: u64 = 4_000_000;
/// Shortest processor time that a sample stands for.
const LEAST_SPAN: u64 = 50_000;
/// Length of an experiment.
const EXPERIMENT: u64 = 500_000_000;
const EPOCH: u16 = 1;
/// Capacity of a queue.
const CAPACITY: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Work of so many nanoseconds in the line that is sped up.
    Line(u64),
    /// Other work.
    Other(u64),
    /// A barrier of all threads.
    Barrier(usize),
    Lock,
    Unlock,
    Push(usize),
    Pop(usize),
    Progress,
}
use Step::{Barrier, Line, Lock, Other, Pop, Progress, Push, Unlock};

/// The steps of each thread, which it repeats.
type Program = Vec<Vec<Step>>;

/// The rule by which threads are charged, pay and are credited.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// All of a sample at once, and a woken thread has nothing left to pay.
    AfterSamples,
    /// At the pace, and a woken thread is credited for no longer than it waited.
    AtPace,
}

/// A rule, and the time between samples.
#[derive(Clone, Copy)]
struct Method {
    rule: Rule,
    period: u64,
}

/// Activity of a thread.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Works,
    StandsUntil { end: u64, in_handler: bool },
    WaitsSince(u64),
}

struct Thread {
    steps: Vec<Step>,
    at: usize,
    /// The thread has begun the step.
    begun: bool,
    doing: Doing,
    /// Work that is left of this step.
    left: u64,
    /// Delay that it has paid, was credited, or is ahead by.
    local: u64,
    pace: Pace,
    next_sample: u64,
    sampled: u64,
}

impl Thread {
    fn new(steps: &[Step], first_sample: u64) -> Self {
        Self {
            steps: steps.to_vec(),
            at: 0,
            begun: false,
            doing: Doing::Works,
            left: 0,
            local: 0,
            pace: Pace::default(),
            next_sample: first_sample,
            sampled: 0,
        }
    }

    fn next_step(&mut self) {
        self.at = (self.at + 1) % self.steps.len();
        self.begun = false;
    }

    /// Returns the time at which the thread's activity changes.
    fn ends(&self, now: u64) -> u64 {
        match self.doing {
            Doing::Works => now + self.left,
            Doing::StandsUntil { end, .. } => end,
            Doing::WaitsSince(_) => u64::MAX,
        }
    }
}

#[derive(Default)]
struct Queue {
    length: usize,
    /// Threads that wait for room, and for something.
    pushers: VecDeque<usize>,
    poppers: VecDeque<usize>,
}

struct Simulation {
    now: u64,
    threads: Vec<Thread>,
    global: u64,
    speedup: f64,
    rule: Rule,
    period: u64,
    random: Random,
    visits: u64,
    barriers: [Vec<usize>; 2],
    is_locked: bool,
    lockers: VecDeque<usize>,
    queues: [Queue; 2],
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Up to a part more or less: nothing stays in step with the samples.
    fn vary(&mut self, ns: u64, part: f64) -> u64 {
        (ns as f64 * (1.0 + part * (2.0 * self.uniform() - 1.0))) as u64
    }
}

impl Simulation {
    fn new(program: &Program, speedup: f64, method: Method, seed: u64) -> Self {
        let mut random = Random(seed);
        let threads = program.iter().map(|steps| {
            let first = (random.uniform() * method.period as f64) as u64;
            Thread::new(steps, first)
        });
        Self {
            now: 0,
            threads: threads.collect(),
            global: 0,
            speedup,
            rule: method.rule,
            period: method.period,
            random,
            visits: 0,
            barriers: Default::default(),
            is_locked: false,
            lockers: VecDeque::new(),
            queues: Default::default(),
        }
    }

    /// Undelayed time and visits of an experiment.
    fn run(mut self) -> (u64, u64) {
        for number in 0..self.threads.len() {
            self.proceed(number);
        }
        while self.now < EXPERIMENT {
            self.next_event();
        }
        (self.now - self.global, self.visits)
    }

    fn next_event(&mut self) {
        let threads = || self.threads.iter().enumerate();
        let ends = threads().map(|(number, thread)| (thread.ends(self.now), number));
        let (end, ending) = ends.min().expect("threads");
        let samples = threads().map(|(number, thread)| (thread.next_sample, number));
        let (sample, sampled) = samples.min().expect("threads");
        let passed = end.min(sample) - self.now;
        self.now += passed;
        for thread in &mut self.threads {
            if thread.doing == Doing::Works {
                thread.left -= passed.min(thread.left);
            }
        }
        if sample < end {
            self.take_sample(sampled);
            return;
        }
        let owed = self.owed(ending);
        let thread = &mut self.threads[ending];
        match thread.doing {
            Doing::StandsUntil { in_handler, .. } if owed > 0 => {
                self.stand_still(ending, owed, in_handler);
            }
            Doing::StandsUntil {
                in_handler: true, ..
            } => {
                thread.doing = Doing::Works;
                thread.sampled = self.now;
            }
            Doing::StandsUntil { .. } => self.do_step(ending),
            _ => {
                thread.next_step();
                self.proceed(ending);
            }
        }
    }

    fn owed(&self, number: usize) -> u64 {
        self.global.saturating_sub(self.threads[number].local)
    }

    fn stand_still(&mut self, number: usize, owed: u64, in_handler: bool) {
        let end = self.now + owed;
        let thread = &mut self.threads[number];
        thread.local += owed;
        thread.doing = Doing::StandsUntil { end, in_handler };
        if in_handler {
            thread.pace.add_standing(owed);
        }
    }

    /// Charges the others for a run of the line.
    fn charge(&mut self, number: usize, ran: u64) {
        let thread = &mut self.threads[number];
        thread.local += (ran as f64 * self.speedup) as u64;
        self.global = self.global.max(thread.local);
    }

    fn take_sample(&mut self, number: usize) {
        let next = self.random.vary(self.period, 0.03);
        let thread = &mut self.threads[number];
        thread.next_sample = self.now + next;
        let span = (self.now - thread.sampled).min(self.period);
        if thread.doing != Doing::Works || span < LEAST_SPAN {
            return;
        }
        thread.sampled = self.now;
        if matches!(thread.steps[thread.at], Line(_)) {
            let ran = match self.rule {
                Rule::AfterSamples => span,
                Rule::AtPace => thread.pace.add_sample(EPOCH, span, self.now, self.period),
            };
            self.charge(number, ran);
        }
        if self.owed(number) > 0 && self.rule == Rule::AtPace {
            let pace = &self.threads[number].pace;
            let ran = pace.charge_part(EPOCH, self.now, self.period);
            self.charge(number, ran);
        }
        let owed = self.owed(number);
        if owed > 0 {
            self.stand_still(number, owed, true);
        }
    }

    /// Goes on until the thread works, stands still or waits.
    fn proceed(&mut self, number: usize) {
        loop {
            let thread = &mut self.threads[number];
            thread.doing = Doing::Works;
            match thread.steps[thread.at] {
                Line(ns) | Other(ns) => {
                    thread.left = self.random.vary(ns, 0.04);
                    return;
                }
                Progress => {
                    self.visits += 1;
                    thread.next_step();
                }
                _ if !thread.begun => {
                    thread.begun = true;
                    if self.rule == Rule::AtPace {
                        let ran = thread.pace.begin_operation(EPOCH, self.now, self.period);
                        self.charge(number, ran);
                    }
                    let owed = self.owed(number);
                    if owed > 0 {
                        return self.stand_still(number, owed, false);
                    }
                }
                _ => return self.do_step(number),
            }
        }
    }

    /// Carries out an operation, before which everything is paid.
    fn do_step(&mut self, number: usize) {
        let waits = match self.threads[number].steps[self.threads[number].at] {
            Barrier(barrier) => {
                self.barriers[barrier].push(number);
                let is_last = self.barriers[barrier].len() == self.threads.len();
                if is_last {
                    let all = std::mem::take(&mut self.barriers[barrier]);
                    let others = all.into_iter().filter(|other| *other != number);
                    others.for_each(|other| self.wake(other));
                }
                !is_last
            }
            Lock if self.is_locked => {
                self.lockers.push_back(number);
                true
            }
            Lock => {
                self.is_locked = true;
                false
            }
            Unlock => {
                // Who waits longest gets it.
                let next = self.lockers.pop_front();
                self.is_locked = next.is_some();
                next.into_iter().for_each(|next| self.wake(next));
                false
            }
            Push(queue) => self.push(queue, number),
            Pop(queue) => self.pop(queue, number),
            step => panic!("{step:?}"),
        };
        if waits {
            self.threads[number].doing = Doing::WaitsSince(self.now);
        } else {
            self.end_operation(number);
            self.proceed(number);
        }
    }

    fn push(&mut self, queue: usize, number: usize) -> bool {
        let queue = &mut self.queues[queue];
        if let Some(popper) = queue.poppers.pop_front() {
            self.wake(popper);
        } else if queue.length == CAPACITY {
            queue.pushers.push_back(number);
            return true;
        } else {
            queue.length += 1;
        }
        false
    }

    fn pop(&mut self, queue: usize, number: usize) -> bool {
        let queue = &mut self.queues[queue];
        if let Some(pusher) = queue.pushers.pop_front() {
            self.wake(pusher);
        } else if queue.length == 0 {
            queue.poppers.push_back(number);
            return true;
        } else {
            queue.length -= 1;
        }
        false
    }

    /// Ends a thread's wait; the one that does has paid everything.
    fn wake(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let Doing::WaitsSince(since) = thread.doing else {
            panic!("{number} does not wait");
        };
        thread.local = match self.rule {
            Rule::AfterSamples => thread.local.max(self.global),
            Rule::AtPace => credited_delay(thread.local, self.global, self.now - since),
        };
        self.end_operation(number);
        self.proceed(number);
    }

    fn end_operation(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.pace.end_operation(thread.at as u64, self.now);
        thread.next_step();
    }
}

/// Returns the program's speedup in percent that virtual speedups predict.
fn predicted(program: &Program, speedup: f64, method: Method) -> f64 {
    let period = |speedup: f64| {
        let runs = (0..8).map(|seed| Simulation::new(program, speedup, method, seed).run());
        let (time, visits) = runs.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        time as f64 / visits as f64
    };
    100.0 * (1.0 - period(speedup) / period(0.0))
}

/// Returns the program's speedup in percent if the line is really faster.
fn truth(program: &Program, speedup: f64) -> f64 {
    let shorter = |step: &Step| match *step {
        Line(ns) => Line((ns as f64 * (1.0 - speedup)) as u64),
        step => step,
    };
    let faster: Program = program
        .iter()
        .map(|steps| steps.iter().map(shorter).collect())
        .collect();
    let method = Method {
        rule: Rule::AfterSamples,
        period: PERIOD,
    };
    let period = |program: &Program| {
        let (time, visits) = Simulation::new(program, 0.0, method, 1).run();
        time as f64 / visits as f64
    };
    100.0 * (1.0 - period(&faster) / period(program))
}

/// Programs whose longest piece of work takes so many nanoseconds.
fn programs(ns: u64) -> Vec<(&'static str, Program)> {
    let part = |part: f64| (part * ns as f64) as u64;
    let (line, other) = (|it| Line(part(it)), |it| Other(part(it)));
    let locked = |inside: fn(u64) -> Step, outside: fn(u64) -> Step, of_inside, of_outside| {
        let thread = |inside_ns, outside_ns| {
            vec![
                Lock,
                inside(inside_ns),
                Unlock,
                outside(outside_ns),
                Progress,
            ]
        };
        vec![
            thread(part(of_inside), part(of_outside)),
            thread(part(1.05 * of_inside), part(0.92 * of_outside)),
        ]
    };
    let barrier = Barrier(0);
    vec![
        (
            "barrier, the long one",
            vec![
                vec![line(1.0), barrier, Progress],
                vec![other(0.69), barrier],
            ],
        ),
        (
            "barrier, the short one",
            vec![
                vec![other(1.0), barrier, Progress],
                vec![line(0.69), barrier],
            ],
        ),
        (
            "barrier, half of the long one",
            vec![
                vec![line(0.5), other(0.5), barrier, Progress],
                vec![other(0.69), barrier],
            ],
        ),
        (
            "two barriers",
            vec![
                vec![line(0.8), Barrier(0), other(0.4), Barrier(1), Progress],
                vec![other(0.6), Barrier(0), other(0.5), Barrier(1)],
            ],
        ),
        (
            "barrier of three",
            vec![
                vec![line(1.0), barrier, Progress],
                vec![other(0.69), barrier],
                vec![other(0.5), barrier],
            ],
        ),
        ("inside of a lock in demand", locked(Line, Other, 0.6, 0.35)),
        (
            "outside of a lock in demand",
            locked(Other, Line, 0.6, 0.35),
        ),
        ("inside of a lock", locked(Line, Other, 0.3, 0.75)),
        ("outside of a lock", locked(Other, Line, 0.3, 0.75)),
        (
            "queue, the slow producer",
            vec![vec![line(1.0), Push(0)], vec![Pop(0), other(0.7), Progress]],
        ),
        (
            "queue, the fast producer",
            vec![vec![line(0.7), Push(0)], vec![Pop(0), other(1.0), Progress]],
        ),
        (
            "queue, the slow consumer",
            vec![vec![other(0.7), Push(0)], vec![Pop(0), line(1.0), Progress]],
        ),
        (
            "queues, the middle one",
            vec![
                vec![other(0.7), Push(0)],
                vec![Pop(0), line(1.0), Push(1)],
                vec![Pop(1), other(0.8), Progress],
            ],
        ),
    ]
}

/// Mean and largest error in points, of all programs at 25, 50 and 75 %.
fn errors(piece_ns: u64, method: Method) -> (f64, f64) {
    let (mut sum, mut largest, mut n) = (0.0, 0.0f64, 0);
    for (name, program) in programs(piece_ns) {
        for speedup in [0.25, 0.5, 0.75] {
            let (truth, found) = (
                truth(&program, speedup),
                predicted(&program, speedup, method),
            );
            println!(
                "{:5} us {name:30} {speedup:.2}: truth {truth:5.1}, predicted {found:5.1}",
                piece_ns / 1000
            );
            sum += (found - truth).abs();
            largest = largest.max((found - truth).abs());
            n += 1;
        }
    }
    (sum / f64::from(n), largest)
}

fn at_pace(period: u64) -> Method {
    let rule = Rule::AtPace;
    Method { rule, period }
}

/// Longer pieces are predicted right with both rules, short ones at the pace only.
#[test]
fn at_the_pace_short_pieces_are_predicted_right() {
    let after_samples = Method {
        rule: Rule::AfterSamples,
        period: PERIOD,
    };
    for (piece_ns, is_short) in [
        (5_000_000, false),
        (2_500_000, false),
        (1_000_000, true),
        (240_000, true),
        (60_000, true),
    ] {
        let (before, _) = errors(piece_ns, after_samples);
        let (after, worst) = errors(piece_ns, at_pace(PERIOD));
        println!("{piece_ns}: after samples {before:.1}, at pace {after:.1}, at most {worst:.1}");
        assert_eq!(before > 4.0, is_short, "{piece_ns}: {before}");
        // Where pieces are as long as periods, some of the latter's pattern is left.
        let least = if piece_ns == 1_000_000 { 2.0 } else { 1.0 };
        assert!(after < least, "{piece_ns}: {after}");
    }
}

/// At the pace it does not matter how far samples are apart.
#[test]
fn at_the_pace_rare_samples_are_enough() {
    for piece_ns in [5_000_000, 1_000_000, 240_000] {
        let (error, worst) = errors(piece_ns, at_pace(LONG_PERIOD));
        println!("{piece_ns}: {error:.1}, at most {worst:.1}");
        assert!(error < 1.5, "{piece_ns}: {error}");
    }
}

/// Threads that live for a piece of 0.7 ms each, one after the other in the same slot; a sample of 4 ms finds one of six in the line.
#[test]
fn threads_that_live_shortly_are_charged_like_one_that_lives_long() {
    const ROUTINE: u64 = 0x1234;
    let (pace, piece, period) = (Pace::default(), 700_000, 4_000_000);
    let (mut now, mut sampled, mut charged, mut most) = (0, 0, 0, 0);
    for thread in 0..6_000u64 {
        pace.begin_thread(ROUTINE, now);
        now += piece;
        if thread % 6 == 3 {
            sampled += period;
            let at_once = pace.add_sample(EPOCH, period, now, period);
            assert!(at_once == 0 || thread < 100, "{at_once} ns at once");
            charged += at_once;
        }
        let ran = pace.begin_operation(EPOCH, now, period);
        most = most.max(ran);
        charged += ran;
        now += 300_000;
    }
    let part = charged as f64 / sampled as f64;
    assert!(
        (part - 1.0).abs() < 0.02,
        "{part} of the samples is charged"
    );
    assert!(most <= piece, "{most} ns charged for a thread");
}

#[test]
fn another_routine_begins_anew() {
    let (pace, period) = (Pace::default(), 1_000_000);
    pace.begin_thread(1, 0);
    for at in 1..100 {
        pace.begin_operation(EPOCH, at * 500_000, period);
        pace.add_sample(EPOCH, 500_000, at * 500_000 + 400_000, period);
    }
    pace.begin_thread(2, 50_000_000);
    pace.begin_operation(EPOCH, 50_100_000, period);
    assert_eq!(pace.begin_operation(EPOCH, 50_500_000, period), 0);
}

/// A stretch that is charged in parts comes to the same, and is one between two operations.
#[test]
fn a_stretch_is_charged_in_parts() {
    let period = 1_000_000;
    let charged = |parts: bool| {
        let (pace, mut now, mut charged) = (Pace::default(), 0, 0);
        for turn in 0..2_000 {
            pace.begin_operation(EPOCH, now, period);
            pace.end_operation(1, now);
            if turn % 2 == 0 {
                charged += pace.add_sample(EPOCH, 800_000, now + 400_000, period);
            }
            if parts && turn % 3 == 0 {
                charged += pace.charge_part(EPOCH, now + 500_000, period);
            }
            now += 800_000;
            charged += pace.begin_operation(EPOCH, now, period);
            pace.end_operation(2, now);
            now += 100_000;
        }
        charged as f64
    };
    let (whole, in_parts) = (charged(false), charged(true));
    assert!(
        (in_parts / whole - 1.0).abs() < 0.02,
        "{in_parts} for {whole}"
    );
}
