//! Made-up traces whose truth is known: threads in virtual time, without a clock and without chance.
//! Included by the tests that need them.

use profile::*;

pub const TICKS_PER_SECOND: u64 = 2_000_000_000;
/// Ticks in a microsecond.
pub const US: u64 = 2_000;

/// Numbers that look random.
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

/// A trace that is being made up.
#[derive(Clone)]
pub struct Trace {
    pub head: TraceHead,
    /// What each thread did.
    pub items: Vec<Vec<TraceItem>>,
}

impl Trace {
    pub fn new(command: &str) -> Self {
        Self {
            head: TraceHead {
                command: command.split(' ').map(str::to_owned).collect(),
                host: Host {
                    name: "made-up".into(),
                    machine: "x86_64".into(),
                    cpus: 2,
                    ..Host::default()
                },
                start_unix_ns: 1_700_000_000_000_000_000,
                ticks_per_second: TICKS_PER_SECOND,
                duration: 0,
                end: RunEnd::Exited(0),
                blocks: Vec::new(),
                threads: Vec::new(),
                places: Vec::new(),
                lost: 0,
                waits: true,
                cpu_users: Vec::new(),
                throttled: None,
                solo: SoloSchedule::default(),
                call_ticks: 0,
                warnings: Vec::new(),
            },
            items: Vec::new(),
        }
    }

    pub fn block(&mut self, name: &str) -> BlockId {
        self.head.blocks.push(TracedBlock {
            name: name.into(),
            image: "/usr/bin/made-up".into(),
            build_id: None,
            offset: ImageOffset(0x1000 + 64 * self.head.blocks.len() as u64),
            kind: BlockKind::Function,
            period: 1,
            refused: None,
            unfinished: 0,
            calls: 0,
            represented: 0,
            shared_line: None,
        });
        self.head.blocks.len() as BlockId - 1
    }

    pub fn thread(&mut self, name: &str, start: u64) -> usize {
        let number = self.head.threads.len();
        self.head.threads.push(TracedThread {
            pid: 100,
            tid: 100 + number as u32,
            name: name.into(),
            start,
            end: start,
        });
        self.items.push(Vec::new());
        number
    }

    pub fn place(&mut self, function: &str, line: u32) -> u32 {
        self.head.places.push(TracedPlace {
            function: function.into(),
            line: Some(("main.c".into(), line)),
            image: "/usr/bin/made-up".into(),
            offset: ImageOffset(u64::from(line)),
        });
        self.head.places.len() as u32 - 1
    }

    /// An execution; gives the time behind it.
    pub fn execute(&mut self, thread: usize, block: BlockId, enter: u64, duration: u64) -> u64 {
        self.execute_with(thread, block, enter, duration, 0)
    }

    pub fn execute_with(
        &mut self,
        thread: usize,
        block: BlockId,
        enter: u64,
        duration: u64,
        address: u64,
    ) -> u64 {
        let leave = enter + duration;
        self.items[thread].push(TraceItem::Execution(Execution {
            block,
            unwound: false,
            leave,
            duration,
            address,
        }));
        let end = &mut self.head.threads[thread].end;
        *end = leave.max(*end);
        leave
    }

    pub fn wait(&mut self, thread: usize, wait: Wait) {
        self.items[thread].push(TraceItem::Wait(wait));
    }

    /// Ends all threads at the same time.
    pub fn end(&mut self) {
        let first = self.head.threads.iter().map(|t| t.start).min().unwrap();
        let last = self.head.threads.iter().map(|t| t.end).max().unwrap();
        for thread in &mut self.head.threads {
            thread.end = last;
        }
        self.head.duration = last - first;
    }

    /// Returns batches as a collector delivers them: of each thread what happened in `ticks` ticks,
    /// at most `items` items together.
    pub fn batches(&self, ticks: u64, items: usize) -> Vec<TraceBatch> {
        let mut at = vec![0; self.items.len()];
        let mut batches = Vec::new();
        let mut until = ticks;
        while at
            .iter()
            .zip(&self.items)
            .any(|(at, items)| *at < items.len())
        {
            for (thread, all) in self.items.iter().enumerate() {
                let from = at[thread];
                let time = |item: &TraceItem| match item {
                    TraceItem::Execution(e) => e.leave,
                    TraceItem::Wait(w) => w.end,
                    _ => 0,
                };
                let n = all[from..]
                    .iter()
                    .take_while(|item| time(item) <= until)
                    .count();
                at[thread] += n;
                for items in all[from..from + n].chunks(items.max(1)) {
                    batches.push(TraceBatch {
                        thread: thread as ThreadIndex,
                        items: items.to_vec(),
                    });
                }
            }
            until += ticks;
        }
        batches
    }
}

