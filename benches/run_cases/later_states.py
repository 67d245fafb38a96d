"""states: after each order, the whole state is encoded to see whether it has changed; repaired, the order's part alone. later_states.py [repaired]"""
import hashlib
import json
import sys

REPAIRED = len(sys.argv) > 1


def price_of(number):
    total = 0
    for step in range(300):
        total = (total * 31 + number * step) % 1000003
    return total


def has_changed(state, name, seen):
    looked_at = state[name] if REPAIRED else state
    text = json.dumps(looked_at, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()
    changed = seen.get(name) != mark
    seen[name] = mark
    return changed


def main():
    state = {f"customer {i}": {"orders": [], "total": 0} for i in range(400)}
    seen, changes = {}, 0
    for number in range(1800):
        name = f"customer {number * 7 % 400}"
        state[name]["orders"] = [number, number + 1]
        state[name]["total"] += price_of(number)
        changes += has_changed(state, name, seen)
    print(changes)


main()
