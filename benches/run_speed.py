#!/usr/bin/env python3
"""run_speed.py VITALFEW: how soon `run` says something, and what its phases cost the program.

Two programs of some 2 s, of one thread and of two: time from the start to the first finding and to the whole list, with the default budget of 60 s. For the one of two threads also how long
each of its runs takes beside runs without vitalfew, under `run` and under each phase's own command: it appends its duration to a file. SPEED_ROUNDS (3) is how often.
"""

import json
import os
import re
import statistics
import subprocess
import time

from bench import TEMPORARY, VITALFEW, head, row, title, verdict

ROUNDS = int(os.environ.get("SPEED_ROUNDS", "3"))
FIRST, WHOLE = 15, 60
TOOK = TEMPORARY / "took"
RESULT = TEMPORARY / "result.json"

# Items are worked out outside of a lock and added within: a third of the time it is held.
SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long total;
__attribute__((noinline)) static unsigned long work_out(unsigned long value, int steps) {
  for (int i = 0; i < steps; i++) value = 0xfedcba9876543210u / (value | 1) + i;
  return value;
}
__attribute__((noinline)) static void add_item(unsigned long value) {
  pthread_mutex_lock(&lock);
  total += work_out(value, 5000);
  pthread_mutex_unlock(&lock);
}
static void *work(void *first) {
  for (unsigned long i = 0; i < ITEMS; i++) add_item(work_out(i + (unsigned long)first, 10000));
  return 0;
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(int n, char **words) {
  double begin = now();
  pthread_t threads[2];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
  FILE *file = n > 1 ? fopen(words[1], "a") : 0;
  if (file) { fprintf(file, "%f\\n", now() - begin); fclose(file); }
  return total == 42;
}
"""


def compiled(threads, items):
    program = TEMPORARY / f"items-{threads}"
    flags = ["-O2", "-g", "-pthread", f"-DTHREADS={threads}", f"-DITEMS={items}"]
    subprocess.run(["cc", *flags, "-x", "c", "-o", program, "-"], input=SOURCE, text=True, check=True)
    return program


def durations(*words):
    """How long each run of the program took by itself while a command ran it."""
    TOOK.unlink(missing_ok=True)
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [float(line) for line in TOOK.read_text().splitlines()]


def time_to_say(program):
    begin = time.monotonic()
    words = [VITALFEW, "run", "-o", RESULT, "--", program, TOOK]
    run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    first = next((time.monotonic() - begin for line in run.stderr if "so far:" in line), float("inf"))
    run.stderr.read()
    run.wait()
    return first, time.monotonic() - begin


def show_speed(programs):
    title("`vitalfew run`: start to the first finding, and to the whole list")
    head("threads", "first finding, s", f"goal {FIRST} s", "whole list, s", f"goal {WHOLE} s")
    for threads, program in programs.items():
        firsts, wholes = zip(*(time_to_say(program) for _ in range(ROUNDS)))
        first, whole = statistics.median(firsts), statistics.median(wholes)
        row(threads, f"{first:.1f}", verdict(first, FIRST), f"{whole:.1f}", verdict(whole, WHOLE))


def of_phases(program):
    """The runs of each phase of one `run`, in its order: sampled ones, the one that is traced, those with experiments."""
    took = durations(VITALFEW, "run", "-q", "-o", RESULT, "--", program, TOOK)
    sampling, *_ = (asked["had"] for asked in json.loads(RESULT.read_text())["asked"])
    several = re.search(r"first of (\d+) runs", sampling)
    sampled = int(several[1]) if several else 1
    return {"sampling": took[:sampled], "interference": took[sampled : sampled + 1], "experiments": took[sampled + 1 :]}


def show_overhead(program):
    title("What each phase of `run` costs the program, beside the phase's own command")
    head("phase", "in `run`", "its own command", "runs")
    commands = {
        "sampling": ["record", "-q", "--off-cpu", "--per-thread", "-o", TEMPORARY / "own.vf"],
        "interference": ["interference", "run", "-q"],
        "experiments": ["causal", "run", "-q", "--for", "20s"],
    }
    alone, asked, own = [], {phase: [] for phase in commands}, {phase: [] for phase in commands}
    for _ in range(ROUNDS):
        alone += durations(program, TOOK)
        for phase, took in of_phases(program).items():
            asked[phase] += took
        for phase, words in commands.items():
            own[phase] += durations(VITALFEW, *words, "--", program, TOOK)
    plain = statistics.median(alone)
    for phase in commands:
        cells = [f"{100 * (statistics.median(took) / plain - 1):+.1f} %" if took else "-" for took in (asked[phase], own[phase])]
        row(phase, *cells, f"{len(asked[phase])} and {len(own[phase])}")
    print(f"\nWithout vitalfew: {plain:.2f} s, median of {len(alone)}")


def main():
    programs = {threads: compiled(threads, items) for threads, items in ((1, 16_000), (2, 12_000))}
    show_speed(programs)
    show_overhead(programs[2])


main()