/// A wait for a lock or another thread in `futex`.
pub fn futex(start: u64, end: u64, waker: usize, waker_block: Option<BlockId>) -> Wait {
    Wait {
        start,
        end,
        queued: 0,
        taken: 0,
        held: 0,
        preempted: false,
        system_call: Some(202),
        waker: Some(waker as ThreadIndex),
        waker_block,
    }
}

/// Threads in the order of their clocks.
pub fn earliest(clocks: &[u64]) -> usize {
    (0..clocks.len()).min_by_key(|at| clocks[*at]).unwrap()
}

/// The paper's Listing 1: `threads` threads compute for about `delay` ticks and then take a lock, which they
/// hold for `hold` ticks. The truth: the acquisition takes 60 ticks and the time that the lock is taken.
pub fn contended_lock(threads: usize, rounds: usize, delay: u64, hold: u64) -> Trace {
    let mut trace = Trace::new("./lock");
    let lock = trace.block("pthread_mutex_lock");
    let unlock = trace.block("pthread_mutex_unlock");
    let caller = trace.place("add", 17);
    let mut chance = Chance::new(1);
    let mut clocks: Vec<u64> = (0..threads).map(|t| 1_000 + 777 * t as u64).collect();
    for t in 0..threads {
        trace.thread(&format!("worker-{t}"), 0);
    }
    let (mut free, mut holder) = (0, 0);
    let mutex = 0x5000;
    for round in 0..threads * rounds {
        let t = earliest(&clocks);
        let ask = clocks[t];
        if round < threads {
            trace.items[t].push(TraceItem::Stack {
                block: lock,
                places: vec![caller],
            });
        }
        let fast = 60 + chance.below(3);
        let got = if free > ask + 2 * US {
            trace.wait(t, futex(ask + 40, free, holder, Some(unlock)));
            free + 400
        } else {
            free.max(ask) + fast
        };
        trace.execute_with(t, lock, ask, got - ask, mutex);
        let released = trace.execute_with(t, unlock, got + hold, 45, mutex);
        (free, holder) = (released, t);
        clocks[t] = released + delay / 2 + chance.below(delay.max(1));
    }
    trace.end();
    trace
}

/// Workers that read jobs from a pipe, which a master fills more slowly than they work.
pub fn pool(workers: usize, jobs: usize, every: u64) -> Trace {
    let mut trace = Trace::new("./pool");
    let read = trace.block("read");
    let write = trace.block("write");
    let work = trace.block("job");
    let mut chance = Chance::new(5);
    let master = trace.thread("master", 0);
    for t in 0..workers {
        trace.thread(&format!("worker-{t}"), 0);
    }
    let mut clocks = vec![1000; workers + 1];
    clocks[master] = 50 * US;
    for _ in 0..jobs {
        // Sometimes two come at once, and the second worker has not got to wait.
        let gap = if chance.below(10) == 0 {
            0
        } else {
            every / 2 + chance.below(every)
        };
        clocks[master] += gap;
        let written = trace.execute(master, write, clocks[master], 2 * US);
        clocks[master] = written;
        let t = 1 + earliest(&clocks[1..]);
        let ask = clocks[t];
        let leave = if written > ask + US {
            let wait = Wait {
                system_call: Some(0),
                ..futex(ask + 300, written, master, Some(write))
            };
            trace.wait(t, wait);
            written + 600
        } else {
            ask + 500 + chance.below(20)
        };
        let got = trace.execute(t, read, ask, leave - ask);
        clocks[t] = trace.execute(t, work, got + 50, 5 * US + chance.below(100));
    }
    trace.end();
    trace
}

/// What programs usually look like: requests that call functions, locks, copies, in several shapes.
pub fn realistic(threads: usize, requests: usize) -> Trace {
    let mut trace = Trace::new("./server --threads");
    let request = trace.block("handle_request");
    let parse = trace.block("parse");
    let lookup = trace.block("lookup");
    let compare = trace.block("compare");
    let lock = trace.block("pthread_mutex_lock");
    let unlock = trace.block("pthread_mutex_unlock");
    let copy = trace.block("memcpy");
    let mut chance = Chance::new(7);
    for t in 0..threads {
        trace.thread(&format!("worker-{t}"), 0);
        let mut clock = 1000 + 100 * t as u64;
        for _ in 0..requests {
            let enter = clock;
            clock = trace.execute(t, parse, clock + 60, 300 + chance.below(60));
            let mutex = 0x5000 + 64 * chance.below(4);
            let slow = if chance.below(50) == 0 {
                2000 + chance.below(9000)
            } else {
                0
            };
            clock = trace.execute_with(t, lock, clock + 40, 60 + chance.below(6) + slow, mutex);
            let start = clock + 30;
            clock = start + 20;
            for _ in 0..3 + chance.below(6) {
                clock = trace.execute(t, compare, clock, 50 + chance.below(8)) + 25;
            }
            clock = trace.execute(t, lookup, start, clock - start);
            clock = trace.execute_with(t, unlock, clock + 20, 48 + chance.below(4), mutex);
            let size = 32 << chance.below(5);
            clock = trace.execute(t, copy, clock + 20, 40 + size / 8 + chance.below(4));
            clock = trace.execute(t, request, enter, clock + 50 - enter) + 100;
        }
    }
    trace.end();
    trace
}

