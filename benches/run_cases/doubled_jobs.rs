// jobs: a scheduler takes the next job from the front of a vector; repaired, of a deque; doubled, two jobs at once.
// doubled_jobs [repaired | doubled]
use std::collections::{BTreeMap, VecDeque};

const TENANTS: usize = 1200;
const TAKES: usize = 560_000;

#[derive(Clone)]
struct Job {
    tenant: usize,
    kind: Kind,
    due: u64,
    tries: u32,
    payload: [u64; 12],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Mail,
    Report,
    Cleanup,
}

enum Queue {
    Vector(Vec<Job>),
    Deque(VecDeque<Job>),
}

impl Queue {
    /// Moves the first jobs to a list. All others move up.
    #[inline(never)]
    fn take_jobs(&mut self, count: usize, taken: &mut Vec<Job>) {
        match self {
            Queue::Vector(jobs) => taken.extend(jobs.drain(..count)),
            Queue::Deque(jobs) => taken.extend(jobs.drain(..count)),
        }
    }

    #[inline(never)]
    fn put_back(&mut self, job: Job) {
        match self {
            Queue::Vector(jobs) => jobs.push(job),
            Queue::Deque(jobs) => jobs.push_back(job),
        }
    }
}

#[inline(never)]
fn first_jobs() -> Vec<Job> {
    let kinds = [Kind::Mail, Kind::Report, Kind::Cleanup];
    let job_of = |tenant: usize| Job {
        tenant,
        kind: kinds[tenant * 7 % 3],
        due: tenant as u64 * 13 % 977,
        tries: 0,
        payload: std::array::from_fn(|at| (tenant * 31 + at) as u64),
    };
    (0..TENANTS).map(job_of).collect()
}

#[inline(never)]
fn send_mail(job: &mut Job) -> usize {
    let mut text = String::with_capacity(256);
    for word in &job.payload {
        text.push_str(&word.to_string());
        text.push(' ');
    }
    job.payload[0] = job.payload[0].wrapping_add(text.len() as u64);
    text.len()
}

#[inline(never)]
fn make_report(job: &mut Job) -> usize {
    let mut sorted = job.payload;
    sorted.sort_unstable_by_key(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let median = sorted[sorted.len() / 2];
    job.payload[1] ^= median;
    format!("{median:>20} {:>20} {:>20}", sorted[0], sorted[11]).len()
}

#[inline(never)]
fn clean_up(job: &mut Job) -> usize {
    let mut state = job.due | 1;
    for round in 0..250 {
        state = 0xfedc_ba98_7654_3210 / state.max(1) + round;
    }
    job.payload[2] = state;
    (state % 100) as usize
}

#[derive(Default)]
struct Journal {
    by_kind: BTreeMap<Kind, (u64, usize)>,
    late: u64,
}

impl Journal {
    #[inline(never)]
    fn note(&mut self, job: &Job, amount: usize, now: u64) {
        let entry = self.by_kind.entry(job.kind).or_default();
        entry.0 += 1;
        entry.1 += amount;
        self.late += u64::from(job.due < now);
    }
}

#[inline(never)]
fn run_job(job: &mut Job, journal: &mut Journal, now: u64) {
    let amount = match job.kind {
        Kind::Mail => send_mail(job),
        Kind::Report => make_report(job),
        Kind::Cleanup => clean_up(job),
    };
    journal.note(job, amount, now);
    job.due = now + 500 + job.tenant as u64 % 1000;
    job.tries += 1;
}

fn main() {
    let form = std::env::args().nth(1).unwrap_or_default();
    let at_once = if form == "doubled" { 2 } else { 1 };
    let mut queue = match form.as_str() {
        "repaired" => Queue::Deque(first_jobs().into()),
        _ => Queue::Vector(first_jobs()),
    };
    let mut journal = Journal::default();
    let mut taken = Vec::with_capacity(at_once);
    for now in 0..(TAKES / at_once) as u64 {
        queue.take_jobs(at_once, &mut taken);
        for mut job in taken.drain(..) {
            run_job(&mut job, &mut journal, now);
            queue.put_back(job);
        }
    }
    for (kind, (count, amount)) in &journal.by_kind {
        println!("{kind:?}: {count} jobs, {amount}");
    }
    println!("{} late", journal.late);
}
