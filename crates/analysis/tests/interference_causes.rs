//! Causes found for waits, on made-up traces whose truth is known.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::{Analyser, Options};
use profile::*;
use simulate::*;

fn analyse(trace: &Trace) -> Interference {
    let mut analyser = Analyser::new(&trace.head.blocks, Options::default());
    for batch in trace.batches(TICKS_PER_SECOND / 20, usize::MAX) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

#[track_caller]
fn of<'a>(result: &'a Interference, name: &str) -> &'a BlockScore {
    let mut findings = result.findings.iter();
    findings.find(|finding| finding.name == name).expect(name)
}

/// Makes a trace of two threads that take turns in a block, in which they are asleep for 20 µs,
/// then ready for 40 µs. For `taken` of these microseconds other processes have the CPU.
fn woken(names: [&str; 2], taken: u64) -> Interference {
    let mut trace = Trace::new("./woken");
    let [outer, inner] = names.map(|name| trace.block(name, &[1]));
    for name in ["one", "two"] {
        trace.thread(name, 0);
    }
    for n in 0..1_000u64 {
        let (own, start) = ((n % 2) as usize, 1_000 + n * 100 * US);
        let wait = Wait {
            queued: 40 * US,
            taken: taken * US,
            ..futex(start + 300, start + 60 * US, 1 - own, None)
        };
        trace.wait(own, wait);
        trace.execute(own, inner, start + 200, 61 * US);
        trace.execute(own, outer, start + 100, 62 * US);
    }
    trace.end();
    analyse(&trace)
}

/// The wait for a CPU after a lock is part of the lock's wait: without the lock, the thread would
/// need no new CPU. A thread that is handed work waits for a CPU like any other.
#[test]
fn the_time_until_a_woken_thread_runs_is_that_of_the_lock() {
    for (name, cause) in [
        ("pthread_mutex_lock", CauseKind::Lock),
        ("pthread_barrier_wait", CauseKind::Barrier),
    ] {
        let result = woken(["update", name], 0);
        let first = &of(&result, name).causes[0];
        assert_eq!(first.kind, cause);
        assert!(first.share > 0.95, "{first:?}");
        assert!(first.evidence[0].contains("more until it ran again"));
    }
    let result = woken(["take", "pthread_cond_wait"], 0);
    let causes = &of(&result, "pthread_cond_wait").causes;
    assert_eq!(causes[0].kind, CauseKind::Scheduler, "{causes:?}");
}

/// A CPU that other processes have is a loss, even in a thread that no lock stops.
#[test]
fn a_cpu_that_other_processes_have_is_not_the_locks_loss() {
    let result = woken(["update", "pthread_mutex_lock"], 30);
    let causes = &of(&result, "pthread_mutex_lock").causes;
    let share = |kind: CauseKind| {
        let found = causes.iter().find(|cause| cause.kind == kind);
        found.map_or(0.0, |cause| cause.share)
    };
    // 20 of 60 µs.
    assert!((share(CauseKind::Lock) - 0.5).abs() < 0.02, "{causes:?}");
    let others = share(CauseKind::OtherProcesses);
    assert!((others - 0.5).abs() < 0.02, "{causes:?}");
}

/// Waits for a lock whose holder had no CPU because of other processes are due to these processes.
#[test]
fn waits_for_a_thread_without_a_cpu_are_the_machines() {
    for (held, standing) in [(0, Standing::Interference), (16, Standing::Machine)] {
        let mut trace = Trace::new("./held");
        let lock = trace.block("pthread_mutex_lock", &[1]);
        let unlock = trace.block("pthread_mutex_unlock", &[1]);
        for name in ["one", "two"] {
            trace.thread(name, 0);
        }
        for n in 0..1_000u64 {
            let (own, start) = ((n % 2) as usize, 1_000 + n * 100 * US);
            let wait = Wait {
                held: held * US,
                ..futex(start + 100, start + 20 * US, 1 - own, Some(unlock))
            };
            trace.wait(own, wait);
            trace.execute(own, lock, start, 21 * US);
        }
        trace.end();
        let result = analyse(&trace);
        let lock = of(&result, "pthread_mutex_lock");
        assert_eq!(lock.score.standing, standing, "{:?}", lock.causes);
        let expected = held as f64 / 20.0 * lock.score.sci.estimate;
        let machine = lock.breakdown.machine;
        assert!((machine - expected).abs() < 0.01, "{machine}, {expected}");
    }
}

