//! Virtual speedups of threads that synchronise often or share processors, compared with real
//! speedups in a simulation: work takes the stated time, and nothing else happens.

use runtime_abi::line_pace::{LinePace, credited_delay};
use std::collections::VecDeque;

/// Time between samples of a processor, in nanoseconds.
const PERIOD: u64 = 1_000_000;
/// Time between samples where samples are expensive.
const LONG_PERIOD: u64 = 4_000_000;
/// Shortest processor time that a sample stands for.
const LEAST_SPAN: u64 = 50_000;
/// Length of an experiment.
const EXPERIMENT: u64 = 500_000_000;
const EPOCH: u16 = 1;
/// Capacity of a queue.
const CAPACITY: usize = 4;
/// Longest time for which a thread has a processor that others want.
const TURN: u64 = 3_000_000;
/// Time between two checks of a thread that stands still.
const GLANCE: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Work in the line that is sped up, in nanoseconds.
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
    /// At the pace, and a woken thread's credit is no longer than its wait.
    AtPace,
    /// As [`Rule::AtPace`], and a thread that waited for a processor is credited by the count of
    /// the thread that had it.
    ByTurns,
}

/// A rule, the time between samples, and the number of processors.
#[derive(Clone, Copy)]
struct Method {
    rule: Rule,
    period: u64,
    processors: usize,
}

/// Activity of a thread.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    /// Works, with this number of nanoseconds left of the step.
    Works(u64),
    /// Stands still to pay: after a sample, with this work left, or before an operation.
    Stands {
        left: Option<u64>,
    },
    WaitsSince(u64),
}

struct Thread {
    steps: Vec<Step>,
    at: usize,
    /// The thread has begun the step.
    begun: bool,
    doing: Doing,
    /// Start of the last wait, once that is over.
    woken: Option<u64>,
    /// Delay that the thread has paid, was credited, or is ahead by.
    local: u64,
    pace: LinePace,
    /// The processor that the thread ran on last.
    processor: usize,
    /// Running time, including time for which the thread stood still.
    ran: u64,
    /// Priority: the scheduler lets the thread with the lowest rank go first.
    rank: u64,
    /// Time and `ran` at the last look at the thread.
    looked: (u64, u64),
}

impl Thread {
    fn new(steps: &[Step]) -> Self {
        Self {
            steps: steps.to_vec(),
            at: 0,
            begun: false,
            doing: Doing::Works(0),
            woken: None,
            local: 0,
            pace: LinePace::default(),
            processor: 0,
            ran: 0,
            rank: 0,
            looked: (0, 0),
        }
    }

    fn next_step(&mut self) {
        self.at = (self.at + 1) % self.steps.len();
        self.begun = false;
    }
}

#[derive(Default)]
struct Processor {
    thread: Option<usize>,
    /// Threads that are ready to run on the processor.
    queue: Vec<usize>,
    turn_ends: u64,
    next_sample: u64,
    sampled: u64,
    /// The last thread that published its count, with the count.
    word: Option<(usize, u64)>,
}

#[derive(Default)]
struct Queue {
    length: usize,
    /// Threads that wait for room in the queue.
    pushers: VecDeque<usize>,
    poppers: VecDeque<usize>,
}

struct Simulation {
    now: u64,
    threads: Vec<Thread>,
    processors: Vec<Processor>,
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

    /// Varies `ns` by up to the fraction `part`, so that nothing stays in step with the samples.
    fn vary(&mut self, ns: u64, part: f64) -> u64 {
        (ns as f64 * (1.0 + part * (2.0 * self.uniform() - 1.0))) as u64
    }
}

/// An event of a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The thread's work or standstill ends, or the thread yields.
    Ends,
    TurnEnds,
    Sample,
}

