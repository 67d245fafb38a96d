# elevators: how long people wait for the lifts of an office building. elevators.py [repaired]
import logging
import random
import sys
from collections import deque

log = logging.getLogger("elevators")
REPAIRED = len(sys.argv) > 1 and sys.argv[1] == "repaired"
FLOORS = 24


class Person:
    __slots__ = ("start", "target", "since")

    def __init__(self, start, target, since):
        self.start = start
        self.target = target
        self.since = since


class Lift:
    def __init__(self, number):
        self.number = number
        self.floor = number * 3
        self.direction = 1
        self.people = []

    def describe(self):
        riders = ",".join(f"{p.start}>{p.target}" for p in self.people)
        return f"lift {self.number} at {self.floor:02d} going {'up' if self.direction > 0 else 'down'} [{riders}]"


class Building:
    def __init__(self, lifts, seed):
        self.lifts = [Lift(n) for n in range(lifts)]
        self.waiting = [deque() for _ in range(FLOORS)]
        self.random = random.Random(seed)
        self.now = 0
        self.served = 0
        self.waited = 0

    def describe(self):
        floors = " ".join(f"{f}:{len(q)}" for f, q in enumerate(self.waiting) if q)
        lifts = "; ".join(lift.describe() for lift in self.lifts)
        return f"t={self.now} waiting {floors} | {lifts}"

    def arrive(self):
        for _ in range(2):
            if self.random.random() < 0.16:
                start = 0 if self.random.random() < 0.5 else self.random.randrange(FLOORS)
                target = self.random.randrange(FLOORS)
                if target != start:
                    self.waiting[start].append(Person(start, target, self.now))

    def alight(self, lift):
        staying = []
        for p in lift.people:
            if p.target == lift.floor:
                self.served += 1
            else:
                staying.append(p)
        lift.people = staying

    def board(self, lift):
        queue = self.waiting[lift.floor]
        for _ in range(len(queue)):
            if len(lift.people) >= 12:
                break
            p = queue.popleft()
            if (p.target - lift.floor) * lift.direction > 0 or not lift.people:
                self.waited += self.now - p.since
                lift.people.append(p)
            else:
                queue.append(p)

    def wanted(self, lift):
        """Whether anybody ahead of a lift, in it or not, wants it to go on."""
        d = lift.direction
        if any((p.target - lift.floor) * d > 0 for p in lift.people):
            return True
        ahead = range(lift.floor + d, FLOORS if d > 0 else -1, d)
        return any(self.waiting[f] for f in ahead)

    def move(self, lift):
        if not self.wanted(lift):
            lift.direction = -lift.direction
        floor = lift.floor + lift.direction
        if 0 <= floor < FLOORS:
            lift.floor = floor

    def trace(self):
        if not REPAIRED or log.isEnabledFor(logging.DEBUG):
            log.debug("state: " + self.describe())

    def step(self):
        self.now += 1
        self.arrive()
        for lift in self.lifts:
            self.alight(lift)
            self.board(lift)
            self.move(lift)
        self.trace()


def simulate(lifts, seed, steps):
    b = Building(lifts, seed)
    for _ in range(steps):
        b.step()
    log.info("%d lifts: %d served", lifts, b.served)
    return b.served, b.waited


def main():
    logging.basicConfig(level=logging.WARNING)
    results = []
    for lifts in (4, 5, 6):
        served, waited = simulate(lifts, lifts, 22000)
        results.append(f"{lifts}: {waited / served:.2f}")
    print("average wait", ", ".join(results))


if __name__ == "__main__":
    main()