const MS: u64 = 1000 * US;

/// A made-up program: a thread that executes one block after another, and is slower while others run.
#[derive(Clone, Copy)]
pub struct Program {
    pub loss: f64,
    /// Loss in placebos: the method's error.
    pub error: f64,
    /// Mean time of an execution together.
    pub length: u64,
    pub intervals: u64,
    pub seed: u64,
    /// In one of so many intervals the thread waits for a held one.
    pub halts: u64,
    /// Time that the record of an execution takes.
    pub record: u64,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            loss: 0.0,
            error: 0.0,
            length: 10 * US,
            intervals: 200,
            seed: 1,
            halts: u64::MAX,
            record: 0,
        }
    }
}

impl Program {
    fn intervals(self) -> Vec<SoloInterval> {
        let mut chance = Chance::new(self.seed);
        let mut at = MS;
        let intervals = (0..self.intervals).map(|number| {
            at += 3 * MS + chance.below(3 * MS);
            let start = at;
            at += 6 * MS;
            SoloInterval {
                before: (start, start + 2 * MS),
                alone: (start + 2 * MS + 50 * US, start + 3 * MS + 50 * US),
                after: (start + 4 * MS, start + 6 * MS),
                placebo: number % 4 == 3,
                busy: 2,
            }
        });
        intervals.collect()
    }

    /// The trace, and how long the thread's executions took together, by its own clock.
    pub fn trace(self) -> Trace {
        let mut trace = Trace::new("solo");
        let outer = trace.block("outer");
        let inner = trace.block("inner");
        trace.thread("worker", 0);
        let mut chance = Chance::new(self.seed + 77);
        let mut now = 0;
        let intervals = self.intervals();
        let mut next = intervals.iter().peekable();
        let mut begun = intervals.iter().enumerate().peekable();
        let end = intervals.last().unwrap().after.1 + 20 * MS;
        let mut halted = u64::MAX;
        while now < end {
            let enter = now;
            for _ in 0..2 {
                let start = now;
                let mut work = (self.length / 4 + chance.below(self.length / 2)) as f64;
                // The work of an execution goes on faster where nobody disturbs it.
                while work > 0.0 {
                    while next.next_if(|interval| interval.alone.1 <= now).is_some() {}
                    let interval = next.peek();
                    let (speed, until) = match interval {
                        Some(i) if now >= i.alone.0 => {
                            let number =
                                intervals.partition_point(|other| other.alone.0 < i.alone.0);
                            if !i.placebo && (number as u64 + 1).is_multiple_of(self.halts) {
                                halted = now;
                                now = i.alone.1;
                                continue;
                            }
                            let gain = if i.placebo { self.error } else { self.loss };
                            (1.0 / (1.0 - gain), i.alone.1)
                        }
                        Some(i) => (1.0, i.alone.0),
                        None => (1.0, u64::MAX),
                    };
                    let takes = ((work / speed).ceil() as u64).clamp(1, until - now);
                    work -= takes as f64 * speed;
                    now += takes;
                }
                while let Some((_, interval)) = begun.next_if(|(_, i)| i.before.0 < now) {
                    trace.items[0].push(TraceItem::Solo(*interval));
                }
                if halted != u64::MAX {
                    let woken = intervals
                        .iter()
                        .find(|i| i.alone.1 > halted)
                        .unwrap()
                        .alone
                        .1;
                    trace.wait(0, futex(halted, woken, 0, None));
                    halted = u64::MAX;
                }
                now += self.record / 2;
                trace.execute(0, inner, start, now - start);
                now += self.record / 2;
            }
            now += self.record / 2;
            trace.execute(0, outer, enter, now - enter);
            now += self.record / 2;
        }
        trace.head.call_ticks = self.record;
        trace.end();
        trace
    }
}

/// Two functions that lose `loss` of their time to other threads.
pub fn alone(loss: f64) -> Trace {
    let program = Program {
        loss,
        length: 200 * US,
        intervals: 48,
        ..Program::default()
    };
    program.trace()
}
