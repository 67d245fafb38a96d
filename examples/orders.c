/*
 * A shop's orders in SQLite, in memory: fills tables, asks, deletes. What do foreign keys cost?
 *
 *   cc -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls orders.c sqlite3.c -o orders -lpthread -ldl -lm
 *   vitalfew record -g -F 2000 -o on.vf  -- ./orders 1 3
 *   vitalfew record -g -F 2000 -o off.vf -- ./orders 0 3
 *   vitalfew bottlenecks on.vf --against off.vf --focus '^order_all$' --auto
 *
 * Usage: orders 0|1 [ROUNDS]: foreign keys off or on. docs/bottlenecks.md has the results.
 */
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *db;

static void run(const char *sql)
{
	char *error = 0;
	if (sqlite3_exec(db, sql, 0, 0, &error)) {
		fprintf(stderr, "%s: %s\n", sql, error);
		exit(1);
	}
}

static sqlite3_stmt *prepared(const char *sql)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(db, sql, -1, &statement, 0)) {
		fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
		exit(1);
	}
	return statement;
}

static void step(sqlite3_stmt *statement)
{
	while (sqlite3_step(statement) == SQLITE_ROW)
		;
	sqlite3_reset(statement);
}

static unsigned long seed = 88172645463325252ul;

static unsigned below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

enum { CUSTOMERS = 20000, ITEMS = 5000 };
static void fill(void)
{
	sqlite3_stmt *customer = prepared("INSERT INTO customer(name, city) VALUES(?, ?)");
	sqlite3_stmt *item = prepared("INSERT INTO item(name, price) VALUES(?, ?)");
	char text[32];
	for (int i = 0; i < CUSTOMERS; i++) {
		snprintf(text, sizeof text, "customer %u", below(1u << 30));
		sqlite3_bind_text(customer, 1, text, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int(customer, 2, below(300));
		step(customer);
	}
	for (int i = 0; i < ITEMS; i++) {
		snprintf(text, sizeof text, "item %u", below(1u << 30));
		sqlite3_bind_text(item, 1, text, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int(item, 2, below(10000));
		step(item);
	}
	sqlite3_finalize(customer);
	sqlite3_finalize(item);
}

static void order_all(int rounds)
{
	sqlite3_stmt *order = prepared("INSERT INTO sale(customer, day) VALUES(?, ?)");
	sqlite3_stmt *line = prepared("INSERT INTO line(sale, item, amount) VALUES(?, ?, ?)");
	for (int i = 0; i < rounds; i++) {
		sqlite3_bind_int(order, 1, 1 + below(CUSTOMERS));
		sqlite3_bind_int(order, 2, below(365));
		step(order);
		long sale = sqlite3_last_insert_rowid(db);
		for (unsigned n = 1 + below(6); n; n--) {
			sqlite3_bind_int64(line, 1, sale);
			sqlite3_bind_int(line, 2, 1 + below(ITEMS));
			sqlite3_bind_int(line, 3, 1 + below(9));
			step(line);
		}
	}
	sqlite3_finalize(order);
	sqlite3_finalize(line);
}

static void ask_all(int rounds)
{
	sqlite3_stmt *bill = prepared(
		"SELECT sum(amount * price) FROM line JOIN item ON item.id = line.item WHERE sale = ?");
	sqlite3_stmt *history = prepared(
		"SELECT s.day, i.name, l.amount FROM sale s JOIN line l ON l.sale = s.id"
		" JOIN item i ON i.id = l.item WHERE s.customer = ? ORDER BY s.day, i.name");
	sqlite3_stmt *named = prepared("SELECT count(*) FROM customer WHERE name LIKE ?");
	for (int i = 0; i < rounds; i++) {
		sqlite3_bind_int(bill, 1, 1 + below(100000));
		step(bill);
		sqlite3_bind_int(history, 1, 1 + below(CUSTOMERS));
		step(history);
		if (i % 1000 == 0) {
			sqlite3_bind_text(named, 1, "%77%", -1, SQLITE_STATIC);
			step(named);
		}
	}
	run("SELECT city, sum(amount * price) FROM customer c JOIN sale s ON s.customer = c.id"
	    " JOIN line l ON l.sale = s.id JOIN item i ON i.id = l.item GROUP BY city ORDER BY 2 DESC");
	sqlite3_finalize(bill);
	sqlite3_finalize(history);
	sqlite3_finalize(named);
}

int main(int count, char **arguments)
{
	int scale = count > 2 ? atoi(arguments[2]) : 1;
	sqlite3_open(":memory:", &db);
	run(count > 1 && *arguments[1] == '1' ? "PRAGMA foreign_keys=ON" : "PRAGMA foreign_keys=OFF");
	run("CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city INTEGER);"
	    "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER);"
	    "CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer, day INTEGER);"
	    "CREATE TABLE line(sale INTEGER REFERENCES sale, item INTEGER REFERENCES item, amount INTEGER);"
	    "CREATE INDEX line_sale ON line(sale); CREATE INDEX sale_customer ON sale(customer)");
	for (int turn = 0; turn < scale; turn++) {
		run("BEGIN");
		if (!turn)
			fill();
		order_all(100000);
		run("COMMIT");
		ask_all(50000);
		run("BEGIN; DELETE FROM line WHERE sale % 7 = 0; DELETE FROM sale WHERE id % 7 = 0; COMMIT");
	}
	sqlite3_close(db);
	return 0;
}