/// A thread that spins in a barrier for a thread without a CPU loses nothing to the program.
#[test]
fn spinning_for_a_thread_without_a_cpu_is_the_machines() {
    for (taken, standing) in [(0, Standing::Interference), (80, Standing::Machine)] {
        let mut trace = Trace::new("./spinning");
        let work = trace.block("work", &[]);
        let barrier = trace.block("GOMP_barrier", &[]);
        for name in ["one", "two"] {
            trace.thread(name, 0);
        }
        for n in 0..2_000u64 {
            let start = 1_000 + n * 200 * US;
            let late = if n % 2 == 0 { 80 * US } else { 0 };
            trace.execute(0, work, start, 50 * US);
            trace.execute(0, barrier, start + 51 * US, late + US);
            if late > 0 {
                let stopped = Wait {
                    queued: late,
                    taken: taken * US,
                    preempted: true,
                    system_call: None,
                    waker: None,
                    ..futex(start + US, start + US + late, 0, None)
                };
                trace.wait(1, stopped);
            }
            trace.execute(1, work, start, 50 * US + late);
            trace.execute(1, barrier, start + 51 * US + late, US);
        }
        trace.end();
        let result = analyse(&trace);
        let barrier = of(&result, "GOMP_barrier");
        assert_eq!(barrier.score.standing, standing, "{:?}", barrier.causes);
    }
}

/// The allocator's lock is the allocator's, whichever function waits for it.
#[test]
fn a_lock_in_the_allocator_is_the_allocators() {
    let result = woken(["_int_free", "__lll_lock_wait_private"], 0);
    let first = &of(&result, "_int_free").causes[0];
    assert_eq!(first.kind, CauseKind::Allocator);
    // The C library's waiting function is not listed by itself.
    assert_eq!(result.findings[0].name, "_int_free");
    let inner = of(&result, "__lll_lock_wait_private");
    assert_eq!(inner.score.standing, Standing::Same);
    assert_eq!(inner.score.same_as.as_deref(), Some("_int_free"));
}

/// Makes a trace of two threads at a semaphore with room for one. The poster is stopped for 40 µs,
/// by the thread that it woke or by another program. The waiter is blocked for 20 µs, in `held` of
/// which other processes have the poster's CPU.
fn posted(by_woken: bool, held: u64) -> Interference {
    let mut trace = Trace::new("./posted");
    let [wait, post] = ["sem_wait", "sem_post"].map(|name| trace.block(name, &[1]));
    for name in ["one", "two"] {
        trace.thread(name, 0);
    }
    for n in 0..1_000u64 {
        let (own, start) = ((n % 2) as usize, 1_000 + n * 100 * US);
        let other = 1 - own;
        let blocked = Wait {
            held: held * US,
            ..futex(start + 100, start + 20 * US, other, Some(post))
        };
        trace.wait(own, blocked);
        trace.execute_with(own, wait, start, 21 * US, [64, 0, 0]);
        let from = start + 30 * US;
        let stopped = Wait {
            queued: 40 * US,
            preempted: true,
            system_call: by_woken.then_some(202),
            waker: by_woken.then_some(other as ThreadIndex),
            ..futex(from + 100, from + 100 + 40 * US, 0, None)
        };
        trace.wait(own, stopped);
        trace.execute_with(own, post, from, 41 * US, [64, 0, 0]);
    }
    trace.end();
    analyse(&trace)
}

