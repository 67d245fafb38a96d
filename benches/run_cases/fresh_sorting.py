"""sorting: the median of all values is sought by sorting them again for each one; repaired, the list is kept in order. fresh_sorting.py [repaired]"""

import bisect
import sys

REPAIRED = len(sys.argv) > 1
COUNT = 4000


def median_of(values, value):
    if REPAIRED:
        bisect.insort(values, value)
        return values[len(values) // 2]
    values.append(value)
    return sorted(values, key=lambda each: each)[len(values) // 2]


def digits_of(value):
    return sum(int(digit) for _ in range(60) for digit in str(value))


VALUES = []
print(sum(median_of(VALUES, i * 7919 % 10007) + digits_of(i) for i in range(COUNT)))
