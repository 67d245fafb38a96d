"""coins: how a till can pay change is counted by recursion without a memory; repaired, with one; doubled, for every second sale.

Two sales in a row have the same change. doubled_coins.py [repaired | doubled]
"""

import collections
import csv
import functools
import io
import sys
import zlib

FORM = sys.argv[1] if len(sys.argv) > 1 else "slow"
SALES = 2400
COINS = (200, 100, 50, 20, 10, 5)


def count_ways(amount, first=0):
    """In how many ways coins from the first one on make up an amount."""
    if amount == 0:
        return 1
    if first == len(COINS):
        return 0
    ways = 0
    for rest in range(amount, -1, -COINS[first]):
        ways += count_ways(rest, first + 1)
    return ways


remembered = functools.lru_cache(maxsize=None)


class Till:
    def __init__(self):
        self.coins = collections.Counter({coin: 500 for coin in COINS})
        self.refills = 0

    def pay(self, amount):
        """The largest coins that there are."""
        paid = []
        for coin in COINS:
            while amount >= coin and self.coins[coin] > 0:
                self.coins[coin] -= 1
                amount -= coin
                paid.append(coin)
        if amount:
            self.refill()
        return paid

    def refill(self):
        self.refills += 1
        for coin in COINS:
            self.coins[coin] += 500


def write_sales():
    """The sales of a day, as the shop's system exports them."""
    text = io.StringIO()
    sheet = csv.writer(text)
    sheet.writerow(["number", "minute", "articles", "cents", "given"])
    for number in range(SALES):
        pair = number // 2
        cents = 1000 - (pair * 7919 % 22 + 35) * 5
        articles = " ".join(f"{(number * 31 + i * 977) % 4000}x{i % 3 + 1}" for i in range(30))
        sheet.writerow([number, number // 4, articles, cents, 1000])
    return text.getvalue()


def read_sales(text):
    for sale in csv.DictReader(io.StringIO(text)):
        articles = [article.split("x") for article in sale["articles"].split()]
        yield {
            "number": int(sale["number"]),
            "minute": int(sale["minute"]),
            "change": int(sale["given"]) - int(sale["cents"]),
            "articles": {int(article): int(pieces) for article, pieces in articles},
        }


def book_articles(stock, sale):
    """Which articles must be ordered again after a sale."""
    short = []
    for article, pieces in sale["articles"].items():
        stock[article] -= pieces
        if stock[article] < 5:
            short.append(article)
            stock[article] += 50
    return sorted(short)


def busy_minutes(by_minute):
    """Minutes with more sales than those around them have."""
    busy = []
    for minute in range(10, max(by_minute) - 10):
        around = sum(by_minute[other] for other in range(minute - 10, minute + 11)) / 21
        if by_minute[minute] > around:
            busy.append(minute)
    return busy


def print_receipt(sale, paid, ways):
    lines = [f"Sale {sale['number']}"]
    for article, pieces in sorted(sale["articles"].items()):
        lines.append(f"{article:>6} {pieces:>3} {'.' * (article % 20)}")
    lines.append(f"Change: {' + '.join(map(str, paid))}, one of {ways} ways")
    return "\n".join(lines)


def main():
    global count_ways
    if FORM == "repaired":
        count_ways = remembered(count_ways)
    till, stock = Till(), collections.Counter({article: 40 for article in range(4000)})
    by_minute, printed, ordered, ways = collections.Counter(), 0, 0, 0
    for sale in read_sales(write_sales()):
        if FORM != "doubled" or sale["number"] % 2 == 0:
            ways = count_ways(sale["change"])
        receipt = print_receipt(sale, till.pay(sale["change"]), ways)
        printed += len(zlib.compress(receipt.encode(), 9))
        ordered += len(book_articles(stock, sale))
        by_minute[sale["minute"]] += 1
    print(f"{printed} bytes printed, {ordered} ordered, {till.refills} refills, {len(busy_minutes(by_minute))} busy minutes")


main()