/// A thread that gives a lock back and loses its CPU to the thread that it woke waits because of
/// the lock: its loss is listed with the waits for the lock.
#[test]
fn a_cpu_that_is_handed_over_with_a_lock_is_the_locks_loss() {
    let result = posted(true, 20);
    let wait = of(&result, "sem_wait");
    assert_eq!(wait.score.standing, Standing::Interference);
    assert_eq!(wait.causes[0].kind, CauseKind::Lock);

    let result = posted(true, 0);
    let wait = of(&result, "sem_wait");
    assert_eq!(result.findings[0].name, "sem_wait");
    assert_eq!(wait.causes[0].kind, CauseKind::Lock);
    // In each 200 µs of a thread, 20 and 40.
    let sci = wait.score.sci.estimate;
    assert!((sci - 0.3).abs() < 0.01, "{sci}");
    let post = of(&result, "sem_post");
    assert!(
        post.score.standing > Standing::Varies,
        "{:?}",
        post.score.standing
    );
    assert!(post.score.sci.estimate < 0.01);

    let result = posted(false, 0);
    let post = of(&result, "sem_post");
    assert_eq!(result.findings[0].name, "sem_wait");
    assert_eq!(post.causes[0].kind, CauseKind::Scheduler);
    assert!((of(&result, "sem_wait").score.sci.estimate - 0.1).abs() < 0.01);
    assert!((post.score.sci.estimate - 0.2).abs() < 0.01);
}

/// Two threads take turns at a condition, as with Python's lock. The main thread waits for each of
/// them to end, at a lock that they hold from their start and that it takes and gives back.
#[test]
fn who_waits_for_threads_to_end_takes_no_turns() {
    let mut trace = Trace::new("./python");
    let turn = trace.block("pthread_cond_timedwait", &[1]);
    let give = trace.block("pthread_cond_signal", &[1]);
    let join = trace.block("sem_wait", &[1]);
    let post = trace.block("sem_post", &[1]);
    for name in ["main", "one", "two"] {
        trace.thread(name, 0);
    }
    let end = 1_000 + 1_000 * 100 * US;
    for own in [1, 2] {
        trace.execute_with(own, join, 1_000, US, [own as u64, 0, 0]);
    }
    for n in 0..1_000u64 {
        let (own, start) = (1 + (n % 2) as usize, 2_000 + n * 100 * US);
        trace.wait(
            own,
            futex(start + 100, start + 90 * US, 3 - own, Some(give)),
        );
        trace.execute_with(own, turn, start, 91 * US, [64, 0, 0]);
        trace.execute_with(own, give, start + 92 * US, US, [64, 0, 0]);
    }
    for own in [1, 2] {
        trace.execute_with(own, post, end + 20 * US, US, [own as u64, 0, 0]);
    }
    for (worker, from) in [(1, 10 * US), (2, end + 30 * US)] {
        let until = from.max(end + 20 * US) + 5 * US;
        trace.wait(0, futex(from + 100, until, worker, Some(post)));
        trace.execute_with(0, join, from, until + US - from, [worker as u64, 0, 0]);
        trace.execute_with(0, post, until + 2 * US, US, [worker as u64, 0, 0]);
    }
    trace.end();
    let result = analyse(&trace);
    assert_eq!(result.findings[0].name, "pthread_cond_timedwait");
    assert_eq!(result.findings[0].causes[0].kind, CauseKind::Lock);
    let join = of(&result, "sem_wait");
    assert_eq!(join.score.standing, Standing::Idle, "{:?}", join.causes);
}

