"""limits: the limits of a service are parsed for each call; repaired, once; doubled, for each second call. doubled_limits.py [repaired | doubled]"""

import collections
import configparser
import hashlib
import json
import sys

FORM = sys.argv[1] if len(sys.argv) > 1 else "slow"
CALLS = 5000
LIMITS = """
[DEFAULT]
burst = 20
window = 60
penalty = 5

[free]
calls = 100
bytes = 65536

[team]
calls = 2000
bytes = 1048576
burst = 200

[company]
calls = 50000
bytes = 67108864
burst = 2000
penalty = 1
"""
PLANS = ("free", "team", "company")


def parse_limits(text):
    """The limits of each plan, as numbers."""
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {plan: {name: int(value) for name, value in parser[plan].items()} for plan in parser.sections()}


class Limits:
    """What a plan allows, as the text says it."""

    def __init__(self, text, calls_between):
        self.text, self.calls_between, self.calls = text, calls_between, 0
        self.parsed = None

    def of_plan(self, plan):
        if self.calls % self.calls_between == 0:
            self.parsed = parse_limits(self.text)
        self.calls += 1
        return self.parsed[plan]


class Window:
    """The calls of a client in the last seconds."""

    def __init__(self):
        self.calls = collections.deque()
        self.bytes = 0

    def drop_old(self, now, seconds):
        while self.calls and self.calls[0][0] <= now - seconds:
            self.bytes -= self.calls.popleft()[1]

    def add(self, now, size):
        self.calls.append((now, size))
        self.bytes += size


def receive_call(number):
    """A call as a client sends it."""
    return json.dumps(
        {
            "client": f"client {number * 7919 % 60}",
            "plan": PLANS[number * 31 % 3],
            "at": number // 20,
            "articles": [{"number": (number + i) * 37 % 5000, "pieces": i % 4 + 1} for i in range(12)],
            "note": "as always, please " * (number % 3),
        }
    )


def read_call(text):
    call = json.loads(text)
    unknown = [key for key in call if key not in ("client", "plan", "at", "articles", "note")]
    if unknown:
        raise ValueError(f"unknown: {unknown}")
    return call, len(text)


def is_allowed(window, call, size, limits):
    window.drop_old(call["at"], limits["window"])
    allowed = len(window.calls) < limits["calls"] and window.bytes + size <= limits["bytes"]
    window.add(call["at"], size if allowed else size // limits["penalty"])
    return allowed


def price_of(articles):
    """The sum of the articles, cheaper by number."""
    total = 0
    for article in articles:
        base = 99 + article["number"] * 7 % 900
        for piece in range(article["pieces"]):
            total += base * (100 - 3 * piece) // 100
    return total


def sign_answer(answer):
    signed = json.dumps(answer, sort_keys=True).encode()
    for _ in range(60):
        signed = hashlib.sha256(signed).digest()
    return signed.hex()


def answer_call(call, allowed):
    if not allowed:
        return {"client": call["client"], "refused": True}
    ordered = sorted(call["articles"], key=lambda article: (-article["pieces"], article["number"]))
    return {"client": call["client"], "price": price_of(ordered), "first": ordered[0]["number"], "lines": len(ordered)}


def main():
    limits = Limits(LIMITS, {"slow": 1, "doubled": 2, "repaired": CALLS}[FORM])
    windows = collections.defaultdict(Window)
    refused, signs = 0, set()
    for number in range(CALLS):
        call, size = read_call(receive_call(number))
        allowed = is_allowed(windows[call["client"]], call, size, limits.of_plan(call["plan"]))
        refused += not allowed
        signs.add(sign_answer(answer_call(call, allowed))[:4])
    print(f"{refused} refused, {len(signs)} signs")


main()
