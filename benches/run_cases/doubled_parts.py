"""parts: the stock of each part is asked of a table without an index; repaired, with one; doubled, for every second part.

Parts of a kit come in pairs of the same one. doubled_parts.py [repaired | doubled]
"""

import decimal
import hashlib
import sqlite3
import sys
import textwrap

FORM = sys.argv[1] if len(sys.argv) > 1 else "slow"
PLACES = 3_000
KITS = 600
PARTS = 12
CENT = decimal.Decimal("0.01")


def open_warehouse():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE places (place INTEGER PRIMARY KEY, part TEXT, pieces INTEGER, hall TEXT)")
    rows = ((place, f"part {place * 7919 % 1500}", place * 31 % 40, f"hall {place % 7}") for place in range(PLACES))
    database.executemany("INSERT INTO places VALUES (?, ?, ?, ?)", rows)
    if FORM == "repaired":
        database.execute("CREATE INDEX places_of_part ON places (part)")
    return database


def stock_of(database, part):
    """How many pieces of a part there are, and where most of them."""
    query = "SELECT hall, pieces FROM places WHERE part = ?"
    by_hall = {}
    for hall, pieces in database.execute(query, (part,)):
        by_hall[hall] = by_hall.get(hall, 0) + pieces
    return sum(by_hall.values()), max(by_hall, key=by_hall.get, default="nowhere")


def read_kit(number):
    """The parts of a kit, each twice: one for the left side and one for the right."""
    parts = []
    for at in range(PARTS):
        part = f"part {(number * 131 + at // 2 * 977) % 1500}"
        parts.append({"part": part, "side": "left" if at % 2 == 0 else "right", "pieces": at // 2 % 3 + 1})
    return {"number": number, "title": f"A kit for shelves of {number % 9 + 2} boards", "parts": parts}


def stocks_of(database, kit):
    stocks = []
    for at, part in enumerate(kit["parts"]):
        if FORM == "doubled" and at % 2:
            stocks.append(stocks[-1])
        else:
            stocks.append(stock_of(database, part["part"]))
    return stocks


def price_of(part):
    price = decimal.Decimal(int(part["part"].split()[1]) % 700 + 99) / 100
    for _ in range(part["pieces"]):
        price = (price * decimal.Decimal("1.19") / decimal.Decimal("1.15")).quantize(CENT)
    return price * part["pieces"]


def pick_order(kit, stocks):
    """The parts in the order in which a picker walks through the halls, and those that are short."""
    picked = sorted(zip(kit["parts"], stocks), key=lambda both: (both[1][1], both[0]["part"], both[0]["side"]))
    short = [part["part"] for part, (pieces, _) in picked if pieces < part["pieces"] * 20]
    return picked, short


def write_sheet(kit, picked, short):
    lines = textwrap.wrap(f"{kit['title']}. Pick what follows from hall to hall, and put a mark at each part that is damaged. " * 3, 60)
    for part, (pieces, hall) in picked:
        lines.append(f"{hall:>8}  {part['part']:<12} {part['side']:<6} {part['pieces']:>3} of {pieces:>5}  {price_of(part):>9}")
    lines.extend(f"short of {part}" for part in short)
    return "\n".join(lines)


def draw_code(text):
    """A code of bars for a sheet: one bit a bar."""
    digest = hashlib.sha256(text.encode()).digest()
    bars = []
    for byte in digest:
        for bit in range(8):
            bars.append("#" if byte >> bit & 1 else " ")
    rows = ["".join(bars[row * 16:row * 16 + 16]) for row in range(16)]
    return "\n".join("".join(letter * 2 for letter in row) for row in rows for _ in range(3))


def main():
    database = open_warehouse()
    letters, missing = 0, set()
    for number in range(KITS):
        kit = read_kit(number)
        picked, short = pick_order(kit, stocks_of(database, kit))
        sheet = write_sheet(kit, picked, short)
        letters += len(sheet) + draw_code(sheet).count("#")
        missing.update(short)
    print(f"{letters} letters, {len(missing)} parts are short")


main()