/// Makes a trace of two threads that are stopped for half of the time, in the part `taken` because
/// other processes had the CPUs.
fn stopped(taken: f64) -> Trace {
    let mut trace = Trace::new("./limited");
    let step = trace.block("step", &[]);
    for thread in 0..2 {
        trace.thread("worker", 0);
        for n in 0..1_000u64 {
            let start = 1_000 + n * 200 * US;
            let away = if n % 2 == 0 { 190 * US } else { 0 };
            if away > 0 {
                let wait = Wait {
                    queued: away,
                    taken: (taken * away as f64) as u64,
                    preempted: true,
                    system_call: None,
                    waker: None,
                    ..futex(start + 500, start + 500 + away, 0, None)
                };
                trace.wait(thread, wait);
            }
            trace.execute(thread, step, start, away + US);
        }
    }
    trace.end();
    trace
}

/// Losses of threads to other processes are the machine's; losses to too many threads for the CPUs
/// are the program's.
#[test]
fn other_processes_are_told_from_too_few_cpus() {
    let hog = TracedCpuUser {
        pid: 7,
        name: "hog".into(),
        target: false,
        ns: 1_000_000,
    };
    let own = TracedCpuUser {
        pid: 8,
        name: "limited".into(),
        target: true,
        ns: 2_000_000,
    };
    for (taken, kind, standing) in [
        (0.0, CauseKind::Scheduler, Standing::Interference),
        (0.25, CauseKind::Scheduler, Standing::Interference),
        (0.99, CauseKind::OtherProcesses, Standing::Machine),
        (1.0, CauseKind::OtherProcesses, Standing::Machine),
    ] {
        let mut trace = stopped(taken);
        trace.head.cpu_users = vec![own.clone(), hog.clone()];
        let result = analyse(&trace);
        let step = of(&result, "step");
        assert_eq!((step.causes[0].kind, step.score.standing), (kind, standing));
        let (sci, machine) = (step.score.sci.estimate, step.breakdown.machine);
        assert!((machine - taken * sci).abs() < 0.02 * sci, "{machine}");
        let hindered = step.score.hindered;
        assert!((hindered + machine - sci).abs() < 0.03 * sci, "{hindered}");
        // The score is the paper's (§2), for any reason of the stop.
        assert!((sci - 0.475).abs() < 0.01, "{sci}");
        // 2 x 500 stops of 190 µs.
        let ready = result.machine.ready_ns;
        assert!((ready - 1_000.0 * 190_000.0).abs() < 1e3, "{ready}");
        assert!((result.machine.taken_ns - taken * ready).abs() < 1e3);
        assert_eq!(result.machine.others, vec![hog.clone()]);
        let said = step.causes[0].evidence.join(" ");
        let who = match kind {
            CauseKind::Scheduler => "limited (of the program itself) 67 %, hog (process 7) 33 %",
            _ => "hog (process 7) 100 %",
        };
        assert!(said.contains(who), "{said}");
    }
}

/// Only the standings of the program's own threads are claims about it.
#[test]
fn what_the_machine_took_is_no_claim_about_the_program() {
    for (taken, claims) in [(0.0, 1), (1.0, 0)] {
        let result = analyse(&stopped(taken));
        let claimed = analysis::interference::findings(&result.findings, &[]);
        assert_eq!(claimed.len(), claims);
    }
}

#[test]
fn the_limit_of_a_control_group_is_told_from_too_few_cpus() {
    let mut trace = stopped(0.0);
    // All of it: 1,000 stops of 190 µs.
    trace.head.throttled = Some(Throttled {
        group: "small".into(),
        times: 9,
        ns: 1_000 * 190_000,
    });
    let result = analyse(&trace);
    let step = of(&result, "step");
    let first = &step.causes[0];
    assert_eq!((first.kind, first.measured), (CauseKind::Throttle, true));
    assert!(first.evidence[0].contains("control group small"));
    assert_eq!(step.score.standing, Standing::Machine);
    assert_eq!(result.machine.limit, trace.head.throttled);
    assert!(result.machine.throttled_ns > 0.99 * result.machine.ready_ns);
}

