"""quadratic: who was seen is looked for in a list; repaired, in a set. tuned_quadratic.py [repaired]"""

import sys

REPAIRED = len(sys.argv) > 1
COUNT = 9000


def parse_lines():
    return [f"name {i * 7919 % COUNT}".split() for i in range(COUNT)]


def find_duplicates(rows):
    seen = set() if REPAIRED else []
    add = seen.add if REPAIRED else seen.append
    found = 0
    for _, key in rows:
        if key in seen:
            found += 1
        else:
            add(key)
    return found


def sum_digits(rows):
    return sum(int(digit) for _, key in rows for _ in range(20) for digit in key)


ROWS = parse_lines()
print(find_duplicates(ROWS), sum_digits(ROWS))