impl Simulation {
    fn new(program: &Program, speedup: f64, method: Method, seed: u64) -> Self {
        let mut random = Random(seed);
        let threads: Vec<_> = program.iter().map(|steps| Thread::new(steps)).collect();
        let processors = (0..method.processors).map(|_| Processor {
            next_sample: (random.uniform() * method.period as f64) as u64,
            ..Processor::default()
        });
        Self {
            now: 0,
            threads,
            processors: processors.collect(),
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

    /// Runs an experiment and returns its undelayed time and visits.
    fn run(mut self) -> (u64, u64) {
        for number in 0..self.threads.len() {
            if let Line(ns) | Other(ns) = self.threads[number].steps[0] {
                self.threads[number].doing = Doing::Works(self.random.vary(ns, 0.04));
            }
            self.make_ready(number);
        }
        while self.now < EXPERIMENT {
            self.next_event();
        }
        (self.now - self.global, self.visits)
    }

    fn next_event(&mut self) {
        let events = (0..self.processors.len()).flat_map(|at| self.events_of(at));
        let (time, event, at) = events.min().expect("samples");
        let passed = time - self.now;
        self.now = time;
        for at in 0..self.processors.len() {
            self.pass_time(at, passed);
        }
        match event {
            Event::Sample => self.take_sample(at),
            Event::TurnEnds => self.end_turn(at),
            Event::Ends => self.end_doing(at),
        }
    }

    /// Returns the next events of a processor.
    fn events_of(&self, at: usize) -> impl Iterator<Item = (u64, Event, usize)> {
        let processor = &self.processors[at];
        let is_wanted = !processor.queue.is_empty();
        let ends = processor
            .thread
            .map(|number| match self.threads[number].doing {
                Doing::Works(left) => left,
                Doing::Stands { .. } if is_wanted => self.owed(number).min(GLANCE),
                Doing::Stands { .. } => self.owed(number),
                Doing::WaitsSince(_) => panic!("{number} waits"),
            });
        let turn = (is_wanted && ends.is_some()).then(|| processor.turn_ends.max(self.now));
        [
            Some((processor.next_sample, Event::Sample, at)),
            ends.map(|ends| (self.now + ends, Event::Ends, at)),
            turn.map(|end| (end, Event::TurnEnds, at)),
        ]
        .into_iter()
        .flatten()
    }

    fn pass_time(&mut self, at: usize, passed: u64) {
        let Some(number) = self.processors[at].thread else {
            return;
        };
        let owed = self.owed(number);
        let thread = &mut self.threads[number];
        thread.ran += passed;
        thread.rank += passed;
        match &mut thread.doing {
            Doing::Works(left) => *left -= passed,
            Doing::Stands { left } => {
                thread.local += passed.min(owed);
                if left.is_some() {
                    thread.pace.add_standing(passed);
                }
            }
            Doing::WaitsSince(_) => {}
        }
    }

    /// Makes a thread ready to run: on the processor where it ran last, or an idle one.
    fn make_ready(&mut self, number: usize) {
        let last = self.threads[number].processor;
        let is_idle = |at: &usize| self.processors[*at].thread.is_none();
        let idle = [last].into_iter().chain(0..self.processors.len());
        let at = idle.into_iter().find(is_idle).unwrap_or(last);
        let processor = &mut self.processors[at];
        let others = processor.queue.iter().chain(&processor.thread);
        if let Some(lowest) = others.map(|other| self.threads[*other].rank).min() {
            let rank = &mut self.threads[number].rank;
            *rank = (*rank).clamp(lowest.saturating_sub(TURN / 2), lowest + TURN);
        }
        let rank = self.threads[number].rank;
        if (processor.thread).is_some_and(|it| rank < self.threads[it].rank) {
            processor.turn_ends = self.now;
        }
        processor.queue.push(number);
        self.threads[number].processor = at;
        if processor.thread.is_none() {
            self.begin_turn(at);
        }
    }

    /// Gives the processor to another thread, if any is ready.
    fn begin_turn(&mut self, at: usize) {
        if self.processors[at].queue.is_empty() {
            let longest = (self.processors.iter_mut()).max_by_key(|it| it.queue.len());
            let queue = &mut longest.expect("processors").queue;
            if queue.is_empty() {
                return;
            }
            let moved = queue.remove(0);
            self.threads[moved].processor = at;
            self.processors[at].queue.push(moved);
        }
        let processor = &mut self.processors[at];
        let ranks = (processor.queue.iter().enumerate()).map(|it| (self.threads[*it.1].rank, it.0));
        let (_, first) = ranks.min().expect("somebody is ready");
        let number = processor.queue.remove(first);
        processor.thread = Some(number);
        processor.turn_ends = self.now + TURN;
        if let Doing::Stands { .. } = self.threads[number].doing {
            self.take_over(number);
        }
    }

    fn end_turn(&mut self, at: usize) {
        let before = self.processors[at].thread.take();
        self.processors[at].queue.extend(before);
        self.begin_turn(at);
    }

    /// Ends the work or the standstill of a processor's thread.
    fn end_doing(&mut self, at: usize) {
        let number = self.processors[at].thread.expect("a thread");
        if let Some(since) = self.threads[number].woken.take() {
            self.end_wait(number, since);
            return self.proceed(number);
        }
        match self.threads[number].doing {
            Doing::Stands { .. } if self.owed(number) > 0 => {
                let ranks = self.processors[at]
                    .queue
                    .iter()
                    .map(|it| self.threads[*it].rank);
                let last = ranks.max().unwrap_or(0);
                let rank = &mut self.threads[number].rank;
                *rank = (*rank).max(last + 1);
                self.leave_word(number);
                self.end_turn(at);
            }
            Doing::Stands { left: Some(left) } => {
                self.threads[number].doing = Doing::Works(left);
                self.processors[at].sampled = self.now;
                self.leave_word(number);
            }
            Doing::Stands { left: None } => {
                self.leave_word(number);
                self.proceed(number);
            }
            _ => {
                if let Line(_) | Other(_) = self.threads[number].steps[self.threads[number].at] {
                    self.threads[number].next_step();
                }
                self.proceed(number);
            }
        }
    }

    fn owed(&self, number: usize) -> u64 {
        self.global.saturating_sub(self.threads[number].local)
    }

    /// Credits a thread for a wait for its processor since the last look.
    fn take_over(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let (then, ran) = std::mem::replace(&mut thread.looked, (self.now, thread.ran));
        let waited = (self.now - then) - (thread.ran - ran);
        if let Some((owner, reached)) = self.processors[thread.processor].word
            && owner != number
            && self.rule == Rule::ByTurns
        {
            thread.local = credited_delay(thread.local, reached, waited);
        }
        self.leave_word(number);
    }

    fn leave_word(&mut self, number: usize) {
        let thread = &self.threads[number];
        let word = &mut self.processors[thread.processor].word;
        let reached = word.map_or(0, |(_, reached)| reached);
        *word = Some((number, thread.local.max(reached)));
    }

    /// Charges the other threads for a run of the line.
    fn charge(&mut self, number: usize, ran: u64) {
        let thread = &mut self.threads[number];
        thread.local += (ran as f64 * self.speedup) as u64;
        self.global = self.global.max(thread.local);
    }

    fn take_sample(&mut self, at: usize) {
        let next = self.random.vary(self.period, 0.03);
        let processor = &mut self.processors[at];
        processor.next_sample = self.now + next;
        let span = (self.now - processor.sampled).min(self.period);
        let Some(number) = processor.thread.filter(|_| span >= LEAST_SPAN) else {
            return;
        };
        let Doing::Works(left) = self.threads[number].doing else {
            return;
        };
        processor.sampled = self.now;
        self.take_over(number);
        let thread = &mut self.threads[number];
        if matches!(thread.steps[thread.at], Line(_)) {
            let ran = match self.rule {
                Rule::AfterSamples => span,
                _ => thread.pace.add_sample(EPOCH, span, self.now, self.period),
            };
            self.charge(number, ran);
        }
        if self.owed(number) > 0 && self.rule != Rule::AfterSamples {
            let pace = &self.threads[number].pace;
            let ran = pace.charge_part(EPOCH, self.now, self.period);
            self.charge(number, ran);
        }
        self.leave_word(number);
        if self.owed(number) > 0 {
            let left = Some(left);
            self.threads[number].doing = Doing::Stands { left };
        }
    }

    /// Advances the thread until it works, stands still or waits.
    fn proceed(&mut self, number: usize) {
        loop {
            let thread = &mut self.threads[number];
            match thread.steps[thread.at] {
                Line(ns) | Other(ns) => {
                    thread.doing = Doing::Works(self.random.vary(ns, 0.04));
                    return;
                }
                Progress => {
                    self.visits += 1;
                    thread.next_step();
                }
                _ if !thread.begun => {
                    thread.begun = true;
                    if self.has_to_pay(number) {
                        self.threads[number].doing = Doing::Stands { left: None };
                        return;
                    }
                }
                _ => {
                    if self.do_step(number) {
                        return self.begin_wait(number);
                    }
                    self.end_operation(number);
                }
            }
        }
    }

    /// Charges a thread before an operation; returns whether it owes a delay then.
    fn has_to_pay(&mut self, number: usize) -> bool {
        if self.rule != Rule::AfterSamples {
            self.take_over(number);
            let pace = &self.threads[number].pace;
            let ran = pace.begin_operation(EPOCH, self.now, self.period);
            self.charge(number, ran);
            self.leave_word(number);
        }
        self.owed(number) > 0
    }

    fn begin_wait(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.doing = Doing::WaitsSince(self.now);
        let at = thread.processor;
        self.processors[at].thread = None;
        self.begin_turn(at);
    }

    /// Carries out an operation after all delays are paid; returns whether the thread has to wait.
    fn do_step(&mut self, number: usize) -> bool {
        match self.threads[number].steps[self.threads[number].at] {
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
                // The thread that has waited longest gets the lock.
                let next = self.lockers.pop_front();
                self.is_locked = next.is_some();
                next.into_iter().for_each(|next| self.wake(next));
                false
            }
            Push(queue) => self.push(queue, number),
            Pop(queue) => self.pop(queue, number),
            step => panic!("{step:?}"),
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

    /// Wakes a waiting thread; the waker has paid all its delays.
    fn wake(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let Doing::WaitsSince(since) = thread.doing else {
            panic!("{number} does not wait");
        };
        thread.woken = Some(since);
        thread.doing = Doing::Works(0);
        self.make_ready(number);
    }

    /// Continues a woken thread that has got a processor.
    fn end_wait(&mut self, number: usize, since: u64) {
        let thread = &mut self.threads[number];
        thread.local = match self.rule {
            Rule::AfterSamples => thread.local.max(self.global),
            _ => credited_delay(thread.local, self.global, self.now - since),
        };
        thread.looked = (self.now, thread.ran);
        self.leave_word(number);
        self.end_operation(number);
    }

    fn end_operation(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.pace.end_operation(thread.at as u64, self.now);
        thread.next_step();
    }
}

/// Returns the program's speedup in percent that virtual speedups predict.
fn predicted(program: &Program, speedup: f64, method: Method) -> f64 {
    let period = |speedup| mean_period(program, speedup, method, 4);
    100.0 * (1.0 - period(speedup) / period(0.0))
}

/// Returns the program's speedup in percent if the line is really faster.
fn true_speedup(program: &Program, speedup: f64, processors: usize) -> f64 {
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
        processors,
    };
    let period = |program| mean_period(program, 0.0, method, 2);
    100.0 * (1.0 - period(&faster) / period(program))
}

/// Returns the mean undelayed time between two visits of `experiments` experiments.
fn mean_period(program: &Program, speedup: f64, method: Method, experiments: u64) -> f64 {
    let runs = (0..experiments).map(|seed| Simulation::new(program, speedup, method, seed).run());
    let (time, visits) = runs.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    time as f64 / visits as f64
}

/// Returns programs whose longest piece of work takes `ns` nanoseconds.
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

/// Returns programs with more threads than the two processors.
fn crowded_programs() -> Vec<(&'static str, Program)> {
    let us = |of: fn(u64) -> Step, us: u64| of(us * 1000);
    let senders = |making: Step, collecting: Step| {
        let sender = vec![making, Push(0)];
        vec![sender.clone(), sender, vec![Pop(0), collecting, Progress]]
    };
    let guarded = |locked: Step, free: Step, again: Step| {
        let thread = vec![Lock, locked, Unlock, free, Lock, again, Unlock, Progress];
        vec![thread; 3]
    };
    let alone = |threads: usize, line: u64| {
        vec![vec![us(Line, line), us(Other, 1000 - line), Progress]; threads]
    };
    let (line, other) = (|it| us(Line, it), |it| us(Other, it));
    vec![
        ("two senders", senders(line(1100), other(350))),
        ("their receiver", senders(other(1100), line(350))),
        ("a longer lock", guarded(line(300), other(500), other(120))),
        (
            "between the locks",
            guarded(other(300), line(500), other(120)),
        ),
        ("a shorter lock", guarded(other(300), other(500), line(120))),
        ("half of eight threads", alone(8, 500)),
        ("a third of three threads", alone(3, 300)),
    ]
}

/// Returns the mean and the largest error in points, over programs at 25, 50 and 75 %.
fn prediction_errors(programs: &[(&str, Program)], method: Method) -> (f64, f64) {
    let (mut sum, mut largest, mut n) = (0.0, 0.0f64, 0);
    for (name, program) in programs {
        for speedup in [0.25, 0.5, 0.75] {
            let (truth, found) = (
                true_speedup(program, speedup, method.processors),
                predicted(program, speedup, method),
            );
            println!("{name:30} {speedup:.2}: truth {truth:5.1}, predicted {found:5.1}");
            sum += (found - truth).abs();
            largest = largest.max((found - truth).abs());
            n += 1;
        }
    }
    (sum / f64::from(n), largest)
}

/// Returns a method in which each thread has a processor of its own.
fn on_own_processors(rule: Rule, period: u64) -> Method {
    Method {
        rule,
        period,
        processors: 3,
    }
}

/// Longer pieces are predicted right by both rules, short ones only at the pace.
#[test]
fn at_the_pace_short_pieces_are_predicted_right() {
    for (piece_ns, is_short) in [
        (5_000_000, false),
        (2_500_000, false),
        (1_000_000, true),
        (240_000, true),
        (60_000, true),
    ] {
        let programs = programs(piece_ns);
        let (before, _) =
            prediction_errors(&programs, on_own_processors(Rule::AfterSamples, PERIOD));
        let (after, worst) = prediction_errors(&programs, on_own_processors(Rule::AtPace, PERIOD));
        println!("{piece_ns}: after samples {before:.1}, at pace {after:.1}, at most {worst:.1}");
        assert_eq!(before > 4.0, is_short, "{piece_ns}: {before}");
        // With pieces as long as periods, some pattern of the periods remains.
        let least = if piece_ns == 1_000_000 { 2.0 } else { 1.0 };
        assert!(after < least, "{piece_ns}: {after}");
    }
}

/// At the pace, rare samples are enough.
#[test]
fn at_the_pace_rare_samples_are_enough() {
    for piece_ns in [5_000_000, 1_000_000, 240_000] {
        let method = on_own_processors(Rule::AtPace, LONG_PERIOD);
        let (error, worst) = prediction_errors(&programs(piece_ns), method);
        println!("{piece_ns}: {error:.1}, at most {worst:.1}");
        assert!(error < 1.5, "{piece_ns}: {error}");
    }
}

/// Threads that wait for processors have to be credited for the delays paid there meanwhile. Where
/// no thread waits, the credit changes nothing.
#[test]
fn threads_that_share_processors_go_by_turns() {
    let error = |programs: &[_], rule, period, processors| {
        let method = Method {
            rule,
            period,
            processors,
        };
        prediction_errors(programs, method).0
    };
    let crowded = crowded_programs();
    for period in [PERIOD, LONG_PERIOD] {
        let at_pace = error(&crowded, Rule::AtPace, period, 2);
        let by_turns = error(&crowded, Rule::ByTurns, period, 2);
        println!("{period}: at the pace {at_pace:.1}, by turns {by_turns:.1}");
        assert!(by_turns < 6.0, "{period}: {by_turns}");
        assert!(at_pace > 2.0 * by_turns, "{period}: {at_pace}");
    }
    let own = error(&programs(1_000_000), Rule::ByTurns, PERIOD, 3);
    assert!(own < 2.0, "{own}");
}

/// Threads that live for a piece of 0.7 ms each run one after the other in the same slot. A sample
/// each 4 ms finds one in six of them in the line.
#[test]
fn threads_that_live_shortly_are_charged_like_one_that_lives_long() {
    const ROUTINE: u64 = 0x1234;
    let (pace, piece, period) = (LinePace::default(), 700_000, 4_000_000);
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
    let (pace, period) = (LinePace::default(), 1_000_000);
    pace.begin_thread(1, 0);
    for at in 1..100 {
        pace.begin_operation(EPOCH, at * 500_000, period);
        pace.add_sample(EPOCH, 500_000, at * 500_000 + 400_000, period);
    }
    pace.begin_thread(2, 50_000_000);
    pace.begin_operation(EPOCH, 50_100_000, period);
    assert_eq!(pace.begin_operation(EPOCH, 50_500_000, period), 0);
}

/// A stretch that is charged in parts costs the same, and stays one stretch.
#[test]
fn a_stretch_is_charged_in_parts() {
    let period = 1_000_000;
    let charged = |parts: bool| {
        let (pace, mut now, mut charged) = (LinePace::default(), 0, 0);
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
