# postings: printed account statements are read back, and the postings are summed up. postings.py [repaired]
import re
import sys
from collections import defaultdict
from datetime import date

REPAIRED = len(sys.argv) > 1 and sys.argv[1] == "repaired"
POSTING = re.compile(r"(\d{2})\.(\d{2})\.(\d{4})\s(\w+)\s+(.*?)\s{2,}([\d.]+,\d{2})([SH])")
TRAILING = re.compile(r"\s+$")
REFERENCE = re.compile(r"\b[A-Z]{2}\d{4,}\b")
PARTNERS = ["Stadtwerke", "Miete Lager", "Paketdienst", "Versicherung", "Rechnung Kunde", "Erstattung"]


def statements(count):
    """Pages as the mainframe prints them: columns filled with blanks, some as wide as the widest remark."""
    x = 2024
    for n in range(count):
        lines = [f"KONTOAUSZUG {n:06d}" + " " * 30]
        for k in range(40):
            x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
            amount = x >> 12
            partner = PARTNERS[(x >> 8) % 6] + f" RE{x >> 10 & 0xFFFF:05d}"
            euro, cent = divmod(amount, 100)
            gap = 160 if k % 4 == 0 else 40
            lines.append(f"{1 + k % 28:02d}.{1 + n % 12:02d}.2023 {'UEB' if x & 64 else 'LAS'}   {partner:<30}"
                         f"{euro:>14,}".replace(",", ".") + f",{cent:02d}{'S' if x & 256 else 'H'}"
                         + " " * gap + "*" + " " * (x >> 20 & 7))
        yield "\n".join(lines)


def tidy(line):
    """A line without the blanks at its end."""
    if REPAIRED:
        return line.rstrip()
    return TRAILING.sub("", line)


def cents(text):
    return int(text.replace(".", "").replace(",", ""))


def parse(line):
    m = POSTING.match(line)
    if m is None:
        return None
    day, month, year, kind, text, amount, side = m.groups()
    value = cents(amount) * (-1 if side == "S" else 1)
    return date(int(year), int(month), int(day)), kind, text, value


def partner_of(text):
    return REFERENCE.sub("", text).strip().title()


class Ledger:
    def __init__(self):
        self.by_partner = defaultdict(int)
        self.by_day = defaultdict(int)
        self.by_kind = defaultdict(int)
        self.references = set()
        self.lines = 0

    def post(self, when, kind, text, value):
        self.by_partner[partner_of(text)] += value
        self.by_day[when.isocalendar()[:2] + (when.weekday(),)] += value
        self.by_kind[kind] += value
        self.references.update(REFERENCE.findall(text))
        self.lines += 1

    def worst_week(self):
        weeks = defaultdict(int)
        for (year, week, _), value in self.by_day.items():
            weeks[year, week] += value
        return min(weeks, key=weeks.get)


def read_statement(page, ledger):
    for raw in page.split("\n"):
        line = tidy(raw)
        posting = parse(line)
        if posting is not None:
            ledger.post(*posting)


def main():
    ledger = Ledger()
    for page in statements(1300):
        read_statement(page, ledger)
    best = max(ledger.by_partner, key=ledger.by_partner.get)
    print(ledger.lines, "postings", len(ledger.references), "references", best, ledger.worst_week())


if __name__ == "__main__":
    main()