/// Waits of threads that hardly ever work matter to nobody.
#[test]
fn helpers_that_are_seldom_needed_are_idle() {
    for (work, standing) in [(2, Standing::Idle), (40, Standing::ForWork)] {
        let mut trace = Trace::new("./helpers");
        let wait = trace.block("pthread_cond_wait", &[]);
        let signal = trace.block("pthread_cond_signal", &[]);
        for name in ["main", "helper", "helper"] {
            trace.thread(name, 0);
        }
        let mut free = [1_000; 3];
        for n in 0..1_000u64 {
            let (helper, end) = (1 + (n % 2) as usize, 1_000 + (n + 1) * 100 * US);
            trace.execute(0, signal, end - 100, 90);
            trace.wait(helper, futex(free[helper] + 50, end, 0, Some(signal)));
            trace.execute(helper, wait, free[helper], end + 20 - free[helper]);
            free[helper] = end + work * US;
        }
        trace.end();
        let result = analyse(&trace);
        assert_eq!(
            of(&result, "pthread_cond_wait").score.standing,
            standing,
            "{work}"
        );
    }
}

/// A server that waits for the requests of one computing client is idle, also if the client waits
/// for the answers in the same function.
#[test]
fn who_serves_a_single_client_is_idle() {
    for (clients, standing) in [(1, Standing::Idle), (2, Standing::ForWork)] {
        let mut trace = Trace::new("./requests");
        let read = trace.block("read", &[1]);
        let write = trace.block("write", &[1]);
        trace.thread("server", 0);
        for _ in 0..clients {
            trace.thread("client", 0);
        }
        for n in 0..1_000u64 {
            let start = 1_000 + n * 200 * US;
            for client in 1..=clients {
                // The client computes for 150 µs, then waits for 10 µs; two clients wait for the
                // server, which computes.
                let (asks, answers) = match clients {
                    1 => (start + 150 * US, start + 160 * US),
                    _ => (start + 20 * US, start + 190 * US),
                };
                trace.execute(client, write, asks - US, US);
                let answered = Wait {
                    system_call: Some(0),
                    ..futex(asks + 100, answers, 0, Some(write))
                };
                trace.wait(client, answered);
                trace.execute_with(client, read, asks + 50, answers - asks, [3, 0, 0]);
            }
            let (from, until) = match clients {
                1 => (start, start + 150 * US),
                _ => (start, start + 20 * US),
            };
            let asked = Wait {
                system_call: Some(0),
                ..futex(from + 100, until, 1, Some(write))
            };
            trace.wait(0, asked);
            trace.execute_with(0, read, from + 50, until - from, [4, 0, 0]);
        }
        trace.end();
        let result = analyse(&trace);
        assert_eq!(
            of(&result, "read").score.standing,
            standing,
            "{clients} clients"
        );
    }
}

/// Long executions meet others more often than short ones. If an argument determines their length,
/// that is no disturbance.
#[test]
fn work_by_argument_is_not_disturbed_by_others() {
    for (by_argument, kind, standing) in [
        (true, CauseKind::Work, Standing::Varies),
        (false, CauseKind::Memory, Standing::Interference),
    ] {
        let mut trace = Trace::new("./compute");
        let compute = trace.block("compute", &[1]);
        for thread in 0..2 {
            trace.thread("worker", 0);
            // Short ones never meet, long ones nearly always do.
            let mut at = 1_000 + thread as u64 * 3 * US;
            for n in 0..40_000u64 {
                let long = n % 20 >= 10;
                let (length, pause) = if long { (19, 1) } else { (2, 18) };
                let argument = if long == by_argument { 19_000 } else { 2_000 };
                let argument = if by_argument { argument } else { 1_000 + n % 7 };
                trace.execute_with(thread, compute, at, length * US, [argument, 0, 0]);
                at += (length + pause) * US;
            }
        }
        trace.end();
        let result = analyse(&trace);
        let found = of(&result, "compute");
        assert_eq!(
            (found.causes[0].kind, found.score.standing),
            (kind, standing)
        );
    }
}
