# dates: the same few dates are parsed wherever one is used; repaired, each of them once. latest_dates.py [repaired]
import datetime
import functools
import sys

REPAIRED = len(sys.argv) > 1


def parse_date(text):
    return datetime.datetime.strptime(text, "%Y-%m-%d")


if REPAIRED:
    parse_date = functools.cache(parse_date)


def digest(number, rounds):
    total = number
    for each in range(rounds):
        total = (total * 31 + each) % 1_000_003
    return total


def open_order(number, day):
    return parse_date(day).day + digest(number, 20)


def pay_order(number, day):
    return parse_date(day).month + digest(number, 30)


def ship_order(number, day):
    return parse_date(day).year + digest(number, 25)


def close_order(number, day):
    return parse_date(day).toordinal() + digest(number, 15)


HANDLERS = open_order, pay_order, ship_order, close_order
print(sum(HANDLERS[number % 4](number, f"2024-05-{number % 28 + 1}") for number in range(250_000)))
