"""Runs the SQL queries of docs/format.md over a database with DuckDB.

usage: read_with_duckdb.py FORMAT.md DATABASE

Prints the rows of each query, as a list of lists of lists in JSON. Exits with 77 if DuckDB is missing.
"""

import json
import re
import sys

try:
    import duckdb
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)


def main(document, database):
    with open(document, encoding="utf-8") as file:
        queries = re.findall(r"^```sql\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
    quoted = database.replace("'", "''")
    results = [
        duckdb.sql(query.replace("'DB/", f"'{quoted}/")).fetchall() for query in queries
    ]
    json.dump(results, sys.stdout)


main(*sys.argv[1:])
