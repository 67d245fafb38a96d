/* A mix of statements on a database in memory, for benches/instructions.py. */
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

static void run(sqlite3 *db, const char *sql)
{
	char *message = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", sql, message);
		exit(1);
	}
}

static int work(void)
{
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return 1;
	run(db, "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INT, amount REAL, note TEXT)");
	run(db, "BEGIN");
	run(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
		"INSERT INTO orders SELECT i, (i * 7919) % 997, (i * 104729 % 10007) / 7.0, "
		"'note ' || (i * 31 % 1009) FROM n");
	run(db, "COMMIT");
	run(db, "CREATE INDEX by_customer ON orders(customer)");
	for (int i = 0; i < 3; i++) {
		run(db, "SELECT customer, sum(amount), count(*) FROM orders GROUP BY customer ORDER BY 2 DESC");
		run(db, "SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id "
			"WHERE a.amount > 1200");
		run(db, "SELECT count(*) FROM orders WHERE note LIKE '%77%'");
		run(db, "UPDATE orders SET amount = amount * 1.01 WHERE customer % 10 = 3");
		run(db, "SELECT DISTINCT upper(note) FROM orders ORDER BY note");
	}
	run(db, "DELETE FROM orders WHERE id % 3 = 0");
	return sqlite3_close(db) != SQLITE_OK;
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;

	while (times-- > 0)
		if (work())
			return 1;
	return 0;
}
