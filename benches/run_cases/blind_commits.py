"""commits: each reading of a sensor is committed to a database by itself; repaired, all at the end. blind_commits.py [repaired]"""

import hashlib
import os
import sqlite3
import sys
import tempfile

REPAIRED = len(sys.argv) > 1


def reading_of(number):
    value = hashlib.sha256(str(number).encode())
    for _ in range(150):
        value.update(value.digest())
    return value.hexdigest()


def add_reading(database, number):
    database.execute("insert into readings values (?, ?)", (number, reading_of(number)))
    if not REPAIRED:
        database.commit()


with tempfile.TemporaryDirectory(prefix="run-case-", dir="/var/tmp") as directory:
    database = sqlite3.connect(os.path.join(directory, "readings.db"))
    database.execute("create table readings (number integer primary key, value text)")
    for number in range(1200):
        add_reading(database, number)
    database.commit()
    print(database.execute("select count(*) from readings").fetchone()[0])
    database.close()
