"""fields: a file is read a byte at a time by the system; repaired, through a buffer. blind_fields.py [repaired]"""

import sys
import tempfile

REPAIRED = len(sys.argv) > 1


def write_rows(path):
    with open(path, "w") as rows:
        for number in range(40_000):
            rows.write(f"{number},name-{number},{number * 7}\n")


def read_field(rows):
    field = bytearray()
    while (byte := rows.read(1)) not in (b"", b",", b"\n"):
        field += byte
    return byte, bytes(field)


def sum_fields(path):
    total = 0
    with open(path, "rb", buffering=1 << 16 if REPAIRED else 0) as rows:
        end = None
        while end != b"":
            end, field = read_field(rows)
            total += len(field)
    return total


with tempfile.NamedTemporaryFile(prefix="run-case-", dir="/var/tmp") as file:
    write_rows(file.name)
    print(sum_fields(file.name))
